//! Victims whose going makes room that lies together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::kueue::cycle::{Decision, Options, run_cycle};
use crate::kueue::fixture::{NOW_MS, flavor, pending, queue, running};
use crate::kueue::model::{ClusterQueue, Preemption, PreemptionPolicy, Topology};
use crate::kueue::name::WorkloadKey;
use crate::kueue::order::Pending;
use crate::kueue::preempt::{FairSharing, Standing, VictimPolicy, VictimRule, Weighing};
use crate::kueue::snapshot::{Running, Setup, Snapshot};
use crate::kueue::tas::Node;
use crate::kueue::workload::{PlacedDomain, Placement, TopologyMode, TopologyRequest, Workload};

const HOSTNAME: &str = "kubernetes.io/hostname";

/// Racks of four nodes with 8 GPUs and 8 CPUs each.
fn cluster(racks: usize, queues: Vec<ClusterQueue>) -> Snapshot {
    let node = |index: usize| {
        let name = format!("n{index}");
        let labels =
            [("rack".to_owned(), format!("r{}", index / 4)), (HOSTNAME.to_owned(), name.clone())];
        Node {
            name,
            labels: labels.into(),
            allocatable: [("gpu".into(), 8), ("cpu".into(), 8), ("pods".into(), 100)].into(),
            taints: Vec::new(),
            is_ready: true,
            is_unschedulable: false,
            degraded: BTreeMap::new(),
        }
    };
    let mut a3 = flavor("a3");
    a3.topology = Some("racks".into());
    let levels = vec!["rack".to_owned(), HOSTNAME.to_owned()];
    Snapshot::new(Setup {
        flavors: vec![a3],
        queues,
        topologies: vec![Topology { name: "racks".into(), levels }],
        nodes: (0..racks * 4).map(node).collect(),
        ..Setup::default()
    })
}

/// A queue of plenty in which higher priority preempts lower.
fn preempting() -> ClusterQueue {
    let mut queue = queue("a", None, 1_000);
    queue.preemption.within_queue = PreemptionPolicy::LowerPriority;
    queue
}

/// A workload with one pod of `gpus` on each of `nodes`.
fn on(name: &str, queue: &str, gpus: i64, nodes: &[usize]) -> Running {
    let count = u32::try_from(nodes.len()).unwrap();
    let mut running = running(name, queue, 0, gpus * i64::from(count));
    let mut workload = Workload::clone(&running.workload);
    workload.pod_sets[0].count = count;
    workload.pod_sets[0].requests = [("gpu".into(), gpus)].into();
    let domain = |node: &usize| PlacedDomain { values: vec![format!("n{node}")], pods: 1 };
    let placement = Placement {
        levels: vec![HOSTNAME.to_owned()],
        domains: nodes.iter().map(domain).collect(),
    };
    let held = workload.reservation.as_mut().unwrap();
    held.admission.pod_sets[0].count = count;
    held.admission.pod_sets[0].placement = Some(placement);
    running.workload = Arc::new(workload);
    running
}

/// A preemptor in queue `a` of `count` pods with `gpus` each.
fn wanting(count: u32, gpus: i64, topology: TopologyRequest) -> Workload {
    let mut workload = pending("new", "a", 5, gpus);
    workload.pod_sets[0].count = count;
    workload.pod_sets[0].topology = Some(topology);
    workload
}

fn required_rack() -> TopologyRequest {
    TopologyRequest {
        mode: Some(TopologyMode::Required("rack".to_owned())),
        ..TopologyRequest::default()
    }
}

/// What the name says after its last `-`.
fn cost_of(running: &Running) -> u64 {
    running.workload.key.name().rsplit('-').next().unwrap().parse().unwrap()
}

/// How victims are chosen.
#[derive(Clone, Copy, PartialEq)]
enum Chosen {
    AsByKueue,
    ByCost,
    Together,
}

/// Who goes for `new`, by name; checks that it fits once they have gone.
fn victims(snapshot: &Snapshot, rule: &VictimRule, new: &Workload, chosen: Chosen) -> Vec<String> {
    let standing = |_: &Workload, running: &Running| Standing {
        cost_device_ms: cost_of(running),
        ..Standing::default()
    };
    let weighing = Weighing {
        standing: &standing,
        finds_cheapest: true,
        follows_topology: chosen == Chosen::Together,
    };
    let weighing = (chosen != Chosen::AsByKueue).then_some(weighing);
    let victims = VictimPolicy { rule: rule.clone(), weighing };
    let options = Options { victims, ..Options::classical() };
    let heads = [Pending::new(Arc::new(new.clone()))];
    let mut verdicts = run_cycle(snapshot, &heads, &options, NOW_MS).verdicts;
    let Decision::Preempt(victims) = verdicts.remove(0).decision else { return Vec::new() };
    let mut after = snapshot.clone();
    for victim in &victims {
        after.remove(&victim.workload);
    }
    let verdicts = run_cycle(&after, &heads, &options, NOW_MS).verdicts;
    assert!(matches!(verdicts[0].decision, Decision::Admit(_)), "{verdicts:?}");
    let names: BTreeSet<String> =
        victims.iter().map(|victim| victim.workload.name().to_owned()).collect();
    names.into_iter().collect()
}

