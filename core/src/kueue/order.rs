//! The workloads of one queue that wait for quota: who is next, and who has stepped aside.

mod classes;

use std::sync::Arc;

use super::flavor::Progress;
use super::model::QueueingStrategy;
use super::name::WorkloadKey;
use super::workload::{Usage, Workload};
use classes::{Classes, Side};

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
}

/// Whether `a` goes before `b` in their queue: higher priority first, then longer waiting, then UID, then name.
#[must_use]
pub fn goes_before(a: &Workload, b: &Workload) -> bool {
    classes::turn_of(a) < classes::turn_of(b)
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

/// The workloads of one queue that wait for quota.
///
/// Workloads that would fare the same form a class: parking and waking them costs as much as for one of them.
#[derive(Clone, Debug)]
pub struct PendingQueue {
    strategy: QueueingStrategy,
    classes: Classes,
}

impl PendingQueue {
    /// An empty queue.
    #[must_use]
    pub fn new(strategy: QueueingStrategy) -> Self {
        Self { strategy, classes: Classes::default() }
    }

    /// Adds a workload, or replaces it if something about it changed.
    pub fn push(&mut self, workload: Arc<Workload>) {
        self.classes.insert(Pending::new(workload), Side::Active);
    }

    /// Puts back a workload that was taken and not looked at.
    pub fn give_back(&mut self, pending: Pending) {
        self.classes.insert(pending, Side::Active);
    }

    /// Takes the workload that is next.
    pub fn pop(&mut self) -> Option<Pending> {
        self.classes.pop()
    }

    /// Gives back a workload that was taken and got no quota. What cannot be admitted before something changes is
    /// parked, and with it all workloads that would fare the same ([`PendingQueue::alike`]).
    pub fn requeue(&mut self, pending: Pending, reason: RequeueReason) {
        self.requeue_with(pending, reason, None);
    }

    /// As [`PendingQueue::requeue`]; `usage` is the quota it would use, for [`PendingQueue::wake_if`].
    pub fn requeue_with(&mut self, pending: Pending, reason: RequeueReason, usage: Option<&Usage>) {
        let has_flavors_left = pending.progress.as_ref().is_some_and(Progress::is_unfinished);
        if reason.is_immediate(self.strategy) || has_flavors_left {
            self.classes.insert(pending, Side::Active);
            return;
        }
        let class = self.classes.insert(pending, Side::Parked);
        if let Some(usage) = usage {
            self.classes.note_usage(class, usage);
        }
        if self.strategy == QueueingStrategy::BestEffortFifo && reason.concerns_equivalents() {
            self.classes.park(class);
        }
    }

    /// The parked workloads about which the scheduler would decide the same as about `key`, itself among them.
    pub fn alike(&self, key: &WorkloadKey) -> impl Iterator<Item = &Pending> {
        self.classes.parked_with(key)
    }

    /// Makes all parked workloads active again: something changed that may help them.
    pub fn wake(&mut self) {
        self.classes.wake();
    }

    /// Makes those parked workloads active again for which, as far as is known, `may_differ`: it is asked once for all
    /// that would fare the same, with the quota that each would use if that is known. Whether any workload is active.
    pub fn wake_if(&mut self, may_differ: impl Fn(&Workload, Option<&Usage>) -> bool) -> bool {
        self.classes.wake_if(may_differ);
        self.classes.has_active()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// Forgets a workload.
    pub fn remove(&mut self, key: &WorkloadKey) -> Option<Pending> {
        self.classes.remove(key)
    }

    /// The workloads that are next, in order.
    pub fn active(&self) -> impl Iterator<Item = &Pending> {
        self.classes.active().into_iter()
    }

    /// The workloads that have stepped aside, by key.
    pub fn parked(&self) -> impl Iterator<Item = &Pending> {
        self.classes.parked().into_iter()
    }
}

#[cfg(test)]
mod tests;
