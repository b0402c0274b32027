use super::*;
use crate::client::{Ack, ClientPhase, ClientSeen};

fn by_client() -> Verb {
    Verb::Prepare {
        mode: Mode::Client,
        save_signal: None,
        baseline_step: Some(40),
        hard_ms: 60_000,
    }
}

impl Bench {
    /// What the two processes of the worker say.
    fn hear(&mut self, drain: &str, phases: [Option<ClientPhase>; 2]) {
        let ack = |phase| Ack {
            drain: drain.parse().unwrap(),
            phase,
            step: Some(50),
            detail: "disk full".to_owned(),
        };
        let ranks = (0..2).zip(phases).map(|(rank, phase)| (rank, phase.map(ack))).collect();
        let client = ClientSeen { ranks, problem: None };
        self.give(Input::Looked { worker: worker(), client, launcher_grace_ms: None });
    }

    /// Asked through its files.
    fn asked() -> Self {
        let mut bench = Self::new();
        bench.hear("drain-1", [None, None]);
        bench.order(by_client());
        bench.order(Verb::Commit);
        bench.log();
        bench
    }
}

const SAVING: Option<ClientPhase> = Some(ClientPhase::Saving);
const SAVED: Option<ClientPhase> = Some(ClientPhase::Saved);
const FAILED: Option<ClientPhase> = Some(ClientPhase::Failed);

#[test]
fn a_worker_that_has_not_said_hello_cannot_be_asked_through_files() {
    let mut bench = Bench::new();
    bench.order(by_client());
    assert_eq!(bench.log(), ["refused no-client"]);
}

#[test]
fn a_client_drain_writes_save_after_the_journal_and_ends_the_worker_once_it_is_parked() {
    let mut bench = Bench::new();
    bench.hear("drain-1", [None, None]);
    bench.order(by_client());
    bench.order(Verb::Commit);
    assert_eq!(
        bench.log(),
        [
            "journal prepared",
            "armed at Some(40)",
            "journal signalled",
            "tell save drain-1",
            "signalled",
            "armed at Some(40)"
        ]
    );
    bench.hear("drain-1", [SAVING, None]);
    assert_eq!(bench.log(), ["journal signalled"], "a sign of the save");
    bench.hear("drain-1", [SAVED, SAVING]);
    bench.scan(&[40, 50], None);
    assert_eq!(bench.log(), ["journal durable", "durable 50"]);
    bench.order(RELEASE);
    assert_eq!(bench.log(), ["journal releasing"], "rank 1 may be in a collective");
    bench.hear("drain-1", [SAVED, SAVED]);
    assert_eq!(bench.log(), ["journal releasing", "signal 15 Main"]);
}

#[test]
fn a_worker_that_does_not_park_is_ended_all_the_same() {
    let mut bench = Bench::asked();
    bench.scan(&[40, 50], None);
    bench.order(RELEASE);
    bench.log();
    bench.wait(1_999);
    assert_eq!(bench.log(), [""; 0]);
    bench.wait(1);
    assert_eq!(bench.log(), ["journal releasing", "signal 15 Main"]);
}

#[test]
fn a_claim_alone_is_no_checkpoint_and_a_lie_is_found_out() {
    let mut bench = Bench::asked();
    bench.hear("drain-1", [SAVED, SAVED]);
    assert_eq!(bench.log(), ["journal signalled"]);
    bench.wait(14_999);
    assert_eq!(bench.log(), [""; 0]);
    bench.wait(1);
    assert_eq!(bench.log(), ["journal failed", "failed claim-not-confirmed"]);
    bench.order(Verb::Abort);
    assert_eq!(bench.log(), ["journal aborted", "tell continue drain-1", "signalled", "aborted"]);
}

#[test]
fn a_worker_that_says_it_could_not_save_is_believed() {
    let mut bench = Bench::asked();
    bench.hear("drain-1", [SAVED, FAILED]);
    assert_eq!(bench.log(), ["journal failed", "failed client-failed"]);
    bench.wait(10_000);
    assert_eq!(bench.log(), ["tell continue drain-1"], "nobody says what comes next: it goes on");
}

