//! Drains from the order to the resume: what is saved, when devices change hands, what a withdrawn demand undoes.

use nix::sys::signal::{Signal, kill};
use sluice::wire::pb::{DrainMode, DrainState, Phase};

use crate::ask::{has_been, times_in};
use crate::cluster::Setup;
use crate::trainer::Training;

#[test]
fn drained_training_resumes_from_its_checkpoint_and_ends_with_the_same_bits() {
    let mut cluster = Setup::nodes(&[("n1", 2)]).start();
    let training = Training { devices: 2, steps: 60, ..Training::new("train") };
    let trainer = training.start(&mut cluster);
    cluster.wait_measured("train");
    cluster.serve("serve", 1, "");
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert_ne!(drain.mode(), DrainMode::Kill);
    let saved = drain.saved.expect("a checkpoint to resume from").step;
    let newest = trainer.newest();
    assert!(newest >= saved, "step {saved} was saved and only {newest} is there");
    cluster.cancel("serve");
    cluster.wait_phase("train", Phase::Succeeded);
    assert_eq!(trainer.resumed_from(), [None, Some(newest)]);
    assert_eq!(trainer.last_step(), 60);
    // Another one that nobody disturbs ends with the very same model.
    let undisturbed = trainer.alone(&cluster);
    let model = |dir: &std::path::Path| std::fs::read(dir.join("final/model.safetensors")).unwrap();
    assert!(model(&trainer.dir) == model(&undisturbed), "the models differ");
    assert_eq!(cluster.drain_of("train").unwrap().state(), DrainState::Resumed);
    assert_eq!(cluster.launcher("train", 0).exit_code(), Some(0));
}

#[test]
fn checkpoints_that_are_renamed_when_complete_are_drained_alike() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let flags = "--layout rename".to_owned();
    let trainer = Training { flags, ..Training::new("train") }.start(&mut cluster);
    cluster.wait_measured("train");
    trainer.wait_unsaved(&cluster);
    cluster.serve("serve", 1, "");
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    let saved = drain.saved.expect("a checkpoint to resume from");
    assert!(saved.path.ends_with(&format!("/step-{}", saved.step)), "{saved:?}");
    cluster.cancel("serve");
    cluster.wait_drain("train", DrainState::Resumed);
    assert_eq!(trainer.resumed_from().len(), 2);
    assert!(trainer.resumed_from()[1] >= Some(saved.step), "{:?}", trainer.resumed_from());
    trainer.assert_undisturbed();
}

#[test]
fn gang_is_released_only_when_every_rank_has_saved() {
    let mut cluster = Setup::nodes(&[("n1", 1), ("n2", 1)]).start();
    let nodes = vec!["n1", "n2"];
    let training = Training { nodes, save_ms: 400, ..Training::new("train") };
    let trainer = training.start(&mut cluster);
    cluster.wait_measured("train");
    trainer.wait_unsaved(&cluster);
    cluster.serve("serve", 1, "");
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert_eq!(drain.mode(), DrainMode::Boundary, "{drain:?}");
    let saved = drain.saved.as_ref().expect("a checkpoint to resume from").step;
    assert!(drain.members.iter().all(|m| m.freed && m.durable_step >= Some(saved)), "{drain:?}");
    let newest = trainer.newest();
    cluster.cancel("serve");
    cluster.wait_drain("train", DrainState::Resumed);
    trainer.assert_resumed(saved, newest);
    // One drain of the whole gang, and both ranks started twice.
    assert_eq!(cluster.drains().unwrap().len(), 1);
    let of_train = cluster.starts().into_iter().filter(|(worker, _)| worker.starts_with("train/"));
    let mut of_train: Vec<String> = of_train.map(|(worker, _)| worker).collect();
    of_train.sort();
    assert_eq!(of_train, ["train/1/0", "train/1/1", "train/2/0", "train/2/1"]);
}

#[test]
fn without_checkpoint_drain_the_victim_is_ended_at_once() {
    let setup = Setup::nodes(&[("n1", 1)]).arbiter("--no-checkpoint-drain");
    let mut cluster = setup.start();
    let trainer = Training::new("train").start(&mut cluster);
    cluster.wait_measured("train");
    cluster.serve("serve", 1, "");
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert_eq!(drain.mode(), DrainMode::Kill);
    assert!(!has_been(&drain, DrainState::Saving), "{drain:?}");
    cluster.cancel("serve");
    cluster.wait_drain("train", DrainState::Resumed);
    assert_eq!(trainer.resumed_from().len(), 2);
    assert!(trainer.resumed_from()[1] >= drain.saved.map(|c| c.step));
}

#[test]
fn worker_that_ignores_the_order_to_end_is_killed_after_the_grace() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).arbiter("--release-grace-ms 1000").start();
    let shell = "trap '' TERM".to_owned();
    let training = Training { shell, ..Training::new("train") };
    let trainer = training.start(&mut cluster);
    cluster.wait_measured("train");
    cluster.serve("serve", 1, "");
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert!(drain.members[0].killed, "{drain:?}");
    let account = drain.account.unwrap();
    assert!(account.idle_device_ms >= 1_000, "freed before the grace was over: {account:?}");
    cluster.cancel("serve");
    cluster.wait_drain("train", DrainState::Resumed);
    assert_eq!(trainer.resumed_from().len(), 2);
}

