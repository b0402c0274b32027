//! Slices of TPUs as lines.

use crate::paint::{bad, good, warn};
use crate::table::Column;
use crate::text::safe;
use crate::view::slice::SliceView;

pub(super) const COLUMNS: &[Column] = &[
    Column::new("NAME"),
    Column::new("WORKLOAD"),
    Column::new("PRIORITY"),
    Column::new("SHAPE"),
    Column::new("STATE"),
    Column::new("HOSTS"),
    Column::new("PARTITIONS"),
    Column::wide("GENERATION"),
    Column::wide("NODES"),
];

pub(super) fn cells(slice: &SliceView) -> Vec<String> {
    let mut nodes: Vec<&str> = slice.nodes.values().map(String::as_str).collect();
    nodes.sort_unstable();
    nodes.dedup();
    vec![
        safe(&slice.name),
        safe(&slice.workload),
        slice.priority.to_string(),
        safe(&slice.shape),
        state(slice),
        nodes.len().to_string(),
        safe(&slice.partition_ids.join(",")),
        safe(&slice.generation),
        safe(&nodes.join(",")),
    ]
}

fn state(slice: &SliceView) -> String {
    let state = safe(&slice.state);
    let painted = match slice.state.as_str() {
        "ACTIVE" => good(&state),
        "FAILED" => bad(&state),
        "HELD" | "ACTIVE_DEGRADED" | "DEACTIVATING" => warn(&state),
        _ => state,
    };
    if slice.draining { format!("{painted} (draining)") } else { painted }
}
