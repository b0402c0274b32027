//! The tree of topology domains as integers. It knows names and shape; capacity is in `snapshot`.
//!
//! Domains are numbered level by level, topmost level first, and within a level by their full path. So the number
//! decides ties as the path would, children are a range, and so is every level.

use std::collections::BTreeMap;
use std::ops::Range;

use super::model::{FlavorNodes, HOSTNAME, Node};

/// Number of a domain in its [`Tree`].
pub(super) type DomainId = u32;

#[derive(Debug)]
struct Domain {
    name: String,
    parent: DomainId,
    children: Range<DomainId>,
}

/// The domains of one flavor's nodes.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) levels: Vec<String>,
    /// Whether each leaf is one node.
    pub(super) leaves_are_nodes: bool,
    domains: Vec<Domain>,
    /// Where each level starts; one more entry than levels.
    level_starts: Vec<DomainId>,
    /// Leaves ordered by host name; empty unless `leaves_are_nodes`.
    by_hostname: Vec<DomainId>,
}

/// A tree and which of the nodes it was built from lie under which leaf, leaf by leaf.
pub(super) struct Planted<'a> {
    pub(super) tree: Tree,
    /// The nodes of each leaf, by name, in the order of the leaves.
    pub(super) nodes_of_leaf: Vec<Vec<&'a Node>>,
}

impl Tree {
    /// Builds the tree of those `nodes` that belong to `flavor`. Nodes that are not usable are planted too, so that
    /// they can become usable without a new tree.
    pub(super) fn plant<'a>(
        flavor: &FlavorNodes,
        nodes: impl Iterator<Item = &'a Node>,
    ) -> Planted<'a> {
        let leaves_are_nodes = flavor.levels.last().is_some_and(|level| level == HOSTNAME);
        let leaves = leaves_by_path(flavor, nodes, leaves_are_nodes);
        let mut tree =
            Self::of_paths(&flavor.levels, leaves.iter().map(|(path, _)| path.as_slice()));
        tree.leaves_are_nodes = leaves_are_nodes;
        if leaves_are_nodes {
            tree.by_hostname = tree.leaves().collect();
            let domains = &tree.domains;
            tree.by_hostname.sort_by(|a, b| domains[ix(*a)].name.cmp(&domains[ix(*b)].name));
        }
        Planted { tree, nodes_of_leaf: leaves.into_iter().map(|(_, nodes)| nodes).collect() }
    }

    /// `paths` are in order and unique, with one name per level.
    fn of_paths<'a>(levels: &[String], paths: impl Iterator<Item = &'a [&'a str]>) -> Self {
        let mut rows: Vec<Vec<Domain>> = levels.iter().map(|_| Vec::new()).collect();
        let mut previous: &[&str] = &[];
        for path in paths {
            let shared = previous.iter().zip(path).take_while(|(a, b)| a == b).count();
            for level in shared..levels.len() {
                let parent = if level == 0 { 0 } else { id(rows[level - 1].len() - 1) };
                let first_child = rows.get(level + 1).map_or(0, |row| id(row.len()));
                rows[level].push(Domain {
                    name: path[level].to_owned(),
                    parent,
                    children: first_child..first_child,
                });
                if level > 0 {
                    rows[level - 1][ix(parent)].children.end += 1;
                }
            }
            previous = path;
        }
        Self::flatten(levels, rows)
    }

    /// Turns numbers within a level into numbers within the tree.
    fn flatten(levels: &[String], rows: Vec<Vec<Domain>>) -> Self {
        let mut level_starts = vec![0];
        for row in &rows {
            level_starts.push(level_starts[level_starts.len() - 1] + id(row.len()));
        }
        let mut domains = Vec::with_capacity(ix(level_starts[rows.len()]));
        for (level, row) in rows.into_iter().enumerate() {
            let above = level.checked_sub(1).map_or(0, |above| level_starts[above]);
            let below = level_starts[level + 1];
            domains.extend(row.into_iter().map(|domain| Domain {
                name: domain.name,
                parent: domain.parent + above,
                children: domain.children.start + below..domain.children.end + below,
            }));
        }
        Self { levels: levels.to_vec(), domains, level_starts, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.domains.len()
    }

    /// The lowest level; `None` if the topology has no level at all.
    pub(super) fn lowest_level(&self) -> Option<usize> {
        self.levels.len().checked_sub(1)
    }

    pub(super) fn level_of(&self, label: &str) -> Option<usize> {
        self.levels.iter().position(|level| level == label)
    }

    /// All domains of a level, by path.
    pub(super) fn level(&self, level: usize) -> Range<DomainId> {
        self.level_starts[level]..self.level_starts[level + 1]
    }

    /// All leaves, by path.
    pub(super) fn leaves(&self) -> Range<DomainId> {
        self.lowest_level().map_or(0..0, |level| self.level(level))
    }

    /// Number of the first leaf: leaf `i` of the capacity table is domain `first_leaf() + i`.
    pub(super) fn first_leaf(&self) -> DomainId {
        self.leaves().start
    }

    /// The leaf with this row in the capacity table.
    pub(super) fn leaf(&self, row: usize) -> DomainId {
        self.first_leaf() + id(row)
    }

    pub(super) fn children(&self, domain: DomainId) -> Range<DomainId> {
        self.domains[ix(domain)].children.clone()
    }

    /// The domain `steps` levels above `domain`; there must be that many.
    pub(super) fn ancestor(&self, domain: DomainId, steps: usize) -> DomainId {
        (0..steps).fold(domain, |domain, _| self.domains[ix(domain)].parent)
    }

    /// Per level from that of `domain` downward, the domains at or below it.
    pub(super) fn subtree(&self, domain: DomainId) -> Vec<Range<DomainId>> {
        let mut ranges = Vec::new();
        let mut row = domain..domain + 1;
        while !row.is_empty() {
            let below = self.children(row.start).start..self.children(row.end - 1).end;
            ranges.push(row);
            row = below;
        }
        ranges
    }

    /// The leaf that the values of a placement name: the host name alone where leaves are nodes, else the full
    /// path. Its nodes may not be usable.
    pub(super) fn find_planted(&self, values: &[String]) -> Option<DomainId> {
        if self.leaves_are_nodes {
            let [hostname] = values else { return None };
            let name = |domain: &DomainId| self.domains[ix(*domain)].name.as_str();
            let found = self.by_hostname.binary_search_by(|leaf| name(leaf).cmp(hostname));
            return found.ok().map(|position| self.by_hostname[position]);
        }
        if values.len() != self.levels.len() {
            return None;
        }
        let (first, rest) = values.split_first()?;
        let root = self.find_named(self.level(0), first)?;
        rest.iter().try_fold(root, |domain, name| self.find_named(self.children(domain), name))
    }

    fn find_named(&self, siblings: Range<DomainId>, name: &str) -> Option<DomainId> {
        let first = siblings.start;
        let found = self.domains[ix(siblings.start)..ix(siblings.end)]
            .binary_search_by(|domain| domain.name.as_str().cmp(name));
        found.ok().map(|position| first + id(position))
    }

    /// The levels that a placement on leaves names.
    pub(super) fn placed_levels(&self) -> &[String] {
        let skipped = if self.leaves_are_nodes { self.levels.len() - 1 } else { 0 };
        &self.levels[skipped..]
    }

    /// The values by which a placement names `leaf`.
    pub(super) fn placed_values(&self, leaf: DomainId) -> Vec<String> {
        let named = self.placed_levels().len();
        let mut values = Vec::with_capacity(named);
        let mut domain = leaf;
        for _ in 0..named {
            values.push(self.domains[ix(domain)].name.clone());
            domain = self.domains[ix(domain)].parent;
        }
        values.reverse();
        values
    }
}

