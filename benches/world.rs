//! Clusters that the benches of decisions share: blocks of racks of nodes with 8 GPUs, and what runs there.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_core::kueue::model::{
    ClusterQueue, FlavorQuotas, Fungibility, NamespaceSelector, Preemption, QueueingStrategy,
    Quota, ResourceFlavor, ResourceGroup, StopPolicy, Topology,
};
use sluice_core::kueue::name::WorkloadKey;
use sluice_core::kueue::snapshot::Setup;
use sluice_core::kueue::tas::Node;
use sluice_core::kueue::weight::FairWeight;
use sluice_core::kueue::workload::{
    Admission, PlacedDomain, Placement, PodSet, PodSetAdmission, Reservation, TopologyMode,
    TopologyRequest, Workload,
};

pub(crate) const LEVELS: [&str; 3] = ["cloud/block", "cloud/rack", "kubernetes.io/hostname"];
pub(crate) const GPU: &str = "nvidia.com/gpu";

/// Sizes of a cluster.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    pub(crate) nodes_per_rack: usize,
    pub(crate) racks_per_block: usize,
}

impl Size {
    pub(crate) fn node(self, index: usize) -> Node {
        let name = format!("node-{index:05}");
        let rack = index / self.nodes_per_rack;
        let labels = [
            (LEVELS[0], format!("block-{:02}", rack / self.racks_per_block)),
            (LEVELS[1], format!("rack-{rack:04}")),
            (LEVELS[2], name.clone()),
        ];
        Node {
            name,
            labels: labels.map(|(key, value)| (key.to_owned(), value)).into(),
            allocatable: [
                ("cpu".into(), 208_000),
                ("memory".into(), 1_800 << 30),
                (GPU.into(), 8),
                ("pods".into(), 110),
            ]
            .into(),
            taints: Vec::new(),
            is_ready: true,
            is_unschedulable: false,
            degraded: BTreeMap::new(),
        }
    }

    /// All nodes are of the flavor "reserved".
    pub(crate) fn setup(self, queues: Vec<ClusterQueue>) -> Setup {
        let flavor = ResourceFlavor {
            name: "reserved".into(),
            node_labels: BTreeMap::new(),
            taints: Vec::new(),
            tolerations: Vec::new(),
            topology: Some("cloud".into()),
        };
        let levels = LEVELS.map(str::to_owned).into();
        Setup {
            flavors: vec![flavor],
            queues,
            topologies: vec![Topology { name: "cloud".into(), levels }],
            nodes: (0..self.nodes).map(|index| self.node(index)).collect(),
            ..Setup::default()
        }
    }
}

pub(crate) fn queue(name: &str, cohort: &str, gpus: i64, preemption: Preemption) -> ClusterQueue {
    let quota = Quota { nominal: gpus, ..Quota::default() };
    let quotas = FlavorQuotas { flavor: "reserved".into(), quotas: [(GPU.into(), quota)].into() };
    ClusterQueue {
        name: name.into(),
        cohort: Some(cohort.into()),
        strategy: QueueingStrategy::BestEffortFifo,
        groups: vec![ResourceGroup { resources: vec![GPU.into()], flavors: vec![quotas] }],
        preemption,
        fungibility: Fungibility::DEFAULT,
        fair_weight: FairWeight::ONE,
        namespaces: NamespaceSelector::Matching(Vec::new()),
        checks: Vec::new(),
        stop: StopPolicy::None,
    }
}

/// A workload of `count` pods with `gpus` each that waits.
pub(crate) fn pending(
    name: &str,
    queue: &str,
    priority: i32,
    (count, gpus): (u32, i64),
    mode: TopologyMode,
) -> Workload {
    Workload {
        key: WorkloadKey::new("research", name),
        uid: name.to_owned(),
        queue: queue.into(),
        local_queue: queue.into(),
        priority,
        priority_boost: 0,
        created_at_ms: 0,
        pod_sets: vec![PodSet {
            name: "main".into(),
            count,
            min_count: None,
            requests: [(GPU.into(), gpus)].into(),
            topology: Some(TopologyRequest { mode: Some(mode), ..TopologyRequest::default() }),
            tolerations: Vec::new(),
            node_selector: BTreeMap::new(),
            affinity_terms: Vec::new(),
        }],
        reclaimable: BTreeMap::new(),
        allowed_flavors: Vec::new(),
        reservation: None,
        eviction: None,
        unhealthy_nodes: Vec::new(),
        checks: BTreeMap::new(),
    }
}

/// `workload` as it runs with one pod on each of `nodes` since `at_ms`.
pub(crate) fn placed(mut workload: Workload, nodes: &[usize], at_ms: u64) -> Arc<Workload> {
    let pod_set = &workload.pod_sets[0];
    let domain = |node: &usize| PlacedDomain { values: vec![format!("node-{node:05}")], pods: 1 };
    let placement = Placement {
        levels: vec![LEVELS[2].to_owned()],
        domains: nodes.iter().map(domain).collect(),
    };
    let gpus = pod_set.requests[&GPU.into()] * i64::from(pod_set.count);
    let admission = Admission {
        queue: workload.queue.clone(),
        pod_sets: vec![PodSetAdmission {
            name: "main".into(),
            count: pod_set.count,
            flavors: [(GPU.into(), "reserved".into())].into(),
            usage: [(GPU.into(), gpus)].into(),
            placement: Some(placement),
            delayed_placement: None,
        }],
    };
    workload.reservation = Some(Reservation { at_ms, is_admitted: true, admission });
    Arc::new(workload)
}
