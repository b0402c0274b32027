//! From the corpus's JSON to the model. Names and shapes are those of `tests/corpus/README.md`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use sluice_core::kueue::matching::{
    LabelOperator, LabelRequirement, Labels, Taint, TaintEffect, Toleration, TolerationOperator,
};
use sluice_core::kueue::model::{
    AdmissionCheck, BorrowWithinCohort, CheckRule, ClusterQueue, Cohort, FlavorPreference,
    FlavorQuotas, FlavorSearch, Fungibility, NamespaceSelector, Preemption, PreemptionPolicy,
    QueueingStrategy, Quota, ResourceFlavor, ResourceGroup, StopPolicy, Topology,
};
use sluice_core::kueue::name::{QueueName, WorkloadKey};
use sluice_core::kueue::snapshot::{Running, Setup, Snapshot};
use sluice_core::kueue::tas::{Node, OtherPod, Switches};
use sluice_core::kueue::weight::FairWeight;
use sluice_core::kueue::workload::{
    Admission, CheckState, DelayedPlacement, Eviction, EvictionReason, PlacedDomain, Placement,
    PodSet, PodSetAdmission, Requests, Reservation, SliceLayer, TopologyMode, TopologyRequest,
    Workload, parse_priority_boost,
};

/// The cases' "now", far enough from 0 for all times before it.
pub(crate) const NOW_MS: u64 = 1_000_000_000_000;

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn strings(value: &Value) -> Vec<String> {
    list(value).iter().map(|value| text(value).to_owned()).collect()
}

pub(crate) fn count(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}

/// A decimal such as `0.5` or `2`, exactly, in billionths.
fn decimal(value: &Value) -> Option<FairWeight> {
    (!value.is_null()).then(|| FairWeight::parse(&value.to_string()).unwrap())
}

fn weight(value: &Value) -> FairWeight {
    decimal(value).unwrap_or(FairWeight::ONE)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "corpus times are small numbers of seconds around 0"
)]
fn time_ms(value: &Value) -> Option<u64> {
    let seconds = value.as_f64()?;
    Some(((NOW_MS as i64) + (seconds * 1000.0) as i64) as u64)
}

pub(crate) fn labels(value: &Value) -> Labels {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(key, value)| (key.clone(), text(value).to_owned())).collect()
}

/// An amount; above the type's range it is the largest one, which no quota can meet.
fn amount(value: &Value) -> Option<i64> {
    let beyond = value.as_u64().map(|_| i64::MAX);
    value.as_i64().or(beyond)
}

pub(crate) fn requests(value: &Value) -> Requests {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(name, value)| (name.as_str().into(), amount(value).unwrap())).collect()
}

fn effect(value: &Value) -> Option<TaintEffect> {
    Some(match text(value) {
        "" => return None,
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        other => panic!("unknown taint effect {other}"),
    })
}

pub(crate) fn taint(value: &Value) -> Taint {
    Taint {
        key: text(&value["key"]).to_owned(),
        value: text(&value["value"]).to_owned(),
        effect: effect(&value["effect"]).unwrap(),
    }
}

pub(crate) fn toleration(value: &Value) -> Toleration {
    Toleration {
        key: text(&value["key"]).to_owned(),
        operator: match text(&value["op"]) {
            "" | "Equal" => TolerationOperator::Equal,
            "Exists" => TolerationOperator::Exists,
            other => panic!("unknown toleration operator {other}"),
        },
        value: text(&value["value"]).to_owned(),
        effect: effect(&value["effect"]),
    }
}

pub(crate) fn requirement(value: &Value) -> LabelRequirement {
    LabelRequirement {
        key: text(&value["key"]).to_owned(),
        operator: match text(&value["op"]) {
            "In" => LabelOperator::In,
            "NotIn" => LabelOperator::NotIn,
            "Exists" => LabelOperator::Exists,
            "DoesNotExist" => LabelOperator::DoesNotExist,
            "Gt" => LabelOperator::Gt,
            "Lt" => LabelOperator::Lt,
            other => panic!("unknown label operator {other}"),
        },
        values: strings(&value["values"]),
    }
}

