//! Which gangs have to go from where they are so that something fits: the cheapest set of them.
//!
//! A set that makes room holds, for some partition that is wanted, everybody who is on it. So sets grow by the owners
//! of a whole partition at a time, and the cheapest one is looked at first: the first that makes room is the
//! cheapest of all, because sets only get dearer as they grow.
//!
//! **The bound.** The work is bounded by [`WORK_MAX`], and at most [`FRONTIER_MAX`] sets are kept. One gang of one slice
//! never comes near it: the first set that is tried makes room. Gangs of many slices on a large fleet may. Then everybody
//! in a block is taken and put back, the dearest first, as long as it still fits: that finds a set whenever there is one,
//! and nobody in it is superfluous, but another one may be cheaper. [`Found::is_cheapest`] says which it was.

use std::collections::BTreeSet;

use super::fit::bits;
use super::fleet::Fleet;
use super::score::Score;
use super::tiling::{LEVELS_MAX, Partition, Piece};

/// Most work: a unit is a look at a level of a cube, or at a member of a set. Some ten milliseconds. Twice as much finds
/// the cheapest set of gangs that are a slice or two larger, for twice the time.
pub(super) const WORK_MAX: usize = 400_000;

/// Most sets that wait to be tried; the dearest are forgotten. Some megabytes.
const FRONTIER_MAX: usize = 20_000;

/// Gangs, by their place in the fleet.
pub(super) type Set = BTreeSet<usize>;

/// Where everything goes once a set is out of the way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Plan {
    pub(super) score: Score,
    pub(super) slices: Vec<Vec<Piece>>,
    /// New places of those that moved, by their place in the fleet.
    pub(super) moved: Vec<(usize, Vec<Vec<Piece>>)>,
}

/// A set that makes room.
#[derive(Debug)]
pub(super) struct Found<K> {
    pub(super) set: Set,
    pub(super) key: K,
    pub(super) plan: Plan,
    /// Whether no set is cheaper.
    pub(super) is_cheapest: bool,
}

/// What is searched for.
pub(super) struct Search<'a, K> {
    pub(super) fleet: &'a Fleet,
    /// Who may be in a set.
    pub(super) may_go: &'a dyn Fn(usize) -> bool,
    /// Levels of the partitions that are wanted if these are out of the way.
    pub(super) levels: &'a dyn Fn(&Set) -> BTreeSet<u8>,
    /// What a set costs, which grows with the set; `None` if it is over the budget, as is every larger one.
    pub(super) key: &'a dyn Fn(&Set) -> Option<K>,
    /// Whether all fits once these are out of the way, and where.
    pub(super) plan: &'a dyn Fn(&Set) -> Option<Plan>,
}

impl<K: Ord + Clone> Search<'_, K> {
    /// The cheapest set that makes room; `None` if none does.
    pub(super) fn run(&self, work_max: usize) -> Option<Found<K>> {
        let mut frontier: BTreeSet<(K, Vec<usize>)> = BTreeSet::new();
        let mut known: BTreeSet<Vec<usize>> = BTreeSet::new();
        let mut best: Option<Found<K>> = None;
        let mut is_complete = true;
        frontier.extend((self.key)(&Set::new()).map(|key| (key, Vec::new())));
        let each = self.fleet.boards.len() * LEVELS_MAX;
        let mut work = 0;
        while work < work_max {
            work += each;
            let Some((key, members)) = frontier.pop_first() else {
                return best.or_else(|| if is_complete { None } else { self.whole_blocks() });
            };
            if best.as_ref().is_some_and(|best| best.key < key) {
                return best;
            }
            let set: Set = members.into_iter().collect();
            if let Some(plan) = (self.plan)(&set) {
                if best.as_ref().is_none_or(|best| plan.score < best.plan.score) {
                    best = Some(Found { set, key, plan, is_cheapest: is_complete });
                }
                continue;
            }
            for larger in self.larger(&set) {
                work += 1 + larger.len();
                let members: Vec<usize> = larger.iter().copied().collect();
                if known.contains(&members) {
                    continue;
                }
                if let Some(key) = (self.key)(&larger) {
                    known.insert(members.clone());
                    frontier.insert((key, members));
                }
            }
            while frontier.len() > FRONTIER_MAX {
                frontier.pop_last();
                is_complete = false;
            }
        }
        best.or_else(|| self.whole_blocks())
    }

    /// The set with the owners of one more wanted partition, for each such partition.
    fn larger(&self, set: &Set) -> Vec<Set> {
        let mut found = BTreeSet::new();
        let levels = (self.levels)(set);
        for (cube, owners) in self.fleet.owners.iter().enumerate() {
            let board = &self.fleet.boards[cube];
            for level in levels.iter().filter(|level| **level <= board.top()) {
                for start in bits(board.free(0, *level)) {
                    let index = u8::try_from(start >> level).unwrap_or(u8::MAX);
                    let hosts = Partition { level: *level, index }.hosts();
                    let owners = owners.iter().filter(|(word, _)| word & hosts != 0);
                    let owners: Set = owners.map(|(_, who)| *who).collect();
                    if !owners.is_subset(set)
                        && owners.iter().all(|who| set.contains(who) || (self.may_go)(*who))
                    {
                        found.insert(set.union(&owners).copied().collect::<Set>());
                    }
                }
            }
        }
        found.into_iter().collect()
    }

    /// Everybody in a block, without those who need not go; the cheapest of all blocks.
    fn whole_blocks(&self) -> Option<Found<K>> {
        let mut best: Option<Found<K>> = None;
        for block in &self.fleet.blocks {
            let owners = self.fleet.owners[block.clone()].iter().flatten();
            let mut set: Set =
                owners.map(|(_, who)| *who).filter(|who| (self.may_go)(*who)).collect();
            let Some(mut plan) = (self.plan)(&set) else { continue };
            let mut dearest: Vec<usize> = set.iter().copied().collect();
            dearest.sort_by_key(|who| std::cmp::Reverse((self.key)(&Set::from([*who]))));
            // Many at a time while that works, one at a time where it does not.
            let (mut at, mut many) = (0, 1);
            while at < dearest.len() {
                let back = &dearest[at..dearest.len().min(at + many)];
                let fewer: Set = set.iter().copied().filter(|who| !back.contains(who)).collect();
                match (self.plan)(&fewer) {
                    Some(without) => {
                        (set, plan) = (fewer, without);
                        at += back.len();
                        many *= 2;
                    }
                    None if many == 1 => at += 1,
                    None => many = 1,
                }
            }
            let Some(key) = (self.key)(&set) else { continue };
            let is_better = |best: &Found<K>| (&key, &plan) < (&best.key, &best.plan);
            if best.as_ref().is_none_or(is_better) {
                best = Some(Found { set, key, plan, is_cheapest: false });
            }
        }
        best
    }
}

/// The levels of all parts.
pub(super) fn levels_of<'a>(parts: impl Iterator<Item = &'a super::request::Part>) -> BTreeSet<u8> {
    parts.map(|part| part.level).collect()
}
