//! How good a place is. Compared top to bottom, smaller is better; ids come last and only decide between equals.

use super::tiling::{LEVELS_MAX, Piece};

/// How good the places of a gang are together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Score {
    /// Whether it lies in another block than its group.
    pub is_away: bool,
    /// Hosts that maintenance will take away while it runs: certain to interrupt it, so worse than slow.
    pub maintenance_hosts: u32,
    /// Hosts of degraded partitions.
    pub degraded_hosts: u32,
    /// Free partitions that are broken up, by level: whole cubes first, then halves, down to pairs.
    pub broken: [u32; LEVELS_MAX],
    /// Whole free cubes of the block: the block with the most is kept for the largest slices.
    pub block_free_cubes: u32,
    /// Free hosts of the cubes that were chosen: the fuller a cube the better, so that others become empty.
    pub free_hosts: u32,
    /// Where it is.
    pub pieces: Vec<Piece>,
}

/// How good a partition of one cube is, among those of its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Choice {
    pub(super) maintenance_hosts: u32,
    pub(super) degraded_hosts: u32,
    /// A bit for each level of which a free partition is broken up: as a number, larger levels weigh more.
    pub(super) broken: u32,
    pub(super) free_hosts: u32,
    pub(super) piece: Piece,
}

impl Score {
    /// Takes a further piece into account.
    pub(super) fn add(&mut self, choice: &Choice, top: u8) {
        self.maintenance_hosts += choice.maintenance_hosts;
        self.degraded_hosts += choice.degraded_hosts;
        self.free_hosts += choice.free_hosts;
        for level in 0..=top {
            self.broken[usize::from(top - level)] += choice.broken >> level & 1;
        }
    }

    /// The largest level of which a free partition is broken up.
    pub(super) fn largest_broken(&self, top: u8) -> Option<u8> {
        (0..=top).rev().find(|level| self.broken[usize::from(top - level)] > 0)
    }
}
