//! Slices of TPUs on the wire.

use sluice_core::arbiter::{CubeView, HostView, SliceAnswer, SliceView};
use sluice_core::id::NodeName;
use sluice_core::workload::{SlicePlace, SliceSpec};

use super::super::{WireError, field, pb};

/// Longest name of a generation, a shape or a group. Unit: bytes. What is longer is none.
const TEXT_BYTES_MAX: usize = 253;

impl From<&SliceSpec> for pb::SliceSpec {
    fn from(slice: &SliceSpec) -> Self {
        Self {
            generation: slice.generation.clone(),
            shape: slice.shape.clone(),
            count: slice.count,
            healthy_only: slice.is_healthy_only,
            group: slice.group.clone(),
        }
    }
}

impl TryFrom<&pb::SliceSpec> for SliceSpec {
    type Error = WireError;

    fn try_from(slice: &pb::SliceSpec) -> Result<Self, WireError> {
        let group = slice.group.as_deref().unwrap_or_default();
        let texts =
            [("generation", &*slice.generation), ("shape", &*slice.shape), ("group", group)];
        for (name, text) in texts {
            if text.len() > TEXT_BYTES_MAX {
                let expected = format!("at most {TEXT_BYTES_MAX} bytes");
                let name = format!("slice.{name}");
                return Err(WireError::new(&name, format!("{} bytes", text.len()), expected));
            }
        }
        Ok(Self {
            generation: slice.generation.clone(),
            shape: slice.shape.clone(),
            count: slice.count,
            is_healthy_only: slice.healthy_only,
            group: slice.group.clone(),
        })
    }
}

pub(super) fn place_out(place: &SlicePlace) -> pb::SlicePlace {
    let node = |(rank, node): (&u32, &NodeName)| (*rank, node.to_string());
    let nodes = place.nodes.iter().map(node).collect();
    pb::SlicePlace { partitions: place.partitions.clone(), nodes }
}

pub(super) fn place_in(place: &pb::SlicePlace) -> Result<SlicePlace, WireError> {
    let node = |(rank, node): (&u32, &String)| Ok((*rank, field::name("slices.nodes", node)?));
    let nodes = place.nodes.iter().map(node).collect::<Result<_, WireError>>()?;
    Ok(SlicePlace { partitions: place.partitions.clone(), nodes })
}

/// A slice as it is told.
#[must_use]
pub fn slice(slice: &SliceView) -> pb::Slice {
    let node = |(rank, node): (&u32, &NodeName)| (*rank, node.to_string());
    pb::Slice {
        name: slice.name.clone(),
        workload: slice.workload.to_string(),
        index: slice.index,
        generation: slice.generation.clone(),
        shape: slice.shape.clone(),
        partitions: slice.partitions.clone(),
        nodes: slice.nodes.iter().map(node).collect(),
        state: slice.state.as_str().to_owned(),
        draining: slice.is_draining,
        priority: slice.priority,
    }
}

/// A cube as it is told.
#[must_use]
pub fn cube(cube: &CubeView) -> pb::SliceCube {
    let host = |host: &HostView| pb::SliceHost {
        node: host.node.clone(),
        health: pb::Health::from(host.health).into(),
        open: host.is_open,
        slices: host.slices.clone(),
    };
    pb::SliceCube {
        id: cube.id.clone(),
        block: cube.block.clone(),
        generation: cube.generation.clone(),
        hosts: cube.hosts.iter().map(host).collect(),
    }
}

/// What would become of a request.
#[must_use]
pub fn answer(answer: &SliceAnswer) -> pb::PlanSliceResponse {
    let planned = |(partitions, nodes): &(Vec<String>, Vec<String>)| pb::PlannedSlice {
        partitions: partitions.clone(),
        nodes: nodes.clone(),
    };
    let victim = |(workload, cost): &(String, u64)| pb::PlannedVictim {
        workload: workload.clone(),
        cost_device_ms: *cost,
    };
    let moved = |(workload, from, to, cost): &(String, String, String, u64)| pb::PlannedMove {
        workload: workload.clone(),
        from: from.clone(),
        to: to.clone(),
        cost_device_ms: *cost,
    };
    pb::PlanSliceResponse {
        placed: answer.is_placed,
        code: answer.code.clone(),
        why: answer.why.clone(),
        hint: answer.hint.clone(),
        slices: answer.slices.iter().map(planned).collect(),
        victims: answer.victims.iter().map(victim).collect(),
        awaits: answer.awaits.clone(),
        moves: answer.moves.iter().map(moved).collect(),
    }
}
