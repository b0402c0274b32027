//! What the arbiter knows, in the words of the engine: workloads, nodes, what is held.
//!
//! Ranks that reach the same nodes are one pod set, whose pods insist on these nodes. Every node is a place of its own
//! (`Setup::places_all`), so that the engine itself says which rank runs where; which devices of a node it gets is
//! decided in [`super::devices`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Arbiter, Node};
use crate::id::{DeviceId, NodeName, ResourceName, WorkloadName};
use crate::kueue::matching::{LabelOperator, LabelRequirement, Toleration, TolerationOperator};
use crate::kueue::name::{self, FlavorName, WorkloadKey};
use crate::kueue::tas;
use crate::kueue::workload::{
    self as engine, Admission, Eviction, EvictionReason, PlacedDomain, Placement, PodSet,
    PodSetAdmission, Requests, Reservation, TopologyRequest,
};
use crate::protocol::Health;
use crate::workload::{Assignment, Phase, Workload, is_device};

/// The label by which pods insist on nodes.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// What a node has of what only quota limits (CPU time, memory) and of pods: enough for anybody, far from overflow.
const UNLIMITED: i64 = 1 << 53;

pub(super) fn key_of(name: &WorkloadName) -> WorkloadKey {
    WorkloadKey::new("", name.as_str())
}

/// The name of a workload that the arbiter gave to the engine.
pub(super) fn name_of(key: &WorkloadKey) -> WorkloadName {
    key.name().parse().expect("keys are made of names")
}

fn resource_of(resource: &ResourceName) -> name::ResourceName {
    resource.as_str().into()
}

/// `quantity` in the engine's unit: milli-CPU for `cpu`, as it is for all else.
pub(super) fn amount_of(resource: &ResourceName, quantity: u64) -> i64 {
    let units = if resource.as_str() == "cpu" { 1_000 } else { 1 };
    i64::try_from(quantity.saturating_mul(units)).unwrap_or(i64::MAX)
}

/// An amount of the engine in whole units, rounded up.
pub(super) fn quantity_of(resource: &name::ResourceName, amount: i64) -> u64 {
    let units = if resource.as_str() == "cpu" { 1_000 } else { 1 };
    u64::try_from(amount).unwrap_or(0).div_ceil(units)
}

/// An amount of the engine in whole units, rounded down.
pub(super) fn whole_units(resource: &name::ResourceName, amount: i64) -> u64 {
    let units = if resource.as_str() == "cpu" { 1_000 } else { 1 };
    u64::try_from(amount).unwrap_or(0) / units
}

/// Ranks that reach the same nodes, by the first of them.
pub(super) fn ranks_by_reach(workload: &Workload) -> Vec<Vec<u32>> {
    // Ranks that share their set need not be compared name by name.
    let mut shared: BTreeMap<*const BTreeSet<NodeName>, Vec<u32>> = BTreeMap::new();
    for (rank, member) in &workload.members {
        shared.entry(Arc::as_ptr(&member.nodes)).or_default().push(*rank);
    }
    let mut by_reach: BTreeMap<&BTreeSet<NodeName>, Vec<u32>> = BTreeMap::new();
    for ranks in shared.into_values() {
        let nodes = workload.members.get(&ranks[0]).map(|member| &*member.nodes);
        nodes.into_iter().for_each(|nodes| by_reach.entry(nodes).or_default().extend(&ranks));
    }
    let mut groups: Vec<Vec<u32>> = by_reach.into_values().collect();
    groups.iter_mut().for_each(|ranks| ranks.sort_unstable());
    groups.sort();
    groups
}

fn pod_set_name(ranks: &[u32]) -> name::PodSetName {
    format!("rank-{}", ranks.first().copied().unwrap_or(0)).into()
}

fn requests_of(workload: &Workload) -> Requests {
    let resources = workload.spec.resources.iter();
    resources.map(|(r, quantity)| (resource_of(r), amount_of(r, *quantity))).collect()
}

fn pod_set(workload: &Workload, ranks: &[u32], pinned: Option<&Pinned>) -> PodSet {
    let reach = ranks.first().and_then(|rank| workload.members.get(rank)).map(|m| &*m.nodes);
    let values: BTreeSet<&NodeName> = match pinned {
        Some(pinned) => ranks.iter().filter_map(|rank| pinned.get(rank)).collect(),
        None => reach.into_iter().flatten().collect(),
    };
    let reach = LabelRequirement {
        key: HOSTNAME.to_owned(),
        operator: LabelOperator::In,
        values: values.into_iter().map(ToString::to_string).collect(),
    };
    let mode = workload.spec.topology.clone();
    PodSet {
        name: pod_set_name(ranks),
        count: u32::try_from(ranks.len()).unwrap_or(u32::MAX),
        min_count: None,
        requests: requests_of(workload),
        topology: mode.map(|mode| TopologyRequest { mode: Some(mode), ..Default::default() }),
        // Whoever may use the queue may use its flavors: there is nothing here that tolerates.
        tolerations: vec![Toleration {
            key: String::new(),
            operator: TolerationOperator::Exists,
            value: String::new(),
            effect: None,
        }],
        node_selector: BTreeMap::new(),
        affinity_terms: vec![vec![reach]],
    }
}

