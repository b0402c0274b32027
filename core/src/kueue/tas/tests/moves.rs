//! Pods that are placed already: broken nodes, and workloads that grow or shrink.

use super::{
    BLOCK, RACK, flavor, nodes, on, place, pod_set, preferred, required, sliced, snapshot,
    unconstrained,
};
use crate::kueue::tas::model::HOSTNAME;
use crate::kueue::tas::{
    Assumed, Capacity, Failure, PodSetRequest, ReplaceRequest, Replacement, Switches, TasSnapshot,
};
use crate::kueue::workload::{Placement, PodSet, TopologyRequest};

/// All nodes but `a1x`, which broke.
fn without_a1x() -> TasSnapshot {
    snapshot(&nodes()[1..])
}

fn replace(
    snapshot: &TasSnapshot,
    pod_set: &PodSet,
    placement: &Placement,
) -> Result<Replacement, Failure> {
    let replace = ReplaceRequest {
        request: PodSetRequest::new(pod_set),
        placement,
        is_owned_by_single_pod: false,
    };
    snapshot.replace(&replace, "a1x", &mut Assumed::default())
}

#[test]
fn moved_pods_stay_in_the_required_domain() {
    let (snapshot, pod_set) = (without_a1x(), pod_set(5, required(BLOCK)));
    let replaced = replace(&snapshot, &pod_set, &on(&[("a1x", 2), ("a2x", 3)])).unwrap();
    assert_eq!(replaced.moved, on(&[("a1y", 2)]));
    assert_eq!(replaced.placement, on(&[("a1y", 2), ("a2x", 3)]));
}

#[test]
fn pods_that_need_not_stay_close_go_where_they_fit_best() {
    let (snapshot, pod_set) = (without_a1x(), pod_set(3, preferred(HOSTNAME)));
    let replaced = replace(&snapshot, &pod_set, &on(&[("a1x", 2), ("b2y", 1)])).unwrap();
    assert_eq!(replaced.placement, on(&[("a1y", 2), ("b2y", 1)]));
}

#[test]
fn moved_pods_complete_the_slice_that_broke() {
    let (snapshot, topology) = (without_a1x(), sliced(required(BLOCK), &[(RACK, 3)]));
    let placement = on(&[("a1x", 2), ("a1y", 1), ("a2x", 3)]);
    let replaced = replace(&snapshot, &pod_set(6, topology), &placement).unwrap();
    assert_eq!(replaced.moved, on(&[("a1y", 2)]));
    assert_eq!(replaced.placement, on(&[("a1y", 3), ("a2x", 3)]));
}

#[test]
fn a_lone_pod_and_pods_elsewhere_stay() {
    let (snapshot, pod_set) = (without_a1x(), pod_set(1, required(RACK)));
    let placement = on(&[("a1x", 1)]);
    let lone = ReplaceRequest {
        request: PodSetRequest::new(&pod_set),
        placement: &placement,
        is_owned_by_single_pod: true,
    };
    let stays = Replacement { placement: placement.clone(), moved: on(&[]) };
    assert_eq!(snapshot.replace(&lone, "a1x", &mut Assumed::default()), Ok(stays));
    let elsewhere = on(&[("b1x", 1)]);
    let stays = Replacement { placement: elsewhere.clone(), moved: on(&[]) };
    assert_eq!(replace(&snapshot, &pod_set, &elsewhere), Ok(stays));
}

#[test]
fn a_second_broken_node_and_coarse_leaves_cannot_be_replaced() {
    let pod_set = pod_set(2, required(BLOCK));
    let stale = Failure::StaleDomain { value: "gone".into() };
    let placement = on(&[("a1x", 1), ("gone", 1)]);
    assert_eq!(replace(&without_a1x(), &pod_set, &placement), Err(stale));
    let coarse = TasSnapshot::new(flavor(&[BLOCK, RACK]), Switches::default(), &nodes(), &[]);
    let placement = on(&[("a1x", 1)]);
    assert_eq!(replace(&coarse, &pod_set, &placement), Err(Failure::NotPlacedByNode));
}

fn elastic() -> TasSnapshot {
    let switches = Switches { is_elastic: true, ..Switches::default() };
    TasSnapshot::new(flavor(&[BLOCK, RACK, HOSTNAME]), switches, &nodes(), &[])
}

fn resize(snapshot: &TasSnapshot, count: u32, previous: &Placement) -> Result<Placement, Failure> {
    let pod_set = pod_set(count, unconstrained());
    let request = PodSetRequest { previous: Some(previous), ..PodSetRequest::new(&pod_set) };
    let mut outcome = snapshot.place(&[request], Capacity::Free, &mut Assumed::default());
    outcome.pod_sets.remove(0).result
}

#[test]
fn running_pods_stay_when_a_workload_grows_or_shrinks() {
    let previous = on(&[("a1x", 3), ("b2y", 4)]);
    let snapshot = elastic();
    assert_eq!(resize(&snapshot, 7, &previous), Ok(previous.clone()));
    assert_eq!(resize(&snapshot, 2, &previous), Ok(on(&[("a1x", 2)])));
    assert_eq!(resize(&snapshot, 8, &previous), Ok(on(&[("a1x", 4), ("b2y", 4)])));
    let grown = on(&[("a1x", 3), ("a1y", 2), ("b2y", 4)]);
    assert_eq!(resize(&snapshot, 9, &previous), Ok(grown));
}

#[test]
fn a_workload_is_placed_afresh_when_its_node_is_gone_or_the_rule_is_off() {
    let fresh = place(&elastic(), &pod_set(2, unconstrained()));
    assert_eq!(resize(&elastic(), 2, &on(&[("gone", 2)])), fresh);
    assert_eq!(resize(&snapshot(&nodes()), 2, &on(&[("b2y", 2)])), fresh);
}

#[test]
fn a_running_leader_stays_and_a_new_one_is_placed_with_the_new_workers() {
    let snapshot = elastic();
    let grouped =
        |count| pod_set(count, TopologyRequest { group: Some("g".into()), ..unconstrained() });
    let (leader, workers) = (grouped(1), grouped(5));
    let (old_leader, old_workers) = (on(&[("b1x", 1)]), on(&[("b1y", 4)]));
    let workers = PodSetRequest { previous: Some(&old_workers), ..PodSetRequest::new(&workers) };
    let running = PodSetRequest { previous: Some(&old_leader), ..PodSetRequest::new(&leader) };
    let place = |leader| {
        let outcome = snapshot.place(&[leader, workers], Capacity::Free, &mut Assumed::default());
        assert_eq!(outcome.failure(), None);
        [0, 1].map(|index| outcome.placement(index).cloned().unwrap())
    };
    let [leader_at, workers_at] = place(running);
    assert_eq!((leader_at, workers_at), (old_leader.clone(), on(&[("b1x", 1), ("b1y", 4)])));
    let [leader_at, workers_at] = place(PodSetRequest::new(&leader));
    assert_eq!((leader_at, workers_at), (on(&[("a1x", 1)]), on(&[("a1x", 1), ("b1y", 4)])));
}
