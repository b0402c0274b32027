//! What the complete checkpoint before looked like, and whether a new one looks the same.
//!
//! This finds what structure alone does not: a rank that wrote to another disk, a shard cut to a
//! plausible size. It must not block for ever when the model really changed (layers unfrozen,
//! other sharding): two checkpoints of different steps that agree with each other are believed
//! against the older one.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sluice_core::checkpoint::IncompleteReason;

use super::walk::{Kind, Manifest, text};

/// Differences up to this size are never held against a file: pickled arguments and random
/// states vary by some hundred bytes from save to save. Unit: bytes.
const SLACK_BYTES: u64 = 4096;

/// Largest accepted difference as a part of the expected size: one in 20, that is 5 %.
const TOLERANCE_DIVISOR: u64 = 20;

/// What of a checkpoint is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compared {
    /// Presence and size of the data files.
    Files,
    /// Presence of what lies at the top.
    Items,
}

/// Files whose presence and size are compared. Others (logs, model cards, configuration) may
/// come and go without making a checkpoint unusable.
const DATA_SUFFIXES: [&str; 9] =
    [".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".npz", ".npy", ".distcp", ".metadata"];

/// Sizes of the data files of one checkpoint. Unit: bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    step: u64,
    sizes: BTreeMap<OsString, u64>,
}

impl Shape {
    fn of(step: u64, manifest: &Manifest, compared: Compared, world_size: u32) -> Self {
        if compared == Compared::Items {
            let top = |path: &OsString| Path::new(path).iter().next().map(ToOwned::to_owned);
            let items = manifest.files.keys().filter_map(top).map(|item| (item, 0));
            return Self { step, sizes: items.collect() };
        }
        let data = manifest.files.iter().filter(|(path, entry)| {
            let path = path.as_bytes();
            // A checkpoint that is one file has no path in itself.
            let is_data =
                path.is_empty() || DATA_SUFFIXES.iter().any(|end| path.ends_with(end.as_bytes()));
            entry.kind == Kind::Regular && is_data && !is_judged_by_rank(path, world_size)
        });
        let sizes = data.map(|(path, entry)| (without_step(path, step), entry.stamp.bytes));
        Self { step, sizes: sizes.collect() }
    }

    /// How `self` differs from what `expected` looked like.
    fn difference(&self, expected: &Self) -> Option<IncompleteReason> {
        expected.sizes.iter().find_map(|(path, expected_bytes)| {
            let Some(bytes) = self.sizes.get(path).copied() else {
                return Some(IncompleteReason::FileMissing { file: text(path) });
            };
            let allowed_bytes = (expected_bytes / TOLERANCE_DIVISOR).max(SLACK_BYTES);
            let expected_bytes = *expected_bytes;
            (bytes.abs_diff(expected_bytes) > allowed_bytes).then(|| {
                IncompleteReason::SizeUnexpected { file: text(path), bytes, expected_bytes }
            })
        })
    }
}

/// The rule for ranks judges random states by the world size, which may change. Those of ranks beyond it, where one of
/// the gang is several of the trainer, are expected because they were there.
fn is_judged_by_rank(path: &[u8], world_size: u32) -> bool {
    let Some(rest) = path.strip_prefix(b"rng_state") else { return false };
    let rank = rest.strip_prefix(b"_").and_then(|rest| rest.strip_suffix(b".pth"));
    let rank = rank.and_then(|rank| std::str::from_utf8(rank).ok()?.parse::<u32>().ok());
    rank.is_none_or(|rank| rank < world_size)
}

/// `global_stepN/` (DeepSpeed) carries the step in its name: replaced, so that steps compare.
fn without_step(path: &OsStr, step: u64) -> OsString {
    let directory = format!("global_step{step}/");
    match path.as_bytes().strip_prefix(directory.as_bytes()) {
        Some(rest) => {
            let mut name = OsString::from("global_step*/");
            name.push(OsStr::from_bytes(rest));
            name
        }
        None => path.to_owned(),
    }
}

/// What is expected of the next checkpoint.
#[derive(Debug)]
pub(crate) struct Learned {
    compared: Compared,
    world_size: u32,
    /// The complete checkpoint of the highest step.
    accepted: Option<Shape>,
    /// The last one that differed from it and was otherwise complete.
    rival: Option<Shape>,
}

impl Learned {
    /// Nothing is known yet of checkpoints of `world_size` ranks.
    pub(crate) fn new(compared: Compared, world_size: u32) -> Self {
        Self { compared, world_size, accepted: None, rival: None }
    }

    /// Compares a checkpoint that is complete by every other rule, and learns from it.
    ///
    /// # Errors
    /// [`IncompleteReason::FileMissing`] or [`IncompleteReason::SizeUnexpected`].
    pub(crate) fn check(&mut self, step: u64, manifest: &Manifest) -> Result<(), IncompleteReason> {
        let shape = Shape::of(step, manifest, self.compared, self.world_size);
        let difference = self.accepted.as_ref().and_then(|accepted| shape.difference(accepted));
        if let Some(reason) = difference {
            let agrees = self.rival.as_ref().is_some_and(|rival| {
                rival.step != step
                    && rival.difference(&shape).is_none()
                    && shape.difference(rival).is_none()
            });
            if !agrees {
                self.rival = Some(shape);
                return Err(reason);
            }
            // The new look is believed from here on, whatever the steps.
            self.accepted = None;
        }
        if self.accepted.as_ref().is_none_or(|accepted| accepted.step <= step) {
            self.accepted = Some(shape);
            self.rival = None;
        }
        Ok(())
    }
}
