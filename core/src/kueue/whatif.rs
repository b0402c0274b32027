//! What-if questions on a snapshot: what would fit, be borrowed or be unfair if some workloads were gone or came.
//!
//! A [`WhatIf`] stores only what the question changes. Changes are undone by their mirror, in any order.

use std::collections::{BTreeMap, BTreeSet};

use super::name::{FlavorName, FlavorResource, WorkloadKey};
use super::quota::{Ledger, NodeId};
use super::snapshot::{QueueState, Running, Snapshot, TopologyUsage};
use super::tas::{LeafUsage, TasSnapshot};
use super::workload::Usage;

/// A snapshot with hypothetical changes.
#[derive(Clone, Debug)]
pub struct WhatIf<'a> {
    snapshot: &'a Snapshot,
    ledger: Ledger<'a>,
    gone: BTreeSet<WorkloadKey>,
    /// Topologies that were changed; the others are as in the snapshot.
    topologies: BTreeMap<FlavorName, TasSnapshot>,
}

impl<'a> WhatIf<'a> {
    /// The snapshot as it is.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot) -> Self {
        Self {
            snapshot,
            ledger: Ledger::new(snapshot.tree()),
            gone: BTreeSet::new(),
            topologies: BTreeMap::new(),
        }
    }

    /// The snapshot underneath, without the changes.
    #[must_use]
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// Quota with the changes.
    #[must_use]
    pub fn ledger(&self) -> &Ledger<'a> {
        &self.ledger
    }

    /// Takes a running workload away; whether it was not gone already.
    pub fn take_away(&mut self, running: &Running) -> bool {
        let is_new = self.gone.insert(running.workload.key.clone());
        if is_new && let Some(queue) = self.snapshot.queue(&running.queue) {
            self.ledger.remove_all(queue.node, &running.usage);
            let placed = self.snapshot.placed(running);
            self.change_topologies(placed, TasSnapshot::remove);
        }
        is_new
    }

    /// Puts a workload back that was taken away.
    pub fn put_back(&mut self, running: &Running) {
        if self.gone.remove(&running.workload.key)
            && let Some(queue) = self.snapshot.queue(&running.queue)
        {
            self.ledger.add_all(queue.node, &running.usage);
            let placed = self.snapshot.placed(running);
            self.change_topologies(placed, TasSnapshot::add);
        }
    }

    /// Charges `usage` to the queue at `node`.
    pub fn charge(&mut self, node: NodeId, usage: &Usage) {
        self.ledger.add_all(node, usage);
    }

    /// Takes back what [`WhatIf::charge`] charged.
    pub fn refund(&mut self, node: NodeId, usage: &Usage) {
        self.ledger.remove_all(node, usage);
    }

    /// Charges placed pods to the topologies they lie in.
    pub(super) fn charge_topologies(&mut self, usage: &TopologyUsage) {
        self.change_topologies(Some(usage), TasSnapshot::add);
    }

    fn change_topologies(
        &mut self,
        usage: Option<&TopologyUsage>,
        apply: fn(&mut TasSnapshot, &LeafUsage),
    ) {
        for (flavor, usage) in usage.into_iter().flat_map(TopologyUsage::all) {
            if let Some(recorded) = self.snapshot.topology(flavor) {
                let changed =
                    self.topologies.entry(flavor.clone()).or_insert_with(|| recorded.clone());
                apply(changed, usage);
            }
        }
    }

    /// The nodes of `flavor` with the changes, if it has a topology.
    #[must_use]
    pub fn topology(&self, flavor: &FlavorName) -> Option<&TasSnapshot> {
        self.topologies.get(flavor).or_else(|| self.snapshot.topology(flavor))
    }

    /// What still runs in `queue`, by workload key.
    pub fn running_in<'s>(
        &'s self,
        queue: &'a QueueState,
    ) -> impl Iterator<Item = &'a Running> + 's {
        self.snapshot.running_in(queue).filter(|running| !self.gone.contains(&running.workload.key))
    }

    /// Whether the queue at `node` has room for all of `usage` now.
    #[must_use]
    pub fn has_room(&self, node: NodeId, usage: &Usage) -> bool {
        usage.iter().all(|(fr, &amount)| amount <= self.ledger.available(node, fr))
    }

    /// Whether there is room for all pods of `running` where it has placed them.
    #[must_use]
    pub fn has_places_of(&self, running: &Running) -> bool {
        let placed = self.snapshot.placed(running).into_iter().flat_map(|p| &p.own);
        placed.into_iter().all(|(flavor, usage)| {
            self.topology(flavor).is_none_or(|topology| topology.fits(usage))
        })
    }

    /// Whether the queue at `node` would use more than its own quota of anything in `usage`.
    #[must_use]
    pub fn would_borrow(&self, node: NodeId, usage: &Usage) -> bool {
        usage.iter().any(|(fr, &amount)| self.ledger.is_borrowing_with(node, fr, amount))
    }

    /// Whether `node` is above its quota on any of `frs`.
    #[must_use]
    pub fn is_above_quota(&self, node: NodeId, frs: &BTreeSet<FlavorResource>) -> bool {
        self.ledger.is_borrowing_any(node, frs)
    }
}
