//! Victims by priority and quota, over a whole tree of cohorts.
//!
//! Three classes of candidates, taken in this order (those already leaving before all others):
//! 1. *hierarchical*: the preemptor's own subtree has quota for it, and the candidate's does not;
//! 2. *by priority*: other queues that borrow, where only priority decides;
//! 3. the preemptor's own queue.

use super::super::model::{BorrowWithinCohort, PreemptionPolicy};
use super::super::quota::NodeId;
use super::super::snapshot::{QueueState, Running};
use super::super::whatif::WhatIf;
use super::candidate::{may_satisfy, satisfies, sort_candidates};
use super::{Claim, PreemptionReason, Targets, fill_back, fits, put_back_all};

/// On which ground a candidate may be preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ground {
    /// It is in the preemptor's own queue.
    OwnQueue,
    /// The preemptor is nearer to the quota that the candidate uses.
    Hierarchy,
    /// Only if the preemptor's queue does not borrow afterwards.
    WithoutBorrowing,
    /// Even if the preemptor's queue borrows afterwards.
    WhileBorrowing,
}

impl Ground {
    fn reason(self) -> PreemptionReason {
        match self {
            Self::OwnQueue => PreemptionReason::InClusterQueue,
            Self::Hierarchy | Self::WithoutBorrowing => PreemptionReason::InCohortReclamation,
            Self::WhileBorrowing => PreemptionReason::InCohortReclaimWhileBorrowing,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Candidate<'a> {
    running: &'a Running,
    /// Its queue.
    node: NodeId,
    /// The lowest cohort above both its queue and the preemptor's; `None` in the preemptor's own queue.
    common: Option<NodeId>,
    ground: Ground,
}

/// The candidates class by class, and which classes there are.
#[derive(Clone, Debug)]
pub(super) struct Candidates<'a> {
    queue: &'a QueueState,
    all: Vec<Candidate<'a>>,
    has_other_queues: bool,
    has_hierarchical: bool,
}

impl<'a> Candidates<'a> {
    pub(super) fn collect(
        whatif: &WhatIf<'a>,
        claim: &Claim<'_>,
        queue: &'a QueueState,
        now_ms: u64,
    ) -> Self {
        Self::new(queue, Search { whatif, claim, queue }.candidates(now_ms))
    }

    fn new(queue: &'a QueueState, all: Vec<Candidate<'a>>) -> Self {
        let is_other = |candidate: &Candidate<'_>| candidate.ground != Ground::OwnQueue;
        let is_hierarchical = |candidate: &Candidate<'_>| candidate.ground == Ground::Hierarchy;
        let has_other_queues = all.iter().any(is_other);
        let has_hierarchical = all.iter().any(is_hierarchical);
        Self { queue, all, has_other_queues, has_hierarchical }
    }

    pub(super) fn running(&self) -> impl Iterator<Item = &'a Running> {
        self.all.iter().map(|candidate| candidate.running)
    }

    pub(super) fn reordered(&self, chosen: &[usize]) -> Self {
        Self::new(self.queue, chosen.iter().map(|&index| self.all[index]).collect())
    }

    pub(super) fn take(&self, whatif: &mut WhatIf<'a>, claim: &Claim<'_>) -> Targets<'a> {
        for &may_borrow in attempts(whatif, claim, self) {
            let mut targets = Targets::new();
            for candidate in &self.all {
                if !is_valid(whatif, claim, candidate, may_borrow) {
                    continue;
                }
                whatif.take_away(candidate.running);
                targets.push((candidate.running, candidate.ground.reason()));
                if fits(whatif, claim, may_borrow) {
                    return fill_back(whatif, claim, targets, may_borrow);
                }
            }
            put_back_all(whatif, &targets);
        }
        Targets::new()
    }
}

/// Whether to try with borrowing, without, or both. Without it there are more candidates but less room.
fn attempts(
    whatif: &WhatIf<'_>,
    claim: &Claim<'_>,
    candidates: &Candidates<'_>,
) -> &'static [bool] {
    let may_not_borrow =
        candidates.queue.spec.preemption.borrow_within_cohort == BorrowWithinCohort::Never;
    let is_under_nominal = claim.contested.iter().all(|fr| {
        whatif.ledger().usage(claim.node, fr)
            < whatif.snapshot().tree().quota(claim.node, fr).nominal
    });
    if !candidates.has_other_queues || (may_not_borrow && !is_under_nominal) {
        &[true]
    } else if may_not_borrow && !candidates.has_hierarchical {
        &[false, true]
    } else {
        &[true, false]
    }
}

/// Whether the candidate may still be taken: taking others may have brought its queue, or a cohort above it, back
/// to its quota.
fn is_valid(
    whatif: &WhatIf<'_>,
    claim: &Claim<'_>,
    candidate: &Candidate<'_>,
    may_borrow: bool,
) -> bool {
    if candidate.ground == Ground::OwnQueue {
        return true;
    }
    if may_borrow && candidate.ground == Ground::WithoutBorrowing {
        return false;
    }
    let tree = whatif.snapshot().tree();
    std::iter::once(candidate.node)
        .chain(tree.ancestors(candidate.node))
        .take_while(|&node| Some(node) != candidate.common)
        .all(|node| whatif.is_above_quota(node, &claim.contested))
}

