//! What the agent saw in a checkpoint directory: plain values, no file is touched here.
//!
//! A checkpoint is *complete* when the agent has checked from outside that the worker finished
//! it; the words of the worker are never enough. Everything that keeps a checkpoint from being
//! complete has a typed reason with a stable code, because a drain that fails is explained with it.

mod format;
mod grade;
mod problem;
mod reason;
#[cfg(test)]
mod tests;

use std::fmt;

pub use format::{CheckpointFormat, CheckpointRules, RulesError, UnknownFormat};
pub use grade::Grade;
pub use problem::ScanProblem;
pub use reason::IncompleteReason;

/// A checkpoint that was checked from outside and from which training can resume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Training step it was made at, taken from its name and, where there is one, its marker file.
    pub step: u64,
    /// Where it lies, as the agent sees it. Bytes that are not UTF-8 are replaced.
    pub path: String,
    /// Size of all its regular files together. Unit: bytes.
    pub bytes: u64,
    /// Number of its regular files; 1 when the checkpoint is a single file.
    pub files: u32,
    /// What showed that it is complete: a marker file's name, `renamed` or `size-stable`.
    pub marker: String,
    /// How far it was checked.
    pub grade: Grade,
}

/// An entry that looks like a checkpoint and is not one, or not yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incomplete {
    /// Where it lies, as the agent sees it. Bytes that are not UTF-8 are replaced.
    pub path: String,
    /// Step in its name; `None` for a temporary name that carries none.
    pub step: Option<u64>,
    /// Size of what is there so far. Unit: bytes.
    pub bytes: u64,
    /// Number of regular files there so far.
    pub files: u32,
    /// Whether it grew or changed since the scan before, or a worker has it open for writing.
    pub saving: bool,
    /// Why it does not count.
    pub reason: IncompleteReason,
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoint {:?} does not count: {}", self.path, self.reason)
    }
}

/// What one look at a checkpoint directory found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckpointScan {
    /// The newest complete checkpoints by step, descending, at most [`COMPLETE_MAX`].
    pub complete: Vec<Checkpoint>,
    /// Entries that do not count, by step, descending, at most [`INCOMPLETE_MAX`].
    pub incomplete: Vec<Incomplete>,
    /// Whether a save is going on: some incomplete entry is being written.
    pub saving: bool,
    /// What kept the scan from seeing everything.
    pub problem: Option<ScanProblem>,
}

impl CheckpointScan {
    /// The complete checkpoint of the highest step: where training would resume.
    #[must_use]
    pub fn newest(&self) -> Option<&Checkpoint> {
        self.complete.first()
    }

    /// Bytes of the entries being written: the progress of the save. Unit: bytes.
    #[must_use]
    pub fn saving_bytes(&self) -> u64 {
        let saving = self.incomplete.iter().filter(|entry| entry.saving);
        saving.fold(0, |sum, entry| sum.saturating_add(entry.bytes))
    }
}

/// Most complete checkpoints in one scan. Trainers keep 1 to 20; older ones decide nothing, so
/// a larger number would only cost time and space in every report.
pub const COMPLETE_MAX: usize = 32;

/// Most incomplete entries in one scan. One is usual, a few remain after crashes; the bound keeps
/// a directory full of rubbish from filling the agent's reports.
pub const INCOMPLETE_MAX: usize = 32;
