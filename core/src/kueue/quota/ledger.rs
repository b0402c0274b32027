//! What-if changes of usage on top of a quota tree.

use std::collections::BTreeMap;

use super::super::name::FlavorResource;
use super::super::workload::Usage;
use super::{NodeId, QuotaTree};

/// The nodes that a [`Ledger`] changed, with their new amounts.
pub(in crate::kueue) type LedgerChanges = BTreeMap<NodeId, Usage>;

/// Usage on top of a tree, with what-if changes. Only what was changed is stored.
#[derive(Clone, Debug)]
pub struct Ledger<'a> {
    tree: &'a QuotaTree,
    changed: LedgerChanges,
}

impl<'a> Ledger<'a> {
    /// A ledger that shows the tree as it is.
    #[must_use]
    pub fn new(tree: &'a QuotaTree) -> Self {
        Self { tree, changed: LedgerChanges::new() }
    }

    /// The tree underneath.
    #[must_use]
    pub fn tree(&self) -> &'a QuotaTree {
        self.tree
    }

    pub(in crate::kueue) fn into_changes(self) -> LedgerChanges {
        self.changed
    }

    /// What counts against `node`'s subtree quota.
    #[must_use]
    pub fn usage(&self, node: NodeId, fr: &FlavorResource) -> i64 {
        let changed = self.changed.get(&node).and_then(|usage| usage.get(fr));
        let recorded = || self.tree.nodes[node.index()].usage.get(fr);
        changed.or_else(recorded).copied().unwrap_or(0)
    }

    fn set_usage(&mut self, node: NodeId, fr: &FlavorResource, amount: i64) {
        self.changed.entry(node).or_default().insert(fr.clone(), amount);
    }

    /// What `node` keeps to itself and does not use yet.
    #[must_use]
    pub fn local_available(&self, node: NodeId, fr: &FlavorResource) -> i64 {
        let kept = self.tree.nodes[node.index()].kept(fr);
        kept.saturating_sub(self.usage(node, fr)).max(0)
    }

    /// Adds `amount` (0 or more) at `node`; what it does not keep to itself counts at its parent too.
    pub fn add(&mut self, node: NodeId, fr: &FlavorResource, amount: i64) {
        let beyond = amount.saturating_sub(self.local_available(node, fr));
        self.set_usage(node, fr, self.usage(node, fr).saturating_add(amount));
        if let Some(parent) = self.tree.parent(node)
            && beyond > 0
        {
            self.add(parent, fr, beyond);
        }
    }

    /// Takes `amount` (0 or more) away at `node`: the mirror of [`Ledger::add`].
    pub fn remove(&mut self, node: NodeId, fr: &FlavorResource, amount: i64) {
        let usage = self.usage(node, fr);
        let in_parent = usage.saturating_sub(self.tree.nodes[node.index()].kept(fr));
        self.set_usage(node, fr, usage.saturating_sub(amount));
        if let Some(parent) = self.tree.parent(node)
            && in_parent > 0
        {
            self.remove(parent, fr, amount.min(in_parent));
        }
    }

    /// Adds every amount of `usage` at `node`.
    pub fn add_all(&mut self, node: NodeId, usage: &Usage) {
        for (fr, &amount) in usage {
            self.add(node, fr, amount);
        }
    }

    /// Takes every amount of `usage` away at `node`.
    pub fn remove_all(&mut self, node: NodeId, usage: &Usage) {
        for (fr, &amount) in usage {
            self.remove(node, fr, amount);
        }
    }

    /// How much more `node` may use now: its own and what it may borrow. 0 when it or a cohort is over its quota.
    #[must_use]
    pub fn available(&self, node: NodeId, fr: &FlavorResource) -> i64 {
        self.available_or_debt(node, fr).max(0)
    }

    /// How much more quota `node` itself would need so that it could use `amount` more now; 0 if it can.
    ///
    /// Each unit of a queue's own quota is one unit more for it, whatever limits apply above it.
    #[must_use]
    pub fn shortage(&self, node: NodeId, fr: &FlavorResource, amount: i64) -> i64 {
        let possible = self.tree.potential_available(node, fr);
        let now = self.available_or_debt(node, fr);
        amount.saturating_sub(now.min(possible)).max(0)
    }

    /// As [`Ledger::available`], negative by what is used above quota.
    fn available_or_debt(&self, node: NodeId, fr: &FlavorResource) -> i64 {
        let this = &self.tree.nodes[node.index()];
        let Some(parent) = this.parent else {
            return this.subtree_quota(fr).saturating_sub(self.usage(node, fr));
        };
        let mut from_parent = self.available_or_debt(parent, fr);
        if let Some(limit) = this.borrowing_limit(fr) {
            let kept = this.kept(fr);
            let stored = this.subtree_quota(fr).saturating_sub(kept);
            let used = self.usage(node, fr).saturating_sub(kept).max(0);
            from_parent = from_parent.min(stored.saturating_sub(used).saturating_add(limit));
        }
        self.local_available(node, fr).saturating_add(from_parent)
    }

    /// Whether `node` would be above its quota with `amount` more.
    ///
    /// A queue is measured against its nominal quota, a cohort against that of its subtree; for a queue they are
    /// the same.
    #[must_use]
    pub fn is_borrowing_with(&self, node: NodeId, fr: &FlavorResource, amount: i64) -> bool {
        self.usage(node, fr).saturating_add(amount) > self.tree.subtree_quota(node, fr)
    }

    /// Whether `node` is above its quota on any of `frs`.
    pub fn is_borrowing_any<'f>(
        &self,
        node: NodeId,
        frs: impl IntoIterator<Item = &'f FlavorResource>,
    ) -> bool {
        frs.into_iter().any(|fr| self.is_borrowing_with(node, fr, 0))
    }

    /// Height of the lowest subtree around `queue` that has room for `amount` more, and whether that subtree is
    /// smaller than the whole tree. If none has, the height of the whole tree.
    ///
    /// Height 0 means: within the queue's own quota.
    #[must_use]
    pub fn lowest_fitting_subtree(
        &self,
        queue: NodeId,
        fr: &FlavorResource,
        amount: i64,
    ) -> (u32, bool) {
        let has_parent = self.tree.parent(queue).is_some();
        if !has_parent || !self.is_borrowing_with(queue, fr, amount) {
            return (0, has_parent);
        }
        let mut remaining = amount.saturating_sub(self.local_available(queue, fr));
        for cohort in self.tree.ancestors(queue) {
            if !self.is_borrowing_with(cohort, fr, remaining) {
                return (self.tree.height(cohort), self.tree.parent(cohort).is_some());
            }
            remaining = remaining.saturating_sub(self.local_available(cohort, fr));
        }
        (self.tree.height(self.tree.root(queue)), false)
    }

    /// Whether `requests` fit in `node`'s own quota, and what of them the node does not keep to itself.
    #[must_use]
    pub fn fits_in_quota(&self, node: NodeId, requests: &Usage) -> (bool, Usage) {
        let mut fits = true;
        let mut beyond = Usage::new();
        for (fr, &amount) in requests {
            fits &= !self.is_borrowing_with(node, fr, amount);
            let remaining = amount.saturating_sub(self.local_available(node, fr)).max(0);
            beyond.insert(fr.clone(), remaining);
        }
        (fits, beyond)
    }
}
