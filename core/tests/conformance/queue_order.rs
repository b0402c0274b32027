//! Kind `queue-order`: in which order fair sharing visits queues when it looks for victims.

use serde_json::{Value, json};
use sluice_core::kueue::preempt::TargetQueues;
use sluice_core::kueue::whatif::WhatIf;

use crate::parse::{self, list, text};

pub(crate) fn decide(case: &Value) -> Value {
    let input = &case["input"];
    let snapshot = parse::snapshot(input, &case["gates"]);
    let whatif = WhatIf::new(&snapshot);
    let preemptor = snapshot.queue(&text(&input["preemptor_queue"]).into()).unwrap();
    let candidates: Vec<_> = list(&input["candidate_queues"])
        .iter()
        .filter_map(|name| snapshot.queue(&text(name).into()))
        .flat_map(|queue| snapshot.running_in(queue))
        .collect();

    let mut queues = TargetQueues::new(&whatif, preemptor, candidates, parse::NOW_MS);
    let mut actions = list(&input["actions"]).iter();
    let mut order = Vec::new();
    while let Some(queue) = queues.next(&whatif) {
        order.push(snapshot.queue_at(queue).unwrap().spec.name.to_string());
        match actions.next().map(text) {
            Some("drop") => queues.drop_queue(queue),
            Some(_) | None => {
                queues.pop(queue);
            }
        }
    }
    json!({"order": order})
}
