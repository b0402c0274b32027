//! The nodes of one flavor and what is free on them. Choosing domains is in `place` and below.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kueue::name::ResourceName;
use crate::kueue::workload::{Placement, Requests, TopologyRequest};

use super::model::{Capacity, FlavorNodes, Node, OtherPod, PODS, Switches};
use super::node_match::NodeIndex;
use super::plan::layers_of;
use super::tree::{DomainId, Planted, Tree, ix};

/// The nodes of one flavor as a tree of topology domains, with what is free in every leaf.
///
/// Cloning copies only the table of what is in use (8 bytes per leaf and resource); the rest is shared.
#[derive(Clone, Debug)]
pub struct TasSnapshot {
    pub(super) tree: Arc<Tree>,
    pub(super) nodes: Arc<NodeIndex>,
    pub(super) flavor: Arc<FlavorNodes>,
    pub(super) switches: Switches,
    /// Column of each resource that some node offers; columns are in the order of the names.
    columns: Arc<BTreeMap<ResourceName, usize>>,
    /// Allocatable less pods of others, leaf by leaf and column by column. May be negative.
    capacity: Arc<Vec<i64>>,
    /// What placed workloads take, in the same layout.
    used: Vec<i64>,
}

/// What some pods take on the leaves they are placed on, in the numbers of one snapshot and its clones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafUsage {
    /// Leaf and pods on it.
    leaves: Vec<(usize, i64)>,
    request: LeafRequest,
    /// Whether some domain is not in the snapshot: its node is gone, not ready, or of another flavor.
    is_partly_elsewhere: bool,
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
        let Planted { tree, nodes_of_leaf } = Tree::plant(&flavor, nodes);
        let columns = columns_of(nodes_of_leaf.iter().flatten());
        let index = if tree.leaves_are_nodes {
            NodeIndex::new(nodes_of_leaf.iter().map(|nodes| nodes[0]))
        } else {
            NodeIndex::default()
        };
        let capacity = capacity_of(&nodes_of_leaf, &columns, other_pods);
        Self {
            used: vec![0; capacity.len()],
            tree: Arc::new(tree),
            nodes: Arc::new(index),
            flavor: Arc::new(flavor),
            switches,
            columns: Arc::new(columns),
            capacity: Arc::new(capacity),
        }
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
        self.tree.leaves().len()
    }

    /// What is free in the leaf that `values` name as a placement does, per resource that some node offers;
    /// `None` if there is no such leaf. Negative where more is in use than there is.
    #[must_use]
    pub fn free_in(&self, values: &[String]) -> Option<Requests> {
        let mut free = vec![0; self.columns.len()];
        self.read_free(self.row(self.tree.find_leaf(values)?), Capacity::Free, &mut free);
        Some(self.columns.keys().cloned().zip(free).collect())
    }

    /// Whether the topology has every level that `request` names; a flavor without them does not match.
    #[must_use]
    pub fn has_levels_of(&self, request: &TopologyRequest, is_implied: bool) -> bool {
        let layers = layers_of(Some(request));
        self.requested_level(Some(request), &layers, is_implied).is_ok()
            && layers.iter().all(|layer| self.tree.level_of(&layer.level).is_some())
    }

    /// The first domain of `placement` that is not in the snapshot: its node is gone or not ready.
    #[must_use]
    pub fn stale_domain<'a>(&self, placement: &'a Placement) -> Option<&'a [String]> {
        let values = placement.domains.iter().map(|domain| domain.values.as_slice());
        values.into_iter().find(|values| self.tree.find_leaf(values).is_none())
    }

    /// What the pods of `placement` take when each requests `per_pod` (one unit of `pods` is added). Domains that
    /// are not in the snapshot are left out.
    #[must_use]
    pub fn usage_of(&self, placement: &Placement, per_pod: &Requests) -> LeafUsage {
        let mut leaves = Vec::with_capacity(placement.domains.len());
        let mut is_partly_elsewhere = false;
        for domain in &placement.domains {
            match self.tree.find_leaf(&domain.values) {
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
        let width = self.columns.len();
        for (row, pods) in &usage.leaves {
            for (_, column, amount) in &usage.request.amounts {
                let Some(column) = column else { continue };
                let used = &mut self.used[row * width + column];
                *used = used.saturating_add(amount.saturating_mul(pods * sign));
            }
        }
    }

    /// Whether `usage` still fits into what is free, domain by domain.
    #[must_use]
    pub fn fits(&self, usage: &LeafUsage) -> bool {
        let mut free = vec![0; self.columns.len()];
        !usage.is_partly_elsewhere
            && usage.leaves.iter().all(|(row, pods)| {
                self.read_free(*row, Capacity::Free, &mut free);
                usage.request.count_in(&free).pods >= *pods
            })
    }

    /// Writes what is free in a leaf (by its row) to `free`, column by column.
    pub(super) fn read_free(&self, row: usize, capacity: Capacity, free: &mut [i64]) {
        let cells = row * self.columns.len()..(row + 1) * self.columns.len();
        free.copy_from_slice(&self.capacity[cells.clone()]);
        match capacity {
            Capacity::Empty => {}
            Capacity::Free => {
                for (free, used) in free.iter_mut().zip(&self.used[cells]) {
                    *free = free.saturating_sub(*used);
                }
            }
        }
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
        // Kueue counts in 32 bits; no node runs more pods than that, and sums over a cluster stay far from 64.
        const MOST: i64 = i32::MAX as i64;
        let mut count = LeafCount { pods: i64::MAX, scarcest: 0 };
        for (position, (_, column, amount)) in self.amounts.iter().enumerate() {
            let free = column.map_or(0, |column| free[column]);
            let pods = if *amount <= 0 { MOST } else { (free / amount).clamp(0, MOST) };
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

fn columns_of<'a>(nodes: impl Iterator<Item = &'a &'a Node>) -> BTreeMap<ResourceName, usize> {
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

fn capacity_of(
    nodes_of_leaf: &[Vec<&Node>],
    columns: &BTreeMap<ResourceName, usize>,
    other_pods: &[OtherPod],
) -> Vec<i64> {
    let mut capacity = vec![0i64; nodes_of_leaf.len() * columns.len()];
    let mut pods_of_node: BTreeMap<&str, Vec<&OtherPod>> = BTreeMap::new();
    for pod in other_pods.iter().filter(|pod| !pod.has_ended) {
        pods_of_node.entry(&pod.node).or_default().push(pod);
    }
    let one_pod = Requests::from([(ResourceName::from(PODS), 1)]);
    let width = columns.len().max(1);
    for (row, nodes) in capacity.chunks_mut(width).zip(nodes_of_leaf) {
        for node in nodes {
            change_row(row, columns, &node.allocatable, i64::saturating_add);
            for pod in pods_of_node.get(node.name.as_str()).into_iter().flatten() {
                change_row(row, columns, &pod.requests, i64::saturating_sub);
                change_row(row, columns, &one_pod, i64::saturating_sub);
            }
        }
    }
    capacity
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
