use std::collections::BTreeMap;
use std::path::PathBuf;

use sluice::wire::pb;

use super::*;

fn plan(command: &[&str]) -> Plan {
    Plan {
        spec: pb::WorkloadSpec {
            name: "train".to_owned(),
            nnodes: 2,
            resources: BTreeMap::new(),
            checkpoint_dir: "/data/c".to_owned(),
            ..pb::WorkloadSpec::default()
        },
        rank: 1,
        program: PathBuf::from("/bin/sh"),
        command: command.iter().map(Into::into).collect(),
        nodes: Vec::new(),
        quiet: false,
    }
}

fn start() -> Start {
    let device = |id: &str, index| AssignedDevice { id: id.to_owned(), index };
    let devices = vec![device("sim-a-1", 1), device("sim-a-3", 3)];
    let (node, node_uid, drain_dir) = ("a".to_owned(), "u1".to_owned(), "/state/d".to_owned());
    Start { attempt: 4, node, node_uid, devices, drain_dir }
}

#[test]
fn the_environment_names_worker_and_devices() {
    let environment = environment(&plan(&["sh"]), &start());
    let expected = [
        ("SLUICE_WORKLOAD", "train"),
        ("SLUICE_WORKER", "train/4/1"),
        ("SLUICE_NODE", "a"),
        ("SLUICE_NODE_UID", "u1"),
        ("SLUICE_DEVICES", "sim-a-1,sim-a-3"),
        ("SLUICE_CHECKPOINT_DIR", "/data/c"),
        ("SLUICE_DRAIN_DIR", "/state/d"),
        ("CUDA_VISIBLE_DEVICES", "1,3"),
        ("RANK", "1"),
        ("WORLD_SIZE", "2"),
        ("LOCAL_RANK", "0"),
    ];
    assert_eq!(environment, expected.map(|(name, value)| (name, value.to_owned())));
}

#[test]
fn a_worker_that_is_alone_is_not_taken_for_one_of_a_gang() {
    let mut plan = plan(&["sh"]);
    plan.spec.nnodes = 1;
    let environment = environment(&plan, &start());
    assert!(environment.iter().all(|(name, _)| *name != "LOCAL_RANK"), "{environment:?}");
}

#[test]
fn exit_statuses_are_those_of_a_shell() {
    let cases = [
        (Exit::Code(0), 0),
        (Exit::Code(255), 255),
        (Exit::Signal(2), 130),
        (Exit::Signal(15), 143),
        (Exit::Unknown, 1),
    ];
    assert_eq!(cases.map(|(exit, _)| exit_status(exit)), cases.map(|(_, status)| status));
}

#[tokio::test]
async fn a_worker_has_its_own_group_and_its_marker() {
    let script =
        r#"test "$SLUICE_WORKER" = train/4/1 && test "$(ps -o pgid= -p $$ | tr -d ' ')" = $$"#;
    let mut worker = Worker::spawn(&plan(&["sh", "-c", script]), &start()).expect("starts");
    assert_eq!(worker.wait().await, Exit::Code(0));
}

#[tokio::test]
async fn ending_a_worker_ends_its_whole_group() {
    let script = "sleep 1000 & wait";
    let mut worker = Worker::spawn(&plan(&["sh", "-c", script]), &start()).expect("starts");
    let group = worker.group;
    assert_eq!(worker.end(Ending::Asked).await, Exit::Signal(Signal::SIGTERM as i32));
    // The rest of the group is gone as soon as init has reaped it.
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while killpg(group, None).is_ok() && std::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(killpg(group, None).is_err(), "nobody is left in the group");
}
