//! Why a workload waits, what would have to change, and what would be decided if something were different.
//!
//! Every question is asked of a [`trial`]: a copy of what the scheduler decides on. The scheduler itself is never
//! changed. Whatever is proposed as a remedy has been tried before: the engine itself said that it helps.

mod remedies;
mod rows;
#[cfg(test)]
mod tests;
mod trial;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::kueue::cycle::Decision;
use crate::kueue::flavor::{Assignment, Attempt, FlavorChoice};
use crate::kueue::model::Quota;
use crate::kueue::name::{
    CohortName, FlavorName, FlavorResource, PodSetName, QueueName, ResourceName, WorkloadKey,
};
use crate::kueue::preempt::{PreemptionReason, Victim};
use crate::kueue::reason::{FlavorReason, PendingReason};
use crate::kueue::workload::{Admission, TopologyMode, Workload};

use super::{Outlook, Protection, Rule, Scheduler, Standing};
use trial::{Asking, Trial};

/// Something that could be different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The workload's priority; a boost stays.
    Priority(i32),
    /// Pods of all its pod sets together. Fewer are taken from the last pod sets, more are added to the first. 1 or more.
    Ranks(u32),
    /// What each pod requests of a resource, in the unit of `Requests`; 0: none of it.
    Resource(ResourceName, i64),
    /// The queue it waits in.
    Queue(QueueName),
    /// How its pods must lie to each other; `None`: anyhow.
    Topology(Option<TopologyMode>),
    /// The nominal quota of a queue; less if `more` is below 0.
    Quota {
        /// Whose.
        queue: QueueName,
        /// Of what.
        fr: FlavorResource,
        /// How much more. Unit: as in `Requests`.
        more: i64,
    },
    /// Another workload, as if it had ended.
    Without(WorkloadKey),
    /// One of Sluice's rules is off.
    RuleOff(Rule),
    /// One of Sluice's rules is on.
    RuleOn(Rule),
}

/// Why a question cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// Nothing is to be decided about the workload: it runs, has ended, or is not ready.
    NothingToDecide(WorkloadKey),
    /// There is no such queue.
    QueueUnknown(QueueName),
    /// The queue has no quota for that resource of that flavor.
    QuotaUnknown {
        /// The queue.
        queue: QueueName,
        /// What it does not offer.
        fr: FlavorResource,
    },
    /// The workload that is to have ended does not run and does not wait.
    WorkloadUnknown(WorkloadKey),
    /// A workload has at least one pod.
    NoRanks,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToDecide(key) => write!(
                f,
                "nothing is to be decided about {key} now: it runs, has ended, or not all of it is there"
            ),
            Self::QueueUnknown(queue) => write!(f, "there is no queue {queue}"),
            Self::QuotaUnknown { queue, fr } => write!(f, "queue {queue} has no quota for {fr}"),
            Self::WorkloadUnknown(key) => write!(f, "no workload {key} runs or waits"),
            Self::NoRanks => write!(f, "a workload has 1 rank at least"),
        }
    }
}

/// What would come of a decision about one workload now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It gets this at once.
    Admitted(Admission),
    /// It gets room when these have given way.
    Preempts(Vec<Victim>),
    /// It waits.
    Waits(Waiting),
}

/// Why a workload would wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The engine's reason.
    Lacks(PendingReason),
    /// What it needs is free; its queue is strictly first in, first out, and this one goes before it.
    Behind(WorkloadKey),
    /// Whoever could give way is left alone; of these it is the one whose protection ends first.
    Protected(WorkloadKey, Protection),
    /// It was drained again and again, and comes back only then. Unit: ms of the caller's clock.
    HeldOff {
        /// When, if what it needs stays free.
        until_ms: u64,
    },
}

/// What in Kueue's rules an outcome rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KueueRule {
    /// The queue's own quota.
    Quota,
    /// Quota borrowed from the cohort.
    Borrowing,
    /// The most that the queue could ever use.
    QuotaLimit,
    /// Which flavors suit the pods.
    FlavorChoice,
    /// Whether there is room for the pods, and where they must lie.
    Placement,
    /// Whom the queue's preemption policy lets it take: nobody.
    PreemptionPolicy,
    /// Victims of the same queue.
    WithinClusterQueue,
    /// Victims in queues that use more than their own quota.
    ReclaimWithinCohort,
    /// Likewise, while the queue itself borrows.
    BorrowWithinCohort,
    /// Victims in queues that have more than their fair share.
    FairSharing,
    /// Who goes first.
    QueueingOrder,
    /// Whether the queue admits anything, and whom.
    QueueState,
}