/// S13: nothing was done yet, so nothing happens.
#[test]
fn demand_withdrawn_before_the_order_is_accepted_leaves_the_victim_untouched() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let flags = "--on-sigterm exit0".to_owned();
    let trainer = Training { flags, ..Training::new("train") }.start(&mut cluster);
    cluster.wait_measured("train");
    let pid = trainer.pid(&cluster, 1, 0);
    cluster.serve_once_unfrozen("serve", "");
    cluster.stop_agent("n1");
    cluster.unfreeze();
    cluster.wait_drain("train", DrainState::Ordered);
    cluster.cancel("serve");
    let drain = cluster.wait_drain("train", DrainState::Aborted);
    assert!(!has_been(&drain, DrainState::Saving), "{drain:?}");
    cluster.continue_agent("n1");
    cluster.wait("the agent to have let go", |cluster| {
        let drains = cluster.node_drains("n1", "train");
        drains.iter().all(|d| d.stage == "aborted").then_some(())
    });
    assert_untouched(&cluster, &trainer, pid);
}

/// S13: a worker that only saves is left where it is.
#[test]
fn demand_withdrawn_while_a_checkpoint_is_awaited_leaves_the_victim_running() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let flags = "--on-sigterm exit0".to_owned();
    // A save that takes its time: the demand is gone before it is complete.
    let training = Training { flags, save_ms: 2_000, save_steps: 10, ..Training::new("train") };
    let trainer = training.start(&mut cluster);
    cluster.wait_measured("train");
    let pid = trainer.pid(&cluster, 1, 0);
    trainer.wait_unsaved(&cluster);
    cluster.serve("serve", 1, "");
    let drain = cluster.wait_drain("train", DrainState::Saving);
    assert_eq!(drain.mode(), DrainMode::Boundary);
    cluster.cancel("serve");
    cluster.wait_drain("train", DrainState::Aborted);
    assert_untouched(&cluster, &trainer, pid);
}

fn assert_untouched(
    cluster: &crate::cluster::Cluster,
    trainer: &crate::trainer::Trainer,
    pid: nix::unistd::Pid,
) {
    let workload = cluster.wait_phase("train", Phase::Running);
    assert_eq!(workload.attempt, 1);
    let step = trainer.last_step();
    cluster.wait("the training to go on", |_| (trainer.last_step() > step).then_some(()));
    assert_eq!(trainer.pid(cluster, 1, 0), pid);
    assert_eq!(trainer.signals(), [0_i32; 0]);
    assert_eq!(cluster.starts().len(), 1, "{:?}", cluster.starts());
}

/// S19: what the main process has left behind still has the device.
#[test]
fn device_is_not_handed_over_while_a_child_of_the_worker_lives() {
    let shell = "sleep 600 & echo $! > \"$SLUICE_TEST_ROOT/child\"";
    leftover_child_keeps_the_device(shell);
}

/// S19, with a child that nothing but its open file connects with the worker.
#[test]
fn device_is_not_handed_over_while_a_stranger_has_it_open() {
    let shell = "env -i SLUICE_TEST_ROOT=\"$SLUICE_TEST_ROOT\" sleep 600 &
        echo $! > \"$SLUICE_TEST_ROOT/child\"";
    leftover_child_keeps_the_device(shell);
}

fn leftover_child_keeps_the_device(shell: &str) {
    let setup = Setup::nodes(&[("n1", 1)]).arbiter("--release-grace-ms 60000");
    let mut cluster = setup.start();
    let shell = shell.to_owned();
    let training = Training { shell, ..Training::new("train") };
    let trainer = training.start(&mut cluster);
    cluster.wait_measured("train");
    let main = trainer.pid(&cluster, 1, 0);
    let child = std::fs::read_to_string(cluster.path("child")).unwrap();
    let child = nix::unistd::Pid::from_raw(child.trim().parse().unwrap());
    cluster.serve("serve", 1, "");
    cluster.wait_drain("train", DrainState::Releasing);
    cluster.wait("the main process to end", |cluster| {
        let exited = cluster.drain_of("train")?.members.iter().all(|m| m.exited);
        (exited && kill(main, None).is_err()).then_some(())
    });
    // Some looks of the agent later it still is as it was.
    let seen = std::time::Instant::now();
    cluster.wait("the agent to have looked a few times", |cluster| {
        let drain = cluster.drain_of("train")?;
        assert_eq!(drain.state(), DrainState::Releasing, "released too early: {drain:?}");
        assert_eq!(cluster.starts().len(), 1, "{:?}", cluster.starts());
        (seen.elapsed().as_millis() >= 800).then_some(())
    });
    kill(child, Signal::SIGKILL).unwrap();
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert_eq!(times_in(&drain, DrainState::Freed), 1);
    assert!(!drain.members[0].killed, "{drain:?}");
}
