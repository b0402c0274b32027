//! Workloads and what they hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use sluice_core::kueue::name::{QueueName, WorkloadKey};
use sluice_core::kueue::snapshot::Running;
use sluice_core::kueue::workload::{
    Admission, CheckState, DelayedPlacement, Eviction, EvictionReason, PlacedDomain, Placement,
    PodSet, PodSetAdmission, Reservation, SliceLayer, TopologyMode, TopologyRequest, Workload,
    parse_priority_boost,
};

use super::{
    NOW_MS, count, decimal, labels, list, requests, requirement, strings, text, time_ms, toleration,
};

fn topology(value: &Value) -> Option<TopologyRequest> {
    let request = value.as_object()?;
    let level = |key: &str| request.get(key).and_then(Value::as_str).map(str::to_owned);
    let mode = if let Some(level) = level("required") {
        Some(TopologyMode::Required(level))
    } else if let Some(level) = level("preferred") {
        Some(TopologyMode::Preferred(level))
    } else {
        value["unconstrained"].as_bool().unwrap_or(false).then_some(TopologyMode::Unconstrained)
    };
    let layer = |value: &Value| SliceLayer {
        level: text(&value["level"]).to_owned(),
        size: count(&value["size"]),
    };
    Some(TopologyRequest {
        mode,
        group: level("group"),
        slice_level: level("slice_level"),
        slice_size: value["slice_size"].as_u64().map(|size| u32::try_from(size).unwrap()),
        slice_layers: list(&value["slice_layers"]).iter().map(layer).collect(),
    })
}

pub(crate) fn pod_set(value: &Value) -> PodSet {
    let terms = list(&value["affinity_terms"]).iter();
    PodSet {
        name: text(&value["name"]).into(),
        count: count(&value["count"]),
        min_count: value["min_count"].as_u64().map(|min| u32::try_from(min).unwrap()),
        requests: requests(&value["requests"]),
        topology: topology(&value["topology"]),
        tolerations: list(&value["tolerations"]).iter().map(toleration).collect(),
        node_selector: labels(&value["node_selector"]),
        affinity_terms: terms.map(|term| list(term).iter().map(requirement).collect()).collect(),
    }
}

pub(crate) fn placement(value: &Value) -> Option<Placement> {
    value.as_object()?;
    let domain = |value: &Value| PlacedDomain {
        values: strings(&value["values"]),
        pods: count(&value["pods"]),
    };
    Some(Placement {
        levels: strings(&value["levels"]),
        domains: list(&value["domains"]).iter().map(domain).collect(),
    })
}

fn admission(value: &Value) -> Admission {
    let pod_set = |value: &Value| PodSetAdmission {
        name: text(&value["name"]).into(),
        count: count(&value["count"]),
        flavors: value["flavors"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(resource, flavor)| (resource.as_str().into(), text(flavor).into()))
            .collect(),
        usage: requests(&value["usage"]),
        placement: placement(&value["placement"]),
        delayed_placement: match text(&value["placement_delayed"]) {
            "" => None,
            "Pending" => Some(DelayedPlacement::Pending),
            "Ready" => Some(DelayedPlacement::Ready),
            other => panic!("unknown state of a delayed placement {other}"),
        },
    };
    Admission {
        queue: text(&value["queue"]).into(),
        pod_sets: list(&value["podsets"]).iter().map(pod_set).collect(),
    }
}

fn reservation(value: &Value) -> Option<Reservation> {
    value["admission"].as_object()?;
    Some(Reservation {
        at_ms: time_ms(&value["reserved_at"]).unwrap_or(NOW_MS),
        is_admitted: value["admitted"].as_bool().unwrap_or(false),
        admission: admission(&value["admission"]),
    })
}

fn eviction(value: &Value) -> Option<Eviction> {
    if value["evicted"] != Value::Bool(true) {
        return None;
    }
    let reason = match text(&value["evicted_reason"]) {
        "" | "Preempted" => EvictionReason::Preempted,
        "PodsReadyTimeout" => EvictionReason::PodsReadyTimeout,
        "AdmissionCheck" => EvictionReason::AdmissionCheck,
        "ClusterQueueStopped" => EvictionReason::ClusterQueueStopped,
        "LocalQueueStopped" => EvictionReason::LocalQueueStopped,
        "NodeFailures" => EvictionReason::NodeFailures,
        "Deactivated" => EvictionReason::Deactivated,
        other => panic!("unknown eviction reason {other}"),
    };
    Some(Eviction { reason, at_ms: time_ms(&value["evicted_at"]).unwrap_or(NOW_MS) })
}

fn check_state(value: &Value) -> CheckState {
    match text(value) {
        "Pending" => CheckState::Pending,
        "Ready" => CheckState::Ready,
        "Retry" => CheckState::Retry,
        "Rejected" => CheckState::Rejected,
        other => panic!("unknown check state {other}"),
    }
}

/// A workload of the queue called `queue`. `gates` of the case decide whether priority boosts count.
pub(crate) fn workload(value: &Value, queue: &QueueName, gates: &Value) -> Workload {
    let boost = value["priority_boost"].as_str().filter(|_| gates["PriorityBoost"] == true);
    let mut pod_sets: Vec<PodSet> = list(&value["podsets"]).iter().map(pod_set).collect();
    if gates["TopologyAwareScheduling"] == false {
        pod_sets.iter_mut().for_each(|pod_set| pod_set.topology = None);
    }
    let state = |value: &Value| (text(&value["check"]).into(), check_state(&value["state"]));
    Workload {
        key: WorkloadKey::new(text(&value["namespace"]), text(&value["name"])),
        uid: text(&value["uid"]).to_owned(),
        queue: queue.clone(),
        local_queue: text(&value["local_queue"]).into(),
        priority: value["priority"].as_i64().unwrap_or(0).try_into().unwrap(),
        priority_boost: boost.map_or(0, parse_priority_boost),
        created_at_ms: time_ms(&value["created_at"]).unwrap_or(0),
        pod_sets,
        reclaimable: BTreeMap::new(),
        allowed_flavors: Vec::new(),
        reservation: reservation(value),
        eviction: eviction(value),
        unhealthy_nodes: strings(&value["unhealthy_nodes"]),
        checks: list(&value["check_states"]).iter().map(state).collect(),
    }
}

/// A workload that holds quota, or a candidate that may not any more.
pub(crate) fn running(value: &Value, input: &Value, gates: &Value) -> Running {
    let workload = workload(value, &"".into(), gates);
    let usage = match &value["local_queue_usage"] {
        Value::Null => &input["local_queue_usage"][workload.local_queue.as_str()],
        usage => usage,
    };
    let usage_nano = decimal(usage).map(|usage| u128::from(usage.nano_units()));
    let mut running = Running::new(Arc::new(workload));
    running.local_queue_usage_nano = usage_nano;
    running
}