#[test]
fn a_worker_that_has_saved_goes_on_when_nobody_comes_for_it() {
    let mut bench = Bench::asked();
    bench.hear("drain-1", [SAVED, SAVED]);
    bench.scan(&[40, 50], None);
    bench.log();
    bench.wait(9_999);
    assert_eq!(bench.log(), [""; 0]);
    bench.wait(1);
    assert_eq!(bench.log(), ["tell continue drain-1"]);
}

#[test]
fn words_about_another_drain_do_not_count() {
    let mut bench = Bench::asked();
    bench.hear("drain-0", [FAILED, SAVED]);
    assert_eq!(bench.log(), [""; 0]);
}

#[test]
fn s17_an_asking_without_any_sign_of_a_save_is_told_once_and_watched_on() {
    let mut bench = Bench::asked();
    bench.wait(14_999);
    assert_eq!(bench.log(), [""; 0]);
    bench.wait(1);
    assert_eq!(bench.log(), ["journal signalled", "no progress in 15000"]);
    bench.wait(5_000);
    assert_eq!(bench.log(), [""; 0]);
    bench.scan(&[40, 50], None);
    assert_eq!(bench.log(), ["journal durable", "durable 50"], "late is better than never");
}

#[test]
fn a_save_that_has_begun_may_take_its_time() {
    let mut bench = Bench::asked();
    bench.scan(&[40], Some(50));
    assert_eq!(bench.log(), ["journal signalled"]);
    bench.wait(30_000);
    assert_eq!(bench.log(), [""; 0]);
}

#[test]
fn after_a_restart_the_file_is_written_again_and_a_worker_taken_back_goes_on() {
    let mut bench = Bench::asked();
    bench.restart();
    assert_eq!(bench.log(), ["tell save drain-1"]);
    bench.order(Verb::Abort);
    bench.log();
    bench.restart();
    assert_eq!(bench.log(), ["tell continue drain-1"]);
}

#[test]
fn a_newer_drain_has_the_last_word_over_one_that_was_taken_back_unheard() {
    let mut bench = Bench::asked();
    let facts = TargetFacts { alive: true, ..TargetFacts::default() };
    bench.order_with(2, "drain-2", by_client(), facts.clone());
    assert_eq!(
        bench.log(),
        ["journal aborted", "tell continue drain-1", "journal prepared", "armed at Some(40)"]
    );
    bench.order_with(2, "drain-2", Verb::Commit, facts);
    bench.log();
    bench.restart();
    assert_eq!(bench.log(), ["tell save drain-2"], "what is over is not written anew");
}

#[test]
fn a_worker_that_was_left_parked_is_not_asked_again_after_a_restart() {
    let mut bench = Bench::asked();
    bench.hear("drain-1", [SAVED, SAVED]);
    bench.scan(&[40, 50], None);
    bench.restart();
    assert_eq!(bench.log().last().unwrap(), "tell save drain-1", "its release may be on its way");
    bench.wait(10_000);
    bench.log();
    bench.restart();
    assert_eq!(bench.log(), ["tell continue drain-1"]);
}

#[test]
fn a_drain_that_is_over_is_not_told_again_after_a_restart() {
    let mut bench = Bench::asked();
    bench.scan(&[40, 50], None);
    bench.order(RELEASE);
    bench.wait(2_000);
    bench.give(Input::Exited { worker: worker(), exit: Exit::Unknown });
    bench.give(Input::Holders { worker: worker(), processes: 0, busy_devices: BTreeSet::new() });
    assert_eq!(bench.log().last().unwrap(), "freed killed=false");
    bench.restart();
    assert!(!bench.log().iter().any(|line| line.starts_with("tell ")));
}

/// The upload takes longer than a claim may stay unseen: what is complete here and not yet there is no lie.
#[test]
fn a_claim_whose_checkpoint_is_on_its_way_to_remote_storage_is_no_lie() {
    let mut bench = Bench::asked();
    bench.hear("drain-1", [SAVED, SAVED]);
    let pending = IncompleteReason::RemotePending {
        path: "/remote/checkpoint-50".to_owned(),
        detail: "it is not there".to_owned(),
    };
    let mut seen = scan(&[40], Some(50));
    seen.incomplete[0].reason = pending;
    bench.give(Input::Scanned { worker: worker(), scan: seen });
    bench.log();
    bench.wait(40_000);
    assert_eq!(bench.log(), [""; 0]);
    bench.scan(&[40, 50], None);
    assert_eq!(bench.log(), ["journal durable", "durable 50"]);
}
