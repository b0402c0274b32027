//! Fair sharing's order: before every step the waiting workloads play a tournament.
//!
//! At every cohort the child with the smallest share, counted as if its entry were admitted, goes on to the round
//! above. Shares are kept from step to step; only those that the last step may have changed are computed anew.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

use super::super::quota::{NodeId, QuotaTree};
use super::super::share::Share;
use super::super::whatif::WhatIf;
use super::super::workload::{Usage, Workload};
use super::nominate::Entry;
use super::order::compare_seniority;
use super::{Options, Rule};

/// The waiting entries, per queue in a fixed order.
#[derive(Debug)]
pub(super) struct Tournament<'a> {
    options: &'a Options<'a>,
    entries: BTreeMap<NodeId, VecDeque<Entry<'a>>>,
    /// The first entry of each queue that has been looked at since anything near it changed.
    contestants: BTreeMap<NodeId, Contestant<'a>>,
}

/// A queue's first entry.
#[derive(Debug)]
struct Contestant<'a> {
    queue: NodeId,
    workload: &'a Workload,
    requested: Usage,
    /// The share, with the entry admitted, of each node from the queue up, by the cohort above that node.
    shares: BTreeMap<NodeId, Share>,
}

impl<'a> Tournament<'a> {
    /// A tournament of `entries`, each queue's in the order given.
    pub(super) fn new(entries: Vec<Entry<'a>>, options: &'a Options<'a>) -> Self {
        let mut by_queue: BTreeMap<NodeId, VecDeque<Entry<'_>>> = BTreeMap::new();
        for entry in entries {
            by_queue.entry(entry.queue.node).or_default().push_back(entry);
        }
        Self { options, entries: by_queue, contestants: BTreeMap::new() }
    }

    /// Takes the winner, judged by the shares in `whatif`. Between two calls only the winner may be charged.
    pub(super) fn next(&mut self, whatif: &mut WhatIf<'a>) -> Option<Entry<'a>> {
        let tree = whatif.snapshot().tree();
        let first = *self.entries.keys().next()?;
        let root = tree.root(first);
        let winner = if root == first {
            first
        } else {
            self.enter_all(whatif, root);
            self.play(tree, root)?.queue
        };
        self.forget_around(tree, winner);
        let entries = self.entries.get_mut(&winner)?;
        let entry = entries.pop_front();
        if entries.is_empty() {
            self.entries.remove(&winner);
        }
        entry
    }

    fn enter_all(&mut self, whatif: &mut WhatIf<'a>, root: NodeId) {
        let tree = whatif.snapshot().tree();
        for (&queue, entries) in &self.entries {
            if tree.root(queue) == root
                && !self.contestants.contains_key(&queue)
                && let Some(entry) = entries.front()
            {
                self.contestants.insert(queue, Contestant::new(whatif, queue, entry));
            }
        }
    }

    /// Forgets the shares that change when `queue` is charged: its own, and those of queues with which it shares a
    /// cohort below the root.
    fn forget_around(&mut self, tree: &QuotaTree, queue: NodeId) {
        let below_root = tree.ancestors(queue).filter(|&cohort| tree.parent(cohort).is_some());
        let touched: Vec<NodeId> = below_root.collect();
        self.contestants.retain(|&other, _| {
            other != queue && !tree.ancestors(other).any(|cohort| touched.contains(&cohort))
        });
    }

    /// The winner among the queues below `cohort`. Of equals the first one wins: cohorts before queues, each in the
    /// order of the tree.
    fn play(&self, tree: &QuotaTree, cohort: NodeId) -> Option<&Contestant<'a>> {
        let children = tree.children(cohort);
        let cohorts = children.iter().filter(|&&child| tree.is_cohort(child));
        let winners_below = cohorts.filter_map(|&child| self.play(tree, child));
        let own = children.iter().filter_map(|child| self.contestants.get(child));
        winners_below.chain(own).reduce(|best, contestant| {
            if contestant.beats(best, cohort, self.options) { contestant } else { best }
        })
    }
}

impl<'a> Contestant<'a> {
    fn new(whatif: &mut WhatIf<'a>, queue: NodeId, entry: &Entry<'a>) -> Self {
        let requested = entry.new_quota();
        let tree = whatif.snapshot().tree();
        whatif.charge(queue, &requested);
        let mut shares = BTreeMap::new();
        let mut node = queue;
        for above in tree.ancestors(queue) {
            shares.insert(above, Share::of(whatif.ledger(), node));
            node = above;
        }
        whatif.refund(queue, &requested);
        Self { queue, workload: entry.workload, requested, shares }
    }

    /// Whether it goes before `other` in the round at `cohort`: first those whose side does not borrow what they
    /// ask for, then the smaller share, then seniority.
    fn beats(&self, other: &Self, cohort: NodeId, options: &Options<'_>) -> bool {
        let (Some(mine), Some(theirs)) = (self.shares.get(&cohort), other.shares.get(&cohort))
        else {
            return false;
        };
        let by_borrowing = if options.is_on(Rule::NonBorrowingFirst) {
            mine.borrows_any(&self.requested).cmp(&theirs.borrows_any(&other.requested))
        } else {
            Ordering::Equal
        };
        by_borrowing
            .then_with(|| mine.compare(theirs))
            .then_with(|| compare_seniority(self.workload, other.workload, options))
            .is_lt()
    }
}
