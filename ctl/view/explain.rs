//! Why a workload is where it is.

use jiff::Timestamp;
use serde::Serialize;
use sluice::wire::pb;

use super::drain::DrainView;
use super::queue::{NO_LIMIT, QueueView};
use super::workload::{WorkloadView, non_empty};
use super::{ReasonView, When};

/// Everything that explains one workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ExplainView {
    /// The workload.
    pub(crate) workload: WorkloadView,
    /// Its queue; `null` if the arbiter no longer has it.
    pub(crate) queue: Option<QueueView>,
    /// What was to be different, as the arbiter understood it; empty: nothing.
    pub(crate) what_if: Vec<String>,
    /// What would be decided now; `null` if nothing is to be decided.
    pub(crate) outcome: Option<ReasonView>,
    /// By which rules; `null` likewise.
    pub(crate) decider: Option<DeciderView>,
    /// What would help, if it waits.
    pub(crate) remedies: Vec<RemedyView>,
    /// Quota per flavor and resource: its queue, then the cohorts up to the root.
    pub(crate) quota: Vec<QuotaView>,
    /// The flavors that were tried.
    pub(crate) flavors: Vec<FlavorView>,
    /// The workload for which it makes room now; `null` if it does not.
    pub(crate) preemptor: Option<String>,
    /// Workloads that could make room: for it if it waits, for `preemptor` if that is there.
    pub(crate) candidates: Vec<CandidateView>,
    /// Drains of it and for it.
    pub(crate) drains: Vec<DrainView>,
    /// Decisions about it, oldest first.
    pub(crate) decisions: Vec<DecisionView>,
}

/// The rules that an outcome rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DeciderView {
    /// Kueue's.
    pub(crate) kueue: String,
    /// Those of Sluice's without which it would be another.
    pub(crate) sluice: Vec<String>,
}

/// What would help.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RemedyView {
    /// Texts for `--what-if`, all together; empty if time alone will do.
    pub(crate) what_if: Vec<String>,
    /// What is to be done.
    pub(crate) reason: ReasonView,
    /// What would come of it.
    pub(crate) outcome: ReasonView,
    /// When that will be so by itself; `null` if it will not.
    pub(crate) at: Option<When>,
}

/// Quota of a queue or cohort, in whole units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct QuotaView {
    /// The queue or cohort.
    pub(crate) name: String,
    /// Whether it is a cohort.
    pub(crate) cohort: bool,
    /// The flavor.
    pub(crate) flavor: String,
    /// The resource.
    pub(crate) resource: String,
    /// What it was given; `null`: there is no limit.
    pub(crate) nominal: Option<u64>,
    /// How much more it may take from above; `null`: there is no limit.
    pub(crate) borrowing_limit: Option<u64>,
    /// How much of its own others may take while it is unused; `null`: all.
    pub(crate) lending_limit: Option<u64>,
    /// What it and all below it have, less what they keep to themselves; `null`: there is no limit.
    pub(crate) subtree: Option<u64>,
    /// What counts against that.
    pub(crate) used: u64,
    /// How much more it could use now; `null`: there is no limit.
    pub(crate) available: Option<u64>,
}

/// A flavor that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FlavorView {
    /// For how many ranks.
    pub(crate) ranks: u32,
    /// The flavor.
    pub(crate) flavor: String,
    /// `Fit`, `Preempt` or `NoFit`.
    pub(crate) mode: String,
    /// Whether it is the one that would be taken.
    pub(crate) chosen: bool,
    /// Why, or why not.
    pub(crate) reasons: Vec<ReasonView>,
}

/// A workload that could make room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CandidateView {
    /// Its name.
    pub(crate) workload: String,
    /// Its priority.
    pub(crate) priority: i32,
    /// Devices it has.
    pub(crate) devices: u64,
    /// Work of it that is in no checkpoint.
    pub(crate) at_risk_device_ms: u64,
    /// What choosing it would cost: work lost and restart together.
    pub(crate) cost_device_ms: u64,
    /// How long its restart is assumed to take in that; `null` if one was measured.
    pub(crate) assumed_restart_ms: Option<u64>,
    /// Whether it would be chosen.
    pub(crate) chosen: bool,
    /// Why, or why not.
    pub(crate) reason: ReasonView,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DecisionView {
    /// Its number.
    pub(crate) sequence: u64,
    /// When it was made.
    pub(crate) at: Option<When>,
    /// What kind: `submit`, `admit`, `wait`, `preempt`, `drain`, ...
    pub(crate) kind: String,
    /// The workload it is about; `null` for the whole cluster.
    pub(crate) workload: Option<String>,
    /// In which drain.
    pub(crate) drain: Option<String>,
    /// On which node.
    pub(crate) node: Option<String>,
    /// Why.
    pub(crate) reason: ReasonView,
}

