//! The nodes of one flavor and what is free on them. Choosing domains is in `place` and below.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kueue::name::ResourceName;
use crate::kueue::workload::{Placement, Requests, TopologyMode, TopologyRequest};

use super::memo::Memo;
use super::model::{Capacity, FlavorNodes, Node, OtherPod, PODS, Switches};
use super::node_match::NodeIndex;
use super::nodes::{NodeBook, OtherPods, Plot, Totals, columns_of};
use super::plan::layers_of;
use super::table::Table;
use super::tree::{DomainId, Planted, Tree, ix};

/// The nodes of one flavor as a tree of topology domains, with what is free in every leaf.
///
/// Cloning costs next to nothing: clones share everything that neither has changed.
#[derive(Clone, Debug)]
pub struct TasSnapshot {
    pub(super) tree: Arc<Tree>,
    pub(super) nodes: Arc<NodeIndex>,
    pub(super) flavor: Arc<FlavorNodes>,
    pub(super) switches: Switches,
    pub(super) plot: Arc<Plot>,
    /// Column of each resource that some node offers; columns are in the order of the names.
    pub(super) columns: Arc<BTreeMap<ResourceName, usize>>,
    pub(super) totals: Totals,
    /// Leaf by leaf: usable nodes, then, column by column, allocatable less pods of others. May be negative.
    pub(super) capacity: Table,
    /// Leaf by leaf and column by column, the part of the capacity that is degraded.
    pub(super) degraded: Table,
    /// What placed workloads take, in the same layout.
    used: Table,
    /// As `used` if no workload were placed.
    pub(super) unused: Table,
    /// What was counted for earlier questions.
    pub(super) memo: Arc<Memo>,
}

/// What some pods take on the leaves they are placed on, in the numbers of one snapshot and its clones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafUsage {
    /// Leaf and pods on it.
    pub(super) leaves: Vec<(usize, i64)>,
    pub(super) request: LeafRequest,
    /// Whether some domain is not in the snapshot: its node is gone, or of another flavor.
    is_partly_elsewhere: bool,
}

/// What of a leaf may be used. What is in use counts as using healthy devices first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) capacity: Capacity,
    /// Whether degraded devices are left out.
    pub(super) is_healthy_only: bool,
}

impl From<Capacity> for Room {
    fn from(capacity: Capacity) -> Self {
        Self { capacity, is_healthy_only: false }
    }
}

/// What one pod takes, with the columns of one snapshot. One unit of `pods` is included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeafRequest {
    /// Resource, its column if any node offers it, amount; ordered by name.
    pub(super) amounts: Vec<(ResourceName, Option<usize>, i64)>,
}

impl TasSnapshot {
    /// Builds the snapshot of those `nodes` that are usable and belong to `flavor`; nothing is in use yet.
    ///
    /// This is the expensive step (it sorts all nodes by their paths). Keep the result while the nodes stay the
    /// same, clone it, and [`TasSnapshot::add`] what is in use.
    #[must_use]
    pub fn new(
        flavor: FlavorNodes,
        switches: Switches,
        nodes: &[Node],
        other_pods: &[OtherPod],
    ) -> Self {
        Self::plant(flavor, switches, nodes.iter(), &OtherPods::new(other_pods))
    }

    /// The snapshot of the nodes in `book`, as [`TasSnapshot::new`].
    pub(in crate::kueue) fn of_book(
        flavor: &FlavorNodes,
        switches: Switches,
        book: &NodeBook,
    ) -> Self {
        Self::plant(flavor.clone(), switches, book.nodes(), book.other_pods())
    }

