//! Where the ranks of a gang run: which free devices of which nodes.
//!
//! Wanted properties: a gang is placed whole or not at all; no device is given twice; a rank runs only
//! on a node that its launcher reaches; healthy devices go before degraded ones; the node left with
//! the fewest free devices is taken, so that large gangs keep their chance; ties go by name, so that
//! the same question has the same answer.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{DeviceId, NodeName, ResourceName};
use crate::protocol::Health;
use crate::workload::Assignment;

/// Free and usable devices: by node and resource, best first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Free(BTreeMap<NodeName, BTreeMap<ResourceName, BTreeSet<(Health, DeviceId)>>>);

impl Free {
    /// Makes `node` known even if none of its devices is free.
    pub fn add_node(&mut self, node: &NodeName) {
        self.0.entry(node.clone()).or_default();
    }

    /// Adds a free device.
    pub fn add(
        &mut self,
        node: &NodeName,
        resource: &ResourceName,
        health: Health,
        device: &DeviceId,
    ) {
        let node = self.0.entry(node.clone()).or_default();
        node.entry(resource.clone()).or_default().insert((health, device.clone()));
    }

    /// Number of free devices of one resource on all nodes.
    #[must_use]
    pub fn count(&self, resource: &ResourceName) -> u64 {
        self.0.values().filter_map(|node| node.get(resource)).map(BTreeSet::len).sum::<usize>()
            as u64
    }

    /// True if this device of this node is free.
    #[must_use]
    pub fn contains(&self, node: &NodeName, device: &DeviceId) -> bool {
        let resources = self.0.get(node).into_iter().flat_map(BTreeMap::values);
        resources.flatten().any(|(_, free)| free == device)
    }

    fn available(&self, node: &NodeName, resource: &ResourceName) -> u64 {
        self.0.get(node).and_then(|n| n.get(resource)).map_or(0, BTreeSet::len) as u64
    }

    fn take(
        &mut self,
        node: &NodeName,
        demand: &BTreeMap<ResourceName, u64>,
    ) -> BTreeSet<DeviceId> {
        let mut taken = BTreeSet::new();
        let Some(free) = self.0.get_mut(node) else { return taken };
        for (resource, count) in demand.iter().filter(|(resource, _)| is_device(resource)) {
            let Some(devices) = free.get_mut(resource) else { continue };
            for _ in 0..*count {
                taken.extend(devices.pop_first().map(|(_, device)| device));
            }
        }
        taken
    }
}

/// True for resources that are devices on a node; others (cpu, memory) count against quota only.
#[must_use]
pub fn is_device(resource: &ResourceName) -> bool {
    resource.as_str().contains('/')
}

/// What one rank needs.
#[derive(Debug, Clone)]
pub struct RankDemand<'a> {
    /// The rank.
    pub rank: u32,
    /// Nodes that its launcher reaches.
    pub nodes: &'a BTreeSet<NodeName>,
    /// Quantity per resource.
    pub resources: &'a BTreeMap<ResourceName, u64>,
}

/// How well a node suits a rank; the smallest is taken. Compared field by field, top to bottom.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Score<'a> {
    /// 1. Devices that would be less than healthy.
    impaired: u64,
    /// 2. Keep large holes: least left over.
    left_over: u64,
    /// 3. Ties: by name.
    node: &'a NodeName,
}

/// Most placements of single ranks tried before the gang counts as not fitting.
///
/// All ranks of a gang ask for the same; only the launchers' reach differs, so that the first
/// descent nearly always succeeds. The bound keeps a hostile submission from costing more than a few ms.
const TRIES_MAX: u32 = 10_000;

/// Places every rank, or none.
#[must_use]
pub fn place(ranks: &[RankDemand<'_>], free: &Free) -> Option<BTreeMap<u32, Assignment>> {
    let mut order: Vec<&RankDemand<'_>> = ranks.iter().collect();
    order.sort_by_key(|r| (r.nodes.len(), r.rank));
    let mut placed = BTreeMap::new();
    let mut tries_left = TRIES_MAX;
    descend(&order, &mut free.clone(), &mut placed, &mut tries_left).then_some(placed)
}

fn descend(
    ranks: &[&RankDemand<'_>],
    free: &mut Free,
    placed: &mut BTreeMap<u32, Assignment>,
    tries_left: &mut u32,
) -> bool {
    let Some((rank, rest)) = ranks.split_first() else { return true };
    for node in choices(rank, free) {
        if *tries_left == 0 {
            return false;
        }
        *tries_left -= 1;
        let before = free.0.get(&node).cloned();
        let devices = free.take(&node, rank.resources);
        placed.insert(rank.rank, Assignment { node: node.clone(), devices });
        if descend(rest, free, placed, tries_left) {
            return true;
        }
        placed.remove(&rank.rank);
        if let Some(before) = before {
            free.0.insert(node, before);
        }
    }
    false
}

fn choices(rank: &RankDemand<'_>, free: &Free) -> Vec<NodeName> {
    let mut scored: Vec<Score<'_>> = rank
        .nodes
        .iter()
        .filter(|node| free.0.contains_key(*node))
        .filter_map(|node| score(rank, node, free))
        .collect();
    scored.sort();
    scored.into_iter().map(|score| score.node.clone()).collect()
}

fn score<'a>(rank: &RankDemand<'_>, node: &'a NodeName, free: &Free) -> Option<Score<'a>> {
    let mut score = Score { impaired: 0, left_over: 0, node };
    for (resource, count) in rank.resources.iter().filter(|(resource, _)| is_device(resource)) {
        let available = free.available(node, resource);
        score.left_over += available.checked_sub(*count)?;
        let devices = free.0.get(node).and_then(|n| n.get(resource)).into_iter().flatten();
        let taken = devices.take(usize::try_from(*count).unwrap_or(usize::MAX));
        score.impaired += taken.filter(|(health, _)| *health != Health::Healthy).count() as u64;
    }
    Some(score)
}
