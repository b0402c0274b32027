//! What the agent saw in a checkpoint directory: plain values, no file is touched here.
//!
//! A checkpoint is *complete* when the agent has checked from outside that the worker finished
//! it; the words of the worker are never enough. Everything that keeps a checkpoint from being
//! complete has a typed reason with a stable code, because a drain that fails is explained with it.

mod reason;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use reason::{IncompleteReason, ScanProblem};

/// How a training framework lays out its checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum CheckpointFormat {
    /// Found out from what lies in the directory.
    #[default]
    Auto,
    /// `checkpoint-N/` directories of the Hugging Face Trainer: `trainer_state.json` is written last.
    HuggingFace,
    /// Files or directories written under a temporary name and renamed to `<prefix><step><suffix>`.
    Rename,
}

impl CheckpointFormat {
    /// The word used in flags, annotations and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::HuggingFace => "hugging-face",
            Self::Rename => "rename",
        }
    }
}

impl fmt::Display for CheckpointFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no checkpoint format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFormat {
    /// The word as given.
    pub text: String,
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        write!(f, "checkpoint format {text:?} is not known; use auto, hugging-face or rename")
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for CheckpointFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        [Self::Auto, Self::HuggingFace, Self::Rename]
            .into_iter()
            .find(|format| format.as_str() == text)
            .ok_or_else(|| UnknownFormat { text: text.to_owned() })
    }
}

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
