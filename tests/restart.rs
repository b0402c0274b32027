//! S14 and the first rows of the failure table: the arbiter or an agent is killed at every state of a drain.
//!
//! Whatever dies, the worker is told to end once, the checkpoint is whole, no device is given twice, and the training
//! resumes from the step that was saved.

use nix::sys::signal::Signal;
use sluice::wire::pb::{self, DrainState, Phase};

use crate::ask::{has_been, story, times_in};
use crate::cluster::{Cluster, Setup};
use crate::trainer::{Trainer, Training};

/// A training that counts its SIGTERMs, measured, and a demand that waits for [`Cluster::unfreeze`].
fn scene(setup: Setup, training: Training) -> (Cluster, Trainer) {
    let mut cluster = setup.start();
    let flags = format!("--on-sigterm exit0 {}", training.flags);
    let trainer = Training { flags, ..training }.start(&mut cluster);
    cluster.wait_measured("train");
    cluster.serve_once_unfrozen("serve", "");
    (cluster, trainer)
}

fn one_node() -> Setup {
    Setup::nodes(&[("n1", 1)])
}

/// A training whose next checkpoint is far enough away to do something before it.
fn slow_saver() -> Training {
    Training { save_steps: 10, save_ms: 1_500, ..Training::new("train") }
}

fn restart_arbiter(cluster: &mut Cluster) {
    cluster.kill_arbiter();
    cluster.start_arbiter();
}

/// The drain goes on to its end, and is as it would have been without a death. Each rank handles at most `terms`
/// SIGTERMs, and the first of them exactly that: when it ends, the others may lose it before they get theirs.
fn carry_through(cluster: &Cluster, trainer: &Trainer, terms: usize) -> pb::Drain {
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    let saved = drain.saved.as_ref().expect("a checkpoint to resume from").step;
    let (newest, ranks) = (trainer.newest(), drain.members.len());
    let handled = trainer.count_of(Signal::SIGTERM);
    assert!((terms..=terms * ranks).contains(&handled), "{handled} SIGTERMs: {}", story(&drain));
    cluster.cancel("serve");
    let drain = cluster.wait_drain("train", DrainState::Resumed);
    trainer.assert_resumed(saved, newest);
    for state in [DrainState::Releasing, DrainState::Freed, DrainState::HandedOver] {
        assert_eq!(times_in(&drain, state), 1, "{state:?}: {}", story(&drain));
    }
    assert_eq!(cluster.drains().unwrap().len(), 1, "one drain of one victim");
    let starts = cluster.starts();
    let of = |workload: &str| starts.iter().filter(|(w, _)| w.starts_with(workload)).count();
    let expected = (ranks, 1, ranks);
    assert_eq!((of("train/1/"), of("serve/1/"), of("train/2/")), expected, "{starts:?}");
    drain
}

#[test]
fn arbiter_killed_at_ordered() {
    let (mut cluster, trainer) = scene(one_node(), Training::new("train"));
    cluster.stop_agent("n1");
    cluster.unfreeze();
    cluster.wait_drain("train", DrainState::Ordered);
    restart_arbiter(&mut cluster);
    cluster.continue_agent("n1");
    let drain = carry_through(&cluster, &trainer, 1);
    assert!(drain.epoch >= 2, "{}", story(&drain));
}

#[test]
fn arbiter_killed_when_one_of_two_agents_is_armed() {
    let setup = Setup::nodes(&[("n1", 1), ("n2", 1)]);
    let training = Training { nodes: vec!["n1", "n2"], ..Training::new("train") };
    let (mut cluster, trainer) = scene(setup, training);
    cluster.stop_agent("n2");
    cluster.unfreeze();
    cluster.wait("one armed rank", |cluster| {
        let drain = cluster.drain_of("train")?;
        let armed: Vec<bool> = drain.members.iter().map(|m| m.armed).collect();
        (drain.state() == DrainState::Ordered && armed == [true, false]).then_some(())
    });
    restart_arbiter(&mut cluster);
    cluster.continue_agent("n2");
    carry_through(&cluster, &trainer, 1);
}

#[test]
fn arbiter_killed_while_a_checkpoint_is_awaited() {
    let (mut cluster, trainer) = scene(one_node(), slow_saver());
    trainer.wait_unsaved(&cluster);
    cluster.unfreeze();
    let drain = cluster.wait_drain("train", DrainState::Saving);
    assert_eq!(drain.state(), DrainState::Saving, "{}", story(&drain));
    restart_arbiter(&mut cluster);
    carry_through(&cluster, &trainer, 1);
}

#[test]
fn arbiter_killed_when_one_of_two_ranks_has_saved() {
    let setup = Setup::nodes(&[("n1", 1), ("n2", 1)]);
    let training = Training { nodes: vec!["n1", "n2"], ..slow_saver() };
    let (mut cluster, trainer) = scene(setup, training);
    trainer.wait_unsaved(&cluster);
    cluster.unfreeze();
    cluster.wait_drain("train", DrainState::Saving);
    cluster.stop_agent("n2");
    cluster.wait("one rank's checkpoint", |cluster| {
        let drain = cluster.drain_of("train")?;
        assert!(!has_been(&drain, DrainState::Durable), "{}", story(&drain));
        drain.members[0].durable_step
    });
    restart_arbiter(&mut cluster);
    cluster.continue_agent("n2");
    carry_through(&cluster, &trainer, 1);
}