impl KueueRule {
    /// Its stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Borrowing => "borrowing",
            Self::QuotaLimit => "quota-limit",
            Self::FlavorChoice => "flavor-choice",
            Self::Placement => "placement",
            Self::PreemptionPolicy => "preemption-policy",
            Self::WithinClusterQueue => "within-cluster-queue",
            Self::ReclaimWithinCohort => "reclaim-within-cohort",
            Self::BorrowWithinCohort => "borrow-within-cohort",
            Self::FairSharing => "fair-sharing",
            Self::QueueingOrder => "queueing-order",
            Self::QueueState => "queue-state",
        }
    }
}

/// Which rules an outcome rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decider {
    /// Kueue's.
    pub kueue: KueueRule,
    /// Those of Sluice's without which the outcome would be another; each was switched off to see.
    pub sluice: Vec<Rule>,
}

/// What came of the flavors for one pod set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlavorsTried {
    /// The pod set.
    pub pod_set: PodSetName,
    /// Its pods.
    pub pods: u32,
    /// The flavors chosen, by resource; empty if none could be had.
    pub chosen: Vec<(ResourceName, FlavorChoice)>,
    /// Every flavor that was tried.
    pub attempts: Vec<Attempt>,
    /// Why what was chosen cannot be had at once; empty if it can.
    pub reasons: Vec<FlavorReason>,
}

/// The quota of one queue or cohort, for one resource of one flavor. Unit: as in `Requests`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaRow {
    /// Of what.
    pub fr: FlavorResource,
    /// The cohort; `None` for the queue itself.
    pub cohort: Option<CohortName>,
    /// What it was given, and its limits.
    pub quota: Quota,
    /// What it and all below it have, less what they keep to themselves.
    pub subtree: i64,
    /// What counts against that.
    pub usage: i64,
    /// How much more it could use now.
    pub available: i64,
}

/// What would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// These changes together. Mostly it is one.
    Change {
        /// What would be different.
        changes: Vec<Change>,
        /// What came of it when it was tried: never that it waits.
        outcome: Outcome,
    },
    /// A workload is not left alone any more.
    ProtectionEnds {
        /// Which: the workload itself if it is held off.
        workload: WorkloadKey,
        /// When, and which rule it is.
        protection: Protection,
        /// What comes of it then.
        outcome: Outcome,
    },
}

/// Everything about one decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The workload, with the changes asked for.
    pub workload: Arc<Workload>,
    /// What would be decided about it.
    pub outcome: Outcome,
    /// By which rules.
    pub decider: Decider,
    /// What came of the flavors, per pod set; those after a pod set without a flavor were not looked at.
    pub flavors: Vec<FlavorsTried>,
    /// Quota per flavor and resource that it could use: its queue, then the cohorts up to the root.
    pub quota: Vec<QuotaRow>,
    /// What the engine said, and whom Kueue's rules allow to be taken.
    pub outlook: Outlook,
    /// What would help, if it waits: each tried, the smallest of its kind.
    pub remedies: Vec<Remedy>,
}

impl Scheduler {
    /// Explains what would be decided about `key`, which waits or holds, if `changes` were so; nothing is changed.
    ///
    /// It is looked at alone: others who wait may take first what a change would free. A holder is looked at as if
    /// its victims had not been chosen yet.
    ///
    /// # Errors
    /// Nothing is to be decided about it, or a change names what there is not.
    pub fn explain(
        &self,
        key: &WorkloadKey,
        changes: &[Change],
        now_ms: u64,
        standing: &dyn Fn(&Workload, &Workload) -> Standing,
    ) -> Result<Explanation, ChangeError> {
        let nothing = || ChangeError::NothingToDecide(key.clone());
        let own_victims: BTreeSet<WorkloadKey> =
            self.hold_of(key).map(|hold| hold.victims.clone()).unwrap_or_default();
        // Those who already leave for it could not be taken a second time; here they have not been chosen yet.
        let standing = |preemptor: &Workload, victim: &Workload| {
            let standing = standing(preemptor, victim);
            let is_own = own_victims.contains(&victim.key);
            if is_own {
                Standing { protected: None, cannot_leave: false, ..standing }
            } else {
                standing
            }
        };
        let asking = Asking { now_ms, standing: &standing };
        let mut trial = Trial::new(self, key).ok_or_else(nothing)?;
        for change in changes {
            trial.apply(change)?;
        }
        let outlook = trial.outlook(&asking).ok_or_else(nothing)?;
        let outcome = trial.outcome(&outlook, &asking);
        let decider = Decider {
            kueue: kueue_rule(&outcome, &outlook),
            sluice: trial.rules_that_matter(&outlook, &outcome, &asking),
        };
        let assignment = outlook.verdict.assignment.as_ref();
        let flavors = assignment.map(flavors_tried).unwrap_or_default();
        let quota = rows::quota_path(&trial);
        let workload = Arc::clone(trial.workload());
        let remedies = match outcome {
            Outcome::Waits(_) => remedies::find(trial, &outlook, &outcome, &asking),
            Outcome::Admitted(_) | Outcome::Preempts(_) => Vec::new(),
        };
        Ok(Explanation { workload, outcome, decider, flavors, quota, outlook, remedies })
    }
}

