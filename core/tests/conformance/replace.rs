//! Kind `replace`: where the pods of one broken node go, the others staying where they are.

use serde_json::{Value, json};
use sluice_core::kueue::tas::{Assumed, ReplaceRequest};
use sluice_core::kueue::workload::Placement;

use crate::parse::{self, list, text};
use crate::place;

pub(crate) fn decide(case: &Value) -> Value {
    let input = &case["input"];
    let snapshot = place::snapshot(input, &case["gates"]);
    let workload = &input["workload"];
    let broken = match list(&workload["unhealthy_nodes"]) {
        [] => text(&input["unhealthy_node"]),
        [first, ..] => text(first),
    };
    let mut assumed = Assumed::default();
    let mut answers = Vec::new();
    for value in list(&input["podsets"]) {
        let pod_set = place::pod_set(value);
        let name = pod_set.pod_set.name.as_str();
        let Some(placement) = pod_set.previous.clone().or_else(|| admitted(workload, name)) else {
            continue;
        };
        let replace = ReplaceRequest {
            request: pod_set.request(),
            placement: &placement,
            is_owned_by_single_pod: is_owned_by_single_pod(workload, &case["gates"]),
        };
        match snapshot.replace(&replace, broken, &mut assumed) {
            Ok(replaced) => {
                let placement = place::placement_value(&replaced.placement);
                answers.push(json!({"podset": name, "placement": placement}));
            }
            Err(failure) => {
                answers.push(json!({"podset": name, "failure": place::failure_value(&failure)}));
                break;
            }
        }
    }
    json!({"podsets": answers})
}

fn admitted(workload: &Value, pod_set: &str) -> Option<Placement> {
    let admission = list(&workload["admission"]["podsets"]);
    let admission = admission.iter().find(|admission| admission["name"] == pod_set)?;
    parse::placement(&admission["placement"])
}

/// One owner that is no job (the corpus does not name pods) and no group of pods.
fn is_owned_by_single_pod(workload: &Value, gates: &Value) -> bool {
    let owners = list(&workload["owner_kinds"]);
    let is_pod = |owner: &Value| !text(owner).to_lowercase().contains("job");
    gates["SkipReassignmentForPodOwnedWorkloads"] != false
        && owners.len() == 1
        && owners.iter().all(is_pod)
        && workload["pod_group"] != true
}