#[test]
fn arbiter_killed_while_the_worker_is_ending() {
    let setup = one_node().arbiter("--release-grace-ms 4000");
    let training = Training { shell: "trap '' TERM".to_owned(), ..Training::new("train") };
    let mut cluster = setup.start();
    let trainer = training.start(&mut cluster);
    cluster.wait_measured("train");
    cluster.serve("serve", 1, "");
    cluster.wait_drain("train", DrainState::Releasing);
    restart_arbiter(&mut cluster);
    let drain = carry_through(&cluster, &trainer, 0);
    assert!(drain.members[0].killed, "{}", story(&drain));
}

#[test]
fn arbiter_killed_when_the_devices_are_free_and_not_yet_used() {
    let (mut cluster, trainer) = scene(one_node(), Training::new("train"));
    // The launcher of the one that waits is held up, so that it cannot start what it is admitted for.
    cluster.launcher("serve", 0).signal(Signal::SIGSTOP);
    cluster.unfreeze();
    cluster.wait_drain("train", DrainState::Freed);
    cluster.wait_phase("serve", Phase::Admitted);
    restart_arbiter(&mut cluster);
    let drain = cluster.wait("the drain", |cluster| cluster.drain_of("train"));
    assert_eq!(drain.state(), DrainState::Freed, "{}", story(&drain));
    cluster.launcher("serve", 0).signal(Signal::SIGCONT);
    carry_through(&cluster, &trainer, 1);
}

#[test]
fn arbiter_killed_when_the_devices_are_handed_over() {
    let (mut cluster, trainer) = scene(one_node(), Training::new("train"));
    cluster.unfreeze();
    cluster.wait_drain("train", DrainState::HandedOver);
    restart_arbiter(&mut cluster);
    cluster.wait_phase("serve", Phase::Running);
    carry_through(&cluster, &trainer, 1);
}

#[test]
fn arbiter_killed_while_the_victim_resumes() {
    let (mut cluster, trainer) = scene(one_node(), slow_saver());
    cluster.unfreeze();
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    let saved = drain.saved.expect("a checkpoint to resume from").step;
    let newest = trainer.newest();
    cluster.cancel("serve");
    cluster.wait_drain("train", DrainState::ResumePending);
    restart_arbiter(&mut cluster);
    let drain = cluster.wait_drain("train", DrainState::Resumed);
    assert_eq!(times_in(&drain, DrainState::ResumePending), 1, "{}", story(&drain));
    trainer.assert_resumed(saved, newest);
    assert_eq!(trainer.count_of(Signal::SIGTERM), 1);
}

/// Killed again and again from the order to the resume, at moments that nobody has chosen.
#[test]
fn arbiter_killed_over_and_over_loses_nothing() {
    let (mut cluster, trainer) = scene(one_node(), slow_saver());
    cluster.unfreeze();
    for _ in 0..6 {
        // However far it has come meanwhile: that is different each time and on each machine.
        restart_arbiter(&mut cluster);
    }
    carry_through(&cluster, &trainer, 1);
    assert!(cluster.status().unwrap().epoch >= 7);
}

#[test]
fn agent_killed_after_it_has_accepted_the_order() {
    let setup = Setup::nodes(&[("n1", 1), ("n2", 1)]);
    let training = Training { nodes: vec!["n1", "n2"], ..Training::new("train") };
    let (mut cluster, trainer) = scene(setup, training);
    cluster.stop_agent("n2");
    cluster.unfreeze();
    cluster.wait("the first agent to be armed", |cluster| {
        cluster.drain_of("train").filter(|d| d.members[0].armed)
    });
    cluster.kill_agent("n1");
    cluster.start_agent("n1");
    cluster.continue_agent("n2");
    carry_through(&cluster, &trainer, 1);
}

#[test]
fn agent_killed_while_a_checkpoint_is_awaited() {
    let (mut cluster, trainer) = scene(one_node(), slow_saver());
    trainer.wait_unsaved(&cluster);
    cluster.unfreeze();
    cluster.wait_drain("train", DrainState::Saving);
    cluster.kill_agent("n1");
    cluster.start_agent("n1");
    carry_through(&cluster, &trainer, 1);
}

/// The release is journalled before SIGTERM: the agent that comes after does not send a second one.
#[test]
fn agent_killed_after_it_has_told_the_worker_to_end() {
    let mut cluster = one_node().arbiter("--release-grace-ms 25000").start();
    // A worker that takes a while to end: it saves first.
    let flags = "--on-sigterm save-exit".to_owned();
    let training = Training { flags, ..slow_saver() };
    let trainer = training.start(&mut cluster);
    cluster.wait_measured("train");
    cluster.serve("serve", 1, "");
    cluster.wait("SIGTERM", |_| (trainer.count_of(Signal::SIGTERM) == 1).then_some(()));
    cluster.kill_agent("n1");
    cluster.start_agent("n1");
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert_eq!(trainer.count_of(Signal::SIGTERM), 1);
    assert!(!drain.members[0].killed, "{}", story(&drain));
    // It saved once more while it ended, so it resumes from there, not from before.
    let newest = trainer.complete_checkpoints().pop();
    cluster.cancel("serve");
    cluster.wait_drain("train", DrainState::Resumed);
    assert_eq!(trainer.resumed_from(), [None, newest]);
    assert!(newest >= drain.saved.map(|c| c.step));
}

#[test]
fn arbiter_and_agent_killed_together_while_a_checkpoint_is_awaited() {
    let (mut cluster, trainer) = scene(one_node(), slow_saver());
    trainer.wait_unsaved(&cluster);
    cluster.unfreeze();
    cluster.wait_drain("train", DrainState::Saving);
    cluster.kill_agent("n1");
    cluster.kill_arbiter();
    cluster.start_agent("n1");
    cluster.start_arbiter();
    carry_through(&cluster, &trainer, 1);
}
