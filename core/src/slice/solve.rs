//! Places requests, the most important first, and names who has to give way.
//!
//! What is wanted of [`solve`], and shown by tests:
//!
//! * **Never overlapping.** No two slices have a host in common, on whatever level; not with those that run either,
//!   unless they give way.
//! * **All or nothing.** A gang gets all its slices, in one block, or none.
//! * **Nothing on what cannot be used.** Never on unhealthy, unknown or closed hosts; healthy before degraded.
//! * **Complete.** If a gang fits, it is placed; if it fits once gangs of lower priority are gone, victims are named.
//! * **No victim in vain.** Victims have lower priority, and without any one of them there would be no place. The lowest
//!   priority goes first, then the least work lost, then the fewest gangs.
//! * **Once is enough.** Who finds a place next to what a victim frees takes that, and evicts nobody.
//! * **Packed.** The largest free shapes stay free: whole cubes, then halves, and so on; blocks with most free cubes last.
//! * **Always the same.** Equal input, in any order, gives equal answers; names decide only between equals.

use std::collections::{BTreeMap, BTreeSet};

use crate::unit::Time;

use super::fit::{Look, Placement};
use super::fleet::Fleet;
use super::reason::Reason;
use super::request::Request;
use super::score::Score;
use super::search::{Plan, Search, Set, WORK_MAX, levels_of};
use super::tiling::Piece;
use super::wait;

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its name.
    pub request: String,
    /// Where it goes, if anywhere.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It has a place.
    Placed {
        /// The partitions of each slice, in the order of the request's parts.
        slices: Vec<Vec<Piece>>,
        /// How good the place is.
        score: Score,
        /// Who gives way, by name. All of each gang is drained.
        victims: Vec<String>,
        /// Whose slices have to be gone first, beside those of the victims.
        awaits: Vec<String>,
        /// False if the search for victims ended at its bound: another set may be cheaper.
        is_cheapest: bool,
    },
    /// It has none.
    Waits,
}

/// What was decided so far.
struct Round<'a> {
    fleet: &'a Fleet,
    now_ms: u64,
    /// Hosts of what was placed, by cube.
    placed: Vec<u64>,
    /// Who gives way.
    evicted: Set,
    /// Blocks in which members of each group were placed.
    groups: BTreeMap<&'a str, BTreeSet<usize>>,
}

/// Decides about `requests`: the highest priority first, then by name. Nothing is changed.
#[must_use]
pub fn solve(fleet: &Fleet, requests: &[Request], now: Time) -> Vec<Answer> {
    let mut order: Vec<&Request> = requests.iter().collect();
    order.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name)));
    let mut round = Round {
        fleet,
        now_ms: now.0,
        placed: vec![0; fleet.boards.len()],
        evicted: Set::new(),
        groups: BTreeMap::new(),
    };
    order.into_iter().map(|request| round.decide(request)).collect()
}

impl<'a> Round<'a> {
    fn decide(&mut self, request: &'a Request) -> Answer {
        let near = request.group.as_ref().map(|group| {
            let running = self.fleet.groups.get(group).into_iter().flatten();
            let placed = self.groups.get(group.as_str()).into_iter().flatten();
            running.chain(placed).copied().collect()
        });
        let near = near.unwrap_or_default();
        let look = Look::of(self.fleet, request, self.now_ms, near);
        let parts = request.parts.as_slice();
        let is_known = parts.iter().all(|part| part.level <= self.fleet.tiling.top());
        let taken: Vec<u64> = self
            .fleet
            .all_taken
            .iter()
            .zip(&self.placed)
            .map(|(held, placed)| held | placed)
            .collect();
        if is_known && let Some(placement) = look.place(parts, &taken) {
            return self.place(request, placement, Set::new(), true);
        }
        let leaving: Set = self.leaving(request);
        let taken = self.taken(|who| !leaving.contains(&who));
        if is_known && let Some(placement) = look.place(parts, &taken) {
            return self.place(request, placement, Set::new(), true);
        }
        if is_known
            && request.may_preempt
            && let Some((victims, placement, is_cheapest)) = self.victims(&look, request, &leaving)
        {
            return self.place(request, placement, victims, is_cheapest);
        }
        let reason = wait::why(&look, request, &taken);
        Answer { request: request.name.clone(), outcome: Outcome::Waits, reason }
    }

    /// By cube: hosts of what was placed and of those who stay.
    fn taken(&self, stays: impl Fn(usize) -> bool) -> Vec<u64> {
        let mut taken = self.fleet.taken(stays);
        taken.iter_mut().zip(&self.placed).for_each(|(taken, placed)| *taken |= placed);
        taken
    }

