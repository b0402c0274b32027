//! What single pod sets get, and why they get nothing.

use super::{
    BLOCK, RACK, flavor, node, nodes, on, place, place_all, pod_set, preferred, requests, required,
    sliced, snapshot, unconstrained,
};
use crate::kueue::matching::{Taint, TaintEffect};
use crate::kueue::tas::model::HOSTNAME;
use crate::kueue::tas::{
    Assumed, Capacity, Exclusions, Failure, Node, OtherPod, PodSetRequest, Switches, TasSnapshot,
    UnconstrainedOrder, Unit,
};
use crate::kueue::workload::TopologyRequest;

#[test]
fn required_pods_go_to_the_tightest_domain_that_holds_them() {
    let mut nodes = nodes();
    nodes[5].allocatable = requests(&[("gpu", 1), ("pods", 110)]);
    let snapshot = snapshot(&nodes);
    // Rack 1 of block b has 5 free GPUs, every other rack 8.
    assert_eq!(place(&snapshot, &pod_set(5, required(RACK))), Ok(on(&[("b1x", 4), ("b1y", 1)])));
    assert_eq!(place(&snapshot, &pod_set(6, required(RACK))), Ok(on(&[("a1x", 4), ("a1y", 2)])));
}

#[test]
fn preferred_pods_climb_until_they_fit_and_are_spread_at_the_top() {
    let snapshot = snapshot(&nodes());
    let all_of_a = [("a1x", 4), ("a1y", 4), ("a2x", 4), ("a2y", 4)];
    assert_eq!(place(&snapshot, &pod_set(16, preferred(RACK))), Ok(on(&all_of_a)));
    let with_b = [("a1x", 4), ("a1y", 4), ("a2x", 4), ("a2y", 4), ("b1x", 1)];
    assert_eq!(place(&snapshot, &pod_set(17, preferred(HOSTNAME))), Ok(on(&with_b)));
}

#[test]
fn unconstrained_pods_fill_up_the_fullest_node_first() {
    let mut fuller = snapshot(&nodes());
    let usage = fuller.usage_of(&on(&[("b2x", 2)]), &requests(&[("gpu", 1)]));
    fuller.add(&usage);
    assert_eq!(place(&fuller, &pod_set(2, unconstrained())), Ok(on(&[("b2x", 2)])));
    let switches = Switches { unconstrained: UnconstrainedOrder::BestFit, ..Switches::default() };
    let mut best_fit = TasSnapshot::new(flavor(&[BLOCK, RACK, HOSTNAME]), switches, &nodes(), &[]);
    best_fit.add(&usage);
    assert_eq!(place(&best_fit, &pod_set(3, unconstrained())), Ok(on(&[("a1x", 3)])));
}

#[test]
fn slices_stay_whole_and_layers_stay_nested() {
    let snapshot = snapshot(&nodes());
    let topology = sliced(required(BLOCK), &[(RACK, 6), (HOSTNAME, 3)]);
    assert_eq!(
        place(&snapshot, &pod_set(12, topology)),
        Ok(on(&[("a1x", 3), ("a1y", 3), ("a2x", 3), ("a2y", 3)]))
    );
    let slices_alone = sliced(TopologyRequest::default(), &[(RACK, 8)]);
    assert_eq!(place(&snapshot, &pod_set(8, slices_alone)), Ok(on(&[("a1x", 4), ("a1y", 4)])));
}

#[test]
fn balanced_pods_are_spread_evenly() {
    let switches = Switches { is_balanced: true, ..Switches::default() };
    let snapshot = TasSnapshot::new(flavor(&[BLOCK, RACK, HOSTNAME]), switches, &nodes(), &[]);
    assert_eq!(place(&snapshot, &pod_set(6, preferred(RACK))), Ok(on(&[("a1x", 3), ("a1y", 3)])));
    // Not even all of it holds these: the ordinary placement says so.
    let failure = Failure::SomeFit { unit: Unit::Pod, fits: 32, requested: 33, excluded: None };
    assert_eq!(place(&snapshot, &pod_set(33, preferred(RACK))), Err(failure));
}

#[test]
fn a_group_is_placed_together_and_a_leader_is_one_pod() {
    let snapshot = snapshot(&nodes());
    let in_group =
        |count| pod_set(count, TopologyRequest { group: Some("g".into()), ..required(RACK) });
    let outcome = place_all(&snapshot, &[in_group(1), in_group(7)]);
    assert_eq!(outcome.failure(), None);
    assert_eq!(outcome.placement(0), Some(&on(&[("a1x", 1)])));
    assert_eq!(outcome.placement(1), Some(&on(&[("a1x", 3), ("a1y", 4)])));
    for counts in [vec![2, 7], vec![1, 1, 7]] {
        let pod_sets: Vec<_> = counts.into_iter().map(in_group).collect();
        let outcome = place_all(&snapshot, &pod_sets);
        let failure = Failure::MalformedGroup { pod_sets: pod_sets.len() };
        assert_eq!(outcome.failure(), Some((0, &failure)));
        assert_eq!(outcome.pod_sets.len(), pod_sets.len());
    }
}

