//! Cubes out of labels: nodes that have the same id at a level form a partition of it.
//!
//! Ids are opaque: nothing is read from them, or from names of nodes, but whether they are equal. Which half of a
//! partition comes first is therefore a convention: the one with the smaller id.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::cube::{Cube, Host, PartitionState};
use super::tiling::Tiling;

/// A node with what its labels say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labelled {
    /// The node.
    pub host: Host,
    /// Its block.
    pub block: String,
    /// Its partition's id, by level. A level without one is of no use to it.
    pub ids: BTreeMap<u8, String>,
    /// Its partition's state, by level.
    pub states: BTreeMap<u8, PartitionState>,
}

/// Labels that contradict each other. What they concern is left out of every placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeProblem {
    /// More nodes have one id than the partition has hosts.
    TooManyNodes {
        /// The id.
        id: String,
        /// How many there are.
        nodes: usize,
        /// How many there can be.
        hosts: u32,
    },
    /// A partition falls into more than two halves.
    TooManyHalves {
        /// Its id.
        id: String,
        /// The ids of its parts.
        halves: Vec<String>,
    },
    /// The nodes of a partition are said to be in different larger ones, or blocks.
    TornApart {
        /// The id.
        id: String,
    },
    /// A node has none of the ids.
    NoId {
        /// The node.
        node: String,
    },
}

impl fmt::Display for TreeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyNodes { id, nodes, hosts } => {
                write!(f, "{nodes} nodes have the partition id {id:?}, which has {hosts} hosts")
            }
            Self::TooManyHalves { id, halves } => {
                write!(f, "the partition {id:?} has more than two halves: {}", halves.join(", "))
            }
            Self::TornApart { id } => {
                write!(
                    f,
                    "the nodes of the partition {id:?} are said to be in different larger ones"
                )
            }
            Self::NoId { node } => write!(f, "node {node:?} has no partition id"),
        }
    }
}

/// Nodes with the same ancestors, by the id of their partition at some level.
type Group<'a> = Vec<&'a Labelled>;

/// Builds cubes from nodes, in whatever order these come.
#[must_use]
pub fn trees(tiling: &Tiling, nodes: &[Labelled]) -> (Vec<Cube>, Vec<TreeProblem>) {
    let mut builder = Builder { tiling, parents: BTreeMap::new(), problems: Vec::new() };
    let mut sorted: Vec<&Labelled> = Vec::new();
    for node in nodes {
        if node.ids.keys().any(|level| *level <= tiling.top()) {
            sorted.push(node);
        } else {
            builder.problems.push(TreeProblem::NoId { node: node.host.node.clone() });
        }
    }
    sorted.sort_by(|a, b| a.host.node.cmp(&b.host.node));
    builder.learn(&sorted);
    let mut cubes = Vec::new();
    for (key, group) in builder.split(&sorted, tiling.top()) {
        let blocks: BTreeSet<&String> = group.iter().map(|node| &node.block).collect();
        let fits = builder.fits(&key, &group, tiling.top());
        if blocks.len() > 1 {
            builder.problems.push(TreeProblem::TornApart { id: key });
        } else if fits {
            cubes.extend(builder.cube(key, &group));
        }
    }
    builder.problems.sort_by_key(ToString::to_string);
    (cubes, builder.problems)
}

struct Builder<'a> {
    tiling: &'a Tiling,
    /// Of each level and id: the id of the next level up that any of its nodes has.
    parents: BTreeMap<(u8, &'a str), BTreeSet<&'a str>>,
    problems: Vec<TreeProblem>,
}

impl<'a> Builder<'a> {
    fn learn(&mut self, nodes: &[&'a Labelled]) {
        for node in nodes {
            for (level, id) in &node.ids {
                let parent = node.ids.get(&(level + 1)).map(String::as_str);
                self.parents.entry((*level, id)).or_default().extend(parent);
            }
        }
        let torn = self.parents.iter().filter(|(_, parents)| parents.len() > 1);
        let torn = torn.map(|((_, id), _)| TreeProblem::TornApart { id: (*id).to_owned() });
        self.problems.extend(torn);
    }

    /// By which id a node is found at `level`: its own; if it has none, that which nodes of the same smaller partition
    /// have; if there are none, the nearest id that it has, which is nobody else's at this level.
    fn key(&self, node: &'a Labelled, level: u8) -> String {
        let lower = node.ids.range(..=level).rev();
        for (from, id) in lower {
            let mut known = Some(id.as_str());
            for step in *from..level {
                known = known.and_then(|id| self.parents.get(&(step, id))?.first().copied());
            }
            if let Some(known) = known {
                return known.to_owned();
            }
        }
        let nearest = node.ids.range(..=level).next_back().or_else(|| node.ids.first_key_value());
        nearest.map_or_else(|| node.host.node.clone(), |(_, id)| id.clone())
    }

    fn split(&self, nodes: &[&'a Labelled], level: u8) -> BTreeMap<String, Group<'a>> {
        let mut groups: BTreeMap<String, Group<'a>> = BTreeMap::new();
        for node in nodes {
            groups.entry(self.key(node, level)).or_default().push(node);
        }
        groups
    }

    fn fits(&mut self, id: &str, group: &Group<'_>, level: u8) -> bool {
        let hosts = 1_u32 << level;
        let fits = group.len() <= hosts as usize;
        if !fits {
            let (id, nodes) = (id.to_owned(), group.len());
            self.problems.push(TreeProblem::TooManyNodes { id, nodes, hosts });
        }
        fits
    }

    fn cube(&mut self, id: String, nodes: &Group<'a>) -> Option<Cube> {
        let block = nodes.first()?.block.clone();
        let hosts = vec![None; self.tiling.hosts() as usize];
        let mut cube = Cube { id, block, hosts, ids: BTreeMap::new(), states: BTreeMap::new() };
        self.fill(&mut cube, nodes, self.tiling.top(), 0);
        Some(cube)
    }

    /// Puts `nodes` into the partition `index` of `level`.
    fn fill(&mut self, cube: &mut Cube, nodes: &Group<'a>, level: u8, index: u8) {
        let Some(part) = self.tiling.partition(level, index) else { return };
        // A partition can be asked for if all its nodes have its id; what one node lacks, nobody can use.
        let ids: BTreeSet<Option<&String>> =
            nodes.iter().map(|node| node.ids.get(&level)).collect();
        let is_torn = |id: &str| self.parents.get(&(level, id)).is_some_and(|p| p.len() > 1);
        if let (1, Some(Some(id))) = (ids.len(), ids.first())
            && !is_torn(id)
        {
            cube.ids.insert(part, (*id).clone());
        }
        let states =
            nodes.iter().map(|n| n.states.get(&level).copied().unwrap_or(PartitionState::Unknown));
        if let Some(worst) = states.max() {
            cube.states.insert(part, worst);
        }
        let Some(below) = level.checked_sub(1) else {
            if let (Some(place), Some(node)) =
                (cube.hosts.get_mut(usize::from(index)), nodes.first())
            {
                *place = Some(node.host.clone());
            }
            return;
        };
        let halves = self.split(nodes, below);
        if halves.len() > 2 {
            let id = cube.ids.get(&part).unwrap_or(&cube.id).clone();
            let halves = halves.into_keys().collect();
            self.problems.push(TreeProblem::TooManyHalves { id, halves });
            return;
        }
        for (side, (id, half)) in (0_u8..).zip(&halves) {
            if self.fits(id, half, below) {
                self.fill(cube, half, below, 2 * index + side);
            }
        }
    }
}