/// The node of each rank of a workload that goes nowhere else.
pub(super) type Pinned = BTreeMap<u32, NodeName>;

/// The workload as the engine sees it, without what it holds; if `pinned` is given it insists on these nodes.
pub(super) fn waiting(workload: &Workload, pinned: Option<&Pinned>) -> engine::Workload {
    let spec = &workload.spec;
    let groups = ranks_by_reach(workload);
    engine::Workload {
        key: key_of(&spec.name),
        uid: spec.name.to_string(),
        queue: spec.queue.as_str().into(),
        local_queue: "".into(),
        priority: spec.priority,
        priority_boost: 0,
        created_at_ms: workload.submitted_at.0,
        pod_sets: groups.iter().map(|ranks| pod_set(workload, ranks, pinned)).collect(),
        reclaimable: BTreeMap::new(),
        allowed_flavors: Vec::new(),
        reservation: None,
        eviction: None,
        unhealthy_nodes: Vec::new(),
        checks: BTreeMap::new(),
    }
}

impl Arbiter {
    /// The workload with the devices that it holds.
    pub(super) fn holding(&self, workload: &Workload) -> Arc<engine::Workload> {
        let held = workload.members.iter().filter_map(|(r, m)| Some((*r, m.assignment.clone()?)));
        let admission = self.admission_of(workload, &held.collect());
        let at_ms = workload.admitted_at.map_or(0, |at| at.0);
        let leaves = match workload.phase {
            Phase::Pending | Phase::Admitted | Phase::Running => None,
            Phase::Draining => Some(EvictionReason::Preempted),
            Phase::Succeeded | Phase::Failed | Phase::Cancelled => {
                Some(EvictionReason::Deactivated)
            }
        };
        let eviction = leaves.map(|reason| Eviction { reason, at_ms: workload.phase_since.0 });
        let reservation = Some(Reservation { at_ms, is_admitted: true, admission });
        let waiting = waiting(workload, self.pinned(workload).as_ref());
        Arc::new(engine::Workload { reservation, eviction, ..waiting })
    }

    /// `placement` as the engine would have given it.
    pub(super) fn admission_of(
        &self,
        workload: &Workload,
        placement: &BTreeMap<u32, Assignment>,
    ) -> Admission {
        let requests = requests_of(workload);
        let groups = ranks_by_reach(workload);
        let pod_set = |ranks: &Vec<u32>| {
            let placed: Vec<&Assignment> = ranks.iter().filter_map(|r| placement.get(r)).collect();
            let count = u32::try_from(placed.len()).unwrap_or(u32::MAX);
            let flavors = self.flavors_of(workload, placed.first().copied());
            let all = |amount: i64| amount.saturating_mul(i64::from(count));
            let usage = requests.iter().map(|(r, amount)| (r.clone(), all(*amount)));
            PodSetAdmission {
                name: pod_set_name(ranks),
                count,
                flavors,
                usage: usage.collect(),
                placement: Some(places(&placed)),
                delayed_placement: None,
            }
        };
        let queue = workload.spec.queue.as_str().into();
        Admission { queue, pod_sets: groups.iter().map(pod_set).collect() }
    }

    /// The flavors of an assignment; where they were not stored, or the queue no longer has them, its first.
    fn flavors_of(
        &self,
        workload: &Workload,
        assignment: Option<&Assignment>,
    ) -> BTreeMap<name::ResourceName, FlavorName> {
        let queue = self.config.queues.find(&workload.spec.queue);
        let flavor = |resource: &ResourceName| {
            let resource = resource_of(resource);
            let stored = assignment.and_then(|a| a.flavors.get(resource.as_str()));
            let offered = &queue?.group_of(&resource)?.flavors;
            let is_stored = |name: &FlavorName| stored.is_some_and(|s| s == name.as_str());
            let names = || offered.iter().map(|offered| &offered.flavor);
            let flavor = names().find(|name| is_stored(name)).or_else(|| names().next())?.clone();
            Some((resource, flavor))
        };
        workload.spec.resources.keys().filter_map(flavor).collect()
    }

