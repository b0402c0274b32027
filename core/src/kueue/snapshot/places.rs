//! What running workloads take in the topologies of their flavors.

use std::collections::BTreeMap;

use super::super::name::{FlavorName, WorkloadKey};
use super::super::tas::{FlavorNodes, LeafUsage, TasSnapshot};
use super::super::workload::{Placement, PodSetAdmission, Requests, Workload};
use super::{Setup, Snapshot};

/// What a workload takes in topologies.
#[derive(Clone, Debug, Default)]
pub(in crate::kueue) struct TopologyUsage {
    /// In those of its own flavors.
    pub own: Vec<(FlavorName, LeafUsage)>,
    /// In those of other flavors, which may share nodes with its own.
    pub others: Vec<(FlavorName, LeafUsage)>,
}

impl TopologyUsage {
    /// Every flavor that sees it, with what it sees.
    pub(in crate::kueue) fn all(&self) -> impl Iterator<Item = &(FlavorName, LeafUsage)> {
        self.own.iter().chain(&self.others)
    }
}

impl Snapshot {
    /// What the placements in `workload`'s reservation take.
    pub(super) fn topology_usage_of(&self, workload: &Workload) -> TopologyUsage {
        let held = workload.reservation.iter().flat_map(|held| &held.admission.pod_sets);
        let mut usage = TopologyUsage::default();
        for admitted in held {
            let Some(placement) = &admitted.placement else { continue };
            let pod_set = workload.pod_sets.iter().find(|pod_set| pod_set.name == admitted.name);
            let Some(flavor) = self.topology_flavor_of(admitted) else { continue };
            if let Some(pod_set) = pod_set {
                self.add_topology_usage(&mut usage, flavor, placement, &pod_set.requests);
            }
        }
        usage
    }

    fn topology_flavor_of<'f>(&self, admitted: &'f PodSetAdmission) -> Option<&'f FlavorName> {
        admitted.flavors.values().find(|flavor| self.topologies.contains_key(*flavor))
    }

    /// Adds what `placement` takes in the topology of `flavor`, and in those of flavors that may share its nodes.
    pub(in crate::kueue) fn add_topology_usage(
        &self,
        usage: &mut TopologyUsage,
        flavor: &FlavorName,
        placement: &Placement,
        per_pod: &Requests,
    ) {
        let Some(own) = self.topologies.get(flavor) else { return };
        usage.own.push((flavor.clone(), own.usage_of(placement, per_pod)));
        for (name, other) in &self.topologies {
            if name != flavor && own.is_node_level() && other.is_node_level() {
                usage.others.push((name.clone(), other.usage_of(placement, per_pod)));
            }
        }
    }

    /// What the running workload `key` takes in topologies.
    pub(in crate::kueue) fn placed(&self, key: &WorkloadKey) -> Option<&TopologyUsage> {
        self.placed.get(key)
    }

    /// The nodes of `flavor`, if it has a topology.
    #[must_use]
    pub fn topology(&self, flavor: &FlavorName) -> Option<&TasSnapshot> {
        self.topologies.get(flavor)
    }
}

/// The topology of every flavor that has one.
pub(super) fn plant_topologies(setup: &Setup) -> BTreeMap<FlavorName, TasSnapshot> {
    let levels: BTreeMap<_, _> =
        setup.topologies.iter().map(|topology| (&topology.name, &topology.levels)).collect();
    let mut topologies = BTreeMap::new();
    for flavor in &setup.flavors {
        let Some(levels) = flavor.topology.as_ref().and_then(|name| levels.get(name)) else {
            continue;
        };
        let nodes = FlavorNodes {
            levels: (*levels).clone(),
            node_labels: flavor.node_labels.clone(),
            tolerations: flavor.tolerations.clone(),
        };
        let topology = TasSnapshot::new(nodes, setup.placement, &setup.nodes, &setup.other_pods);
        topologies.insert(flavor.name.clone(), topology);
    }
    topologies
}
