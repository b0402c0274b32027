//! How many devices there are and how many are free, kept node by node so that nobody has to count them all.

use std::collections::BTreeMap;

use super::{Arbiter, Node};
use crate::id::{NodeName, ResourceName};
use crate::protocol::Health;

/// Devices of all nodes. Follows from the arbiter's nodes and holders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stock {
    by_node: BTreeMap<NodeName, BTreeMap<ResourceName, Count>>,
    free: BTreeMap<ResourceName, u64>,
    /// Per resource, how many nodes have how many devices of it.
    sizes: BTreeMap<ResourceName, BTreeMap<u64, u64>>,
}

/// Devices of one resource on one node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    all: u64,
    /// Usable and nobody's, on a node that is connected.
    free: u64,
}

impl Stock {
    fn set(&mut self, node: &NodeName, counts: BTreeMap<ResourceName, Count>) {
        let before = match counts.is_empty() {
            true => self.by_node.remove(node),
            false if self.by_node.get(node) == Some(&counts) => return,
            false => self.by_node.insert(node.clone(), counts.clone()),
        };
        for (resource, count) in before.into_iter().flatten() {
            self.free.entry(resource.clone()).and_modify(|free| *free -= count.free);
            let sizes = self.sizes.entry(resource).or_default();
            if let Some(nodes) = sizes.get_mut(&count.all) {
                *nodes -= 1;
                if *nodes == 0 {
                    sizes.remove(&count.all);
                }
            }
        }
        for (resource, count) in counts {
            *self.free.entry(resource.clone()).or_insert(0) += count.free;
            *self.sizes.entry(resource).or_default().entry(count.all).or_insert(0) += 1;
        }
    }

    /// Number of devices of one resource that are usable and nobody's, on all nodes that are connected; as it was when
    /// the last decision began.
    pub(super) fn free(&self, resource: &ResourceName) -> u64 {
        self.free.get(resource).copied().unwrap_or(0)
    }

    /// Most devices of one resource that any node has.
    pub(super) fn largest(&self, resource: &ResourceName) -> u64 {
        let sizes = self.sizes.get(resource);
        sizes.and_then(|sizes| sizes.keys().next_back().copied()).unwrap_or(0)
    }
}

impl Arbiter {
    /// Counts the devices of a node that has changed.
    pub(super) fn take_stock(&mut self, name: &NodeName) {
        let counts = self.nodes.get(name).map(|node| self.count_on(name, node));
        self.stock.set(name, counts.unwrap_or_default());
    }

    fn count_on(&self, name: &NodeName, node: &Node) -> BTreeMap<ResourceName, Count> {
        let mut counts: BTreeMap<ResourceName, Count> = BTreeMap::new();
        for (id, device) in &node.devices {
            let is_usable = matches!(device.health, Health::Healthy | Health::Degraded);
            let is_free = node.connected && is_usable && self.holders.of(name, id).next().is_none();
            let count = counts.entry(device.resource.clone()).or_default();
            count.all += 1;
            count.free += u64::from(is_free);
        }
        counts
    }
}
