//! What fits where, remembered from question to question.
//!
//! Most questions ask about pods of a shape that was asked about before, on nodes of which few have changed since.
//! So the counts of a shape are kept and only the leaves that changed are counted again. A snapshot and its clones
//! share what is remembered: each question compares the tables it stands on with those counted last, chunk by chunk,
//! so that no order of questions and changes can make an answer stale. It changes how fast an answer is, never which.

#![expect(clippy::disallowed_types, reason = "a memo, not a state machine: one task locks it")]

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::count::{Counter, Demand, LeafState, Tally};
use super::failure::Exclusions;
use super::plan::Plan;
use super::shape::Shape;
use super::snapshot::TasSnapshot;
use super::table::{CHUNK_ROWS, Table};
use super::tree::{DomainId, Tree, ix};

/// Shapes remembered per flavor; the one not asked about for longest goes first. For 65,536 nodes each takes about
/// 3 MiB.
const SHAPES_MAX: usize = 32;

/// The counts of the shapes asked about.
#[derive(Default)]
pub(super) struct Memo {
    shelf: Mutex<Shelf>,
}

/// What a [`Memo`] keeps.
#[derive(Default)]
pub(super) struct Shelf {
    counts: Vec<Counts>,
    questions: u64,
}

/// How many pods and slices of one shape fit into every domain, where no leader is placed with them.
pub(super) struct Counts {
    shape: Shape,
    /// The number of the question that used it last.
    asked_at: u64,
    counter: Counter,
    fits: Vec<Bare>,
    leaves: Vec<LeafState>,
    tally: Tally,
    /// Level by level, the domains by what fits into them.
    classes: Vec<BTreeMap<Bare, Domains>>,
    /// What was counted.
    tables: Tables,
}

/// What fits into a domain without a leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bare {
    /// 0 below the level of the slices.
    pub(super) slices: i64,
    pub(super) pods: i64,
}

/// A set of domains, in words of 64 neighbours.
#[derive(Default)]
pub(super) struct Domains {
    words: BTreeMap<u32, u64>,
    count: i64,
}

/// The numbers that a count depends on.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    pub(super) capacity: Table,
    pub(super) used: Table,
    /// The degraded part, if it is left out.
    pub(super) left_out: Table,
}

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memo").finish_non_exhaustive()
    }
}

impl Memo {
    pub(super) fn open(&self) -> MutexGuard<'_, Shelf> {
        let mut shelf = self.shelf.lock().unwrap_or_else(|poisoned| {
            // Whoever died may have left a count half done.
            let mut shelf = PoisonError::into_inner(poisoned);
            shelf.counts.clear();
            shelf
        });
        shelf.questions += 1;
        shelf
    }
}

impl Shelf {
    /// The counts for what is asked, up to date.
    pub(super) fn counts(
        &mut self,
        snapshot: &TasSnapshot,
        demand: &Demand<'_>,
        plan: &Plan,
    ) -> &Counts {
        let tables = snapshot.tables(demand);
        let known = self.counts.iter().position(|counts| counts.shape.is_of(demand, plan));
        let position = match known {
            Some(position) => {
                self.counts[position].catch_up(&snapshot.tree, tables);
                position
            }
            None => {
                self.make_room();
                self.counts.push(Counts::new(snapshot, demand, plan, tables));
                self.counts.len() - 1
            }
        };
        self.counts[position].asked_at = self.questions;
        &self.counts[position]
    }

    fn make_room(&mut self) {
        if self.counts.len() < SHAPES_MAX {
            return;
        }
        let oldest = self.counts.iter().enumerate().min_by_key(|(_, counts)| counts.asked_at);
        if let Some((position, _)) = oldest {
            self.counts.swap_remove(position);
        }
    }
}

impl Tables {
    fn is_same(&self, other: &Self) -> bool {
        self.capacity.is_same(&other.capacity)
            && self.used.is_same(&other.used)
            && self.left_out.is_same(&other.left_out)
    }

    fn is_chunk_same(&self, other: &Self, chunk: usize) -> bool {
        self.capacity.is_chunk_same(&other.capacity, chunk)
            && self.used.is_chunk_same(&other.used, chunk)
            && self.left_out.is_chunk_same(&other.left_out, chunk)
    }

    fn is_row_same(&self, other: &Self, row: usize) -> bool {
        let is_same =
            |a: &Table, b: &Table| a.is_chunk_same(b, row / CHUNK_ROWS) || a.row(row) == b.row(row);
        is_same(&self.used, &other.used)
            && is_same(&self.capacity, &other.capacity)
            && is_same(&self.left_out, &other.left_out)
    }
}

