//! Victims by fair shares.
//!
//! Shares are judged as if the preemptor already ran. Its own workloads go by priority alone. In other queues a
//! workload goes if the preemptor stays within its own quota, or if the strategy finds that the preemptor's side
//! remains no unfairer than the victim's.

use super::super::model::PreemptionPolicy;
use super::super::quota::NodeId;
use super::super::share::Share;
use super::super::snapshot::{QueueState, Running};
use super::super::whatif::WhatIf;
use super::candidate::{may_satisfy, satisfies, sort_candidates};
use super::fair_order::TargetQueues;
use super::{Claim, PreemptionReason, Targets, fill_back, fits, put_back_all};

/// How victims are chosen by fair shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FairSharing {
    /// When a workload of an unfair queue gives way; each strategy is tried on what the one before rejected.
    pub strategies: Vec<FairStrategy>,
    /// Whether a queue that stays within its own quota takes it back whatever the shares are
    /// (`FairSharingPreemptWithinNominal`, on).
    pub reclaims_own_quota: bool,
    /// Whether candidates once rejected are tried again after victims in the own queue have lowered its share
    /// (`FairSharingReevaluatePreemptionCandidates`, off).
    pub tries_again: bool,
}

impl Default for FairSharing {
    fn default() -> Self {
        Self {
            strategies: FairStrategy::DEFAULT.to_vec(),
            reclaims_own_quota: true,
            tries_again: false,
        }
    }
}

/// When a workload of an unfair queue gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FairStrategy {
    /// If the preemptor's new share is at most what the victim's side has left.
    LessThanOrEqualToFinalShare,
    /// If the preemptor's new share is below what the victim's side has now.
    LessThanInitialShare,
}

impl FairStrategy {
    /// What Kueue uses if nothing is configured.
    pub const DEFAULT: [Self; 2] = [Self::LessThanOrEqualToFinalShare, Self::LessThanInitialShare];

    fn is_met(self, preemptor_new: &Share, target_old: &Share, target_new: &Share) -> bool {
        match self {
            Self::LessThanOrEqualToFinalShare => preemptor_new.compare(target_new).is_le(),
            Self::LessThanInitialShare => preemptor_new.compare(target_old).is_lt(),
        }
    }
}

/// The candidates in the order in which each queue gives them up.
#[derive(Clone, Debug)]
pub(super) struct Candidates<'a, 'r> {
    queue: &'a QueueState,
    rule: &'r FairSharing,
    now_ms: u64,
    all: Vec<&'a Running>,
}

impl<'a, 'r> Candidates<'a, 'r> {
    pub(super) fn collect(
        whatif: &WhatIf<'a>,
        claim: &Claim<'_>,
        queue: &'a QueueState,
        rule: &'r FairSharing,
        now_ms: u64,
    ) -> Self {
        let mut all = find_candidates(whatif, claim, queue);
        sort_candidates(&mut all, |running| *running, &queue.spec.name, now_ms);
        Self { queue, rule, now_ms, all }
    }

    pub(super) fn running(&self) -> impl Iterator<Item = &'a Running> {
        self.all.iter().copied()
    }

    pub(super) fn reordered(&self, chosen: &[usize]) -> Self {
        let all = chosen.iter().map(|&index| self.all[index]).collect();
        Self { all, ..*self }
    }

    pub(super) fn take(&self, whatif: &mut WhatIf<'a>, claim: &Claim<'_>) -> Targets<'a> {
        let Self { queue, rule, now_ms, all } = self;
        let mut search =
            Search { claim, queue, fair_sharing: rule, now_ms: *now_ms, targets: Targets::new() };
        whatif.charge(claim.node, &claim.usage);
        let fits = search.run(whatif, all.clone());
        whatif.refund(claim.node, &claim.usage);
        if fits {
            fill_back(whatif, claim, search.targets, true)
        } else {
            put_back_all(whatif, &search.targets);
            Targets::new()
        }
    }
}

/// Who may be preempted: by policy, in the own queue and in queues that borrow something contested.
fn find_candidates<'a>(
    whatif: &WhatIf<'a>,
    claim: &Claim<'_>,
    queue: &'a QueueState,
) -> Vec<&'a Running> {
    let policies = &queue.spec.preemption;
    let may_go = |policy: PreemptionPolicy, running: &Running| {
        satisfies(policy, claim.workload, &running.workload) && running.uses_any(&claim.contested)
    };
    let may_any_go = |policy, lowest| may_satisfy(policy, claim.workload, lowest);
    let mut candidates: Vec<&Running> = Vec::new();
    if may_any_go(policies.within_queue, queue.lowest_priority()) {
        let running = whatif.running_in(queue);
        candidates.extend(running.filter(|running| may_go(policies.within_queue, running)));
    }
    let snapshot = whatif.snapshot();
    let lowest = snapshot.lowest_priority_around(claim.node);
    if !may_any_go(policies.reclaim_within_cohort, lowest) {
        return candidates;
    }
    let mut pending = vec![snapshot.tree().root(claim.node)];
    while let Some(node) = pending.pop() {
        pending.extend(snapshot.tree().children(node));
        let Some(other) = snapshot.queue_at(node) else { continue };
        if node != claim.node
            && may_any_go(policies.reclaim_within_cohort, other.lowest_priority())
            && whatif.is_above_quota(node, &claim.contested)
        {
            let running = whatif.running_in(other);
            candidates
                .extend(running.filter(|running| may_go(policies.reclaim_within_cohort, running)));
        }
    }
    candidates
}

