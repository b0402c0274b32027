//! The quota tree: what each queue and cohort has, uses, may borrow and may lend.
//!
//! Leaves are cluster queues, inner nodes are cohorts. Two values per node and flavor-resource carry everything:
//!
//! * `subtree`: what the node and all below it have, less what children keep to themselves (their lending limits);
//! * `usage`: for a queue what its workloads use; for a cohort what its children use beyond what they keep.
//!
//! Amounts are `i64` and saturate, so that quantities near the type's limits stay limits instead of wrapping.
//! [`QuotaTree`] is fixed for a snapshot; [`Ledger`] answers what-if questions on top of it.

mod ledger;

use std::collections::BTreeMap;

use super::model::{Quota, ResourceGroup};
use super::name::FlavorResource;
use super::weight::FairWeight;
use super::workload::{Requests, Usage};

pub use ledger::Ledger;
use ledger::LedgerChanges;

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
    /// For a cohort: the most its members could ever use, per resource, over all flavors of the tree.
    lendable: Requests,
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
            lendable: Requests::new(),
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
        for index in 0..self.nodes.len() {
            if self.nodes[index].is_cohort {
                self.nodes[index].lendable = self.compute_lendable(index);
            }
        }
    }

    fn compute_lendable(&self, index: usize) -> Requests {
        let cohort = NodeId(u32::try_from(index).expect("there are fewer than 2^32 queues"));
        let mut lendable = Requests::new();
        for (fr, _) in self.subtree_quotas(self.root(cohort)) {
            let total = lendable.entry(fr.resource.clone()).or_insert(0_i64);
            *total = total.saturating_add(self.potential_available(cohort, fr));
        }
        lendable
    }

    /// Makes the changes of a [`Ledger`] part of the tree.
    pub(super) fn commit(&mut self, changes: LedgerChanges) {
        for (node, usage) in changes {
            self.nodes[node.index()].usage.extend(usage);
        }
    }

    /// Gives `node` another quota of `fr` and forgets all usage; call [`QuotaTree::seal`], then count usage anew.
    pub(super) fn replace_quota(&mut self, node: NodeId, fr: &FlavorResource, quota: Quota) {
        self.nodes[node.index()].quotas.insert(fr.clone(), quota);
        for node in &mut self.nodes {
            node.usage.clear();
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

    /// The most that members of `cohort` could ever use, per resource, over all flavors of its tree.
    #[must_use]
    pub fn lendable(&self, cohort: NodeId) -> &Requests {
        &self.nodes[cohort.index()].lendable
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

#[cfg(test)]
mod tests;
