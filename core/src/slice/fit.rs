//! Placing the slices of one gang on what is free.
//!
//! The largest slices are placed first, each where it breaks up the least. For parts that are halves of halves this
//! finds a place whenever there is one: whatever is placed later is no larger, so it does not matter to it which
//! partition of a level was taken, only how many are left.

use super::board::cover;
use super::cube::Window;
use super::fleet::Fleet;
use super::request::{Part, Request};
use super::score::{Choice, Score};
use super::tiling::{Partition, Piece};

/// Slices that were placed, in the order of the parts, and how well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) score: Score,
    pub(super) slices: Vec<Vec<Piece>>,
}

/// The cubes as one request sees them.
#[derive(Debug)]
pub(super) struct Look<'a> {
    pub(super) fleet: &'a Fleet,
    /// Whether degraded partitions will not do.
    is_healthy_only: bool,
    /// Whether maintenance is a reason for no, or only a reason against.
    may_meet: bool,
    /// By cube: hosts that will be away; empty if no host will be.
    away: Vec<u64>,
    /// Blocks of its group.
    near: Vec<usize>,
    is_bound: bool,
}

impl<'a> Look<'a> {
    /// With the eyes of `request`, whose group is in the blocks `near`.
    pub(super) fn of(fleet: &'a Fleet, request: &Request, now_ms: u64, near: Vec<usize>) -> Self {
        let until_ms = now_ms.saturating_add(request.runs_for_ms.unwrap_or(u64::MAX));
        let span = Window { from_ms: now_ms, until_ms };
        let away = |board: &super::board::Board| board.away(span);
        let is_any = fleet.boards.iter().any(|board| away(board) != 0);
        let away = if is_any { fleet.boards.iter().map(away).collect() } else { Vec::new() };
        Self {
            fleet,
            is_healthy_only: request.is_healthy_only,
            may_meet: request.may_meet_maintenance,
            away,
            is_bound: request.is_group_bound && !near.is_empty(),
            near,
        }
    }

    /// The same with lower standards.
    pub(super) fn lenient(&self, is_healthy_only: bool, may_meet: bool) -> Self {
        let (away, near) = (self.away.clone(), self.near.clone());
        Self { fleet: self.fleet, is_healthy_only, may_meet, away, near, is_bound: self.is_bound }
    }

    /// Hosts of a cube that will be away.
    fn away(&self, cube: usize) -> u64 {
        self.away.get(cube).copied().unwrap_or(0)
    }

    /// Hosts of a cube that are out of the question at `level`, beside those that are taken.
    pub(super) fn closed(&self, cube: usize, level: u8) -> u64 {
        let board = &self.fleet.boards[cube];
        let degraded = if self.is_healthy_only { board.degraded(level) } else { 0 };
        let away = if self.may_meet { 0 } else { self.away(cube) };
        board.refused(level) | degraded | away
    }

    /// Blocks in which it may be placed, by number.
    pub(super) fn blocks(&self) -> impl Iterator<Item = usize> {
        let may = |block: &usize| !self.is_bound || self.near.contains(block);
        (0..self.fleet.blocks.len()).filter(may)
    }

    /// The best partition of `level` in one cube.
    fn choice(&self, cube: usize, taken: u64, level: u8) -> Option<Choice> {
        let board = &self.fleet.boards[cube];
        let free = board.free_by_level(taken);
        let mut starts = free[usize::from(level)];
        if starts != 0 && (self.is_healthy_only || !self.may_meet) {
            starts = board.free(taken | self.closed(cube, level), level);
        }
        if starts == 0 {
            return None;
        }
        let free_hosts = (!(taken | board.refused(0)) & board.all()).count_ones();
        let (degraded, away) = (board.degraded(level), self.away(cube));
        let hosts = cover(starts, level);
        let (mut maintenance_hosts, mut degraded_hosts) = (0, 0);
        if hosts & (degraded | away) != 0 {
            let harm = |start: u32| {
                let hosts = cover(1 << start, level);
                ((hosts & away).count_ones(), (hosts & degraded).count_ones())
            };
            let least = bits(starts).map(harm).min()?;
            starts = bits(starts).filter(|s| harm(*s) == least).fold(0, |all, s| all | 1 << s);
            (maintenance_hosts, degraded_hosts) = least;
        }
        let mut broken = 0;
        for above in (level + 1..=board.top()).rev() {
            let outside = starts & !cover(free[usize::from(above)], above);
            if outside == 0 {
                broken |= 1 << above;
            } else {
                starts = outside;
            }
        }
        let index = u8::try_from(starts.trailing_zeros() >> level).ok()?;
        let piece = Piece { cube, partition: Partition { level, index } };
        Some(Choice { maintenance_hosts, degraded_hosts, broken, free_hosts, piece })
    }

