use std::collections::BTreeMap;

use proptest::prelude::*;

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

#[test]
fn five_thousand_equals_wait_park_and_wake_as_one() {
    let equals =
        (0..5_000).map(|index| older(pending(&format!("w{index:04}"), "q", 0, 8), index)).collect();
    let mut queue = queue_of(QueueingStrategy::BestEffortFifo, equals);
    queue.push(Arc::new(pending("small", "q", -1, 1)));
    let head = queue.pop().unwrap();
    assert_eq!(head.workload.key, WorkloadKey::new("", "w0000"));
    queue.requeue(head, RequeueReason::NoFit);
    assert_eq!((names(queue.active()), queue.parked().count()), (own(&["small"]), 5_000));
    assert!(queue.remove(&WorkloadKey::new("", "w2500")).is_some());
    queue.wake();
    assert_eq!((queue.active().count(), queue.parked().count()), (5_000, 0));
    assert_eq!(queue.pop().unwrap().workload.key, WorkloadKey::new("", "w0000"));
}

/// A queue as it is defined: one list in order, one of what stepped aside, and every rule applied to all of them.
#[derive(Default)]
struct Plain {
    active: Vec<Arc<Workload>>,
    parked: BTreeMap<WorkloadKey, Arc<Workload>>,
}

impl Plain {
    fn push(&mut self, workload: Arc<Workload>) {
        self.remove(&workload.key);
        self.active.push(workload);
        self.active.sort_by_key(|w| {
            (-w.effective_priority(), w.queued_at_ms(), w.uid.clone(), w.key.clone())
        });
    }

    fn remove(&mut self, key: &WorkloadKey) {
        self.active.retain(|workload| workload.key != *key);
        self.parked.remove(key);
    }

    fn park_first(&mut self, with_equals: bool) {
        let first = self.active.remove(0);
        let (equals, others) = self.active.drain(..).partition(|other| {
            with_equals && (other.priority, &other.pod_sets) == (first.priority, &first.pod_sets)
        });
        self.active = others;
        let equals: Vec<Arc<Workload>> = equals;
        self.parked.extend(equals.into_iter().chain([first]).map(|w| (w.key.clone(), w)));
    }

    fn wake(&mut self) {
        for workload in std::mem::take(&mut self.parked).into_values() {
            self.push(workload);
        }
    }
}

proptest! {
    #[test]
    fn classes_change_how_fast_a_queue_is_but_not_what_it_does(
        steps in prop::collection::vec((0..8u8, 0..6u8, 0..2i32, 1..3i64, 0..4u64), 0..60),
    ) {
        let mut queue = PendingQueue::new(QueueingStrategy::BestEffortFifo);
        let mut plain = Plain::default();
        for (step, name, priority, gpus, created_at_ms) in steps {
            let name = format!("w{name}");
            match step {
                0..=3 => {
                    let workload = older(pending(&name, "q", priority, gpus), created_at_ms);
                    let workload = Arc::new(workload);
                    queue.push(Arc::clone(&workload));
                    plain.push(workload);
                }
                4 | 5 => {
                    if let Some(head) = queue.pop() {
                        let reason = if step == 4 {
                            RequeueReason::NoFit
                        } else {
                            RequeueReason::NamespaceMismatch
                        };
                        queue.requeue(head, reason);
                        plain.park_first(step == 4);
                    }
                }
                6 => {
                    let key = WorkloadKey::new("", &name);
                    queue.remove(&key);
                    plain.remove(&key);
                }
                _ => {
                    queue.wake();
                    plain.wake();
                }
            }
            let active: Vec<String> = plain.active.iter().map(|w| w.key.to_string()).collect();
            let parked: Vec<String> = plain.parked.keys().map(ToString::to_string).collect();
            prop_assert_eq!(names(queue.active()), active);
            prop_assert_eq!(names(queue.parked()), parked);
        }
    }
}

#[test]
fn only_those_that_may_fare_differently_wake() {
    let mut queue = PendingQueue::new(QueueingStrategy::BestEffortFifo);
    let usage: Usage = [(crate::kueue::fixture::gpus_of("a3"), 8)].into();
    for (name, gpus) in [("a", 8), ("b", 8), ("c", 4)] {
        queue.push(Arc::new(pending(name, "q", 0, gpus)));
    }
    let first = queue.pop().expect("three wait");
    queue.requeue_with(first, RequeueReason::NoCandidates, Some(&usage));
    let last = queue.pop().expect("the class of the first is parked");
    queue.requeue(last, RequeueReason::NoCandidates);
    assert!(queue.wake_if(|_, noted| noted != Some(&usage)), "of c no usage is known");
    assert_eq!(names(queue.active()), ["c"]);
    assert_eq!(names(queue.parked()), ["a", "b"]);
}
