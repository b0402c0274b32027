//! Scenarios of drains that need more than one training: launchers, short graces, full disks. SPECIFICATION.md lists
//! which test shows which scenario.

use sluice::wire::pb::{DrainMode, DrainState};

use crate::ask::{has_been, story};
use crate::client::{Plain, wait_after};
use crate::cluster::Setup;

/// S3: torchrun does not catch USR1 and would die of it; its ranks do, and their data loaders have inherited that.
#[test]
fn launcher_without_a_handler_is_never_signalled_and_its_ranks_once_each() {
    let setup = Setup::nodes(&[("n1", 1)]).arbiter("--release-grace-ms 1000");
    let mut cluster = setup.start();
    let run_flags = "--save-signal USR1 --save-signal-proven";
    let trainer = Plain::start(&mut cluster, run_flags, "--launcher");
    trainer.wait(&cluster, "started", 2);
    cluster.wait("the ranks to be seen by the agent", |cluster| {
        let report = cluster.node("n1")?.report?;
        report.devices.iter().any(|d| d.holder_pids.len() >= 5).then_some(())
    });
    let launcher = cluster.worker_pids("train/1/0");
    cluster.serve("serve", 1, "");
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert_eq!(drain.mode(), DrainMode::Signal, "{}", story(&drain));
    assert!(has_been(&drain, DrainState::Durable), "{}", story(&drain));
    let signalled = trainer.lines("signalled");
    let ranks: Vec<&str> = signalled.iter().filter_map(|l| l.split("rank=").nth(1)).collect();
    assert_eq!(ranks.len(), 2, "once each: {signalled:?}");
    assert!(ranks.contains(&"0") && ranks.contains(&"1"), "{signalled:?}");
    assert!(!launcher.is_empty());
}

/// S9: a launcher kills its processes 30 s after SIGTERM; a save that takes longer is not asked for in that way.
#[test]
fn save_that_does_not_fit_the_grace_is_not_asked_for_by_that_signal() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let script = crate::client::clients().join("tests/trainer.py");
    let torchrun = cluster.path("torchrun");
    let text = std::fs::read_to_string(script).unwrap();
    let path = crate::client::clients().display().to_string();
    let text = text.replace(
        "os.path.join(os.path.dirname(os.path.abspath(__file__)), \"..\")",
        &format!("{path:?}"),
    );
    std::fs::write(&torchrun, text).unwrap();
    let dir = cluster.path("train").display().to_string();
    let flags = format!(
        "--resource nvidia.com/gpu=1 --checkpoint-dir {dir} --checkpoint-format rename \
         --save-signal TERM --save-signal-proven --grace 5s"
    );
    let log = cluster.path("train.log").display().to_string();
    let torchrun = torchrun.display().to_string();
    cluster.run(
        "train",
        &flags,
        &["python3", "-u", &torchrun, "--log", &log, "--save-steps", "20"],
    );
    cluster.wait("the launcher to be known by its name", |cluster| {
        let report = cluster.node("n1")?.report?;
        let worker = report.workers.into_iter().find(|w| w.workload == "train")?;
        (worker.launcher_grace_ms? == 30_000).then_some(())
    });
    cluster.serve("serve", 1, "");
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    let signal = drain.alternatives.iter().find(|a| a.mode() == DrainMode::Signal).unwrap();
    let reason = signal.reason.clone().unwrap();
    // Neither step nor save have been measured: 15 s are assumed, and 5 s were declared.
    if reason.code != "grace-too-short" {
        panic!("{}", story(&drain));
    }
    assert_eq!(reason.values["grace_ms"], "5000");
    assert_ne!(drain.mode(), DrainMode::Signal, "{}", story(&drain));
}

