//! Whose going makes room that lies together.
//!
//! Wanted properties: a way is enough for the pods asked about, as far as quota and other pod sets leave it at that; it
//! lies in one domain where the pods must; cheap ways come first; the same question has the same answer. A way need not
//! be the cheapest there is, and may name somebody who turns out not to be needed: whoever asks finds that out.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::assumed::Assumed;
use super::count::{Counter, Demand, free_in};
use super::memo::{Counts, Tables};
use super::model::PodSetRequest;
use super::plan::{Plan, Strictness, layers_of};
use super::snapshot::{LeafRequest, LeafUsage, Room, TasSnapshot};
use super::tree::DomainId;

/// Most ways returned for one question.
const WAYS_MAX: usize = 16;

/// Somebody who could go.
#[derive(Clone, Debug)]
pub(in crate::kueue) struct Holder<'a> {
    /// What that would cost, in any unit that is the same for all.
    pub cost: u64,
    /// What each of its pod sets takes.
    pub placed: Vec<&'a LeafUsage>,
}

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

/// A leaf on which some holder has pods.
struct Leaf<'m> {
    /// What is free, column by column.
    free: Vec<i64>,
    /// Pods of the asked shape that fit now.
    pods: i64,
    /// Holder, what a pod of it takes, pods.
    held: Vec<(usize, &'m LeafRequest, i64)>,
}

/// A domain that holds whole slices, or a leaf if none were asked for.
#[derive(Default)]
struct UnitOfRoom {
    rows: BTreeSet<usize>,
    /// Who has pods there, cheapest first.
    holders: Vec<usize>,
}

/// Who has pods where.
struct Map<'m> {
    snapshot: &'m TasSnapshot,
    plan: &'m Plan,
    counts: &'m Counts,
    holders: &'m [Holder<'m>],
    pod: LeafRequest,
    leaves: BTreeMap<usize, Leaf<'m>>,
    units: BTreeMap<DomainId, UnitOfRoom>,
    /// Per holder, the units in which it has pods.
    units_of: Vec<Vec<DomainId>>,
}

/// What the going of a unit's cheapest holders would bring. Ordered by cost per slice, then by more slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer {
    cost: u128,
    /// Slices that would fit besides those that fit now; at least 1, no more than are missing.
    gain: i64,
    unit: DomainId,
    /// How many of the unit's holders that are still there.
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

impl<'m> Map<'m> {
    fn new(
        snapshot: &'m TasSnapshot,
        demand: &Demand<'_>,
        plan: &'m Plan,
        counts: &'m Counts,
        holders: &'m [Holder<'m>],
    ) -> Self {
        let pod = snapshot.leaf_request(&demand.request.pod_set.requests);
        let (leaves, units) = (BTreeMap::new(), BTreeMap::new());
        let units_of = vec![Vec::new(); holders.len()];
        let mut map = Self { snapshot, plan, counts, holders, pod, leaves, units, units_of };
        let counter = Counter::new(snapshot, demand);
        map.locate(&counter, &snapshot.tables(demand));
        map
    }

    /// Notes who has pods where, except where the pods asked about may not go.
    fn locate(&mut self, counter: &Counter, tables: &Tables) {
        let holders = self.holders;
        let mut order: Vec<usize> = (0..holders.len()).collect();
        order.sort_by_key(|&index| (holders[index].cost, index));
        for index in order {
            for usage in &holders[index].placed {
                for &(row, pods) in &usage.leaves {
                    if !counter.is_left_out(tables, row) {
                        let leaf = self.leaf(row, tables);
                        leaf.held.push((index, &usage.request, pods));
                        self.note_unit(row, index);
                    }
                }
            }
        }
    }

    fn leaf(&mut self, row: usize, tables: &Tables) -> &mut Leaf<'m> {
        let counts = self.counts;
        let pods = || counts.fit(self.snapshot.tree.leaf(row)).pods;
        let leaf = || Leaf { free: free_in(tables, row), pods: pods(), held: Vec::new() };
        self.leaves.entry(row).or_insert_with(leaf)
    }

    fn note_unit(&mut self, row: usize, holder: usize) {
        let tree = &self.snapshot.tree;
        let lowest = tree.levels.len() - 1;
        let domain = tree.ancestor(tree.leaf(row), lowest - self.plan.slice_level);
        let unit = self.units.entry(domain).or_default();
        unit.rows.insert(row);
        // Holders are noted one after the other, each at all its places.
        if unit.holders.last() != Some(&holder) {
            unit.holders.push(holder);
            self.units_of[holder].push(domain);
        }
    }

    /// The groups in which somebody has pods.
    fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        if self.plan.strictness != Strictness::Unconstrained {
            let steps = self.plan.slice_level - self.plan.level;
            let mut by_domain: BTreeMap<DomainId, Vec<DomainId>> = BTreeMap::new();
            for &unit in self.units.keys() {
                let domain = self.snapshot.tree.ancestor(unit, steps);
                by_domain.entry(domain).or_default().push(unit);
            }
            let group = |(domain, units)| Group { domain: Some(domain), units };
            groups.extend(by_domain.into_iter().map(group));
        }
        if self.plan.strictness != Strictness::Required {
            groups.push(Group { domain: None, units: self.units.keys().copied().collect() });
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
        let first = group.units.iter().filter_map(|&unit| self.offer(unit, &gone, missing));
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
                let gain = self.slices(unit, &|holder| gone.contains(&holder))
                    - self.slices(unit, &|_| false);
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

    /// The best that the going of the first holders of `unit` brings, after `gone` went; `None` if it brings nothing.
    fn offer(&self, unit: DomainId, gone: &BTreeSet<usize>, missing: i64) -> Option<Offer> {
        let before = self.slices(unit, &|holder| gone.contains(&holder));
        let mut going = BTreeSet::new();
        let mut cost = 0;
        let mut best: Option<Offer> = None;
        for &index in self.units[&unit].holders.iter().filter(|index| !gone.contains(index)) {
            going.insert(index);
            cost += u128::from(self.holders[index].cost);
            let after =
                self.slices(unit, &|holder| gone.contains(&holder) || going.contains(&holder));
            let gain = (after - before).min(missing);
            if gain <= 0 {
                continue;
            }
            let offer = Offer { cost, gain, unit, going: going.len() };
            best = Some(best.map_or(offer, |best| best.min(offer)));
            if gain == missing {
                break;
            }
        }
        best
    }

    fn going(&self, offer: &Offer, gone: &BTreeSet<usize>) -> Vec<usize> {
        let staying = self.units[&offer.unit].holders.iter().filter(|index| !gone.contains(index));
        staying.take(offer.going).copied().collect()
    }

    /// Slices that fit into `unit` without those who are gone.
    fn slices(&self, unit: DomainId, is_gone: &dyn Fn(usize) -> bool) -> i64 {
        let gained = self.units[&unit].rows.iter().map(|row| self.pods_gained(*row, is_gone));
        let pods = self.counts.fit(unit).pods + gained.sum::<i64>();
        pods / self.plan.slice_size
    }

    fn pods_gained(&self, row: usize, is_gone: &dyn Fn(usize) -> bool) -> i64 {
        let leaf = &self.leaves[&row];
        let mut free: Option<Vec<i64>> = None;
        for (_, per_pod, pods) in leaf.held.iter().filter(|(index, ..)| is_gone(*index)) {
            per_pod.take_from(free.get_or_insert_with(|| leaf.free.clone()), -pods);
        }
        free.map_or(0, |free| self.pod.count_in(&free).pods - leaf.pods)
    }
}
