//! When a `global_stepN/` directory of DeepSpeed is complete, alone or in a checkpoint of the Trainer.
//!
//! Ranks write `mp_rank_…_model_states.pt` and, with ZeRO, each its `…_optim_states.pt`; after a barrier rank 0 writes
//! the directory's name into `latest`, in place. DeepSpeed resumes from what stands there; without it, from nothing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use sluice_core::checkpoint::IncompleteReason;

use super::layout::{Look, Name, Sealed};
use super::rename;
use super::walk::Manifest;

/// Names the directory to resume from.
pub(crate) const TRACKER: &str = "latest";

/// Ending of a file of weights, and of one of a rank's optimizer state.
const MODEL_END: &[u8] = b"model_states.pt";
const OPTIMIZER_END: &[u8] = b"_optim_states.pt";

/// What a name is. The tag is the trainer's own choice; by default it is `global_stepN`.
pub(crate) fn classify(name: &OsStr) -> Name {
    rename::classify(name)
}

/// Whether `name` is that of a directory which only this framework writes.
pub(crate) fn is_telling(name: &OsStr) -> bool {
    let digits = name.as_bytes().strip_prefix(b"global_step");
    digits.is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

/// The directory that the text of a tracker names.
///
/// # Errors
/// It names none.
pub(crate) fn tracked(content: &str) -> Result<Option<String>, String> {
    let is_name = !content.contains(['/', '\0', '\n']) && step_of_tag(content).is_some();
    is_name.then(|| Some(content.to_owned())).ok_or_else(|| "it names no checkpoint".to_owned())
}

fn step_of_tag(tag: &str) -> Option<u64> {
    rename::step_of(OsStr::new(tag))
}

/// Checks one checkpoint.
///
/// # Errors
/// The first rule that is not met.
pub(crate) fn judge(look: &Look<'_>) -> Result<Sealed, IncompleteReason> {
    if look.manifest.bytes == 0 {
        return Err(IncompleteReason::Empty);
    }
    let is_states = |path: &OsStr| path.as_bytes().ends_with(b"_states.pt");
    if !is_telling(look.name) && !look.manifest.files.keys().any(|path| is_states(path)) {
        return Err(look.not_of_format());
    }
    look.surroundings.tracker.check(TRACKER, look.step, step_of_tag)?;
    check_files(look)?;
    Ok(Some(TRACKER.to_owned()))
}

/// What the directory itself has to hold.
///
/// # Errors
/// The first rule that is not met.
pub(crate) fn check_files(look: &Look<'_>) -> Result<(), IncompleteReason> {
    check_states(look.manifest, "", look.world_size)?;
    look.check_intact()
}

/// The weights, and the optimizer state of every rank, lie in `directory` of the checkpoint: empty or ending in a slash.
///
/// # Errors
/// [`IncompleteReason::ShardMissing`] or [`IncompleteReason::RankMissing`].
pub(crate) fn check_states(
    manifest: &Manifest,
    directory: &str,
    world_size: u32,
) -> Result<(), IncompleteReason> {
    let (mut models, mut optimizers) = (0, 0);
    for (path, _) in manifest.filled() {
        let Some(file) = path.as_bytes().strip_prefix(directory.as_bytes()) else { continue };
        models += u32::from(file.ends_with(MODEL_END));
        optimizers += u32::from(file.ends_with(OPTIMIZER_END));
    }
    if models == 0 {
        return Err(IncompleteReason::ShardMissing {
            index: TRACKER.to_owned(),
            file: format!("{directory}mp_rank_00_model_states.pt"),
        });
    }
    if optimizers > 0 && optimizers < world_size {
        return Err(IncompleteReason::RankMissing {
            file: format!("{directory}*_optim_states.pt"),
            missing_ranks: world_size - optimizers,
            world_size,
        });
    }
    Ok(())
}
