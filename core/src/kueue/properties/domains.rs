//! Victims that are looked for by topology too: no dearer, and no worse found.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::cycle::{Decision, Options, run_cycle};
use super::super::fixture::{NOW_MS, flavor, gpu_group, pending, running};
use super::super::model::{ClusterQueue, Topology};
use super::super::name::WorkloadKey;
use super::super::order::Pending;
use super::super::preempt::{Standing, Victim, VictimPolicy, VictimRule, Weighing};
use super::super::snapshot::{Running, Setup, Snapshot};
use super::super::tas::Node;
use super::super::workload::{PlacedDomain, Placement, TopologyMode, TopologyRequest, Workload};
use super::preempt::assert_rights;
use super::{SPARED, preemption, rules};

const HOSTNAME: &str = "kubernetes.io/hostname";
const NODES_PER_RACK: usize = 3;

/// Racks of three nodes with 4 GPUs each, most of them in use.
#[derive(Clone, Debug)]
struct World {
    queues: Vec<ClusterQueue>,
    racks: usize,
    /// Queue, priority, cost, and where the pods of each gang are if there is room.
    gangs: Vec<(usize, i32, u64, i64, Vec<usize>)>,
    /// Priority, pods, GPUs per pod and wish of the preemptor.
    wanted: (i32, u32, i64, TopologyRequest),
    rule: VictimRule,
}

fn node(index: usize) -> Node {
    let name = format!("n{index}");
    let rack = format!("r{}", index / NODES_PER_RACK);
    Node {
        labels: [("rack".to_owned(), rack), (HOSTNAME.to_owned(), name.clone())].into(),
        name,
        allocatable: [("gpu".into(), 4), ("pods".into(), 100)].into(),
        taints: Vec::new(),
        is_ready: true,
        is_unschedulable: false,
        degraded: BTreeMap::new(),
    }
}

impl World {
    /// Everybody who finds room where he wants to be.
    fn snapshot(&self) -> Snapshot {
        let mut a3 = flavor("a3");
        a3.topology = Some("racks".into());
        let levels = vec!["rack".to_owned(), HOSTNAME.to_owned()];
        let nodes = self.racks * NODES_PER_RACK;
        let mut snapshot = Snapshot::new(Setup {
            flavors: vec![a3, flavor("a4")],
            queues: self.queues.clone(),
            topologies: vec![Topology { name: "racks".into(), levels }],
            nodes: (0..nodes).map(node).collect(),
            ..Setup::default()
        });
        let mut free = vec![4; nodes];
        for (index, (queue, priority, _, gpus, places)) in self.gangs.iter().enumerate() {
            let places: Vec<usize> = places.iter().map(|place| place % nodes).collect();
            let mut left = free.clone();
            places.iter().for_each(|&place| left[place] -= gpus);
            if left.iter().all(|left| *left >= 0) {
                free = left;
                let queue = self.queues[queue % self.queues.len()].name.as_str();
                snapshot.insert(gang(&format!("w{index:02}"), queue, *priority, *gpus, &places));
            }
        }
        snapshot
    }

    fn preemptor(&self) -> Workload {
        let (priority, count, gpus, topology) = &self.wanted;
        let mut workload = pending("new", self.queues[0].name.as_str(), *priority, *gpus);
        workload.created_at_ms = 3;
        workload.pod_sets[0].count = *count;
        workload.pod_sets[0].topology = Some(topology.clone());
        workload
    }

    fn cost(&self, key: &WorkloadKey) -> u64 {
        key.name()[1..]
            .parse()
            .ok()
            .and_then(|index: usize| self.gangs.get(index))
            .map_or(0, |g| g.2)
    }

    /// Who goes for the preemptor; `None` if it needs nobody to go.
    fn victims(&self, snapshot: &Snapshot, follows_topology: bool) -> Option<Vec<Victim>> {
        let standing = |_: &Workload, running: &Running| {
            let cost_device_ms = self.cost(&running.workload.key);
            Standing { cost_device_ms, at_risk_device_ms: 0, is_spared: cost_device_ms == SPARED }
        };
        let weighing = Weighing { standing: &standing, finds_cheapest: true, follows_topology };
        let victims = VictimPolicy { rule: self.rule.clone(), weighing: Some(weighing) };
        let options = Options { victims, ..Options::classical() };
        let heads = [Pending::new(Arc::new(self.preemptor()))];
        match run_cycle(snapshot, &heads, &options, NOW_MS).verdicts.remove(0).decision {
            Decision::Admit(_) => None,
            Decision::Preempt(victims) => Some(victims),
            Decision::AwaitVictims | Decision::Evict(_) | Decision::Wait => Some(Vec::new()),
        }
    }

