//! What a workload declares about its checkpoints: their layout, and rules of its own.

use std::fmt;
use std::str::FromStr;

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
    /// A directory per step by `torch.distributed.checkpoint`: `.metadata` is renamed into place last.
    TorchDistributed,
    /// `iter_NNNNNNN/` of Megatron-LM: `latest_checkpointed_iteration.txt` names the newest.
    Megatron,
    /// `global_stepN/` of DeepSpeed: `latest` names the newest.
    DeepSpeed,
    /// Step directories of Orbax: renamed into place, with `commit_success.txt` since 0.12.3.
    Orbax,
    /// `….ckpt` files and directories of Lightning and NeMo; `…-unfinished` marks those being written.
    Lightning,
    /// Whatever [`CheckpointRules::glob`] matches, complete by [`CheckpointRules::marker`] or by rest.
    Generic,
}

impl CheckpointFormat {
    /// All formats.
    pub const ALL: [Self; 9] = [
        Self::Auto,
        Self::HuggingFace,
        Self::TorchDistributed,
        Self::Megatron,
        Self::DeepSpeed,
        Self::Orbax,
        Self::Lightning,
        Self::Rename,
        Self::Generic,
    ];

    /// The word used in flags, annotations and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::HuggingFace => "hugging-face",
            Self::Rename => "rename",
            Self::TorchDistributed => "torch-distributed",
            Self::Megatron => "megatron",
            Self::DeepSpeed => "deep-speed",
            Self::Orbax => "orbax",
            Self::Lightning => "lightning",
            Self::Generic => "generic",
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
        let words = CheckpointFormat::ALL.map(CheckpointFormat::as_str).join(", ");
        write!(f, "checkpoint format {:?} is not known; use one of {words}", self.text)
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for CheckpointFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Self::ALL
            .into_iter()
            .find(|format| format.as_str() == text)
            .ok_or_else(|| UnknownFormat { text: text.to_owned() })
    }
}

/// Longest glob or marker. File names have at most 255 bytes on Linux.
const NAME_BYTES_MAX: usize = 255;

/// Longest path of a remote directory. Unit: bytes. Source: `PATH_MAX`.
const PATH_BYTES_MAX: usize = 4_096;

/// What a workload declares about its checkpoints besides their directory and format. Empty: nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckpointRules {
    /// Which names are checkpoints: `*` is any text, `?` any character. For [`CheckpointFormat::Generic`].
    pub glob: String,
    /// The file that is written last: in a checkpoint that is a directory, a file of this name; beside one that is a
    /// file, its name with this appended. For [`CheckpointFormat::Generic`].
    pub marker: String,
    /// Where the same directory is seen a second time, past the cache that the worker writes into. A checkpoint counts
    /// only once it is complete there too.
    pub remote_dir: String,
}

/// A rule that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulesError {
    /// Which one.
    pub field: &'static str,
    /// What was given.
    pub value: String,
    /// What it has to be.
    pub expected: &'static str,
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {:?} but must be {}", self.field, self.value, self.expected)
    }
}

impl std::error::Error for RulesError {}

impl CheckpointRules {
    /// Checks what was declared by somebody else.
    ///
    /// # Errors
    /// The first field that cannot be used with `format`.
    pub fn check(&self, format: CheckpointFormat) -> Result<(), RulesError> {
        let fail = |field, value: &str, expected| {
            Err(RulesError { field, value: value.to_owned(), expected })
        };
        let is_name = |text: &str| {
            text.len() <= NAME_BYTES_MAX
                && !text.contains(['/', '\0'])
                && text != "."
                && text != ".."
        };
        if !is_name(&self.glob) {
            return fail(
                "glob",
                &self.glob,
                "a pattern for names, without a slash, of at most 255 bytes",
            );
        }
        if !is_name(&self.marker) {
            return fail("marker", &self.marker, "a name, without a slash, of at most 255 bytes");
        }
        if format == CheckpointFormat::Generic && self.glob.is_empty() {
            return fail("glob", "", "given with the format generic");
        }
        if format != CheckpointFormat::Generic && !(self.glob.is_empty() && self.marker.is_empty())
        {
            return fail("format", format.as_str(), "generic where a glob or marker is given");
        }
        let remote = &self.remote_dir;
        let is_path =
            remote.starts_with('/') && !remote.contains('\0') && remote.len() <= PATH_BYTES_MAX;
        if !remote.is_empty() && !is_path {
            return fail("remote_dir", remote, "an absolute path, or empty if there is none");
        }
        Ok(())
    }
}
