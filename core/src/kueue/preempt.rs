//! Finding victims: which running workloads must give way so that one workload fits.
//!
//! Two ways, as Kueue has them: by priority and quota (`classical`) and by fair shares (`fair`). Both take
//! victims one by one until the workload fits, then put back every one that turns out not to be needed.
//! This module owns what both share: the request, the order of candidates, the fit and the putting back.

mod candidate;
mod classical;
mod fair;
mod fair_order;

use std::collections::{BTreeMap, BTreeSet};

use super::name::{FlavorResource, WorkloadKey};
use super::quota::NodeId;
use super::snapshot::Running;
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

/// How victims are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VictimRule {
    /// By priority and quota.
    Classical,
    /// By fair shares.
    FairSharing(FairSharing),
}

/// How victims are chosen, and which of those allowed go first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VictimPolicy {
    /// Who may be preempted.
    pub rule: VictimRule,
    /// What it costs to preempt a workload, in a unit of the caller's (work lost, say); 0 where it is missing.
    ///
    /// The cheaper ones go first, whatever their priority, as long as the rule allows it. Without any costs the
    /// order is Kueue's.
    pub costs: BTreeMap<WorkloadKey, u64>,
}

impl VictimPolicy {
    /// Whether victims are chosen by fair shares.
    #[must_use]
    pub fn is_fair_sharing(&self) -> bool {
        match self.rule {
            VictimRule::Classical => false,
            VictimRule::FairSharing(_) => true,
        }
    }

    /// Puts the cheaper candidates first, but all that are leaving before the others; equals stay in order.
    fn sort_by_cost<'a, T>(&self, candidates: &mut [T], running_of: impl Fn(&T) -> &'a Running) {
        candidates.sort_by_cached_key(|candidate| {
            let workload = &running_of(candidate).workload;
            (!workload.is_being_evicted(), self.costs.get(&workload.key).copied().unwrap_or(0))
        });
    }
}

impl From<VictimRule> for VictimPolicy {
    /// The rule with Kueue's order.
    fn from(rule: VictimRule) -> Self {
        Self { rule, costs: BTreeMap::new() }
    }
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
    policy: &VictimPolicy,
    now_ms: u64,
) -> Vec<Victim> {
    to_victims(&find_targets(whatif, claim, policy, now_ms))
}

pub(super) fn find_targets<'a>(
    whatif: &mut WhatIf<'a>,
    claim: &Claim<'_>,
    policy: &VictimPolicy,
    now_ms: u64,
) -> Targets<'a> {
    match &policy.rule {
        VictimRule::Classical => classical::find_targets(whatif, claim, policy, now_ms),
        VictimRule::FairSharing(fair_sharing) => {
            fair::find_targets(whatif, claim, policy, fair_sharing, now_ms)
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
