//! What is asked for, and what runs.

use crate::topology::{Extent, Generation, Wanted};

use super::tiling::Tiling;

/// Equal slices of a request: the replicas of a job, or of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// Level of the partitions.
    pub level: u8,
    /// Partitions of each slice: 1, or the number of whole cubes.
    pub pieces: u32,
    /// How many slices.
    pub count: u32,
}

impl Part {
    /// `count` slices of what is wanted; `None` if they are smaller than a host or larger than a grid of this tiling.
    #[must_use]
    pub fn of(
        tiling: &Tiling,
        generation: &Generation,
        wanted: &Wanted,
        count: u32,
    ) -> Option<Self> {
        let (shape, pieces) = match wanted.extent {
            Extent::Part(part) => (*generation.shapes.get(part)?, 1),
            Extent::Cubes(cubes) => (generation.whole()?, cubes),
        };
        let level = tiling.level_of(shape)?;
        Some(Self { level, pieces, count })
    }

    /// Hosts of all slices together.
    #[must_use]
    pub fn hosts(&self) -> u64 {
        let each = 1_u64.checked_shl(u32::from(self.level)).unwrap_or(u64::MAX);
        (u64::from(self.pieces) * u64::from(self.count)).saturating_mul(each)
    }
}

/// A gang that wants slices: all of them, in one block, or none.
#[expect(clippy::struct_excessive_bools, reason = "conditions that are independent of each other")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Unique among requests.
    pub name: String,
    /// Higher goes first and may preempt lower.
    pub priority: i32,
    /// Its slices.
    pub parts: Vec<Part>,
    /// Whether degraded partitions will not do.
    pub is_healthy_only: bool,
    /// How long it is going to run, as far as that is known. Unit: ms.
    pub runs_for_ms: Option<u64>,
    /// Whether it may be placed where maintenance will meet it, if there is no other place.
    pub may_meet_maintenance: bool,
    /// Requests of the same group (prefill and decode of one server, say) go to one block if there is a choice.
    pub group: Option<String>,
    /// Whether it has to be the block of its group.
    pub is_group_bound: bool,
    /// Whether running gangs of lower priority may give way.
    pub may_preempt: bool,
}

impl Request {
    /// A request for `parts` with nothing special about it.
    #[must_use]
    pub fn new(name: impl Into<String>, priority: i32, parts: Vec<Part>) -> Self {
        Self {
            name: name.into(),
            priority,
            parts,
            is_healthy_only: false,
            runs_for_ms: None,
            may_meet_maintenance: true,
            group: None,
            is_group_bound: false,
            may_preempt: true,
        }
    }

    /// Hosts of all its slices together.
    #[must_use]
    pub fn hosts(&self) -> u64 {
        self.parts.iter().fold(0, |all, part| part.hosts().saturating_add(all))
    }
}

/// A gang that holds slices, in whatever state they are: until a slice is gone its hosts are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Unique among those running.
    pub name: String,
    /// Only a request of higher priority takes its place.
    pub priority: i32,
    /// See [`Request::group`].
    pub group: Option<String>,
    /// The partition ids of each of its slices.
    pub slices: Vec<Vec<String>>,
    /// What would be lost if it were drained now. Unit: ms of one chip.
    pub lost_device_ms: u64,
    /// What a start costs. Unit: ms of one chip.
    pub restart_device_ms: u64,
    /// Whether it is left alone: not ours, or protected.
    pub is_fixed: bool,
    /// Whether it is being drained already.
    pub is_leaving: bool,
    /// For whose sake it is being drained: nobody of the same or lower priority gets its place.
    pub beneficiary: Option<(String, i32)>,
}

impl Running {
    /// A gang with nothing special about it.
    #[must_use]
    pub fn new(name: impl Into<String>, priority: i32, slices: Vec<Vec<String>>) -> Self {
        Self {
            name: name.into(),
            priority,
            group: None,
            slices,
            lost_device_ms: 0,
            restart_device_ms: 0,
            is_fixed: false,
            is_leaving: false,
            beneficiary: None,
        }
    }

    /// What it costs to drain it and start it again. Unit: ms of one chip.
    #[must_use]
    pub fn cost_device_ms(&self) -> u64 {
        self.lost_device_ms.saturating_add(self.restart_device_ms)
    }

    /// Whether its place, once it has left, may be given to `request`.
    pub(super) fn leaves_for(&self, request: &Request) -> bool {
        let is_for_other = |(name, priority): &(String, i32)| {
            *name != request.name && *priority >= request.priority
        };
        self.is_leaving && !self.beneficiary.as_ref().is_some_and(is_for_other)
    }
}
