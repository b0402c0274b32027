//! Workloads of the engine that the benches of decisions share.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_core::kueue::name::WorkloadKey;
use sluice_core::kueue::workload::{
    Admission, PlacedDomain, Placement, PodSet, PodSetAdmission, Reservation, TopologyMode,
    TopologyRequest, Workload,
};

use crate::world::{GPU, LEVELS};

/// A workload of `count` pods with `gpus` each that waits.
pub(crate) fn pending(
    name: &str,
    queue: &str,
    priority: i32,
    (count, gpus): (u32, i64),
    mode: TopologyMode,
) -> Workload {
    Workload {
        key: WorkloadKey::new("research", name),
        uid: name.to_owned(),
        queue: queue.into(),
        local_queue: queue.into(),
        priority,
        priority_boost: 0,
        created_at_ms: 0,
        pod_sets: vec![PodSet {
            name: "main".into(),
            count,
            min_count: None,
            requests: [(GPU.into(), gpus)].into(),
            topology: Some(TopologyRequest { mode: Some(mode), ..TopologyRequest::default() }),
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

/// `workload` as it runs with one pod on each of `nodes` since `at_ms`.
pub(crate) fn placed(mut workload: Workload, nodes: &[usize], at_ms: u64) -> Arc<Workload> {
    let pod_set = &workload.pod_sets[0];
    let domain = |node: &usize| PlacedDomain { values: vec![format!("node-{node:05}")], pods: 1 };
    let placement = Placement {
        levels: vec![LEVELS[2].to_owned()],
        domains: nodes.iter().map(domain).collect(),
    };
    let gpus = pod_set.requests[&GPU.into()] * i64::from(pod_set.count);
    let admission = Admission {
        queue: workload.queue.clone(),
        pod_sets: vec![PodSetAdmission {
            name: "main".into(),
            count: pod_set.count,
            flavors: [(GPU.into(), "reserved".into())].into(),
            usage: [(GPU.into(), gpus)].into(),
            placement: Some(placement),
            delayed_placement: None,
        }],
    };
    workload.reservation = Some(Reservation { at_ms, is_admitted: true, admission });
    Arc::new(workload)
}
