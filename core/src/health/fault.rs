//! What is wrong with a device or a node.

use crate::health::Action;
use crate::protocol::Health;
use crate::reason::Reason;
use crate::unit::Time;

/// Where a fault was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The kernel's log.
    KernelLog,
    /// NVIDIA's library.
    Nvml,
    /// The PCI bus.
    Pci,
}

impl Source {
    /// Stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KernelLog => "kmsg",
            Self::Nvml => "nvml",
            Self::Pci => "pci",
        }
    }
}

/// Which fault: a device has at most one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKey {
    /// The driver asks for something.
    Action,
    /// It asks for something that this version does not know.
    ActionUnknown,
    /// The driver printed this Xid.
    Xid(u32),
    /// A switch's driver printed this SXid.
    Switch(u32),
    /// NVML calls it lost, or asks for a reset.
    Lost,
    /// NVML refuses it with another code.
    Unreachable,
    /// It is on the bus and NVML does not know it.
    NotListed,
    /// It is not on the bus any more.
    NotOnBus,
    /// A row of memory waits to be replaced.
    RowsPending,
    /// A row of memory could not be replaced.
    RowsFailed,
    /// A page of memory waits to be retired.
    PagesPending,
    /// Many corrected errors.
    EccCorrected,
    /// Errors that were not corrected.
    EccUncorrected,
    /// On-chip memory has more errors than allowed.
    EccSram,
    /// The hardware slows it down.
    Throttled,
    /// Fewer lanes than it had.
    PcieWidth,
    /// Many packets sent again.
    PcieReplays,
    /// Links to other GPUs are down.
    Links,
    /// It is no member of its fabric.
    Fabric,
    /// The driver cannot be asked.
    Driver,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Why, with values.
    pub reason: Reason,
    /// What it makes of the device; [`Health::Healthy`]: worth knowing, no more.
    pub health: Health,
    /// What is to be done.
    pub action: Action,
    /// Links between GPUs are down: those who work together fail within seconds.
    pub is_urgent: bool,
    /// Where it was learned.
    pub source: Source,
    /// Since when.
    pub since: Time,
    /// When it was last seen.
    pub seen_at: Time,
    /// How often it was seen.
    pub count: u64,
}

impl Fault {
    /// How bad it is, for choosing the one to show: most is worst.
    pub(super) fn rank(&self) -> (Health, Action, bool) {
        (self.health, self.action, self.is_urgent)
    }

    /// Whether a restart of the machine ends it. A board that has to be replaced is still the same board.
    pub(super) fn ends_with_reboot(&self) -> bool {
        match self.action {
            Action::None
            | Action::RestartApp
            | Action::RunDiagnostics
            | Action::RestartFabricManager
            | Action::DrainAndReset
            | Action::Reset
            | Action::Reboot => true,
            Action::ContactSupport | Action::Replace => false,
        }
    }

    /// Whether a reset of the device ends it.
    pub(super) fn ends_with_reset(&self) -> bool {
        self.action < Action::Reboot && self.ends_with_reboot()
    }
}
