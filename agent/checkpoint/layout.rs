//! The layouts that are understood: one row for each framework, and what is asked of it.

mod detect;

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;

use sluice_core::checkpoint::{CheckpointFormat, CheckpointRules, IncompleteReason};

use super::learned::Compared;
use super::surroundings::Surroundings;
use super::walk::Manifest;
use super::{
    deep_speed, distributed, generic, hugging_face, intact, lightning, megatron, orbax, rename,
};

pub(crate) use detect::{Ambiguous, find};

/// Part of the name of a checkpoint that was put aside by [`super::CheckpointWatcher::quarantine`].
pub(crate) const QUARANTINE_SUFFIX: &str = ".sluice-incomplete";

/// A layout of which it is known what completeness means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layout {
    HuggingFace,
    TorchDistributed,
    Megatron,
    DeepSpeed,
    Orbax,
    Lightning,
    Rename,
    Generic,
}

/// What a name in the checkpoint directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// That of a checkpoint.
    Final { step: u64 },
    /// That of one being prepared.
    Temporary { step: Option<u64> },
    /// None of ours.
    Other,
}

/// One checkpoint, as the rules of a layout see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) layout: Layout,
    /// The checkpoint directory, which holds `name`.
    pub(crate) root: &'a OwnedFd,
    pub(crate) name: &'a OsStr,
    pub(crate) manifest: &'a Manifest,
    /// The step in the name.
    pub(crate) step: u64,
    pub(crate) world_size: u32,
    /// It was seen under a temporary name before.
    pub(crate) is_renamed: bool,
    pub(crate) surroundings: &'a Surroundings,
    pub(crate) declared: &'a CheckpointRules,
}

/// What shows that a checkpoint is complete: the file that its writer leaves last. `None`: nothing but the way it
/// appeared, by being renamed or by having come to rest.
pub(crate) type Sealed = Option<String>;

/// The predicate of one layout.
struct Predicate {
    format: CheckpointFormat,
    /// What a name is. Not asked about those that were put aside.
    classify: fn(&OsStr, &CheckpointRules) -> Name,
    /// Whether what lies there is all that has to be there, or the first rule that is not met.
    judge: fn(&Look<'_>) -> Result<Sealed, IncompleteReason>,
    /// A checkpoint is always a directory: files of such names are something else.
    only_directories: bool,
    /// Every checkpoint that is complete is so by a file written last.
    is_sealed: bool,
    /// What of the complete checkpoint before is expected of the next.
    compared: Compared,
}

impl Layout {
    /// The layout for a format; `None` where it has to be found out.
    pub(crate) fn of(format: CheckpointFormat) -> Option<Self> {
        match format {
            CheckpointFormat::Auto => None,
            CheckpointFormat::HuggingFace => Some(Self::HuggingFace),
            CheckpointFormat::TorchDistributed => Some(Self::TorchDistributed),
            CheckpointFormat::Megatron => Some(Self::Megatron),
            CheckpointFormat::DeepSpeed => Some(Self::DeepSpeed),
            CheckpointFormat::Orbax => Some(Self::Orbax),
            CheckpointFormat::Lightning => Some(Self::Lightning),
            CheckpointFormat::Rename => Some(Self::Rename),
            CheckpointFormat::Generic => Some(Self::Generic),
        }
    }

