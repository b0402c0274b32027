//! When a step directory of Orbax is complete.
//!
//! `<step>` or `<prefix>_<step>` is written under `….orbax-checkpoint-tmp` (until 0.11 with a number after it), with
//! each item in a directory of its own that is renamed likewise, and then renamed. On object stores the final name is
//! used from the start and `commit_success.txt` is written last; since 0.12.3 it is there on every storage. Orbax
//! resumes from the highest final name and, where it expects one, with that file.

use std::ffi::OsStr;
use std::io::{BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Deserialize;
use sluice_core::checkpoint::IncompleteReason;

use super::layout::{Look, Name, Sealed};
use super::rename;
use super::walk::{open_file, text};

/// Written last into a step or item, or before it is renamed.
pub(crate) const COMMIT: &str = "commit_success.txt";

/// Written first into a step, and again with the time of the commit before it is renamed.
const METADATA: &str = "_CHECKPOINT_METADATA";

/// Most of it that is read. It has some hundred bytes, and what the trainer adds.
const METADATA_BYTES_MAX: u64 = 1 << 20;

/// In every name that is not final.
const TEMPORARY: &str = ".orbax-checkpoint-tmp";

/// Files that show who wrote a step or an item.
const TELLING: [&str; 6] =
    [COMMIT, METADATA, "_METADATA", "manifest.ocdbt", "_sharding", "array_metadatas"];

/// Whether a file or directory of this name shows that Orbax wrote here.
pub(crate) fn is_telling(name: &OsStr) -> bool {
    let is_temporary = name.to_string_lossy().contains(TEMPORARY);
    is_temporary || TELLING.iter().any(|telling| name == *telling)
}

/// What a name is.
pub(crate) fn classify(name: &OsStr) -> Name {
    let Some(utf8) = name.to_str() else { return Name::Other };
    if utf8.contains(TEMPORARY) {
        let step = utf8.split(TEMPORARY).next().and_then(step_of);
        return Name::Temporary { step };
    }
    step_of(utf8).map_or(Name::Other, |step| Name::Final { step })
}

/// The step in `<step>` and `<prefix>_<step>`.
fn step_of(name: &str) -> Option<u64> {
    let digits = name.rsplit('_').next()?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// Checks one checkpoint.
///
/// # Errors
/// The first rule that is not met.
pub(crate) fn judge(look: &Look<'_>) -> Result<Sealed, IncompleteReason> {
    let files = &look.manifest.files;
    if files.is_empty() {
        return Err(IncompleteReason::Empty);
    }
    let has = |told: fn(&OsStr) -> bool| files.keys().any(|path| Path::new(path).iter().any(told));
    if !has(is_telling) {
        return Err(look.not_of_format());
    }
    if let Some(path) = files.keys().find(|path| rename::is_temporary_within(path)) {
        return Err(IncompleteReason::TemporaryName { file: text(path) });
    }
    let sealed = sealed(look, has(|name| name == COMMIT))?;
    if sealed.is_none() && !look.is_renamed {
        // The final name alone shows nothing where it may have been there from the start.
        return Err(IncompleteReason::MarkerMissing { marker: COMMIT.to_owned() });
    }
    if look.manifest.bytes == 0 || !files.keys().any(|path| path.as_bytes().contains(&b'/')) {
        return Err(IncompleteReason::WeightsMissing);
    }
    look.check_intact()?;
    Ok(sealed)
}

/// What was written last: the commit file where this writer leaves one, else the time of the commit in the metadata.
///
/// # Errors
/// There should be a commit file, or the metadata cannot be read.
fn sealed(look: &Look<'_>, commits_items: bool) -> Result<Sealed, IncompleteReason> {
    if look.manifest.regular(COMMIT).is_some() {
        return Ok(Some(COMMIT.to_owned()));
    }
    if commits_items || look.surroundings.commits {
        return Err(IncompleteReason::MarkerMissing { marker: COMMIT.to_owned() });
    }
    let is_small = |bytes: u64| bytes <= METADATA_BYTES_MAX;
    if !look.manifest.regular(METADATA).is_some_and(|entry| is_small(entry.stamp.bytes)) {
        return Ok(None);
    }
    let mut path = look.prefix();
    path.push(METADATA);
    let file = open_file(look.root, &path)?.take(METADATA_BYTES_MAX);
    let metadata = serde_json::from_reader(BufReader::new(file));
    let Metadata { commit_timestamp_nsecs } = metadata.unwrap_or_default();
    Ok(commit_timestamp_nsecs.map(|_| METADATA.to_owned()))
}

/// What is needed of the metadata of a step.
#[derive(Debug, Default, Deserialize)]
struct Metadata {
    /// When it was committed; absent until then.
    commit_timestamp_nsecs: Option<u64>,
}
