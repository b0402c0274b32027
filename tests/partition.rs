//! Silence is not sickness: an agent that is not heard of is unknown, nothing is drained for it, and when most vanish
//! at once nothing new is decided at all.
//!
//! An agent is silenced by stopping its process, which works everywhere; and, where the tests run as root, by cutting
//! the link between two network namespaces.

use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use sluice::wire::pb::{self, Health, Phase};

use crate::ask::code;
use crate::cluster::{Cluster, Setup};
use crate::process::wait_for;
use crate::trainer::Training;

/// Silence is noticed within two seconds.
fn impatient(nodes: &[(&'static str, u32)]) -> Setup {
    Setup::nodes(nodes).arbiter("--agent-lost-ms 1500 --heartbeat-ms 300")
}

fn wait_connected(cluster: &Cluster, node: &str, connected: bool) {
    cluster.wait(&format!("{node} to be connected: {connected}"), |cluster| {
        cluster.node(node).filter(|n| n.connected == connected)
    });
}

#[test]
fn silent_node_is_unknown_and_nothing_is_drained_for_it() {
    let mut cluster = impatient(&[("n1", 1), ("n2", 1)]).start();
    let flags = "--on-sigterm exit0".to_owned();
    let run_flags = "--node n1".to_owned();
    let trainer = Training { flags, run_flags, ..Training::new("train") }.start(&mut cluster);
    cluster.wait_measured("train");
    let pid = trainer.pid(&cluster, 1, 0);
    cluster.freeze();
    cluster.serve("serve", 1, "--node n1");
    cluster.wait("serve to wait", |cluster| cluster.workload("serve"));
    cluster.stop_agent("n1");
    wait_connected(&cluster, "n1", false);
    cluster.unfreeze();
    let node = cluster.node("n1").unwrap();
    assert_eq!(node.reason.as_ref().unwrap().code, "node-silent");
    let healths: Vec<Health> =
        node.report.unwrap().devices.iter().map(pb::Device::health).collect();
    assert!(!healths.contains(&Health::Healthy), "a silent node's device is shown as {healths:?}");
    // A more important workload needs the device: it waits, because nobody could see that the device gets free.
    cluster.wait("serve to wait for a device", |cluster| {
        let workload = cluster.workload("serve")?;
        let waits = ["nodes-not-connected", "waiting-for-devices", "no-node-large-enough"];
        waits.contains(&code(&workload)).then_some(())
    });
    assert_eq!(cluster.drains().unwrap(), []);
    let workload = cluster.workload("train").unwrap();
    assert_eq!((workload.phase(), workload.attempt), (Phase::Running, 1));
    let step = trainer.last_step();
    cluster.wait("the training to go on", |_| (trainer.last_step() > step).then_some(()));
    assert_eq!((trainer.pid(&cluster, 1, 0), trainer.signals()), (pid, vec![]));
    // Heard of again, it can be drained.
    cluster.continue_agent("n1");
    wait_connected(&cluster, "n1", true);
    cluster.wait_phase("serve", Phase::Running);
    assert_eq!(trainer.count_of(Signal::SIGTERM), 1);
}

#[test]
fn decisions_freeze_when_most_agents_vanish() {
    let mut cluster = impatient(&[("n1", 1), ("n2", 1), ("n3", 1)]).start();
    for node in ["n1", "n2"] {
        cluster.stop_agent(node);
    }
    for node in ["n1", "n2"] {
        wait_connected(&cluster, node, false);
    }
    let frozen = cluster.wait("decisions to freeze", |cluster| cluster.status()?.frozen);
    assert_eq!(frozen.code, "most-agents-silent");
    assert_eq!((frozen.values["silent"].as_str(), frozen.values["known"].as_str()), ("2", "3"));
    // There is a free device on the node that is heard of; even so nothing is decided.
    let socket = cluster.agent_socket("n3");
    cluster.run("quiet", &format!("--agent-socket {}", socket.display()), &["sleep", "600"]);
    let waiting = cluster.wait("the workload to be told", |cluster| {
        cluster.workload("quiet").filter(|w| code(w) == "most-agents-silent")
    });
    assert_eq!(waiting.phase(), Phase::Pending);
    cluster.continue_agent("n1");
    cluster.wait_phase("quiet", Phase::Running);
    assert_eq!(cluster.status().unwrap().frozen, None);
    assert_eq!(cluster.starts().len(), 1);
}

#[test]
fn one_silent_agent_of_many_freezes_nothing() {
    let mut cluster = impatient(&[("n1", 1), ("n2", 1), ("n3", 1)]).start();
    cluster.stop_agent("n1");
    wait_connected(&cluster, "n1", false);
    let socket = cluster.agent_socket("n3");
    cluster.run("quiet", &format!("--agent-socket {}", socket.display()), &["sleep", "600"]);
    cluster.wait_phase("quiet", Phase::Running);
    assert_eq!(cluster.status().unwrap().frozen, None);
}

/// A worker that ends while nobody hears of its node is not taken for running once it is heard of again.
#[test]
fn what_happened_in_the_silence_is_told_after_it() {
    let mut cluster = impatient(&[("n1", 1)]).start();
    let trainer = Training::new("train").start(&mut cluster);
    cluster.wait_measured("train");
    cluster.stop_agent("n1");
    wait_connected(&cluster, "n1", false);
    nix::sys::signal::kill(trainer.pid(&cluster, 1, 0), Signal::SIGKILL).unwrap();
    cluster.wait_phase("train", Phase::Failed);
    // Its device is nobody's until its agent has seen that it is idle.
    assert_eq!(
        cluster.workload("train").unwrap().members[0].assignment.as_ref().map(|a| a.devices.len()),
        Some(1)
    );
    cluster.continue_agent("n1");
    cluster.wait("the device to be free", |cluster| {
        cluster.workload("train")?.members[0].assignment.is_none().then_some(())
    });
}

/// The same with a link that is cut: nothing is refused, packets just do not arrive.
#[test]
fn link_that_is_cut_looks_like_silence_and_heals() {
    // A namespace belongs to a thread; whatever it starts lives there too.
    let scene = std::thread::spawn(|| match unshare(CloneFlags::CLONE_NEWNET) {
        Ok(()) => cut_and_heal(),
        Err(why) => eprintln!("skipped: a network namespace needs root ({why})"),
    });
    scene.join().unwrap();
}

const ARBITER_ADDRESS: &str = "10.77.0.1:7600";

fn cut_and_heal() {
    if Command::new("ip").arg("-V").output().is_err() {
        return eprintln!("skipped: the program ip is not installed");
    }
    let setup = impatient(&[("n1", 1)]).arbiter("--insecure-listen");
    let mut cluster = Cluster::unstarted(setup);
    cluster.listen = Some(ARBITER_ADDRESS.to_owned());
    // The other side of the link is a namespace that a sleeping process keeps open.
    let mut far = cluster.command("unshare");
    let far = cluster.spawn("far", far.args(["--net", "sleep", "600"]));
    let pid = far.pid().to_string();
    let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    wait_for("the other namespace", || {
        let theirs = std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()?;
        (theirs != own).then_some(())
    });
    let run = |line: &str| {
        let mut words = line.split_whitespace();
        let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run("ip link set lo up");
    run(&format!("ip link add near type veth peer name far netns {pid}"));
    run("ip addr add 10.77.0.1/24 dev near");
    run("ip link set near up");
    run(&format!("nsenter --net=/proc/{pid}/ns/net ip addr add 10.77.0.2/24 dev far"));
    run(&format!("nsenter --net=/proc/{pid}/ns/net ip link set far up"));
    cluster.adopt(far);
    cluster.agent_prefix = vec!["nsenter".to_owned(), format!("--net=/proc/{pid}/ns/net")];
    cluster.start_arbiter();
    cluster.start_agent("n1");
    wait_connected(&cluster, "n1", true);
    let flags = "--on-sigterm exit0".to_owned();
    let trainer = Training { flags, ..Training::new("train") }.start(&mut cluster);
    cluster.wait_measured("train");
    let far_link =
        |state: &str| run(&format!("nsenter --net=/proc/{pid}/ns/net ip link set far {state}"));
    far_link("down");
    wait_connected(&cluster, "n1", false);
    let step = trainer.last_step();
    cluster.wait("the training to go on", |_| (trainer.last_step() > step).then_some(()));
    far_link("up");
    wait_connected(&cluster, "n1", true);
    let workload = cluster.workload("train").unwrap();
    assert_eq!((workload.phase(), workload.attempt), (Phase::Running, 1));
    assert_eq!(trainer.signals(), [0_i32; 0]);
    assert_eq!(cluster.drains().unwrap(), []);
}