    /// Who is going to leave anyway, for this request as well.
    fn leaving(&self, request: &Request) -> Set {
        if self.evicted.is_empty() && !self.fleet.has_leaving {
            return Set::new();
        }
        let running = self.fleet.running.iter().enumerate();
        let leaves =
            |who: usize, r: &super::Running| self.evicted.contains(&who) || r.leaves_for(request);
        running.filter(|(who, running)| leaves(*who, running)).map(|(who, _)| who).collect()
    }

    /// The cheapest gangs of lower priority without which the request fits.
    fn victims(
        &self,
        look: &Look<'_>,
        request: &Request,
        leaving: &Set,
    ) -> Option<(Set, Placement, bool)> {
        let running = &self.fleet.running;
        let gone = |who: usize| leaving.contains(&who);
        let may_go = |who: usize| {
            let r = &running[who];
            gone(who) || (!r.is_fixed && !r.is_leaving && r.priority < request.priority)
        };
        let key =
            |set: &Set| Some(victim_key(self.fleet, set.iter().copied().filter(|who| !gone(*who))));
        let levels = |_: &Set| levels_of(request.parts.iter());
        let plan = |set: &Set| {
            let taken = self.taken(|who| !set.contains(&who) && !gone(who));
            let Placement { score, slices } = look.place(&request.parts, &taken)?;
            Some(Plan { score, slices, moved: Vec::new() })
        };
        let search =
            Search { fleet: self.fleet, may_go: &may_go, levels: &levels, key: &key, plan: &plan };
        let found = search.run(WORK_MAX)?;
        let victims = found.set.into_iter().filter(|who| !gone(*who)).collect();
        let Plan { score, slices, .. } = found.plan;
        Some((victims, Placement { score, slices }, found.is_cheapest))
    }

    /// Takes the place down, and says why it is this one.
    fn place(
        &mut self,
        request: &'a Request,
        placement: Placement,
        victims: Set,
        is_cheapest: bool,
    ) -> Answer {
        let fleet = self.fleet;
        let Placement { score, slices } = placement;
        let pieces = || slices.iter().flatten().copied();
        let meets = |who: &usize| {
            fleet.held[*who].iter().flatten().any(|held| pieces().any(|p| p.overlaps(*held)))
        };
        let awaits: Set = self
            .leaving(request)
            .into_iter()
            .filter(|who| !victims.contains(who))
            .filter(meets)
            .collect();
        for piece in pieces() {
            self.placed[piece.cube] |= piece.partition.hosts();
        }
        if let Some(group) = &request.group {
            let blocks = pieces().map(|piece| fleet.boards[piece.cube].block);
            self.groups.entry(group).or_default().extend(blocks);
        }
        let names = |set: &Set| set.iter().map(|who| fleet.running[*who].name.clone()).collect();
        let (victim_names, awaits): (Vec<String>, Vec<String>) = (names(&victims), names(&awaits));
        let cost = victims.iter().map(|who| fleet.running[*who].cost_device_ms());
        let cost_device_ms = cost.fold(0, u64::saturating_add);
        let reason = reason(fleet, &score, &victim_names, cost_device_ms, &awaits);
        self.evicted.extend(victims);
        let outcome = Outcome::Placed { slices, score, victims: victim_names, awaits, is_cheapest };
        Answer { request: request.name.clone(), outcome, reason }
    }
}

fn reason(
    fleet: &Fleet,
    score: &Score,
    victims: &[String],
    cost_device_ms: u64,
    awaits: &[String],
) -> Reason {
    if !victims.is_empty() {
        return Reason::Preempts { victims: victims.to_vec(), cost_device_ms };
    }
    if !awaits.is_empty() {
        return Reason::AwaitsLeaving { workloads: awaits.to_vec() };
    }
    if score.maintenance_hosts > 0 {
        return Reason::PlacedBeforeMaintenance { hosts: score.maintenance_hosts };
    }
    if score.degraded_hosts > 0 {
        return Reason::PlacedDegraded { hosts: score.degraded_hosts };
    }
    let broken = score.largest_broken(fleet.tiling.top());
    broken
        .map_or(Reason::Placed, |level| Reason::PlacedBreaking { shape: fleet.tiling.shape(level) })
}

/// What victims cost: by priority, highest first, the work lost and how many there are.
///
/// Compared from the front, a set with a more important victim is dearer, whatever it costs.
pub(super) fn victim_key(
    fleet: &Fleet,
    victims: impl Iterator<Item = usize>,
) -> Vec<(i32, u64, u32)> {
    let mut by_priority: BTreeMap<std::cmp::Reverse<i32>, (u64, u32)> = BTreeMap::new();
    for victim in victims {
        let running = &fleet.running[victim];
        let (cost, count) = by_priority.entry(std::cmp::Reverse(running.priority)).or_default();
        *cost = cost.saturating_add(running.cost_device_ms());
        *count += 1;
    }
    by_priority.into_iter().map(|(priority, (cost, count))| (priority.0, cost, count)).collect()
}
