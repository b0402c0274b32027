//! The command line against real servers: what people see while workloads come, are drained and go.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use nix::sys::signal::Signal;
use serde_json::Value;
use sluice::wire::pb::{DrainState, Phase};

use crate::cluster::{Cluster, SLUICE, Setup};
use crate::process::{patience, wait_for};
use crate::trainer::Training;

/// The document that a command prints with `-o json`.
fn json(cluster: &Cluster, arguments: &[&str]) -> Value {
    let mut process = cluster.sluice(&[arguments, &["-o", "json"]].concat());
    assert_eq!(process.exit_code(), Some(0), "{arguments:?}: {}", process.tail());
    serde_json::from_str(&process.stdout()).unwrap()
}

fn text(cluster: &Cluster, arguments: &[&str]) -> String {
    let mut process = cluster.sluice(arguments);
    assert_eq!(process.exit_code(), Some(0), "{arguments:?}: {}", process.tail());
    process.stdout()
}

#[test]
fn lists_show_what_runs_and_explain_says_why() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    Training::new("train").start(&mut cluster);
    cluster.wait_measured("train");
    cluster.serve("serve", 1, "");
    let drain = cluster.wait_drain("train", DrainState::HandedOver);

    let workloads = json(&cluster, &["get", "workloads"]);
    let items = workloads["items"].as_array().unwrap();
    let names: Vec<&str> = items.iter().filter_map(|i| i["name"].as_str()).collect();
    assert_eq!(names, ["serve", "train"], "{workloads}");
    let drains = json(&cluster, &["get", "drains", "--all"]);
    assert_eq!(drains["items"][0]["id"], drain.id.as_str(), "{drains}");
    let devices = json(&cluster, &["get", "devices"]);
    assert_eq!(devices["items"][0]["id"], "sim-n1-0", "{devices}");
    assert_eq!(devices["items"].as_array().unwrap().len(), 1);
    let queues = json(&cluster, &["get", "queues"]);
    assert_eq!(queues["items"][0]["name"], "default", "{queues}");
    assert_eq!(json(&cluster, &["get", "nodes"])["items"][0]["name"], "n1");

    let explained = text(&cluster, &["explain", "train"]);
    for part in ["serve", drain.id.as_str(), "cheapest-victim"] {
        assert!(explained.contains(part), "{part:?} is missing:\n{explained}");
    }
    let step = drain.saved.unwrap().step;
    let document = json(&cluster, &["explain", "train"]);
    assert!(document.to_string().contains(&format!("\"step\":{step}")), "{document}");
    let described = text(&cluster, &["describe", "drain", &drain.id]);
    assert!(described.contains("HANDED_OVER"), "{described}");
}

#[test]
fn what_does_not_exist_is_an_error() {
    let cluster = Setup::nodes(&[("n1", 1)]).start();
    for arguments in [
        ["get", "workloads", "nobody"].as_slice(),
        &["explain", "nobody"],
        &["cancel", "nobody"],
        &["describe", "node", "nobody"],
    ] {
        let mut process = cluster.sluice(arguments);
        assert_eq!(process.exit_code(), Some(1), "{arguments:?}: {}", process.tail());
        assert!(process.stderr().contains("nobody"), "{arguments:?}: {}", process.tail());
        assert_eq!(process.stdout(), "");
    }
}

#[test]
fn status_works_with_the_arbiter_down_and_doctor_says_so() {
    let mut cluster = Setup::nodes(&[("n1", 2)]).start();
    assert_eq!(cluster.sluice(&["doctor"]).exit_code(), Some(0));
    cluster.kill_arbiter();
    cluster.wait("the agent to notice", |cluster| {
        cluster.report_of("n1").status.filter(|status| !status.connected)
    });
    let status = json(&cluster, &["status"]);
    assert_eq!(status["items"].as_array().unwrap().len(), 1, "{status}");
    assert!(status.to_string().contains("sim-n1-1"), "{status}");
    let mut doctor = cluster.sluice(&["doctor"]);
    assert_eq!(doctor.exit_code(), Some(1), "{}", doctor.tail());
    assert!(doctor.stdout().contains("arbiter"), "{}", doctor.tail());
    let mut get = cluster.sluice(&["get", "nodes"]);
    assert_eq!(get.exit_code(), Some(69), "{}", get.tail());
}

#[test]
fn freeze_holds_admissions_over_a_restart_until_it_is_lifted() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    text(&cluster, &["freeze", "--why", "maintenance of the racks"]);
    cluster.run("work", "", &["sleep", "600"]);
    cluster.wait("work to be told", |cluster| {
        let reason = cluster.workload("work")?.reason?;
        reason.message.contains("maintenance of the racks").then_some(())
    });
    cluster.kill_arbiter();
    cluster.start_arbiter();
    let frozen = cluster.status().unwrap().frozen.expect("a freeze outlives a restart");
    assert_eq!(frozen.values["why"], "maintenance of the racks");
    assert_eq!(cluster.starts(), []);
    text(&cluster, &["unfreeze"]);
    cluster.wait_phase("work", Phase::Running);
}