impl ExplainView {
    /// As the arbiter says it, looked at at `now`. The queue comes from `queues`.
    pub(crate) fn of(answer: &pb::ExplainResponse, queues: &[pb::Queue], now: Timestamp) -> Self {
        let workload = WorkloadView::of(&answer.workload.clone().unwrap_or_default(), now);
        let queue = queues.iter().find(|q| q.name == workload.queue).map(QueueView::of);
        Self {
            queue,
            what_if: answer.what_if.clone(),
            outcome: answer.outcome.as_ref().map(|reason| ReasonView::of(Some(reason))),
            decider: answer.decider.as_ref().map(DeciderView::of),
            remedies: answer.remedies.iter().map(|r| RemedyView::of(r, now)).collect(),
            quota: answer.quota.iter().map(QuotaView::of).collect(),
            flavors: answer.flavors.iter().map(FlavorView::of).collect(),
            preemptor: non_empty(&answer.preemptor),
            candidates: answer.candidates.iter().map(CandidateView::of).collect(),
            drains: answer.drains.iter().map(|d| DrainView::of(d, now)).collect(),
            decisions: answer.decisions.iter().map(|d| DecisionView::of(d, now)).collect(),
            workload,
        }
    }
}

impl DeciderView {
    fn of(decider: &pb::Decider) -> Self {
        Self { kueue: decider.kueue.clone(), sluice: decider.sluice.clone() }
    }
}

impl RemedyView {
    fn of(remedy: &pb::Remedy, now: Timestamp) -> Self {
        Self {
            what_if: remedy.what_if.clone(),
            reason: ReasonView::of(remedy.reason.as_ref()),
            outcome: ReasonView::of(remedy.outcome.as_ref()),
            at: When::of(remedy.at.as_ref(), now),
        }
    }
}

impl QuotaView {
    fn of(level: &pb::QuotaLevel) -> Self {
        let limited = |amount: u64| Some(amount).filter(|amount| *amount < NO_LIMIT / 2);
        Self {
            name: level.name.clone(),
            cohort: level.cohort,
            flavor: level.flavor.clone(),
            resource: level.resource.clone(),
            nominal: limited(level.nominal),
            borrowing_limit: level.borrowing_limit.and_then(limited),
            lending_limit: level.lending_limit.and_then(limited),
            subtree: limited(level.subtree),
            used: level.used,
            available: limited(level.available),
        }
    }
}

impl FlavorView {
    fn of(tried: &pb::FlavorTried) -> Self {
        Self {
            ranks: tried.ranks,
            flavor: tried.flavor.clone(),
            mode: tried.mode.clone(),
            chosen: tried.chosen,
            reasons: tried.reasons.iter().map(|reason| ReasonView::of(Some(reason))).collect(),
        }
    }
}

impl CandidateView {
    fn of(candidate: &pb::Candidate) -> Self {
        Self {
            workload: candidate.workload.clone(),
            priority: candidate.priority,
            devices: candidate.devices,
            at_risk_device_ms: candidate.at_risk_device_ms,
            cost_device_ms: candidate.cost_device_ms,
            assumed_restart_ms: candidate.assumed_restart_ms,
            chosen: candidate.chosen,
            reason: ReasonView::of(candidate.reason.as_ref()),
        }
    }
}

impl DecisionView {
    fn of(decision: &pb::Decision, now: Timestamp) -> Self {
        Self {
            sequence: decision.sequence,
            at: When::of(decision.at.as_ref(), now),
            kind: decision.kind.clone(),
            workload: non_empty(&decision.workload),
            drain: non_empty(&decision.drain),
            node: non_empty(&decision.node),
            reason: ReasonView::of(decision.reason.as_ref()),
        }
    }
}
