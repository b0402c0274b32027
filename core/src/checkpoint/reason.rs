//! Why a checkpoint does not count.

use std::fmt;

/// Why a checkpoint is not complete.
///
/// `file`, `marker` and `index` are paths relative to the checkpoint (or the name of the checkpoint
/// itself), `…bytes` are sizes of files in bytes, `…step` are training steps, `detail` is a
/// fragment that says what exactly went wrong, `limit` is the bound that was passed.
#[allow(missing_docs, reason = "the fields are described once, above, as their names repeat")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IncompleteReason {
    /// The framework's own "not finished" marker is there.
    Unfinished { marker: String },
    /// The file that is written last is not there.
    MarkerMissing { marker: String },
    /// The marker file does not parse.
    MarkerInvalid { marker: String, detail: String },
    /// The marker file is larger than is read.
    MarkerTooLarge { marker: String, bytes: u64, limit_bytes: u64 },
    /// The marker file names another step than the directory.
    StepMismatch { marker: String, named_step: u64, found_step: u64 },
    /// The state of some rank is not there: it did not finish its part.
    RankMissing { file: String, missing_ranks: u32, world_size: u32 },
    /// No model weights under any name known.
    WeightsMissing,
    /// An index lists a weights file that is not there.
    ShardMissing { index: String, file: String },
    /// No optimizer state under any name known.
    OptimizerMissing,
    /// A file's own header says that it should be longer, or its end is not there.
    Truncated { file: String, detail: String },
    /// The complete checkpoint before had this file.
    FileMissing { file: String },
    /// The file differs by more than 5 % from the same file in the complete checkpoint before.
    SizeUnexpected { file: String, bytes: u64, expected_bytes: u64 },
    /// It changed since the scan before.
    Growing { bytes: u64, bytes_before: u64 },
    /// It was not seen unchanged for long enough: two scans some time apart have to agree.
    NotAtRest,
    /// A process of the worker has a file in it open for writing.
    OpenForWriting { file: String },
    /// The name, or that of a file in it, says that it is still being written.
    TemporaryName { file: String },
    /// There is nothing in it.
    Empty,
    /// A checkpoint of this format has to be a directory.
    NotADirectory,
    /// It is, or holds where a file is needed, a symbolic link, which is never followed.
    SymbolicLink { file: String },
    /// A pipe, socket or device where a file is needed; it is never opened.
    SpecialFile { file: String },
    /// More files than one checkpoint may hold.
    TooManyFiles { limit: u32 },
    /// Directories nested deeper than are looked into.
    TooDeep { limit: u32 },
    /// The operating system refused to show it.
    Unreadable { file: String, detail: String },
    /// The file that names the newest checkpoint names another.
    NotNamed { marker: String, named: String },
    /// Nothing in it is what this format writes.
    NotOfFormat { format: &'static str },
    /// It is complete here, and not where the same directory is seen a second time.
    RemotePending { path: String, detail: String },
}

impl IncompleteReason {
    /// Stable code, used in metrics, records and messages.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unfinished { .. } => "checkpoint_unfinished",
            Self::MarkerMissing { .. } => "checkpoint_marker_missing",
            Self::MarkerInvalid { .. } => "checkpoint_marker_invalid",
            Self::MarkerTooLarge { .. } => "checkpoint_marker_too_large",
            Self::StepMismatch { .. } => "checkpoint_step_mismatch",
            Self::RankMissing { .. } => "checkpoint_rank_missing",
            Self::WeightsMissing => "checkpoint_weights_missing",
            Self::ShardMissing { .. } => "checkpoint_shard_missing",
            Self::OptimizerMissing => "checkpoint_optimizer_missing",
            Self::Truncated { .. } => "checkpoint_truncated",
            Self::FileMissing { .. } => "checkpoint_file_missing",
            Self::SizeUnexpected { .. } => "checkpoint_size_unexpected",
            Self::Growing { .. } => "checkpoint_growing",
            Self::NotAtRest => "checkpoint_not_at_rest",
            Self::OpenForWriting { .. } => "checkpoint_open_for_writing",
            Self::TemporaryName { .. } => "checkpoint_temporary_name",
            Self::Empty => "checkpoint_empty",
            Self::NotADirectory => "checkpoint_not_a_directory",
            Self::SymbolicLink { .. } => "checkpoint_symbolic_link",
            Self::SpecialFile { .. } => "checkpoint_special_file",
            Self::TooManyFiles { .. } => "checkpoint_too_many_files",
            Self::TooDeep { .. } => "checkpoint_too_deep",
            Self::Unreadable { .. } => "checkpoint_unreadable",
            Self::NotNamed { .. } => "checkpoint_not_named",
            Self::NotOfFormat { .. } => "checkpoint_not_of_format",
            Self::RemotePending { .. } => "checkpoint_remote_pending",
        }
    }

    /// Whether waiting alone can heal it: nothing is wrong, the save may simply not be over.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Growing { .. }
            | Self::NotAtRest
            | Self::OpenForWriting { .. }
            | Self::RemotePending { .. } => true,
            Self::Unfinished { .. }
            | Self::MarkerMissing { .. }
            | Self::MarkerInvalid { .. }
            | Self::MarkerTooLarge { .. }
            | Self::StepMismatch { .. }
            | Self::RankMissing { .. }
            | Self::WeightsMissing
            | Self::ShardMissing { .. }
            | Self::OptimizerMissing
            | Self::Truncated { .. }
            | Self::FileMissing { .. }
            | Self::SizeUnexpected { .. }
            | Self::TemporaryName { .. }
            | Self::Empty
            | Self::NotADirectory
            | Self::SymbolicLink { .. }
            | Self::SpecialFile { .. }
            | Self::TooManyFiles { .. }
            | Self::TooDeep { .. }
            | Self::Unreadable { .. }
            | Self::NotNamed { .. }
            | Self::NotOfFormat { .. } => false,
        }
    }
}