/// Collects candidates.
struct Search<'w, 'a, 'c> {
    whatif: &'w WhatIf<'a>,
    claim: &'c Claim<'c>,
    queue: &'a QueueState,
}

impl<'a> Search<'_, 'a, '_> {
    fn candidates(&self, now_ms: u64) -> Vec<Candidate<'a>> {
        let mut own = Vec::new();
        if self.queue.spec.preemption.within_queue != PreemptionPolicy::Never {
            self.collect_queue(self.queue, None, false, &mut own);
        }
        let (mut hierarchical, mut by_priority) = self.in_other_queues();
        for list in [&mut hierarchical, &mut by_priority, &mut own] {
            sort_candidates(list, |candidate| candidate.running, &self.queue.spec.name, now_ms);
        }
        let mut all = [hierarchical, by_priority, own].concat();
        // Those already leaving go before all others, whatever their class.
        all.sort_by_key(|candidate| !candidate.running.workload.is_being_evicted());
        all
    }

    /// Candidates in other queues: (hierarchical, by priority).
    fn in_other_queues(&self) -> (Vec<Candidate<'a>>, Vec<Candidate<'a>>) {
        let (mut hierarchical, mut by_priority) = (Vec::new(), Vec::new());
        let policy = self.queue.spec.preemption.reclaim_within_cohort;
        let lowest = self.whatif.snapshot().lowest_priority_around(self.claim.node);
        if !may_satisfy(policy, self.claim.workload, lowest) {
            return (hierarchical, by_priority);
        }
        let ledger = self.whatif.ledger();
        let (mut has_advantage, mut remaining) =
            ledger.fits_in_quota(self.claim.node, &self.claim.usage);
        let mut done = self.claim.node;
        for cohort in ledger.tree().ancestors(self.claim.node) {
            let found = if has_advantage { &mut hierarchical } else { &mut by_priority };
            self.collect_subtree(cohort, cohort, done, has_advantage, found);
            let (fits, beyond) = ledger.fits_in_quota(cohort, &remaining);
            // Once a subtree around the preemptor has quota for it, that holds for all larger ones.
            has_advantage |= fits;
            remaining = beyond;
            done = cohort;
        }
        (hierarchical, by_priority)
    }

    /// Collects below `cohort`, except below `done`, where nodes are above their quota all the way down.
    fn collect_subtree(
        &self,
        cohort: NodeId,
        common: NodeId,
        done: NodeId,
        has_advantage: bool,
        found: &mut Vec<Candidate<'a>>,
    ) {
        for &child in self.whatif.snapshot().tree().children(cohort) {
            if child == done || !self.whatif.is_above_quota(child, &self.claim.contested) {
                continue;
            }
            match self.whatif.snapshot().queue_at(child) {
                Some(queue) => self.collect_queue(queue, Some(common), has_advantage, found),
                None => self.collect_subtree(child, common, done, has_advantage, found),
            }
        }
    }

    fn collect_queue(
        &self,
        queue: &'a QueueState,
        common: Option<NodeId>,
        has_advantage: bool,
        found: &mut Vec<Candidate<'a>>,
    ) {
        let policies = &self.queue.spec.preemption;
        let policy =
            if common.is_none() { policies.within_queue } else { policies.reclaim_within_cohort };
        if !may_satisfy(policy, self.claim.workload, queue.lowest_priority()) {
            return;
        }
        for running in self.whatif.running_in(queue) {
            if let Some(ground) = self.ground(running, common.is_none(), has_advantage) {
                found.push(Candidate { running, node: queue.node, common, ground });
            }
        }
    }

    /// On which ground `running` may be preempted, if at all.
    fn ground(&self, running: &Running, is_own: bool, has_advantage: bool) -> Option<Ground> {
        let policies = &self.queue.spec.preemption;
        let policy = if is_own { policies.within_queue } else { policies.reclaim_within_cohort };
        let preemptor = self.claim.workload;
        if !running.uses_any(&self.claim.contested)
            || !satisfies(policy, preemptor, &running.workload)
        {
            return None;
        }
        Some(match policies.borrow_within_cohort {
            _ if is_own => Ground::OwnQueue,
            _ if has_advantage => Ground::Hierarchy,
            BorrowWithinCohort::Never => Ground::WithoutBorrowing,
            BorrowWithinCohort::LowerPriority { max_priority } => {
                let priority = running.workload.effective_priority();
                let is_spared = priority >= preemptor.effective_priority()
                    || max_priority.is_some_and(|max| priority > i64::from(max));
                if is_spared { Ground::WithoutBorrowing } else { Ground::WhileBorrowing }
            }
        })
    }
}
