//! Puts a checkpoint that never became complete out of the way of a resume.
//!
//! Trainers resume from the highest number, complete or not, and crash on a torn one. Renaming
//! it to `checkpoint-N.sluice-incomplete` hides it from them and deletes nothing. Opt-in.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{RenameFlags, renameat, renameat_with};
use rustix::io::Errno;
use sluice_core::checkpoint::{Incomplete, IncompleteReason};

use super::layout::{Layout, Name, QUARANTINE_SUFFIX};
use super::walk::{self, Kind, Manifest};
use super::{CheckpointWatcher, WrittenFiles, shown};

/// Names tried for one checkpoint: `….sluice-incomplete`, `….sluice-incomplete-2` and so on. A
/// step that was torn this often has a cause that renaming does not cure.
const NAMES_MAX: u32 = 100;

/// Why a checkpoint was not put aside.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QuarantineError {
    /// Nothing of this name, or not a checkpoint's.
    #[error("{path:?} is no checkpoint of the watched directory; give an entry of its latest scan")]
    NotACheckpoint { path: String },
    /// By what lies in it, it may be complete.
    #[error("{path:?} was not put aside: it is complete or may be; nothing is to be done")]
    MayBeComplete { path: String },
    /// It is being written, or was not seen at rest.
    #[error(
        "{path:?} was not put aside: it is being written or was not seen at rest; scan again and retry when the worker has ended"
    )]
    BeingWritten { path: String },
    /// Every name for it is taken.
    #[error(
        "{path:?} was not put aside: {NAMES_MAX} earlier ones of that step exist; remove some \"*{QUARANTINE_SUFFIX}*\""
    )]
    NamesTaken { path: String },
    /// The operating system refused.
    #[error("could not put {path:?} aside: {source}; let the agent's user write to the directory")]
    Refused { path: String, source: io::Error },
}

impl QuarantineError {
    /// Stable code, used in metrics, records and messages.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::NotACheckpoint { .. } => "quarantine_not_a_checkpoint",
            Self::MayBeComplete { .. } => "quarantine_may_be_complete",
            Self::BeingWritten { .. } => "quarantine_being_written",
            Self::NamesTaken { .. } => "quarantine_names_taken",
            Self::Refused { .. } => "quarantine_refused",
        }
    }
}

impl CheckpointWatcher {
    /// Renames `incomplete`, an entry of the latest scan, so that no trainer resumes from it.
    /// Returns its new path. The rename is durable on return.
    ///
    /// What is there is judged anew first: a checkpoint whose files meet the rules is left alone
    /// even if it was not at rest, and so is one that is being written.
    ///
    /// # Errors
    /// [`QuarantineError`]; nothing was renamed then, except for `Refused` where only making it
    /// durable may have failed.
    pub(crate) fn quarantine(
        &mut self,
        incomplete: &Incomplete,
        written: &WrittenFiles,
    ) -> Result<String, QuarantineError> {
        let path = incomplete.path.clone();
        let refused =
            |error: io::Error| QuarantineError::Refused { path: path.clone(), source: error };
        let name = self.name_of(incomplete)?;
        let root = self.open_directory().map_err(|problem| {
            refused(io::Error::new(io::ErrorKind::NotFound, problem.to_string()))
        })?;
        self.check_torn(&root, &name, incomplete, written)?;
        let new_name = rename_aside(&root, &name)
            .map_err(|errno| refused(errno.into()))?
            .ok_or_else(|| QuarantineError::NamesTaken { path: path.clone() })?;
        self.memory.remove(&name);
        rustix::fs::fsync(&root).map_err(|errno| refused(errno.into()))?;
        Ok(shown(&self.directory, &new_name))
    }

    /// The name of `incomplete` in the directory. A path that had to be altered to be text names
    /// nothing, and is refused by not being found.
    fn name_of(&self, incomplete: &Incomplete) -> Result<OsString, QuarantineError> {
        let path = Path::new(&incomplete.path);
        let is_ours = path.parent() == Some(&self.directory);
        let is_final = |name: &OsStr| {
            let layout = self.layout.map(|layout| layout.classify(name, &self.rules));
            layout.is_some_and(|name| matches!(name, Name::Final { .. }))
        };
        let name = path.file_name().filter(|name| is_ours && is_final(name));
        let refused = || QuarantineError::NotACheckpoint { path: incomplete.path.clone() };
        name.map(ToOwned::to_owned).ok_or_else(refused)
    }

    /// Refuses unless what lies under `name` is the very thing seen by the scan, at rest, and
    /// breaks a rule.
    fn check_torn(
        &self,
        root: &OwnedFd,
        name: &OsStr,
        incomplete: &Incomplete,
        written: &WrittenFiles,
    ) -> Result<(), QuarantineError> {
        let path = incomplete.path.clone();
        let Some(memory) = self.memory.get(name) else {
            return Err(QuarantineError::NotACheckpoint { path });
        };
        let Ok(entry) = walk::look(root, name) else {
            return Err(QuarantineError::NotACheckpoint { path });
        };
        let manifest = match entry.kind {
            Kind::Directory => walk::walk(root, name, self.limits.files_per_checkpoint),
            Kind::Regular => Ok(Manifest::of_file(entry)),
            Kind::SymbolicLink | Kind::Special => Ok(Manifest::default()),
        };
        let Ok(manifest) = manifest else { return Err(QuarantineError::BeingWritten { path }) };
        let is_at_rest = memory.is_at_rest(entry.id, &manifest, self.settle);
        if incomplete.saving || !is_at_rest || written.first_in(&manifest).is_some() {
            return Err(QuarantineError::BeingWritten { path });
        }
        let is_wrong_shape = matches!(
            incomplete.reason,
            IncompleteReason::FileMissing { .. } | IncompleteReason::SizeUnexpected { .. }
        );
        // Nothing of this format, or unnamed because nothing is: that says nothing about the checkpoint itself.
        let is_unjudged = match &incomplete.reason {
            IncompleteReason::NotOfFormat { .. } => true,
            IncompleteReason::MarkerInvalid { marker, .. } => {
                self.layout.and_then(Layout::tracker) == Some(marker)
            }
            _ => false,
        };
        if memory.is_accepted() || is_unjudged || (memory.meets_rules() && !is_wrong_shape) {
            return Err(QuarantineError::MayBeComplete { path });
        }
        Ok(())
    }
}

/// Renames `name` to the first free name for it; `None` if none is free.
fn rename_aside(root: &OwnedFd, name: &OsStr) -> Result<Option<OsString>, Errno> {
    for number in 1..=NAMES_MAX {
        let mut new_name = name.to_owned();
        new_name.push(QUARANTINE_SUFFIX);
        if number > 1 {
            new_name.push(format!("-{number}"));
        }
        match renameat_with(root, name, root, &new_name, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(Some(new_name)),
            Err(Errno::EXIST) => {}
            // Some network file systems do not know the flag.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                if walk::look(root, &new_name) == Err(Errno::NOENT) {
                    renameat(root, name, root, &new_name)?;
                    return Ok(Some(new_name));
                }
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(None)
}
