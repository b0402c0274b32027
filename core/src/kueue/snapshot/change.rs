//! Changes of what a snapshot is made of, for what-if questions: a copy is changed, never what decides.

use std::sync::Arc;

use super::super::name::{FlavorResource, QueueName};
use super::super::quota::Ledger;
use super::super::tas::Switches;
use super::Snapshot;

impl Snapshot {
    /// Adds `more` (less than 0: takes away) to the nominal quota of `queue`; it never falls below 0.
    ///
    /// Returns whether the queue offers `fr`; if not, nothing is changed. All usage is counted again.
    pub fn add_quota(&mut self, queue: &QueueName, fr: &FlavorResource, more: i64) -> bool {
        let Some(state) = self.queues.get_mut(queue).map(Arc::make_mut) else { return false };
        let offered = state.spec.groups.iter_mut().flat_map(|group| &mut group.flavors);
        let mut offered = offered.filter(|quotas| quotas.flavor == fr.flavor);
        let Some(quota) = offered.find_map(|quotas| quotas.quotas.get_mut(&fr.resource)) else {
            return false;
        };
        quota.nominal = quota.nominal.saturating_add(more).max(0);
        self.tree.replace_quota(state.node, fr, *quota);
        self.tree.seal();
        let mut ledger = Ledger::new(&self.tree);
        for running in self.running.values() {
            if let Some(queue) = self.queues.get(&running.queue) {
                ledger.add_all(queue.node, &running.usage);
            }
        }
        let changes = ledger.into_changes();
        self.tree.commit(changes);
        true
    }

    /// Which optional rules of placement are on.
    #[must_use]
    pub fn placement(&self) -> Switches {
        self.switches
    }

    /// Places by other optional rules from now on. All trees are planted anew at the next question.
    pub fn set_placement(&mut self, switches: Switches) {
        let outdated = self.planted.keys().cloned().collect();
        self.switches = switches;
        self.places_mut().outdate(outdated);
    }
}

#[cfg(test)]
mod tests;
