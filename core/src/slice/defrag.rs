//! Moves that make room for a request which fits by capacity and not by shape.
//!
//! The plan with the least lost work and restart cost is searched for, then the one with the fewest moves. A gang
//! moves as a whole: whoever drains one of its slices drains them all; those that need not move come back where they were. A destination may itself be
//! freed by another move, so plans of several steps are found, too. Nothing is moved here; it is said what would be.
//!
//! **What is given up.** The bound of [`super::search`]. And gangs that move together with others to a *different* block
//! than that of the request are placed one after the other, so on fleets of several blocks a plan may be missed that
//! needs them interleaved. Within one block the plan is the cheapest there is, unless the bound was reached.

use crate::unit::Time;

use super::fit::{Look, Placement};
use super::fleet::Fleet;
use super::reason::Reason;
use super::request::{Part, Request};
use super::search::{Found, Plan, Search, Set, WORK_MAX, levels_of};
use super::solve::{Answer, Outcome, solve};
use super::tiling::Piece;

/// How much may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Most slices that are moved.
    pub moves_max: u32,
    /// Most lost work and restart cost together. Unit: ms of one chip.
    pub cost_device_ms_max: u64,
}

/// One gang that moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The gang.
    pub workload: String,
    /// The partitions of each of its slices now.
    pub from: Vec<Vec<Piece>>,
    /// And then.
    pub to: Vec<Vec<Piece>>,
    /// Lost work and restart cost. Unit: ms of one chip.
    pub cost_device_ms: u64,
    /// Gangs whose old slices have to be gone before its new ones can be made.
    pub awaits: Vec<String>,
}

/// What defragmentation would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Defrag {
    /// Nothing need be moved.
    Fits(Answer),
    /// These moves make room.
    Moves {
        /// The moves, by name of the gang.
        moves: Vec<Move>,
        /// The partitions of each slice of the request.
        slices: Vec<Vec<Piece>>,
        /// Of all moves together. Unit: ms of one chip.
        cost_device_ms: u64,
        /// False if the search ended at its bound: another plan may be cheaper.
        is_cheapest: bool,
        /// Whether it is within the budget. The cheapest plan that is, if there is one.
        is_within_budget: bool,
    },
    /// No moves make room.
    Impossible(Reason),
}

/// The cheapest moves that make room for `request`. Nothing is changed.
#[must_use]
pub fn defrag(fleet: &Fleet, request: &Request, now: Time, budget: Budget) -> Defrag {
    let alone = Request { may_preempt: false, ..request.clone() };
    let mut answers = solve(fleet, std::slice::from_ref(&alone), now);
    let Some(answer) = answers.pop() else { return Defrag::Impossible(Reason::Placed) };
    if matches!(answer.outcome, Outcome::Placed { .. }) {
        return Defrag::Fits(answer);
    }
    if request.parts.iter().any(|part| part.level > fleet.tiling.top()) {
        return Defrag::Impossible(answer.reason);
    }
    let within = search(fleet, request, now, Some(budget));
    let is_within_budget = within.is_some();
    let Some(found) = within.or_else(|| search(fleet, request, now, None)) else {
        return Defrag::Impossible(answer.reason);
    };
    Defrag::Moves {
        moves: moves(fleet, &found),
        cost_device_ms: found.key.0,
        slices: found.plan.slices,
        is_cheapest: found.is_cheapest,
        is_within_budget,
    }
}

fn search(
    fleet: &Fleet,
    request: &Request,
    now: Time,
    budget: Option<Budget>,
) -> Option<Found<(u64, u32)>> {
    let near = request.group.as_ref().and_then(|group| fleet.groups.get(group));
    let near = near.map(|blocks| blocks.iter().copied().collect()).unwrap_or_default();
    let look = Look::of(fleet, request, now.0, near);
    let others = Request::new("", 0, Vec::new());
    let lenient = Look::of(fleet, &others, now.0, Vec::new());
    let may_go = |who: usize| {
        let running = &fleet.running[who];
        !running.is_fixed && !running.is_leaving
    };
    let key = |set: &Set| {
        let key = cost(fleet, set);
        let fits = |b: Budget| key.0 <= b.cost_device_ms_max && key.1 <= b.moves_max;
        budget.is_none_or(fits).then_some(key)
    };
    let levels = |set: &Set| {
        let moved: Vec<Part> = set.iter().flat_map(|who| fleet.parts_of(*who)).collect();
        levels_of(request.parts.iter().chain(&moved))
    };
    let plan = |set: &Set| plan(&look, &lenient, request, set);
    let search = Search { fleet, may_go: &may_go, levels: &levels, key: &key, plan: &plan };
    search.run(WORK_MAX)
}