    /// The node as the engine sees it. Devices that are out of order do not count, also while somebody holds them: what
    /// is free is then taken for less than it is, but nobody is drained for a device that nobody could be given.
    pub(super) fn place_of(&self, name: &NodeName, node: &Node) -> tas::Node {
        let mut allocatable: Requests = self.unlimited.clone();
        let mut degraded = Requests::new();
        for (id, device) in &node.devices {
            // Also where none is left: the resources of a node seldom change, and much is sorted anew when they do.
            let amount = allocatable.entry(resource_of(&device.resource)).or_insert(0);
            if self.holders.of(name, id).any(|holder| !self.is_counted(holder, name)) {
                continue;
            }
            let is_usable = match device.health {
                Health::Healthy => true,
                Health::Degraded => {
                    *degraded.entry(resource_of(&device.resource)).or_insert(0) += 1;
                    true
                }
                Health::Unhealthy | Health::Unknown => false,
            };
            *amount += i64::from(is_usable);
        }
        let mut labels = node.labels.clone();
        labels.insert(HOSTNAME.to_owned(), name.to_string());
        tas::Node {
            name: name.to_string(),
            labels,
            allocatable,
            degraded,
            taints: Vec::new(),
            is_ready: node.connected,
            is_unschedulable: false,
        }
    }
}

impl Arbiter {
    /// Whether the engine counts what `holder` has on `node`. It does not if the queues file no longer has its queue, or
    /// no flavor that is there: such devices are then no part of what the engine may give.
    fn is_counted(&self, holder: &WorkloadName, node: &NodeName) -> bool {
        let Some(workload) = self.workloads.get(holder) else { return true };
        let assignments = workload.members.values().filter_map(|m| m.assignment.as_ref());
        let here = assignments.into_iter().find(|assignment| assignment.node == *node);
        let flavors = self.flavors_of(workload, here);
        let labels = self.nodes.get(node).map(|node| &node.labels);
        let is_here = |name: &FlavorName| {
            let flavors = &self.config.queues.setup.flavors;
            flavors.iter().find(|flavor| flavor.name == *name).is_some_and(|flavor| {
                flavor.node_labels.iter().all(|(key, value)| {
                    key == HOSTNAME || labels.and_then(|l| l.get(key)) == Some(value)
                })
            })
        };
        let devices = workload.spec.resources.keys().filter(|r| is_device(r.as_str()));
        devices.into_iter().all(|r| flavors.get(&resource_of(r)).is_some_and(is_here))
    }
}

/// What every node has plenty of: pods, and the resources of `queues` that are no devices.
pub(super) fn unlimited(queues: &crate::queue::Queues) -> Requests {
    let groups = queues.setup.queues.iter().flat_map(|queue| &queue.groups);
    let resources = groups.flat_map(|group| &group.resources);
    let mut unlimited: Requests = resources
        .filter(|resource| !is_device(resource.as_str()))
        .map(|resource| (resource.clone(), UNLIMITED))
        .collect();
    unlimited.insert("pods".into(), UNLIMITED);
    unlimited
}

/// How many pods are on which node.
fn places(assignments: &[&Assignment]) -> Placement {
    let mut pods: BTreeMap<&NodeName, u32> = BTreeMap::new();
    for assignment in assignments {
        *pods.entry(&assignment.node).or_insert(0) += 1;
    }
    let domain =
        |(node, pods): (&NodeName, u32)| PlacedDomain { values: vec![node.to_string()], pods };
    Placement { levels: vec![HOSTNAME.to_owned()], domains: pods.into_iter().map(domain).collect() }
}

/// Who holds which devices, or has them reserved.
#[derive(Debug, Clone, Default)]
pub(super) struct Holders {
    by_device: BTreeMap<NodeName, BTreeMap<DeviceId, BTreeSet<WorkloadName>>>,
    by_workload: BTreeMap<WorkloadName, BTreeSet<(NodeName, DeviceId)>>,
}

impl Holders {
    /// `workload` holds, or has reserved, exactly `devices`. Returns the nodes where that is a change.
    pub(super) fn set(
        &mut self,
        workload: &WorkloadName,
        devices: BTreeSet<(NodeName, DeviceId)>,
    ) -> BTreeSet<NodeName> {
        let before = self.by_workload.remove(workload).unwrap_or_default();
        let mut changed = BTreeSet::new();
        for (node, device) in before.difference(&devices) {
            changed.insert(node.clone());
            let Some(on_node) = self.by_device.get_mut(node) else { continue };
            if let Some(holders) = on_node.get_mut(device) {
                holders.remove(workload);
                if holders.is_empty() {
                    on_node.remove(device);
                }
            }
        }
        for (node, device) in devices.difference(&before) {
            changed.insert(node.clone());
            let on_node = self.by_device.entry(node.clone()).or_default();
            on_node.entry(device.clone()).or_default().insert(workload.clone());
        }
        if !devices.is_empty() {
            self.by_workload.insert(workload.clone(), devices);
        }
        changed
    }

    /// Who holds or has reserved the device.
    pub(super) fn of(
        &self,
        node: &NodeName,
        device: &DeviceId,
    ) -> impl Iterator<Item = &WorkloadName> {
        let devices = self.by_device.get(node).and_then(|devices| devices.get(device));
        devices.into_iter().flatten()
    }
}
