//! The agent's side alone: orders and observations in, signals and events out.

mod client;
mod measuring;
mod releasing;

use super::*;
use crate::checkpoint::{Checkpoint, Incomplete, IncompleteReason};
use crate::drain::Mode;
use crate::protocol::{EventKind, Refusal, Verb};
use crate::workload::SaveSignal;

const USR1: i32 = 10;
const EVERY_SIGNAL: u64 = u64::MAX;

fn worker() -> WorkerId {
    "train/1/0".parse().unwrap()
}

fn registration() -> Registration {
    Registration {
        worker: worker(),
        world_size: 1,
        pid: 4242,
        start_time_ticks: 77,
        checkpoint_dir: "/ckpt".to_owned(),
        checkpoint_format: CheckpointFormat::HuggingFace,
        checkpoint_rules: Default::default(),
        devices: BTreeSet::from(["gpu-0".parse().unwrap()]),
        drain_dir: "/drain".to_owned(),
        pod: None,
    }
}

fn checkpoint(step: u64) -> Checkpoint {
    Checkpoint {
        step,
        path: format!("/ckpt/checkpoint-{step}"),
        bytes: 1_000,
        files: 6,
        marker: "trainer_state.json".to_owned(),
        grade: crate::checkpoint::Grade::LocalComplete,
    }
}

fn scan(steps: &[u64], saving: Option<u64>) -> CheckpointScan {
    let incomplete = |step: u64| Incomplete {
        path: format!("/ckpt/checkpoint-{step}"),
        step: Some(step),
        bytes: 500,
        files: 3,
        saving: true,
        reason: IncompleteReason::MarkerMissing { marker: "trainer_state.json".to_owned() },
    };
    CheckpointScan {
        complete: steps.iter().rev().map(|step| checkpoint(*step)).collect(),
        incomplete: saving.into_iter().map(incomplete).collect(),
        saving: saving.is_some(),
        problem: None,
    }
}

/// An agent with one registered worker, and a journal that outlives it.
struct Bench {
    agent: Agent,
    now: u64,
    journal: BTreeMap<(DrainId, WorkerId), Hand>,
    log: Vec<String>,
}

impl Bench {
    fn new() -> Self {
        let agent = Agent::new(Time(1_000), "node".parse().unwrap(), vec![], vec![]);
        let mut bench = Self { agent, now: 1_000, journal: BTreeMap::new(), log: Vec::new() };
        bench.give(Input::Register(registration()));
        bench.give(Input::Scanned { worker: worker(), scan: scan(&[40], None) });
        bench.log();
        bench
    }

    fn give(&mut self, input: Input) {
        for output in self.agent.step(Time(self.now), input) {
            self.note(output);
        }
    }

    fn note(&mut self, output: Output) {
        match output {
            Output::Journal(hand) => {
                self.log.push(format!("journal {}", hand.stage.as_str()));
                self.journal.insert((hand.drain.clone(), hand.worker.clone()), hand);
            }
            Output::Signal { signal, audience, .. } => {
                self.log.push(format!("signal {signal} {audience:?}"));
            }
            Output::TellClient { drain, order, .. } => {
                self.log.push(format!("tell {} {drain}", order.as_str()));
            }
            Output::Send(event) => self.log.push(show(&event.kind)),
            Output::Unjournal { .. } => self.log.push("unjournal".to_owned()),
            Output::ForgetWorker(_) => self.log.push("forget".to_owned()),
            Output::SaveWorker(_)
            | Output::CheckHolders(_)
            | Output::WatchEvery { .. }
            | Output::WorkerChanged(_)
            | Output::WakeAt(_) => {}
        }
    }

    /// Takes what was done and said since the last call.
    fn log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    fn order_with(&mut self, epoch: u64, drain: &str, verb: Verb, facts: TargetFacts) {
        let order = Order { drain: drain.parse().unwrap(), epoch, worker: worker(), verb };
        self.give(Input::Order { order, facts });
    }

    fn order(&mut self, verb: Verb) {
        let facts =
            TargetFacts { alive: true, caught_signals: EVERY_SIGNAL, free_bytes: Some(1 << 40) };
        self.order_with(1, "drain-1", verb, facts);
    }

    fn scan(&mut self, steps: &[u64], saving: Option<u64>) {
        self.give(Input::Scanned { worker: worker(), scan: scan(steps, saving) });
    }

    fn wait(&mut self, ms: u64) {
        self.now += ms;
        self.give(Input::Tick);
    }

    fn holders(&mut self, processes: u32, busy: &[&str]) {
        let busy_devices = busy.iter().map(|d| d.parse().unwrap()).collect();
        self.give(Input::Holders { worker: worker(), processes, busy_devices });
    }

    /// kill -9 and a new start from the journal.
    fn restart(&mut self) {
        let hands = self.journal.values().cloned().collect();
        let node = self.agent.node().clone();
        self.agent = Agent::new(Time(self.now), node, vec![registration()], hands);
        self.give(Input::Tick);
    }
}

