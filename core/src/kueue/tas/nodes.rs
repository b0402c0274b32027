//! Nodes of all flavors, which of them lie under which leaf, and what they add to the capacity table.

use std::collections::BTreeMap;

use crate::kueue::name::ResourceName;
use crate::kueue::workload::Requests;

use super::model::{Node, OtherPod, PODS};
use super::snapshot::TasSnapshot;
use super::tree::path_of;

/// What pods of others request, by node.
#[derive(Clone, Debug, Default)]
pub(super) struct OtherPods {
    by_node: BTreeMap<String, Vec<Requests>>,
}

/// The nodes of the cluster, by name, and what pods of others request on them.
#[derive(Clone, Debug, Default)]
pub(in crate::kueue) struct NodeBook {
    nodes: BTreeMap<String, Node>,
    other_pods: OtherPods,
}

/// Which nodes lie under which leaf.
#[derive(Debug, Default)]
pub(super) struct Plot {
    /// Row of the leaf of each node.
    rows: BTreeMap<String, usize>,
    /// Nodes of each leaf, by name.
    names: Vec<Vec<String>>,
}

/// Sums over all rows of a capacity table.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    /// Leaves with a usable node.
    pub(super) usable_leaves: usize,
    /// Leaves with degraded devices.
    pub(super) degraded_leaves: usize,
    /// Usable nodes that offer the resource of each column.
    pub(super) offers: Vec<usize>,
}

/// What became of a changed node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kueue) enum Renewal {
    /// The flavor's tree has it now, or does not care.
    Done,
    /// The tree must be planted anew.
    NeedsNewTree,
}

impl OtherPods {
    pub(super) fn new(pods: &[OtherPod]) -> Self {
        let mut by_node: BTreeMap<String, Vec<Requests>> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| !pod.has_ended) {
            by_node.entry(pod.node.clone()).or_default().push(pod.requests.clone());
        }
        Self { by_node }
    }

    fn on(&self, node: &str) -> &[Requests] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }
}

impl NodeBook {
    /// Of nodes with one name the first usable one counts.
    pub(in crate::kueue) fn new(nodes: Vec<Node>, other_pods: &[OtherPod]) -> Self {
        let mut book = Self { nodes: BTreeMap::new(), other_pods: OtherPods::new(other_pods) };
        for node in nodes {
            let known = book.nodes.get(&node.name);
            if known.is_none_or(|known| !known.is_usable() && node.is_usable()) {
                book.set(node);
            }
        }
        book
    }

    /// Inserts or replaces a node; returns what was known of it.
    pub(in crate::kueue) fn set(&mut self, node: Node) -> Option<Node> {
        self.nodes.insert(node.name.clone(), node)
    }

    pub(in crate::kueue) fn remove(&mut self, name: &str) -> Option<Node> {
        self.nodes.remove(name)
    }

    pub(in crate::kueue) fn get(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    pub(super) fn other_pods(&self) -> &OtherPods {
        &self.other_pods
    }
}

impl Plot {
    pub(super) fn new(nodes_of_leaf: &[Vec<&Node>]) -> Self {
        let names = |nodes: &Vec<&Node>| nodes.iter().map(|node| node.name.clone()).collect();
        let rows = nodes_of_leaf.iter().enumerate();
        let rows = rows.flat_map(|(row, nodes)| nodes.iter().map(move |n| (n.name.clone(), row)));
        Self { rows: rows.collect(), names: nodes_of_leaf.iter().map(names).collect() }
    }
}

impl TasSnapshot {
    /// Takes over a node that was `before` and is now `name` in `book`. It costs little unless the tree changes.
    pub(in crate::kueue) fn renew_node(
        &mut self,
        before: Option<&Node>,
        name: &str,
        book: &NodeBook,
    ) -> Renewal {
        let is_mine = |node: &&Node| path_of(&self.flavor, node).is_some();
        let before = before.filter(is_mine);
        let after = book.get(name).filter(is_mine);
        let row = self.plot.rows.get(name).copied();
        if row.is_none() && !after.is_some_and(Node::is_usable) {
            return Renewal::Done;
        }
        let (Some(row), Some(before), Some(after)) = (row, before, after) else {
            return Renewal::NeedsNewTree;
        };
        let names = &self.plot.names[row];
        let is_alone = names.len() == 1 || !self.tree.leaves_are_nodes;
        let is_alike = before.labels == after.labels
            && before.taints == after.taints
            && before.allocatable.keys().eq(after.allocatable.keys());
        if !is_alike || !(is_alone || before.is_usable() == after.is_usable()) {
            return Renewal::NeedsNewTree;
        }
        self.count_offers(before, false);
        self.count_offers(after, true);
        let plot = std::sync::Arc::clone(&self.plot);
        let nodes: Vec<&Node> = plot.names[row].iter().filter_map(|name| book.get(name)).collect();
        self.fill_row(row, &nodes, &book.other_pods);
        Renewal::Done
    }

