//! Two replicas of the arbiter on one API server, with a real agent and a real training.

use nix::sys::signal::Signal;
use serde_json::Value;
use sluice::wire::pb::{DrainState, Phase};

use super::control_plane::ControlPlane;
use crate::ask::{story, times_in};
use crate::cluster::{Cluster, SLUICE, Setup};
use crate::process::{Process, wait_for};
use crate::trainer::{Trainer, Training};

const ONE_NODE: &[(&str, u32)] = &[("n1", 1)];
/// Short, so that the test is; a busy machine renews it in time all the same.
pub(super) const LEASE_MS: u64 = 6_000;
const NAMESPACE: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: sluice-system}}";

/// A cluster of `nodes` whose arbiter keeps its state in `plane`, with the arbiter's own role and no more.
pub(super) fn setup(plane: &ControlPlane, nodes: &[(&'static str, u32)], lease_ms: u64) -> Setup {
    plane.apply(NAMESPACE);
    let role = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/base/arbiter-role.yaml");
    plane.apply(&std::fs::read_to_string(role).unwrap());
    let kubeconfig = plane.kubeconfig("arbiter").display().to_string();
    Setup::nodes(nodes).arbiter(&format!(
        "--kubernetes --kubeconfig {kubeconfig} --namespace sluice-system --lease-ms {lease_ms}"
    ))
}

/// Starts another replica, and waits until it knows that it is not the one that decides.
pub(super) fn start_standby(cluster: &Cluster) -> Process {
    let standby = cluster.spawn("standby", &mut cluster.arbiter_command());
    wait_for("the standby to wait", || standby.first_line());
    let line = standby.first_line().unwrap();
    assert!(line.starts_with("sluice-arbiter waiting: holder="), "{line}");
    standby
}

/// Waits until `standby` decides; its epoch.
pub(super) fn wait_takes_over(cluster: &mut Cluster, mut standby: Process) -> u64 {
    let ready = wait_for("the standby to take over", || {
        assert!(standby.exited().is_none(), "{}", standby.tail());
        standby.stdout().lines().find(|l| l.starts_with("sluice-arbiter ready:")).map(str::to_owned)
    });
    cluster.adopt_arbiter(standby);
    ready.rsplit_once("epoch=").unwrap().1.parse().unwrap()
}

fn holder(plane: &ControlPlane) -> String {
    let lease = plane.get(&["lease", "sluice-arbiter", "-n", "sluice-system"]).unwrap();
    lease["spec"]["holderIdentity"].as_str().unwrap().to_owned()
}

fn head(plane: &ControlPlane) -> Value {
    plane.get(&["configmap", "sluice-arbiter-state", "-n", "sluice-system"]).unwrap()
}

fn epoch(plane: &ControlPlane) -> u64 {
    head(plane)["data"]["epoch"].as_str().unwrap().parse().unwrap()
}

/// A training whose next checkpoint is far enough away for a replica to take over meanwhile, and its demand.
fn scene(cluster: &mut Cluster) -> Trainer {
    let flags = "--on-sigterm exit0".to_owned();
    let training = Training { save_steps: 10, save_ms: 1_500, flags, ..Training::new("train") };
    let trainer = training.start(cluster);
    cluster.wait_measured("train");
    cluster.serve_once_unfrozen("serve", "");
    trainer
}

/// The drain ends as if nobody had died: one SIGTERM, one handover, and the training resumes from what was saved.
fn carry_through(cluster: &Cluster, trainer: &Trainer) {
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    let saved = drain.saved.as_ref().expect("a checkpoint to resume from").step;
    let newest = trainer.newest();
    assert_eq!(trainer.count_of(Signal::SIGTERM), 1, "{}", story(&drain));
    cluster.cancel("serve");
    let drain = cluster.wait_drain("train", DrainState::Resumed);
    trainer.assert_resumed(saved, newest);
    for state in [DrainState::Releasing, DrainState::Freed, DrainState::HandedOver] {
        assert_eq!(times_in(&drain, state), 1, "{state:?}: {}", story(&drain));
    }
    assert_eq!(cluster.drains().unwrap().len(), 1, "one drain of one victim");
}

fn killed_in(state: DrainState, test: &str) {
    let Some(plane) = ControlPlane::start(test) else { return };
    let mut cluster = setup(&plane, ONE_NODE, LEASE_MS).start();
    let standby = start_standby(&cluster);
    let first = (holder(&plane), epoch(&plane));
    let trainer = scene(&mut cluster);
    trainer.wait_unsaved(&cluster);
    cluster.unfreeze();
    cluster.wait_drain("train", state);
    cluster.kill_arbiter();
    let took_over = wait_takes_over(&mut cluster, standby);
    assert_ne!(holder(&plane), first.0);
    assert_eq!((first.1, took_over, epoch(&plane)), (1, 2, 2));
    carry_through(&cluster, &trainer);
}

#[test]
fn leader_killed_while_a_checkpoint_is_awaited_is_followed_by_the_other_replica() {
    killed_in(DrainState::Saving, "leader killed at SAVING");
}

#[test]
fn leader_killed_at_the_handover_is_followed_by_the_other_replica() {
    killed_in(DrainState::HandedOver, "leader killed at HANDED_OVER");
}

#[test]
fn leader_that_was_stopped_for_too_long_can_write_nothing_any_more() {
    let Some(plane) = ControlPlane::start("leader stopped for too long") else { return };
    let mut cluster = setup(&plane, &[], LEASE_MS).start();
    // What is asked of the old leader waits at its socket.
    let old_address = cluster.arbiter_address();
    cluster.listen = Some(format!("unix:{}", cluster.path("second.sock").display()));
    let standby = start_standby(&cluster);
    cluster.arbiter().signal(Signal::SIGSTOP);
    let mut old = cluster.take_arbiter();
    let mut command = cluster.command(SLUICE);
    command.args(["freeze", "--why", "too late"]).env("SLUICE_ARBITER", old_address);
    let mut asked = cluster.spawn("freeze", &mut command);
    assert_eq!(wait_takes_over(&mut cluster, standby), 2);
    let before = head(&plane)["data"].clone();
    old.signal(Signal::SIGCONT);
    assert_eq!(old.exit_code(), Some(1), "{}", old.tail());
    assert_ne!(asked.exit_code(), Some(0), "{}", asked.tail());
    assert_eq!(head(&plane)["data"], before);
    assert_eq!(cluster.status().unwrap().frozen, None);
}

#[test]
fn leader_that_is_told_to_stop_gives_the_lease_up_and_is_followed_at_once() {
    let Some(plane) = ControlPlane::start("leader told to stop") else { return };
    // Nobody waits for as long as this Lease is good: a test that had to would fail.
    let mut cluster = setup(&plane, &[], 600_000).start();
    let standby = start_standby(&cluster);
    cluster.freeze();
    cluster.arbiter().signal(Signal::SIGTERM);
    assert_eq!(cluster.arbiter().exit_code(), Some(0));
    assert_eq!(wait_takes_over(&mut cluster, standby), 2);
    let frozen = cluster.status().unwrap().frozen.expect("the kill switch is part of the state");
    assert!(frozen.message.contains("a test sets the scene"), "{frozen:?}");
}

#[test]
fn api_server_that_is_away_for_less_than_the_lease_stops_nothing() {
    let Some(mut plane) = ControlPlane::start("API server restarted") else { return };
    let mut cluster = setup(&plane, ONE_NODE, 600_000).start();
    plane.kill_api_server();
    cluster.run("held-up", "--resource nvidia.com/gpu=1", &["sleep", "600"]);
    plane.start_api_server();
    cluster.wait_phase("held-up", Phase::Running);
    assert_eq!(cluster.status().unwrap().epoch, 1);
    assert_eq!(epoch(&plane), 1);
}