/// S10: no room for another checkpoint. Somebody else goes; if there is nobody else it goes with the one it has.
#[test]
fn victim_without_space_is_passed_over_and_goes_last_with_the_checkpoint_that_it_has() {
    let mut cluster = Setup::nodes(&[("n1", 2)]).start();
    // A file with a hole: 8 TiB by its size, which is more than is free here.
    let sparse = format!("--save-steps 30 --save-seconds 0.1 --sparse-bytes {}", 1_u64 << 43);
    let full = Plain::named(&mut cluster, "full", "", &sparse);
    let other = Plain::named(&mut cluster, "other", "", "--save-steps 30");
    full.wait(&cluster, "started", 1);
    other.wait(&cluster, "started", 1);
    cluster.wait("a checkpoint of the full one", |cluster| {
        Some(()).filter(|()| cluster.workload("full").is_some_and(|w| w.checkpoint.is_some()))
    });
    cluster.wait_measured("other");
    cluster.serve("serve", 2, "");
    let refused = cluster.wait("the lack of space to be told", |cluster| {
        let drains = cluster.drains()?;
        let of_full = drains.into_iter().filter(|d| d.victim == "full");
        of_full.into_iter().find(|d| d.state() == DrainState::Refused)
    });
    let last = refused.history.last().and_then(|t| t.reason.clone()).unwrap();
    assert_eq!(last.values["code"], "no-space", "{}", story(&refused));
    let drain = wait_after(&cluster, "full", &refused.id, DrainState::HandedOver);
    assert!(matches!(drain.mode(), DrainMode::Kill | DrainMode::KillFresh), "{}", story(&drain));
    let kept = drain.saved.as_ref().expect("the checkpoint that it had").step;
    let path = cluster.path("full").join(format!("step-{kept}.ckpt"));
    assert!(path.exists(), "{}", path.display());
    let boundary = drain.alternatives.iter().find(|a| a.mode() == DrainMode::Boundary).unwrap();
    assert_eq!(boundary.reason.as_ref().unwrap().values["code"], "no-space");
}

/// S18: who is killed in the middle of its work may take its device's links down; who has parked does not.
#[test]
fn kill_of_a_worker_that_has_not_parked_is_told_as_an_event_of_its_node() {
    // The grace is what the agent has to hear that it parks; it is over before the worker, which ignores SIGTERM, ends.
    for (client, is_told, grace_ms) in [("good", false, 10_000), ("no", true, 1_000)] {
        let grace = format!("--release-grace-ms {grace_ms}");
        let setup = Setup::nodes(&[("n1", 1)]).arbiter(&grace);
        let mut cluster = setup.start();
        let flags = format!("--ignore-term --client {client} --save-steps 20");
        let trainer = Plain::start(&mut cluster, "", &flags);
        trainer.wait(&cluster, "started", 1);
        if client == "good" {
            crate::client::wait_for_client(&cluster);
        }
        cluster.serve("serve", 1, "");
        let drain = cluster.wait_drain("train", DrainState::HandedOver);
        assert!(drain.members[0].killed, "{}", story(&drain));
        let parked = trainer.lines("parks").len() == 1;
        let decisions = cluster.explain("train").expect("an answer").decisions;
        let code = |d: &sluice::wire::pb::Decision| d.reason.clone().unwrap_or_default().code;
        let told = decisions.iter().filter(|d| code(d) == "unclean-kill").count();
        // A worker with a client may have been drained at its boundary: then it was not parked either.
        assert_eq!(told, usize::from(!parked), "{}", story(&drain));
        assert!(is_told || parked || drain.mode() != DrainMode::Client, "{}", story(&drain));
    }
}

