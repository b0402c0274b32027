//! Which queues concern each other: what one frees may help the others.

use std::collections::BTreeMap;

use crate::kueue::name::{FlavorName, QueueName};
use crate::kueue::quota::NodeId;
use crate::kueue::snapshot::Snapshot;

/// Queues that share quota (a tree of cohorts) or places (a flavor with nodes) are one group.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    group_of: BTreeMap<QueueName, usize>,
    members: Vec<Vec<QueueName>>,
}

impl Groups {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let names: Vec<&QueueName> = snapshot.queues().map(|queue| &queue.spec.name).collect();
        let mut parent: Vec<usize> = (0..names.len()).collect();
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
        let mut members: BTreeMap<usize, Vec<QueueName>> = BTreeMap::new();
        for (index, name) in names.iter().enumerate() {
            members.entry(find(&mut parent, index)).or_default().push((*name).clone());
        }
        let members: Vec<Vec<QueueName>> = members.into_values().collect();
        let numbered = members.iter().enumerate();
        let group_of =
            numbered.flat_map(|(group, names)| names.iter().map(move |n| (n.clone(), group)));
        Self { group_of: group_of.collect(), members }
    }

    /// The queues of the group of `queue`, itself among them.
    pub(super) fn of(&self, queue: &QueueName) -> &[QueueName] {
        self.group_of.get(queue).map_or(&[], |group| &self.members[*group])
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