    fn predicate(self) -> Predicate {
        let of_files = Predicate {
            format: CheckpointFormat::Rename,
            classify: |name, _| rename::classify(name),
            judge: rename::judge,
            only_directories: false,
            is_sealed: false,
            compared: Compared::Files,
        };
        let of_directories = Predicate { only_directories: true, is_sealed: true, ..of_files };
        match self {
            Self::HuggingFace => Predicate {
                format: CheckpointFormat::HuggingFace,
                classify: |name, _| hugging_face::classify(name),
                judge: hugging_face::judge,
                // A file of the exact name is said to be wrong.
                only_directories: false,
                ..of_directories
            },
            Self::TorchDistributed => Predicate {
                format: CheckpointFormat::TorchDistributed,
                classify: |name, _| distributed::classify(name),
                judge: distributed::judge,
                ..of_directories
            },
            Self::Megatron => Predicate {
                format: CheckpointFormat::Megatron,
                classify: |name, _| megatron::classify(name),
                judge: megatron::judge,
                ..of_directories
            },
            Self::DeepSpeed => Predicate {
                format: CheckpointFormat::DeepSpeed,
                classify: |name, _| deep_speed::classify(name),
                judge: deep_speed::judge,
                ..of_directories
            },
            Self::Orbax => Predicate {
                format: CheckpointFormat::Orbax,
                classify: |name, _| orbax::classify(name),
                judge: orbax::judge,
                is_sealed: false,
                // Its data files have random names, and compressed sizes that differ from save to save.
                compared: Compared::Items,
                ..of_directories
            },
            Self::Lightning => Predicate {
                format: CheckpointFormat::Lightning,
                classify: |name, _| lightning::classify(name),
                judge: lightning::judge,
                ..of_files
            },
            Self::Rename => of_files,
            Self::Generic => Predicate {
                format: CheckpointFormat::Generic,
                classify: generic::classify,
                judge: generic::judge,
                ..of_files
            },
        }
    }

    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        self.predicate().format.as_str()
    }

    /// What `name` is.
    pub(crate) fn classify(self, name: &OsStr, rules: &CheckpointRules) -> Name {
        if name.to_string_lossy().contains(QUARANTINE_SUFFIX) {
            return Name::Other;
        }
        (self.predicate().classify)(name, rules)
    }

    /// Whether files are passed over.
    pub(crate) fn only_directories(self) -> bool {
        self.predicate().only_directories
    }

    /// The file that names the checkpoint to resume from, where there is one.
    pub(crate) fn tracker(self) -> Option<&'static str> {
        match self {
            Self::Megatron => Some(megatron::TRACKER),
            Self::DeepSpeed => Some(deep_speed::TRACKER),
            Self::HuggingFace
            | Self::TorchDistributed
            | Self::Orbax
            | Self::Lightning
            | Self::Rename
            | Self::Generic => None,
        }
    }

    /// Whether completeness never has to be taken from rest.
    pub(crate) fn is_sealed(self) -> bool {
        self.predicate().is_sealed
    }

    /// What is expected of a checkpoint because the one before had it.
    pub(crate) fn compared(self) -> Compared {
        self.predicate().compared
    }
}

impl Look<'_> {
    /// Whether what lies there is all that has to be there, and what shows it.
    ///
    /// # Errors
    /// The first rule of the layout that is not met.
    pub(crate) fn judge(&self) -> Result<Sealed, IncompleteReason> {
        (self.layout.predicate().judge)(self)
    }

    /// Whether its own files are all there, whatever the tracker of the layout says.
    ///
    /// # Errors
    /// The first rule that is not met.
    pub(crate) fn judge_files(&self) -> Result<(), IncompleteReason> {
        match self.layout {
            Layout::Megatron => megatron::check_files(self),
            Layout::DeepSpeed => deep_speed::check_files(self),
            Layout::HuggingFace
            | Layout::TorchDistributed
            | Layout::Orbax
            | Layout::Lightning
            | Layout::Rename
            | Layout::Generic => self.judge().map(drop),
        }
    }

    /// The checkpoint is a single file.
    pub(crate) fn is_file(&self) -> bool {
        self.manifest.files.contains_key(OsStr::new(""))
    }

    /// The path of the checkpoint below the directory, before that of a file in it.
    pub(crate) fn prefix(&self) -> OsString {
        let mut prefix = self.name.to_owned();
        if !self.is_file() {
            prefix.push("/");
        }
        prefix
    }

    /// No file says of itself that its end is missing.
    ///
    /// # Errors
    /// The first one that does.
    pub(crate) fn check_intact(&self) -> Result<(), IncompleteReason> {
        intact::check(self.root, &self.prefix(), self.manifest)
    }

    /// It has the name of a checkpoint and holds something else.
    pub(crate) fn not_of_format(&self) -> IncompleteReason {
        IncompleteReason::NotOfFormat { format: self.layout.word() }
    }
}
