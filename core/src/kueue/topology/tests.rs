mod every_pod;

use std::sync::Arc;

use super::*;
use crate::kueue::cycle::{Decision, Options, run_cycle};
use crate::kueue::fixture::{NOW_MS, flavor, pending, queue, running};
use crate::kueue::model::{
    AdmissionCheck, CheckRule, ClusterQueue, Preemption, PreemptionPolicy, Topology,
};
use crate::kueue::name::WorkloadKey;
use crate::kueue::order::Pending;
use crate::kueue::snapshot::{Running, Setup};
use crate::kueue::tas::Node;
use crate::kueue::workload::{CheckState, Reservation, TopologyMode, TopologyRequest};

const HOSTNAME: &str = "kubernetes.io/hostname";

/// Racks of two nodes with 8 GPUs each, all of flavor a3.
fn setup(node_count: usize, queues: Vec<ClusterQueue>) -> Setup {
    let node = |index: usize| {
        let name = format!("node{index}");
        let labels = [
            ("rack".to_owned(), format!("rack{}", index / 2)),
            (HOSTNAME.to_owned(), name.clone()),
        ];
        Node {
            name,
            labels: labels.into(),
            allocatable: [("gpu".into(), 8), ("pods".into(), 100)].into(),
            taints: Vec::new(),
            is_ready: true,
            is_unschedulable: false,
            degraded: std::collections::BTreeMap::new(),
        }
    };
    let mut a3 = flavor("a3");
    a3.topology = Some("racks".into());
    let levels = vec!["rack".to_owned(), HOSTNAME.to_owned()];
    Setup {
        flavors: vec![a3],
        queues,
        topologies: vec![Topology { name: "racks".into(), levels }],
        nodes: (0..node_count).map(node).collect(),
        ..Setup::default()
    }
}

/// A workload of `count` pods with 8 GPUs each that must lie in one rack.
fn in_one_rack(name: &str, queue: &str, priority: i32, count: u32) -> Workload {
    let mut workload = pending(name, queue, priority, 8);
    workload.pod_sets[0].count = count;
    let mode = Some(TopologyMode::Required("rack".to_owned()));
    workload.pod_sets[0].topology = Some(TopologyRequest { mode, ..TopologyRequest::default() });
    workload
}

fn placement_on(nodes: &[&str]) -> Placement {
    let domain = |node: &&str| PlacedDomain { values: vec![(*node).to_owned()], pods: 1 };
    Placement { levels: vec![HOSTNAME.to_owned()], domains: nodes.iter().map(domain).collect() }
}

/// `workload` running with one pod on each of `nodes`.
fn placed(mut workload: Workload, nodes: &[&str]) -> Running {
    let name = workload.key.name().to_owned();
    let template =
        running(&name, workload.queue.as_str(), 0, 8 * nodes.len().try_into().unwrap_or(0));
    let mut held: Reservation = template.workload.reservation.clone().expect("it runs");
    held.admission.pod_sets[0].count = nodes.len().try_into().unwrap_or(0);
    held.admission.pod_sets[0].placement = Some(placement_on(nodes));
    workload.reservation = Some(held);
    Running::new(Arc::new(workload))
}

fn decide(
    snapshot: &Snapshot,
    heads: Vec<Workload>,
    options: &Options<'_>,
) -> Vec<(Decision, Option<PendingReason>)> {
    let heads: Vec<Pending> =
        heads.into_iter().map(|workload| Pending::new(Arc::new(workload))).collect();
    let verdicts = run_cycle(snapshot, &heads, options, NOW_MS).verdicts;
    verdicts.into_iter().map(|verdict| (verdict.decision, verdict.reason)).collect()
}

fn nodes_of(decision: &Decision) -> Vec<String> {
    let Decision::Admit(admission) = decision else { return Vec::new() };
    let placement = admission.pod_sets[0].placement.iter();
    placement
        .flat_map(|placement| &placement.domains)
        .map(|domain| domain.values.concat())
        .collect()
}

