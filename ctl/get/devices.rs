//! Devices as lines.

use std::collections::BTreeMap;

use crate::paint::{bad, good, warn};
use crate::table::Column;
use crate::text::{NOTHING, age_or_dash, bytes, or_dash, safe};
use crate::view::node::{DeviceView, NodeView};
use crate::view::workload::WorkloadView;

pub(super) const COLUMNS: &[Column] = &[
    Column::new("NAME"),
    Column::new("NODE"),
    Column::new("INDEX"),
    Column::new("KIND"),
    Column::new("RESOURCE"),
    Column::new("HEALTH"),
    Column::new("WORKLOAD"),
    Column::age("AGE"),
    Column::new("SOURCE"),
    Column::wide("PCI"),
    Column::wide("ACTION"),
    Column::wide("FAULTS"),
    Column::wide("MEMORY"),
    Column::wide("PIDS"),
    Column::wide("REASON"),
];

pub(super) fn cells(device: &DeviceView) -> Vec<String> {
    let pids: Vec<String> = device.holder_pids.iter().take(8).map(u32::to_string).collect();
    vec![
        safe(&device.id),
        safe(&device.node),
        device.index.to_string(),
        or_dash(&device.kind),
        or_dash(&device.resource),
        health(device.health),
        or_dash(device.workload.as_deref().unwrap_or_default()),
        age_or_dash(device.age_ms),
        or_dash(&device.source),
        or_dash(device.pci_bus_id.as_deref().unwrap_or_default()),
        device.action.to_owned(),
        device.faults.len().to_string(),
        device.memory_bytes.map_or_else(|| NOTHING.to_owned(), bytes),
        or_dash(&pids.join(",")),
        or_dash(&device.health_reason.message),
    ]
}

/// A health with its colour; only `Healthy` is green.
pub(crate) fn health(word: &str) -> String {
    match word {
        "Healthy" => good(word),
        "Unhealthy" => bad(word),
        _ => warn(word),
    }
}

/// Notes on each device the workload that it is assigned to.
pub(super) fn assign(nodes: &mut [NodeView], workloads: &[WorkloadView]) {
    let mut assigned = BTreeMap::new();
    for workload in workloads {
        for rank in &workload.ranks {
            let node = rank.node.as_deref().unwrap_or_default();
            for device in &rank.devices {
                assigned.insert((node, device.as_str()), workload.name.as_str());
            }
        }
    }
    for node in nodes {
        for device in &mut node.devices {
            let name = assigned.get(&(node.name.as_str(), device.id.as_str()));
            device.workload = name.map(|&name| name.to_owned());
        }
    }
}
