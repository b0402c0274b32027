//! The quota tree: what each queue and cohort has, uses, may borrow and may lend.
//!
//! Leaves are cluster queues, inner nodes are cohorts. Two values per node and flavor-resource carry everything:
//!
//! * `subtree`: what the node and all below it have, less what children keep to themselves (their lending limits);
//! * `usage`: for a queue what its workloads use; for a cohort what its children use beyond what they keep.
//!
//! Amounts are `i64` and saturate, so that quantities near the type's limits stay limits instead of wrapping.
//! [`QuotaTree`] is fixed for a snapshot; [`Ledger`] answers what-if questions on top of it.

use std::collections::BTreeMap;

use super::model::{Quota, ResourceGroup};
use super::name::FlavorResource;
use super::weight::FairWeight;
use super::workload::Usage;

/// A queue or cohort in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// What one node has. Its usage is what workloads hold when the snapshot was taken.
#[derive(Clone, Debug)]
struct Node {
    parent: Option<NodeId>,
    children: Vec<NodeId>,
    /// Steps to the furthest leaf below; 0 for a queue and for an empty cohort.
    height: u32,
    is_cohort: bool,
    weight: FairWeight,
    quotas: BTreeMap<FlavorResource, Quota>,
    subtree: BTreeMap<FlavorResource, i64>,
    usage: Usage,
}

impl Node {
    /// The part of its quota that a node never lends, because of its lending limit.
    fn kept(&self, fr: &FlavorResource) -> i64 {
        let Some(limit) = self.quotas.get(fr).and_then(|quota| quota.lending_limit) else {
            return 0;
        };
        self.subtree_quota(fr).saturating_sub(limit).max(0)
    }

    fn subtree_quota(&self, fr: &FlavorResource) -> i64 {
        self.subtree.get(fr).copied().unwrap_or(0)
    }

    fn borrowing_limit(&self, fr: &FlavorResource) -> Option<i64> {
        self.quotas.get(fr).and_then(|quota| quota.borrowing_limit)
    }
}

/// All queues and cohorts with their quotas and usage.
#[derive(Clone, Debug, Default)]
pub struct QuotaTree {
    nodes: Vec<Node>,
}

impl QuotaTree {
    /// Adds a cohort below `parent`; call [`QuotaTree::seal`] after the last node.
    pub(super) fn add_cohort(
        &mut self,
        parent: Option<NodeId>,
        groups: &[ResourceGroup],
        weight: FairWeight,
    ) -> NodeId {
        self.add_node(parent, groups, weight, true)
    }

    /// Adds a queue below `parent`; call [`QuotaTree::seal`] after the last node.
    pub(super) fn add_queue(
        &mut self,
        parent: Option<NodeId>,
        groups: &[ResourceGroup],
        weight: FairWeight,
    ) -> NodeId {
        self.add_node(parent, groups, weight, false)
    }

