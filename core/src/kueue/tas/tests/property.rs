//! What holds for every cluster and every request.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{
    BLOCK, RACK, flavor, node, on, place, pod_set, preferred, requests, required, sliced,
    unconstrained,
};
use crate::kueue::tas::model::HOSTNAME;
use crate::kueue::tas::{Node, Switches, TasSnapshot, UnconstrainedOrder};
use crate::kueue::workload::{Placement, TopologyRequest};

const LEVELS: [&str; 3] = [BLOCK, RACK, HOSTNAME];

/// Up to 12 nodes in up to 3 blocks of up to 3 racks, with up to 8 GPUs each.
fn clusters() -> impl Strategy<Value = Vec<Node>> {
    let shape = prop::collection::vec((0..3usize, 0..3usize, 0..=8i64), 1..=12);
    shape.prop_map(|shape| {
        let nodes = shape.into_iter().enumerate();
        let name = |(index, (block, rack, gpus)): (usize, (usize, usize, i64))| {
            let (block, rack) = (format!("b{block}"), format!("r{rack}"));
            node(&block, &rack, &format!("h{index:02}"), gpus)
        };
        nodes.map(name).collect()
    })
}

fn topologies() -> impl Strategy<Value = TopologyRequest> {
    let level = || prop::sample::select(LEVELS.to_vec());
    prop_oneof![
        level().prop_map(required),
        level().prop_map(preferred),
        Just(unconstrained()),
        (1..4u32).prop_map(|size| sliced(required(BLOCK), &[(RACK, size)])),
        (1..4u32).prop_map(|size| sliced(preferred(RACK), &[(HOSTNAME, size)])),
        (1..4u32).prop_map(|size| sliced(preferred(BLOCK), &[(RACK, 2 * size), (HOSTNAME, size)])),
    ]
}

fn switches() -> impl Strategy<Value = Switches> {
    (any::<bool>(), any::<bool>()).prop_map(|(is_balanced, is_best_fit)| Switches {
        unconstrained: if is_best_fit {
            UnconstrainedOrder::BestFit
        } else {
            UnconstrainedOrder::LeastFree
        },
        is_balanced,
        ..Switches::default()
    })
}

fn snapshot(switches: Switches, nodes: &[Node]) -> TasSnapshot {
    TasSnapshot::new(flavor(&LEVELS), switches, nodes, &[])
}

fn free(snapshot: &TasSnapshot, nodes: &[Node]) -> Vec<BTreeMap<String, i64>> {
    let free = |node: &Node| {
        let free =
            snapshot.free_in(std::slice::from_ref(&node.name)).expect("every node is a leaf");
        free.into_iter().map(|(name, amount)| (name.to_string(), amount)).collect()
    };
    nodes.iter().map(free).collect()
}

/// Pods by domain of a level.
fn pods_by(placement: &Placement, nodes: &[Node], level: &str) -> BTreeMap<Vec<String>, u32> {
    let depth = 1 + LEVELS.iter().position(|known| *known == level).unwrap();
    let mut pods = BTreeMap::new();
    for domain in &placement.domains {
        let node = nodes.iter().find(|node| node.name == domain.values[0]).unwrap();
        let path = LEVELS[..depth].iter().map(|level| node.labels[*level].clone()).collect();
        *pods.entry(path).or_insert(0) += domain.pods;
    }
    pods
}

proptest! {
    #[test]
    fn a_placement_is_whole_and_exceeds_no_node(
        nodes in clusters(),
        topology in topologies(),
        switches in switches(),
        slices in 1..6u32,
    ) {
        let outer = topology.slice_layers.first().map_or(1, |layer| layer.size);
        let pod_set = pod_set(slices * outer, topology.clone());
        let mut snapshot = snapshot(switches, &nodes);
        let Ok(placement) = place(&snapshot, &pod_set) else { return Ok(()) };
        let placed: u32 = placement.domains.iter().map(|domain| domain.pods).sum();
        prop_assert_eq!(placed, pod_set.count);
        let usage = snapshot.usage_of(&placement, &pod_set.requests);
        prop_assert!(snapshot.fits(&usage));
        snapshot.add(&usage);
        for free in free(&snapshot, &nodes) {
            prop_assert!(free.values().all(|amount| *amount >= 0), "{free:?}");
        }
        if topology == required(RACK) {
            prop_assert_eq!(pods_by(&placement, &nodes, RACK).len(), 1);
        }
        for layer in &topology.slice_layers {
            for (domain, pods) in pods_by(&placement, &nodes, &layer.level) {
                prop_assert!(pods % layer.size == 0, "{domain:?} has {pods} pods");
            }
        }
    }

    #[test]
    fn whatever_fits_into_free_nodes_one_by_one_is_placed(
        nodes in clusters(),
        switches in switches(),
        count in 1..60u32,
    ) {
        let room: i64 = nodes.iter().map(|node| node.allocatable[&"gpu".into()]).sum();
        for topology in [unconstrained(), preferred(BLOCK), preferred(RACK), preferred(HOSTNAME)] {
            let placed = place(&snapshot(switches, &nodes), &pod_set(count, topology));
            prop_assert_eq!(placed.is_ok(), i64::from(count) <= room);
        }
    }

    #[test]
    fn removing_what_was_added_restores_the_snapshot(
        nodes in clusters(),
        hosts in prop::collection::vec((0..16usize, 1..9u32), 0..8),
        per_pod in 0..5i64,
    ) {
        let mut snapshot = snapshot(Switches::default(), &nodes);
        let before = free(&snapshot, &nodes);
        let hosts: Vec<(String, u32)> =
            hosts.into_iter().map(|(host, pods)| (format!("h{host:02}"), pods)).collect();
        let mut usages = Vec::new();
        for (host, pods) in &hosts {
            let placement = on(&[(host.as_str(), *pods)]);
            let usage = snapshot.usage_of(&placement, &requests(&[("gpu", per_pod)]));
            snapshot.add(&usage);
            usages.push(usage);
        }
        for usage in &usages {
            snapshot.remove(usage);
        }
        prop_assert_eq!(free(&snapshot, &nodes), before);
    }

    #[test]
    fn the_order_of_nodes_does_not_matter(
        nodes in clusters(),
        topology in topologies(),
        switches in switches(),
        slices in 1..6u32,
        seed in any::<u64>(),
    ) {
        let outer = topology.slice_layers.first().map_or(1, |layer| layer.size);
        let pod_set = pod_set(slices * outer, topology);
        let mut shuffled = nodes.clone();
        // Any fixed scramble will do: sort by a key that depends on the seed.
        shuffled.sort_by_key(|node| {
            let number: u64 = node.name[1..].parse().unwrap();
            number.wrapping_add(1).wrapping_mul(seed | 1).rotate_left(17)
        });
        let in_order = place(&snapshot(switches, &nodes), &pod_set);
        let out_of_order = place(&snapshot(switches, &shuffled), &pod_set);
        prop_assert_eq!(in_order, out_of_order);
    }
}
