//! When what `torch.distributed.checkpoint` writes is complete: a directory per step, or one in another checkpoint.
//!
//! Every rank writes `__{rank}_{n}.distcp`; when all have, rank 0 writes `.metadata.tmp` and renames it to `.metadata`.
//! A save over an old one removes `.metadata` first. `.metadata` names every shard, so all of them are looked for.
//!
//! Trainers resume from the highest step, the careful ones (torchtitan) from the highest that has `.metadata`.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sluice_core::checkpoint::IncompleteReason;

use super::layout::{Look, Name, Sealed};
use super::rename;
use super::walk::{Kind, Manifest, open_file, text};

/// Renamed into place last.
pub(crate) const METADATA: &str = ".metadata";

/// What it is called before.
const METADATA_TMP: &str = ".metadata.tmp";

/// Ending of a shard.
pub(crate) const SHARD_END: &[u8] = b".distcp";

/// Most of one `.metadata` that is read. It takes some 200 bytes per tensor and shard; a larger one is read so far.
const METADATA_BYTES_MAX: u64 = 32 << 20;

/// Read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Most shards of one `.metadata` that are looked for: as many files as a checkpoint may hold.
const SHARDS_MAX: usize = 16_384;

/// Most `.metadata` read per checkpoint: one for weights, one for the optimizer, some more.
const METADATA_READ_MAX: usize = 16;

/// Longest name of a shard that is recognised: two 32-bit numbers and what is around them.
const SHARD_NAME_BYTES_MAX: usize = 32;

/// What a name is: any that ends in its step, such as `step-10`, `iter_0000010` or `10`.
pub(crate) fn classify(name: &OsStr) -> Name {
    rename::classify(name)
}

/// Whether the names in a directory show that this is the writer.
pub(crate) fn is_telling(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name == METADATA.as_bytes() || name == METADATA_TMP.as_bytes() || name.ends_with(SHARD_END)
}

/// Checks one checkpoint.
///
/// # Errors
/// The first rule that is not met.
pub(crate) fn judge(look: &Look<'_>) -> Result<Sealed, IncompleteReason> {
    let manifest = look.manifest;
    if manifest.files.is_empty() {
        return Err(IncompleteReason::Empty);
    }
    let name = |path: &OsString| Path::new(path).file_name().is_some_and(is_telling);
    if !manifest.files.keys().any(name) {
        return Err(look.not_of_format());
    }
    check(look.root, &look.prefix(), manifest)?;
    // Weights in one directory, the rest in others, or all in one: the one that is not there yet is not known.
    let is_sealed = manifest.filled().any(|(path, _)| is_metadata(path));
    if !is_sealed {
        return Err(IncompleteReason::MarkerMissing { marker: METADATA.to_owned() });
    }
    look.check_intact()?;
    Ok(Some(METADATA.to_owned()))
}

/// Every directory with shards has its `.metadata`, all shards that it names are there, and none is being written.
/// `prefix` is the path of the checkpoint below `directory`, empty or ending in a slash.
///
/// # Errors
/// The first of these that does not hold.
pub(crate) fn check(
    directory: impl AsFd,
    prefix: &OsStr,
    manifest: &Manifest,
) -> Result<(), IncompleteReason> {
    let sibling = |path: &OsStr, name: &str| Path::new(path).with_file_name(name).into_os_string();
    for path in manifest.files.keys() {
        if path.as_bytes().ends_with(METADATA_TMP.as_bytes()) {
            return Err(IncompleteReason::TemporaryName { file: text(path) });
        }
        if !path.as_bytes().ends_with(SHARD_END) {
            continue;
        }
        let metadata = sibling(path, METADATA);
        if !manifest.files.contains_key(&metadata) {
            return Err(IncompleteReason::MarkerMissing { marker: text(&metadata) });
        }
    }
    let all = manifest.files.iter().filter(|(path, _)| is_metadata(path));
    for (path, entry) in all.take(METADATA_READ_MAX) {
        let marker = text(path);
        match entry.kind {
            Kind::Regular => {}
            Kind::SymbolicLink => return Err(IncompleteReason::SymbolicLink { file: marker }),
            Kind::Directory | Kind::Special => {
                return Err(IncompleteReason::SpecialFile { file: marker });
            }
        }
        let mut full = prefix.to_owned();
        full.push(path);
        let file = open_file(directory.as_fd(), &full)?;
        let bytes = entry.stamp.bytes;
        let shards = shards(file.take(METADATA_BYTES_MAX), bytes <= METADATA_BYTES_MAX);
        let shards = shards.map_err(|error| {
            let detail = error.to_string();
            IncompleteReason::MarkerInvalid { marker: marker.clone(), detail }
        })?;
        for shard in shards {
            let file = sibling(path, &shard);
            let is_there = manifest
                .files
                .get(&file)
                .is_some_and(|entry| entry.kind == Kind::Regular && entry.stamp.bytes > 0);
            if !is_there {
                return Err(IncompleteReason::ShardMissing { index: marker, file: text(&file) });
            }
        }
    }
    Ok(())
}

