//! Finding victims: which running workloads must give way so that one workload fits.
//!
//! Two ways, as Kueue has them: by priority and quota (`classical`) and by fair shares (`fair`). Both take
//! victims one by one until the workload fits, then put back every one that turns out not to be needed.
//! This module owns what both share: the request, the order of candidates, the fit and the putting back.

mod candidate;
mod choice;
mod classical;
mod fair;
mod fair_order;

use std::collections::BTreeSet;
use std::fmt;

use super::flavor::Assignment;
use super::name::{FlavorResource, WorkloadKey};
use super::quota::NodeId;
use super::snapshot::{QueueState, Running, Snapshot};
use super::topology::TopologyDemand;
use super::whatif::WhatIf;
use super::workload::{Usage, Workload};

pub use candidate::sort_candidates;
pub use fair::{FairSharing, FairStrategy};
pub use fair_order::TargetQueues;

/// A workload that needs room.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// Its queue's place in the quota tree.
    pub node: NodeId,
    /// What it lacks; only workloads that use some of these can be victims.
    pub contested: BTreeSet<FlavorResource>,
    /// Everything it would use.
    pub usage: Usage,
    /// What must be placed; it fits only if there is room for that too.
    pub topology: TopologyDemand<'a>,
}

impl<'a> Claim<'a> {
    /// What `workload` lacks of the flavors in `assignment`, places aside.
    #[must_use]
    pub fn of_quota(workload: &'a Workload, queue: &QueueState, assignment: &Assignment) -> Self {
        let usage = assignment.usage.iter().filter(|(_, amount)| **amount > 0);
        Self {
            workload,
            node: queue.node,
            contested: assignment.contested().collect(),
            usage: usage.map(|(fr, &amount)| (fr.clone(), amount)).collect(),
            topology: TopologyDemand::default(),
        }
    }
}

/// How victims are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VictimRule {
    /// By priority and quota.
    Classical,
    /// By fair shares.
    FairSharing(FairSharing),
}

/// How victims are chosen.
#[derive(Clone, Debug)]
pub struct VictimPolicy<'s> {
    /// Who may be preempted.
    pub rule: VictimRule,
    /// Which of those are preferred, and who is spared; `None` chooses as Kueue does.
    pub weighing: Option<Weighing<'s>>,
}

impl VictimPolicy<'_> {
    /// Whether victims are chosen by fair shares.
    #[must_use]
    pub fn is_fair_sharing(&self) -> bool {
        match self.rule {
            VictimRule::Classical => false,
            VictimRule::FairSharing(_) => true,
        }
    }

    /// The same without looking for the cheapest: enough to know whether there are victims at all.
    pub(super) fn first_found(&self) -> Self {
        let weighing = self.weighing.map(|weighing| Weighing {
            finds_cheapest: false,
            follows_topology: false,
            ..weighing
        });
        Self { rule: self.rule.clone(), weighing }
    }
}

impl From<VictimRule> for VictimPolicy<'_> {
    /// The rule with Kueue's order.
    fn from(rule: VictimRule) -> Self {
        Self { rule, weighing: None }
    }
}

/// A choice among the victims that the rule allows. It never allows more of them.
#[derive(Clone, Copy)]
pub struct Weighing<'s> {
    /// What it would cost the first workload to have the second taken away. Asked about candidates only.
    pub standing: &'s dyn Fn(&Workload, &Running) -> Standing,
    /// Look for the set that costs least; else the order of candidates is Kueue's.
    pub finds_cheapest: bool,
    /// Look also for sets whose members lie together, if pods must be placed.
    pub follows_topology: bool,
}

impl fmt::Debug for Weighing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { standing: _, finds_cheapest, follows_topology } = self;
        f.debug_struct("Weighing")
            .field("finds_cheapest", finds_cheapest)
            .field("follows_topology", follows_topology)
            .finish_non_exhaustive()
    }
}

/// What taking a running workload away would cost, and whether it may be done now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Work lost and time to start again. Unit: device-milliseconds, or any other that is the same for all.
    pub cost_device_ms: u64,
    /// Work in no checkpoint now. Unit: as above.
    pub at_risk_device_ms: u64,
    /// Whether it is left alone for now. A workload that is leaving anyway is not spared.
    pub is_spared: bool,
}

/// Why a workload is preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PreemptionReason {
    /// The preemptor is in the same queue and has a better claim.
    InClusterQueue,
    /// The preemptor takes back quota of its own that the victim's queue borrowed.
    InCohortReclamation,
    /// As above, while the preemptor's queue borrows too.
    InCohortReclaimWhileBorrowing,
    /// The victim's queue has more than its fair share.
    InCohortFairSharing,
}

impl PreemptionReason {
    /// Kueue's stable name of the reason, as in the condition `Preempted`.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::InClusterQueue => "InClusterQueue",
            Self::InCohortReclamation => "InCohortReclamation",
            Self::InCohortReclaimWhileBorrowing => "InCohortReclaimWhileBorrowing",
            Self::InCohortFairSharing => "InCohortFairSharing",
        }
    }
}

/// A workload that must give way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Victim {
    /// The workload.
    pub workload: WorkloadKey,
    /// Why it.
    pub reason: PreemptionReason,
    /// Whether it is already being evicted, so that no new eviction is needed.
    pub is_leaving: bool,
}

/// Workloads taken away so far, in the order in which they were.
type Targets<'a> = Vec<(&'a Running, PreemptionReason)>;

