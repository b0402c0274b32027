//! Drains by a save signal: sent once, only to a worker that catches it, and believed only when the checkpoint is there.
//!
//! The planner takes the next periodic checkpoint where that is in time. These tests make it rare: two saves far apart,
//! and a demand that does not wait as long as that.

use nix::sys::signal::Signal;
use sluice::wire::pb::{DrainMode, DrainState, Phase};

use crate::ask::{has_been, story, times_in};
use crate::cluster::{Cluster, Setup};
use crate::trainer::{Trainer, Training};

/// Time between the saves that a test asks for, and the longest that its demand waits. Far enough apart that a loaded
/// machine does not get from one to the other.
const INTERVAL_MS: u64 = 8_000;
const DEADLINE: &str = "--drain-deadline 4s";

/// A training that saves only when asked; `flags` say what its signals do.
fn training(run_flags: &str, flags: &str) -> Training {
    let (run_flags, flags) =
        (format!("--save-signal-proven {run_flags}"), format!("--on-usr1 save {flags}"));
    Training { run_flags, flags, save_steps: 0, save_ms: 400, ..Training::new("train") }
}

fn start(training: Training) -> (Cluster, Trainer) {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let trainer = training.start(&mut cluster);
    trainer.make_boundaries_rare(&cluster, INTERVAL_MS);
    (cluster, trainer)
}

fn wait_resumed(cluster: &Cluster, trainer: &Trainer) {
    cluster
        .wait("the training to run again", |_| (trainer.resumed_from().len() == 2).then_some(()));
}

#[test]
fn worker_that_saves_on_a_signal_gets_exactly_one() {
    let (mut cluster, trainer) = start(training("--save-signal USR1", "--on-sigterm exit0"));
    let asked_by_test = trainer.count_of(Signal::SIGUSR1);
    let newest = trainer.complete_checkpoints().pop();
    cluster.serve("serve", 1, DEADLINE);
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert_eq!(drain.mode(), DrainMode::Signal, "{drain:?}");
    assert!(drain.members[0].signalled);
    let saved = drain.saved.expect("a checkpoint").step;
    assert!(Some(saved) > newest, "saved {saved}, had {newest:?}");
    assert_eq!(trainer.count_of(Signal::SIGUSR1), asked_by_test + 1);
    assert_eq!(trainer.count_of(Signal::SIGTERM), 1);
    cluster.cancel("serve");
    wait_resumed(&cluster, &trainer);
    assert_eq!(trainer.resumed_from(), [None, Some(saved)]);
}

/// S15: the workload is not over because its worker ended well after the save.
#[test]
fn worker_that_ends_after_its_save_has_not_succeeded() {
    let flags = "--save-signal TERM --exits-after-save";
    let (mut cluster, trainer) = start(training(flags, "--on-sigterm save-exit"));
    cluster.serve("serve", 1, DEADLINE);
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert_eq!(drain.mode(), DrainMode::Signal, "{drain:?}");
    let saved = drain.saved.expect("a checkpoint").step;
    // The save signal was the only SIGTERM: a second one would have ended it in its save.
    assert_eq!(trainer.count_of(Signal::SIGTERM), 1);
    assert_eq!(trainer.events_named("stopped").len(), 1);
    assert_eq!(cluster.workload("train").unwrap().phase(), Phase::Pending);
    cluster.cancel("serve");
    wait_resumed(&cluster, &trainer);
    assert_eq!(trainer.resumed_from(), [None, Some(saved)]);
    assert_eq!(cluster.launcher("train", 0).exited(), None);
}

