//! Slices of TPUs: two cubes of 16 hosts, each with an agent of its own, as real processes.
//!
//! Agents are told the labels of their nodes, which are those that nodes of a cloud have, and simulate their chips.

use std::collections::{BTreeMap, BTreeSet};

use sluice::wire::pb::{self, Phase};

use crate::ask::request;
use crate::cluster::{AGENT, Cluster, Setup};

const SHAPES: [&str; 5] = ["2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4"];
const SERVERS: [&str; 8] = [
    "decode-0",
    "decode-1",
    "decode-2",
    "decode-3",
    "prefill-0",
    "prefill-1",
    "prefill-2",
    "prefill-3",
];

fn start_host(cluster: &mut Cluster, cube: &str, number: u32) {
    let node = format!("{cube}-{number:02}");
    let mut command = cluster.command(AGENT);
    command.args(["--node", &node, "--simulate", "tpu7x=4", "--kmsg-path", "off", "--log", "warn"]);
    command.args(["--disk-interval-ms", "60000", "--device-interval-ms", "30000"]);
    let mut label = |key: &str, value: &str| {
        command.arg("--node-label").arg(format!("cloud.google.com/{key}={value}"));
    };
    label("gke-tpu-accelerator", "tpu7x");
    label("gce-topology-block", "block-1");
    for (level, shape) in SHAPES.iter().enumerate() {
        // Ids are opaque; these can be read by whoever reads a failed test.
        let id = if level == 4 {
            cube.to_owned()
        } else {
            format!("{cube}.{shape}.{}", number >> level)
        };
        label(&format!("gke-tpu-partition-{shape}-id"), &id);
        label(&format!("gke-tpu-partition-{shape}-state"), "HEALTHY");
    }
    let agent = cluster.spawn(&format!("agent-{node}"), &mut command);
    cluster.adopt(agent);
}

fn two_cubes() -> Cluster {
    let setup = Setup::nodes(&[])
        .arbiter("--heartbeat-ms 5000 --agent-lost-ms 120000 --start-timeout-ms 600000");
    let mut cluster = Cluster::unstarted(setup);
    cluster.start_arbiter();
    for cube in ["a", "b"] {
        for number in 0..16 {
            start_host(&mut cluster, cube, number);
        }
    }
    cluster.wait("32 hosts with 4 chips", |cluster| {
        let nodes = cluster.nodes()?;
        let is_up = |n: &&pb::NodeSummary| {
            n.connected && n.report.as_ref().is_some_and(|report| report.devices.len() == 4)
        };
        (nodes.iter().filter(is_up).count() == 32).then_some(())
    });
    cluster
}

fn submit(cluster: &mut Cluster, name: &str, priority: i32, slice: &str, ranks: u32) {
    for rank in 0..ranks {
        let flags =
            format!("--priority {priority} --slice {slice} --nnodes {ranks} --node-rank {rank}");
        cluster.run(name, &flags, &["sleep", "3600"]);
    }
}

fn wait_phase(cluster: &Cluster, name: &str, phase: Phase) {
    cluster.wait(&format!("{name} to be {phase:?}"), |cluster| {
        (cluster.workload(name)?.phase() == phase).then_some(())
    });
}

fn slices(cluster: &Cluster) -> Vec<pb::Slice> {
    let message = request(pb::ListSlicesRequest {});
    let answer = cluster.ask(|mut admin| async move { admin.list_slices(message).await });
    answer.unwrap().slices
}

/// Partitions by workload; fails if two slices have a host in common.
fn places(cluster: &Cluster) -> BTreeMap<String, BTreeSet<String>> {
    let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for slice in slices(cluster) {
        for node in slice.nodes.values() {
            assert!(taken.insert(node.clone()), "{node} is on two slices");
        }
        places.entry(slice.workload).or_default().extend(slice.partitions);
    }
    places
}

fn pairs(cube: &str, count: u32) -> BTreeSet<String> {
    (0..count).map(|pair| format!("{cube}.2x2x2.{pair}")).collect()
}

/// Six small slices, then a large one, then the eight replicas of a server: who is evicted, where all are, who waits.
#[test]
fn replicas_of_a_server_evict_one_large_slice_once_and_share_its_cube() {
    let mut cluster = two_cubes();
    submit(&mut cluster, "low", 1_000, "2x2x2 --slices 6", 12);
    wait_phase(&cluster, "low", Phase::Running);
    assert_eq!(places(&cluster), [("low".to_owned(), pairs("a", 6))].into());

    submit(&mut cluster, "medium", 2_000, "4x4x8", 32);
    wait_phase(&cluster, "medium", Phase::Running);
    let both = ["a", "b"].map(str::to_owned).into();
    assert_eq!(places(&cluster), [("medium".to_owned(), both)].into());
    assert_eq!(cluster.workload("low").unwrap().phase(), Phase::Pending);

    for server in SERVERS {
        submit(&mut cluster, server, 3_000, "2x2x2 --slice-group server", 2);
    }
    for name in SERVERS.iter().chain(&["low"]) {
        wait_phase(&cluster, name, Phase::Running);
    }
    let mut places = places(&cluster);
    let low = places.remove("low").unwrap();
    let servers: BTreeSet<String> = places.values().flatten().cloned().collect();
    let (cube, other) =
        if low.iter().all(|id| id.starts_with('a')) { ("b", "a") } else { ("a", "b") };
    assert_eq!((servers, low), (pairs(cube, 8), pairs(other, 6)));
    assert_eq!(places.into_keys().collect::<Vec<_>>(), SERVERS);

    let medium = cluster.workload("medium").unwrap();
    assert_eq!(medium.phase(), Phase::Pending);
    let mut evicted: Vec<String> =
        cluster.drains().unwrap().into_iter().map(|d| d.victim).collect();
    evicted.sort();
    assert_eq!(evicted, ["low", "medium"], "each once, and nobody else");
    cluster.assert_no_device_given_twice();
    check_commands(&cluster);
}

fn check_commands(cluster: &Cluster) {
    let map = cluster.sluice(&["slice", "map"]);
    let expected = ["a  tpu7x block-1:", "b  tpu7x block-1:", "14 slices", "low  6 x 2x2x2"];
    expected.iter().for_each(|part| assert!(map.stdout().contains(part), "{}", map.stdout()));
    assert!(map.stdout().contains(": 0 of 16 hosts free"), "{}", map.stdout());
    assert!(map.stdout().contains(": 4 of 16 hosts free"), "{}", map.stdout());
    let svg = cluster.sluice(&["slice", "map", "-o", "svg"]).stdout();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{svg}");
    let listed = cluster.sluice(&["get", "slices", "-o", "json"]).stdout();
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let items = listed["items"].as_array().unwrap();
    assert_eq!(items.len(), 14);
    assert!(items.iter().all(|slice| slice["state"] == "ACTIVE"), "{listed}");
    let mut plan = cluster.sluice(&["slice", "plan", "4x4x8", "--what-if"]);
    assert_eq!(plan.exit_code(), Some(1), "{}", plan.stdout());
    assert!(plan.stdout().contains("slice-no-free-cubes"), "{}", plan.stdout());
    let mut plan = cluster.sluice(&["slice", "plan", "2x2x4", "--what-if"]);
    assert_eq!(plan.exit_code(), Some(0), "{}", plan.stdout());
    let mut illegal = cluster.sluice(&["slice", "plan", "4x4x6"]);
    assert!(illegal.stderr().contains("nearest: 4x4x4"), "{}", illegal.tail());
}
