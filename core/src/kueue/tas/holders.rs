//! Who has pods where, and what fits once some of them have gone.

use std::collections::BTreeSet;

use super::count::{Counter, Demand, free_in};
use super::counts::Counts;
use super::memo::Tables;
use super::plan::Plan;
use super::snapshot::{LeafRequest, LeafUsage, TasSnapshot};
use super::tree::{DomainId, ix};

/// Somebody who could go.
#[derive(Clone, Debug)]
pub(in crate::kueue) struct Holder<'a> {
    /// What that would cost, in any unit that is the same for all.
    pub cost: u64,
    /// What each of its pod sets takes.
    pub placed: Vec<&'a LeafUsage>,
}

/// What a holder has on one leaf.
pub(super) struct Held<'m> {
    pub(super) holder: usize,
    /// Position among the leaves of its unit.
    leaf: usize,
    per_pod: &'m LeafRequest,
    pods: i64,
}

/// A domain that holds whole slices, or a leaf if none were asked for.
#[derive(Default)]
pub(super) struct UnitOfRoom<'m> {
    /// Leaves where somebody has pods: row, and pods of the asked shape that fit now.
    leaves: Vec<(usize, i64)>,
    /// Who has what there, cheapest first.
    pub(super) held: Vec<Held<'m>>,
}

/// Where things are in a list, by number. Costs little to make, however many numbers there are.
struct Spots(Vec<u32>);

/// Where something is in a list; nothing is there yet, or nothing may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spot {
    Unknown,
    LeftOut,
    At(usize),
}

impl Spots {
    fn unknown(count: usize) -> Self {
        // Memory that is zero comes without being written.
        Self(vec![0; count])
    }

    fn get(&self, number: usize) -> Spot {
        match self.0[number] {
            0 => Spot::Unknown,
            1 => Spot::LeftOut,
            position => Spot::At(position as usize - 2),
        }
    }

    fn set(&mut self, number: usize, spot: Spot) {
        self.0[number] = match spot {
            Spot::Unknown => 0,
            Spot::LeftOut => 1,
            Spot::At(position) => {
                u32::try_from(position + 2).expect("there are fewer than 2^32 domains")
            }
        };
    }
}

/// Who has pods where.
pub(super) struct Map<'m> {
    pub(super) snapshot: &'m TasSnapshot,
    pub(super) plan: &'m Plan,
    pub(super) counts: &'m Counts,
    pub(super) holders: &'m [Holder<'m>],
    pod: LeafRequest,
    tables: Tables,
    /// In the order in which they were found.
    units: Vec<UnitOfRoom<'m>>,
    /// Position of each domain of the units' level, counted from the level's first.
    unit_at: Spots,
    /// Domains of the units, in order.
    pub(super) domains: Vec<DomainId>,
    /// Per holder, the units in which it has pods.
    pub(super) units_of: Vec<Vec<DomainId>>,
}

