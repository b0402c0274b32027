//! Tells from a file's own structure whether its end is there, without reading the data.
//!
//! A killed or full-disk save leaves a file of a plausible name and size. The two formats of
//! weights name their own length, so a cut file is found even when there is no earlier checkpoint
//! to compare with: safetensors in its header, `torch.save` in the zip directory at its end.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use serde::Deserialize;
use sluice_core::checkpoint::IncompleteReason;

use super::walk::{Manifest, open_file, text};

/// Most files looked into per checkpoint. The largest models have some 200 shards; each costs one
/// open and two small reads.
const FILES_LOOKED_INTO_MAX: usize = 512;

/// Longest safetensors header that is read. Headers take some 100 bytes per tensor, so this is
/// room for 80,000 tensors; a file with a longer one is not checked.
const HEADER_BYTES_MAX: u64 = 8 << 20;

/// Length of the end record of a zip file without a comment. Source: APPNOTE.TXT 4.3.16.
const ZIP_END_BYTES: u64 = 22;

/// Checks all files in `manifest` that are of a format which names its own length. `prefix` is the
/// path of the checkpoint below `directory`, empty or ending in a slash.
///
/// # Errors
/// [`IncompleteReason::Truncated`] for the first file that is cut off, or why one could not be read.
pub(crate) fn check(
    directory: impl AsFd,
    prefix: &OsStr,
    manifest: &Manifest,
) -> Result<(), IncompleteReason> {
    let checked = manifest.filled().filter_map(|(path, entry)| {
        let mut full = prefix.to_owned();
        full.push(path);
        Some((Format::of(&full)?, full, entry.stamp.bytes))
    });
    for (format, path, bytes) in checked.take(FILES_LOOKED_INTO_MAX) {
        let mut file = open_file(directory.as_fd(), &path)?;
        let cut = match format {
            Format::Safetensors => cut_safetensors(&mut file, bytes),
            Format::Torch => cut_zip(&mut file, bytes),
        };
        match cut {
            Ok(None) => {}
            Ok(Some(detail)) => {
                return Err(IncompleteReason::Truncated { file: text(&path), detail });
            }
            Err(error) => {
                let detail = error.to_string();
                return Err(IncompleteReason::Unreadable { file: text(&path), detail });
            }
        }
    }
    Ok(())
}

/// A file format that names its own length.
#[derive(Debug, Clone, Copy)]
enum Format {
    Safetensors,
    /// `torch.save`: a zip file since PyTorch 1.6, a plain pickle before.
    Torch,
}

impl Format {
    fn of(path: &OsStr) -> Option<Self> {
        let ends_with = |suffix: &str| path.as_bytes().ends_with(suffix.as_bytes());
        if ends_with(".safetensors") {
            Some(Self::Safetensors)
        } else if [".pt", ".pth", ".bin", ".ckpt"].into_iter().any(ends_with) {
            Some(Self::Torch)
        } else {
            None
        }
    }
}

/// What is needed of a tensor in a safetensors header. Type and shape are left alone, so that
/// types of the future do not make a checkpoint incomplete.
#[derive(Debug, Deserialize)]
struct Tensor {
    /// First and end byte, counted from the end of the header. `__metadata__` has none.
    data_offsets: Option<(u64, u64)>,
}

/// What is missing from a safetensors file of `bytes`: 8 bytes length, header, data.
fn cut_safetensors(file: &mut File, bytes: u64) -> io::Result<Option<String>> {
    let mut length = [0; 8];
    if bytes < 8 {
        return Ok(Some(format!("it has {bytes} bytes, less than a header")));
    }
    file.read_exact(&mut length)?;
    let header_bytes = u64::from_le_bytes(length);
    if header_bytes.saturating_add(8) > bytes {
        return Ok(Some(format!("its header alone has {header_bytes} bytes, it has {bytes}")));
    }
    if header_bytes > HEADER_BYTES_MAX {
        return Ok(None);
    }
    let header = BufReader::new(file.take(header_bytes));
    let tensors: BTreeMap<String, Tensor> = match serde_json::from_reader(header) {
        Ok(tensors) => tensors,
        Err(error) => return Ok(Some(format!("its header does not parse ({error})"))),
    };
    let ends = tensors.values().filter_map(|tensor| tensor.data_offsets).map(|(_, end)| end);
    let needed_bytes = ends.max().unwrap_or(0).saturating_add(header_bytes).saturating_add(8);
    let is_cut = bytes < needed_bytes;
    Ok(is_cut.then(|| format!("its header asks for {needed_bytes} bytes, it has {bytes}")))
}

/// What is missing from a zip file of `bytes`. Files that do not begin as one are not judged.
fn cut_zip(file: &mut File, bytes: u64) -> io::Result<Option<String>> {
    let mut signature = [0; 4];
    if bytes < 4 {
        return Ok(None);
    }
    file.read_exact(&mut signature)?;
    if signature != *b"PK\x03\x04" {
        return Ok(None);
    }
    let missing = format!("the zip directory at its end is missing, it has {bytes} bytes");
    if bytes < ZIP_END_BYTES {
        return Ok(Some(missing));
    }
    file.seek(SeekFrom::Start(bytes - ZIP_END_BYTES))?;
    file.read_exact(&mut signature)?;
    Ok((signature != *b"PK\x05\x06").then_some(missing))
}