fn is_metadata(path: &OsStr) -> bool {
    Path::new(path).file_name() == Some(OsStr::new(METADATA))
}

/// The shards that a `.metadata` names. It is a pickle, which is not run: the names stand in it as they are. It is read
/// in pieces, as it may be larger than everything else that this program holds.
///
/// # Errors
/// It could not be read, or it `is_whole` and its end is missing.
fn shards(mut reader: impl Read, is_whole: bool) -> io::Result<BTreeSet<String>> {
    let mut shards = BTreeSet::new();
    let mut buffer = vec![0; PIECE_BYTES];
    let (mut kept, mut read_bytes) = (0, 0);
    let (mut first, mut last) = (None, None);
    loop {
        let count = match reader.read(&mut buffer[kept..]) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let filled = kept + count;
        read_bytes += count;
        first = first.or(Some(buffer[kept]));
        last = Some(buffer[filled - 1]);
        add_shards(&buffer[..filled], &mut shards);
        // A name may lie across two pieces.
        let tail = filled.min(SHARD_NAME_BYTES_MAX + SHARD_END.len());
        buffer.copy_within(filled - tail..filled, 0);
        kept = tail;
    }
    // A pickle begins with its protocol and ends with a stop. What begins otherwise is not judged.
    if first == Some(0x80) && is_whole && last != Some(b'.') {
        let why = format!("it ends early, after {read_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
    }
    Ok(shards)
}

fn add_shards(piece: &[u8], shards: &mut BTreeSet<String>) {
    let mut from = 0;
    while let Some(at) = find(&piece[from..], SHARD_END) {
        let end = from + at;
        let start = end.saturating_sub(SHARD_NAME_BYTES_MAX);
        if shards.len() < SHARDS_MAX {
            shards.extend(shard_ending(&piece[start..end]));
        }
        from = end + SHARD_END.len();
    }
}

fn find(content: &[u8], part: &[u8]) -> Option<usize> {
    content.windows(part.len()).position(|window| window == part)
}

/// The name of the shard whose stem `__{rank}_{n}` ends `text`.
fn shard_ending(text: &[u8]) -> Option<String> {
    let digits = |text: &[u8]| text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let second = digits(text);
    let rest = text[..text.len() - second].strip_suffix(b"_")?;
    let first = digits(rest);
    let is_shard = second > 0 && first > 0 && rest[..rest.len() - first].ends_with(b"__");
    let start = rest.len().checked_sub(first + 2)?;
    let stem = std::str::from_utf8(&text[start..]).ok()?;
    is_shard.then(|| format!("{stem}.distcp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(content: &[u8]) -> Vec<String> {
        shards(content, true).unwrap().into_iter().collect()
    }

    #[test]
    fn shards_are_named_as_they_stand_there() {
        let content =
            b"\x80\x04\x8c\x0c__0_0.distcp\x94\x8c\x0f__1023_12.distcp\x94x.distcp_7.distcp.";
        assert_eq!(names(content), ["__0_0.distcp", "__1023_12.distcp"]);
        assert_eq!(names(b""), [""; 0]);
    }

    #[test]
    fn a_name_that_lies_across_two_pieces_is_found() {
        for before in PIECE_BYTES - 40..PIECE_BYTES + 40 {
            let mut content = vec![b'x'; before];
            content.extend(b"__31_2.distcp");
            content.resize(3 * PIECE_BYTES, b'y');
            assert_eq!(names(&content), ["__31_2.distcp"], "{before}");
        }
    }

    #[test]
    fn a_pickle_without_its_end_is_cut_unless_only_its_beginning_is_read() {
        let cut = b"\x80\x04\x8c\x0c__0_0.distcp";
        let why = shards(&cut[..], true).unwrap_err().to_string();
        assert_eq!(why, "it ends early, after 16 bytes");
        assert!(shards(&cut[..], false).is_ok());
    }
}