#[test]
fn cost_of_a_drain_is_the_same_in_lists_and_audit_log() {
    let mut setup = Setup::nodes(&[("n1", 1)]).arbiter("--audit-log arbiter.jsonl");
    setup.agent_flags = vec!["--audit-log".to_owned(), "agent.jsonl".to_owned()];
    let mut cluster = setup.start();
    let trainer = Plain::start(&mut cluster, "", "--client good");
    trainer.wait(&cluster, "started", 1);
    crate::client::wait_for_client(&cluster);
    cluster.serve("serve", 1, "");
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    let account = drain.account.expect("an account");
    let lines = |name: &str| -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(cluster.path(name)).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let handed_over = cluster.wait("the line of the handover", |_| {
        lines("arbiter.jsonl").into_iter().find(|l| l["reason"]["code"] == "handed-over")
    });
    let told = &handed_over["account"];
    assert_eq!(handed_over["drain"], *drain.id);
    assert_eq!(handed_over["mode"], "CLIENT");
    assert_eq!(told["at_risk_device_ms"], account.at_risk_device_ms);
    assert_eq!(told["lost_device_ms"], account.lost_device_ms);
    assert_eq!(told["saved_device_ms"], account.saved_device_ms);
    assert_eq!(told["idle_device_ms"], account.idle_device_ms);
    let stages = cluster.wait("the lines of the agent", |_| {
        let lines = lines("agent.jsonl");
        let of_drain = lines.iter().filter(|l| l["event"] == "drain");
        let stages: Vec<String> =
            of_drain.map(|l| l["stage"].as_str().unwrap_or("").to_owned()).collect();
        stages.iter().any(|s| s == "freed").then_some(stages)
    });
    assert_eq!(stages.first().map(String::as_str), Some("prepared"), "{stages:?}");
    assert!(lines("agent.jsonl").iter().any(|l| l["event"] == "told" && l["order"] == "save"));
    // What is decided after a kill of the arbiter follows what was decided before, without a gap.
    cluster.kill_arbiter();
    cluster.start_arbiter();
    cluster.cancel("serve");
    trainer.wait(&cluster, "started", 2);
    let numbers = cluster.wait("the lines after the restart", |cluster| {
        let lines = lines_of(&cluster.path("arbiter.jsonl"));
        let is_there = lines.iter().any(|l| l["reason"]["code"] == "cancelled");
        is_there.then(|| lines.iter().filter_map(|l| l["sequence"].as_u64()).collect::<Vec<u64>>())
    });
    let expected: Vec<u64> = (numbers[0]..numbers[0] + numbers.len() as u64).collect();
    assert_eq!(numbers, expected, "each decision once, in order");
}

fn lines_of(path: &std::path::Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The numbers of the worked example, by one command.
#[test]
fn comparison_of_lost_work_is_printed_by_one_command() {
    let cluster = crate::cluster::Cluster::unstarted(Setup::default());
    let compared = cluster.sluice(&["compare", "--json"]);
    let tables: serde_json::Value = serde_json::from_str(&compared.stdout()).unwrap();
    let row = |table: usize, policy: &str| {
        let rows = tables[table]["rows"].as_array().unwrap();
        let row = rows.iter().find(|r| r["policy"] == policy).unwrap();
        row["mean_loss_device_ms"].as_u64().unwrap() / 1_000
    };
    assert_eq!(["kill", "grace-exit", "boundary", "client"].map(|p| row(0, p)), [70, 70, 14, 34]);
    assert_eq!(tables[0]["restart_device_ms"], 1_806_400);
    // 16 hours and 1.24 hours of one device.
    assert_eq!(["kill", "client"].map(|p| row(1, p) / 36), [1_600, 124]);
}

/// A workload that is cancelled while it is being ended has had its SIGTERM.
#[test]
fn workload_cancelled_while_its_worker_is_being_ended_gets_no_second_sigterm() {
    let setup = Setup::nodes(&[("n1", 1)]).arbiter("--release-grace-ms 4000");
    let mut cluster = setup.start();
    let trainer = Plain::start(&mut cluster, "", "--ignore-term --save-steps 20");
    trainer.wait(&cluster, "started", 1);
    cluster.serve("serve", 1, "");
    trainer.wait(&cluster, "ignores SIGTERM", 1);
    cluster.cancel("train");
    cluster.wait_phase("serve", sluice::wire::pb::Phase::Running);
    let launcher = cluster.launcher("train", 0);
    crate::process::wait_for("the launcher to leave", || launcher.exited());
    assert_eq!(trainer.lines("ignores SIGTERM").len(), 1);
}