    fn plant<'a>(
        flavor: FlavorNodes,
        switches: Switches,
        nodes: impl Iterator<Item = &'a Node>,
        other_pods: &OtherPods,
    ) -> Self {
        let Planted { tree, nodes_of_leaf } = Tree::plant(&flavor, nodes);
        let columns = columns_of(nodes_of_leaf.iter().flatten());
        let index = if tree.leaves_are_nodes {
            NodeIndex::new(nodes_of_leaf.iter().map(|nodes| nodes[0]))
        } else {
            NodeIndex::default()
        };
        let (rows, width) = (nodes_of_leaf.len(), columns.len());
        let unused = Table::zeros(rows, width);
        let mut snapshot = Self {
            tree: Arc::new(tree),
            nodes: Arc::new(index),
            flavor: Arc::new(flavor),
            switches,
            plot: Arc::new(Plot::new(&nodes_of_leaf)),
            columns: Arc::new(columns),
            totals: Totals { offers: vec![0; width], ..Totals::default() },
            capacity: Table::zeros(rows, 1 + width),
            degraded: unused.clone(),
            used: unused.clone(),
            unused,
            memo: Arc::default(),
        };
        for (row, nodes) in nodes_of_leaf.iter().enumerate() {
            nodes.iter().for_each(|node| snapshot.count_offers(node, true));
            snapshot.fill_row(row, nodes, other_pods);
        }
        snapshot
    }

    /// The topology's levels (node label keys), topmost first.
    #[must_use]
    pub fn levels(&self) -> &[String] {
        &self.tree.levels
    }

    /// Whether each leaf is one node. Only then do flavors that share nodes see each other's usage.
    #[must_use]
    pub fn is_node_level(&self) -> bool {
        self.tree.leaves_are_nodes
    }

    /// Leaf domains in the snapshot; nodes, where placement is node by node.
    #[must_use]
    pub fn leaf_count(&self) -> usize {
        self.totals.usable_leaves
    }

    /// Whether a usable node lies under the leaf with this row.
    pub(super) fn is_usable(&self, row: usize) -> bool {
        self.capacity.row(row)[0] > 0
    }

    /// The leaf that the values of a placement name, if a usable node is there.
    pub(super) fn find_leaf(&self, values: &[String]) -> Option<DomainId> {
        self.tree.find_planted(values).filter(|leaf| self.is_usable(self.row(*leaf)))
    }

    /// What is free in the leaf that `values` name as a placement does, per resource that some node offers;
    /// `None` if there is no such leaf. Negative where more is in use than there is.
    #[must_use]
    pub fn free_in(&self, values: &[String]) -> Option<Requests> {
        let free = self.free(self.row(self.find_leaf(values)?));
        let offered = self.columns.keys().zip(free).zip(&self.totals.offers);
        let offered = offered.filter(|(_, offers)| **offers > 0);
        Some(offered.map(|((name, amount), _)| (name.clone(), amount)).collect())
    }

    /// Whether the topology has every level that `request` names; a flavor without them does not match.
    #[must_use]
    pub fn has_levels_of(&self, request: &TopologyRequest, is_implied: bool) -> bool {
        let layers = layers_of(Some(request));
        let added = usize::from(self.flavor.is_last_level_added);
        let declared = &self.tree.levels[..self.tree.levels.len().saturating_sub(added)];
        let is_declared = |level: &String| declared.contains(level);
        let is_level_declared = match &request.mode {
            Some(TopologyMode::Required(level) | TopologyMode::Preferred(level)) => {
                is_declared(level)
            }
            Some(TopologyMode::Unconstrained) | None => true,
        };
        is_level_declared
            && self.requested_level(Some(request), &layers, is_implied).is_ok()
            && layers.iter().all(|layer| is_declared(&layer.level))
    }

    /// The first domain of `placement` that is not in the snapshot: its node is gone or not ready.
    #[must_use]
    pub fn stale_domain<'a>(&self, placement: &'a Placement) -> Option<&'a [String]> {
        let values = placement.domains.iter().map(|domain| domain.values.as_slice());
        values.into_iter().find(|values| self.find_leaf(values).is_none())
    }

    /// What the pods of `placement` take when each requests `per_pod` (one unit of `pods` is added). Domains that
    /// are not in the snapshot are left out.
    #[must_use]
    pub fn usage_of(&self, placement: &Placement, per_pod: &Requests) -> LeafUsage {
        let mut leaves = Vec::with_capacity(placement.domains.len());
        let mut is_partly_elsewhere = false;
        for domain in &placement.domains {
            match self.tree.find_planted(&domain.values) {
                Some(leaf) => leaves.push((self.row(leaf), i64::from(domain.pods))),
                None => is_partly_elsewhere = true,
            }
        }
        LeafUsage { leaves, request: self.leaf_request(per_pod), is_partly_elsewhere }
    }

    /// Counts `usage` as in use. It may exceed what is free; nothing fits there then.
    pub fn add(&mut self, usage: &LeafUsage) {
        self.change(usage, 1);
    }

    /// Counts `usage` as free again: the exact opposite of [`TasSnapshot::add`].
    pub fn remove(&mut self, usage: &LeafUsage) {
        self.change(usage, -1);
    }

    fn change(&mut self, usage: &LeafUsage, sign: i64) {
        for (row, pods) in &usage.leaves {
            let used = self.used.row_mut(*row);
            for (_, column, amount) in &usage.request.amounts {
                let Some(column) = column else { continue };
                used[*column] = used[*column].saturating_add(amount.saturating_mul(pods * sign));
            }
        }
    }

    /// Whether `usage` still fits into what is free, domain by domain.
    #[must_use]
    pub fn fits(&self, usage: &LeafUsage) -> bool {
        !usage.is_partly_elsewhere
            && usage.leaves.iter().all(|(row, pods)| {
                self.is_usable(*row) && usage.request.count_in(&self.free(*row)).pods >= *pods
            })
    }

    /// What is in use, as far as `capacity` counts it.
    pub(super) fn used(&self, capacity: Capacity) -> &Table {
        match capacity {
            Capacity::Free => &self.used,
            Capacity::Empty => &self.unused,
        }
    }

    /// What is free in a leaf (by its row), column by column.
    fn free(&self, row: usize) -> Vec<i64> {
        let cells = self.capacity.row(row)[1..].iter().zip(self.used.row(row));
        cells.map(|(capacity, used)| capacity.saturating_sub(*used)).collect()
    }

    pub(super) fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// The row of a leaf in the capacity table.
    pub(super) fn row(&self, leaf: DomainId) -> usize {
        ix(leaf - self.tree.first_leaf())
    }

    pub(super) fn leaf_request(&self, per_pod: &Requests) -> LeafRequest {
        let mut amounts = per_pod.clone();
        let pods = amounts.entry(ResourceName::from(PODS)).or_insert(0);
        *pods = pods.saturating_add(1);
        let column = |name: &ResourceName| self.columns.get(name).copied();
        let amounts = amounts.into_iter().map(|(name, amount)| (column(&name), name, amount));
        LeafRequest {
            amounts: amounts.map(|(column, name, amount)| (name, column, amount)).collect(),
        }
    }
}

