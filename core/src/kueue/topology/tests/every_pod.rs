//! Where every pod gets a node, declared topologies still decide which flavors suit it.

use super::*;
use crate::kueue::fixture::{gpu_group, nominal};
use crate::kueue::name::FlavorName;
use crate::kueue::tas::Node;

/// Racks of two nodes of flavor a3, with the switch on; the flavor has `topology`.
fn every_pod(topology: Option<&[&str]>) -> Setup {
    let mut setup = setup(4, vec![queue("a", None, 64)]);
    setup.places_all = true;
    setup.topologies.clear();
    setup.flavors[0].topology = topology.map(|_| "racks".into());
    if let Some(levels) = topology {
        let levels = levels.iter().map(|level| (*level).to_owned()).collect();
        setup.topologies.push(Topology { name: "racks".into(), levels });
    }
    setup
}

/// A workload of `count` pods with `gpus` each and without any wish.
fn plain(name: &str, count: u32, gpus: i64) -> Workload {
    let mut workload = pending(name, "a", 0, gpus);
    workload.pod_sets[0].count = count;
    workload
}

fn required(level: &str, count: u32) -> Workload {
    let mut workload = plain("w", count, 8);
    let mode = Some(TopologyMode::Required(level.to_owned()));
    workload.pod_sets[0].topology = Some(TopologyRequest { mode, ..TopologyRequest::default() });
    workload
}

fn decide_one(setup: Setup, workload: Workload) -> (Decision, Option<PendingReason>) {
    decide(&Snapshot::new(setup), vec![workload], &Options::classical()).remove(0)
}

#[test]
fn pods_of_a_flavor_without_topology_get_nodes_that_carry_its_labels() {
    let mut setup = every_pod(None);
    setup.flavors[0].node_labels = [("rack".to_owned(), "rack1".to_owned())].into();
    let (decision, _) = decide_one(setup.clone(), plain("w", 2, 8));
    assert_eq!(nodes_of(&decision), ["node2", "node3"]);
    let waits = decide_one(setup.clone(), plain("w", 3, 8));
    assert_eq!(waits, (Decision::Wait, Some(PendingReason::TopologyPlacementFailed)));
    setup.places_all = false;
    let (decision, _) = decide_one(setup, plain("w", 3, 8));
    assert!(matches!(&decision, Decision::Admit(_)), "{decision:?}");
    assert_eq!(nodes_of(&decision), Vec::<String>::new());
}

#[test]
fn nodes_that_run_pods_without_wishes_are_taken() {
    let mut snapshot = Snapshot::new(every_pod(None));
    snapshot.insert(placed(plain("x", 1, 8), &["node0"]));
    let decisions = decide(&snapshot, vec![plain("w", 1, 8)], &Options::classical());
    assert_eq!(nodes_of(&decisions[0].0), ["node1"]);
}

#[test]
fn two_heads_without_wishes_do_not_share_a_gpu() {
    let mut setup = every_pod(None);
    setup.nodes.truncate(2);
    setup.queues.push(queue("b", None, 64));
    let mut second = plain("w2", 1, 8);
    second.queue = "b".into();
    let heads = vec![plain("w1", 1, 8), second];
    let decisions = decide(&Snapshot::new(setup), heads, &Options::classical());
    let nodes: Vec<_> = decisions.iter().map(|(decision, _)| nodes_of(decision)).collect();
    assert_eq!(nodes, [["node0"], ["node1"]]);
}

#[test]
fn a_topology_that_ends_above_the_nodes_is_placed_node_by_node() {
    let setup = every_pod(Some(&["rack"]));
    let mut snapshot = Snapshot::new(setup);
    snapshot.insert(placed(in_one_rack("x", "a", 0, 1), &["node1"]));
    let decisions = decide(&snapshot, vec![required("rack", 2)], &Options::classical());
    assert_eq!(nodes_of(&decisions[0].0), ["node2", "node3"]);
}

#[test]
fn pods_that_ask_for_a_topology_need_a_declared_one() {
    let refused = (Decision::Wait, Some(PendingReason::NoMatchingFlavor));
    assert_eq!(decide_one(every_pod(None), required("rack", 2)), refused);
    assert_eq!(decide_one(every_pod(None), required(HOSTNAME, 1)), refused);
    assert_eq!(decide_one(every_pod(Some(&["rack"])), required(HOSTNAME, 1)), refused);
    let declared = every_pod(Some(&["rack", HOSTNAME]));
    let (decision, _) = decide_one(declared, required(HOSTNAME, 1));
    assert_eq!(nodes_of(&decision), ["node0"]);
}

#[test]
fn pods_that_do_not_ask_skip_a_declared_topology_unless_the_queue_has_nothing_else() {
    let mut setup = every_pod(Some(&["rack"]));
    let (decision, _) = decide_one(setup.clone(), plain("w", 1, 8));
    assert_eq!(nodes_of(&decision), ["node0"]);
    setup.flavors.push(flavor("a4"));
    setup.flavors[1].node_labels = [("rack".to_owned(), "rack1".to_owned())].into();
    setup.queues[0].groups = vec![gpu_group(&[("a3", nominal(64)), ("a4", nominal(64))])];
    let (decision, _) = decide_one(setup, plain("w", 1, 8));
    assert_eq!(nodes_of(&decision), ["node2"]);
    let Decision::Admit(admission) = decision else { panic!("not admitted") };
    assert_eq!(admission.pod_sets[0].flavors[&"gpu".into()], FlavorName::from("a4"));
}

#[test]
fn quota_alone_comes_from_a_flavor_without_nodes() {
    let mut setup = every_pod(None);
    setup.flavors.push(flavor("license"));
    setup.flavors[1].node_labels = [("sold-by".to_owned(), "vendor".to_owned())].into();
    let mut licenses = gpu_group(&[("license", nominal(1))]);
    licenses.resources = vec!["seat".into()];
    licenses.flavors[0].quotas = [("seat".into(), nominal(4))].into();
    setup.queues[0].groups.push(licenses);
    let mut workload = plain("w", 1, 8);
    workload.pod_sets[0].requests.insert("seat".into(), 0);
    let (decision, _) = decide_one(setup, workload);
    assert_eq!(nodes_of(&decision), ["node0"]);
}

#[test]
fn a_node_that_does_not_say_its_host_name_has_its_own() {
    let mut setup = every_pod(None);
    for node in &mut setup.nodes {
        node.labels.remove(HOSTNAME);
    }
    let mut snapshot = Snapshot::new(setup.clone());
    let late = Node { name: "late".to_owned(), ..setup.nodes.remove(3) };
    snapshot.set_node(late);
    let decisions = decide(&snapshot, vec![plain("w", 5, 8)], &Options::classical());
    assert_eq!(nodes_of(&decisions[0].0), ["late", "node0", "node1", "node2", "node3"]);
}