fn show(kind: &EventKind) -> String {
    match kind {
        EventKind::Armed { step, .. } => format!("armed at {step:?}"),
        EventKind::Refused { refusal, .. } => format!("refused {}", refusal.code()),
        EventKind::Signalled => "signalled".to_owned(),
        EventKind::Durable { checkpoint, .. } => format!("durable {}", checkpoint.step),
        EventKind::NoProgress { waited_ms } => format!("no progress in {waited_ms}"),
        EventKind::SaveFailed { code, .. } => format!("failed {code}"),
        EventKind::Exited(exit) => format!("exited {exit}"),
        EventKind::Freed { killed, .. } => format!("freed killed={killed}"),
        EventKind::Aborted => "aborted".to_owned(),
        EventKind::StaleEpoch { seen } => format!("stale, seen {seen}"),
    }
}

fn boundary() -> Verb {
    Verb::Prepare { mode: Mode::Boundary, save_signal: None, baseline_step: None, hard_ms: 60_000 }
}

fn by_signal(number: i32, exits_after_save: bool) -> Verb {
    let save_signal = Some(SaveSignal { number, exits_after_save });
    Verb::Prepare { mode: Mode::Signal, save_signal, baseline_step: Some(40), hard_ms: 60_000 }
}

const RELEASE: Verb = Verb::Release { grace_ms: 5_000 };

#[test]
fn a_boundary_drain_sends_no_signal_until_release() {
    let mut bench = Bench::new();
    bench.order(boundary());
    assert_eq!(bench.log(), ["journal prepared", "armed at Some(40)"]);
    bench.order(Verb::Commit);
    assert_eq!(bench.log(), ["journal watching", "armed at Some(40)"]);
    bench.scan(&[40], Some(50));
    assert_eq!(bench.log(), [""; 0]);
    bench.scan(&[40, 50], None);
    assert_eq!(bench.log(), ["journal durable", "durable 50"]);
    bench.order(RELEASE);
    assert_eq!(bench.log(), ["journal releasing", "signal 15 Main"]);
    bench.holders(2, &["gpu-0"]);
    bench.give(Input::Exited { worker: worker(), exit: Exit::Signal(15) });
    assert_eq!(bench.log(), ["journal releasing", "exited signal 15"]);
    bench.holders(0, &[]);
    assert_eq!(bench.log(), ["journal freed", "freed killed=false"]);
}

#[test]
fn a_signal_is_journalled_before_it_is_sent_and_never_sent_again() {
    let mut bench = Bench::new();
    bench.order(by_signal(USR1, false));
    bench.log();
    bench.order(Verb::Commit);
    assert_eq!(
        bench.log(),
        ["journal signalled", "signal 10 Main", "signalled", "armed at Some(40)"]
    );
    for _ in 0..3 {
        bench.order(Verb::Commit);
        bench.order(by_signal(USR1, false));
        bench.restart();
        bench.order(Verb::Commit);
    }
    let signals = bench.log().into_iter().filter(|l| l.starts_with("signal ")).count();
    assert_eq!(signals, 0);
}

#[test]
fn s6_an_agent_that_died_after_the_journal_takes_the_signal_as_sent() {
    let mut bench = Bench::new();
    bench.order(by_signal(15, true));
    bench.order(Verb::Commit);
    bench.restart();
    bench.log();
    bench.order(Verb::Restate);
    assert_eq!(bench.log(), ["signalled", "armed at None"]);
    bench.scan(&[40, 41], None);
    assert_eq!(bench.log(), ["journal durable", "durable 41"]);
    bench.order(RELEASE);
    assert_eq!(bench.log(), ["journal releasing"], "a second SIGTERM would kill the save");
}

#[test]
fn a_save_that_is_under_way_is_waited_for_instead_of_asked_for() {
    let mut bench = Bench::new();
    bench.scan(&[40], Some(50));
    bench.order(by_signal(USR1, false));
    bench.log();
    bench.order(Verb::Commit);
    assert_eq!(bench.log(), ["journal watching", "armed at Some(40)"]);
    bench.scan(&[40, 50], None);
    assert_eq!(bench.log(), ["journal durable", "durable 50"]);
}

#[test]
fn only_a_checkpoint_newer_than_the_order_counts() {
    let mut bench = Bench::new();
    bench.scan(&[40, 50], None);
    bench.order(boundary());
    bench.order(Verb::Commit);
    bench.log();
    bench.scan(&[40, 50], None);
    assert_eq!(bench.log(), [""; 0], "it was there before the order");
    bench.scan(&[40, 50, 60], None);
    assert_eq!(bench.log(), ["journal durable", "durable 60"]);
}