#[test]
fn a_workload_is_admitted_with_its_nodes() {
    let mut snapshot = Snapshot::new(setup(4, vec![queue("a", None, 32)]));
    snapshot.insert(placed(in_one_rack("x", "a", 0, 1), &["node0"]));
    let decisions = decide(&snapshot, vec![in_one_rack("w", "a", 0, 2)], &Options::classical());
    assert_eq!(nodes_of(&decisions[0].0), ["node2", "node3"]);
}

#[test]
fn quota_in_pieces_is_no_room() {
    let mut a = queue("a", None, 32);
    a.preemption =
        Preemption { within_queue: PreemptionPolicy::LowerPriority, ..Preemption::NEVER };
    let mut snapshot = Snapshot::new(setup(4, vec![a]));
    snapshot.insert(placed(in_one_rack("x", "a", 0, 1), &["node0"]));
    snapshot.insert(placed(in_one_rack("y", "a", 0, 1), &["node2"]));
    // 16 GPUs are free, but no rack has both nodes free until a victim goes.
    let decisions = decide(&snapshot, vec![in_one_rack("w", "a", 5, 2)], &Options::classical());
    let Decision::Preempt(victims) = &decisions[0].0 else { panic!("{decisions:?}") };
    assert_eq!(victims.len(), 1);
}

#[test]
fn what_would_not_fit_into_empty_nodes_does_not_wait_for_victims() {
    let snapshot = Snapshot::new(setup(4, vec![queue("a", None, 32)]));
    let decisions = decide(&snapshot, vec![in_one_rack("w", "a", 5, 3)], &Options::classical());
    assert_eq!(decisions, [(Decision::Wait, Some(PendingReason::TopologyPlacementFailed))]);
}

#[test]
fn a_queue_of_topologies_only_places_pods_that_do_not_ask() {
    let snapshot = Snapshot::new(setup(2, vec![queue("a", None, 16)]));
    let decisions = decide(&snapshot, vec![pending("w", "a", 0, 8)], &Options::classical());
    assert_eq!(nodes_of(&decisions[0].0), ["node0"]);
}

#[test]
fn two_heads_of_one_cycle_get_different_nodes() {
    let queues = vec![queue("a", None, 16), queue("b", None, 16)];
    let snapshot = Snapshot::new(setup(4, queues));
    let heads = vec![in_one_rack("w1", "a", 1, 2), in_one_rack("w2", "b", 0, 2)];
    let decisions = decide(&snapshot, heads, &Options::classical());
    let nodes: Vec<_> = decisions.iter().map(|(decision, _)| nodes_of(decision)).collect();
    assert_eq!(nodes, [["node0", "node1"], ["node2", "node3"]]);
}

#[test]
fn a_broken_node_is_replaced_in_the_same_rack_or_the_workload_is_evicted() {
    let mut workload = in_one_rack("w", "a", 0, 1);
    workload.unhealthy_nodes = vec!["node0".to_owned()];
    let broken = |node_count| {
        let mut setup = setup(node_count, vec![queue("a", None, 32)]);
        setup.nodes.retain(|node| node.name != "node0");
        Snapshot::new(setup)
    };
    for (node_count, expected) in [(2, "node1"), (1, "")] {
        let mut snapshot = broken(node_count);
        let held = placed(workload.clone(), &["node0"]);
        let head = (*held.workload).clone();
        snapshot.insert(held);
        let decisions = decide(&snapshot, vec![head], &Options::classical());
        match &decisions[0].0 {
            Decision::Admit(_) => assert_eq!(nodes_of(&decisions[0].0), [expected]),
            decision => assert_eq!(
                (decision, expected),
                (&Decision::Evict(crate::kueue::workload::EvictionReason::NodeFailures), "")
            ),
        }
    }
}