pub(crate) fn flavor(value: &Value) -> ResourceFlavor {
    ResourceFlavor {
        name: text(&value["name"]).into(),
        node_labels: labels(&value["labels"]),
        taints: list(&value["taints"]).iter().map(taint).collect(),
        tolerations: list(&value["tolerations"]).iter().map(toleration).collect(),
        topology: value["topology"].as_str().map(Into::into),
    }
}

fn group(value: &Value) -> ResourceGroup {
    let quota = |value: &Value| Quota {
        nominal: amount(&value["nominal"]).unwrap(),
        borrowing_limit: amount(&value["borrow_limit"]),
        lending_limit: amount(&value["lend_limit"]),
    };
    let flavor = |value: &Value| FlavorQuotas {
        flavor: text(&value["flavor"]).into(),
        quotas: value["quota"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(resource, value)| (resource.as_str().into(), quota(value)))
            .collect(),
    };
    ResourceGroup {
        resources: list(&value["resources"]).iter().map(|name| text(name).into()).collect(),
        flavors: list(&value["flavors"]).iter().map(flavor).collect(),
    }
}

fn groups(value: &Value) -> Vec<ResourceGroup> {
    list(value).iter().map(group).collect()
}

fn policy(value: &Value) -> PreemptionPolicy {
    match text(value) {
        "" | "Never" => PreemptionPolicy::Never,
        "LowerPriority" => PreemptionPolicy::LowerPriority,
        "LowerOrNewerEqualPriority" => PreemptionPolicy::LowerOrNewerEqualPriority,
        "Any" => PreemptionPolicy::Any,
        other => panic!("unknown preemption policy {other}"),
    }
}

fn preemption(value: &Value) -> Preemption {
    let borrow = &value["borrow"];
    Preemption {
        within_queue: policy(&value["within_queue"]),
        reclaim_within_cohort: policy(&value["reclaim"]),
        borrow_within_cohort: match text(&borrow["policy"]) {
            "" | "Never" => BorrowWithinCohort::Never,
            "LowerPriority" => BorrowWithinCohort::LowerPriority {
                max_priority: borrow["max_priority"].as_i64().map(|max| max.try_into().unwrap()),
            },
            other => panic!("unknown borrowing policy {other}"),
        },
    }
}

fn fungibility(value: &Value) -> Fungibility {
    let search = |value: &Value, default| match text(value) {
        "" => default,
        "MayStopSearch" => FlavorSearch::MayStopSearch,
        "TryNextFlavor" => FlavorSearch::TryNextFlavor,
        other => panic!("unknown flavor search {other}"),
    };
    let default = Fungibility::DEFAULT;
    Fungibility {
        when_can_borrow: search(&value["when_can_borrow"], default.when_can_borrow),
        when_can_preempt: search(&value["when_can_preempt"], default.when_can_preempt),
        preference: match text(&value["preference"]) {
            "" => default.preference,
            "BorrowingOverPreemption" => FlavorPreference::BorrowingOverPreemption,
            "PreemptionOverBorrowing" => FlavorPreference::PreemptionOverBorrowing,
            other => panic!("unknown flavor preference {other}"),
        },
    }
}

fn check_rule(value: &Value) -> CheckRule {
    let names = |value: &Value| list(value).iter().map(|name| text(name).into()).collect();
    match value {
        Value::String(name) => CheckRule { check: name.as_str().into(), on_flavors: Vec::new() },
        _ => CheckRule {
            check: text(&value["check"]).into(),
            on_flavors: names(&value["on_flavors"]),
        },
    }
}