/// How many pods fit into a leaf.
#[derive(Clone, Copy)]
pub(super) struct LeafCount {
    /// Range: 0 to `i32::MAX`.
    pub(super) pods: i64,
    /// Position in the request of the resource that allows the fewest; the first by name of several.
    pub(super) scarcest: usize,
}

impl LeafRequest {
    /// How many such pods fit into `free`. What nobody offers is 0, and less than nothing is nothing.
    pub(super) fn count_in(&self, free: &[i64]) -> LeafCount {
        self.count(|column| free[column])
    }

    /// As [`LeafRequest::count_in`], asking for what is free column by column.
    pub(super) fn count(&self, free: impl Fn(usize) -> i64) -> LeafCount {
        // Kueue counts in 32 bits; no node runs more pods than that, and sums over a cluster stay far from 64.
        const MOST: i64 = i32::MAX as i64;
        let mut count = LeafCount { pods: i64::MAX, scarcest: 0 };
        for (position, (_, column, amount)) in self.amounts.iter().enumerate() {
            let free = column.map_or(0, &free);
            let pods = match *amount {
                ..=0 => MOST,
                // Dividing takes a while, and many nodes are full.
                amount if free < amount => 0,
                amount => (free / amount).min(MOST),
            };
            if pods < count.pods {
                count = LeafCount { pods, scarcest: position };
            }
        }
        assert!(count.pods <= MOST, "a request names at least the resource pods");
        count
    }

    /// Takes `pods` such pods out of `free`.
    pub(super) fn take_from(&self, free: &mut [i64], pods: i64) {
        for (_, column, amount) in &self.amounts {
            let Some(column) = column else { continue };
            free[*column] = free[*column].saturating_sub(amount.saturating_mul(pods));
        }
    }
}
