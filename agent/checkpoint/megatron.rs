//! When an `iter_NNNNNNN/` directory of Megatron-LM is complete.
//!
//! All ranks write their `mp_rank_…/model_optim_rng.pt` (or the shards of a distributed save); after a barrier rank 0
//! writes the iteration into `latest_checkpointed_iteration.txt`, in place. Megatron resumes from what stands there and
//! from nothing else: a torn directory is passed over by itself, a torn tracker ends the next start.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use sluice_core::checkpoint::IncompleteReason;

use super::distributed;
use super::layout::{Look, Name, Sealed};

/// Names the iteration to resume from.
pub(crate) const TRACKER: &str = "latest_checkpointed_iteration.txt";

/// In the tracker of a model that was published: there is no iteration.
const RELEASE: &str = "release";

/// Digits of an iteration in a name, padded with zeros.
const DIGITS_MIN: usize = 7;

/// The iteration in `iter_NNNNNNN`.
pub(crate) fn step_of(name: &OsStr) -> Option<u64> {
    let digits = name.as_bytes().strip_prefix(b"iter_")?;
    let is_number = digits.len() >= DIGITS_MIN && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}

/// What a name is.
pub(crate) fn classify(name: &OsStr) -> Name {
    step_of(name).map_or(Name::Other, |step| Name::Final { step })
}

/// The directory that the text of a tracker names; `None` for a release, which has none of an iteration.
///
/// # Errors
/// It is neither an iteration nor `release`.
pub(crate) fn tracked(content: &str) -> Result<Option<String>, String> {
    if content == RELEASE {
        return Ok(None);
    }
    let iteration = iteration(content).ok_or("it holds no iteration")?;
    Ok(Some(format!("iter_{iteration:07}")))
}

/// The text of a tracker that names the directory of `step`.
pub(crate) fn tracker_for(step: u64) -> String {
    step.to_string()
}

/// `parse` alone would take a sign.
fn iteration(content: &str) -> Option<u64> {
    let is_number = content.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| content.parse().ok()).flatten()
}

/// Checks one checkpoint.
///
/// # Errors
/// The first rule that is not met.
pub(crate) fn judge(look: &Look<'_>) -> Result<Sealed, IncompleteReason> {
    look.surroundings.tracker.check(TRACKER, look.step, iteration)?;
    check_files(look)?;
    Ok(Some(TRACKER.to_owned()))
}

/// What the directory itself has to hold.
///
/// # Errors
/// The first rule that is not met.
pub(crate) fn check_files(look: &Look<'_>) -> Result<(), IncompleteReason> {
    if look.manifest.bytes == 0 {
        return Err(IncompleteReason::Empty);
    }
    let is_data = |path: &OsStr| {
        let path = path.as_bytes();
        path.ends_with(b".pt") || path.ends_with(distributed::SHARD_END)
    };
    if !look.manifest.filled().any(|(path, _)| is_data(path)) {
        return Err(IncompleteReason::WeightsMissing);
    }
    distributed::check(look.root, &look.prefix(), look.manifest)?;
    look.check_intact()
}
