//! Which devices of its node a rank gets.
//!
//! Wanted properties: nobody gets a device that another holds or that is held for another; what is out of order is not
//! given; healthy devices go before degraded ones; the same question has the same answer.

use std::collections::{BTreeMap, BTreeSet};

use super::Arbiter;
use super::engine::ranks_by_reach;
use crate::id::{DeviceId, NodeName, ResourceName, WorkloadName};
use crate::kueue::workload::{Admission, PodSetAdmission};
use crate::protocol::Health;
use crate::workload::{Assignment, Workload, is_device};

/// Where each rank runs.
pub(super) type Placement = BTreeMap<u32, Assignment>;

/// Free devices of some nodes: best first.
type Free = BTreeMap<NodeName, BTreeSet<(Health, DeviceId)>>;

impl Arbiter {
    /// Devices for every rank as `admission` places them, if `victims` give theirs up; `None` if a node no longer has
    /// enough.
    pub(super) fn devices_for(
        &self,
        workload: &Workload,
        admission: &Admission,
        victims: &BTreeSet<WorkloadName>,
    ) -> Option<Placement> {
        let mut free = Free::new();
        let mut placement = Placement::new();
        let groups = ranks_by_reach(workload);
        let pinned = self.pinned(workload);
        for (ranks, admitted) in groups.iter().zip(&admission.pod_sets) {
            let flavors = admitted.flavors.iter().map(|(r, f)| (r.to_string(), f.to_string()));
            let flavors: BTreeMap<String, String> = flavors.collect();
            let mut ranks = ranks.iter();
            for node in nodes_of(admitted) {
                let rank = *ranks.next()?;
                // On a slice it matters which rank is where; the engine knows only that all its nodes are to be filled.
                let node = pinned.as_ref().map_or(Some(node), |p| p.get(&rank).cloned())?;
                let on_node = free
                    .entry(node.clone())
                    .or_insert_with(|| self.free_on(&node, &workload.spec.name, victims));
                let devices = self.take(&node, on_node, &workload.spec.resources)?;
                placement.insert(rank, Assignment { node, devices, flavors: flavors.clone() });
            }
            if ranks.next().is_some() {
                return None;
            }
        }
        Some(placement)
    }

    /// Devices of `node` that `name` may have if `victims` give theirs up.
    fn free_on(
        &self,
        node: &NodeName,
        name: &WorkloadName,
        victims: &BTreeSet<WorkloadName>,
    ) -> BTreeSet<(Health, DeviceId)> {
        let known = self.nodes.get(node).filter(|node| node.connected);
        let devices = known.into_iter().flat_map(|node| &node.devices);
        let is_usable = |health| matches!(health, Health::Healthy | Health::Degraded);
        let gives_up = |holder: &WorkloadName| holder == name || victims.contains(holder);
        devices
            .filter(|(_, device)| is_usable(device.health))
            .filter(|(id, _)| self.holders.of(node, id).all(gives_up))
            .map(|(id, device)| (device.health, id.clone()))
            .collect()
    }

    fn take(
        &self,
        node: &NodeName,
        free: &mut BTreeSet<(Health, DeviceId)>,
        resources: &BTreeMap<ResourceName, u64>,
    ) -> Option<BTreeSet<DeviceId>> {
        let node = self.nodes.get(node)?;
        let mut taken = BTreeSet::new();
        for (resource, count) in resources.iter().filter(|(r, _)| is_device(r.as_str())) {
            let suits = |(_, id): &&(Health, DeviceId)| {
                node.devices.get(id).is_some_and(|device| device.resource == *resource)
            };
            let count = usize::try_from(*count).ok()?;
            let chosen: Vec<_> = free.iter().filter(suits).take(count).cloned().collect();
            if chosen.len() < count {
                return None;
            }
            for device in chosen {
                free.remove(&device);
                taken.insert(device.1);
            }
        }
        Some(taken)
    }

    /// Whether everything in `placement` is there and nobody else's.
    pub(super) fn is_available(&self, name: &WorkloadName, placement: &Placement) -> bool {
        placement.values().all(|assignment| {
            let free = self.free_on(&assignment.node, name, &BTreeSet::new());
            let is_free = |id: &DeviceId| free.iter().any(|(_, free)| free == id);
            self.nodes.get(&assignment.node).is_some_and(|n| n.connected)
                && assignment.devices.iter().all(is_free)
        })
    }
}

/// The node of each pod, one after the other.
fn nodes_of(admitted: &PodSetAdmission) -> impl Iterator<Item = NodeName> {
    let domains = admitted.placement.iter().flat_map(|placement| &placement.domains);
    domains.flat_map(|domain| {
        let node = domain.values.last().and_then(|host| host.parse().ok());
        node.into_iter().flat_map(move |node: NodeName| {
            std::iter::repeat_n(node, usize::try_from(domain.pods).unwrap_or(usize::MAX))
        })
    })
}