    fn cost_of(&self, victims: &[Victim]) -> u64 {
        victims.iter().map(|victim| self.cost(&victim.workload)).sum()
    }
}

fn gang(name: &str, queue: &str, priority: i32, gpus: i64, places: &[usize]) -> Running {
    let count = u32::try_from(places.len()).unwrap();
    let mut workload =
        Workload::clone(&running(name, queue, priority, gpus * i64::from(count)).workload);
    workload.pod_sets[0].count = count;
    workload.pod_sets[0].requests = [("gpu".into(), gpus)].into();
    let mut pods: BTreeMap<usize, u32> = BTreeMap::new();
    places.iter().for_each(|&place| *pods.entry(place).or_insert(0) += 1);
    let domains = pods.into_iter();
    let domains =
        domains.map(|(place, pods)| PlacedDomain { values: vec![format!("n{place}")], pods });
    let placement = Placement { levels: vec![HOSTNAME.to_owned()], domains: domains.collect() };
    let held = &mut workload.reservation.as_mut().unwrap().admission.pod_sets[0];
    held.count = count;
    held.placement = Some(placement);
    Running::new(Arc::new(workload))
}

fn wish() -> impl Strategy<Value = TopologyRequest> {
    let mode = |mode| TopologyRequest { mode: Some(mode), ..TopologyRequest::default() };
    let slices = TopologyRequest {
        slice_level: Some("rack".to_owned()),
        slice_size: Some(2),
        ..TopologyRequest::default()
    };
    prop_oneof![
        3 => Just(mode(TopologyMode::Required("rack".to_owned()))),
        1 => Just(mode(TopologyMode::Preferred("rack".to_owned()))),
        1 => Just(mode(TopologyMode::Unconstrained)),
        1 => Just(slices),
    ]
}

fn queue() -> impl Strategy<Value = ClusterQueue> {
    (0..60_i64, preemption()).prop_map(|(gpus, preemption)| {
        let mut queue = super::super::fixture::queue("", Some("team"), 0);
        queue.groups = vec![gpu_group(&[("a3", super::super::fixture::nominal(gpus))])];
        queue.preemption = preemption;
        queue
    })
}

fn world() -> impl Strategy<Value = World> {
    let queues = proptest::collection::vec(queue(), 1..4);
    let places = proptest::collection::vec(0..27_usize, 1..4);
    let gang = (0..3_usize, 0..3_i32, 0..=SPARED, 1..4_i64, places);
    let gangs = proptest::collection::vec(gang, 16..64);
    let wanted = (2..5_i32, 1..3_u32, 1..5_i64, wish());
    (queues, 4..9_usize, gangs, wanted, rules()).prop_map(
        |(mut queues, racks, gangs, (priority, pairs, gpus, wish), rule)| {
            for (index, queue) in queues.iter_mut().enumerate() {
                queue.name = format!("q{index}").into();
            }
            // Never a part of a slice.
            let wanted = (priority, pairs * 2, gpus, wish);
            World { queues, racks, gangs, wanted, rule }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// The rule takes nobody whom Kueue's rules spare, nobody who is protected, nobody in vain; what it finds costs no
    /// more than what is found without it, and where that is found, it finds something too.
    #[test]
    fn victims_by_topology_are_allowed_enough_and_no_dearer(world in world()) {
        let snapshot = world.snapshot();
        let Some(with) = world.victims(&snapshot, true) else { return Ok(()) };
        let without = world.victims(&snapshot, false).expect("the rule is about victims only");
        assert_rights(&with, &world.preemptor(), &snapshot);
        let again = world.victims(&snapshot, true);
        prop_assert_eq!(again.as_ref(), Some(&with));
        prop_assert!(with.iter().all(|victim| world.cost(&victim.workload) < SPARED));
        prop_assert!(without.is_empty() || !with.is_empty(), "{without:?} were found without");
        if !without.is_empty() {
            let (with, without) = (world.cost_of(&with), world.cost_of(&without));
            prop_assert!(with <= without, "{with} is more than {without}");
        }
        let mut after = snapshot.clone();
        for victim in &with {
            after.remove(&victim.workload);
        }
        let is_served = world.victims(&after, true).is_none();
        prop_assert!(with.is_empty() || is_served, "{with:?} were not enough");
    }
}