#[test]
fn cancelled_workload_ends_its_worker_and_its_launcher() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    cluster.run("work", "", &["sleep", "600"]);
    cluster.wait_phase("work", Phase::Running);
    assert_eq!(text(&cluster, &["cancel", "work"]), "workload work cancelled\n");
    assert_eq!(cluster.launcher("work", 0).exit_code(), Some(1));
    assert_eq!(cluster.worker_pids("work/1/0"), []);
    cluster.wait("the device to be free", |cluster| {
        cluster.workload("work")?.members[0].assignment.is_none().then_some(())
    });
}

#[test]
fn exit_status_of_the_worker_is_that_of_the_launcher() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    for (name, script, status, phase) in [
        ("good", "exit 0", 0, Phase::Succeeded),
        ("bad", "exit 7", 7, Phase::Failed),
        ("shot", "kill -9 $$", 128 + 9, Phase::Failed),
    ] {
        cluster.run(name, "", &["sh", "-c", script]);
        assert_eq!(cluster.launcher(name, 0).exit_code(), Some(status), "{name}");
        cluster.wait_phase(name, phase);
    }
}

#[test]
fn interrupted_launcher_that_waits_takes_its_workload_back() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    cluster.freeze();
    cluster.run("work", "", &["sleep", "600"]);
    cluster.wait("work to be known", |cluster| cluster.workload("work"));
    cluster.launcher("work", 0).signal(Signal::SIGINT);
    assert_eq!(cluster.launcher("work", 0).exit_code(), Some(128 + 2));
    cluster.wait_phase("work", Phase::Cancelled);
    assert_eq!(cluster.starts(), []);
}

/// The worker is no hostage of its launcher: it goes on, is still seen by the agent, and can still be drained.
#[test]
fn worker_outlives_a_killed_launcher_and_is_drained_all_the_same() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let trainer = Training::new("train").start(&mut cluster);
    cluster.wait_measured("train");
    cluster.launcher("train", 0).kill();
    let step = trainer.last_step();
    cluster.wait("the training to go on", |_| (trainer.last_step() > step).then_some(()));
    assert_eq!(cluster.workload("train").unwrap().phase(), Phase::Running);
    cluster.serve("serve", 1, "");
    cluster.wait_drain("train", DrainState::HandedOver);
    assert_eq!(trainer.resumed_from(), [None]);
}

#[test]
fn up_runs_everything_and_ends_it_on_a_signal() {
    let cluster = Cluster::unstarted(Setup::default());
    let mut command = cluster.command(SLUICE);
    command.args(["up", "--nodes", "2", "--node-name", "desk", "--simulate", "nvidia-l4=1"]);
    let mut up = cluster.spawn("up", &mut command);
    wait_for("up to be ready", || {
        assert_eq!(up.exited(), None, "{}", up.tail());
        up.first_line()
    });
    cluster.wait("both nodes", |cluster| {
        let nodes = cluster.nodes()?;
        let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
        (names == ["desk-0", "desk-1"]).then_some(())
    });
    up.signal(Signal::SIGTERM);
    up.wait();
    let root = cluster.root().display().to_string();
    wait_for("its programs to end", || {
        crate::process::processes_with(crate::process::ROOT_VARIABLE, &root)
            .is_empty()
            .then_some(())
    });
}

#[test]
fn servers_say_where_they_really_listen_and_serve_metrics_there() {
    let mut cluster = Cluster::unstarted(Setup::nodes(&[("n1", 1)]));
    cluster.listen = Some("127.0.0.1:0".to_owned());
    cluster.setup.arbiter_flags = vec!["--listen-metrics".to_owned(), "127.0.0.1:0".to_owned()];
    cluster.start_arbiter();
    let ready = cluster.arbiter().first_line().unwrap();
    let word = |key: &str| {
        let word = ready.split_whitespace().find_map(|word| word.strip_prefix(key));
        word.unwrap_or_else(|| panic!("{key} is missing: {ready}")).to_owned()
    };
    let (grpc, metrics) = (word("grpc="), word("metrics="));
    assert!(!grpc.ends_with(":0") && !metrics.ends_with(":0"), "{ready}");
    cluster.listen = Some(grpc);
    cluster.start_agent("n1");
    cluster.wait("the agent to connect over TCP", |cluster| {
        cluster.node("n1").filter(|n| n.connected)
    });
    let mut stream = TcpStream::connect(metrics).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("sluice_arbiter_"), "{answer}");
}

#[test]
fn version_names_both_sides() {
    let cluster = Setup::nodes(&[]).start();
    let version = text(&cluster, &["version"]);
    let own = env!("CARGO_PKG_VERSION");
    assert_eq!(version, format!("sluice {own} (protocol 1)\nsluice-arbiter {own} (protocol 1)\n"));
}
