//! In which order the entries of a cycle are processed.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

use super::super::quota::NodeId;
use super::super::share::Share;
use super::super::whatif::WhatIf;
use super::super::workload::{Usage, Workload};
use super::nominate::Entry;
use super::{Options, Rule};

/// Entries still to be processed.
#[derive(Debug)]
pub(super) struct Order<'a> {
    options: &'a Options,
    waiting: Waiting<'a>,
}

#[derive(Debug)]
enum Waiting<'a> {
    /// In a fixed order.
    Classical(VecDeque<Entry<'a>>),
    /// By a tournament before every step; per queue in a fixed order.
    FairSharing(BTreeMap<NodeId, VecDeque<Entry<'a>>>),
}

impl<'a> Order<'a> {
    pub(super) fn new(mut entries: Vec<Entry<'a>>, options: &'a Options) -> Self {
        entries.sort_by(|a, b| compare(a, b, options));
        if !options.is_fair_sharing() {
            return Self { options, waiting: Waiting::Classical(entries.into()) };
        }
        let mut by_queue: BTreeMap<NodeId, VecDeque<Entry<'_>>> = BTreeMap::new();
        for entry in entries {
            by_queue.entry(entry.queue.node).or_default().push_back(entry);
        }
        Self { options, waiting: Waiting::FairSharing(by_queue) }
    }

    /// The entry to process next, as things are in `whatif`, which is left as it was.
    pub(super) fn next(&mut self, whatif: &mut WhatIf<'a>) -> Option<Entry<'a>> {
        let options = self.options;
        match &mut self.waiting {
            Waiting::Classical(entries) => entries.pop_front(),
            Waiting::FairSharing(by_queue) => {
                let queue = Tournament { whatif, by_queue, options }.winner()?;
                let entries = by_queue.get_mut(&queue)?;
                let entry = entries.pop_front();
                if entries.is_empty() {
                    by_queue.remove(&queue);
                }
                entry
            }
        }
    }
}

/// Those that hold quota first, then those that borrow from nearer by, higher priority, longer waiting.
fn compare(a: &Entry<'_>, b: &Entry<'_>, options: &Options) -> Ordering {
    let rank = |entry: &Entry<'_>| {
        (entry.workload.reservation.is_none(), entry.plan.assignment.borrow_height)
    };
    rank(a).cmp(&rank(b)).then_with(|| compare_seniority(a.workload, b.workload, options))
}

fn compare_seniority(a: &Workload, b: &Workload, options: &Options) -> Ordering {
    let by_priority = if options.is_on(Rule::PriorityFirst) {
        b.effective_priority().cmp(&a.effective_priority())
    } else {
        Ordering::Equal
    };
    by_priority.then_with(|| a.queued_at_ms().cmp(&b.queued_at_ms()))
}

/// At every cohort the child with the smallest share, counted as if its entry were admitted, goes on to the next
/// round above.
struct Tournament<'t, 'a> {
    whatif: &'t mut WhatIf<'a>,
    by_queue: &'t BTreeMap<NodeId, VecDeque<Entry<'a>>>,
    options: &'t Options,
}

/// A queue's first entry in the tournament.
struct Contestant<'t> {
    queue: NodeId,
    workload: &'t Workload,
    requested: Usage,
    /// The share, with the entry admitted, of each node from the queue up, by the cohort above that node.
    shares: BTreeMap<NodeId, Share>,
}

impl<'t> Tournament<'t, '_> {
    fn winner(&mut self) -> Option<NodeId> {
        let tree = self.whatif.snapshot().tree();
        let first = *self.by_queue.keys().next()?;
        let root = tree.root(first);
        if root == first {
            return Some(first);
        }
        let mut contestants = Vec::new();
        for (&queue, entries) in self.by_queue {
            if tree.root(queue) == root
                && let Some(entry) = entries.front()
            {
                contestants.push(self.enter(queue, entry));
            }
        }
        self.play(root, &contestants).map(|winner| winner.queue)
    }

    fn enter(&mut self, queue: NodeId, entry: &'t Entry<'_>) -> Contestant<'t> {
        let requested = entry.new_quota();
        let tree = self.whatif.snapshot().tree();
        self.whatif.charge(queue, &requested);
        let mut shares = BTreeMap::new();
        let mut node = queue;
        for above in tree.ancestors(queue) {
            shares.insert(above, Share::of(self.whatif.ledger(), node));
            node = above;
        }
        self.whatif.refund(queue, &requested);
        Contestant { queue, workload: entry.workload, requested, shares }
    }

    /// The winner among the queues below `cohort`.
    fn play<'c>(
        &self,
        cohort: NodeId,
        contestants: &'c [Contestant<'t>],
    ) -> Option<&'c Contestant<'t>> {
        let tree = self.whatif.snapshot().tree();
        let (cohorts, queues): (Vec<NodeId>, Vec<NodeId>) =
            tree.children(cohort).iter().partition(|&&child| tree.is_cohort(child));
        let winners_below = cohorts.into_iter().filter_map(|child| self.play(child, contestants));
        let own = queues
            .into_iter()
            .filter_map(|queue| contestants.iter().find(|contestant| contestant.queue == queue));
        // Of equals the first one wins: cohorts before queues, each in the order of the tree.
        winners_below.chain(own).reduce(|best, contestant| {
            if contestant.beats(best, cohort, self.options) { contestant } else { best }
        })
    }
}

impl Contestant<'_> {
    /// Whether it goes before `other` in the round at `cohort`: first those whose side does not borrow what they
    /// ask for, then the smaller share, then seniority.
    fn beats(&self, other: &Self, cohort: NodeId, options: &Options) -> bool {
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
