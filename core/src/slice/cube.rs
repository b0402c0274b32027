//! A cube (or grid) as it was reported: hosts, their health, and the ids of its partitions.

use std::collections::BTreeMap;

use crate::protocol::Health;

use super::tiling::Partition;

/// The state that the label `…-partition-<shape>-state` gives a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartitionState {
    /// Usable.
    Healthy,
    /// Usable, avoided.
    Degraded,
    /// Not to be used.
    Unhealthy,
    /// Too few nodes.
    Unset,
    /// Not all nodes are there yet.
    Incomplete,
    /// The label is missing or says something else. Never placed on.
    Unknown,
}

impl PartitionState {
    /// The state that a label's value means.
    #[must_use]
    pub fn of_label(value: &str) -> Self {
        match value {
            "HEALTHY" => Self::Healthy,
            "DEGRADED" => Self::Degraded,
            "UNHEALTHY" => Self::Unhealthy,
            "UNSET" => Self::Unset,
            "INCOMPLETE" => Self::Incomplete,
            _ => Self::Unknown,
        }
    }

    /// Whether slices may be placed there.
    #[must_use]
    pub fn is_usable(self) -> bool {
        matches!(self, Self::Healthy | Self::Degraded)
    }
}

/// A span in which hosts are away for maintenance. Unit: ms on the caller's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Window {
    /// First moment.
    pub from_ms: u64,
    /// The moment after the last.
    pub until_ms: u64,
}

/// One host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its node.
    pub node: String,
    /// The worst of the node and its chips: a host with one bad chip is of no use to any slice.
    pub health: Health,
    /// False if nothing may be placed on it: not ready, cordoned, about to be ended, in maintenance, silent.
    pub is_open: bool,
    /// When it is away.
    pub maintenance: Option<Window>,
}

impl Host {
    /// A host on which anything can be placed.
    #[must_use]
    pub fn healthy(node: impl Into<String>) -> Self {
        Self { node: node.into(), health: Health::Healthy, is_open: true, maintenance: None }
    }

    /// The health of a host whose chips are as given: the worst of them, unknown without any.
    #[must_use]
    pub fn health_of_chips(chips: &[Health]) -> Health {
        chips.iter().copied().max().unwrap_or(Health::Unknown)
    }

    /// Whether slices may be placed there.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.is_open && matches!(self.health, Health::Healthy | Health::Degraded)
    }
}

/// One cube or grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cube {
    /// How people know it: the id of the whole partition.
    pub id: String,
    /// Slices of several cubes stay within one block.
    pub block: String,
    /// By number; `None` where no node was reported.
    pub hosts: Vec<Option<Host>>,
    /// The id of each partition that has one. One without an id cannot be asked for.
    pub ids: BTreeMap<Partition, String>,
    /// States that were reported of partitions; one without is as good as its hosts.
    pub states: BTreeMap<Partition, PartitionState>,
}

impl Cube {
    /// A cube with an id of its own for every partition, on which anything can be placed.
    #[must_use]
    pub fn healthy(id: &str, block: &str, tiling: &super::Tiling) -> Self {
        let hosts = (0..tiling.hosts()).map(|n| Some(Host::healthy(format!("{id}-{n}")))).collect();
        let name = |part: Partition| {
            let shape = tiling.shape(part.level());
            if part.level() == tiling.top() {
                id.to_owned()
            } else {
                format!("{id}/{shape}/{}", part.index())
            }
        };
        let ids = tiling.partitions().map(|part| (part, name(part))).collect();
        Self { id: id.to_owned(), block: block.to_owned(), hosts, ids, states: BTreeMap::new() }
    }
}
