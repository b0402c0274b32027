//! What is remembered answers as if everything were counted for each question.

use proptest::prelude::*;

use super::unconstrained;
use super::{BLOCK, RACK, flavor, node, on, pod_set, preferred, requests, required, sliced};
use crate::kueue::matching::{LabelOperator, LabelRequirement, Taint, TaintEffect};
use crate::kueue::tas::count::Demand;
use crate::kueue::tas::failure::Failure;
use crate::kueue::tas::model::HOSTNAME;
use crate::kueue::tas::narrow::ENTRIES_MAX;
use crate::kueue::tas::plan::layers_of;
use crate::kueue::tas::snapshot::Room;
use crate::kueue::tas::{
    Assumed, Capacity, Node, PodSetRequest, Switches, TasSnapshot, UnconstrainedOrder,
};
use crate::kueue::workload::{Placement, PodSet, TopologyRequest};

/// Up to 150 nodes, some tainted, which is more than a chunk of a table and than a word of a set.
fn clusters() -> impl Strategy<Value = Vec<Node>> {
    let shape = (0..3usize, 0..4usize, 0..=8i64, any::<bool>(), 0..10u8);
    let shapes = prop::collection::vec(shape, 1..150);
    (shapes, prop::bool::weighted(0.2)).prop_map(|(shapes, is_tainted)| {
        let mut nodes = Vec::new();
        for (index, (block, rack, gpus, has_ssd, luck)) in shapes.into_iter().enumerate() {
            let (block, rack) = (format!("b{block}"), format!("r{rack}"));
            let mut node = node(&block, &rack, &format!("h{index:03}"), gpus);
            node.labels.insert("disk".into(), if has_ssd { "ssd" } else { "hdd" }.into());
            node.is_ready = luck > 0;
            if is_tainted && luck == 2 {
                node.taints.push(Taint {
                    key: "dedicated".into(),
                    value: String::new(),
                    effect: TaintEffect::NoSchedule,
                });
            }
            node.degraded = requests(&[("gpu", if luck == 1 { gpus } else { 0 })]);
            nodes.push(node);
        }
        nodes
    })
}

fn topologies() -> impl Strategy<Value = TopologyRequest> {
    let level = || prop::sample::select(vec![BLOCK, RACK, HOSTNAME]);
    prop_oneof![
        level().prop_map(required),
        level().prop_map(preferred),
        Just(unconstrained()),
        (1..4u32).prop_map(|size| sliced(required(BLOCK), &[(RACK, size)])),
        (1..4u32).prop_map(|size| sliced(unconstrained(), &[(RACK, size)])),
        (1..4u32).prop_map(|size| sliced(preferred(RACK), &[(HOSTNAME, size)])),
        (1..4u32).prop_map(|size| sliced(preferred(BLOCK), &[(RACK, 2 * size), (HOSTNAME, size)])),
    ]
}

/// Node affinity: none, or terms of a few host names, some of which want more or name no host at all.
fn affinities() -> impl Strategy<Value = Vec<Vec<LabelRequirement>>> {
    let is_in = |key: &str, values: Vec<String>| LabelRequirement {
        key: key.to_owned(),
        operator: LabelOperator::In,
        values,
    };
    let term = (prop::collection::vec(0..160usize, 0..8), 0..8u8).prop_map(move |(hosts, luck)| {
        let hosts = hosts.into_iter().map(|host| format!("h{host:03}")).collect();
        let disk = is_in("disk", vec!["ssd".to_owned()]);
        let mut term = if luck == 1 { Vec::new() } else { vec![is_in(HOSTNAME, hosts)] };
        term.extend((luck < 3).then_some(disk));
        term
    });
    prop_oneof![Just(Vec::new()), prop::collection::vec(term, 1..3)]
}