impl Counts {
    fn new(snapshot: &TasSnapshot, demand: &Demand<'_>, plan: &Plan, tables: Tables) -> Self {
        let counter = Counter::new(snapshot, demand);
        let tree = &snapshot.tree;
        let mut counts = Self {
            shape: Shape::new(demand, plan),
            asked_at: 0,
            fits: vec![Bare::default(); tree.len()],
            leaves: Vec::with_capacity(tree.leaves().len()),
            tally: counter.tally(),
            classes: Vec::new(),
            counter,
            tables,
        };
        let lowest = tree.levels.len() - 1;
        for (row, leaf) in tree.leaves().enumerate() {
            let (state, pods) = counts.counter.count_bare(&counts.tables, row);
            counts.tally.change(state, 1);
            counts.leaves.push(state);
            counts.fits[ix(leaf)] = counts.shape.bare(lowest, pods, 0);
        }
        for level in (0..lowest).rev() {
            for domain in tree.level(level) {
                let children = tree.children(domain);
                let children = &counts.fits[ix(children.start)..ix(children.end)];
                let pods = children.iter().map(|fit| counts.shape.whole(level + 1, fit.pods)).sum();
                let slices = children.iter().map(|fit| fit.slices).sum();
                counts.fits[ix(domain)] = counts.shape.bare(level, pods, slices);
            }
        }
        counts.classes = (0..=lowest).map(|level| counts.classify(tree.level(level))).collect();
        counts
    }

    /// These domains by what fits into them. Few values are common among neighbours, so each word is collected first.
    fn classify(&self, domains: Range<DomainId>) -> BTreeMap<Bare, Domains> {
        let mut classes: BTreeMap<Bare, Domains> = BTreeMap::new();
        let mut word: Vec<(Bare, u64)> = Vec::new();
        for domain in domains.clone() {
            let (fit, bit) = (self.fits[ix(domain)], 1 << (domain % 64));
            match word.iter_mut().find(|(known, _)| *known == fit) {
                Some((_, bits)) => *bits |= bit,
                None => word.push((fit, bit)),
            }
            if domain % 64 == 63 || domain + 1 == domains.end {
                for (fit, bits) in word.drain(..) {
                    classes.entry(fit).or_default().insert_word(domain / 64, bits);
                }
            }
        }
        classes
    }

    /// Counts again what differs between `tables` and those counted last.
    fn catch_up(&mut self, tree: &Tree, tables: Tables) {
        if self.tables.is_same(&tables) {
            return;
        }
        let before = std::mem::replace(&mut self.tables, tables);
        let (rows, lowest) = (self.leaves.len(), tree.levels.len() - 1);
        for chunk in 0..before.capacity.chunk_count() {
            if before.is_chunk_same(&self.tables, chunk) {
                continue;
            }
            let start = chunk * CHUNK_ROWS;
            for row in start..rows.min(start + CHUNK_ROWS) {
                if before.is_row_same(&self.tables, row) {
                    continue;
                }
                let (state, pods) = self.counter.count_bare(&self.tables, row);
                self.tally.change(self.leaves[row], -1);
                self.tally.change(state, 1);
                self.leaves[row] = state;
                let leaf = tree.leaf(row);
                self.set(tree, leaf, lowest, self.shape.bare(lowest, pods, 0));
            }
        }
    }

    /// Sets what fits into a domain, and what that means for those above it.
    fn set(&mut self, tree: &Tree, domain: DomainId, level: usize, fit: Bare) {
        let (mut domain, mut fit) = (domain, fit);
        for level in (0..=level).rev() {
            let before = std::mem::replace(&mut self.fits[ix(domain)], fit);
            if before == fit {
                return;
            }
            let classes = &mut self.classes[level];
            if let Some(domains) = classes.get_mut(&before) {
                domains.remove(domain);
                if domains.count == 0 {
                    classes.remove(&before);
                }
            }
            classes.entry(fit).or_default().insert(domain);
            if let Some(above) = level.checked_sub(1) {
                let gained =
                    self.shape.whole(level, fit.pods) - self.shape.whole(level, before.pods);
                let gained_slices = fit.slices - before.slices;
                domain = tree.ancestor(domain, 1);
                let sum = self.fits[ix(domain)];
                fit = self.shape.bare(above, sum.pods + gained, sum.slices + gained_slices);
            }
        }
    }

    pub(super) fn fit(&self, domain: DomainId) -> Bare {
        self.fits[ix(domain)]
    }

    pub(super) fn exclusions(&self) -> Exclusions {
        self.counter.exclusions(&self.tally)
    }

    /// The domains of a level by what fits into them: the fewest slices first, then the fewest pods.
    pub(super) fn classes(&self, level: usize) -> &BTreeMap<Bare, Domains> {
        &self.classes[level]
    }

    /// Slices that fit into all domains of a level together.
    pub(super) fn slices(&self, level: usize) -> i64 {
        self.classes[level].iter().map(|(fit, domains)| fit.slices * domains.count).sum()
    }
}

impl Domains {
    fn insert(&mut self, domain: DomainId) {
        self.insert_word(domain / 64, 1 << (domain % 64));
    }

    fn insert_word(&mut self, position: u32, bits: u64) {
        let word = self.words.entry(position).or_insert(0);
        self.count += i64::from((bits & !*word).count_ones());
        *word |= bits;
    }

    fn remove(&mut self, domain: DomainId) {
        let bit = 1 << (domain % 64);
        if let Some(word) = self.words.get_mut(&(domain / 64)) {
            self.count -= i64::from(*word & bit != 0);
            *word &= !bit;
            if *word == 0 {
                self.words.remove(&(domain / 64));
            }
        }
    }

    /// In order.
    pub(super) fn iter(&self) -> impl Iterator<Item = DomainId> {
        self.words.iter().flat_map(|(position, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| position * 64 + bit)
        })
    }
}
