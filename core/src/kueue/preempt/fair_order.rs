//! In which order queues are visited when fair sharing looks for victims.

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
/// [`pop`](TargetQueues::pop) a candidate of the queue it was given or [`drop_queue`](TargetQueues::drop_queue) it.
#[derive(Debug)]
pub struct TargetQueues<'a> {
    preemptor: NodeId,
    preemptor_queue: QueueName,
    above_preemptor: BTreeSet<NodeId>,
    candidates: BTreeMap<NodeId, VecDeque<&'a Running>>,
    pruned: BTreeSet<NodeId>,
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
            now_ms,
        }
    }

    /// The queue to visit next, judged by the shares that `whatif` shows now; `None` when there is none left.
    pub fn next(&mut self, whatif: &WhatIf<'a>) -> Option<NodeId> {
        let root = whatif.snapshot().tree().root(self.preemptor);
        if root == self.preemptor {
            return self.has_candidates(self.preemptor).then_some(self.preemptor);
        }
        // Every round that finds nothing prunes at least one node, so this ends.
        while !self.pruned.contains(&root) {
            if let Some(queue) = self.descend(whatif, root) {
                return Some(queue);
            }
        }
        None
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
        let mut highest_queue: Option<(NodeId, Share)> = None;
        let mut highest_cohort: Option<(NodeId, Share)> = None;
        for &child in tree.children(cohort) {
            if self.pruned.contains(&child) {
                continue;
            }
            let share = Share::of(whatif.ledger(), child);
            if self.is_spent(child, tree.is_cohort(child), &share) {
                self.pruned.insert(child);
            } else if tree.is_cohort(child) {
                // Of equal cohorts the last one, of equal queues the one with the first candidate.
                if highest_cohort.as_ref().is_none_or(|(_, best)| share.compare(best).is_ge()) {
                    highest_cohort = Some((child, share));
                }
            } else if self.is_unfairer(child, &share, highest_queue.as_ref()) {
                highest_queue = Some((child, share));
            }
        }
        match (highest_cohort, highest_queue) {
            (None, None) => {
                self.pruned.insert(cohort);
                None
            }
            (Some((cohort, share)), Some((_, best))) if share.compare(&best).is_ge() => {
                self.descend(whatif, cohort)
            }
            (_, Some((queue, _))) => Some(queue),
            (Some((cohort, _)), None) => self.descend(whatif, cohort),
        }
    }

    /// Whether no victim will ever be found at `node`.
    fn is_spent(&self, node: NodeId, is_cohort: bool, share: &Share) -> bool {
        if is_cohort {
            share.is_zero() && !self.above_preemptor.contains(&node)
        } else {
            (share.is_zero() && node != self.preemptor) || !self.has_candidates(node)
        }
    }

    fn is_unfairer(&self, queue: NodeId, share: &Share, best: Option<&(NodeId, Share)>) -> bool {
        let Some((best_queue, best_share)) = best else { return true };
        share
            .compare(best_share)
            .then_with(|| {
                let first = |node: NodeId| self.candidates[&node][0];
                compare(first(*best_queue), first(queue), &self.preemptor_queue, self.now_ms)
            })
            .is_gt()
    }
}
