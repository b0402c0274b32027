//! Nodes as lines.

use crate::paint::{bad, good};
use crate::table::Column;
use crate::text::{age_or_dash, or_dash, safe};
use crate::view::node::NodeView;

pub(super) const COLUMNS: &[Column] = &[
    Column::new("NAME"),
    Column::new("STATUS"),
    Column::new("HEALTHY"),
    Column::new("KIND"),
    Column::new("WORKERS"),
    Column::age("SEEN"),
    Column::new("VERSION"),
    Column::wide("VOLUMES"),
    Column::wide("SESSION"),
    Column::wide("BOOT"),
    Column::wide("REASON"),
];

pub(super) fn cells(node: &NodeView) -> Vec<String> {
    let mut kinds: Vec<&str> = node.devices.iter().map(|d| d.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let simulated = if node.simulated { " (simulated)" } else { "" };
    let boot: String = node.boot_id.as_deref().unwrap_or_default().chars().take(8).collect();
    vec![
        safe(&node.name),
        connection(node.connected),
        format!("{}/{}", node.healthy_devices(), node.devices.len()),
        format!("{}{simulated}", or_dash(&kinds.join(","))),
        node.workers.len().to_string(),
        age_or_dash(node.last_seen_ms),
        or_dash(node.agent_version.as_deref().unwrap_or_default()),
        node.volumes.len().to_string(),
        node.session.to_string(),
        or_dash(&boot),
        or_dash(&node.reason.message),
    ]
}

/// A node's status with its colour. Silence means that nothing is known: not that the node is
/// broken, and never that it is well.
pub(crate) fn connection(connected: bool) -> String {
    if connected { good("Connected") } else { bad("Unknown") }
}