#[test]
fn orders_that_cannot_be_done_are_refused_before_anything_happens() {
    let lives = TargetFacts { alive: true, caught_signals: 0, free_bytes: Some(1 << 40) };
    let mut bench = Bench::new();
    bench.order_with(1, "drain-1", by_signal(USR1, false), lives.clone());
    bench.order_with(1, "drain-1", boundary(), TargetFacts { alive: false, ..lives.clone() });
    bench.order_with(
        1,
        "drain-1",
        boundary(),
        TargetFacts { free_bytes: Some(1_199), ..lives.clone() },
    );
    assert_eq!(bench.log(), ["refused no-handler", "refused stale-target", "refused no-space"]);
    bench.order_with(1, "drain-1", boundary(), TargetFacts { free_bytes: Some(1_200), ..lives });
    assert_eq!(bench.log(), ["journal prepared", "armed at Some(40)"]);
}

#[test]
fn unknown_workers_and_missing_directories_are_refused() {
    let agent = Agent::new(Time(0), "node".parse().unwrap(), vec![], vec![]);
    let mut bench = Bench { agent, now: 0, journal: BTreeMap::new(), log: Vec::new() };
    bench.order(boundary());
    bench.give(Input::Register(Registration { checkpoint_dir: String::new(), ..registration() }));
    bench.order(boundary());
    bench.order(RELEASE);
    assert_eq!(
        bench.log(),
        ["refused no-worker", "refused no-checkpoint-dir", "refused no-worker"]
    );
}

#[test]
fn a_lower_epoch_is_refused_and_changes_nothing() {
    let mut bench = Bench::new();
    let facts = TargetFacts { alive: true, ..TargetFacts::default() };
    bench.order_with(5, "drain-1", boundary(), facts.clone());
    bench.log();
    bench.order_with(4, "drain-1", Verb::Abort, facts);
    assert_eq!(bench.log(), ["stale, seen 5"]);
    assert_eq!(bench.agent.hands().values().next().map(|h| h.stage), Some(Stage::Prepared));
}

#[test]
fn a_worker_that_ignores_sigterm_is_killed_after_the_grace() {
    let mut bench = Bench::new();
    bench.order(boundary());
    bench.order(RELEASE);
    bench.log();
    bench.wait(4_999);
    assert_eq!(bench.log(), [""; 0]);
    bench.wait(1);
    assert_eq!(bench.log(), ["journal releasing", "signal 9 All"]);
}

#[test]
fn s19_devices_are_not_free_while_any_process_holds_them() {
    let mut bench = Bench::new();
    bench.order(boundary());
    bench.order(RELEASE);
    bench.give(Input::Exited { worker: worker(), exit: Exit::Code(0) });
    bench.log();
    bench.holders(1, &["gpu-0"]);
    bench.holders(0, &["gpu-0"]);
    assert_eq!(bench.log(), [""; 0]);
    bench.holders(0, &[]);
    assert_eq!(bench.log(), ["journal freed", "freed killed=false"]);
}

#[test]
fn a_worker_that_ended_without_a_checkpoint_has_failed_to_save() {
    let mut bench = Bench::new();
    bench.order(by_signal(15, true));
    bench.order(Verb::Commit);
    bench.now += 20_000;
    bench.give(Input::Exited { worker: worker(), exit: Exit::Code(0) });
    bench.log();
    bench.scan(&[40], None);
    assert_eq!(bench.log(), [""; 0], "what it wrote last may still become visible");
    bench.wait(3_000);
    assert_eq!(bench.log(), ["journal failed", "failed ended-without-save"]);
}

#[test]
fn cut_off_from_the_arbiter_a_deadline_ends_the_wait_and_not_the_worker() {
    let mut bench = Bench::new();
    bench.order(boundary());
    bench.order(Verb::Commit);
    bench.log();
    bench.wait(60_000);
    assert_eq!(bench.log(), ["journal expired", "failed deadline-passed"]);
    bench.wait(600_000);
    assert_eq!(bench.log(), [""; 0]);
    bench.scan(&[40, 50], None);
    assert_eq!(bench.log(), ["journal durable", "durable 50"], "late is better than never");
}

#[test]
fn an_older_drain_that_was_taken_back_unheard_makes_room_for_the_next() {
    let mut bench = Bench::new();
    bench.order(boundary());
    let facts = TargetFacts { alive: true, ..TargetFacts::default() };
    bench.log();
    bench.order_with(2, "drain-2", boundary(), facts);
    assert_eq!(bench.log(), ["journal aborted", "journal prepared", "armed at Some(40)"]);
}

#[test]
fn an_abort_leaves_the_worker_alone_and_can_be_repeated() {
    let mut bench = Bench::new();
    bench.order(boundary());
    bench.order(Verb::Commit);
    bench.log();
    bench.order(Verb::Abort);
    bench.order(Verb::Abort);
    assert_eq!(bench.log(), ["journal aborted", "aborted", "aborted"]);
    bench.order(boundary());
    assert_eq!(bench.log(), ["journal prepared", "armed at Some(40)"], "it may be planned again");
}