    pub(super) fn count_offers(&mut self, node: &Node, is_gained: bool) {
        if !node.is_usable() {
            return;
        }
        for column in node.allocatable.keys().filter_map(|name| self.columns.get(name)) {
            let offers = &mut self.totals.offers[*column];
            *offers = if is_gained { *offers + 1 } else { offers.saturating_sub(1) };
        }
    }

    /// Writes what `nodes`, all of a leaf, offer together.
    pub(super) fn fill_row(&mut self, row: usize, nodes: &[&Node], other_pods: &OtherPods) {
        let usable: Vec<&Node> = nodes.iter().copied().filter(|node| node.is_usable()).collect();
        let mut capacity = vec![0; self.columns.len()];
        let mut degraded = vec![0; self.columns.len()];
        let one_pod = Requests::from([(ResourceName::from(PODS), 1)]);
        for node in &usable {
            change_row(&mut capacity, &self.columns, &node.allocatable, i64::saturating_add);
            for requests in other_pods.on(&node.name) {
                change_row(&mut capacity, &self.columns, requests, i64::saturating_sub);
                change_row(&mut capacity, &self.columns, &one_pod, i64::saturating_sub);
            }
            change_row(&mut degraded, &self.columns, &node.degraded, |sum, amount| {
                sum.saturating_add(amount.max(0))
            });
        }
        let was_usable = self.is_usable(row);
        let was_degraded = self.degraded.row(row).iter().any(|amount| *amount > 0);
        let is_degraded = degraded.iter().any(|amount| *amount > 0);
        let (usable_leaves, degraded_leaves) =
            (self.totals.usable_leaves, self.totals.degraded_leaves);
        self.totals.usable_leaves =
            usable_leaves + usize::from(!usable.is_empty()) - usize::from(was_usable);
        self.totals.degraded_leaves =
            degraded_leaves + usize::from(is_degraded) - usize::from(was_degraded);
        let cells = self.capacity.row_mut(row);
        cells[0] = i64::try_from(usable.len()).unwrap_or(i64::MAX);
        cells[1..].copy_from_slice(&capacity);
        if was_degraded || is_degraded {
            self.degraded.row_mut(row).copy_from_slice(&degraded);
        }
    }
}

/// The columns for what `nodes` offer.
pub(super) fn columns_of<'a>(
    nodes: impl Iterator<Item = &'a &'a Node>,
) -> BTreeMap<ResourceName, usize> {
    let mut columns = BTreeMap::new();
    let mut last: Option<&Requests> = None;
    for node in nodes {
        // Most nodes offer the same resources as the one before.
        if last.is_none_or(|last| !last.keys().eq(node.allocatable.keys())) {
            columns.extend(node.allocatable.keys().map(|name| (name.clone(), 0)));
        }
        last = Some(&node.allocatable);
    }
    columns.values_mut().enumerate().for_each(|(position, column)| *column = position);
    columns
}

/// Applies each amount to its cell of a row. Both maps are in order of the names, so one pass does.
fn change_row(
    row: &mut [i64],
    columns: &BTreeMap<ResourceName, usize>,
    amounts: &Requests,
    change: fn(i64, i64) -> i64,
) {
    let mut columns = columns.iter().peekable();
    for (name, amount) in amounts {
        while columns.next_if(|(column, _)| *column < name).is_some() {}
        if let Some((_, column)) = columns.next_if(|(column, _)| *column == name) {
            row[*column] = change(row[*column], *amount);
        }
    }
}
