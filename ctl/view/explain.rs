//! Why a workload is where it is.

use jiff::Timestamp;
use serde::Serialize;
use sluice::wire::pb;

use super::drain::DrainView;
use super::queue::QueueView;
use super::workload::{WorkloadView, non_empty};
use super::{ReasonView, When};

/// Everything that explains one workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ExplainView {
    /// The workload.
    pub(crate) workload: WorkloadView,
    /// Its queue; `null` if the arbiter no longer has it.
    pub(crate) queue: Option<QueueView>,
    /// Workloads that could make room for it, if it waits.
    pub(crate) candidates: Vec<CandidateView>,
    /// Drains of it and for it.
    pub(crate) drains: Vec<DrainView>,
    /// Decisions about it, oldest first.
    pub(crate) decisions: Vec<DecisionView>,
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
            candidates: answer.candidates.iter().map(CandidateView::of).collect(),
            drains: answer.drains.iter().map(|d| DrainView::of(d, now)).collect(),
            decisions: answer.decisions.iter().map(|d| DecisionView::of(d, now)).collect(),
            workload,
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
