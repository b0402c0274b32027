//! When a checkpoint of Lightning or NeMo is complete: a `.ckpt` file or directory, or a NeMo 2 directory.
//!
//! NeMo puts an empty file `<checkpoint>-unfinished` beside what it writes and removes it at the end; it resumes from
//! the newest `…-last` that has none. Lightning itself leaves no mark: a file written by `torch.save` shows its end in
//! its structure, and a directory the `.metadata` of its distributed save. The step is in the name (`step=N`,
//! `hpc_ckpt_N`); names without one, such as `last.ckpt`, cannot be told from each other and are passed over.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use sluice_core::checkpoint::IncompleteReason;

use super::layout::{Look, Name, Sealed};
use super::surroundings::unfinished;
use super::walk::text;
use super::{distributed, rename};

/// Ending of NeMo's mark beside what is being written.
const UNFINISHED: &str = "-unfinished";

/// Before the step in a name.
const STEP: &str = "step=";
const REQUEUED: &str = "hpc_ckpt_";

/// Written by Lightning into a sharded checkpoint after the shards.
const META: &str = "meta.pt";

/// Whether `name` marks a checkpoint beside it as not finished.
pub(crate) fn is_mark(name: &OsStr) -> bool {
    name.as_bytes().ends_with(UNFINISHED.as_bytes())
}

/// The step in a name.
pub(crate) fn step_of(name: &OsStr) -> Option<u64> {
    let name = name.to_str()?;
    let after = match name.rfind(STEP) {
        Some(at) => &name[at + STEP.len()..],
        None => name.strip_prefix(REQUEUED)?,
    };
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    after[..digits].parse().ok()
}

/// Whether a name of this kind is written by no other framework.
pub(crate) fn is_telling(name: &OsStr) -> bool {
    let is_checkpoint = name.as_bytes().ends_with(b".ckpt") || is_mark(name);
    is_checkpoint && step_of(name).is_some()
}

/// What a name is.
pub(crate) fn classify(name: &OsStr) -> Name {
    let Some(step) = step_of(name).filter(|_| !is_mark(name)) else { return Name::Other };
    if rename::is_temporary(name) {
        Name::Temporary { step: Some(step) }
    } else {
        Name::Final { step }
    }
}

/// Checks one checkpoint.
///
/// # Errors
/// The first rule that is not met.
pub(crate) fn judge(look: &Look<'_>) -> Result<Sealed, IncompleteReason> {
    let is_of_this = |mark: &&std::ffi::OsString| step_of(mark) == Some(look.step);
    if let Some(mark) = look.surroundings.marks.iter().find(is_of_this) {
        return Err(unfinished(mark));
    }
    if look.manifest.bytes == 0 {
        return Err(IncompleteReason::Empty);
    }
    let files = &look.manifest.files;
    if let Some(path) = files.keys().find(|path| rename::is_temporary_within(path)) {
        return Err(IncompleteReason::TemporaryName { file: text(path) });
    }
    distributed::check(look.root, &look.prefix(), look.manifest)?;
    let has = |name: &str| look.manifest.regular(name).is_some_and(|entry| entry.stamp.bytes > 0);
    if has(distributed::METADATA) && !has(META) {
        return Err(IncompleteReason::MarkerMissing { marker: META.to_owned() });
    }
    look.check_intact()?;
    Ok(None)
}
