//! What is to be done about a fault, and what the driver asks for.

use std::fmt;
use std::str::FromStr;

/// What somebody should do. Ordered by how much it takes: of several faults the greatest counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Nothing.
    #[default]
    None,
    /// Start the program again that met the error.
    RestartApp,
    /// Test the device when it is idle.
    RunDiagnostics,
    /// Restart the fabric manager of the node.
    RestartFabricManager,
    /// Ask the maker.
    ContactSupport,
    /// Reset the device once its workers have saved and left.
    DrainAndReset,
    /// Reset the device; nothing on it works until then.
    Reset,
    /// Start the machine again.
    Reboot,
    /// Replace the device.
    Replace,
}

impl Action {
    /// All actions, in order.
    pub const ALL: [Self; 9] = [
        Self::None,
        Self::RestartApp,
        Self::RunDiagnostics,
        Self::RestartFabricManager,
        Self::ContactSupport,
        Self::DrainAndReset,
        Self::Reset,
        Self::Reboot,
        Self::Replace,
    ];

    /// Stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::RestartApp => "restart-app",
            Self::RunDiagnostics => "run-diagnostics",
            Self::RestartFabricManager => "restart-fabric-manager",
            Self::ContactSupport => "contact-support",
            Self::DrainAndReset => "drain-and-reset",
            Self::Reset => "reset",
            Self::Reboot => "reboot",
            Self::Replace => "replace",
        }
    }

    /// Whether it takes the device away from whoever works on it, so that they should save and leave.
    #[must_use]
    pub fn needs_drain(self) -> bool {
        match self {
            Self::DrainAndReset | Self::Reset | Self::Reboot | Self::Replace => true,
            Self::None
            | Self::RestartApp
            | Self::RunDiagnostics
            | Self::RestartFabricManager
            | Self::ContactSupport => false,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Action {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|action| action.as_str() == text);
        found.ok_or_else(|| format!("{text:?} is no action"))
    }
}

/// What the driver asks to be done with a GPU. Source: `nvmlDeviceGpuRecoveryAction_t` of nvml.h, field 230, since R565.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryAction {
    /// Nothing. No proof of health.
    None,
    /// A reset.
    Reset,
    /// A restart of the machine.
    Reboot,
    /// No more traffic between GPUs.
    DrainPeers,
    /// A reset once its work is done.
    DrainAndReset,
    /// Recovery of the whole domain of machines that share memory: no fault of this GPU.
    RecoverDomain,
    /// A number that this version does not know.
    Other(u32),
}

impl RecoveryAction {
    /// From NVIDIA's number. 6 and 7 (bus reset, system restart) are of NVML 615 and count as reset and restart.
    #[must_use]
    pub fn of(number: u32) -> Self {
        match number {
            0 => Self::None,
            1 | 6 => Self::Reset,
            2 | 7 => Self::Reboot,
            3 => Self::DrainPeers,
            4 => Self::DrainAndReset,
            5 => Self::RecoverDomain,
            other => Self::Other(other),
        }
    }

    /// What follows from it.
    #[must_use]
    pub fn action(self) -> Action {
        match self {
            Self::None | Self::Other(_) => Action::None,
            Self::Reset => Action::Reset,
            Self::Reboot => Action::Reboot,
            // The link is to be left alone and the state read again: work has to leave either way.
            Self::DrainPeers | Self::DrainAndReset => Action::DrainAndReset,
            Self::RecoverDomain => Action::ContactSupport,
        }
    }
}
