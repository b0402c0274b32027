//! Looking at the scheduler's state.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kueue::name::{QueueName, WorkloadKey};
use crate::kueue::snapshot::{Setup, Snapshot};
use crate::kueue::workload::Workload;

use super::{Hold, Place, Policy, Scheduler};

impl Scheduler {
    /// What it decides on: everything that has quota, whether it runs, holds or leaves.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The objects that define its queues.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// How it decides.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Where `key` stands; `None` if it is not known.
    #[must_use]
    pub fn place(&self, key: &WorkloadKey) -> Option<Place> {
        self.places.get(key).copied()
    }

    /// Those that were preempted and wait, with since when what they need has been free.
    #[must_use]
    pub fn hold_offs(&self) -> &BTreeMap<WorkloadKey, Option<u64>> {
        &self.preempted
    }

    /// `key` was preempted; what it needs has been free since then. For a scheduler that takes up where another ended.
    pub fn restore_hold_off(&mut self, key: WorkloadKey, free_since_ms: Option<u64>) {
        self.preempted.insert(key, free_since_ms);
    }

    /// What is held for `key`.
    #[must_use]
    pub fn hold_of(&self, key: &WorkloadKey) -> Option<&Hold> {
        self.holds.get(key)
    }

    /// The workload `key` as it waits; `None` if it does not wait.
    #[must_use]
    pub fn waiting(&self, key: &WorkloadKey) -> Option<&Arc<Workload>> {
        self.waiting.get(key)
    }

    /// Workloads of the queue of `key` that ask for the same as it, and wait for the same reason.
    #[must_use]
    pub fn alike(&self, key: &WorkloadKey) -> Vec<WorkloadKey> {
        let queue = self.waiting.get(key).and_then(|workload| self.queues.get(&workload.queue));
        let alike = queue.into_iter().flat_map(|queue| queue.alike(key));
        alike.map(|pending| pending.workload.key.clone()).filter(|other| other != key).collect()
    }

    /// The workloads of `queue` that wait: those to be looked at, in order, then those that have stepped aside.
    pub fn waiting_in(&self, queue: &QueueName) -> impl Iterator<Item = &Arc<Workload>> {
        let queues = self.queues.get(queue).into_iter();
        queues.flat_map(|queue| queue.active().chain(queue.parked())).map(|p| &p.workload)
    }

    /// When to decide again though nothing happens. Unit: ms of the caller's clock.
    #[must_use]
    pub fn retry_at_ms(&self) -> Option<u64> {
        self.due_ms.values().copied().min()
    }
}
