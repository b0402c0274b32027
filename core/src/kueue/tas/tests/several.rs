//! Several broken nodes of one placement are replaced together.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{
    BLOCK, RACK, node, nodes, on, pod_set, preferred, requests, required, sliced, snapshot,
    unconstrained,
};
use crate::kueue::tas::{
    Assumed, Failure, Node, PodSetRequest, ReplaceRequest, Replacement, TasSnapshot,
};
use crate::kueue::workload::{PlacedDomain, Placement, PodSet};

/// What becomes of `placement`, which is running, when `broken` are replaced.
fn replace(
    snapshot: &TasSnapshot,
    pod_set: &PodSet,
    placement: &Placement,
    broken: &[&str],
) -> Result<Replacement, Failure> {
    let mut snapshot = snapshot.clone();
    let usage = snapshot.usage_of(placement, &pod_set.requests);
    snapshot.add(&usage);
    let request = PodSetRequest::new(pod_set);
    let replace = ReplaceRequest { request, placement, is_owned_by_single_pod: false };
    let mut assumed = Assumed::default();
    let replaced = snapshot.replace_several(&replace, broken, &mut assumed);
    let mut taken = Assumed::default();
    if let Ok(replaced) = &replaced {
        taken.add(&replaced.moved, &pod_set.requests);
    }
    assert_eq!(assumed, taken);
    replaced
}

/// All nodes but these, which are gone.
fn without(gone: &[&str]) -> Vec<Node> {
    let mut nodes = nodes();
    nodes.retain(|node| !gone.contains(&node.name.as_str()));
    nodes
}

#[test]
fn moved_pods_stay_in_the_required_domain() {
    let broken = ["a1x", "a2x"];
    let placement = on(&[("a1x", 2), ("a1y", 1), ("a2x", 3)]);
    let pod_set = pod_set(6, required(BLOCK));
    let mut snapshot = snapshot(&without(&broken));
    let replaced = replace(&snapshot, &pod_set, &placement, &broken).unwrap();
    assert_eq!(replaced.moved, on(&[("a1y", 2), ("a2y", 3)]));
    assert_eq!(replaced.placement, on(&[("a1y", 3), ("a2y", 3)]));
    // Three pods of others leave the block one place short, and then nothing moves at all.
    let others = snapshot.usage_of(&on(&[("a2y", 3)]), &requests(&[("gpu", 1)]));
    snapshot.add(&others);
    assert!(replace(&snapshot, &pod_set, &placement, &broken).is_err());
}

#[test]
fn broken_nodes_that_still_look_well_are_not_used_again() {
    let broken = ["a1y", "a1x"];
    let placement = on(&[("a1x", 1), ("a1y", 1), ("a2x", 1)]);
    let replaced = replace(&snapshot(&nodes()), &pod_set(3, required(BLOCK)), &placement, &broken);
    assert_eq!(replaced.unwrap().placement, on(&[("a2x", 3)]));
    let in_rack = pod_set(3, required(RACK));
    let placement = on(&[("a1x", 1), ("a1y", 2)]);
    let replaced = replace(&snapshot(&nodes()), &in_rack, &placement, &broken).unwrap();
    assert_eq!(replaced.placement, on(&[("a2x", 3)]));
}

#[test]
fn each_slice_is_completed_where_it_is() {
    let broken = ["a1x", "b1x"];
    let placement = on(&[("a1x", 2), ("a1y", 1), ("b1x", 1), ("b1y", 2)]);
    let slices = sliced(unconstrained(), &[(RACK, 3)]);
    let replaced =
        replace(&snapshot(&without(&broken)), &pod_set(6, slices), &placement, &broken).unwrap();
    assert_eq!(replaced.moved, on(&[("a1y", 2), ("b1y", 1)]));
    assert_eq!(replaced.placement, on(&[("a1y", 3), ("b1y", 3)]));
}

#[test]
fn a_slice_that_was_lost_whole_goes_anywhere_its_pod_set_may_be() {
    let broken = ["a1x", "a1y"];
    let placement = on(&[("a1x", 2), ("a1y", 2), ("a2x", 4)]);
    let pod_set = pod_set(8, sliced(required(BLOCK), &[(RACK, 4)]));
    let mut snapshot = snapshot(&without(&broken));
    let replaced = replace(&snapshot, &pod_set, &placement, &broken).unwrap();
    assert_eq!(replaced.placement, on(&[("a2x", 4), ("a2y", 4)]));
    let others = snapshot.usage_of(&on(&[("a2y", 1)]), &requests(&[("gpu", 1)]));
    snapshot.add(&others);
    let failure = replace(&snapshot, &pod_set, &placement, &broken).unwrap_err();
    assert_eq!(failure.code(), "none-fit");
}