struct Search<'c, 'a> {
    claim: &'c Claim<'c>,
    queue: &'a QueueState,
    fair_sharing: &'c FairSharing,
    now_ms: u64,
    targets: Targets<'a>,
}

/// `Ok` when the claim fits, else the candidates that a second strategy may try.
type Found<'a> = Result<(), Vec<&'a Running>>;

impl<'a> Search<'_, 'a> {
    /// Takes victims away until the claim fits; whether it does.
    fn run(&mut self, whatif: &mut WhatIf<'a>, candidates: Vec<&'a Running>) -> bool {
        let Some((&first, others)) = self.fair_sharing.strategies.split_first() else {
            return false;
        };
        let mut found = self.run_first(whatif, candidates, first);
        let took_own =
            self.targets.iter().any(|(running, _)| running.queue == self.queue.spec.name);
        if self.fair_sharing.tries_again && took_own {
            found = found.or_else(|rejected| self.run_first(whatif, rejected, first));
        }
        if !others.is_empty() {
            found = found.or_else(|rejected| self.run_second(whatif, rejected));
        }
        found.is_ok()
    }

    /// Takes `running` away; whether the claim fits now.
    fn take(
        &mut self,
        whatif: &mut WhatIf<'a>,
        running: &'a Running,
        reason: PreemptionReason,
    ) -> bool {
        whatif.take_away(running);
        self.targets.push((running, reason));
        // The claim is charged while shares are judged, but it must not be in its own way.
        whatif.refund(self.claim.node, &self.claim.usage);
        let fits = fits(whatif, self.claim, true);
        whatif.charge(self.claim.node, &self.claim.usage);
        fits
    }

    fn run_first(
        &mut self,
        whatif: &mut WhatIf<'a>,
        candidates: Vec<&'a Running>,
        strategy: FairStrategy,
    ) -> Found<'a> {
        let mut rejected = Vec::new();
        let mut queues = TargetQueues::new(whatif, self.queue, candidates, self.now_ms);
        let is_within_quota = self.fair_sharing.reclaims_own_quota
            && !whatif.is_above_quota(self.claim.node, &self.claim.contested);
        while let Some(queue) = queues.next(whatif) {
            let unconditional = if queue == self.claim.node {
                Some(PreemptionReason::InClusterQueue)
            } else if is_within_quota {
                Some(PreemptionReason::InCohortReclamation)
            } else {
                None
            };
            let taken = match unconditional {
                Some(reason) => queues.pop(queue).map(|running| (running, reason)),
                None => find_unfair(whatif, &mut queues, queue, strategy, &mut rejected)
                    .map(|running| (running, PreemptionReason::InCohortFairSharing)),
            };
            if let Some((running, reason)) = taken
                && self.take(whatif, running, reason)
            {
                return Ok(());
            }
        }
        Err(rejected)
    }

    /// Less-than-initial-share on what the first strategy rejected. It does not depend on the victim, so one try
    /// per queue is enough.
    fn run_second(&mut self, whatif: &mut WhatIf<'a>, rejected: Vec<&'a Running>) -> Found<'a> {
        let mut queues = TargetQueues::new(whatif, self.queue, rejected, self.now_ms);
        while let Some(queue) = queues.next(whatif) {
            let (preemptor_side, target_side) = queues.below_common_cohort(whatif, queue);
            let preemptor_new = Share::of(whatif.ledger(), preemptor_side);
            let target_old = Share::of(whatif.ledger(), target_side);
            let is_met =
                FairStrategy::LessThanInitialShare.is_met(&preemptor_new, &target_old, &target_old);
            if is_met
                && let Some(running) = queues.pop(queue)
                && self.take(whatif, running, PreemptionReason::InCohortFairSharing)
            {
                return Ok(());
            }
            queues.drop_queue(queue);
        }
        Err(Vec::new())
    }
}

/// The first candidate of `queue` whose going meets `strategy`; those before it are rejected.
fn find_unfair<'a>(
    whatif: &mut WhatIf<'a>,
    queues: &mut TargetQueues<'a>,
    queue: NodeId,
    strategy: FairStrategy,
    rejected: &mut Vec<&'a Running>,
) -> Option<&'a Running> {
    let (preemptor_side, target_side) = queues.below_common_cohort(whatif, queue);
    let preemptor_new = Share::of(whatif.ledger(), preemptor_side);
    let target_old = Share::of(whatif.ledger(), target_side);
    while let Some(running) = queues.pop(queue) {
        whatif.take_away(running);
        let target_new = Share::of(whatif.ledger(), target_side);
        whatif.put_back(running);
        if strategy.is_met(&preemptor_new, &target_old, &target_new) {
            return Some(running);
        }
        rejected.push(running);
    }
    None
}
