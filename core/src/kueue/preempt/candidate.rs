//! Who may be preempted at all, and in which order candidates are considered.

use std::cmp::Ordering;

use super::super::model::PreemptionPolicy;
use super::super::name::QueueName;
use super::super::snapshot::Running;
use super::super::workload::Workload;

/// The order in which candidates are taken: those already leaving first, other queues before the preemptor's own,
/// local queues that used more in the past, lower priority, later reservation, UID.
///
/// `now_ms` stands for the reservation time of workloads that have none.
#[must_use]
pub fn compare_candidates(
    a: &Running,
    b: &Running,
    preemptor_queue: &QueueName,
    now_ms: u64,
) -> Ordering {
    let is_staying = |running: &Running| !running.workload.is_being_evicted();
    let is_own = |running: &Running| running.queue == *preemptor_queue;
    let priority = |running: &Running| running.workload.effective_priority();
    let reserved_at_ms = |running: &Running| {
        running.workload.reservation.as_ref().map_or(now_ms, |reservation| reservation.at_ms)
    };
    is_staying(a)
        .cmp(&is_staying(b))
        .then_with(|| is_own(a).cmp(&is_own(b)))
        .then_with(|| compare_local_queues(a, b))
        .then_with(|| priority(a).cmp(&priority(b)))
        .then_with(|| reserved_at_ms(b).cmp(&reserved_at_ms(a)))
        .then_with(|| a.workload.uid.cmp(&b.workload.uid))
}

/// Past usage only tells apart two local queues of one cluster queue that both record it.
fn compare_local_queues(a: &Running, b: &Running) -> Ordering {
    match (a.local_queue_usage_nano, b.local_queue_usage_nano) {
        (Some(usage_a), Some(usage_b))
            if a.queue == b.queue && a.workload.local_queue != b.workload.local_queue =>
        {
            usage_b.cmp(&usage_a)
        }
        _ => Ordering::Equal,
    }
}

/// Whether `policy` lets `preemptor` take the place of `candidate`.
pub(super) fn satisfies(
    policy: PreemptionPolicy,
    preemptor: &Workload,
    candidate: &Workload,
) -> bool {
    let order = preemptor.effective_priority().cmp(&candidate.effective_priority());
    match policy {
        PreemptionPolicy::Never => false,
        PreemptionPolicy::LowerPriority => order.is_gt(),
        PreemptionPolicy::LowerOrNewerEqualPriority => {
            order.is_gt() || (order.is_eq() && preemptor.queued_at_ms() < candidate.queued_at_ms())
        }
        PreemptionPolicy::Any => true,
    }
}
