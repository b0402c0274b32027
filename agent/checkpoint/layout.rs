//! The layouts that are understood, and what a name means in each.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;

use sluice_core::checkpoint::{CheckpointFormat, IncompleteReason};

use super::walk::{Manifest, names, open_directory};
use super::{hugging_face, rename};

/// Part of the name of a checkpoint that was put aside by [`super::CheckpointWatcher::quarantine`].
pub(crate) const QUARANTINE_SUFFIX: &str = ".sluice-incomplete";

/// Entries of one `checkpoint-N/` that are read to find out whether the Trainer wrote it.
const TELLING_NAMES_MAX: u32 = 256;

/// Newest `checkpoint-N/` that are looked into to find out whether the Trainer wrote them.
const TELLING_DIRECTORIES_MAX: usize = 4;

/// A layout of which it is known what completeness means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    HuggingFace,
    Rename,
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

impl Layout {
    /// The layout declared, or the one found in `directory`, which holds `names`.
    ///
    /// The Trainer's is told by the files in the newest `checkpoint-N/`; an empty one tells nothing
    /// and is judged as what it may become first: not complete in either.
    pub(crate) fn find(format: CheckpointFormat, directory: impl AsFd, names: &[OsString]) -> Self {
        match format {
            CheckpointFormat::HuggingFace => return Self::HuggingFace,
            CheckpointFormat::Rename => return Self::Rename,
            CheckpointFormat::Auto => {}
        }
        let steps = names.iter().filter_map(|name| Some((hugging_face::step_of(name)?, name)));
        let mut steps: Vec<(u64, &OsString)> = steps.collect();
        steps.sort_unstable_by(|left, right| right.cmp(left));
        let is_told = |name: &OsStr| {
            open_directory(directory.as_fd(), name)
                .and_then(|checkpoint| self::names(checkpoint, TELLING_NAMES_MAX))
                .is_ok_and(|(names, _)| names.iter().any(|name| hugging_face::is_telling(name)))
        };
        let mut newest = steps.iter().take(TELLING_DIRECTORIES_MAX);
        if newest.any(|(_, name)| is_told(name)) { Self::HuggingFace } else { Self::Rename }
    }

    /// What `name` is.
    pub(crate) fn classify(self, name: &OsStr) -> Name {
        if name.to_string_lossy().contains(QUARANTINE_SUFFIX) {
            return Name::Other;
        }
        let final_step = match self {
            Self::HuggingFace => hugging_face::step_of(name),
            Self::Rename => rename::step_of(name),
        };
        if let Some(step) = final_step {
            return Name::Final { step };
        }
        let temporary_step = match self {
            Self::HuggingFace => return self::temporary(hugging_face::temporary_step_of(name)),
            Self::Rename => rename::temporary_step_of(name),
        };
        let is_temporary =
            rename::is_temporary(name) || (rename::is_hidden(name) && temporary_step.is_some());
        if is_temporary { Name::Temporary { step: temporary_step } } else { Name::Other }
    }

    /// Whether what lies in the checkpoint `name` is all that has to be there.
    ///
    /// # Errors
    /// The first rule of the layout that is not met.
    pub(crate) fn judge(
        self,
        directory: impl AsFd,
        name: &OsStr,
        manifest: &Manifest,
        step: u64,
        world_size: u32,
    ) -> Result<(), IncompleteReason> {
        match self {
            Self::HuggingFace => hugging_face::judge(directory, name, manifest, step, world_size),
            Self::Rename => rename::judge(directory, name, manifest),
        }
    }
}

fn temporary(step: Option<u64>) -> Name {
    step.map_or(Name::Other, |step| Name::Temporary { step: Some(step) })
}