#[test]
fn several_broken_nodes_are_replaced_only_where_that_is_switched_on() {
    let decide_with = |replaces_several_nodes, node_count| {
        let mut setup = setup(node_count, vec![queue("a", None, 64)]);
        setup.placement.replaces_several_nodes = replaces_several_nodes;
        setup.topologies[0].levels.insert(0, "row".to_owned());
        for node in &mut setup.nodes {
            node.labels.insert("row".to_owned(), "row0".to_owned());
        }
        setup.nodes.retain(|node| !["node0", "node2"].contains(&node.name.as_str()));
        let mut workload = in_one_rack("w", "a", 0, 3);
        workload.unhealthy_nodes = vec!["node2".to_owned(), "node0".to_owned()];
        let mode = Some(TopologyMode::Required("row".to_owned()));
        workload.pod_sets[0].topology =
            Some(TopologyRequest { mode, ..TopologyRequest::default() });
        let held = placed(workload, &["node0", "node1", "node2"]);
        let head = (*held.workload).clone();
        let mut snapshot = Snapshot::new(setup);
        snapshot.insert(held);
        decide(&snapshot, vec![head], &Options::classical()).remove(0).0
    };
    let evicted = Decision::Evict(crate::kueue::workload::EvictionReason::NodeFailures);
    assert_eq!(nodes_of(&decide_with(true, 5)), ["node1", "node3", "node4"]);
    assert_eq!(decide_with(true, 4), evicted);
    assert_eq!(decide_with(false, 5), evicted);
}

#[test]
fn flavors_that_share_nodes_see_each_others_pods() {
    let mut setup = setup(2, vec![queue("a", None, 16), queue("b", None, 16)]);
    let mut twin = flavor("a4");
    twin.topology = Some("racks".into());
    setup.flavors.push(twin);
    setup.queues[1].groups =
        vec![crate::kueue::fixture::gpu_group(&[("a4", crate::kueue::fixture::nominal(16))])];
    let mut snapshot = Snapshot::new(setup);
    snapshot.insert(placed(in_one_rack("x", "a", 0, 1), &["node0"]));
    let decisions = decide(&snapshot, vec![in_one_rack("w", "b", 0, 1)], &Options::classical());
    assert_eq!(nodes_of(&decisions[0].0), ["node1"]);
    snapshot.remove(&WorkloadKey::new("", "x"));
    let decisions = decide(&snapshot, vec![in_one_rack("w", "b", 0, 2)], &Options::classical());
    assert_eq!(nodes_of(&decisions[0].0), ["node0", "node1"]);
}

#[test]
fn placement_waits_for_nodes_that_a_check_provisions() {
    let mut a = queue("a", None, 16);
    a.checks = vec![CheckRule { check: "nodes".into(), on_flavors: Vec::new() }];
    let mut setup = setup(2, vec![a]);
    setup.checks = vec![AdmissionCheck {
        name: "nodes".into(),
        controller: "kueue.x-k8s.io/provisioning-request".to_owned(),
        is_active: true,
    }];
    let mut snapshot = Snapshot::new(setup);
    let mut workload = in_one_rack("w", "a", 0, 1);
    let decisions = decide(&snapshot, vec![workload.clone()], &Options::classical());
    let Decision::Admit(admission) = &decisions[0].0 else { panic!("{decisions:?}") };
    let first = &admission.pod_sets[0];
    assert_eq!(
        (&first.placement, first.delayed_placement),
        (&None, Some(DelayedPlacement::Pending))
    );

    let admission = admission.clone();
    workload.reservation = Some(Reservation { at_ms: 1, is_admitted: false, admission });
    workload.checks = [("nodes".into(), CheckState::Ready)].into();
    snapshot.insert(Running::new(Arc::new(workload.clone())));
    let decisions = decide(&snapshot, vec![workload], &Options::classical());
    assert_eq!(nodes_of(&decisions[0].0), ["node0"]);
}