fn cost(names: &[String]) -> u64 {
    names.iter().map(|name| name.rsplit('-').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// Four racks; on node i a workload of 8 GPUs that costs `costs[i]`.
fn full(costs: [u64; 16]) -> Snapshot {
    let mut snapshot = cluster(4, vec![preempting()]);
    for (node, cost) in costs.into_iter().enumerate() {
        assert!(snapshot.insert(on(&format!("w{node:02}-{cost}"), "a", 8, &[node])));
    }
    snapshot
}

#[test]
fn the_rack_that_costs_least_as_a_whole_is_cleared() {
    // In order of cost the rack of thirties is complete before the 50 is reached.
    let snapshot = full([1, 1, 1, 50, 30, 30, 30, 30, 90, 90, 90, 90, 90, 90, 90, 90]);
    let new = wanting(4, 8, required_rack());
    let names = victims(&snapshot, &VictimRule::Classical, &new, Chosen::Together);
    assert_eq!(names, ["w00-1", "w01-1", "w02-1", "w03-50"]);
    let without = victims(&snapshot, &VictimRule::Classical, &new, Chosen::ByCost);
    assert_eq!(without, ["w04-30", "w05-30", "w06-30", "w07-30"]);
}

/// Kueue #5243: a pod of 8 GPUs is no better off with 8 GPUs on eight nodes.
#[test]
fn small_workloads_go_from_one_node_and_not_from_all() {
    let mut snapshot = cluster(2, vec![preempting()]);
    // Each node has seven cheap ones and one that costs more, least on node 6.
    for node in 0..8 {
        for part in 0..8 {
            let dear = if node == 6 { 40 } else { 60 };
            let cost = if part == 7 {
                dear
            } else if node == 6 {
                9
            } else {
                8
            };
            snapshot.insert(on(&format!("w{node}{part}-{cost}"), "a", 1, &[node]));
        }
    }
    let new = wanting(1, 8, required_rack());
    let names = victims(&snapshot, &VictimRule::Classical, &new, Chosen::Together);
    assert_eq!((names.len(), cost(&names)), (8, 7 * 9 + 40));
    assert!(names.iter().all(|name| name.starts_with("w6")), "{names:?}");
    for chosen in [Chosen::AsByKueue, Chosen::ByCost] {
        let names = victims(&snapshot, &VictimRule::Classical, &new, chosen);
        assert!(cost(&names) >= 7 * 9 + 40, "{names:?}");
    }
}

/// Kueue #10815: fair shares allow four victims of each queue. In the order of candidates these are one of each rack.
#[test]
fn fair_sharing_clears_a_rack_where_kueue_finds_nobody() {
    let preemption = Preemption {
        within_queue: PreemptionPolicy::Never,
        reclaim_within_cohort: PreemptionPolicy::Any,
        ..Preemption::NEVER
    };
    let mut queues: Vec<ClusterQueue> =
        ["a", "b", "c"].map(|name| queue(name, Some("team"), 0)).into();
    queues[0].preemption = preemption;
    queues.push(queue("pool", Some("team"), 128));
    let mut snapshot = cluster(4, queues);
    for rack in 0..4 {
        for place in 0..2 {
            for (queue, offset) in [("b", 0), ("c", 2)] {
                let name = format!("{queue}{place}{rack}-10");
                snapshot.insert(on(&name, queue, 8, &[rack * 4 + offset + place]));
            }
        }
    }
    let rule = VictimRule::FairSharing(FairSharing::default());
    let new = wanting(4, 8, required_rack());
    assert_eq!(victims(&snapshot, &rule, &new, Chosen::AsByKueue), [""; 0]);
    let names = victims(&snapshot, &rule, &new, Chosen::Together);
    assert_eq!(names, ["b00-10", "b10-10", "c00-10", "c10-10"]);
}

/// Kueue #10497: quota lacks for GPUs alone, but the CPUs of a node stand in the way too.
#[test]
fn who_is_in_the_way_goes_though_his_quota_does_not_lack() {
    let mut a = preempting();
    a.groups[0].resources = vec!["gpu".into(), "cpu".into()];
    let quotas = &mut a.groups[0].flavors[0].quotas;
    quotas.insert("cpu".into(), crate::kueue::fixture::nominal(1_000));
    quotas.insert("gpu".into(), crate::kueue::fixture::nominal(16));
    let mut snapshot = cluster(1, vec![a]);
    snapshot.insert(on("g0-5", "a", 8, &[0]));
    snapshot.insert(on("g1-5", "a", 8, &[1]));
    for node in 0..4 {
        let mut running = on(&format!("c{node}-1"), "a", 1, &[node]);
        let mut workload = Workload::clone(&running.workload);
        workload.pod_sets[0].requests = [("cpu".into(), 8)].into();
        let held = &mut workload.reservation.as_mut().unwrap().admission.pod_sets[0];
        held.flavors = [("cpu".into(), "a3".into())].into();
        held.usage = [("cpu".into(), 8)].into();
        running = Running::new(Arc::new(workload));
        assert!(snapshot.insert(running));
    }
    let mut new = wanting(1, 8, required_rack());
    new.pod_sets[0].requests.insert("cpu".into(), 8);
    let names = victims(&snapshot, &VictimRule::Classical, &new, Chosen::Together);
    assert_eq!(cost(&names), 6, "{names:?}: one who uses GPUs and one who uses CPUs");
}

#[test]
fn a_gang_in_two_racks_counts_once() {
    let mut snapshot = cluster(4, vec![preempting()]);
    snapshot.insert(on("gang-10", "a", 8, &[0, 1, 4, 5]));
    for node in [2, 3, 6, 7].into_iter().chain(8..16) {
        snapshot.insert(on(&format!("w{node:02}-4"), "a", 8, &[node]));
    }
    // Two slices of two nodes, each within a rack.
    let new = wanting(
        4,
        8,
        TopologyRequest {
            slice_level: Some("rack".to_owned()),
            slice_size: Some(2),
            ..TopologyRequest::default()
        },
    );
    let names = victims(&snapshot, &VictimRule::Classical, &new, Chosen::Together);
    assert_eq!(names, ["gang-10"], "in order of cost per device four singles would go, for 16");
}

#[test]
fn slices_are_freed_whole() {
    let costs = [3, 9, 9, 9, 3, 9, 9, 9, 3, 9, 9, 9, 4, 4, 9, 9];
    let snapshot = full(costs);
    let new = wanting(
        2,
        8,
        TopologyRequest {
            slice_level: Some("rack".to_owned()),
            slice_size: Some(2),
            ..TopologyRequest::default()
        },
    );
    let names = victims(&snapshot, &VictimRule::Classical, &new, Chosen::Together);
    assert_eq!(names, ["w12-4", "w13-4"]);
}

#[test]
fn where_the_pods_may_not_go_nobody_is_asked_to_leave() {
    let mut snapshot = full([1, 1, 1, 1, 30, 30, 30, 30, 90, 90, 90, 90, 90, 90, 90, 90]);
    for index in 0..4 {
        let mut node = snapshot.node(&format!("n{index}")).unwrap().clone();
        node.is_unschedulable = true;
        snapshot.set_node(node);
    }
    let new = wanting(4, 8, required_rack());
    let names = victims(&snapshot, &VictimRule::Classical, &new, Chosen::Together);
    assert_eq!(names, ["w04-30", "w05-30", "w06-30", "w07-30"]);
}

#[test]
fn a_preferred_rack_is_cleared_only_if_that_costs_no_more() {
    let new = |count| {
        let mode = Some(TopologyMode::Preferred("rack".to_owned()));
        wanting(count, 8, TopologyRequest { mode, ..TopologyRequest::default() })
    };
    let snapshot = full([1, 9, 9, 9, 1, 9, 9, 9, 1, 9, 9, 9, 1, 9, 9, 9]);
    let names = victims(&snapshot, &VictimRule::Classical, &new(4), Chosen::Together);
    assert_eq!(cost(&names), 4, "{names:?}");
}

#[test]
fn those_already_leaving_count_as_gone() {
    let mut snapshot = full([1, 1, 1, 50, 10, 10, 10, 10, 90, 90, 90, 90, 90, 90, 90, 90]);
    let key = WorkloadKey::new("", "w03-50");
    let mut workload = Workload::clone(&snapshot.running(&key).unwrap().workload);
    let reason = crate::kueue::workload::EvictionReason::Preempted;
    workload.eviction = Some(crate::kueue::workload::Eviction { reason, at_ms: 1 });
    snapshot.insert(Running::new(Arc::new(workload)));
    let new = wanting(4, 8, required_rack());
    let names = victims(&snapshot, &VictimRule::Classical, &new, Chosen::Together);
    assert_eq!(names, ["w00-1", "w01-1", "w02-1", "w03-50"]);
}
