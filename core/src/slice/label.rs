//! What a node's labels say of its TPUs: the same labels on a Node of Kubernetes and from an agent.

use std::collections::BTreeMap;

use crate::topology::Shape;

use super::cube::PartitionState;

/// The label with the generation, such as `tpu7x`.
pub const ACCELERATOR: &str = "cloud.google.com/gke-tpu-accelerator";
/// The label with the block.
pub const BLOCK: &str = "cloud.google.com/gce-topology-block";
/// Between the prefix and the end stands the shape. Generations before tpu7x have the second prefix.
const PARTITION_PREFIXES: [&str; 2] =
    ["cloud.google.com/gke-tpu-partition-", "cloud.google.com/gke-tpu-slice-"];
/// When the next maintenance begins: seconds since 1970.
const MAINTENANCE_AT: &str = "cloud.google.com/scheduled-maintenance-time";
const MAINTENANCE_NOW: &str = "cloud.google.com/active-node-maintenance";

/// What the labels say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeLabels {
    /// The generation; `None`: the node has no TPU.
    pub accelerator: Option<String>,
    /// The block; empty if there is no label.
    pub block: String,
    /// The id of the node's partition, by shape.
    pub ids: BTreeMap<Shape, String>,
    /// The state of the node's partition, by shape.
    pub states: BTreeMap<Shape, PartitionState>,
    /// When the next maintenance begins. Unit: ms since 1970.
    pub maintenance_at_ms: Option<u64>,
    /// Whether one is going on.
    pub is_in_maintenance: bool,
}

impl NodeLabels {
    /// Reads labels; those that say nothing of TPUs, or cannot be read, are passed over.
    pub fn read<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut read = Self::default();
        for (key, value) in labels {
            match key {
                ACCELERATOR => read.accelerator = Some(value.to_owned()),
                BLOCK => value.clone_into(&mut read.block),
                MAINTENANCE_AT => {
                    let seconds = value.parse::<u64>().ok();
                    read.maintenance_at_ms = seconds.map(|s| s.saturating_mul(1_000));
                }
                MAINTENANCE_NOW => read.is_in_maintenance = value == "ONGOING",
                _ => read.partition(key, value),
            }
        }
        read
    }

    fn partition(&mut self, key: &str, value: &str) {
        let rest = PARTITION_PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix));
        let Some((shape, what)) = rest.and_then(|rest| rest.rsplit_once('-')) else { return };
        let Ok(shape) = shape.parse::<Shape>() else { return };
        match what {
            "id" => drop(self.ids.insert(shape, value.to_owned())),
            "state" => drop(self.states.insert(shape, PartitionState::of_label(value))),
            _ => {}
        }
    }
}