/// The paths of the leaves, in order, and the nodes of the flavor under each, by name. Two nodes with one host
/// name are one leaf, under the path of the one whose name comes first.
fn leaves_by_path<'a>(
    flavor: &FlavorNodes,
    nodes: impl Iterator<Item = &'a Node>,
    leaves_are_nodes: bool,
) -> Vec<(Vec<&'a str>, Vec<&'a Node>)> {
    let mut named: Vec<&Node> = nodes.collect();
    named.sort_by_key(|node| (&node.name, !node.is_usable()));
    named.dedup_by_key(|node| &node.name);
    let mut located: Vec<(Vec<&str>, &Node)> =
        named.into_iter().filter_map(|node| Some((path_of(flavor, node)?, node))).collect();
    if leaves_are_nodes && shares_hostnames(&located) {
        drop_shadowed(&mut located);
        unify_hostnames(&mut located);
    }
    located.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut leaves: Vec<(Vec<&str>, Vec<&Node>)> = Vec::with_capacity(located.len());
    for (path, node) in located {
        match leaves.last_mut() {
            Some((last, nodes)) if *last == path => nodes.push(node),
            Some(_) | None => leaves.push((path, vec![node])),
        }
    }
    leaves
}

/// Whether two nodes have one host name, which is rare.
fn shares_hostnames(located: &[(Vec<&str>, &Node)]) -> bool {
    let mut hostnames: Vec<&str> =
        located.iter().filter_map(|(path, _)| path.last().copied()).collect();
    hostnames.sort_unstable();
    !hostnames.is_sorted_by(|a, b| a < b)
}

/// Of nodes with one host name, keeps those that are usable; the first, if none is.
fn drop_shadowed(located: &mut Vec<(Vec<&str>, &Node)>) {
    let mut kept: BTreeMap<&str, bool> = BTreeMap::new();
    for (path, node) in located.iter() {
        let Some(hostname) = path.last() else { continue };
        *kept.entry(hostname).or_insert(false) |= node.is_usable();
    }
    located.retain(|(path, node)| {
        let Some(is_any_usable) = path.last().and_then(|hostname| kept.get_mut(hostname)) else {
            return false;
        };
        // The first of several that cannot be used stands for them.
        let is_kept = node.is_usable() || !*is_any_usable;
        *is_any_usable = true;
        is_kept
    });
}

/// Gives nodes with one host name the path of the first of them.
fn unify_hostnames(located: &mut [(Vec<&str>, &Node)]) {
    let mut first_by_hostname: BTreeMap<&str, usize> = BTreeMap::new();
    for position in 0..located.len() {
        let Some(hostname) = located[position].0.last() else { continue };
        let first = *first_by_hostname.entry(hostname).or_insert(position);
        if first != position {
            located[position].0 = located[first].0.clone();
        }
    }
}

/// The node's value at every level; `None` if it lacks one or is not of this flavor.
pub(super) fn path_of<'a>(flavor: &FlavorNodes, node: &'a Node) -> Option<Vec<&'a str>> {
    // As with Kueue, a label that is required to be empty is met by a node that lacks it.
    let label = |key: &String| node.labels.get(key).map_or("", String::as_str);
    if flavor.levels.is_empty() || flavor.node_labels.iter().any(|(key, value)| label(key) != value)
    {
        return None;
    }
    flavor.levels.iter().map(|level| node.labels.get(level).map(String::as_str)).collect()
}

/// A domain's number as an index.
pub(super) fn ix(domain: DomainId) -> usize {
    domain as usize
}

/// An index as a domain's number. A cluster has far fewer than 2^32 nodes.
fn id(index: usize) -> DomainId {
    DomainId::try_from(index).expect("a topology has fewer than 2^32 domains")
}
