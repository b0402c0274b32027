//! Who is drained, who waits, and that nobody is given what another has.

use nix::sys::signal::{Signal, kill};
use sluice::wire::pb::{DrainState, Phase};

use crate::ask::code;
use crate::cluster::{Cluster, Setup};
use crate::trainer::Training;

fn candidate(cluster: &Cluster, preemptor: &str, victim: &str) -> (u64, String) {
    let explained = cluster.explain(preemptor).unwrap();
    let candidate = explained.candidates.iter().find(|c| c.workload == victim);
    let candidate = candidate.unwrap_or_else(|| panic!("{victim} is no candidate: {explained:?}"));
    (candidate.at_risk_device_ms, candidate.reason.clone().unwrap_or_default().code)
}

/// S1: among equals the one that has just saved is drained, and the record says what the other would have lost.
#[test]
fn gang_with_the_fresher_checkpoint_is_drained() {
    let mut cluster = Setup::nodes(&[("n1", 4), ("n2", 4)]).start();
    let run_flags = |node: &str| format!("--node {node}");
    let fresh = Training { devices: 4, run_flags: run_flags("n1"), ..Training::new("fresh") };
    let stale = Training {
        devices: 4,
        run_flags: run_flags("n2"),
        save_steps: 0,
        ..Training::new("stale")
    };
    let stale = stale.start(&mut cluster);
    fresh.start(&mut cluster);
    cluster.wait_measured("fresh");
    cluster.wait("unsaved work", |_| (stale.last_step() >= 15).then_some(()));
    cluster.serve("serve", 4, "");
    cluster.wait_drain("fresh", DrainState::HandedOver);
    assert_eq!(cluster.drain_of("stale"), None);
    assert_eq!(stale.resumed_from(), [None]);
    // The decision names both with their numbers.
    let weighed = |name: &str, code: &str| -> u64 {
        let explained = cluster.explain(name).unwrap();
        let decision = explained.decisions.iter().filter_map(|d| d.reason.as_ref());
        let reason = decision.into_iter().find(|r| r.code == code);
        let reason =
            reason.unwrap_or_else(|| panic!("{name} has no decision {code}: {explained:?}"));
        reason.values["at_risk_device_ms"].parse().unwrap()
    };
    let (chosen, spared) =
        (weighed("fresh", "cheapest-victim"), weighed("stale", "costlier-victim"));
    assert!(chosen < spared, "chosen risked {chosen}, spared {spared}");
    // 15 steps of 100 ms on 4 devices at least.
    assert!(spared >= 4 * 1_500, "{spared}");
}

/// S2: a gang is drained whole or not at all.
#[test]
fn exactly_one_whole_gang_makes_room() {
    let mut cluster = Setup::nodes(&[("n1", 2), ("n2", 2)]).start();
    let gang = |name| Training { nodes: vec!["n1", "n2"], ..Training::new(name) };
    let trainers = [gang("first").start(&mut cluster), gang("second").start(&mut cluster)];
    for name in ["first", "second"] {
        cluster.wait_measured(name);
    }
    let flags = "--priority 100 --resource nvidia.com/gpu=1 --nnodes 2";
    for (rank, node) in [(0, "n1"), (1, "n2")] {
        let flags = format!("{flags} --node-rank {rank} --node {node}");
        cluster.run("serve", &flags, &["sleep", "600"]);
    }
    cluster.wait_phase("serve", Phase::Running);
    let drains = cluster.drains().unwrap();
    assert_eq!(drains.len(), 1, "{drains:?}");
    assert_eq!(drains[0].members.len(), 2);
    assert!(drains[0].members.iter().all(|m| m.freed), "{drains:?}");
    let spared = trainers.iter().find(|t| t.training.name != drains[0].victim).unwrap();
    let workload = cluster.workload(spared.training.name).unwrap();
    assert_eq!((workload.phase(), workload.attempt), (Phase::Running, 1));
    let step = spared.last_step();
    cluster.wait("the other gang to go on", |_| (spared.last_step() > step).then_some(()));
}

