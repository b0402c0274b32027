//! How far a checkpoint was checked.

use std::fmt;

/// How far a checkpoint was checked; a higher grade includes the lower ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Grade {
    /// The worker said so. Nothing is decided on that.
    Claimed,
    /// The agent of one node found it complete in the directory that it sees.
    #[default]
    LocalComplete,
    /// The agents of all ranks of the gang found it complete.
    GangComplete,
    /// It was also found complete where the storage is seen from a second time, past the cache of the first.
    RemoteVerified,
}

impl Grade {
    /// All grades, ascending.
    pub const ALL: [Self; 4] =
        [Self::Claimed, Self::LocalComplete, Self::GangComplete, Self::RemoteVerified];

    /// Stable word, used in records and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::LocalComplete => "local-complete",
            Self::GangComplete => "gang-complete",
            Self::RemoteVerified => "remote-verified",
        }
    }

    /// The grade of the gang's checkpoint when the last of its ranks is complete with this one. All ranks look for
    /// the same, so one that was verified remotely was so on all.
    #[must_use]
    pub fn of_gang(self) -> Self {
        self.max(Self::GangComplete)
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
