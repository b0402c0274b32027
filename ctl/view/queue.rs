//! Queues.

use serde::Serialize;
use sluice::wire::pb;

use super::workload::non_empty;

/// A queue and how much of its quota is in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct QueueView {
    /// Unique name.
    pub(crate) name: String,
    /// Queues of one cohort lend to each other; `null` if it is in none.
    pub(crate) cohort: Option<String>,
    /// Other names by which workloads may ask for it.
    pub(crate) local_queues: Vec<String>,
    /// Per resource.
    pub(crate) usage: Vec<UsageView>,
    /// Workloads that wait.
    pub(crate) pending: u32,
    /// Workloads that have devices.
    pub(crate) admitted: u32,
    /// Whether its workloads may preempt.
    pub(crate) preempts: bool,
}

/// From here on a quota is no limit: what the arbiter's queues have where nobody set one, and what
/// JSON readers can still hold exactly.
pub(super) const NO_LIMIT: u64 = 1 << 53;

/// Quota of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct UsageView {
    /// The flavor whose quota it is.
    pub(crate) flavor: String,
    /// The resource.
    pub(crate) resource: String,
    /// What belongs to the queue; `null`: there is no limit.
    pub(crate) nominal: Option<u64>,
    /// What its workloads use; may be above nominal if it borrows.
    pub(crate) used: u64,
    /// How much more it may borrow; `null`: all that is unused in the cohort.
    pub(crate) borrowing_limit: Option<u64>,
}

impl QueueView {
    /// As the arbiter says it.
    pub(crate) fn of(queue: &pb::Queue) -> Self {
        Self {
            name: queue.name.clone(),
            cohort: non_empty(&queue.cohort),
            local_queues: queue.local_queues.clone(),
            usage: queue.usage.iter().map(UsageView::of).collect(),
            pending: queue.pending,
            admitted: queue.admitted,
            preempts: queue.preempts,
        }
    }
}

impl UsageView {
    /// The quota in words.
    pub(crate) fn nominal_words(&self) -> String {
        self.nominal.map_or_else(|| "no limit".to_owned(), |n| n.to_string())
    }

    fn of(usage: &pb::QueueUsage) -> Self {
        Self {
            flavor: usage.flavor.clone(),
            resource: usage.resource.clone(),
            nominal: Some(usage.nominal).filter(|n| *n < NO_LIMIT),
            used: usage.used,
            borrowing_limit: usage.borrowing_limit,
        }
    }
}
