//! The ways in which a gang is drained.

use std::fmt;
use std::str::FromStr;

/// How a gang is made to end with its work saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Release at once: the last checkpoint is fresh enough.
    KillFresh,
    /// Wait for the next periodic checkpoint, then release.
    Boundary,
    /// Ask for a checkpoint through the worker's files; it parks, then release.
    Client,
    /// Ask for a checkpoint by a signal, then release.
    Signal,
    /// Release at once and lose the work since the last checkpoint.
    Kill,
}

impl Mode {
    /// All modes, in the order in which alternatives are listed.
    pub const ALL: [Self; 5] =
        [Self::KillFresh, Self::Boundary, Self::Client, Self::Signal, Self::Kill];

    /// True if the drain waits for a new checkpoint.
    #[must_use]
    pub fn waits_for_checkpoint(self) -> bool {
        matches!(self, Self::Boundary | Self::Client | Self::Signal)
    }

    /// True if the worker is asked to save.
    #[must_use]
    pub fn asks_for_save(self) -> bool {
        matches!(self, Self::Client | Self::Signal)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::KillFresh => "KILL-FRESH",
            Self::Boundary => "BOUNDARY",
            Self::Client => "CLIENT",
            Self::Signal => "SIGNAL",
            Self::Kill => "KILL",
        })
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.to_string() == text)
            .ok_or_else(|| format!("{text:?} is not a drain mode"))
    }
}
