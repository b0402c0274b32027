//! Looking at the arbiter's state: for the store, for people, and for its own decisions.

use std::collections::BTreeMap;

use super::{Arbiter, Node};
use crate::drain::Drain;
use crate::id::{DrainId, NodeName, WorkloadName};
use crate::queue::Queues;
use crate::reason::{Ms, Reason};
use crate::scheduler::Scheduler;
use crate::workload::Workload;

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
    pub fn queues(&self) -> &Queues {
        &self.config.queues
    }

    /// What decides who gets devices.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
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
}
