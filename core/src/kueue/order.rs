//! The workloads of one queue that wait for quota: who is next, and who has stepped aside.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::flavor::Progress;
use super::model::QueueingStrategy;
use super::name::WorkloadKey;
use super::workload::Workload;

/// A waiting workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The workload.
    pub workload: Arc<Workload>,
    /// Where its search for flavors goes on; `None` starts with the first flavor.
    pub progress: Option<Progress>,
}

impl Pending {
    /// A workload that has not been looked at yet.
    #[must_use]
    pub fn new(workload: Arc<Workload>) -> Self {
        Self { workload, progress: None }
    }

    /// Whether the scheduler would decide the same about both: same priority, same shape.
    fn is_equivalent(&self, other: &Self) -> bool {
        let (a, b) = (&self.workload, &other.workload);
        a.effective_priority() == b.effective_priority()
            && a.pod_sets == b.pod_sets
            && a.reclaimable == b.reclaimable
            && a.allowed_flavors == b.allowed_flavors
    }
}

/// Why a workload that was looked at goes back to its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequeueReason {
    /// It was not looked at closely: its queue or checks are not in order.
    NotNominated,
    /// Its namespace may not use the queue.
    NamespaceMismatch,
    /// No flavor fits.
    NoFit,
    /// It needs preemption and nobody may be preempted.
    NoCandidates,
    /// Another workload of the same cycle was in its way.
    LostToAnother,
    /// It waits for its victims to go.
    PendingPreemption,
}

impl RequeueReason {
    /// Whether the workload is worth another look before anything changes in the cluster.
    fn is_immediate(self, strategy: QueueingStrategy) -> bool {
        match (strategy, self) {
            (QueueingStrategy::StrictFifo, reason) => reason != Self::NamespaceMismatch,
            (QueueingStrategy::BestEffortFifo, Self::LostToAnother | Self::PendingPreemption) => {
                true
            }
            (
                QueueingStrategy::BestEffortFifo,
                Self::NotNominated | Self::NamespaceMismatch | Self::NoFit | Self::NoCandidates,
            ) => false,
        }
    }

    /// Whether workloads of the same shape would fare the same.
    fn concerns_equivalents(self) -> bool {
        match self {
            Self::NoFit | Self::NoCandidates => true,
            Self::NotNominated
            | Self::NamespaceMismatch
            | Self::LostToAnother
            | Self::PendingPreemption => false,
        }
    }
}

/// Higher priority first, then longer waiting, then UID, then name.
type Turn = (Reverse<i64>, u64, String, WorkloadKey);

fn turn_of(workload: &Workload) -> Turn {
    let priority = Reverse(workload.effective_priority());
    (priority, workload.queued_at_ms(), workload.uid.clone(), workload.key.clone())
}

/// The workloads of one queue that wait for quota.
#[derive(Clone, Debug)]
pub struct PendingQueue {
    strategy: QueueingStrategy,
    active: BTreeMap<Turn, Pending>,
    parked: BTreeMap<WorkloadKey, Pending>,
}

impl PendingQueue {
    /// An empty queue.
    #[must_use]
    pub fn new(strategy: QueueingStrategy) -> Self {
        Self { strategy, active: BTreeMap::new(), parked: BTreeMap::new() }
    }

    /// Adds a workload, or replaces it if something about it changed.
    pub fn push(&mut self, workload: Arc<Workload>) {
        self.remove(&workload.key);
        self.active.insert(turn_of(&workload), Pending::new(workload));
    }

    /// Puts back a workload that was taken and not looked at.
    pub fn give_back(&mut self, pending: Pending) {
        self.active.insert(turn_of(&pending.workload), pending);
    }

    /// Whether `key` waits here.
    #[must_use]
    pub fn contains(&self, key: &WorkloadKey) -> bool {
        self.parked.contains_key(key) || self.active.keys().any(|(_, _, _, active)| active == key)
    }

    /// Takes the workload that is next.
    pub fn pop(&mut self) -> Option<Pending> {
        self.active.pop_first().map(|(_, pending)| pending)
    }

    /// Gives back a workload that was taken and got no quota. What cannot be admitted before something changes is
    /// parked, and with it all workloads that would fare the same; those are returned.
    pub fn requeue(&mut self, pending: Pending, reason: RequeueReason) -> Vec<WorkloadKey> {
        let mut alike = Vec::new();
        let has_flavors_left = pending.progress.as_ref().is_some_and(Progress::is_unfinished);
        if reason.is_immediate(self.strategy) || has_flavors_left {
            self.active.insert(turn_of(&pending.workload), pending);
            return alike;
        }
        if self.strategy == QueueingStrategy::BestEffortFifo && reason.concerns_equivalents() {
            let equivalent = self.active.extract_if(.., |_, other| other.is_equivalent(&pending));
            for (_, pending) in equivalent {
                alike.push(pending.workload.key.clone());
                self.parked.insert(pending.workload.key.clone(), pending);
            }
        }
        self.parked.insert(pending.workload.key.clone(), pending);
        alike
    }

    /// Makes all parked workloads active again: something changed that may help them.
    pub fn wake(&mut self) {
        for pending in std::mem::take(&mut self.parked).into_values() {
            self.active.insert(turn_of(&pending.workload), pending);
        }
    }

    /// Forgets a workload.
    pub fn remove(&mut self, key: &WorkloadKey) -> Option<Pending> {
        if let Some(pending) = self.parked.remove(key) {
            return Some(pending);
        }
        let turn = self.active.keys().find(|(_, _, _, active)| active == key)?.clone();
        self.active.remove(&turn)
    }

    /// The workloads that are next, in order.
    pub fn active(&self) -> impl Iterator<Item = &Pending> {
        self.active.values()
    }

    /// The workloads that have stepped aside, by key.
    pub fn parked(&self) -> impl Iterator<Item = &Pending> {
        self.parked.values()
    }
}

#[cfg(test)]
mod tests;
