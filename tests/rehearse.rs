//! `sluice rehearse`: what it finds out about real workers, and what is planned with it.

use nix::sys::signal::Signal;
use sluice::wire::pb::{DrainMode, DrainState, Phase};

use crate::ask::story;
use crate::client::{Plain, wait_after};
use crate::cluster::Setup;
use crate::trainer::Training;

/// A training that saves only when asked, by a signal that nobody vouches for.
fn training(run_flags: &str, flags: &str) -> Training {
    let (run_flags, flags) = (run_flags.to_owned(), flags.to_owned());
    Training { run_flags, flags, save_ms: 200, ..Training::new("train") }
}

#[test]
fn rehearsal_finds_that_a_worker_saves_and_goes_on() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let training = training("--save-signal USR1", "--on-usr1 save");
    let trainer = Training { save_steps: 0, ..training }.start(&mut cluster);
    cluster.wait_phase("train", Phase::Running);
    cluster.wait("some steps", |_| (trainer.last_step() >= 3).then_some(()));
    let pid = trainer.pid(&cluster, 1, 0);
    let mut rehearsal = cluster.sluice(&["rehearse", "train"]);
    assert_eq!(rehearsal.exit_code(), Some(0), "{}", rehearsal.tail());
    let said = rehearsal.stdout();
    assert!(said.contains("saved step") && said.contains("and goes on"), "{said}");
    assert_eq!(trainer.count_of(Signal::SIGUSR1), 1);
    let workload = cluster.wait_phase("train", Phase::Running);
    assert_eq!((workload.attempt, trainer.pid(&cluster, 1, 0)), (1, pid));
    let profile = workload.profile.unwrap();
    assert_eq!((profile.signal_proven, profile.exits_after_save), (true, Some(false)));
    // Now that it is known to save its signal is used.
    cluster.serve("serve", 1, "");
    let drain = wait_after(&cluster, "train", "drain-1", DrainState::HandedOver);
    let signal = drain.alternatives.iter().find(|a| a.mode() == DrainMode::Signal).unwrap();
    assert_ne!(signal.reason.as_ref().unwrap().code, "signal-untried", "{}", story(&drain));
}

/// S5: the handler of the tutorial's trainer logs and exits with status 0.
#[test]
fn rehearsal_finds_a_handler_that_only_exits_and_the_next_drain_waits_for_the_boundary() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let flags = "--save-signal TERM --exits-after-save";
    let trainer = training(flags, "--on-sigterm exit0").start(&mut cluster);
    cluster.wait_measured("train");
    let mut rehearsal = cluster.sluice(&["rehearse", "train"]);
    assert_eq!(rehearsal.exit_code(), Some(1), "{}", rehearsal.tail());
    let said = rehearsal.stderr();
    assert!(said.contains("did not save") && said.contains("starts again"), "{said}");
    cluster
        .wait("the training to run again", |_| (trainer.resumed_from().len() == 2).then_some(()));
    let workload = cluster.wait_phase("train", Phase::Running);
    assert_eq!(workload.attempt, 2, "exit status 0 was no success");
    let profile = workload.profile.unwrap();
    assert_eq!((profile.signal_unproven, profile.exits_after_save), (true, Some(true)));
    let rehearsed = cluster.drain_of("train").unwrap().id;
    cluster.wait("a checkpoint of the second start", |cluster| {
        let workload = cluster.workload("train")?;
        (workload.checkpoint_age_ms? < 60_000 && workload.running_since.is_some()).then_some(())
    });
    trainer.wait_unsaved(&cluster);
    cluster.serve("serve", 1, "");
    let drain = wait_after(&cluster, "train", &rehearsed, DrainState::HandedOver);
    assert_ne!(drain.mode(), DrainMode::Signal, "{}", story(&drain));
    let signal = drain.alternatives.iter().find(|a| a.mode() == DrainMode::Signal).unwrap();
    assert_eq!(signal.reason.as_ref().unwrap().code, "signal-unproven");
    // At most the step that had begun.
    let account = drain.account.unwrap();
    let step_ms = cluster.workload("train").unwrap().profile.unwrap().step_ms.unwrap();
    if drain.mode() == DrainMode::Boundary {
        assert!(account.lost_device_ms <= step_ms + 2_000, "{account:?}, a step takes {step_ms}");
    }
}

#[test]
fn rehearsal_of_a_worker_without_a_handler_sends_nothing() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let trainer = training("--save-signal USR2", "").start(&mut cluster);
    cluster.wait_measured("train");
    let pid = trainer.pid(&cluster, 1, 0);
    let mut rehearsal = cluster.sluice(&["rehearse", "train"]);
    assert_eq!(rehearsal.exit_code(), Some(1), "{}", rehearsal.tail());
    assert!(rehearsal.stderr().contains("no-handler"), "{}", rehearsal.stderr());
    assert_eq!(trainer.signals(), [0_i32; 0]);
    assert_eq!(trainer.pid(&cluster, 1, 0), pid);
    cluster.wait_phase("train", Phase::Running);
}

#[test]
fn rehearsal_through_the_client_leaves_the_worker_where_it_is() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let trainer = Plain::start(&mut cluster, "", "--client good");
    cluster.wait_phase("train", Phase::Running);
    trainer.wait(&cluster, "started", 1);
    cluster.wait("the worker's hello to be known", |cluster| {
        let report = cluster.node("n1")?.report?;
        report.workers.iter().any(|w| w.has_client).then_some(())
    });
    let mut rehearsal = cluster.sluice(&["rehearse", "train"]);
    assert_eq!(rehearsal.exit_code(), Some(0), "{}", rehearsal.tail());
    trainer.wait(&cluster, "goes on", 1);
    assert_eq!(trainer.steps("parks"), trainer.steps("goes on"));
    assert_eq!(cluster.workload("train").unwrap().attempt, 1);
}

#[test]
fn what_cannot_be_rehearsed_is_said() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    cluster.serve("serve", 1, "");
    cluster.wait_phase("serve", Phase::Running);
    let mut rehearsal = cluster.sluice(&["rehearse", "serve"]);
    assert_eq!(rehearsal.exit_code(), Some(1));
    assert!(rehearsal.stderr().contains("--checkpoint-dir"), "{}", rehearsal.stderr());
    let mut rehearsal = cluster.sluice(&["rehearse", "nobody"]);
    assert!(rehearsal.stderr().contains("there is no workload nobody"), "{}", rehearsal.tail());
}
