//! When a checkpoint that was written under a temporary name and renamed is complete.
//!
//! The final name is `<prefix><step><suffix>`: a file or a directory. Nothing in it has to have a
//! certain name, so what shows completeness is the way it appeared: renamed from a temporary name
//! that was seen before, or at rest for two scans.

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sluice_core::checkpoint::IncompleteReason;

use super::distributed;
use super::layout::{Look, Name, Sealed};
use super::walk::text;

/// What marks a name as temporary where no letter follows: `x.tmp`, `x.tmp-123`, `x.tmp7`,
/// `7.orbax-checkpoint-tmp-9`, `x-unfinished`; not `x.tmpl` or `x.template`.
const TEMPORARY_PARTS: [&str; 7] =
    [".tmp", "-tmp", "_tmp", ".temp", ".partial", "-unfinished", ".incomplete"];

/// What marks a name as temporary when it begins so.
const TEMPORARY_STARTS: [&str; 4] = ["tmp-", "tmp.", "tmp_", ".tmp"];

/// What marks a name as temporary when it ends so.
const TEMPORARY_ENDS: [&str; 2] = [".part", "~"];

/// Endings of files that carry numbers but are never checkpoints. Without them `log-999.txt`
/// beside `step-20.pt` would pass for the newest checkpoint, and a drain would release devices on
/// the strength of a log file.
const OTHER_ENDS: [&str; 14] = [
    ".txt", ".log", ".out", ".err", ".json", ".jsonl", ".yaml", ".yml", ".csv", ".lock", ".py",
    ".sh", ".md", ".png",
];

/// Whether `name` says that it is still being written.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let stands_alone = |part: &&str| {
        let mut places = name.match_indices(*part);
        places.any(|(at, _)| !name[at + part.len()..].starts_with(|c: char| c.is_alphabetic()))
    };
    TEMPORARY_PARTS.iter().any(stands_alone)
        || TEMPORARY_STARTS.iter().any(|start| name.starts_with(start))
        || TEMPORARY_ENDS.iter().any(|end| name.ends_with(end))
}

/// Whether `name` is hidden: programs that write and rename commonly prepend a dot.
pub(crate) fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

/// The step in a final name: its last group of digits, not counting extensions that contain a
/// letter (`.pt`, `.mp4`). `None` where the name is temporary or hidden, has no such group, or has something
/// else after it.
pub(crate) fn step_of(name: &OsStr) -> Option<u64> {
    let bytes = name.as_bytes();
    let is_other = OTHER_ENDS.iter().any(|end| bytes.ends_with(end.as_bytes()));
    if is_temporary(name) || is_hidden(name) || is_other {
        return None;
    }
    last_number(without_extensions(bytes))
}

/// The step in a temporary name: its first group of digits that follows a separator or begins the
/// name. A number that tells attempts apart commonly comes later.
pub(crate) fn temporary_step_of(name: &OsStr) -> Option<u64> {
    let bytes = name.as_bytes();
    let start = bytes.iter().position(u8::is_ascii_digit)?;
    let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&bytes[start..start + digits]).ok()?.parse().ok()
}

/// `name` without extensions that contain a letter: `step-10.tar.gz` as `step-10`.
pub(crate) fn without_extensions(name: &[u8]) -> &[u8] {
    let mut stem = name;
    while let Some(dot) = stem.iter().rposition(|byte| *byte == b'.') {
        if !stem[dot + 1..].iter().any(u8::is_ascii_alphabetic) || stem[dot..].contains(&b'-') {
            break;
        }
        stem = &stem[..dot];
    }
    stem
}

/// The number that ends `stem`.
fn last_number(stem: &[u8]) -> Option<u64> {
    let digits = stem.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = &stem[stem.len() - digits..];
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// What a name is.
pub(crate) fn classify(name: &OsStr) -> Name {
    if let Some(step) = step_of(name) {
        return Name::Final { step };
    }
    let step = temporary_step_of(name);
    let is_temporary = is_temporary(name) || (is_hidden(name) && step.is_some());
    if is_temporary { Name::Temporary { step } } else { Name::Other }
}

/// Whether some part of the path of a file in a checkpoint is a temporary name.
pub(crate) fn is_temporary_within(path: &OsStr) -> bool {
    Path::new(path).iter().any(is_temporary)
}

/// Checks one checkpoint.
///
/// # Errors
/// The first rule that is not met.
pub(crate) fn judge(look: &Look<'_>) -> Result<Sealed, IncompleteReason> {
    let manifest = look.manifest;
    if manifest.bytes == 0 {
        return Err(IncompleteReason::Empty);
    }
    if let Some(path) = manifest.files.keys().find(|path| is_temporary_within(path)) {
        return Err(IncompleteReason::TemporaryName { file: text(path) });
    }
    distributed::check(look.root, &look.prefix(), manifest)?;
    look.check_intact()?;
    Ok(None)
}
