//! Why a request got its place, or why it has none.

use std::fmt;

use crate::topology::Shape;

/// Why. Codes are stable and explained in `docs/reasons.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It fits where nothing larger is broken up.
    Placed,
    /// It fits, and a larger free part had to be broken up.
    PlacedBreaking {
        /// The largest part that was free before.
        shape: Shape,
    },
    /// Only degraded partitions were left.
    PlacedDegraded {
        /// Hosts of these.
        hosts: u32,
    },
    /// Maintenance is going to meet it.
    PlacedBeforeMaintenance {
        /// Hosts that will be away.
        hosts: u32,
    },
    /// It gets the place of gangs that are leaving already.
    AwaitsLeaving {
        /// Who leaves.
        workloads: Vec<String>,
    },
    /// It gets the place of gangs of lower priority.
    Preempts {
        /// Who gives way.
        victims: Vec<String>,
        /// What that loses. Unit: ms of one chip.
        cost_device_ms: u64,
    },
    /// Whole cubes are missing.
    NoFreeCubes {
        /// Cubes that are needed in one block.
        wanted: u64,
        /// Most free cubes of a block.
        free: u64,
    },
    /// Too few hosts are free.
    NoCapacity {
        /// Hosts that are needed.
        wanted_hosts: u64,
        /// Most free hosts of a block.
        free_hosts: u64,
    },
    /// Enough hosts are free in a block, but they do not form the shape.
    Fragmented {
        /// Hosts that are needed.
        wanted_hosts: u64,
        /// Most free hosts of a block.
        free_hosts: u64,
    },
    /// Enough hosts are free, but in several blocks.
    SpansBlocks {
        /// Hosts that are needed.
        wanted_hosts: u64,
        /// Most free hosts of a block.
        free_hosts: u64,
    },
    /// There is a place, on degraded partitions, and it wants healthy ones only.
    OnlyDegraded,
    /// There is a place, where maintenance will meet it, and it may not be met.
    OnlyDuringMaintenance,
    /// There is a place, away from its group.
    GroupElsewhere,
    /// Even with everything free it fits on no block without hosts that cannot be used.
    UnusableHosts {
        /// Hosts that cannot be used, of all blocks.
        hosts: u64,
    },
    /// No block is large enough.
    TooLarge {
        /// Hosts that are needed.
        wanted_hosts: u64,
        /// Hosts of the largest block.
        block_hosts: u64,
    },
}

impl Reason {
    /// A stable code, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Placed => "slice-placed",
            Self::PlacedBreaking { .. } => "slice-placed-breaking",
            Self::PlacedDegraded { .. } => "slice-placed-degraded",
            Self::PlacedBeforeMaintenance { .. } => "slice-placed-before-maintenance",
            Self::AwaitsLeaving { .. } => "slice-awaits-leaving",
            Self::Preempts { .. } => "slice-preempts",
            Self::NoFreeCubes { .. } => "slice-no-free-cubes",
            Self::NoCapacity { .. } => "slice-no-capacity",
            Self::Fragmented { .. } => "slice-fragmented",
            Self::SpansBlocks { .. } => "slice-spans-blocks",
            Self::OnlyDegraded => "slice-only-degraded",
            Self::OnlyDuringMaintenance => "slice-only-during-maintenance",
            Self::GroupElsewhere => "slice-group-elsewhere",
            Self::UnusableHosts { .. } => "slice-unusable-hosts",
            Self::TooLarge { .. } => "slice-too-large",
        }
    }

    /// What somebody can do about it; empty if nothing need be done.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Placed
            | Self::PlacedBreaking { .. }
            | Self::AwaitsLeaving { .. }
            | Self::Preempts { .. } => "",
            Self::PlacedDegraded { .. } => {
                "ask for healthy partitions only if slow ones will not do"
            }
            Self::PlacedBeforeMaintenance { .. } => {
                "save a checkpoint before the window, or ask for a place without maintenance"
            }
            Self::NoFreeCubes { .. } | Self::NoCapacity { .. } => {
                "wait, raise the priority, or ask for a smaller shape"
            }
            Self::Fragmented { .. } => "sluice slice defrag shows which moves make room",
            Self::SpansBlocks { .. } => "ask for several smaller gangs, or wait for one block",
            Self::OnlyDegraded => "wait, or accept degraded partitions",
            Self::OnlyDuringMaintenance => "wait until the window is over, or accept maintenance",
            Self::GroupElsewhere => "wait, or let it lie in another block than its group",
            Self::UnusableHosts { .. } => "repair or uncordon hosts, or ask for a smaller shape",
            Self::TooLarge { .. } => "ask for a smaller shape or fewer replicas",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Placed => f.write_str("it fits where nothing larger is broken up"),
            Self::PlacedBreaking { shape } => {
                write!(f, "it fits; no smaller free part than {shape} is left to break up")
            }
            Self::PlacedDegraded { hosts } => {
                write!(f, "it fits on degraded partitions only: {hosts} of its hosts")
            }
            Self::PlacedBeforeMaintenance { hosts } => {
                write!(f, "it fits, but maintenance will take away {hosts} of its hosts")
            }
            Self::AwaitsLeaving { workloads } => {
                write!(f, "it gets the place of {}, once gone", workloads.join(", "))
            }
            Self::Preempts { victims, cost_device_ms } => write!(
                f,
                "it gets the place of {}; that loses {} chip-seconds",
                victims.join(", "),
                cost_device_ms / 1_000
            ),
            Self::NoFreeCubes { wanted, free } => {
                write!(f, "{wanted} free cubes of one block are needed, {free} free")
            }
            Self::NoCapacity { wanted_hosts, free_hosts } => {
                write!(f, "{wanted_hosts} hosts of one block are needed, {free_hosts} are free")
            }
            Self::Fragmented { wanted_hosts, free_hosts } => write!(
                f,
                "{free_hosts} hosts are free and {wanted_hosts} are needed, but the free ones do not form the shape"
            ),
            Self::SpansBlocks { wanted_hosts, free_hosts } => write!(
                f,
                "{wanted_hosts} hosts of one block are needed; no block has more than {free_hosts} free ones, all blocks together have enough"
            ),
            Self::OnlyDegraded => {
                f.write_str("it wants healthy partitions only, and fits on degraded ones")
            }
            Self::OnlyDuringMaintenance => {
                f.write_str("it may not be met by maintenance, and fits only where it will be")
            }
            Self::GroupElsewhere => {
                f.write_str("it is bound to the block of its group, and fits elsewhere")
            }
            Self::UnusableHosts { hosts } => {
                write!(f, "even an empty block has no place for it: {hosts} hosts cannot be used")
            }
            Self::TooLarge { wanted_hosts, block_hosts } => {
                write!(
                    f,
                    "{wanted_hosts} hosts of one block are needed; the largest has {block_hosts}"
                )
            }
        }
    }
}
