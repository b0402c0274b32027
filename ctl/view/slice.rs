//! Slices of TPUs.

use std::collections::BTreeMap;

use serde::Serialize;
use sluice::wire::pb;

/// A slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SliceView {
    /// As a Slice object would be called.
    pub(crate) name: String,
    /// Whose it is.
    pub(crate) workload: String,
    /// Which of the gang's slices, from 0.
    pub(crate) index: u32,
    /// Such as `tpu7x`.
    pub(crate) generation: String,
    /// Such as `4x4x8`.
    pub(crate) shape: String,
    /// Where it is in its life.
    pub(crate) state: String,
    /// Whether its gang is being drained.
    pub(crate) draining: bool,
    /// Of its gang.
    pub(crate) priority: i32,
    /// As a Slice object names them.
    pub(crate) partition_ids: Vec<String>,
    /// The node of each rank, by rank.
    pub(crate) nodes: BTreeMap<u32, String>,
}

impl SliceView {
    /// As the arbiter says it.
    pub(crate) fn of(slice: &pb::Slice) -> Self {
        Self {
            name: slice.name.clone(),
            workload: slice.workload.clone(),
            index: slice.index,
            generation: slice.generation.clone(),
            shape: slice.shape.clone(),
            state: slice.state.clone(),
            draining: slice.draining,
            priority: slice.priority,
            partition_ids: slice.partitions.clone(),
            nodes: slice.nodes.iter().map(|(rank, node)| (*rank, node.clone())).collect(),
        }
    }
}