#[test]
fn unusable_nodes_do_not_exist() {
    let mut nodes = nodes();
    nodes[0].is_ready = false;
    nodes[1].is_unschedulable = true;
    nodes[2].labels.remove(RACK);
    let snapshot = snapshot(&nodes);
    assert_eq!(snapshot.leaf_count(), 5);
    let gone = on(&[("a1x", 1)]);
    assert_eq!(snapshot.stale_domain(&gone), Some(["a1x".to_owned()].as_slice()));
    assert!(!snapshot.fits(&snapshot.usage_of(&gone, &requests(&[("gpu", 1)]))));
}

#[test]
fn other_pods_take_room_until_they_end() {
    let pod = |node: &str, gpus, has_ended| OtherPod {
        node: node.to_owned(),
        requests: requests(&[("cpu", 100), ("gpu", gpus), ("tpu", 1)]),
        has_ended,
    };
    let others = [pod("a1x", 3, false), pod("a1x", 1, true), pod("nowhere", 4, false)];
    let levels = flavor(&[BLOCK, RACK, HOSTNAME]);
    let snapshot = TasSnapshot::new(levels, Switches::default(), &nodes(), &others);
    let free = snapshot.free_in(&["a1x".to_owned()]);
    assert_eq!(free, Some(requests(&[("gpu", 1), ("pods", 109)])));
}

#[test]
fn a_pod_takes_one_unit_of_pods_and_an_unknown_resource_is_nowhere() {
    let mut one = node("a", "1", "a1x", 4);
    one.allocatable = requests(&[("gpu", 4), ("pods", 2)]);
    let snapshot = snapshot(&[one]);
    assert!(place(&snapshot, &pod_set(2, unconstrained())).is_ok());
    let mut failure = place(&snapshot, &pod_set(3, required(HOSTNAME)));
    let some = Failure::SomeFit { unit: Unit::Pod, fits: 2, requested: 3, excluded: None };
    assert_eq!(failure, Err(some));
    let mut wants_tpu = pod_set(1, required(HOSTNAME));
    wants_tpu.requests = requests(&[("gpu", 1), ("tpu", 1)]);
    failure = place(&snapshot, &wants_tpu);
    let excluded = Exclusions {
        total_nodes: 1,
        resources: [("tpu".into(), 1)].into(),
        ..Exclusions::default()
    };
    let none = Failure::NoneFit { unit: Unit::Pod, requested: 1, excluded: Some(excluded) };
    assert_eq!(failure, Err(none));
}

#[test]
fn every_left_out_node_is_counted_under_its_first_reason() {
    let mut nodes = nodes();
    let effects = [TaintEffect::NoExecute, TaintEffect::NoExecute, TaintEffect::PreferNoSchedule];
    for (node, effect) in nodes.iter_mut().zip(effects) {
        node.taints = vec![Taint { key: "maintenance".into(), value: String::new(), effect }];
    }
    for node in &mut nodes[..4] {
        node.labels.insert("disk".into(), "ssd".into());
    }
    let mut wants_ssd = pod_set(5, required(RACK));
    wants_ssd.node_selector = [("disk".into(), "ssd".into())].into();
    wants_ssd.requests = requests(&[("gpu", 4)]);
    let failure = place(&snapshot(&nodes), &wants_ssd).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "only 2 of 5 pods fit; of 8 nodes left out: 4 node selector, 2 taint \"maintenance:NoExecute\""
    );
}

#[test]
fn malformed_wishes_are_named() {
    let snapshot = snapshot(&nodes());
    let check = |count, topology, code: &str, text: &str| {
        let failure = place(&snapshot, &pod_set(count, topology)).unwrap_err();
        assert_eq!((failure.code(), failure.to_string().as_str()), (code, text));
    };
    check(
        1,
        required("moon"),
        "unknown-level",
        "the topology has no level \"moon\"; ask for one of its levels",
    );
    check(
        1,
        sliced(required(RACK), &[("moon", 1)]),
        "unknown-slice-level",
        "the topology has no level \"moon\" for slices; use one it has",
    );
    check(
        1,
        sliced(required(RACK), &[(BLOCK, 1)]),
        "slice-level-above-podset-level",
        "slice level \"cloud/block\" lies above the pod set's level \"cloud/rack\"; slices must be cut at or below it",
    );
    check(
        1,
        sliced(required(RACK), &[(RACK, 0)]),
        "slice-size-missing",
        "slices are asked for without a size; set podset-slice-size",
    );
    check(
        4,
        sliced(required(BLOCK), &[(RACK, 4), (RACK, 2)]),
        "layer-not-below-outer",
        "slice layer \"cloud/rack\" does not lie below the layer \"cloud/rack\" around it",
    );
    check(
        4,
        sliced(required(BLOCK), &[(RACK, 4), (HOSTNAME, 3)]),
        "layer-size-does-not-divide",
        "slice size 3 does not divide the size 4 around it",
    );
    check(
        5,
        sliced(required(BLOCK), &[(RACK, 4)]),
        "partial-slice",
        "5 pods do not make up whole slices of 4",
    );
    check(
        1,
        TopologyRequest::default(),
        "no-topology-requested",
        "the pod set asks for no topology",
    );
}

