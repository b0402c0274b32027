//! Finds out which framework writes into a directory, from what lies there.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use super::super::walk::{names, open_directory};
use super::super::{deep_speed, distributed, hugging_face, lightning, megatron, orbax, rename};
use super::{Layout, QUARANTINE_SUFFIX};

/// Names in one directory that are read to find out who wrote it.
const TELLING_NAMES_MAX: u32 = 256;

/// Newest entries that are looked into, and directories in each: enough to see past one that is torn.
const TELLING_DIRECTORIES_MAX: usize = 4;

/// More than one framework wrote there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ambiguous(pub(crate) Vec<&'static str>);

/// The layout found in `directory`, which holds `names`: [`Layout::Rename`] as long as nothing tells.
///
/// Names that only one framework gives tell at once. Of others the newest are looked into; an empty one tells nothing
/// and is judged as what it may become first: not complete in any layout.
///
/// # Errors
/// Several frameworks have left what only they write.
pub(crate) fn find(directory: &OwnedFd, names: &[OsString]) -> Result<Layout, Ambiguous> {
    let mut found = BTreeSet::new();
    let is_aside = |name: &OsStr| name.to_string_lossy().contains(QUARANTINE_SUFFIX);
    let names: Vec<&OsString> = names.iter().filter(|name| !is_aside(name)).collect();
    found.extend(names.iter().filter_map(|name| told_by_name(name)));
    let newest = newest(&names);
    found.extend(newest.iter().filter_map(|(step, name)| told_by_content(directory, *step, name)));
    // What DCP leaves is part of what others write: it tells only where nothing else does.
    if found.len() > 1 {
        found.remove(&Layout::TorchDistributed);
    }
    let mut found: Vec<Layout> = found.into_iter().collect();
    match (found.pop(), found.is_empty()) {
        (None, _) => Ok(Layout::Rename),
        (Some(layout), true) => Ok(layout),
        (Some(layout), false) => {
            found.push(layout);
            Err(Ambiguous(found.into_iter().map(Layout::word).collect()))
        }
    }
}

/// The newest entries that may be directories with a step, and whether the Trainer gives such a name.
fn newest<'a>(names: &[&'a OsString]) -> Vec<(bool, &'a OsString)> {
    let step = |name: &OsStr| {
        let temporary = rename::is_temporary(name).then(|| rename::temporary_step_of(name));
        rename::step_of(name).or_else(|| lightning::step_of(name)).or(temporary.flatten())
    };
    let mut steps: Vec<(u64, &OsString)> =
        names.iter().filter_map(|name| Some((step(name)?, *name))).collect();
    steps.sort_unstable_by(|left, right| right.cmp(left));
    let mut newest = Vec::new();
    for is_trainers in [true, false] {
        let of_kind =
            steps.iter().filter(|(_, name)| hugging_face::step_of(name).is_some() == is_trainers);
        newest.extend(of_kind.take(TELLING_DIRECTORIES_MAX).map(|(_, name)| (is_trainers, *name)));
    }
    newest
}

/// A name in the checkpoint directory that only one framework gives.
fn told_by_name(name: &OsStr) -> Option<Layout> {
    if name == megatron::TRACKER || megatron::step_of(name).is_some() {
        Some(Layout::Megatron)
    } else if deep_speed::is_telling(name) {
        Some(Layout::DeepSpeed)
    } else if lightning::is_telling(name) {
        Some(Layout::Lightning)
    } else if name.as_bytes().windows(ORBAX.len()).any(|part| part == ORBAX) {
        Some(Layout::Orbax)
    } else {
        None
    }
}

const ORBAX: &[u8] = b".orbax-checkpoint-tmp";

/// What lies in the directory `name` or in one of its own.
fn told_by_content(directory: &OwnedFd, is_trainers: bool, name: &OsStr) -> Option<Layout> {
    if told_by_name(name).is_some() {
        return None;
    }
    let checkpoint = open_directory(directory, name).ok()?;
    let (inside, _) = names(&checkpoint, TELLING_NAMES_MAX).ok()?;
    if is_trainers && inside.iter().any(|name| hugging_face::is_telling(name)) {
        return Some(Layout::HuggingFace);
    }
    if let Some(layout) = told_by(&inside) {
        return Some(layout);
    }
    let below = inside.iter().filter_map(|name| open_directory(&checkpoint, name).ok());
    below.take(TELLING_DIRECTORIES_MAX).find_map(|below| {
        let (inside, _) = names(&below, TELLING_NAMES_MAX).ok()?;
        told_by(&inside)
    })
}

fn told_by(inside: &[OsString]) -> Option<Layout> {
    let any = |is_telling: fn(&OsStr) -> bool| inside.iter().any(|name| is_telling(name));
    // NeMo 2 keeps a distributed save and what is needed to build the model side by side.
    if ["weights", "context"].iter().all(|part| inside.iter().any(|name| name == *part)) {
        Some(Layout::Lightning)
    } else if any(orbax::is_telling) {
        Some(Layout::Orbax)
    } else if any(distributed::is_telling) {
        Some(Layout::TorchDistributed)
    } else {
        None
    }
}