    fn add_node(
        &mut self,
        parent: Option<NodeId>,
        groups: &[ResourceGroup],
        weight: FairWeight,
        is_cohort: bool,
    ) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).expect("there are fewer than 2^32 queues"));
        assert!(parent.is_none_or(|parent| parent < id), "parents are added before their children");
        self.nodes.push(Node {
            parent,
            children: Vec::new(),
            height: 0,
            is_cohort,
            weight,
            quotas: quotas_of(groups),
            subtree: BTreeMap::new(),
            usage: Usage::new(),
        });
        if let Some(parent) = parent {
            self.nodes[parent.index()].children.push(id);
        }
        id
    }

    /// Sums quotas and heights from the leaves up.
    pub(super) fn seal(&mut self) {
        // Children have larger ids than their parents, so one backward pass meets every child first.
        for index in (0..self.nodes.len()).rev() {
            let mut subtree: BTreeMap<FlavorResource, i64> = self.nodes[index]
                .quotas
                .iter()
                .map(|(fr, quota)| (fr.clone(), quota.nominal))
                .collect();
            let mut height = 0;
            for &child in &self.nodes[index].children {
                let child = &self.nodes[child.index()];
                height = height.max(child.height + 1);
                for (fr, &quota) in &child.subtree {
                    let lent = quota.saturating_sub(child.kept(fr));
                    let total = subtree.entry(fr.clone()).or_insert(0);
                    *total = total.saturating_add(lent);
                }
            }
            self.nodes[index].subtree = subtree;
            self.nodes[index].height = height;
        }
    }

    /// Makes the changes of `ledger` part of the tree.
    pub(super) fn commit(&mut self, changes: LedgerChanges) {
        for (node, usage) in changes.0 {
            self.nodes[node.index()].usage.extend(usage);
        }
    }

    /// The cohort above `node`.
    #[must_use]
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.nodes[node.index()].parent
    }

    /// The queues and cohorts directly below `node`, in the order in which they were added.
    #[must_use]
    pub fn children(&self, node: NodeId) -> &[NodeId] {
        &self.nodes[node.index()].children
    }

    /// Whether `node` is a cohort.
    #[must_use]
    pub fn is_cohort(&self, node: NodeId) -> bool {
        self.nodes[node.index()].is_cohort
    }

    /// Steps from `node` to the furthest leaf below it.
    #[must_use]
    pub fn height(&self, node: NodeId) -> u32 {
        self.nodes[node.index()].height
    }

    /// The weight of `node` under fair sharing.
    #[must_use]
    pub fn weight(&self, node: NodeId) -> FairWeight {
        self.nodes[node.index()].weight
    }

    /// The cohorts above `node`, nearest first, the root last.
    pub fn ancestors(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(self.parent(node), |&node| self.parent(node))
    }

    /// The topmost cohort above `node`, or `node` itself if it has none.
    #[must_use]
    pub fn root(&self, node: NodeId) -> NodeId {
        self.ancestors(node).last().unwrap_or(node)
    }

    /// What the node itself is given.
    #[must_use]
    pub fn quota(&self, node: NodeId, fr: &FlavorResource) -> Quota {
        self.nodes[node.index()].quotas.get(fr).copied().unwrap_or_default()
    }

    /// What the node and all below it have, less what children keep to themselves.
    #[must_use]
    pub fn subtree_quota(&self, node: NodeId, fr: &FlavorResource) -> i64 {
        self.nodes[node.index()].subtree_quota(fr)
    }

    /// Everything counted at `node`, with its subtree quota.
    pub fn subtree_quotas(
        &self,
        node: NodeId,
    ) -> impl Iterator<Item = (&FlavorResource, i64)> + '_ {
        self.nodes[node.index()].subtree.iter().map(|(fr, &quota)| (fr, quota))
    }

    /// The most `node` could ever use, with nothing else running. A larger request can never fit.
    #[must_use]
    pub fn potential_available(&self, node: NodeId, fr: &FlavorResource) -> i64 {
        let this = &self.nodes[node.index()];
        let Some(parent) = this.parent else { return this.subtree_quota(fr) };
        let available = this.kept(fr).saturating_add(self.potential_available(parent, fr));
        match this.borrowing_limit(fr) {
            Some(limit) => available.min(this.subtree_quota(fr).saturating_add(limit)),
            None => available,
        }
    }
}

fn quotas_of(groups: &[ResourceGroup]) -> BTreeMap<FlavorResource, Quota> {
    let mut quotas = BTreeMap::new();
    for group in groups {
        for flavor in &group.flavors {
            for (resource, quota) in &flavor.quotas {
                quotas.insert(FlavorResource::new(&flavor.flavor, resource), *quota);
            }
        }
    }
    quotas
}

/// The nodes and amounts that a [`Ledger`] changed.
#[derive(Clone, Debug, Default)]
pub(super) struct LedgerChanges(BTreeMap<NodeId, Usage>);

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
        Self { tree, changed: LedgerChanges::default() }
    }

    /// The tree underneath.
    #[must_use]
    pub fn tree(&self) -> &'a QuotaTree {
        self.tree
    }

    pub(super) fn into_changes(self) -> LedgerChanges {
        self.changed
    }

    /// What counts against `node`'s subtree quota.
    #[must_use]
    pub fn usage(&self, node: NodeId, fr: &FlavorResource) -> i64 {
        let changed = self.changed.0.get(&node).and_then(|usage| usage.get(fr));
        let recorded = || self.tree.nodes[node.index()].usage.get(fr);
        changed.or_else(recorded).copied().unwrap_or(0)
    }

    fn set_usage(&mut self, node: NodeId, fr: &FlavorResource, amount: i64) {
        self.changed.0.entry(node).or_default().insert(fr.clone(), amount);
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

#[cfg(test)]
mod tests;