/// S13: a worker that was told to save and end cannot be called back; it is first when there is room.
#[test]
fn demand_withdrawn_after_an_exit_signal_lets_the_victim_resume_first() {
    let flags = "--save-signal TERM --exits-after-save";
    let slow = Training { save_ms: 900, ..training(flags, "--on-sigterm save-exit") };
    let (mut cluster, trainer) = start(slow);
    cluster.run("other", "--resource nvidia.com/gpu=1", &["sleep", "600"]);
    cluster.wait_phase("other", Phase::Pending);
    cluster.serve("serve", 1, DEADLINE);
    cluster.wait("the signal", |_| (trainer.count_of(Signal::SIGTERM) == 1).then_some(()));
    cluster.cancel("serve");
    wait_resumed(&cluster, &trainer);
    let drain = cluster.drain_of("train").unwrap();
    assert!(!has_been(&drain, DrainState::Aborted), "{drain:?}");
    let saved = drain.saved.expect("a checkpoint").step;
    assert_eq!(trainer.resumed_from(), [None, Some(saved)]);
    assert_eq!(trainer.count_of(Signal::SIGTERM), 1);
    let starts: Vec<String> = cluster.starts().into_iter().map(|(worker, _)| worker).collect();
    assert_eq!(starts, ["train/1/0", "train/2/0"]);
    assert_eq!(cluster.workload("other").unwrap().phase(), Phase::Pending);
}

/// S4: a signal that would kill is not sent.
#[test]
fn signal_is_refused_for_a_worker_without_a_handler() {
    let (mut cluster, trainer) = start(training("--save-signal USR2", "--on-sigterm exit0"));
    let asked_by_test = trainer.signals().len();
    cluster.serve("serve", 1, DEADLINE);
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    let refused: Vec<(DrainMode, &str)> =
        drain.refused_modes.iter().map(|r| (r.mode(), r.code.as_str())).collect();
    assert_eq!(refused, [(DrainMode::Signal, "no-handler")]);
    assert_ne!(drain.mode(), DrainMode::Signal);
    assert_eq!(times_in(&drain, DrainState::Ordered), 2, "planned anew: {drain:?}");
    // It lived until it was told to end: SIGTERM, and nothing before.
    assert_eq!(trainer.signals()[asked_by_test..], [Signal::SIGTERM as i32]);
    assert!(!drain.members[0].signalled && !drain.members[0].killed, "{drain:?}");
}

/// S5: "has a handler" is not "will save". Once seen, the signal is never used again.
#[test]
fn worker_that_only_exits_on_its_save_signal_is_not_believed_again() {
    let flags = "--save-signal TERM --exits-after-save";
    let (mut cluster, trainer) = start(training(flags, "--on-sigterm exit0"));
    let newest = trainer.complete_checkpoints().pop();
    cluster.serve("serve", 1, DEADLINE);
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert_eq!(drain.mode(), DrainMode::Signal, "{drain:?}");
    assert!(has_been(&drain, DrainState::SaveFailed) || has_been(&drain, DrainState::Expired));
    assert_eq!(drain.saved.as_ref().map(|c| c.step), newest, "the checkpoint before is kept");
    let workload = cluster.workload("train").unwrap();
    assert_eq!(workload.phase(), Phase::Pending, "exit status 0 is no success: {workload:?}");
    assert!(workload.profile.unwrap().signal_unproven);
    cluster.cancel("serve");
    cluster.wait_phase("train", Phase::Running);
    wait_resumed(&cluster, &trainer);
    assert_eq!(trainer.resumed_from(), [None, newest]);
    cluster.serve("again", 1, DEADLINE);
    let id = drain.id;
    let second = cluster.wait("a second drain", |cluster| {
        cluster.drain_of("train").filter(|d| d.id != id && has_been(d, DrainState::Ordered))
    });
    assert_ne!(second.mode(), DrainMode::Signal, "{second:?}");
    let signal = second.alternatives.iter().find(|a| a.mode() == DrainMode::Signal).unwrap();
    assert_eq!(signal.reason.as_ref().unwrap().code, "signal-unproven");
}

/// A worker that saves for a while when it is asked to, and a demand that waits for that.
fn slow_saver() -> (Cluster, Trainer) {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let training = training("--save-signal USR1", "--on-sigterm exit0");
    let trainer = Training { save_ms: 1_500, ..training }.start(&mut cluster);
    trainer.make_boundaries_rare(&cluster, 12_000);
    (cluster, trainer)
}

/// Long enough to start again what was killed in the middle of a save.
const LONG_DEADLINE: &str = "--drain-deadline 7s";

