//! Flavors, queues, cohorts and the snapshot they make up.

use serde_json::Value;
use sluice_core::kueue::model::{
    AdmissionCheck, BorrowWithinCohort, CheckRule, ClusterQueue, Cohort, FlavorPreference,
    FlavorQuotas, FlavorSearch, Fungibility, NamespaceSelector, Preemption, PreemptionPolicy,
    QueueingStrategy, Quota, ResourceFlavor, ResourceGroup, StopPolicy, Topology,
};
use sluice_core::kueue::snapshot::{Setup, Snapshot};

use super::workloads::running;
use super::{amount, labels, list, requirement, strings, taint, text, toleration, weight};
use crate::place::{node, other_pod, switches};

fn flavor(value: &Value) -> ResourceFlavor {
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

pub(crate) fn setup(input: &Value, gates: &Value) -> Setup {
    let mut setup = Setup {
        flavors: list(&input["flavors"]).iter().map(flavor).collect(),
        cohorts: list(&input["cohorts"]).iter().map(cohort).collect(),
        queues: list(&input["queues"]).iter().map(queue).collect(),
        checks: list(&input["checks"]).iter().map(admission_check).collect(),
        topologies: list(&input["topologies"]).iter().map(topology_levels).collect(),
        nodes: list(&input["nodes"]).iter().map(node).collect(),
        other_pods: list(&input["other_pods"]).iter().map(other_pod).collect(),
        placement: switches(gates),
        places_all: false,
    };
    if gates["TopologyAwareScheduling"] == false {
        setup.topologies.clear();
        setup.flavors.iter_mut().for_each(|flavor| flavor.topology = None);
    }
    setup
}

/// The queues of `input` with what runs in them.
pub(crate) fn snapshot(input: &Value, gates: &Value) -> Snapshot {
    let mut snapshot = Snapshot::new(setup(input, gates));
    for value in list(&input["running"]) {
        snapshot.insert(running(value, input, gates));
    }
    snapshot
}
