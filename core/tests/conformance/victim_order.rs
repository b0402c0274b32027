//! Kind `victim-order`: in which order candidates are considered.

use serde_json::{Value, json};
use sluice_core::kueue::name::QueueName;
use sluice_core::kueue::preempt::sort_candidates;
use sluice_core::kueue::snapshot::Running;

use crate::parse::{self, list, text};

pub(crate) fn decide(case: &Value) -> Value {
    let input = &case["input"];
    let preemptor_queue: QueueName = text(&input["preemptor_queue"]).into();
    let candidates: Vec<Running> = list(&input["candidates"])
        .iter()
        .map(|value| parse::running(value, input, &case["gates"]))
        .collect();
    let mut candidates: Vec<&Running> = candidates.iter().collect();
    sort_candidates(&mut candidates, |running| *running, &preemptor_queue, parse::NOW_MS);
    let names: Vec<&str> =
        candidates.iter().map(|candidate| candidate.workload.key.name()).collect();
    json!({"order": names})
}
