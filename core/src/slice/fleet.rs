//! All cubes of one generation and what runs on them, indexed for placing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use super::board::Board;
use super::cube::Cube;
use super::request::{Part, Running};
use super::tiling::{Piece, Tiling};

/// Cubes and running gangs. The order in which they were given decides nothing.
#[derive(Debug, Clone)]
pub struct Fleet {
    pub(super) tiling: Tiling,
    /// By block and id.
    cubes: Vec<Cube>,
    pub(super) boards: Vec<Board>,
    pub(super) blocks: Vec<Range<usize>>,
    by_id: BTreeMap<String, Piece>,
    /// By name.
    pub(super) running: Vec<Running>,
    /// The slices of each of them that could be found.
    pub(super) held: Vec<Vec<Vec<Piece>>>,
    /// By cube: whose hosts.
    pub(super) owners: Vec<Vec<(u64, usize)>>,
    /// By cube: hosts of everybody.
    pub(super) all_taken: Vec<u64>,
    /// Blocks of each group.
    pub(super) groups: BTreeMap<String, BTreeSet<usize>>,
    /// Whether anybody is leaving.
    pub(super) has_leaving: bool,
    problems: Vec<FleetProblem>,
}

/// Something in the reports that cannot be. The fleet can be used: what is doubtful counts as taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FleetProblem {
    /// Two partitions have one id; only the first has it.
    IdTwice {
        /// The id.
        id: String,
    },
    /// A slice has a partition that no cube has: its nodes were made again, or have not been reported.
    NoSuchPartition {
        /// The gang.
        workload: String,
        /// The id.
        id: String,
    },
    /// Two slices have a host in common.
    Overlap {
        /// The gangs.
        workloads: [String; 2],
        /// The cube.
        cube: String,
    },
}

impl fmt::Display for FleetProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IdTwice { id } => write!(f, "the partition id {id:?} is there twice"),
            Self::NoSuchPartition { workload, id } => {
                write!(f, "{workload:?} has a slice on the partition {id:?}, which no cube has")
            }
            Self::Overlap { workloads: [one, other], cube } => {
                write!(f, "slices of {one:?} and {other:?} have hosts of cube {cube:?} in common")
            }
        }
    }
}

impl Fleet {
    /// A fleet of these cubes and gangs.
    #[must_use]
    pub fn new(tiling: Tiling, mut cubes: Vec<Cube>, mut running: Vec<Running>) -> Self {
        cubes.sort_by(|a, b| (&a.block, &a.id).cmp(&(&b.block, &b.id)));
        running.sort_by(|a, b| a.name.cmp(&b.name));
        let mut fleet = Self {
            boards: Vec::new(),
            blocks: Vec::new(),
            by_id: BTreeMap::new(),
            held: Vec::new(),
            owners: vec![Vec::new(); cubes.len()],
            all_taken: Vec::new(),
            groups: BTreeMap::new(),
            has_leaving: running.iter().any(|gang| gang.is_leaving),
            problems: Vec::new(),
            tiling,
            cubes,
            running,
        };
        fleet.index_cubes();
        fleet.index_running();
        fleet.all_taken = fleet.taken(|_| true);
        fleet
    }

    fn index_cubes(&mut self) {
        let mut first = 0;
        for (number, cube) in self.cubes.iter().enumerate() {
            if self.cubes[first].block != cube.block {
                self.blocks.push(first..number);
                first = number;
            }
            self.boards.push(Board::new(&self.tiling, cube, self.blocks.len()));
            for (part, id) in &cube.ids {
                let piece = Piece { cube: number, partition: *part };
                if self.by_id.contains_key(id) {
                    self.problems.push(FleetProblem::IdTwice { id: id.clone() });
                } else {
                    self.by_id.insert(id.clone(), piece);
                }
            }
        }
        if !self.cubes.is_empty() {
            self.blocks.push(first..self.cubes.len());
        }
    }

    fn index_running(&mut self) {
        for (index, running) in self.running.iter().enumerate() {
            let mut slices = Vec::new();
            for ids in &running.slices {
                let mut pieces = Vec::new();
                for id in ids {
                    let Some(piece) = self.by_id.get(id).copied() else {
                        let (workload, id) = (running.name.clone(), id.clone());
                        self.problems.push(FleetProblem::NoSuchPartition { workload, id });
                        continue;
                    };
                    let hosts = piece.partition.hosts();
                    let owners = &mut self.owners[piece.cube];
                    if let Some((_, other)) = owners.iter().find(|(word, _)| word & hosts != 0) {
                        let workloads = [self.running[*other].name.clone(), running.name.clone()];
                        let cube = self.cubes[piece.cube].id.clone();
                        self.problems.push(FleetProblem::Overlap { workloads, cube });
                    }
                    owners.push((hosts, index));
                    pieces.push(piece);
                }
                slices.push(pieces);
            }
            if let Some(group) = &running.group {
                let blocks =
                    slices.iter().flatten().map(|piece: &Piece| self.boards[piece.cube].block);
                self.groups.entry(group.clone()).or_default().extend(blocks);
            }
            self.held.push(slices);
        }
    }

    /// How its cubes are halved.
    #[must_use]
    pub fn tiling(&self) -> &Tiling {
        &self.tiling
    }

    /// Its cubes, by block and id: [`Piece::cube`] is the place in here.
    #[must_use]
    pub fn cubes(&self) -> &[Cube] {
        &self.cubes
    }

    /// Its gangs, by name.
    #[must_use]
    pub fn running(&self) -> &[Running] {
        &self.running
    }

    /// What cannot be in the reports that it was made of.
    #[must_use]
    pub fn problems(&self) -> &[FleetProblem] {
        &self.problems
    }

    /// The partition with this id.
    #[must_use]
    pub fn piece(&self, id: &str) -> Option<Piece> {
        self.by_id.get(id).copied()
    }

    /// The id of a partition; empty if it has none.
    #[must_use]
    pub fn id(&self, piece: Piece) -> &str {
        let cube = self.cubes.get(piece.cube);
        cube.and_then(|cube| cube.ids.get(&piece.partition)).map_or("", String::as_str)
    }

    /// The nodes of a partition, in the order of their numbers.
    pub fn nodes(&self, piece: Piece) -> impl Iterator<Item = &str> {
        let hosts = self.cubes.get(piece.cube).map_or(&[][..], |cube| &cube.hosts);
        let numbered = (0..u64::BITS).zip(hosts);
        numbered.filter_map(move |(number, host)| {
            let is_part = piece.partition.hosts() >> number & 1 == 1;
            host.as_ref().filter(|_| is_part).map(|host| host.node.as_str())
        })
    }

    /// By cube: hosts taken by those for whom `stays` is true.
    pub(super) fn taken(&self, stays: impl Fn(usize) -> bool) -> Vec<u64> {
        let word = |owners: &Vec<(u64, usize)>| {
            owners.iter().filter(|(_, who)| stays(*who)).fold(0, |all, (word, _)| all | word)
        };
        self.owners.iter().map(word).collect()
    }

    /// The slices of a gang as parts of a request.
    pub(super) fn parts_of(&self, running: usize) -> Vec<Part> {
        let slices = self.held[running].iter().filter(|pieces| !pieces.is_empty());
        let part = |pieces: &Vec<Piece>| Part {
            level: pieces[0].partition.level(),
            pieces: u32::try_from(pieces.len()).unwrap_or(u32::MAX),
            count: 1,
        };
        slices.map(part).collect()
    }
}
