//! A cube as words: which hosts are refused or degraded at which level, and what is free.

use crate::protocol::Health;

use super::cube::{Cube, PartitionState, Window};
use super::tiling::{LEVELS_MAX, Tiling, ones, starts};

/// What is known of a cube, a bit per host. What is occupied is kept apart: it changes while one looks for a place.
#[derive(Debug, Clone)]
pub(super) struct Board {
    /// Number of its block.
    pub(super) block: usize,
    top: u8,
    /// By level: hosts of partitions on which nothing may be placed.
    refused: [u64; LEVELS_MAX],
    /// By level: hosts of partitions that are avoided.
    degraded: [u64; LEVELS_MAX],
    windows: Vec<(u64, Window)>,
    /// Whether some levels refuse other hosts than others.
    is_uneven: bool,
}

impl Board {
    pub(super) fn new(tiling: &Tiling, cube: &Cube, block: usize) -> Self {
        let mut board = Self {
            block,
            top: tiling.top(),
            refused: [0; LEVELS_MAX],
            degraded: [0; LEVELS_MAX],
            windows: Vec::new(),
            is_uneven: false,
        };
        let (mut refused, mut degraded) = (0, 0);
        for number in 0..tiling.hosts() {
            let bit = 1_u64 << number;
            match cube.hosts.get(number as usize).and_then(Option::as_ref) {
                Some(host) if host.is_usable() => {
                    degraded |= if host.health == Health::Degraded { bit } else { 0 };
                    board.windows.extend(host.maintenance.map(|window| (bit, window)));
                }
                Some(_) | None => refused |= bit,
            }
        }
        board.refused = [refused; LEVELS_MAX];
        board.degraded = [degraded; LEVELS_MAX];
        for part in tiling.partitions() {
            let level = usize::from(part.level());
            let state = cube.states.get(&part).copied().unwrap_or(PartitionState::Healthy);
            if !state.is_usable() || !cube.ids.contains_key(&part) {
                board.refused[level] |= part.hosts();
            }
            if state == PartitionState::Degraded {
                board.degraded[level] |= part.hosts();
            }
        }
        board.is_uneven = board.refused.iter().any(|word| *word != refused);
        board
    }

    /// A bit for each of its hosts.
    pub(super) fn all(&self) -> u64 {
        ones(self.top)
    }

    /// Level of the whole.
    pub(super) fn top(&self) -> u8 {
        self.top
    }

    /// Hosts that are refused at `level`.
    pub(super) fn refused(&self, level: u8) -> u64 {
        self.refused[usize::from(level)]
    }

    /// Hosts that are avoided at `level`.
    pub(super) fn degraded(&self, level: u8) -> u64 {
        self.degraded[usize::from(level)]
    }

    /// Hosts that are away for maintenance at some moment of the span.
    pub(super) fn away(&self, span: Window) -> u64 {
        let meets = |w: &Window| w.from_ms < span.until_ms && span.from_ms < w.until_ms;
        self.windows.iter().filter(|(_, window)| meets(window)).fold(0, |all, (bit, _)| all | bit)
    }

    /// The first host of each partition of `level` that has none of the hosts in `taken`.
    pub(super) fn free(&self, taken: u64, level: u8) -> u64 {
        let mut free = !(taken | self.refused(level)) & self.all();
        for step in 0..level {
            free &= free >> (1_u32 << step);
        }
        free & starts(level)
    }
}

impl Board {
    /// [`Board::free`] of every level.
    pub(super) fn free_by_level(&self, taken: u64) -> [u64; LEVELS_MAX] {
        let mut free = [0; LEVELS_MAX];
        if self.is_uneven {
            for level in 0..=self.top {
                free[usize::from(level)] = self.free(taken, level);
            }
            return free;
        }
        free[0] = !(taken | self.refused[0]) & self.all();
        for level in 0..self.top {
            let halves = free[usize::from(level)];
            let both = halves & (halves >> (1_u32 << level));
            free[usize::from(level) + 1] = both & starts(level + 1);
        }
        free
    }
}

/// All hosts of the partitions of `level` that begin at `starts`.
pub(super) fn cover(starts: u64, level: u8) -> u64 {
    starts.wrapping_mul(ones(level))
}