#[test]
fn equal_priority_is_never_drained() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    Training { run_flags: "--priority 100".to_owned(), ..Training::new("train") }
        .start(&mut cluster);
    cluster.wait_measured("train");
    cluster.serve("serve", 1, "");
    let waiting = cluster.wait("serve to wait", |cluster| {
        cluster.workload("serve").filter(|w| code(w) == "waiting-for-devices")
    });
    assert_eq!(waiting.phase(), Phase::Pending);
    assert_eq!(candidate(&cluster, "serve", "train").1, "priority-not-lower");
    assert_eq!(cluster.drains().unwrap(), []);
}

#[test]
fn drained_workload_is_left_alone_until_it_has_made_progress() {
    let setup = Setup::nodes(&[("n1", 1)]).arbiter("--productive-floor-ms 600000");
    let mut cluster = setup.start();
    Training::new("train").start(&mut cluster);
    cluster.wait_measured("train");
    cluster.serve("serve", 1, "");
    cluster.wait_drain("train", DrainState::HandedOver);
    cluster.cancel("serve");
    cluster.wait_drain("train", DrainState::Resumed);
    cluster.serve("again", 1, "");
    cluster.wait("the second demand to wait", |cluster| {
        cluster.workload("again").filter(|w| code(w) == "waiting-for-productive-floor")
    });
    assert_eq!(candidate(&cluster, "again", "train").1, "protected-by-floor");
    assert_eq!(cluster.drains().unwrap().len(), 1);
}

#[test]
fn what_a_drain_frees_is_kept_for_whom_it_was_made() {
    let mut cluster = Setup::nodes(&[("n1", 2)]).start();
    Training { devices: 2, ..Training::new("train") }.start(&mut cluster);
    cluster.wait_measured("train");
    // Two that want one device each: one drain makes room for both, in the order of their priorities.
    cluster.serve_once_unfrozen("serve", "");
    cluster.run("late", "--priority 50 --resource nvidia.com/gpu=2", &["sleep", "600"]);
    cluster.wait("late to be known", |cluster| cluster.workload("late"));
    cluster.unfreeze();
    cluster.wait_phase("serve", Phase::Running);
    // The second device is free, but "late" needs two: it neither gets the first nor drains for it.
    assert_eq!(cluster.workload("late").unwrap().phase(), Phase::Pending);
    assert_eq!(cluster.drains().unwrap().len(), 1);
    cluster.cancel("serve");
    cluster.wait_phase("late", Phase::Running);
    assert_eq!(cluster.workload("train").unwrap().phase(), Phase::Pending);
}

/// S8: killed in the middle of a save. What is newest is not whole and is not taken for it: it is put aside, and the
/// next start resumes from the one before.
#[test]
fn checkpoint_torn_by_a_kill_is_put_aside_and_the_one_before_is_resumed_from() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let training = Training { save_ms: 2_000, ..Training::new("train") };
    let trainer = training.clone().start(&mut cluster);
    let torn =
        cluster.wait("a whole checkpoint and a begun one", |_| match trainer.checkpoints()[..] {
            [(_, true), (torn, false)] => Some(torn),
            _ => None,
        });
    let newest = trainer.newest();
    cluster.wait("the agent to see both", |cluster| {
        let worker = cluster.report_of("n1").report?.workers.into_iter().next()?;
        let is_seen = worker.incomplete_checkpoint.ends_with(&format!("checkpoint-{torn}"));
        (is_seen && worker.checkpoint?.step == newest).then_some(())
    });
    kill(trainer.pid(&cluster, 1, 0), Signal::SIGKILL).unwrap();
    assert_eq!(code(&cluster.wait_phase("train", Phase::Failed)), "worker-failed");
    assert_eq!(cluster.launcher("train", 0).exit_code(), Some(128 + 9));
    cluster.wait("the torn checkpoint to be put aside", |_| {
        (trainer.checkpoints() == [(newest, true)]).then_some(())
    });
    let kept = trainer.dir.join(format!("checkpoint-{torn}.sluice-incomplete"));
    assert!(kept.is_dir(), "nothing is deleted");
    cluster.wait("the arbiter to hear that nothing of it is left", |cluster| {
        let members = cluster.workload("train")?.members;
        members.iter().all(|member| member.assignment.is_none()).then_some(())
    });
    training.start(&mut cluster);
    cluster.wait("the next start", |_| (trainer.resumed_from().len() == 2).then_some(()));
    assert_eq!(trainer.resumed_from(), [None, Some(newest)]);
    trainer.assert_undisturbed();
}
