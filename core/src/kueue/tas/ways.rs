//! Whose going makes room that lies together.
//!
//! Wanted properties: a way is enough for the pods asked about, as far as quota and other pod sets leave it at that; it
//! lies in one domain where the pods must; cheap ways come first; the same question has the same answer. A way need not
//! be the cheapest there is, and may name somebody who turns out not to be needed: whoever asks finds that out.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::assumed::Assumed;
use super::count::Demand;
use super::holders::{Holder, Map};
use super::model::PodSetRequest;
use super::plan::{Strictness, layers_of};
use super::snapshot::{Room, TasSnapshot};
use super::tree::DomainId;

/// Most ways returned for one question.
const WAYS_MAX: usize = 16;

impl TasSnapshot {
    /// Sets of `holders`, by position and each in order of cost, after whose going `request` could be placed on what is
    /// free; likely cheapest first, at most [`WAYS_MAX`]. None if there is room already.
    #[must_use]
    pub(in crate::kueue) fn ways_to_free(
        &self,
        request: &PodSetRequest<'_>,
        holders: &[Holder<'_>],
    ) -> Vec<Vec<usize>> {
        let Ok(plan) = self.plan(request, layers_of(request.pod_set.topology.as_ref()), false)
        else {
            return Vec::new();
        };
        if plan.count == 0 {
            return Vec::new();
        }
        let (assumed, room) = (Assumed::default(), Room::default());
        let demand = Demand { request, leader: None, within: None, room, assumed: &assumed };
        let mut shelf = self.memo.open();
        let counts = shelf.counts(self, &demand, &plan);
        let map = Map::new(self, &demand, &plan, counts, holders);
        let groups = map.groups();
        if groups.iter().any(|group| map.room_in(group) >= plan.slices()) {
            return Vec::new();
        }
        let mut ways: Vec<Way> = groups.iter().filter_map(|group| map.way_in(group)).collect();
        ways.sort();
        ways.truncate(WAYS_MAX);
        ways.into_iter().map(|way| way.members).collect()
    }
}

/// A set of holders after whose going everything fits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    cost: u128,
    members: Vec<usize>,
}

/// Domains one of which must hold everything.
#[derive(Clone, Debug)]
struct Group {
    /// `None` for all of them together.
    domain: Option<DomainId>,
    units: Vec<DomainId>,
}

/// What the going of a unit's cheapest holders would bring. Ordered by cost per slice, then by more slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer {
    cost: u128,
    /// Slices that would fit besides those that fit now; at least 1, no more than are missing.
    gain: i64,
    unit: DomainId,
    /// How many of the unit's holders that are still there; 0 if nobody has looked yet, and the rest is a guess that is
    /// no worse than what will be found.
    going: usize,
}

impl Ord for Offer {
    fn cmp(&self, other: &Self) -> Ordering {
        let gain = |offer: &Self| u128::from(offer.gain.unsigned_abs());
        let this = self.cost.saturating_mul(gain(other));
        let that = other.cost.saturating_mul(gain(self));
        this.cmp(&that)
            .then_with(|| other.gain.cmp(&self.gain))
            .then_with(|| (self.unit, self.going).cmp(&(other.unit, other.going)))
    }
}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Map<'_> {
    /// The groups in which somebody has pods.
    fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        if self.plan.strictness != Strictness::Unconstrained {
            let steps = self.plan.slice_level - self.plan.level;
            let mut by_domain: BTreeMap<DomainId, Vec<DomainId>> = BTreeMap::new();
            for &unit in &self.domains {
                let domain = self.snapshot.tree.ancestor(unit, steps);
                by_domain.entry(domain).or_default().push(unit);
            }
            let group = |(domain, units)| Group { domain: Some(domain), units };
            groups.extend(by_domain.into_iter().map(group));
        }
        if self.plan.strictness != Strictness::Required {
            groups.push(Group { domain: None, units: self.domains.clone() });
        }
        groups
    }

    /// Slices that fit into `group` now.
    fn room_in(&self, group: &Group) -> i64 {
        match group.domain {
            Some(domain) => self.counts.fit(domain).slices,
            None => self.counts.slices(self.plan.slice_level),
        }
    }

    /// Takes the cheapest offers of `group` until everything fits; `None` if it never does.
    fn way_in(&self, group: &Group) -> Option<Way> {
        let mut gone = BTreeSet::new();
        let mut gained: BTreeMap<DomainId, i64> = BTreeMap::new();
        let mut missing = self.plan.slices() - self.room_in(group);
        let first = group.units.iter().filter_map(|&unit| self.guess(unit, missing));
        let mut offers: BinaryHeap<Reverse<Offer>> = first.map(Reverse).collect();
        while missing > 0 {
            // What was offered may be worth less by now: fewer slices are missing.
            let Reverse(old) = offers.pop()?;
            let Some(offer) = self.offer(old.unit, &gone, missing) else { continue };
            if offers.peek().is_some_and(|Reverse(next)| *next < offer) && offer != old {
                offers.push(Reverse(offer));
                continue;
            }
            let mut touched = BTreeSet::new();
            for index in self.going(&offer, &gone) {
                gone.insert(index);
                touched.extend(&self.units_of[index]);
            }
            // The group's units are in order.
            touched.retain(|unit| group.units.binary_search(unit).is_ok());
            for &unit in &touched {
                let gain =
                    self.clear(unit, &gone).slices() - self.clear(unit, &BTreeSet::new()).slices();
                missing -= gain - gained.insert(unit, gain).unwrap_or(0);
            }
            offers
                .extend(touched.iter().filter_map(|u| self.offer(*u, &gone, missing)).map(Reverse));
        }
        let mut members: Vec<usize> = gone.into_iter().collect();
        members.sort_by_key(|&index| (self.holders[index].cost, index));
        let cost = members.iter().map(|&index| u128::from(self.holders[index].cost)).sum();
        Some(Way { cost, members })
    }

    /// What `unit` may offer at best: everything that is missing for the going of its cheapest holder.
    fn guess(&self, unit: DomainId, missing: i64) -> Option<Offer> {
        let first = self.unit(unit)?.held.first()?;
        let cost = u128::from(self.holders[first.holder].cost);
        Some(Offer { cost, gain: missing, unit, going: 0 })
    }

    /// The best that the going of the first holders of `unit` brings, after `gone` went; `None` if it brings nothing.
    fn offer(&self, unit: DomainId, gone: &BTreeSet<usize>, missing: i64) -> Option<Offer> {
        let mut clearing = self.clear(unit, gone);
        let before = clearing.slices();
        let (mut going, mut cost) = (0, 0);
        let mut best: Option<Offer> = None;
        for held in clearing.unit?.held.chunk_by(|a, b| a.holder == b.holder) {
            let holder = held[0].holder;
            if gone.contains(&holder) {
                continue;
            }
            going += 1;
            cost += u128::from(self.holders[holder].cost);
            held.iter().for_each(|held| clearing.take(held));
            let gain = (clearing.slices() - before).min(missing);
            if gain <= 0 {
                continue;
            }
            let offer = Offer { cost, gain, unit, going };
            best = Some(best.map_or(offer, |best| best.min(offer)));
            if gain == missing {
                break;
            }
        }
        best
    }

    fn going(&self, offer: &Offer, gone: &BTreeSet<usize>) -> Vec<usize> {
        let held = self.unit(offer.unit).map_or(&[][..], |unit| &unit.held);
        let mut staying: Vec<usize> =
            held.iter().map(|held| held.holder).filter(|holder| !gone.contains(holder)).collect();
        staying.dedup();
        staying.truncate(offer.going);
        staying
    }
}
