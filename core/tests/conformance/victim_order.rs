//! Kind `victim-order`: in which order candidates are considered.

use serde_json::{Value, json};
use sluice_core::kueue::name::QueueName;
use sluice_core::kueue::preempt::compare_candidates;

use crate::parse::{self, list, text};

pub(crate) fn decide(case: &Value) -> Value {
    let input = &case["input"];
    let preemptor_queue: QueueName = text(&input["preemptor_queue"]).into();
    let mut candidates: Vec<_> = list(&input["candidates"])
        .iter()
        .map(|value| parse::running(value, input, &case["gates"]))
        .collect();
    candidates.sort_by(|a, b| compare_candidates(a, b, &preemptor_queue, parse::NOW_MS));
    let names: Vec<&str> =
        candidates.iter().map(|candidate| candidate.workload.key.name()).collect();
    json!({"order": names})
}