fn flavors_tried(assignment: &Assignment) -> Vec<FlavorsTried> {
    let tried = |pod_set: &crate::kueue::flavor::PodSetAssignment| FlavorsTried {
        pod_set: pod_set.name.clone(),
        pods: pod_set.count,
        chosen: pod_set.flavors.clone().into_iter().collect(),
        attempts: pod_set.attempts.clone(),
        reasons: pod_set.reasons.clone(),
    };
    assignment.pod_sets.iter().map(tried).collect()
}

fn kueue_rule(outcome: &Outcome, outlook: &Outlook) -> KueueRule {
    let assignment = outlook.verdict.assignment.as_ref();
    let fitting = || match assignment {
        Some(assignment) if assignment.borrow_height > 0 => KueueRule::Borrowing,
        Some(_) | None => KueueRule::Quota,
    };
    match outcome {
        Outcome::Admitted(_) => fitting(),
        Outcome::Preempts(victims) => {
            victims.first().map_or(KueueRule::Quota, |victim| match victim.reason {
                PreemptionReason::InClusterQueue => KueueRule::WithinClusterQueue,
                PreemptionReason::InCohortReclamation => KueueRule::ReclaimWithinCohort,
                PreemptionReason::InCohortReclaimWhileBorrowing => KueueRule::BorrowWithinCohort,
                PreemptionReason::InCohortFairSharing => KueueRule::FairSharing,
            })
        }
        Outcome::Waits(Waiting::Behind(_)) => KueueRule::QueueingOrder,
        Outcome::Waits(Waiting::HeldOff { .. }) => fitting(),
        Outcome::Waits(Waiting::Protected(..)) => KueueRule::PreemptionPolicy,
        Outcome::Waits(Waiting::Lacks(reason)) => match reason {
            PendingReason::TopologyPlacementFailed => KueueRule::Placement,
            PendingReason::WaitingForQuota if lacks_places_alone(assignment) => {
                KueueRule::Placement
            }
            PendingReason::WaitingForQuota => KueueRule::Quota,
            PendingReason::ExceedsMaxQuota => KueueRule::QuotaLimit,
            PendingReason::NoMatchingFlavor => KueueRule::FlavorChoice,
            PendingReason::Misconfigured | PendingReason::Suspended => KueueRule::QueueState,
            PendingReason::WaitingForPreemptedWorkloads => KueueRule::QueueingOrder,
            PendingReason::PendingEvaluation => match outlook.verdict.decision {
                Decision::Wait => KueueRule::PreemptionPolicy,
                Decision::Admit(_)
                | Decision::Preempt(_)
                | Decision::AwaitVictims
                | Decision::Evict(_) => KueueRule::QueueingOrder,
            },
        },
    }
}

/// Whether there is quota, but no room where the pods must lie.
fn lacks_places_alone(assignment: Option<&Assignment>) -> bool {
    let reasons = assignment.into_iter().flat_map(|a| &a.pod_sets).flat_map(|p| &p.reasons);
    let mut reasons = reasons.peekable();
    reasons.peek().is_some() && reasons.all(|reason| matches!(reason, FlavorReason::Placement(_)))
}

/// The flavors of `queue` that offer `resource`, in order of preference.
fn flavors_of<'q>(
    queue: &'q crate::kueue::model::ClusterQueue,
    resource: &ResourceName,
) -> impl Iterator<Item = &'q FlavorName> {
    queue.group_of(resource).into_iter().flat_map(|group| &group.flavors).map(|f| &f.flavor)
}
