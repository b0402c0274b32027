//! Clusters that the benches of decisions share: blocks of racks of nodes with 8 GPUs.

use std::collections::BTreeMap;

use sluice_core::kueue::model::{
    ClusterQueue, FlavorQuotas, Fungibility, NamespaceSelector, Preemption, QueueingStrategy,
    Quota, ResourceFlavor, ResourceGroup, StopPolicy, Topology,
};
use sluice_core::kueue::snapshot::Setup;
use sluice_core::kueue::tas::Node;
use sluice_core::kueue::weight::FairWeight;

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
