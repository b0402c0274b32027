//! One scheduling cycle: the heads of all queues are decided together.
//!
//! 1. *Nominate*: flavors, victims and places for every head on its own (`nominate`).
//! 2. *Order*: who goes first (`order`): by borrowing, priority and age, or in a tournament of fair shares.
//! 3. *Process* one by one on a snapshot that keeps what earlier ones took (`process`): who no longer fits, or wants
//!    the victims of another, is decided again or waits.
//!
//! The snapshot given is not changed; the caller carries the verdicts out.

mod nominate;
mod order;
mod process;
mod tournament;

use std::collections::{BTreeMap, BTreeSet};

use super::flavor::{Assignment, Progress};
use super::matching::Labels;
use super::name::{QueueName, WorkloadKey};
use super::order::{Pending, RequeueReason};
use super::preempt::{FairSharing, Victim, VictimPolicy, VictimRule};
use super::reason::PendingReason;
use super::snapshot::Snapshot;
use super::workload::{Admission, EvictionReason};

/// Rules of a cycle that can be switched off, with the names of Kueue's feature gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Admit fewer pods where a workload allows it (`PartialAdmission`).
    PartialAdmission,
    /// Choose again for a workload whose victims another one has taken in the same cycle
    /// (`RecomputeAssignmentUponPreemptionTargetsOverlap`).
    RecomputeOnOverlap,
    /// Choose again for a workload whose places another one has taken in the same cycle
    /// (`TASRecomputeAssignmentWithinSchedulingCycle`).
    RecomputePlacement,
    /// Higher priority first, among workloads that borrow alike (`PrioritySortingWithinCohort`).
    PriorityFirst,
    /// Under fair sharing, workloads that do not borrow first (`FairSharingPrioritizeNonBorrowing`).
    NonBorrowingFirst,
    /// Evict a workload at once if a broken node under it cannot be replaced
    /// (`TASFailedNodeReplacementFailFast`).
    EvictUnreplaceable,
}

/// How a cycle decides.
#[derive(Clone, Debug)]
pub struct Options<'s> {
    /// How victims are chosen, and with it how workloads are ordered.
    pub victims: VictimPolicy<'s>,
    /// Rules switched off.
    pub off: BTreeSet<Rule>,
    /// Labels of the namespaces; one that is missing has none.
    pub namespaces: BTreeMap<String, Labels>,
}

impl Options<'_> {
    /// Kueue's defaults without fair sharing.
    #[must_use]
    pub fn classical() -> Self {
        Self {
            victims: VictimRule::Classical.into(),
            off: BTreeSet::new(),
            namespaces: BTreeMap::new(),
        }
    }

    /// Kueue's defaults with fair sharing.
    #[must_use]
    pub fn fair_sharing() -> Self {
        let rule = VictimRule::FairSharing(FairSharing::default());
        Self { victims: rule.into(), ..Self::classical() }
    }

    fn is_on(&self, rule: Rule) -> bool {
        !self.off.contains(&rule)
    }

    fn is_fair_sharing(&self) -> bool {
        self.victims.is_fair_sharing()
    }
}

/// What a cycle decided about one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It gets this: quota if it had none, a placement if that was due.
    Admit(Admission),
    /// These must go first; it will be looked at again then. Those already leaving need no new eviction.
    Preempt(Vec<Victim>),
    /// It fits as soon as the victims of others are gone.
    AwaitVictims,
    /// It must go, because what it needs is broken.
    Evict(EvictionReason),
    /// It waits.
    Wait,
}

/// What a cycle decided about one workload, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The workload.
    pub workload: WorkloadKey,
    /// Its queue.
    pub queue: QueueName,
    /// What happens.
    pub decision: Decision,
    /// Why it has no quota yet; `None` if it was admitted or evicted.
    pub reason: Option<PendingReason>,
    /// How it goes back to its queue; `None` if it does not (it was admitted, evicted, or holds quota already).
    pub requeue: Option<RequeueReason>,
    /// Where the search for flavors goes on next time.
    pub progress: Option<Progress>,
    /// The flavors and places considered, if it came to that.
    pub assignment: Option<Assignment>,
}

/// What a cycle decided, in the order in which it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CycleOutcome {
    /// One verdict per workload looked at.
    pub verdicts: Vec<Verdict>,
}

/// Decides about `heads`: the first workload of each queue, and any that need a second pass.
///
/// `now_ms` stands for the reservation time of workloads that have none.
#[must_use]
pub fn run_cycle(
    snapshot: &Snapshot,
    heads: &[Pending],
    options: &Options<'_>,
    now_ms: u64,
) -> CycleOutcome {
    let mut cycle = process::Cycle::new(snapshot, options, now_ms);
    let (entries, mut verdicts) = cycle.nominate(heads);
    let mut order = order::Order::new(entries, options);
    while let Some(entry) = order.next(&mut cycle.whatif) {
        verdicts.push(cycle.process(entry));
    }
    CycleOutcome { verdicts }
}

#[cfg(test)]
mod tests;