impl<'m> Map<'m> {
    pub(super) fn new(
        snapshot: &'m TasSnapshot,
        demand: &Demand<'_>,
        plan: &'m Plan,
        counts: &'m Counts,
        holders: &'m [Holder<'m>],
    ) -> Self {
        let level = snapshot.tree.level(plan.slice_level);
        let mut map = Self {
            snapshot,
            plan,
            counts,
            holders,
            pod: snapshot.leaf_request(&demand.request.pod_set.requests),
            tables: snapshot.tables(demand),
            units: Vec::new(),
            unit_at: Spots::unknown(level.len()),
            domains: Vec::new(),
            units_of: vec![Vec::new(); holders.len()],
        };
        map.locate(&Counter::new(snapshot, demand));
        map
    }

    /// Notes who has pods where, except where the pods asked about may not go.
    fn locate(&mut self, counter: &Counter) {
        let holders = self.holders;
        let mut order: Vec<usize> = (0..holders.len()).collect();
        order.sort_by_key(|&index| (holders[index].cost, index));
        let mut leaf_at = Spots::unknown(self.snapshot.tree.leaves().len());
        for index in order {
            for usage in &holders[index].placed {
                for &(row, pods) in &usage.leaves {
                    self.note(counter, &mut leaf_at, row, (index, &usage.request, pods));
                }
            }
        }
        self.domains.sort_unstable();
    }

    /// Notes that a holder has pods on the leaf with this row; `leaf_at` is where leaves are among those of their unit.
    fn note(
        &mut self,
        counter: &Counter,
        leaf_at: &mut Spots,
        row: usize,
        (holder, per_pod, pods): (usize, &'m LeafRequest, i64),
    ) {
        let spot = leaf_at.get(row);
        if spot == Spot::Unknown && counter.is_left_out(&self.tables, row) {
            return leaf_at.set(row, Spot::LeftOut);
        }
        if spot == Spot::LeftOut {
            return;
        }
        let tree = &self.snapshot.tree;
        let domain = tree.ancestor(tree.leaf(row), tree.levels.len() - 1 - self.plan.slice_level);
        let fit = self.counts.fit(tree.leaf(row)).pods;
        let unit = self.unit_mut(domain);
        let leaf = match spot {
            Spot::At(position) => position,
            Spot::Unknown | Spot::LeftOut => {
                unit.leaves.push((row, fit));
                leaf_at.set(row, Spot::At(unit.leaves.len() - 1));
                unit.leaves.len() - 1
            }
        };
        // Holders are noted one after the other, each at all its places.
        let is_new = unit.held.last().is_none_or(|last| last.holder != holder);
        unit.held.push(Held { holder, leaf, per_pod, pods });
        if is_new {
            self.units_of[holder].push(domain);
        }
    }

    fn unit_mut(&mut self, domain: DomainId) -> &mut UnitOfRoom<'m> {
        let spot = self.spot(domain);
        let position = match self.unit_at.get(spot) {
            Spot::At(position) => position,
            Spot::Unknown | Spot::LeftOut => {
                self.units.push(UnitOfRoom::default());
                self.domains.push(domain);
                self.unit_at.set(spot, Spot::At(self.units.len() - 1));
                self.units.len() - 1
            }
        };
        &mut self.units[position]
    }

    pub(super) fn unit(&self, domain: DomainId) -> Option<&UnitOfRoom<'m>> {
        match self.unit_at.get(self.spot(domain)) {
            Spot::At(position) => self.units.get(position),
            Spot::Unknown | Spot::LeftOut => None,
        }
    }

    fn spot(&self, domain: DomainId) -> usize {
        ix(domain - self.snapshot.tree.level(self.plan.slice_level).start)
    }

    /// `unit` without those who are gone.
    pub(super) fn clear(&self, unit: DomainId, gone: &BTreeSet<usize>) -> Clearing<'_, 'm> {
        let mut clearing = Clearing {
            map: self,
            unit: self.unit(unit),
            pods: self.counts.fit(unit).pods,
            free: Vec::new(),
        };
        if !gone.is_empty() {
            let held = clearing.unit.into_iter().flat_map(|unit| &unit.held);
            held.filter(|held| gone.contains(&held.holder)).for_each(|held| clearing.take(held));
        }
        clearing
    }
}

/// A unit in which one after the other goes.
pub(super) struct Clearing<'c, 'm> {
    map: &'c Map<'m>,
    pub(super) unit: Option<&'c UnitOfRoom<'m>>,
    /// Pods of the asked shape that fit into the unit.
    pods: i64,
    /// What became free so far: leaf, column by column, pods of the asked shape that fit.
    free: Vec<(usize, Vec<i64>, i64)>,
}

impl Clearing<'_, '_> {
    /// Somebody's pods go from one leaf.
    pub(super) fn take(&mut self, held: &Held<'_>) {
        let Some(&(row, fit)) = self.unit.and_then(|unit| unit.leaves.get(held.leaf)) else {
            return;
        };
        let known = self.free.iter().position(|(leaf, ..)| *leaf == held.leaf);
        let position = known.unwrap_or_else(|| {
            self.free.push((held.leaf, free_in(&self.map.tables, row), fit));
            self.free.len() - 1
        });
        let (_, free, fit) = &mut self.free[position];
        held.per_pod.take_from(free, -held.pods);
        let now = self.map.pod.count_in(free).pods;
        self.pods += now - std::mem::replace(fit, now);
    }

    /// Slices that fit now.
    pub(super) fn slices(&self) -> i64 {
        self.pods / self.map.plan.slice_size
    }
}
