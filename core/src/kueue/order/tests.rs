use super::*;
use crate::kueue::fixture::pending;

fn queue_of(strategy: QueueingStrategy, workloads: Vec<Workload>) -> PendingQueue {
    let mut queue = PendingQueue::new(strategy);
    for workload in workloads {
        queue.push(Arc::new(workload));
    }
    queue
}

fn names<'a>(pending: impl Iterator<Item = &'a Pending>) -> Vec<String> {
    pending.map(|pending| pending.workload.key.to_string()).collect()
}

fn older(mut workload: Workload, created_at_ms: u64) -> Workload {
    workload.created_at_ms = created_at_ms;
    workload
}

#[test]
fn higher_priority_goes_first_then_longer_waiting_then_uid() {
    let queue = queue_of(
        QueueingStrategy::StrictFifo,
        vec![
            older(pending("b", "q", 0, 1), 5),
            older(pending("a", "q", 0, 1), 5),
            older(pending("c", "q", 0, 1), 4),
            older(pending("d", "q", 7, 1), 9),
        ],
    );
    assert_eq!(names(queue.active()), ["d", "c", "a", "b"]);
}

#[test]
fn a_head_that_does_not_fit_blocks_a_strict_queue_only() {
    for (strategy, active, parked) in [
        (QueueingStrategy::StrictFifo, vec!["a", "b"], vec![]),
        (QueueingStrategy::BestEffortFifo, vec!["b"], vec!["a"]),
    ] {
        let workloads = vec![pending("a", "q", 1, 8), pending("b", "q", 0, 1)];
        let mut queue = queue_of(strategy, workloads);
        let head = queue.pop().unwrap();
        queue.requeue(head, RequeueReason::NoFit);
        assert_eq!((names(queue.active()), names(queue.parked())), (own(&active), own(&parked)));
    }
}

fn own(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn workloads_of_the_same_shape_are_parked_together_until_something_changes() {
    let workloads = vec![pending("a", "q", 0, 8), pending("b", "q", 0, 8), pending("c", "q", 0, 1)];
    let mut queue = queue_of(QueueingStrategy::BestEffortFifo, workloads);
    let head = queue.pop().unwrap();
    queue.requeue(head, RequeueReason::NoFit);
    assert_eq!(names(queue.parked()), ["a", "b"]);
    assert_eq!(names(queue.active()), ["c"]);
    queue.wake();
    assert_eq!(names(queue.active()), ["a", "b", "c"]);
}

#[test]
fn a_workload_with_flavors_left_to_try_stays_active() {
    let mut queue = queue_of(QueueingStrategy::BestEffortFifo, vec![pending("a", "q", 0, 8)]);
    let mut head = queue.pop().unwrap();
    head.progress = Some(Progress::at(0, &"gpu".into(), Some(0)));
    queue.requeue(head, RequeueReason::NoCandidates);
    assert_eq!(names(queue.active()), ["a"]);
}

#[test]
fn a_namespace_that_may_not_use_the_queue_parks_even_in_a_strict_one() {
    let mut queue = queue_of(QueueingStrategy::StrictFifo, vec![pending("a", "q", 0, 1)]);
    let head = queue.pop().unwrap();
    queue.requeue(head, RequeueReason::NamespaceMismatch);
    assert_eq!(names(queue.parked()), ["a"]);
}

#[test]
fn a_changed_workload_is_queued_once() {
    let mut queue = queue_of(QueueingStrategy::StrictFifo, vec![pending("a", "q", 0, 1)]);
    queue.push(Arc::new(pending("a", "q", 5, 1)));
    assert_eq!(names(queue.active()), ["a"]);
    assert!(queue.remove(&WorkloadKey::new("", "a")).is_some());
    assert_eq!(names(queue.active()), own(&[]));
}
