//! In which order queues are visited when fair sharing looks for victims.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::name::QueueName;
use super::super::quota::NodeId;
use super::super::share::Share;
use super::super::snapshot::{QueueState, Running};
use super::super::whatif::WhatIf;
use super::candidate::compare;

/// The queues that still have candidates, visited from the unfairest down.
///
/// From the root it goes down into the child with the highest share; a cohort wins ties with a queue, and of two
/// equal queues the one whose first candidate comes first. Children that do not borrow are left out for good, except
/// on the way to the preemptor. Between two calls of [`TargetQueues::next`] the caller must either
/// [`pop`](TargetQueues::pop) a candidate of the queue it was given or [`drop_queue`](TargetQueues::drop_queue) it,
/// and may take away workloads of that queue only.
#[derive(Debug)]
pub struct TargetQueues<'a> {
    preemptor: NodeId,
    preemptor_queue: QueueName,
    above_preemptor: BTreeSet<NodeId>,
    candidates: BTreeMap<NodeId, VecDeque<&'a Running>>,
    pruned: BTreeSet<NodeId>,
    /// Shares that still hold.
    shares: BTreeMap<NodeId, Share>,
    /// The queue visited last.
    visited: Option<NodeId>,
    now_ms: u64,
}

impl<'a> TargetQueues<'a> {
    /// The queues of `candidates`, which must be in candidate order, as seen from the queue `preemptor`.
    #[must_use]
    pub fn new(
        whatif: &WhatIf<'a>,
        preemptor: &QueueState,
        candidates: impl IntoIterator<Item = &'a Running>,
        now_ms: u64,
    ) -> Self {
        let snapshot = whatif.snapshot();
        let mut by_queue: BTreeMap<NodeId, VecDeque<&Running>> = BTreeMap::new();
        for running in candidates {
            if let Some(queue) = snapshot.queue(&running.queue) {
                by_queue.entry(queue.node).or_default().push_back(running);
            }
        }
        Self {
            preemptor: preemptor.node,
            preemptor_queue: preemptor.spec.name.clone(),
            above_preemptor: snapshot.tree().ancestors(preemptor.node).collect(),
            candidates: by_queue,
            pruned: BTreeSet::new(),
            shares: BTreeMap::new(),
            visited: None,
            now_ms,
        }
    }

    /// The queue to visit next, judged by the shares that `whatif` shows now; `None` when there is none left.
    pub fn next(&mut self, whatif: &WhatIf<'a>) -> Option<NodeId> {
        let root = whatif.snapshot().tree().root(self.preemptor);
        if root == self.preemptor {
            return self.has_candidates(self.preemptor).then_some(self.preemptor);
        }
        self.forget_shares_of_visited(whatif);
        // Every round that finds nothing prunes at least one node, so this ends.
        while !self.pruned.contains(&root) {
            if let Some(queue) = self.descend(whatif, root) {
                self.visited = Some(queue);
                return Some(queue);
            }
        }
        None
    }

    /// The caller may have taken workloads away there, which changes the shares from the queue up.
    fn forget_shares_of_visited(&mut self, whatif: &WhatIf<'_>) {
        if let Some(visited) = self.visited.take() {
            self.shares.remove(&visited);
            for cohort in whatif.snapshot().tree().ancestors(visited) {
                self.shares.remove(&cohort);
            }
        }
    }

    /// Whether `queue` has candidates left.
    #[must_use]
    pub fn has_candidates(&self, queue: NodeId) -> bool {
        self.candidates.get(&queue).is_some_and(|candidates| !candidates.is_empty())
    }

    /// Takes the first candidate of `queue`.
    pub fn pop(&mut self, queue: NodeId) -> Option<&'a Running> {
        self.candidates.get_mut(&queue)?.pop_front()
    }

    /// Visits `queue` no more.
    pub fn drop_queue(&mut self, queue: NodeId) {
        self.pruned.insert(queue);
        // A queue without a cohort has no root that could be pruned.
        self.candidates.remove(&queue);
    }

    /// The two nodes just below the lowest cohort above both the preemptor and `queue`: (preemptor's, queue's).
    pub(super) fn below_common_cohort(
        &self,
        whatif: &WhatIf<'_>,
        queue: NodeId,
    ) -> (NodeId, NodeId) {
        let tree = whatif.snapshot().tree();
        let common = tree
            .ancestors(queue)
            .find(|cohort| self.above_preemptor.contains(cohort))
            .expect("candidates are in the preemptor's tree");
        let child_towards = |node: NodeId| {
            std::iter::once(node)
                .chain(tree.ancestors(node))
                .take_while(|&ancestor| ancestor != common)
                .last()
                .expect("a queue is no cohort")
        };
        (child_towards(self.preemptor), child_towards(queue))
    }

    /// Goes down from `cohort` to the queue to visit, or prunes and finds nothing.
    fn descend(&mut self, whatif: &WhatIf<'a>, cohort: NodeId) -> Option<NodeId> {
        let tree = whatif.snapshot().tree();
        let children = tree.children(cohort).iter().copied();
        let is_open = |child: &NodeId| {
            !self.pruned.contains(child) && (tree.is_cohort(*child) || self.has_candidates(*child))
        };
        let open: Vec<NodeId> = children.filter(is_open).collect();
        for &child in &open {
            self.shares.entry(child).or_insert_with(|| Share::of(whatif.ledger(), child));
        }
        let (spent, open): (Vec<NodeId>, Vec<NodeId>) =
            open.into_iter().partition(|&child| self.is_spent(child, tree.is_cohort(child)));
        self.pruned.extend(spent);
        let (cohorts, queues): (Vec<NodeId>, Vec<NodeId>) =
            open.into_iter().partition(|&child| tree.is_cohort(child));
        // Of equal cohorts the last one, of equal queues the one with the first candidate.
        let unfairest_cohort = cohorts.into_iter().max_by(|a, b| self.compare_shares(*a, *b));
        let unfairest_queue = queues
            .into_iter()
            .reduce(|best, queue| if self.is_unfairer(queue, best) { queue } else { best });
        match (unfairest_cohort, unfairest_queue) {
            (None, None) => {
                self.pruned.insert(cohort);
                None
            }
            (Some(cohort), Some(queue)) if self.compare_shares(cohort, queue).is_ge() => {
                self.descend(whatif, cohort)
            }
            (_, Some(queue)) => Some(queue),
            (Some(cohort), None) => self.descend(whatif, cohort),
        }
    }

    fn compare_shares(&self, a: NodeId, b: NodeId) -> Ordering {
        self.shares[&a].compare(&self.shares[&b])
    }

    /// Whether no victim will ever be found at `node`.
    fn is_spent(&self, node: NodeId, is_cohort: bool) -> bool {
        let is_fair = self.shares[&node].is_zero();
        if is_cohort {
            is_fair && !self.above_preemptor.contains(&node)
        } else {
            is_fair && node != self.preemptor
        }
    }

    fn is_unfairer(&self, queue: NodeId, best: NodeId) -> bool {
        let first = |node: NodeId| self.candidates[&node][0];
        let by_candidate =
            || compare(first(best), first(queue), &self.preemptor_queue, self.now_ms);
        self.compare_shares(queue, best).then_with(by_candidate).is_gt()
    }
}
