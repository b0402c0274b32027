//! Who may be preempted at all, and in which order candidates are considered.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use super::super::model::PreemptionPolicy;
use super::super::name::QueueName;
use super::super::snapshot::Running;
use super::super::workload::Workload;

/// Sorts candidates into the order in which they are taken: those already leaving first, other queues before the
/// preemptor's own, local queues that used more in the past, lower priority, later reservation, UID.
///
/// `running_of` finds the workload of an element. `now_ms` stands for the reservation time of workloads that have
/// none.
pub fn sort_candidates<'a, T: Copy>(
    candidates: &mut [T],
    running_of: impl Fn(&T) -> &'a Running,
    preemptor_queue: &QueueName,
    now_ms: u64,
) {
    candidates.sort_by_cached_key(|candidate| rank(running_of(candidate), preemptor_queue, now_ms));
    // Past usage only tells apart local queues of one cluster queue. As part of the comparison it would contradict
    // itself over several cluster queues, so each of these is put in order in the places that its members have.
    let mut places: BTreeMap<(bool, &QueueName), Vec<usize>> = BTreeMap::new();
    for (place, candidate) in candidates.iter().enumerate() {
        let running = running_of(candidate);
        if running.local_queue_usage_nano.is_some() {
            let class = (running.workload.is_being_evicted(), &running.queue);
            places.entry(class).or_default().push(place);
        }
    }
    for places in places.into_values() {
        let mut members: Vec<T> = places.iter().map(|&place| candidates[place]).collect();
        members.sort_by_key(|member| Reverse(running_of(member).local_queue_usage_nano));
        for (place, member) in places.into_iter().zip(members) {
            candidates[place] = member;
        }
    }
}

/// The order of two candidates without the past usage of their local queues.
pub(super) fn compare(
    a: &Running,
    b: &Running,
    preemptor_queue: &QueueName,
    now_ms: u64,
) -> Ordering {
    rank(a, preemptor_queue, now_ms).cmp(&rank(b, preemptor_queue, now_ms))
}

/// Staying, of the preemptor's own queue, priority, reservation, UID; the lowest is taken first.
type Rank<'a> = (bool, bool, i64, Reverse<u64>, &'a str);

fn rank<'a>(running: &'a Running, preemptor_queue: &QueueName, now_ms: u64) -> Rank<'a> {
    let workload = &running.workload;
    let reserved_at_ms = workload.reservation.as_ref().map_or(now_ms, |held| held.at_ms);
    (
        !workload.is_being_evicted(),
        running.queue == *preemptor_queue,
        workload.effective_priority(),
        Reverse(reserved_at_ms),
        &workload.uid,
    )
}

/// Whether `policy` may let `preemptor` take the place of anybody among workloads the lowest priority of which is
/// `lowest`. If not, they need not be looked at.
pub(super) fn may_satisfy(
    policy: PreemptionPolicy,
    preemptor: &Workload,
    lowest: Option<i64>,
) -> bool {
    let Some(lowest) = lowest else { return false };
    match policy {
        PreemptionPolicy::Never => false,
        PreemptionPolicy::LowerPriority => lowest < preemptor.effective_priority(),
        PreemptionPolicy::LowerOrNewerEqualPriority => lowest <= preemptor.effective_priority(),
        PreemptionPolicy::Any => true,
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
