//! Workers that end while they are asked through their files.

use super::*;
use crate::drain::Mode;
use crate::reason::Ms;

const ENDED: &str = "ended-without-save";

fn failed(code: &str) -> EventKind {
    EventKind::SaveFailed { code: code.to_owned(), detail: String::new() }
}

/// A gang of `ranks` on one node each that has a client, asked to save for another workload.
fn asked(ranks: u32) -> Bench {
    let nodes = ["a", "b"];
    let count = usize::try_from(ranks).unwrap();
    let mut bench = Bench::new(&nodes[..count], u64::from(ranks) * 2);
    bench.has_client = true;
    bench.submit(&Bench::spec("train", 10, ranks, 2), &nodes[..count]);
    bench.start("train");
    bench.now += 600_000;
    for rank in 0..ranks {
        bench.report("train", rank, Some(40), Some((1_000, 500, 600_000)));
    }
    bench.now += 300_000;
    bench.submit(&Bench::spec("serve", 30, ranks, 2), &nodes[..count]);
    for rank in 0..ranks {
        bench.event("drain-1", "train", rank, ARMED);
    }
    for rank in 0..ranks {
        bench.event("drain-1", "train", rank, EventKind::Signalled);
    }
    let drain = bench.drain("drain-1");
    assert_eq!((drain.plan.mode, drain.state), (Mode::Client, DrainState::Saving));
    bench.sent();
    bench
}

#[test]
fn a_worker_that_ends_well_without_a_checkpoint_was_done() {
    let mut bench = asked(1);
    assert!(bench.exit("train", 1, 0, Exit::Code(0)).0, "whether it has saved is not known yet");
    bench.event("drain-1", "train", 0, EventKind::Exited(Exit::Unknown));
    assert_eq!(bench.phase("train"), Phase::Draining);
    bench.event("drain-1", "train", 0, failed(ENDED));
    assert_eq!(bench.phase("train"), Phase::Succeeded);
    let drain = bench.drain("drain-1");
    let last = drain.history.last().map(|t| t.reason.clone());
    assert_eq!((drain.state, last), (DrainState::Aborted, Some(Reason::FinishedMeanwhile)));
    assert!(!bench.workload("train").profile.client_unproven, "it was not tried");
}

#[test]
fn a_worker_that_ends_well_after_a_checkpoint_for_the_drain_was_drained() {
    let mut bench = asked(1);
    bench.exit("train", 1, 0, Exit::Code(0));
    bench.event("drain-1", "train", 0, EventKind::Exited(Exit::Unknown));
    bench.event("drain-1", "train", 0, durable(checkpoint(41)));
    assert_eq!(bench.sent(), ["a:release"]);
    bench.event("drain-1", "train", 0, freed());
    let train = bench.workload("train");
    assert_eq!((train.phase, train.resume_step), (Phase::Pending, Some(41)));
}

#[test]
fn a_worker_that_fails_while_it_is_asked_resumes_from_the_checkpoint_before() {
    for exit in [Exit::Code(1), Exit::Signal(11)] {
        let mut bench = asked(1);
        bench.exit("train", 1, 0, exit);
        bench.event("drain-1", "train", 0, EventKind::Exited(Exit::Unknown));
        bench.event("drain-1", "train", 0, failed(ENDED));
        assert_eq!(bench.sent(), ["a:release"]);
        bench.event("drain-1", "train", 0, freed());
        let train = bench.workload("train");
        assert_eq!((train.phase, train.resume_step), (Phase::Pending, Some(40)));
    }
}

#[test]
fn a_gang_of_which_one_rank_is_done_goes_on_to_its_end() {
    let mut bench = asked(2);
    bench.exit("train", 1, 1, Exit::Code(0));
    let (node, worker) = bench.worker("train", 1);
    bench.event_from(&node, "drain-1", worker.clone(), EventKind::Exited(Exit::Unknown));
    bench.event_from(&node, "drain-1", worker, failed(ENDED));
    assert_eq!(bench.sent(), ["a:abort", "b:abort"]);
    assert_eq!(bench.phase("train"), Phase::Running);
    assert_eq!(bench.exit("train", 1, 0, Exit::Code(0)), (false, "succeeded"));
}

#[test]
fn a_worker_that_was_done_at_the_deadline_is_not_started_again() {
    let mut bench = asked(1);
    bench.exit("train", 1, 0, Exit::Code(0));
    bench.wait(600_000);
    assert_eq!(bench.phase("train"), Phase::Succeeded);
}

/// Nothing trains while it saves on request and parks: that is idle, not lost.
#[test]
fn time_held_for_a_save_that_was_asked_for_is_told_as_idle() {
    let mut bench = asked(1);
    bench.now += 4_500;
    bench.event("drain-1", "train", 0, durable(checkpoint(41)));
    bench.now += 300;
    bench.event("drain-1", "train", 0, freed());
    let account = bench.drain("drain-1").account.clone();
    // The save takes 500 ms, the rest of the 4,500 was work.
    assert_eq!((account.lost_device_ms, account.idle_device_ms), (0, 2 * 800));

    let mut bench = asked(1);
    let drain = bench.drain("drain-1").clone();
    assert_eq!(drain.history.last().map(|t| t.state), Some(DrainState::Saving));
    bench.event("drain-1", "train", 0, failed("client-failed"));
    assert_eq!(bench.drain("drain-1").account.idle_device_ms, 0, "it goes on");
}

#[test]
fn a_rehearsal_has_an_end() {
    let mut bench = asked(1);
    bench.event("drain-1", "train", 0, failed("client-failed"));
    bench.give(Input::Cancel { workload: name("serve") });
    let input = Input::Rehearse { workload: name("train"), deadline_ms: u64::MAX };
    bench.give(input);
    let deadline = bench.drain("drain-2").plan.deadline_ms;
    assert_eq!(Ms(deadline), Ms(REHEARSAL_MS_MAX));
}
