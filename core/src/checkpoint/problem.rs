//! Why a checkpoint directory could not be read in full.

use std::fmt;

/// What kept a scan from seeing the whole checkpoint directory.
///
/// `path` is the directory as declared, `detail` what the operating system said, `limit` the bound
/// that was passed.
#[allow(missing_docs, reason = "the fields are described once, above, as their names repeat")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanProblem {
    /// The directory does not exist (yet).
    Missing { path: String },
    /// The path names something that is not a directory.
    NotADirectory { path: String },
    /// The operating system refused to show it.
    Unreadable { path: String, detail: String },
    /// It has more entries than one scan reads; what was found in the first of them is reported.
    TooManyEntries { path: String, limit: u32 },
    /// What lies there was written by more than one framework; nothing in it counts.
    Ambiguous { path: String, formats: Vec<&'static str> },
}

impl ScanProblem {
    /// Stable code, used in metrics, records and messages.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "checkpoint_dir_missing",
            Self::NotADirectory { .. } => "checkpoint_dir_not_a_directory",
            Self::Unreadable { .. } => "checkpoint_dir_unreadable",
            Self::TooManyEntries { .. } => "checkpoint_dir_too_many_entries",
            Self::Ambiguous { .. } => "checkpoint_dir_ambiguous",
        }
    }
}

impl fmt::Display for ScanProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { path } => write!(
                f,
                "checkpoint directory {path:?} does not exist: the worker has not made it yet or the path is wrong; check the declared checkpoint directory"
            ),
            Self::NotADirectory { path } => write!(
                f,
                "checkpoint directory {path:?} is not a directory; declare the directory that holds the checkpoints"
            ),
            Self::Unreadable { path, detail } => write!(
                f,
                "could not read checkpoint directory {path:?}: {detail}; let the agent's user read it"
            ),
            Self::TooManyEntries { path, limit } => write!(
                f,
                "checkpoint directory {path:?} has more than {limit} entries: a scan has a bound and newer checkpoints may be missed; declare a directory that holds checkpoints only"
            ),
            Self::Ambiguous { path, formats } => write!(
                f,
                "checkpoint directory {path:?} holds what {} write, and nothing is believed until it is known which counts; declare one with --checkpoint-format",
                formats.join(" and ")
            ),
        }
    }
}
