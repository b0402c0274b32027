//! A small cluster for the tests, and facts about single placements.

mod degraded;
mod facts;
mod matching;
mod memory;
mod moves;
mod property;
mod several;

use crate::kueue::name::PodSetName;
use crate::kueue::workload::{
    PlacedDomain, Placement, PodSet, Requests, SliceLayer, TopologyMode, TopologyRequest,
};

use super::model::HOSTNAME;
use super::{
    Assumed, Capacity, Failure, FlavorNodes, Node, Outcome, PodSetRequest, Switches, TasSnapshot,
};

pub(super) const BLOCK: &str = "cloud/block";
pub(super) const RACK: &str = "cloud/rack";

pub(super) fn requests(amounts: &[(&str, i64)]) -> Requests {
    amounts.iter().map(|(name, amount)| ((*name).into(), *amount)).collect()
}

pub(super) fn flavor(levels: &[&str]) -> FlavorNodes {
    FlavorNodes {
        levels: levels.iter().map(|level| (*level).to_owned()).collect(),
        ..FlavorNodes::default()
    }
}

/// A node with `gpus` GPUs and room for 110 pods.
pub(super) fn node(block: &str, rack: &str, host: &str, gpus: i64) -> Node {
    let labels = [(BLOCK, block), (RACK, rack), (HOSTNAME, host)];
    Node {
        name: host.to_owned(),
        labels: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        allocatable: requests(&[("gpu", gpus), ("pods", 110)]),
        taints: Vec::new(),
        is_ready: true,
        is_unschedulable: false,
        degraded: Requests::new(),
    }
}

/// Two blocks of two racks of two hosts with 4 GPUs each, called `<block><rack><host>`.
pub(super) fn nodes() -> Vec<Node> {
    let mut nodes = Vec::new();
    for block in ["a", "b"] {
        for rack in ["1", "2"] {
            for host in ["x", "y"] {
                nodes.push(node(block, rack, &format!("{block}{rack}{host}"), 4));
            }
        }
    }
    nodes
}

pub(super) fn snapshot(nodes: &[Node]) -> TasSnapshot {
    TasSnapshot::new(flavor(&[BLOCK, RACK, HOSTNAME]), Switches::default(), nodes, &[])
}

/// `count` pods of one GPU each.
pub(super) fn pod_set(count: u32, topology: TopologyRequest) -> PodSet {
    PodSet {
        name: PodSetName::from("main"),
        count,
        min_count: None,
        requests: requests(&[("gpu", 1)]),
        topology: Some(topology),
        tolerations: Vec::new(),
        node_selector: std::collections::BTreeMap::new(),
        affinity_terms: Vec::new(),
    }
}

pub(super) fn required(level: &str) -> TopologyRequest {
    TopologyRequest {
        mode: Some(TopologyMode::Required(level.to_owned())),
        ..TopologyRequest::default()
    }
}

pub(super) fn preferred(level: &str) -> TopologyRequest {
    TopologyRequest {
        mode: Some(TopologyMode::Preferred(level.to_owned())),
        ..TopologyRequest::default()
    }
}

pub(super) fn unconstrained() -> TopologyRequest {
    TopologyRequest { mode: Some(TopologyMode::Unconstrained), ..TopologyRequest::default() }
}

pub(super) fn sliced(topology: TopologyRequest, layers: &[(&str, u32)]) -> TopologyRequest {
    let layer = |(level, size): &(&str, u32)| SliceLayer { level: (*level).into(), size: *size };
    TopologyRequest { slice_layers: layers.iter().map(layer).collect(), ..topology }
}

/// A placement on hosts.
pub(super) fn on(hosts: &[(&str, u32)]) -> Placement {
    let domain =
        |(host, pods): &(&str, u32)| PlacedDomain { values: vec![(*host).to_owned()], pods: *pods };
    Placement { levels: vec![HOSTNAME.to_owned()], domains: hosts.iter().map(domain).collect() }
}

pub(super) fn place_all(snapshot: &TasSnapshot, pod_sets: &[PodSet]) -> Outcome {
    let requests: Vec<PodSetRequest<'_>> = pod_sets.iter().map(PodSetRequest::new).collect();
    snapshot.place(&requests, Capacity::Free, &mut Assumed::default())
}

pub(super) fn place(snapshot: &TasSnapshot, pod_set: &PodSet) -> Result<Placement, Failure> {
    let mut outcome = place_all(snapshot, std::slice::from_ref(pod_set));
    outcome.pod_sets.remove(0).result
}