impl fmt::Display for IncompleteReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.finding(), self.fix())
    }
}

impl IncompleteReason {
    /// What was found and why it keeps the checkpoint from counting.
    fn finding(&self) -> String {
        match self {
            Self::Unfinished { marker } => format!("{marker:?} says that the save is not over"),
            Self::MarkerMissing { marker } => {
                format!("{marker:?}, which is written last, is not there")
            }
            Self::MarkerInvalid { marker, detail } => {
                format!("{marker:?} could not be understood: {detail}")
            }
            Self::MarkerTooLarge { marker, bytes, limit_bytes } => {
                format!("{marker:?} has {bytes} bytes but at most {limit_bytes} are read")
            }
            Self::StepMismatch { marker, named_step, found_step } => format!(
                "{marker:?} says step {found_step} but the name says {named_step}: files of two saves are mixed"
            ),
            Self::RankMissing { file, missing_ranks, world_size } => format!(
                "{missing_ranks} of {world_size} ranks did not save their state, {file:?} is not there"
            ),
            Self::WeightsMissing => "no model weights under a known name are there".to_owned(),
            Self::ShardMissing { index, file } => {
                format!("{index:?} lists {file:?}, which is not there")
            }
            Self::OptimizerMissing => "no optimizer state under a known name is there".to_owned(),
            Self::Truncated { file, detail } => format!("{file:?} is cut off: {detail}"),
            Self::FileMissing { file } => {
                format!("{file:?} is not there but was in the complete checkpoint before")
            }
            Self::SizeUnexpected { file, bytes, expected_bytes } => format!(
                "{file:?} has {bytes} bytes but had {expected_bytes} in the complete checkpoint before"
            ),
            Self::Growing { bytes, bytes_before } => {
                format!("it changed from {bytes_before} to {bytes} bytes since the scan before")
            }
            Self::NotAtRest => {
                "it was not seen at rest yet, which takes two scans that agree".to_owned()
            }
            Self::OpenForWriting { file } => {
                format!("a process of the worker has {file:?} open for writing")
            }
            Self::TemporaryName { file } => format!("{file:?} is a temporary name"),
            Self::Empty => "there is nothing in it".to_owned(),
            Self::NotADirectory => "this format keeps each checkpoint in a directory".to_owned(),
            Self::SymbolicLink { file } => format!(
                "{file:?} is a symbolic link, and links are not followed as they may lead elsewhere"
            ),
            Self::SpecialFile { file } => {
                format!("{file:?} is a pipe, socket or device, and only regular files are read")
            }
            Self::TooManyFiles { limit } => {
                format!("it holds more than {limit} files, the bound of a scan")
            }
            Self::TooDeep { limit } => {
                format!("its directories are nested deeper than {limit}, the bound of a scan")
            }
            Self::Unreadable { file, detail } => format!("could not read {file:?}: {detail}"),
            Self::NotNamed { marker, named } => {
                format!("{marker:?}, which is written last, names {named:?} and not this one")
            }
            Self::NotOfFormat { format } => {
                format!("nothing in it is what the format {format} writes")
            }
            Self::RemotePending { path, detail } => {
                format!("it is complete here but not at {path:?}: {detail}")
            }
        }
    }

    /// What to do about it.
    fn fix(&self) -> &'static str {
        match self {
            Self::Growing { .. } | Self::NotAtRest | Self::OpenForWriting { .. } => {
                "wait for the next scan"
            }
            Self::RemotePending { .. } => {
                "wait for the upload, or correct --checkpoint-remote if it never comes"
            }
            Self::NotOfFormat { .. } => {
                "keep other things elsewhere, or declare the right --checkpoint-format"
            }
            Self::NotNamed { .. }
            | Self::Unfinished { .. }
            | Self::MarkerMissing { .. }
            | Self::ShardMissing { .. }
            | Self::FileMissing { .. }
            | Self::TemporaryName { .. } => {
                "wait for the save, or resume from an earlier checkpoint if no worker is saving"
            }
            Self::MarkerInvalid { .. } | Self::StepMismatch { .. } => {
                "resume from another checkpoint and remove this one"
            }
            Self::Truncated { .. } | Self::Empty => {
                "look for a full disk or a killed worker and resume from an earlier checkpoint"
            }
            Self::MarkerTooLarge { .. } => "log less often (logging_steps), the log is kept in it",
            Self::RankMissing { .. } => {
                "check that all ranks write to the same directory and that the declared world size is right"
            }
            Self::WeightsMissing => "declare the format rename if the weights have other names",
            Self::OptimizerMissing => "set save_only_model to false if the save is over",
            Self::SizeUnexpected { .. } => {
                "if the model itself changed, the second save of the new size counts"
            }
            Self::NotADirectory => "declare the format rename or move the file elsewhere",
            Self::SymbolicLink { .. } | Self::SpecialFile { .. } => {
                "put a regular file or directory there"
            }
            Self::TooManyFiles { .. } | Self::TooDeep { .. } => {
                "declare a directory that holds checkpoints only"
            }
            Self::Unreadable { .. } => "let the user of the agent read the checkpoint directory",
        }
    }
}
