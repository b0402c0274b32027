//! A device begins to fail while a drain is open: nobody gets it, and what is left of the time only becomes shorter.

use nix::sys::signal::Signal;
use sluice::wire::pb::{DrainState, Phase};

use crate::ask::story;
use crate::cluster::{SLUICE, Setup};
use crate::gpu_drain::{drills, inject};
use crate::trainer::Training;

#[test]
fn device_that_fails_while_it_is_kept_for_somebody_is_given_once_it_is_in_order() {
    let mut setup = Setup::nodes(&[("n1", 1)]);
    setup.agent_flags = drills().agent_flags;
    let mut cluster = setup.start();
    let training = Training { save_steps: 10, save_ms: 1_500, ..Training::new("train") };
    let trainer = training.start(&mut cluster);
    cluster.wait_measured("train");
    cluster.serve("serve", 1, "");
    cluster.wait_drain("train", DrainState::Ordered);
    inject(&cluster, &["recovery-action", "1", "--device", "sim-n1-0"]);
    let drain = cluster.wait_drain("train", DrainState::Freed);
    assert!(drain.saved.is_some(), "{}", story(&drain));
    // Nobody has the device: not the one for whom it was kept, nor the one who left it.
    cluster.wait("the kept device to be given up", |cluster| {
        let decided = cluster.explain("serve")?.decisions;
        let codes = decided.iter().filter_map(|d| Some(d.reason.as_ref()?.code.as_str()));
        codes.into_iter().any(|code| code == "reservation-failing").then_some(())
    });
    for name in ["serve", "train"] {
        assert_eq!(cluster.workload(name).unwrap().phase(), Phase::Pending, "{name}");
    }
    assert_eq!(cluster.starts().len(), 1, "{:?}", cluster.starts());
    inject(&cluster, &["recovery-action", "0", "--device", "sim-n1-0"]);
    cluster.wait_phase("serve", Phase::Running);
    cluster.cancel("serve");
    cluster.wait_drain("train", DrainState::Resumed);
    assert_eq!(trainer.resumed_from().len(), 2);
    assert_eq!(cluster.drains().unwrap().len(), 1, "{}", story(&drain));
}

#[test]
fn save_that_was_being_rehearsed_serves_when_the_gpu_falls_off_the_bus() {
    let mut cluster = drills().start();
    let trainer = Training {
        run_flags: "--save-signal USR1".to_owned(),
        flags: "--on-usr1 save".to_owned(),
        save_steps: 0,
        save_ms: 3_000,
        ..Training::new("train")
    };
    let trainer = trainer.start(&mut cluster);
    cluster.wait_phase("train", Phase::Running);
    cluster.wait("some steps", |_| (trainer.last_step() >= 3).then_some(()));
    let assignment = cluster.workload("train").unwrap().members[0].assignment.clone().unwrap();
    let device = assignment.devices[0].clone();
    let mut command = cluster.command(SLUICE);
    let mut rehearsal =
        cluster.spawn("rehearse", command.args(["rehearse", "train", "--deadline", "120s"]));
    cluster.wait_drain("train", DrainState::Saving);
    inject(&cluster, &["xid", "79", "--device", &device, "--text", "GPU has fallen off the bus."]);
    // It saves only when asked, so that nothing shows how far it has got after that.
    let drain = cluster.wait_drain("train", DrainState::ResumePending);
    assert!(!drain.rehearsal, "{}", story(&drain));
    let cause = drain.cause.clone().unwrap();
    assert_eq!((cause.code.as_str(), cause.values["device"].as_str()), ("device-fault", &*device));
    // Two minutes were given, and six seconds were left.
    assert!(drain.deadline_ms < 60_000, "{}", story(&drain));
    assert_eq!(trainer.count_of(Signal::SIGUSR1), 1);
    cluster
        .wait("the training to run again", |_| (trainer.resumed_from().len() == 2).then_some(()));
    assert_eq!(trainer.resumed_from()[1], drain.saved.map(|saved| saved.step));
    let other = cluster.workload("train").unwrap().members[0].assignment.clone().unwrap();
    assert_ne!(other.devices[0], device);
    assert_eq!(cluster.drains().unwrap().len(), 1);
    rehearsal.wait();
    assert_eq!(rehearsal.exit_code(), Some(0), "{}", rehearsal.tail());
    assert!(rehearsal.stdout().contains("has begun to fail"), "{}", rehearsal.tail());
}