fn pod_sets() -> impl Strategy<Value = PodSet> {
    (topologies(), 1..30u32, 0..5i64, prop::bool::weighted(0.3), affinities()).prop_map(
        |(topology, slices, gpus, wants_ssd, affinity)| {
            let size = topology.slice_layers.first().map_or(1, |layer| layer.size);
            let mut pod_set = pod_set(slices * size, topology);
            pod_set.requests = requests(&[("gpu", gpus)]);
            pod_set.affinity_terms = affinity;
            if wants_ssd {
                pod_set.node_selector = [("disk".to_owned(), "ssd".to_owned())].into();
            }
            pod_set
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    /// Pods of so many GPUs come to a host, in one of two clones.
    Add(usize, usize, u32, i64),
    /// What came last to one of the clones leaves.
    Remove(usize),
    /// One clone becomes the other.
    Clone(usize),
    /// One clone is asked; this many pods are assumed on the first host.
    Ask(usize, Box<PodSet>, Capacity, bool, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let capacity = || prop::sample::select(vec![Capacity::Free, Capacity::Empty]);
    let step = prop_oneof![
        4 => (0..2usize, 0..150usize, 1..5u32, 0..4i64)
            .prop_map(|(clone, host, pods, gpus)| Step::Add(clone, host, pods, gpus)),
        1 => (0..2usize).prop_map(Step::Remove),
        1 => (0..2usize).prop_map(Step::Clone),
        8 => (0..2usize, pod_sets(), capacity(), any::<bool>(), 0..3u32).prop_map(
            |(clone, pod_set, capacity, is_healthy_only, assumed)| {
                Step::Ask(clone, Box::new(pod_set), capacity, is_healthy_only, assumed)
            }
        ),
    ];
    prop::collection::vec(step, 1..40)
}

type Answer = Result<Placement, Failure>;

/// The answer from memory, and the one that counts everything.
fn ask(
    snapshot: &TasSnapshot,
    pod_set: &PodSet,
    room: Room,
    assumed: &Assumed,
) -> (Answer, Answer) {
    let request = PodSetRequest::new(pod_set);
    let demand = Demand { request: &request, leader: None, within: None, room, assumed };
    let layers = layers_of(pod_set.topology.as_ref());
    let plan = snapshot.plan(&request, layers, false).unwrap();
    let remembered = snapshot.find_in(&demand, &plan).map(|placed| placed.workers);
    let plain = snapshot.find_plainly(&demand, &plan, false).map(|placed| placed.workers);
    (remembered, plain)
}

#[test]
fn what_is_remembered_of_few_nodes_is_bounded_also_where_none_of_them_exists() {
    let nodes: Vec<Node> = (0..640).map(|i| node("b", "r", &format!("h{i:03}"), 1)).collect();
    let levels = flavor(&[BLOCK, RACK, HOSTNAME]);
    let snapshot = TasSnapshot::new(levels, Switches::default(), &nodes, &[]);
    for round in 0..2 * ENTRIES_MAX / 80 {
        let mut pod_set = pod_set(1, unconstrained());
        let values = (0..80).map(|i| format!("gone-{round}-{i}")).collect();
        let hosts =
            LabelRequirement { key: HOSTNAME.to_owned(), operator: LabelOperator::In, values };
        pod_set.affinity_terms = vec![vec![hosts]];
        let request = PodSetRequest::new(&pod_set);
        let (assumed, room) = (Assumed::default(), Room::default());
        let demand =
            Demand { request: &request, leader: None, within: None, room, assumed: &assumed };
        let plan = snapshot.plan(&request, layers_of(pod_set.topology.as_ref()), false).unwrap();
        assert!(snapshot.find_in(&demand, &plan).is_err());
        let entries = snapshot.memo.open().narrows.entries;
        assert!((1..=ENTRIES_MAX).contains(&entries), "{entries}");
    }
}

proptest! {
    #[test]
    fn what_is_remembered_answers_as_what_is_counted_anew(
        nodes in clusters(),
        steps in steps(),
        is_best_fit in any::<bool>(),
    ) {
        let unconstrained = if is_best_fit {
            UnconstrainedOrder::BestFit
        } else {
            UnconstrainedOrder::LeastFree
        };
        let switches = Switches { unconstrained, ..Switches::default() };
        let first = TasSnapshot::new(flavor(&[BLOCK, RACK, HOSTNAME]), switches, &nodes, &[]);
        prop_assume!(first.leaf_count() > 0);
        let mut clones = [first.clone(), first];
        let mut added = [Vec::new(), Vec::new()];
        for step in steps {
            match step {
                Step::Add(clone, host, pods, gpus) => {
                    let host = format!("h{:03}", host % nodes.len());
                    let placement = on(&[(host.as_str(), pods)]);
                    let usage = clones[clone].usage_of(&placement, &requests(&[("gpu", gpus)]));
                    clones[clone].add(&usage);
                    added[clone].push(usage);
                }
                Step::Remove(clone) => {
                    if let Some(usage) = added[clone].pop() {
                        clones[clone].remove(&usage);
                    }
                }
                Step::Clone(from) => {
                    clones[1 - from] = clones[from].clone();
                    added[1 - from] = added[from].clone();
                }
                Step::Ask(clone, pod_set, capacity, is_healthy_only, pods) => {
                    let mut assumed = Assumed::default();
                    if pods > 0 {
                        assumed.add(&on(&[("h000", pods)]), &requests(&[("gpu", 1)]));
                    }
                    let room = Room { capacity, is_healthy_only };
                    let (remembered, plain) = ask(&clones[clone], &pod_set, room, &assumed);
                    prop_assert_eq!(remembered, plain);
                }
            }
        }
    }
}
