//! When a `checkpoint-N/` directory of the Hugging Face Trainer is complete.
//!
//! The Trainer writes model, optimizer, scheduler, `rng_state*.pth` and last `trainer_state.json`;
//! with several ranks they finish in any order. Nothing is trusted to have been written only
//! because something later was: every part is looked for.

mod weights;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use sluice_core::checkpoint::IncompleteReason;

use super::layout::{Look, Name, Sealed};
use super::trainer_state::global_step;
use super::walk::{Kind, Manifest, open_directory, open_file, unreadable};
use super::{distributed, intact};

/// Written last by the Trainer.
pub(crate) const TRAINER_STATE: &str = "trainer_state.json";

/// Written first and removed last by the Trainer's own save on SIGTERM.
pub(crate) const SENTINEL: &str = "checkpoint-is-incomplete.txt";

/// Largest JSON file that is read. The log in `trainer_state.json` takes some 150 bytes per logged
/// step, so this is room for 100,000 of them; reading it takes some 50 ms, once per checkpoint.
pub(crate) const JSON_BYTES_MAX: u64 = 16 << 20;

/// `checkpoint-N` as `N`.
pub(crate) fn step_of(name: &OsStr) -> Option<u64> {
    let digits = name.as_bytes().strip_prefix(b"checkpoint-")?;
    // `parse` alone would take a sign.
    digits.iter().all(u8::is_ascii_digit).then_some(())?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Step of a name under which a save may be prepared or put aside: `tmp-checkpoint-N`,
/// `checkpoint-N.tmp…`, `checkpoint-N.partial`.
pub(crate) fn temporary_step_of(name: &OsStr) -> Option<u64> {
    let text = name.to_str()?;
    let core = text.strip_prefix("tmp-").unwrap_or(text);
    let core = core.split('.').next()?;
    (core.len() < text.len()).then(|| step_of(OsStr::new(core))).flatten()
}

/// Whether a file of this name in a `checkpoint-N/` shows that the Trainer wrote it.
pub(crate) fn is_telling(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let exact = [TRAINER_STATE, SENTINEL, "config.json", "training_args.bin", "scheduler.pt"];
    let starts =
        ["model.", "model-", "adapter_", "pytorch_model", "optimizer", "rng_state", "global_step"];
    exact.contains(&name) || starts.iter().any(|start| name.starts_with(start))
}

/// What a name is.
pub(crate) fn classify(name: &OsStr) -> Name {
    if let Some(step) = step_of(name) {
        return Name::Final { step };
    }
    temporary_step_of(name).map_or(Name::Other, |step| Name::Temporary { step: Some(step) })
}

/// Checks one checkpoint.
///
/// # Errors
/// The first rule that is not met.
pub(crate) fn judge(look: &Look<'_>) -> Result<Sealed, IncompleteReason> {
    let (manifest, world_size) = (look.manifest, look.world_size);
    if look.is_file() {
        return Err(IncompleteReason::NotADirectory);
    }
    let checkpoint = open_directory(look.root, look.name).map_err(|e| unreadable(look.name, e))?;
    if manifest.files.is_empty() {
        return Err(IncompleteReason::Empty);
    }
    if manifest.files.contains_key(OsStr::new(SENTINEL)) {
        return Err(IncompleteReason::Unfinished { marker: SENTINEL.to_owned() });
    }
    check_marker(&checkpoint, manifest, look.step)?;
    check_ranks(manifest, world_size)?;
    weights::check(&checkpoint, manifest, world_size)?;
    distributed::check(&checkpoint, OsStr::new(""), manifest)?;
    intact::check(&checkpoint, OsStr::new(""), manifest)?;
    Ok(Some(TRAINER_STATE.to_owned()))
}

/// `trainer_state.json` is whole and of this step.
fn check_marker(
    checkpoint: impl AsFd,
    manifest: &Manifest,
    step: u64,
) -> Result<(), IncompleteReason> {
    let marker = TRAINER_STATE.to_owned();
    let Some(entry) = manifest.files.get(OsStr::new(TRAINER_STATE)) else {
        return Err(IncompleteReason::MarkerMissing { marker });
    };
    match entry.kind {
        Kind::Regular => {}
        Kind::SymbolicLink => return Err(IncompleteReason::SymbolicLink { file: marker }),
        // A directory of this name is not in the manifest itself.
        Kind::Directory | Kind::Special => {
            return Err(IncompleteReason::SpecialFile { file: marker });
        }
    }
    let bytes = entry.stamp.bytes;
    if bytes > JSON_BYTES_MAX {
        let limit_bytes = JSON_BYTES_MAX;
        return Err(IncompleteReason::MarkerTooLarge { marker, bytes, limit_bytes });
    }
    let file = open_file(checkpoint, OsStr::new(TRAINER_STATE))?;
    match global_step(BufReader::new(file.take(JSON_BYTES_MAX))) {
        Ok(found_step) if found_step == step => Ok(()),
        Ok(found_step) => {
            Err(IncompleteReason::StepMismatch { marker, named_step: step, found_step })
        }
        Err(detail) => Err(IncompleteReason::MarkerInvalid { marker, detail }),
    }
}

/// Every rank left its random state, which is the last thing a rank writes on its own.
///
/// Declared are ranks of the gang; each may be several of the trainer, one per device. Those beyond are expected as soon
/// as a checkpoint had them (`learned`).
fn check_ranks(manifest: &Manifest, world_size: u32) -> Result<(), IncompleteReason> {
    let is_numbered = manifest.regular("rng_state_0.pth").is_some();
    if world_size <= 1 && !is_numbered {
        let file = "rng_state.pth";
        let is_there = manifest.regular(file).is_some_and(|entry| entry.stamp.bytes > 0);
        let missing = || IncompleteReason::RankMissing {
            file: file.to_owned(),
            missing_ranks: 1,
            world_size: 1,
        };
        return is_there.then_some(()).ok_or_else(missing);
    }
    // Counted from what is there: the world size was declared and may be absurdly large.
    let ranks: BTreeSet<u32> = manifest
        .filled()
        .filter_map(|(path, _)| {
            let rank = path.to_str()?.strip_prefix("rng_state_")?.strip_suffix(".pth")?;
            rank.parse().ok().filter(|number: &u32| number.to_string() == rank)
        })
        .filter(|rank| *rank < world_size)
        .collect();
    let Some(first) = (0..world_size).find(|rank| !ranks.contains(rank)) else { return Ok(()) };
    Err(IncompleteReason::RankMissing {
        file: format!("rng_state_{first}.pth"),
        missing_ranks: world_size - u32::try_from(ranks.len()).unwrap_or(world_size),
        world_size,
    })
}
