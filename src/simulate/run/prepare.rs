//! A scenario in the scheduler's terms.

use std::collections::BTreeMap;

use sluice_core::kueue::name::{PodSetName, WorkloadKey};
use sluice_core::kueue::workload::{PodSet, Workload};
use sluice_core::scheduler::Policy;

use super::super::scenario::{Job, PolicyName, Scenario};

/// How the scheduler decides.
pub(super) fn policy_of(scenario: &Scenario) -> Policy {
    let policy = match scenario.policy {
        PolicyName::Sluice => Policy::sluice(),
        PolicyName::Compat => Policy::compat(),
    };
    if scenario.is_fair_sharing { policy.with_fair_sharing() } else { policy }
}

/// The `index`-th workload, waiting.
pub(super) fn to_workload(index: usize, job: &Job) -> Workload {
    Workload {
        key: WorkloadKey::new("", &job.name),
        // Workloads that arrive at once stay in the order of the trace.
        uid: format!("{index:08}"),
        queue: job.queue.clone(),
        local_queue: job.queue.as_str().into(),
        priority: job.priority,
        priority_boost: 0,
        created_at_ms: job.arrival_ms,
        pod_sets: vec![PodSet {
            name: PodSetName::from("main"),
            count: job.ranks,
            min_count: None,
            requests: job.requests.clone(),
            topology: job.topology.clone(),
            tolerations: Vec::new(),
            node_selector: BTreeMap::new(),
            affinity_terms: Vec::new(),
        }],
        reclaimable: BTreeMap::new(),
        allowed_flavors: Vec::new(),
        reservation: None,
        eviction: None,
        unhealthy_nodes: Vec::new(),
        checks: BTreeMap::new(),
    }
}
