//! When half of the nodes begin to fail within minutes nothing new is decided; that outlasts the arbiter, and holds for
//! faults that begin while it is away.

use sluice::wire::pb::{self, DrainState, Phase};

use crate::cluster::{Cluster, Setup};
use crate::gpu_drain::{drills, inject};
use crate::trainer::Training;

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// Four nodes with a device each, and a training on the second, under an arbiter that came after another: no node is new.
fn cluster() -> Cluster {
    let mut setup = Setup::nodes(&NODES.map(|node| (node, 1)));
    setup.agent_flags = drills().agent_flags;
    let mut cluster = setup.start();
    Training { nodes: vec!["n2"], ..Training::new("train") }.start(&mut cluster);
    cluster.wait_measured("train");
    restart(&mut cluster);
    cluster
}

fn restart(cluster: &mut Cluster) {
    cluster.kill_arbiter();
    cluster.start_arbiter();
    await_nodes(cluster);
}

fn await_nodes(cluster: &Cluster) {
    cluster.wait("all agents to be back", |cluster| {
        let connected = cluster.nodes()?.into_iter().filter(|node| node.connected).count();
        (connected == NODES.len()).then_some(())
    });
}

fn await_breaker(cluster: &Cluster) -> pb::Reason {
    cluster.wait("the breaker to open", |cluster| {
        cluster.status()?.frozen.filter(|reason| reason.code == "most-nodes-faulty")
    })
}

fn fail(cluster: &Cluster, device: &str) {
    inject(cluster, &["xid", "119", "--device", device, "--text", "Timeout after 45s"]);
}

/// Nothing has happened to the training, whose device is one of those that fail.
fn assert_left_alone(cluster: &Cluster) {
    assert_eq!(cluster.drains().unwrap(), []);
    let train = cluster.wait_phase("train", Phase::Running);
    assert_eq!(train.attempt, 1);
}

#[test]
fn open_breaker_outlasts_the_arbiter_and_what_somebody_has_dismissed_stays_dismissed() {
    let mut cluster = cluster();
    for device in ["sim-n1-0", "sim-n2-0"] {
        fail(&cluster, device);
    }
    let reason = await_breaker(&cluster);
    assert_eq!((reason.values["faulty"].as_str(), reason.values["known"].as_str()), ("2", "4"));
    restart(&mut cluster);
    let reason = await_breaker(&cluster);
    assert_eq!((reason.values["faulty"].as_str(), reason.values["known"].as_str()), ("2", "4"));
    assert_left_alone(&cluster);
    let mut unfreeze = cluster.sluice(&["unfreeze"]);
    assert_eq!(unfreeze.exit_code(), Some(0), "{}", unfreeze.tail());
    let drain = cluster.wait_drain("train", DrainState::Freed);
    assert_eq!(drain.cause.as_ref().unwrap().code, "device-fault");
    assert!(drain.saved.is_some(), "{drain:?}");
    restart(&mut cluster);
    cluster.wait("decisions to go on", |cluster| cluster.status()?.frozen.is_none().then_some(()));
    assert_eq!(cluster.drains().unwrap().len(), 1);
}

#[test]
fn faults_that_begin_while_the_arbiter_is_away_freeze_decisions() {
    let mut cluster = cluster();
    cluster.kill_arbiter();
    for device in ["sim-n1-0", "sim-n2-0"] {
        fail(&cluster, device);
    }
    cluster.start_arbiter();
    await_nodes(&cluster);
    await_breaker(&cluster);
    assert_left_alone(&cluster);
    // Two are mended: most are in order, and decisions go on by themselves.
    let mut cleared = cluster.sluice(&["clear-faults", "--device", "sim-n1-0"]);
    assert_eq!(cleared.exit_code(), Some(0), "{}", cleared.tail());
    let mut cleared = cluster.sluice(&["clear-faults", "--device", "sim-n2-0"]);
    assert_eq!(cleared.exit_code(), Some(0), "{}", cleared.tail());
    cluster.wait("the faults to be gone", |cluster| {
        let nodes = cluster.nodes()?;
        let devices = nodes.iter().flat_map(|node| node.report.iter()).flat_map(|r| &r.devices);
        devices.into_iter().all(|d| d.health() == pb::Health::Healthy).then_some(())
    });
    assert_left_alone(&cluster);
}
