//! A snapshot whose nodes change is the snapshot of the changed nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use crate::kueue::fixture::{flavor, pending, queue, running};
use crate::kueue::matching::{Taint, TaintEffect};
use crate::kueue::model::Topology;
use crate::kueue::name::{FlavorName, WorkloadKey};
use crate::kueue::snapshot::{Running, Setup, Snapshot};
use crate::kueue::tas::{
    Assumed, Capacity, HOSTNAME, Node, OtherPod, Outcome, PodSetRequest, Switches,
};
use crate::kueue::workload::{
    PlacedDomain, Placement, PodSet, Requests, TopologyMode, TopologyRequest,
};

const FLAVORS: [&str; 3] = ["a3", "a4", "coarse"];

/// `a3` has racks and hosts, `a4` has no topology, `coarse` has only racks.
fn setup(nodes: Vec<Node>, places_all: bool) -> Setup {
    let mut flavors = FLAVORS.map(flavor);
    flavors[0].topology = Some("hosts".into());
    flavors[0].node_labels = [("kind".to_owned(), "a3".to_owned())].into();
    flavors[2].topology = Some("racks".into());
    let levels = |levels: &[&str]| levels.iter().map(|level| (*level).to_owned()).collect();
    Setup {
        flavors: flavors.into(),
        queues: vec![queue("q", None, 1_000)],
        topologies: vec![
            Topology { name: "hosts".into(), levels: levels(&["rack", HOSTNAME]) },
            Topology { name: "racks".into(), levels: levels(&["rack"]) },
        ],
        nodes,
        other_pods: vec![OtherPod {
            node: "n1".into(),
            requests: [("gpu".into(), 1)].into(),
            has_ended: false,
        }],
        placement: Switches { avoids_degraded: true, ..Switches::default() },
        places_all,
        ..Setup::default()
    }
}

/// What may happen to a cluster.
#[derive(Clone, Debug)]
enum Change {
    Set(Node),
    Remove(usize),
    /// A workload of this number gets pods on this node.
    Run(usize, usize, u32),
    Stop(usize),
    /// Somebody asks, so that outdated trees are planted anew.
    Ask,
}

fn nodes() -> impl Strategy<Value = Node> {
    let shape = (0..6usize, 0..3usize, 0..9i64, 0..4i64, any::<[bool; 6]>());
    shape.prop_map(|(index, rack, gpus, degraded, is)| {
        let [is_ready, is_unschedulable, is_tainted, has_nic, is_a3, shares_host] =
            [!is[0] || !is[1], is[2] && is[3], is[0] && is[2], is[4] && is[1], is[5] || is[0], {
                is[1] && is[3] && is[5]
            }];
        let host = if shares_host { "n0".to_owned() } else { format!("n{index}") };
        let kind = if is_a3 { "a3" } else { "other" };
        let mut allocatable: Requests = [("gpu".into(), gpus), ("pods".into(), 8)].into();
        if has_nic {
            allocatable.insert("nic".into(), 4);
        }
        let taint =
            Taint { key: "t".into(), value: String::new(), effect: TaintEffect::NoSchedule };
        Node {
            name: format!("n{index}"),
            labels: [("rack", format!("r{rack}")), (HOSTNAME, host), ("kind", kind.to_owned())]
                .map(|(key, value)| (key.to_owned(), value))
                .into(),
            allocatable,
            taints: if is_tainted { vec![taint] } else { Vec::new() },
            is_ready,
            is_unschedulable,
            degraded: [("gpu".into(), degraded.min(gpus))].into(),
        }
    })
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        6 => nodes().prop_map(Change::Set),
        1 => (0..6usize).prop_map(Change::Remove),
        2 => (0..4usize, 0..6usize, 1..4u32)
            .prop_map(|(workload, node, pods)| Change::Run(workload, node, pods)),
        1 => (0..4usize).prop_map(Change::Stop),
        2 => Just(Change::Ask),
    ];
    prop::collection::vec(change, 1..30)
}

fn running_on(workload: usize, node: usize, pods: u32) -> Running {
    let name = format!("w{workload}");
    let template = running(&name, "q", 0, 1);
    let mut workload = pending(&name, "q", 0, 1);
    let mut held = template.workload.reservation.clone().unwrap();
    let domain = PlacedDomain { values: vec![format!("n{node}")], pods };
    held.admission.pod_sets[0].count = pods;
    held.admission.pod_sets[0].placement =
        Some(Placement { levels: vec![HOSTNAME.to_owned()], domains: vec![domain] });
    workload.reservation = Some(held);
    Running::new(Arc::new(workload))
}

fn pod_sets() -> Vec<PodSet> {
    let template = pending("p", "q", 0, 1).pod_sets.remove(0);
    let mut pod_sets = Vec::new();
    for (mode, count) in [
        (TopologyMode::Required("rack".into()), 3),
        (TopologyMode::Preferred(HOSTNAME.into()), 5),
        (TopologyMode::Unconstrained, 4),
        (TopologyMode::Unconstrained, 60),
    ] {
        let topology = Some(TopologyRequest { mode: Some(mode), ..TopologyRequest::default() });
        pod_sets.push(PodSet { count, topology, ..template.clone() });
    }
    let mut networked = pod_sets[2].clone();
    networked.requests.insert("nic".into(), 1);
    pod_sets.push(networked);
    pod_sets
}

