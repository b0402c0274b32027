//! What fits where, remembered from question to question.
//!
//! Most questions ask about pods of a shape that was asked about before, on nodes of which few have changed since.
//! So the counts of a shape are kept and only the leaves that changed are counted again. A snapshot and its clones
//! share what is remembered: each question compares the tables it stands on with those counted last, chunk by chunk,
//! so that no order of questions and changes can make an answer stale. It changes how fast an answer is, never which.
//!
//! Pods that insist on few nodes by name are another matter: their nodes are remembered, and counted for each question
//! (`narrow`).

#![expect(clippy::disallowed_types, reason = "a memo, not a state machine: one task locks it")]

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::count::{Counter, Demand, LeafState};
use super::counts::{Bare, Counts};
use super::narrow::Narrows;
use super::plan::Plan;
use super::shape::{Cut, Shape};
use super::snapshot::TasSnapshot;
use super::table::{CHUNK_ROWS, Table};
use super::tree::{Tree, ix};

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
    known: Vec<Known>,
    pub(super) narrows: Narrows,
    questions: u64,
}

/// What was counted for one shape.
struct Known {
    shape: Shape,
    /// The number of the question that used it last.
    asked_at: u64,
    leaves: Vec<LeafState>,
    /// What was counted.
    tables: Tables,
    counts: Counts,
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
            shelf.known.clear();
            shelf.narrows = Narrows::default();
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
        if self.narrows.count(snapshot, demand, plan, &tables) {
            return self.narrows.counted();
        }
        let known = self.known.iter().position(|known| known.shape.is_of(demand, plan));
        let position = match known {
            Some(position) => {
                self.known[position].catch_up(&snapshot.tree, tables);
                position
            }
            None => {
                self.make_room();
                self.known.push(Known::new(snapshot, demand, plan, tables));
                self.known.len() - 1
            }
        };
        self.known[position].asked_at = self.questions;
        &self.known[position].counts
    }

    fn make_room(&mut self) {
        if self.known.len() < SHAPES_MAX {
            return;
        }
        let oldest = self.known.iter().enumerate().min_by_key(|(_, known)| known.asked_at);
        if let Some((position, _)) = oldest {
            self.known.swap_remove(position);
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

impl Known {
    fn new(snapshot: &TasSnapshot, demand: &Demand<'_>, plan: &Plan, tables: Tables) -> Self {
        let counter = Counter::new(snapshot, demand);
        let tree = &snapshot.tree;
        let (cut, mut tally) = (Cut::new(plan), counter.tally());
        let mut fits = vec![Bare::default(); tree.len()];
        let mut leaves = Vec::with_capacity(tree.leaves().len());
        let lowest = tree.levels.len() - 1;
        for (row, leaf) in tree.leaves().enumerate() {
            let (state, pods) = counter.count_bare(&tables, row);
            tally.change(state, 1);
            leaves.push(state);
            fits[ix(leaf)] = cut.bare(lowest, pods, 0);
        }
        for level in (0..lowest).rev() {
            for domain in tree.level(level) {
                let children = tree.children(domain);
                let children = &fits[ix(children.start)..ix(children.end)];
                let pods = children.iter().map(|fit| cut.whole(level + 1, fit.pods)).sum();
                let slices = children.iter().map(|fit| fit.slices).sum();
                fits[ix(domain)] = cut.bare(level, pods, slices);
            }
        }
        let counts = Counts::of_all(tree, counter.into(), cut, fits, tally);
        Self { shape: Shape::new(demand, plan), asked_at: 0, leaves, tables, counts }
    }

    /// Counts again what differs between `tables` and those counted last.
    fn catch_up(&mut self, tree: &Tree, tables: Tables) {
        if self.tables.is_same(&tables) {
            return;
        }
        let before = std::mem::replace(&mut self.tables, tables);
        let rows = self.leaves.len();
        for chunk in 0..before.capacity.chunk_count() {
            if before.is_chunk_same(&self.tables, chunk) {
                continue;
            }
            let start = chunk * CHUNK_ROWS;
            for row in start..rows.min(start + CHUNK_ROWS) {
                if before.is_row_same(&self.tables, row) {
                    continue;
                }
                let (state, pods) = self.counts.counter.count_bare(&self.tables, row);
                self.counts.tally.change(self.leaves[row], -1);
                self.counts.tally.change(state, 1);
                self.leaves[row] = state;
                self.counts.set_leaf(tree, tree.leaf(row), pods);
            }
        }
    }
}
