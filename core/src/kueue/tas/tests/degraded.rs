//! Degraded devices are used last.

use super::{
    BLOCK, RACK, flavor, nodes, on, pod_set, preferred, requests, required, unconstrained,
};
use crate::kueue::tas::model::HOSTNAME;
use crate::kueue::tas::{Node, Switches, TasSnapshot};

fn snapshot(avoids_degraded: bool, nodes: &[Node]) -> TasSnapshot {
    let switches = Switches { avoids_degraded, ..Switches::default() };
    TasSnapshot::new(flavor(&[BLOCK, RACK, HOSTNAME]), switches, nodes, &[])
}

/// Three of the four GPUs of `a1x`, and all of `a1y`, are degraded.
fn worn() -> Vec<Node> {
    let mut nodes = nodes();
    nodes[0].degraded = requests(&[("gpu", 3)]);
    nodes[1].degraded = requests(&[("gpu", 4)]);
    nodes
}

#[test]
fn pods_go_elsewhere_while_there_is_a_healthy_place() {
    let place = |avoids, topology| super::place(&snapshot(avoids, &worn()), &pod_set(2, topology));
    assert_eq!(place(false, unconstrained()), Ok(on(&[("a1x", 2)])));
    assert_eq!(place(true, unconstrained()), Ok(on(&[("a2x", 2)])));
    assert_eq!(place(false, required(HOSTNAME)), Ok(on(&[("a1x", 2)])));
    assert_eq!(place(true, required(HOSTNAME)), Ok(on(&[("a2x", 2)])));
}

#[test]
fn degraded_devices_are_used_rather_than_none() {
    let snapshot = snapshot(true, &worn());
    let placed = super::place(&snapshot, &pod_set(29, preferred(BLOCK))).unwrap();
    assert_eq!(placed.domains.iter().map(|domain| domain.pods).sum::<u32>(), 29);
    assert!(super::place(&snapshot, &pod_set(33, preferred(BLOCK))).is_err());
}

#[test]
fn what_is_in_use_takes_healthy_devices_first() {
    let mut snapshot = snapshot(true, &worn()[..2]);
    let one = pod_set(1, unconstrained());
    assert_eq!(super::place(&snapshot, &one), Ok(on(&[("a1x", 1)])));
    let usage = snapshot.usage_of(&on(&[("a1x", 1)]), &one.requests);
    snapshot.add(&usage);
    // Only degraded devices are left now, and again the fullest node goes first.
    assert_eq!(super::place(&snapshot, &one), Ok(on(&[("a1x", 1)])));
    assert_eq!(
        super::place(&snapshot, &pod_set(7, unconstrained())).map(|p| p.domains.len()),
        Ok(2)
    );
}