/// Which workloads must give way so that `claim` fits; none if no choice of victims makes it fit.
///
/// `now_ms` stands for the reservation time of candidates that have none. `whatif` is left as it was.
#[must_use]
pub fn find_victims(
    whatif: &mut WhatIf<'_>,
    claim: &Claim<'_>,
    policy: &VictimPolicy<'_>,
    now_ms: u64,
) -> Vec<Victim> {
    to_victims(&find_targets(whatif, claim, policy, now_ms))
}

pub(super) fn find_targets<'a>(
    whatif: &mut WhatIf<'a>,
    claim: &Claim<'_>,
    policy: &VictimPolicy<'_>,
    now_ms: u64,
) -> Targets<'a> {
    let Some(candidates) = Candidates::collect(whatif, claim, &policy.rule, now_ms) else {
        return Targets::new();
    };
    match &policy.weighing {
        None => candidates.take(whatif, claim),
        Some(weighing) => choice::find_targets(whatif, claim, &candidates, weighing),
    }
}

/// Whether anybody who runs could be preempted for `workload` of `queue`, by priority alone. If not, there is no victim,
/// whatever rule and topology say.
#[must_use]
pub fn may_preempt_anybody(snapshot: &Snapshot, queue: &QueueState, workload: &Workload) -> bool {
    let policies = &queue.spec.preemption;
    let around = snapshot.lowest_priority_around(queue.node);
    candidate::may_satisfy(policies.within_queue, workload, queue.lowest_priority())
        || candidate::may_satisfy(policies.reclaim_within_cohort, workload, around)
}

/// Who may be preempted by the rule for `claim`, in Kueue's order; spared ones too.
#[must_use]
pub fn find_candidates<'a>(
    whatif: &WhatIf<'a>,
    claim: &Claim<'_>,
    rule: &VictimRule,
    now_ms: u64,
) -> Vec<&'a Running> {
    let candidates = Candidates::collect(whatif, claim, rule, now_ms);
    candidates.map_or_else(Vec::new, |candidates| candidates.running())
}

/// The candidates of one rule, in the order in which they are taken.
#[derive(Clone, Debug)]
enum Candidates<'a, 'r> {
    Classical(classical::Candidates<'a>),
    FairSharing(fair::Candidates<'a, 'r>),
}

impl<'a, 'r> Candidates<'a, 'r> {
    /// `None` if the claim is not a queue's.
    fn collect(
        whatif: &WhatIf<'a>,
        claim: &Claim<'_>,
        rule: &'r VictimRule,
        now_ms: u64,
    ) -> Option<Self> {
        let queue = whatif.snapshot().queue_at(claim.node)?;
        Some(match rule {
            VictimRule::Classical => {
                Self::Classical(classical::Candidates::collect(whatif, claim, queue, now_ms))
            }
            VictimRule::FairSharing(rule) => {
                Self::FairSharing(fair::Candidates::collect(whatif, claim, queue, rule, now_ms))
            }
        })
    }

    fn running(&self) -> Vec<&'a Running> {
        match self {
            Self::Classical(candidates) => candidates.running().collect(),
            Self::FairSharing(candidates) => candidates.running().collect(),
        }
    }

    /// Only those of `chosen`, in its order.
    fn reordered(&self, chosen: &[usize]) -> Self {
        match self {
            Self::Classical(candidates) => Self::Classical(candidates.reordered(chosen)),
            Self::FairSharing(candidates) => Self::FairSharing(candidates.reordered(chosen)),
        }
    }

    /// Takes candidates until `claim` fits and puts back those that are not needed; none if it does not fit.
    /// `whatif` is left as it was.
    fn take(&self, whatif: &mut WhatIf<'a>, claim: &Claim<'_>) -> Targets<'a> {
        match self {
            Self::Classical(candidates) => candidates.take(whatif, claim),
            Self::FairSharing(candidates) => candidates.take(whatif, claim),
        }
    }
}

pub(super) fn to_victims(targets: &[(&Running, PreemptionReason)]) -> Vec<Victim> {
    let victim = |(running, reason): &(&Running, PreemptionReason)| Victim {
        workload: running.workload.key.clone(),
        reason: *reason,
        is_leaving: running.workload.is_being_evicted(),
    };
    targets.iter().map(victim).collect()
}

/// Whether `claim` fits now.
fn fits(whatif: &WhatIf<'_>, claim: &Claim<'_>, may_borrow: bool) -> bool {
    (may_borrow || !whatif.would_borrow(claim.node, &claim.usage))
        && whatif.has_room(claim.node, &claim.usage)
        && claim.topology.fits(whatif)
}

/// Puts back every target without which `claim` still fits, then all others; returns those that are needed.
///
/// The last target is always needed: without it the claim did not fit.
fn fill_back<'a>(
    whatif: &mut WhatIf<'a>,
    claim: &Claim<'_>,
    mut targets: Targets<'a>,
    may_borrow: bool,
) -> Targets<'a> {
    for index in (0..targets.len().saturating_sub(1)).rev() {
        whatif.put_back(targets[index].0);
        if fits(whatif, claim, may_borrow) {
            targets.swap_remove(index);
        } else {
            whatif.take_away(targets[index].0);
        }
    }
    put_back_all(whatif, &targets);
    targets
}

fn put_back_all(whatif: &mut WhatIf<'_>, targets: &Targets<'_>) {
    for (running, _) in targets {
        whatif.put_back(running);
    }
}

#[cfg(test)]
mod tests;