    /// Places all of `parts` in one block, changing `taken`; `None` if they do not fit, `taken` is spoilt then.
    pub(super) fn place_in(
        &self,
        block: usize,
        parts: &[Part],
        taken: &mut [u64],
    ) -> Option<Placement> {
        let cubes = self.fleet.blocks.get(block)?.clone();
        let top = self.fleet.tiling.top();
        let is_free = |cube: &usize| self.fleet.boards[*cube].free(taken[*cube], top) != 0;
        let free_cubes = cubes.clone().filter(is_free).count();
        let mut score = Score {
            is_away: !self.near.is_empty() && !self.near.contains(&block),
            block_free_cubes: u32::try_from(free_cubes).unwrap_or(u32::MAX),
            ..Score::default()
        };
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse((parts[*at].level, parts[*at].pieces)));
        let mut places: Vec<Vec<Vec<Piece>>> = vec![Vec::new(); parts.len()];
        for at in order {
            let part = parts[at];
            let wanted = usize::try_from(u64::from(part.pieces) * u64::from(part.count)).ok()?;
            let chosen = self.pieces(cubes.clone(), part.level, wanted, taken)?;
            chosen.iter().for_each(|choice| score.add(choice, top));
            let pieces: Vec<Piece> = chosen.iter().map(|choice| choice.piece).collect();
            let each = usize::try_from(part.pieces).ok()?.max(1);
            places[at] = pieces.chunks(each).map(<[Piece]>::to_vec).collect();
        }
        let slices: Vec<Vec<Piece>> = places.into_iter().flatten().collect();
        score.pieces = slices.concat();
        Some(Placement { score, slices })
    }

    /// The best `wanted` partitions of `level`, one after the other.
    fn pieces(
        &self,
        cubes: std::ops::Range<usize>,
        level: u8,
        wanted: usize,
        taken: &mut [u64],
    ) -> Option<Vec<Choice>> {
        let look = |cube: usize, taken: &[u64]| self.choice(cube, taken[cube], level);
        if wanted == 1 {
            let choice = cubes.filter_map(|cube| look(cube, taken)).min()?;
            taken[choice.piece.cube] |= choice.piece.partition.hosts();
            return Some(vec![choice]);
        }
        let first = cubes.start;
        let mut best: Vec<Option<Choice>> = cubes.map(|cube| look(cube, taken)).collect();
        if level == self.fleet.tiling.top() {
            let mut whole: Vec<Choice> = best.into_iter().flatten().collect();
            whole.sort_unstable();
            whole.truncate(wanted);
            whole.iter().for_each(|c| taken[c.piece.cube] |= c.piece.partition.hosts());
            return (whole.len() == wanted).then_some(whole);
        }
        let mut chosen = Vec::new();
        while chosen.len() < wanted {
            let choice = best.iter().flatten().min().copied()?;
            let cube = choice.piece.cube;
            taken[cube] |= choice.piece.partition.hosts();
            best[cube - first] = look(cube, taken);
            chosen.push(choice);
        }
        Some(chosen)
    }

    /// The best place for all of `parts` in any one block that is allowed.
    pub(super) fn place(&self, parts: &[Part], taken: &[u64]) -> Option<Placement> {
        let mut scratch = taken.to_vec();
        let mut best: Option<Placement> = None;
        for block in self.blocks() {
            let found = self.place_in(block, parts, &mut scratch);
            let cubes = self.fleet.blocks[block].clone();
            scratch[cubes.clone()].copy_from_slice(&taken[cubes]);
            if let Some(found) = found
                && best.as_ref().is_none_or(|best| found.score < best.score)
            {
                best = Some(found);
            }
        }
        best
    }
}

/// The places of the ones in `word`.
pub(super) fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let at = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (at < u64::BITS).then_some(at)
    })
}
