//! Looking at the arbiter's state: for the store, for people, and for its own decisions.

use std::collections::BTreeMap;

use super::{Arbiter, Node};
use crate::drain::Drain;
use crate::id::{DrainId, NodeName, QueueName, ResourceName, WorkloadName};
use crate::queue::{Queue, Quota};
use crate::reason::{Ms, Reason};
use crate::workload::Workload;

/// Use of one resource of one queue. Whole units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueUsage {
    /// The resource.
    pub resource: ResourceName,
    /// What belongs to the queue.
    pub nominal: u64,
    /// What its workloads hold or have reserved.
    pub used: u64,
    /// How much more it may borrow; `None`: whatever its cohort does not use.
    pub borrowing_limit: Option<u64>,
}

/// A workload that could make room for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The workload.
    pub workload: WorkloadName,
    /// Its priority.
    pub priority: i32,
    /// Devices that it holds.
    pub devices: u64,
    /// What draining it would cost. Unit: device-milliseconds.
    pub cost_device_ms: u64,
    /// Its work in no checkpoint now. Unit: device-milliseconds.
    pub at_risk_device_ms: u64,
    /// Whether it would be chosen.
    pub chosen: bool,
    /// Why, or why not.
    pub reason: Reason,
}

impl Arbiter {
    /// All workloads by name.
    #[must_use]
    pub fn workloads(&self) -> &BTreeMap<WorkloadName, Workload> {
        &self.workloads
    }

    /// One workload.
    #[must_use]
    pub fn workload(&self, name: &WorkloadName) -> Option<&Workload> {
        self.workloads.get(name)
    }

    /// All drains by id.
    #[must_use]
    pub fn drains(&self) -> &BTreeMap<DrainId, Drain> {
        &self.drains
    }

    /// One drain.
    #[must_use]
    pub fn drain(&self, id: &DrainId) -> Option<&Drain> {
        self.drains.get(id)
    }

    /// All nodes by name.
    #[must_use]
    pub fn nodes(&self) -> &BTreeMap<NodeName, Node> {
        &self.nodes
    }

    /// All queues.
    #[must_use]
    pub fn queues(&self) -> &[Queue] {
        &self.config.queues
    }

    /// This arbiter's epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.config.epoch
    }

    /// Why a node is as it is.
    #[must_use]
    pub fn node_reason(&self, name: &NodeName) -> Reason {
        match self.nodes.get(name) {
            Some(node) if node.connected => Reason::NodeConnected,
            Some(node) => Reason::NodeSilent { silent_ms: Ms(self.now.ms_since(node.since)) },
            None => Reason::NodeAwaited,
        }
    }

    /// Use of a queue's resources.
    #[must_use]
    pub fn usage(&self, queue: &QueueName) -> Vec<QueueUsage> {
        let Some(queue) = self.find_queue(queue) else { return Vec::new() };
        let usage = |(resource, quota): (&ResourceName, &Quota)| QueueUsage {
            resource: resource.clone(),
            nominal: quota.nominal,
            used: self.used(queue, resource, None, &[]),
            borrowing_limit: quota.borrowing_limit,
        };
        queue.quotas.iter().map(usage).collect()
    }

    /// Pending workloads of the same queue that are considered before this one, first to last.
    #[must_use]
    pub fn ahead_of(&self, name: &WorkloadName) -> Vec<WorkloadName> {
        let Some(workload) = self.workloads.get(name) else { return Vec::new() };
        let same_queue = |other: &WorkloadName| {
            self.workloads.get(other).is_some_and(|w| w.spec.queue == workload.spec.queue)
        };
        let order = self.pending_in_order().into_iter().take_while(|other| other != name);
        order.filter(same_queue).collect()
    }

    /// Every running workload that might make room for this one, cheapest first.
    #[must_use]
    pub fn candidates(&self, name: &WorkloadName) -> Vec<Candidate> {
        let Some(workload) = self.workloads.get(name) else { return Vec::new() };
        let drained_for = |victim: &WorkloadName| {
            self.open_drain_of(victim).is_some_and(|d| d.beneficiary.as_ref() == Some(name))
        };
        let weighed = self.candidates_with_verdict(workload);
        let mut candidates: Vec<Candidate> = weighed
            .into_iter()
            .map(|w| Candidate {
                chosen: drained_for(&w.workload),
                reason: w.reason(name),
                workload: w.workload,
                priority: w.priority,
                devices: w.cost.devices,
                cost_device_ms: w.cost.cost_device_ms,
                at_risk_device_ms: w.cost.at_risk_device_ms,
            })
            .collect();
        candidates
            .sort_by(|a, b| (a.cost_device_ms, &a.workload).cmp(&(b.cost_device_ms, &b.workload)));
        candidates
    }
}
