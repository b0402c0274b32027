//! What makes a checkpoint count, with the real programs: where it has to arrive, and what a killed rank leaves.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use sluice::wire::pb::{CheckpointGrade, DrainMode, DrainState};

use crate::ask::has_been;
use crate::cluster::Setup;
use crate::trainer::Training;

/// Copies a checkpoint as an upload does: file by file.
fn upload(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// S16: complete on the node, and later where it is stored.
#[test]
fn s16_a_drain_is_durable_only_once_the_checkpoint_has_arrived() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let there = cluster.path("there");
    let run_flags = format!("--checkpoint-remote {}", there.display());
    // No periodic save: each is asked for by the test, so that it knows which has arrived.
    let flags = "--on-usr1 save".to_owned();
    let training = Training { save_steps: 0, run_flags, flags, ..Training::new("train") };
    let trainer = training.start(&mut cluster);
    cluster.wait("some steps", |_| (trainer.last_step() >= 3).then_some(()));
    let arrive = |step: u64| {
        let name = format!("checkpoint-{step}");
        upload(&trainer.dir.join(&name), &there.join(&name));
    };
    let is_newest = |cluster: &crate::cluster::Cluster, step: u64| {
        let newest = cluster.workload("train")?.checkpoint?;
        (newest.step == step).then_some(newest)
    };
    for _ in 0..2 {
        trainer.save_now(&cluster, 1);
        arrive(trainer.newest());
        let newest = cluster.wait("it to arrive", |c| is_newest(c, trainer.newest()));
        assert_eq!(newest.grade(), CheckpointGrade::RemoteVerified);
    }
    let before = trainer.newest();
    trainer.wait_unsaved(&cluster);
    cluster.serve("serve", 1, "--drain-deadline 60s");
    let drain = cluster.wait_drain("train", DrainState::Saving);
    assert_eq!(drain.mode(), DrainMode::Boundary, "{drain:?}");
    trainer.save_now(&cluster, 1);
    let saved = trainer.newest();
    assert!(saved > before);
    // The node has it, says what it waits for, and releases nothing.
    cluster.wait("the node to see it", |cluster| {
        let report = cluster.report_of("n1").report?;
        let problem = report.workers.first()?.checkpoint_problem.clone()?;
        (problem.code == "checkpoint_remote_pending").then_some(())
    });
    let drain = cluster.drain_of("train").unwrap();
    assert_eq!((drain.state(), has_been(&drain, DrainState::Durable)), (DrainState::Saving, false));
    assert!(trainer.signals().iter().all(|signal| *signal == Signal::SIGUSR1 as i32));
    arrive(saved);
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    let durable = drain.saved.expect("a checkpoint");
    assert_eq!((durable.step, durable.grade()), (saved, CheckpointGrade::RemoteVerified));
}

/// S7, S8: a rank that is killed in the save leaves a torn checkpoint, which is not resumed from.
#[test]
fn s7_a_rank_killed_in_the_save_leaves_the_checkpoint_before_as_the_one_to_resume_from() {
    let mut cluster = Setup::nodes(&[("n1", 1), ("n2", 1)]).start();
    let nodes = vec!["n1", "n2"];
    let training = Training { nodes, save_ms: 3_000, save_steps: 20, ..Training::new("train") };
    let trainer = training.start(&mut cluster);
    let whole = cluster.wait("a checkpoint", |_| trainer.complete_checkpoints().last().copied());
    let torn = cluster.wait("a save that goes on", |_| {
        let newest = trainer.checkpoints().last().copied();
        newest.filter(|(step, is_whole)| *step > whole && !is_whole).map(|(step, _)| step)
    });
    kill(trainer.pid(&cluster, 1, 1), Signal::SIGKILL).unwrap();
    let workload = cluster.wait_phase("train", sluice::wire::pb::Phase::Failed);
    let newest = workload.checkpoint.expect("the one before").step;
    assert!(newest < torn && trainer.complete_checkpoints().contains(&newest), "{newest} {torn}");
    cluster.wait("the torn one to be put aside", |_| {
        let aside = trainer.dir.join(format!("checkpoint-{torn}.sluice-incomplete"));
        (aside.exists() && trainer.newest() == newest).then_some(())
    });
}
