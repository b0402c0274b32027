//! Several broken nodes of one placement are replaced together.

use super::{
    BLOCK, RACK, node, nodes, on, pod_set, preferred, requests, required, sliced, snapshot,
    unconstrained,
};
use crate::kueue::tas::{
    Assumed, Failure, Node, PodSetRequest, ReplaceRequest, Replacement, TasSnapshot,
};
use crate::kueue::workload::{Placement, PodSet};

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