/// Lost work and restart cost of a set, and how many slices it has.
fn cost(fleet: &Fleet, set: &Set) -> (u64, u32) {
    let running = |who: &usize| &fleet.running[*who];
    let cost = set.iter().map(|who| running(who).cost_device_ms()).fold(0, u64::saturating_add);
    let slices = set.iter().map(|who| fleet.held[*who].len()).sum::<usize>();
    (cost, u32::try_from(slices).unwrap_or(u32::MAX))
}

/// Where the request and those of `set` go if these are out of the way; in the first block where all find a place.
fn plan(look: &Look<'_>, lenient: &Look<'_>, request: &Request, set: &Set) -> Option<Plan> {
    let fleet = look.fleet;
    let taken = fleet.taken(|who| !set.contains(&who));
    let in_block = |block: usize| {
        let mut rest = taken.clone();
        let placement = look.place_in(block, &request.parts, &mut rest)?;
        let one_by_one = || {
            let moved = move_each(lenient, set, &rest)?;
            Some(Plan { score: placement.score.clone(), slices: placement.slices.clone(), moved })
        };
        one_by_one().or_else(|| together(look, block, request, set, &taken))
    };
    look.blocks().filter_map(in_block).min()
}

/// A place for each of `set`: where it was, if that is free, else the best there is.
fn move_each(look: &Look<'_>, set: &Set, rest: &[u64]) -> Option<Vec<(usize, Vec<Vec<Piece>>)>> {
    let fleet = look.fleet;
    let mut rest = rest.to_vec();
    let mut moved = Vec::new();
    let mut largest: Vec<usize> = set.iter().copied().collect();
    let hosts = |who: &usize| fleet.parts_of(*who).iter().map(Part::hosts).max();
    largest.sort_by_key(|who| std::cmp::Reverse(hosts(who)));
    for who in largest {
        let held = &fleet.held[who];
        let is_free = |piece: &Piece| rest[piece.cube] & piece.partition.hosts() == 0;
        let slices = if held.iter().flatten().all(is_free) {
            held.clone()
        } else {
            look.place(&fleet.parts_of(who), &rest)?.slices
        };
        for piece in slices.iter().flatten() {
            rest[piece.cube] |= piece.partition.hosts();
        }
        moved.push((who, slices));
    }
    moved.sort_unstable();
    Some(moved)
}

/// The request and all of `set` in one block, the largest slices first: if they fit there at all, this finds it.
fn together(
    look: &Look<'_>,
    block: usize,
    request: &Request,
    set: &Set,
    taken: &[u64],
) -> Option<Plan> {
    let fleet = look.fleet;
    let mut parts = request.parts.clone();
    parts.extend(set.iter().flat_map(|who| fleet.parts_of(*who)));
    let Placement { score, mut slices } = look.place_in(block, &parts, &mut taken.to_vec())?;
    let own = request.parts.iter().map(|part| part.count as usize).sum::<usize>();
    let mut others = slices.split_off(own.min(slices.len())).into_iter();
    let count = |who: &usize| fleet.parts_of(*who).len();
    let moved = set.iter().map(|who| (*who, others.by_ref().take(count(who)).collect())).collect();
    Some(Plan { score, slices, moved })
}

fn moves(fleet: &Fleet, found: &Found<(u64, u32)>) -> Vec<Move> {
    let made = |(who, to): &(usize, Vec<Vec<Piece>>)| {
        let from: Vec<Vec<Piece>> =
            fleet.held[*who].iter().filter(|pieces| !pieces.is_empty()).cloned().collect();
        let is_in_the_way = |other: &&usize| {
            let mut held = fleet.held[**other].iter().flatten();
            **other != *who && held.any(|h| to.iter().flatten().any(|t| t.overlaps(*h)))
        };
        let awaits = found.set.iter().filter(is_in_the_way);
        Move {
            workload: fleet.running[*who].name.clone(),
            from,
            to: to.clone(),
            cost_device_ms: fleet.running[*who].cost_device_ms(),
            awaits: awaits.map(|other| fleet.running[*other].name.clone()).collect(),
        }
    };
    found.plan.moved.iter().map(made).collect()
}
