//! Queues with quotas: the model that the first policy decides by.

use std::collections::BTreeMap;

use crate::id::{QueueName, ResourceName};

/// Quota of one resource in one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// What belongs to the queue. Whole units.
    pub nominal: u64,
    /// How much more it may borrow from its cohort; `None`: all that is unused there.
    pub borrowing_limit: Option<u64>,
}

/// A queue (a ClusterQueue in Kueue's words; its LocalQueues are aliases here).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Unique name.
    pub name: QueueName,
    /// Other names by which workloads may ask for it (LocalQueues).
    pub aliases: Vec<QueueName>,
    /// Queues of one cohort lend each other what they do not use.
    pub cohort: Option<String>,
    /// Quota per resource.
    pub quotas: BTreeMap<ResourceName, Quota>,
    /// True if a workload of this queue may preempt workloads of lower priority in the same queue.
    pub preempts_lower_priority: bool,
    /// True if it may take back what other queues of the cohort have borrowed.
    pub reclaims_within_cohort: bool,
}
