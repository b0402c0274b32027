//! Workloads as lines.

use crate::paint::{bad, good, warn};
use crate::table::Column;
use crate::text::{NOTHING, age_or_dash, or_dash, safe};
use crate::view::workload::WorkloadView;

pub(super) const COLUMNS: &[Column] = &[
    Column::new("NAME"),
    Column::new("QUEUE"),
    Column::new("PRIORITY"),
    Column::new("PHASE"),
    Column::new("DEVICES"),
    Column::new("NODES"),
    Column::new("START"),
    Column::age("SINCE"),
    Column::age("AGE"),
    Column::new("REASON"),
    Column::wide("RANKS"),
    Column::wide("AHEAD"),
    Column::wide("STEP"),
    Column::wide_age("CHECKPOINT-AGE"),
    Column::wide("DRAINS"),
    Column::wide("WHY"),
];

pub(super) fn cells(workload: &WorkloadView) -> Vec<String> {
    let age = |when: Option<crate::view::When>| age_or_dash(when.map(|w| w.age_ms));
    let step = workload.checkpoint.as_ref().map(|c| c.step.to_string());
    vec![
        safe(&workload.name),
        safe(&workload.queue),
        workload.priority.to_string(),
        phase(workload.phase),
        format!("{}/{}", workload.devices_held(), workload.devices_asked()),
        or_dash(&workload.nodes().join(",")),
        workload.attempt.to_string(),
        age(workload.phase_since),
        age(workload.submitted_at),
        or_dash(&workload.reason.code),
        format!("{}/{}", workload.ranks.len(), workload.nnodes),
        workload.ahead_count.to_string(),
        step.unwrap_or_else(|| NOTHING.to_owned()),
        age_or_dash(workload.checkpoint_age_ms),
        workload.profile.drains.to_string(),
        or_dash(&workload.reason.message),
    ]
}

/// A phase with its colour.
pub(crate) fn phase(word: &str) -> String {
    match word {
        "Running" | "Succeeded" => good(word),
        "Failed" | "Unknown" => bad(word),
        "Draining" => warn(word),
        _ => word.to_owned(),
    }
}