fn queue(value: &Value) -> ClusterQueue {
    ClusterQueue {
        name: text(&value["name"]).into(),
        cohort: value["cohort"].as_str().map(Into::into),
        strategy: match text(&value["order"]) {
            "StrictFIFO" => QueueingStrategy::StrictFifo,
            "" | "BestEffortFIFO" => QueueingStrategy::BestEffortFifo,
            other => panic!("unknown queueing strategy {other}"),
        },
        groups: groups(&value["groups"]),
        preemption: preemption(&value["preempt"]),
        fungibility: fungibility(&value["fungibility"]),
        fair_weight: weight(&value["fair_weight"]),
        namespaces: match &value["namespace_selector"] {
            Value::String(_) => NamespaceSelector::Nobody,
            selector => {
                NamespaceSelector::Matching(list(selector).iter().map(requirement).collect())
            }
        },
        checks: list(&value["checks"]).iter().map(check_rule).collect(),
        stop: match text(&value["stop"]) {
            "" | "None" => StopPolicy::None,
            "Hold" => StopPolicy::Hold,
            "HoldAndDrain" => StopPolicy::HoldAndDrain,
            other => panic!("unknown stop policy {other}"),
        },
    }
}

fn cohort(value: &Value) -> Cohort {
    Cohort {
        name: text(&value["name"]).into(),
        parent: value["parent"].as_str().map(Into::into),
        groups: groups(&value["groups"]),
        fair_weight: weight(&value["fair_weight"]),
    }
}

fn admission_check(value: &Value) -> AdmissionCheck {
    AdmissionCheck {
        name: text(&value["name"]).into(),
        controller: text(&value["controller"]).to_owned(),
        is_active: value["active"].as_bool().unwrap_or(false),
    }
}

fn topology_levels(value: &Value) -> Topology {
    Topology { name: text(&value["name"]).into(), levels: strings(&value["levels"]) }
}

pub(crate) fn node(value: &Value) -> Node {
    Node {
        name: text(&value["name"]).to_owned(),
        labels: labels(&value["labels"]),
        allocatable: requests(&value["allocatable"]),
        taints: list(&value["taints"]).iter().map(taint).collect(),
        is_ready: value["ready"].as_bool().unwrap_or(false),
        is_unschedulable: value["unschedulable"].as_bool().unwrap_or(false),
    }
}

pub(crate) fn other_pod(value: &Value) -> OtherPod {
    OtherPod {
        node: text(&value["node"]).to_owned(),
        requests: requests(&value["requests"]),
        has_ended: matches!(text(&value["phase"]), "Succeeded" | "Failed"),
    }
}

pub(crate) fn setup(input: &Value) -> Setup {
    Setup {
        flavors: list(&input["flavors"]).iter().map(flavor).collect(),
        cohorts: list(&input["cohorts"]).iter().map(cohort).collect(),
        queues: list(&input["queues"]).iter().map(queue).collect(),
        checks: list(&input["checks"]).iter().map(admission_check).collect(),
        topologies: list(&input["topologies"]).iter().map(topology_levels).collect(),
        nodes: list(&input["nodes"]).iter().map(node).collect(),
        other_pods: list(&input["other_pods"]).iter().map(other_pod).collect(),
        placement: Switches::default(),
    }
}

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

pub(crate) fn admission(value: &Value) -> Admission {
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
    let state = |value: &Value| (text(&value["check"]).into(), check_state(&value["state"]));
    Workload {
        key: WorkloadKey::new(text(&value["namespace"]), text(&value["name"])),
        uid: text(&value["uid"]).to_owned(),
        queue: queue.clone(),
        local_queue: text(&value["local_queue"]).into(),
        priority: value["priority"].as_i64().unwrap_or(0).try_into().unwrap(),
        priority_boost: boost.map_or(0, parse_priority_boost),
        created_at_ms: time_ms(&value["created_at"]).unwrap_or(0),
        pod_sets: list(&value["podsets"]).iter().map(pod_set).collect(),
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

/// The queues of `input` with what runs in them.
pub(crate) fn snapshot(input: &Value, gates: &Value) -> Snapshot {
    let mut snapshot = Snapshot::new(setup(input));
    for value in list(&input["running"]) {
        snapshot.insert(running(value, input, gates));
    }
    snapshot
}
