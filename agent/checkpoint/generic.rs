//! Checkpoints of which only a pattern of names is known, and perhaps the file that is written last.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use sluice_core::checkpoint::{CheckpointRules, IncompleteReason};

use super::layout::{Look, Name, Sealed};
use super::rename;
use super::walk::text;

/// What a name is: one that the glob matches, with its last number as the step.
pub(crate) fn classify(name: &OsStr, rules: &CheckpointRules) -> Name {
    let bytes = name.as_bytes();
    let is_marker = !rules.marker.is_empty() && bytes.ends_with(rules.marker.as_bytes());
    if is_marker || !matches(rules.glob.as_bytes(), bytes) {
        return Name::Other;
    }
    match last_number(bytes) {
        Some(step) if rename::is_temporary(name) => Name::Temporary { step: Some(step) },
        Some(step) => Name::Final { step },
        None => Name::Other,
    }
}

/// The last group of digits, outside extensions where there is one.
fn last_number(name: &[u8]) -> Option<u64> {
    let number = |text: &[u8]| {
        let end = text.iter().rposition(u8::is_ascii_digit)? + 1;
        let digits = text[..end].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&text[end - digits..end]).ok()?.parse().ok()
    };
    number(rename::without_extensions(name)).or_else(|| number(name))
}

/// Whether `glob` matches the whole of `name`. `*` is any bytes, `?` any one. Takes time in proportion to the product
/// of the lengths.
fn matches(glob: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    // Where the last `*` stands and how much it has taken: tried with one byte more when the rest does not fit.
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match glob.get(at) {
            Some(b'*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[in_name] => {
                at += 1;
                in_name += 1;
            }
            Some(_) | None => {
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                at = star_at + 1;
                in_name = taken + 1;
            }
        }
    }
    glob[at..].iter().all(|byte| *byte == b'*')
}

/// Checks one checkpoint.
///
/// # Errors
/// The first rule that is not met.
pub(crate) fn judge(look: &Look<'_>) -> Result<Sealed, IncompleteReason> {
    let files = &look.manifest.files;
    if look.manifest.bytes == 0 {
        return Err(IncompleteReason::Empty);
    }
    if let Some(path) = files.keys().find(|path| rename::is_temporary_within(path)) {
        return Err(IncompleteReason::TemporaryName { file: text(path) });
    }
    let marker = &look.declared.marker;
    if !marker.is_empty() {
        let mut beside = look.name.to_owned();
        beside.push(marker);
        let is_there = look.manifest.regular(marker).is_some()
            || (look.is_file() && look.surroundings.marks.contains(&beside));
        if !is_there {
            return Err(IncompleteReason::MarkerMissing { marker: marker.clone() });
        }
    }
    look.check_intact()?;
    Ok((!marker.is_empty()).then(|| marker.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_matches_the_whole_name() {
        for (glob, name, expected) in [
            ("ckpt-*.pt", "ckpt-10.pt", true),
            ("ckpt-*.pt", "ckpt-10.pt.tmp", false),
            ("*", "anything", true),
            ("", "x", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*-*-7", "a-b-c-7", true),
            ("*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(matches(glob.as_bytes(), name.as_bytes()), expected, "{glob} {name}");
        }
    }

    #[test]
    fn the_last_number_is_the_step() {
        for (name, step) in
            [("ckpt-10.pt", Some(10)), ("e1-s20-best", Some(20)), ("a.mp4", Some(4)), ("x", None)]
        {
            assert_eq!(last_number(name.as_bytes()), step, "{name}");
        }
    }
}