#[test]
fn a_topology_without_levels_or_nodes_places_nothing() {
    let no_levels = TasSnapshot::new(flavor(&[]), Switches::default(), &nodes(), &[]);
    assert_eq!(no_levels.leaf_count(), 0);
    let failure = place(&no_levels, &pod_set(1, unconstrained()));
    assert_eq!(failure, Err(Failure::NoTopologyRequested));
    let failure = place(&snapshot(&[]), &pod_set(1, required(RACK)));
    assert_eq!(failure, Err(Failure::NoDomainsAtLevel { level: RACK.into() }));
}

#[test]
fn an_empty_cluster_can_be_assumed() {
    let mut snapshot = snapshot(&nodes());
    let everything: Vec<_> = nodes().iter().map(|node| (node.name.clone(), 4)).collect();
    let everything: Vec<_> = everything.iter().map(|(name, pods)| (name.as_str(), *pods)).collect();
    let usage = snapshot.usage_of(&on(&everything), &requests(&[("gpu", 1)]));
    snapshot.add(&usage);
    let pod_set = pod_set(8, required(RACK));
    let place = |capacity| {
        let requests = [PodSetRequest::new(&pod_set)];
        snapshot.place(&requests, capacity, &mut Assumed::default())
    };
    assert!(place(Capacity::Free).failure().is_some());
    assert_eq!(place(Capacity::Empty).placement(0), Some(&on(&[("a1x", 4), ("a1y", 4)])));
}

#[test]
fn flavors_on_the_same_nodes_see_what_is_assumed() {
    let racks_and_hosts = snapshot(&nodes());
    let hosts = TasSnapshot::new(flavor(&[HOSTNAME]), Switches::default(), &nodes(), &[]);
    let pod_set = pod_set(4, required(HOSTNAME));
    let requests = [PodSetRequest::new(&pod_set)];
    let mut assumed = Assumed::default();
    let first = racks_and_hosts.place(&requests, Capacity::Free, &mut assumed);
    let second = hosts.place(&requests, Capacity::Free, &mut assumed);
    assert_eq!(first.placement(0), Some(&on(&[("a1x", 4)])));
    assert_eq!(second.placement(0), Some(&on(&[("a1y", 4)])));
}

#[test]
fn levels_of_a_request_are_known_or_not() {
    let snapshot = snapshot(&nodes());
    assert!(snapshot.has_levels_of(&sliced(required(BLOCK), &[(RACK, 2)]), false));
    assert!(!snapshot.has_levels_of(&sliced(required(BLOCK), &[(RACK, 2), ("moon", 1)]), false));
    assert!(!snapshot.has_levels_of(&preferred("moon"), false));
    assert!(!snapshot.has_levels_of(&TopologyRequest::default(), false));
    assert!(snapshot.has_levels_of(&TopologyRequest::default(), true));
}

#[test]
fn two_nodes_with_one_host_name_are_one_leaf_under_the_first_of_them() {
    let mut twin = node("b", "1", "a1x", 3);
    twin.name = "zz".into();
    let twins = [twin, node("a", "1", "a1x", 4)];
    let both = snapshot(&twins);
    assert_eq!(both.leaf_count(), 1);
    let free = both.free_in(&["a1x".to_owned()]);
    assert_eq!(free, Some(requests(&[("gpu", 7), ("pods", 220)])));
    let levels = flavor(&[BLOCK, RACK]);
    let coarse = TasSnapshot::new(levels, Switches::default(), &twins, &[]);
    assert_eq!(coarse.leaf_count(), 2);
    let path = ["b".to_owned(), "1".to_owned()];
    assert_eq!(coarse.free_in(&path), Some(requests(&[("gpu", 3), ("pods", 110)])));
    assert_eq!(coarse.free_in(&["a1x".to_owned()]), None);
}

#[test]
fn a_knapsack_that_gets_too_long_falls_back_to_the_ordinary_placement() {
    let switches = Switches { is_balanced: true, ..Switches::default() };
    // Capacities without a common measure: almost every subset leaves another rest.
    let nodes: Vec<Node> = (0..400u32)
        .map(|index| {
            let gpus = i64::from(1000 + index * index % 997);
            let mut node = node("a", "1", &format!("h{index:03}"), gpus);
            node.allocatable = requests(&[("gpu", gpus), ("pods", 100_000)]);
            node
        })
        .collect();
    let levels = || flavor(&[HOSTNAME]);
    let wish = pod_set(150_000, preferred(HOSTNAME));
    let balanced = TasSnapshot::new(levels(), switches, &nodes, &[]);
    let ordinary = TasSnapshot::new(levels(), Switches::default(), &nodes, &[]);
    assert_eq!(place(&balanced, &wish), place(&ordinary, &wish));
}
