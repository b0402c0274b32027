//! Kind `flavor`: which flavor and mode each resource gets, and from how far quota comes.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use sluice_core::kueue::flavor::{
    Assignment, FlavorChoice, FlavorRequest, PodSetAssignment, Possibility,
};
use sluice_core::kueue::name::{FlavorResource, WorkloadKey};
use sluice_core::kueue::snapshot::{Running, Snapshot};
use sluice_core::kueue::topology::assign;
use sluice_core::kueue::whatif::WhatIf;
use sluice_core::kueue::workload::{Admission, PodSetAdmission, Reservation};

use crate::parse::{self, count, list, text};

pub(crate) fn decide(case: &Value) -> Value {
    let input = &case["input"];
    let gates = &case["gates"];
    let mut snapshot = parse::snapshot(input, gates);
    insert_usage(&mut snapshot, &input["queue_usage"], gates);
    let queue_name = text(&input["queue"]).into();
    let podsets = json!({"podsets": input["podsets"]});
    let mut workload = parse::workload(&podsets, &queue_name, gates);
    if gates["ReclaimablePods"] != false {
        workload.reclaimable = list(&input["reclaimable"])
            .iter()
            .map(|entry| (text(&entry["podset"]).into(), count(&entry["count"])))
            .collect();
    }
    if gates["ConcurrentAdmission"] == true {
        workload.allowed_flavors =
            list(&input["allowed_flavors"]).iter().map(|name| text(name).into()).collect();
    }
    let request = FlavorRequest {
        workload: &workload,
        queue: snapshot.queue(&queue_name).unwrap(),
        counts: None,
        progress: None,
        nominated: None,
        is_fair_sharing: input["fair_sharing"] == true,
    };
    let mut oracle =
        |_: &mut WhatIf<'_>, fr: &FlavorResource, _| answer(list(&input["oracle"]), fr);
    let assignment = assign(&mut WhatIf::new(&snapshot), &request, &mut oracle);
    outcome(&assignment, &case["expect"])
}

/// What the case says a preemption simulation would find; anything not listed is possible within quota.
fn answer(listed: &[Value], fr: &FlavorResource) -> (Possibility, u32) {
    let is_meant = |entry: &&Value| {
        entry["flavor"] == fr.flavor.as_str() && entry["resource"] == fr.resource.as_str()
    };
    let Some(entry) = listed.iter().find(is_meant) else { return (Possibility::Preempt, 0) };
    let possibility = match text(&entry["result"]) {
        "NoCandidates" => Possibility::NoCandidates,
        "Preempt" => Possibility::Preempt,
        "Reclaim" => Possibility::Reclaim,
        other => panic!("unknown oracle answer {other}"),
    };
    (possibility, count(&entry["borrow_height"]))
}

/// Makes every queue use what the case says, by one running workload each.
fn insert_usage(snapshot: &mut Snapshot, usage: &Value, gates: &Value) {
    for (queue, amounts) in usage.as_object().into_iter().flatten() {
        let pod_sets = list(amounts)
            .iter()
            .map(|entry| PodSetAdmission {
                name: text(&entry["flavor"]).into(),
                count: 1,
                flavors: [(text(&entry["resource"]).into(), text(&entry["flavor"]).into())].into(),
                usage: [(text(&entry["resource"]).into(), entry["amount"].as_i64().unwrap())]
                    .into(),
                placement: None,
                delayed_placement: None,
            })
            .collect();
        let admission = Admission { queue: queue.as_str().into(), pod_sets };
        let mut workload = parse::workload(&json!({}), &queue.as_str().into(), gates);
        workload.key = WorkloadKey::new("usage", queue);
        workload.reservation =
            Some(Reservation { at_ms: parse::NOW_MS, is_admitted: true, admission });
        snapshot.insert(Running::new(Arc::new(workload)));
    }
}

/// The outcome in the corpus's form. Some variants expect fewer fields; what they do expect is compared whole.
fn outcome(assignment: &Assignment, expect: &Value) -> Value {
    let in_full = expect.get("borrow_height").is_some();
    let pod_sets: Vec<Value> =
        assignment.pod_sets.iter().map(|pod_set| pod_set_outcome(pod_set, in_full)).collect();
    let mut outcome = json!({"mode": assignment.mode().code(), "podsets": pod_sets});
    if in_full {
        outcome["borrow_height"] = assignment.borrow_height.into();
    }
    outcome
}

fn pod_set_outcome(pod_set: &PodSetAssignment, in_full: bool) -> Value {
    let choice = |choice: &FlavorChoice| {
        if !in_full {
            return json!({"flavor": choice.flavor.as_str()});
        }
        let next_try_from = choice.last_tried.map_or(json!(-1), |tried| json!(tried));
        json!({"flavor": choice.flavor.as_str(), "mode": choice.mode.code(), "next_try_from": next_try_from})
    };
    let flavors: Map<String, Value> = pod_set
        .flavors
        .iter()
        .map(|(resource, chosen)| (resource.to_string(), choice(chosen)))
        .collect();
    let mut outcome = json!({"podset": pod_set.name.as_str()});
    if in_full {
        outcome["count"] = pod_set.count.into();
    }
    if !flavors.is_empty() {
        outcome["flavors"] = flavors.into();
    }
    outcome
}
