//! Which queues concern each other: what one frees may help the others.

use std::collections::{BTreeMap, BTreeSet};

use crate::kueue::name::{FlavorName, QueueName};
use crate::kueue::quota::NodeId;
use crate::kueue::snapshot::Snapshot;

/// Queues that share quota (a tree of cohorts) or places (a flavor with nodes) are one group.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    memberships: BTreeMap<QueueName, Membership>,
}

/// What a queue shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Membership {
    /// The root of its tree of cohorts: with whom it shares quota.
    pub(super) root: NodeId,
    /// Number of its group.
    pub(super) group: usize,
}

/// For whom something has changed since queues were woken last.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// Trees of cohorts in which quota became free, or somebody may be taken.
    roots: BTreeSet<NodeId>,
    /// Groups in which places became free with it.
    groups: BTreeSet<usize>,
    /// Nodes have changed, which concerns everybody.
    are_nodes_new: bool,
}

impl Changes {
    /// Something of a queue became free, or may be taken.
    pub(super) fn note(&mut self, of: Membership) {
        self.roots.insert(of.root);
        self.groups.insert(of.group);
    }

    pub(super) fn note_nodes(&mut self) {
        self.are_nodes_new = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.are_nodes_new && self.roots.is_empty() && self.groups.is_empty()
    }

    /// Whether a queue has other quota to hope for.
    pub(super) fn concern_quota_of(&self, queue: Membership) -> bool {
        self.roots.contains(&queue.root)
    }

    /// Whether a queue has other places to hope for.
    pub(super) fn concern_places_of(&self, queue: Membership) -> bool {
        self.are_nodes_new || self.groups.contains(&queue.group)
    }
}

impl Groups {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let mut parent: Vec<usize> = (0..snapshot.queues().count()).collect();
        let mut by_root: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut by_flavor: BTreeMap<&FlavorName, usize> = BTreeMap::new();
        for (index, queue) in snapshot.queues().enumerate() {
            let root = snapshot.tree().root(queue.node);
            union(&mut parent, index, *by_root.entry(root).or_insert(index));
            let offered = queue.spec.groups.iter().flat_map(|group| &group.flavors);
            for flavor in offered.filter(|offered| snapshot.topology(&offered.flavor).is_some()) {
                union(&mut parent, index, *by_flavor.entry(&flavor.flavor).or_insert(index));
            }
        }
        let memberships = snapshot.queues().enumerate().map(|(index, queue)| {
            let root = snapshot.tree().root(queue.node);
            (queue.spec.name.clone(), Membership { root, group: find(&mut parent, index) })
        });
        Self { memberships: memberships.collect() }
    }

    /// What `queue` shares.
    pub(super) fn of(&self, queue: &QueueName) -> Option<Membership> {
        self.memberships.get(queue).copied()
    }
}

fn find(parent: &mut [usize], mut index: usize) -> usize {
    while parent[index] != index {
        parent[index] = parent[parent[index]];
        index = parent[index];
    }
    index
}

fn union(parent: &mut [usize], a: usize, b: usize) {
    let (a, b) = (find(parent, a), find(parent, b));
    parent[a.max(b)] = a.min(b);
}