/// The drain ends well, and the worker got one signal to save and one to end, whatever was killed meanwhile.
fn carry_through(cluster: &Cluster, trainer: &Trainer, asked_by_test: usize) {
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert_eq!(drain.mode(), DrainMode::Signal, "{}", story(&drain));
    assert!(drain.members[0].signalled, "{}", story(&drain));
    let saved = drain.saved.as_ref().expect("a checkpoint").step;
    let newest = trainer.newest();
    assert_eq!(trainer.count_of(Signal::SIGUSR1), asked_by_test + 1, "{}", story(&drain));
    assert_eq!(trainer.count_of(Signal::SIGTERM), 1, "{}", story(&drain));
    assert!(has_been(&drain, DrainState::Durable), "{}", story(&drain));
    cluster.cancel("serve");
    wait_resumed(cluster, trainer);
    trainer.assert_resumed(saved, newest);
}

fn wait_signalled(cluster: &Cluster, trainer: &Trainer, asked_by_test: usize) {
    cluster.wait("the save signal", |_| {
        (trainer.count_of(Signal::SIGUSR1) > asked_by_test).then_some(())
    });
}

#[test]
fn arbiter_killed_while_the_worker_saves_sends_no_second_signal() {
    let (mut cluster, trainer) = slow_saver();
    let asked_by_test = trainer.count_of(Signal::SIGUSR1);
    cluster.serve("serve", 1, LONG_DEADLINE);
    wait_signalled(&cluster, &trainer, asked_by_test);
    cluster.kill_arbiter();
    cluster.start_arbiter();
    carry_through(&cluster, &trainer, asked_by_test);
}

/// S6: killed after the signal and before anybody could acknowledge that it was sent.
#[test]
fn agent_killed_between_the_signal_and_its_acknowledgement_sends_no_second_one() {
    let (mut cluster, trainer) = slow_saver();
    let asked_by_test = trainer.count_of(Signal::SIGUSR1);
    cluster.serve("serve", 1, LONG_DEADLINE);
    wait_signalled(&cluster, &trainer, asked_by_test);
    cluster.kill_agent("n1");
    cluster.start_agent("n1");
    carry_through(&cluster, &trainer, asked_by_test);
}

#[test]
fn arbiter_and_agent_killed_after_the_signal_send_no_second_one() {
    let (mut cluster, trainer) = slow_saver();
    let asked_by_test = trainer.count_of(Signal::SIGUSR1);
    cluster.serve("serve", 1, LONG_DEADLINE);
    wait_signalled(&cluster, &trainer, asked_by_test);
    // What the agent has told is lost with the arbiter that has not stored it.
    cluster.arbiter().signal(Signal::SIGSTOP);
    cluster.kill_agent("n1");
    cluster.kill_arbiter();
    cluster.start_arbiter();
    cluster.start_agent("n1");
    carry_through(&cluster, &trainer, asked_by_test);
}

/// Killed the moment the intent is in the journal: the signal may have been sent or not, and is not sent again. If it
/// was not, the worker is ended at the deadline and resumes from the checkpoint before.
#[test]
fn agent_killed_as_soon_as_it_has_journalled_its_intent_sends_one_signal_or_none() {
    let (mut cluster, trainer) = slow_saver();
    let asked_by_test = trainer.count_of(Signal::SIGUSR1);
    let journal = cluster.state_dir().join("agents/n1/journal");
    cluster.serve("serve", 1, LONG_DEADLINE);
    let started = std::time::Instant::now();
    while !holds(&journal, "\"save_intent\":true") {
        assert!(started.elapsed() < crate::process::patience(), "no intent was journalled");
    }
    cluster.kill_agent("n1");
    cluster.start_agent("n1");
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    let sent = trainer.count_of(Signal::SIGUSR1) - asked_by_test;
    assert!(sent <= 1, "{sent} signals: {}", story(&drain));
    assert_eq!(has_been(&drain, DrainState::Durable), sent == 1, "{sent}: {}", story(&drain));
    assert_eq!(trainer.count_of(Signal::SIGTERM), 1);
    let (saved, newest) = (drain.saved.expect("a checkpoint").step, trainer.newest());
    cluster.cancel("serve");
    wait_resumed(&cluster, &trainer);
    trainer.assert_resumed(saved, newest);
}

/// Whether a file in `dir` holds `text`.
fn holds(dir: &std::path::Path, text: &str) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| std::fs::read_to_string(e.path()).unwrap_or_default()).any(|t| t.contains(text))
}