/// Of one flavor: leaves, what is free in each, and placements.
type Answers = (FlavorName, usize, Vec<Option<Requests>>, Vec<Outcome>);

/// All that a placement could find out about a snapshot.
fn answers(snapshot: &Snapshot) -> Vec<Answers> {
    let hosts = (0..6).map(|index| format!("n{index}"));
    let names: Vec<Vec<String>> =
        hosts.chain((0..3).map(|rack| format!("r{rack}"))).map(|name| vec![name]).collect();
    let answer = |flavor: &&str| {
        let flavor = FlavorName::from(*flavor);
        let topology = snapshot.topology(&flavor)?;
        let free = names.iter().map(|name| topology.free_in(name)).collect();
        let mut outcomes = Vec::new();
        for pod_set in &pod_sets() {
            for capacity in [Capacity::Free, Capacity::Empty] {
                let requests = [PodSetRequest::new(pod_set)];
                outcomes.push(topology.place(&requests, capacity, &mut Assumed::default()));
            }
        }
        Some((flavor, topology.leaf_count(), free, outcomes))
    };
    FLAVORS.iter().filter_map(answer).collect()
}

proptest! {
    #[test]
    fn a_snapshot_whose_nodes_changed_answers_as_a_new_one(
        start in prop::collection::vec(nodes(), 0..6),
        changes in changes(),
        places_all in any::<bool>(),
    ) {
        let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
        for node in start {
            nodes.insert(node.name.clone(), node);
        }
        let mut snapshot = Snapshot::new(setup(nodes.values().cloned().collect(), places_all));
        let mut runs: BTreeMap<usize, Running> = BTreeMap::new();
        for change in changes {
            match change {
                Change::Set(node) => {
                    nodes.insert(node.name.clone(), node.clone());
                    snapshot.set_node(node);
                }
                Change::Remove(index) => {
                    let name = format!("n{index}");
                    prop_assert_eq!(snapshot.remove_node(&name), nodes.remove(&name).is_some());
                }
                Change::Run(workload, node, pods) => {
                    let running = running_on(workload, node, pods);
                    runs.insert(workload, running.clone());
                    snapshot.insert(running);
                }
                Change::Stop(workload) => {
                    runs.remove(&workload);
                    snapshot.remove(&WorkloadKey::new("", &format!("w{workload}")));
                }
                Change::Ask => {
                    prop_assert_eq!(snapshot.topology(&"a3".into()).is_some(), true);
                }
            }
        }
        let mut fresh = Snapshot::new(setup(nodes.into_values().collect(), places_all));
        for running in runs.into_values() {
            fresh.insert(running);
        }
        prop_assert_eq!(answers(&snapshot), answers(&fresh));
        snapshot.remove(&WorkloadKey::new("", "w0"));
        fresh.remove(&WorkloadKey::new("", "w0"));
        prop_assert_eq!(answers(&snapshot), answers(&fresh));
    }
}

fn host(name: &str, gpus: i64) -> Node {
    let labels = [("rack", "r0"), (HOSTNAME, name), ("kind", "a3")];
    Node {
        name: name.to_owned(),
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        allocatable: [("gpu".into(), gpus), ("pods".into(), 8)].into(),
        taints: Vec::new(),
        is_ready: true,
        is_unschedulable: false,
        degraded: Requests::new(),
    }
}

fn free_gpus(snapshot: &Snapshot, name: &str) -> Option<i64> {
    let free = snapshot.topology(&"a3".into())?.free_in(&[name.to_owned()])?;
    free.get(&"gpu".into()).copied()
}

#[test]
fn a_node_that_is_not_ready_offers_nothing_until_it_is_ready_again() {
    let mut snapshot = Snapshot::new(setup(vec![host("n2", 8)], false));
    snapshot.insert(running_on(0, 2, 3));
    assert_eq!(free_gpus(&snapshot, "n2"), Some(5));
    snapshot.set_node(Node { is_ready: false, ..host("n2", 8) });
    assert_eq!(free_gpus(&snapshot, "n2"), None);
    snapshot.set_node(host("n2", 4));
    assert_eq!(free_gpus(&snapshot, "n2"), Some(1));
    assert!(snapshot.remove_node("n2"));
    assert_eq!(free_gpus(&snapshot, "n2"), None);
    assert!(!snapshot.remove_node("n2"));
}

#[test]
fn what_runs_on_a_node_that_joins_later_is_counted_there() {
    let mut snapshot = Snapshot::new(setup(Vec::new(), false));
    snapshot.insert(running_on(0, 2, 3));
    assert_eq!(free_gpus(&snapshot, "n2"), None);
    snapshot.set_node(host("n2", 8));
    assert_eq!(free_gpus(&snapshot, "n2"), Some(5));
}