#[test]
fn slices_within_slices_are_completed_from_the_inside() {
    let mut nodes = Vec::new();
    for (rack, hosts) in [("1", 4), ("2", 4)] {
        for host in 0..hosts {
            nodes.push(node("a", rack, &format!("{rack}-{host}"), 2));
        }
    }
    let layers = sliced(required(BLOCK), &[(RACK, 4), ("kubernetes.io/hostname", 2)]);
    let placement = on(&[("1-0", 2), ("1-1", 2), ("2-0", 2), ("2-1", 2)]);
    let broken = ["1-1", "2-0"];
    let replaced = replace(&snapshot(&nodes), &pod_set(8, layers), &placement, &broken).unwrap();
    assert_eq!(replaced.moved, on(&[("1-2", 2), ("2-2", 2)]));
}

#[test]
fn a_placement_that_lost_all_its_nodes_is_placed_anew() {
    let broken = ["a1x", "a1y"];
    let placement = on(&[("a1x", 3), ("a1y", 3)]);
    let snapshot = snapshot(&without(&broken));
    let replaced = replace(&snapshot, &pod_set(6, required(RACK)), &placement, &broken).unwrap();
    assert_eq!(replaced.placement, on(&[("a2x", 4), ("a2y", 2)]));
    let replaced = replace(&snapshot, &pod_set(6, preferred(RACK)), &placement, &["b1x"]).unwrap();
    assert_eq!((replaced.placement, replaced.moved), (placement, on(&[])));
}

#[test]
fn a_further_node_that_is_gone_cannot_be_replaced() {
    let placement = on(&[("a1x", 1), ("a1y", 1), ("gone", 1)]);
    let stale = Failure::StaleDomain { value: "gone".into() };
    let pod_set = pod_set(3, unconstrained());
    let replaced = replace(&snapshot(&nodes()), &pod_set, &placement, &["a1x", "a1y"]);
    assert_eq!(replaced, Err(stale));
}

/// Up to 24 nodes in up to 2 blocks of up to 3 racks, with up to 6 GPUs each.
fn clusters() -> impl Strategy<Value = Vec<Node>> {
    prop::collection::vec((0..2usize, 0..3usize, 0..=6i64), 2..24).prop_map(|shapes| {
        let shapes = shapes.into_iter().enumerate();
        let name = |(index, (block, rack, gpus))| {
            node(&format!("b{block}"), &format!("r{rack}"), &format!("h{index:02}"), gpus)
        };
        shapes.map(name).collect()
    })
}

/// Pods by domain of a level.
fn pods_by(placement: &Placement, nodes: &[Node], level: &str) -> BTreeMap<(String, String), u32> {
    let mut pods = BTreeMap::new();
    for domain in &placement.domains {
        let node = nodes.iter().find(|node| node.name == domain.values[0]).unwrap();
        let path = (node.labels[BLOCK].clone(), node.labels[level].clone());
        *pods.entry(path).or_insert(0) += domain.pods;
    }
    pods
}

proptest! {
    #[test]
    fn a_replacement_keeps_what_is_well_and_every_constraint(
        nodes in clusters(),
        slices in 1..7u32,
        size in 1..4u32,
        shape in 0..3u8,
        broken in prop::collection::btree_set(0..24usize, 1..5),
    ) {
        let (count, topology) = match shape {
            0 => (slices, required(BLOCK)),
            1 => (slices, preferred(RACK)),
            _ => (slices * size, sliced(required(BLOCK), &[(RACK, size)])),
        };
        let pod_set = pod_set(count, topology);
        let Ok(placement) = super::place(&snapshot(&nodes), &pod_set) else { return Ok(()) };
        let broken: Vec<String> = broken.iter().map(|index| format!("h{index:02}")).collect();
        let broken: Vec<&str> = broken.iter().map(String::as_str).collect();
        let Ok(replaced) = replace(&snapshot(&nodes), &pod_set, &placement, &broken) else {
            return Ok(());
        };
        let is_broken = |domain: &PlacedDomain| broken.contains(&domain.values[0].as_str());
        let placed: u32 = replaced.placement.domains.iter().map(|domain| domain.pods).sum();
        prop_assert_eq!(placed, count);
        prop_assert!(!replaced.placement.domains.iter().any(is_broken));
        for kept in placement.domains.iter().filter(|domain| !is_broken(domain)) {
            let now = replaced.placement.domains.iter().find(|domain| domain.values == kept.values);
            prop_assert!(now.is_some_and(|now| now.pods >= kept.pods));
        }
        let empty = snapshot(&nodes);
        prop_assert!(empty.fits(&empty.usage_of(&replaced.placement, &pod_set.requests)));
        if shape != 1 {
            prop_assert_eq!(pods_by(&replaced.placement, &nodes, BLOCK).len(), 1);
        }
        if shape == 2 {
            let by_rack = pods_by(&replaced.placement, &nodes, RACK);
            prop_assert!(by_rack.values().all(|pods| pods % size == 0), "{by_rack:?}");
        }
    }
}
