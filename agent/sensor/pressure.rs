//! Pressure stall information of the host. Parsed here because a cut-off line makes the procfs
//! crate panic.

use std::io;
use std::path::Path;

use sluice_core::sample::{Pressure, PressureLine, PressureSample};

use super::tree::{HostTree, decimal, words};

#[cfg(test)]
mod tests;

/// A pressure file is two lines of under 80 bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// Samples `/proc/pressure`.
#[derive(Debug)]
pub(crate) struct PressureSensor {
    tree: HostTree,
}

impl PressureSensor {
    /// `host_root` is where the host's `/` is seen.
    pub(crate) fn new(host_root: &Path) -> Self {
        PressureSensor { tree: HostTree::new(host_root) }
    }

    /// The pressure now. A kernel without it is no failure: the resource is `None`.
    ///
    /// # Errors
    /// A file is there but cannot be read, as when `/proc` is mounted without permission.
    pub(crate) fn sample(&mut self) -> Result<PressureSample, String> {
        let mut malformed_lines = 0;
        Ok(PressureSample {
            cpu: self.resource("proc/pressure/cpu", &mut malformed_lines)?,
            memory: self.resource("proc/pressure/memory", &mut malformed_lines)?,
            io: self.resource("proc/pressure/io", &mut malformed_lines)?,
            malformed_lines,
        })
    }

    fn resource(&mut self, file: &str, malformed: &mut u32) -> Result<Option<Pressure>, String> {
        match self.tree.read(file, FILE_BYTES_MAX) {
            Ok(bytes) => Ok(parse(bytes, malformed)),
            Err(error) if is_unsupported(&error) => Ok(None),
            Err(error) => Err(format!(
                "could not read \"{}\": {error}; mount the host's /proc at --host-root",
                self.tree.path(file).display()
            )),
        }
    }
}

/// Built without PSI: the file is missing. Switched off at boot: it is there and answers
/// `EOPNOTSUPP`.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::Unsupported)
}

/// A file's lines; lines of kinds that later kernels may add are passed over without being counted
/// as malformed.
fn parse(bytes: &[u8], malformed: &mut u32) -> Option<Pressure> {
    let (mut some, mut full) = (None, None);
    for line in bytes.split(|byte| *byte == b'\n') {
        let mut words = words(line);
        let place = match words.next() {
            Some(b"some") => &mut some,
            Some(b"full") => &mut full,
            Some(_) | None => continue,
        };
        *place = parse_values(words);
        if place.is_none() {
            *malformed = malformed.saturating_add(1);
        }
    }
    some.map(|some| Pressure { some, full })
}

fn parse_values<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Option<PressureLine> {
    let mut value = |name: &[u8]| words.next().and_then(|word| word.strip_prefix(name));
    Some(PressureLine {
        avg10_permyriad: permyriad(value(b"avg10=")?)?,
        avg60_permyriad: permyriad(value(b"avg60=")?)?,
        avg300_permyriad: permyriad(value(b"avg300=")?)?,
        total_us: decimal(value(b"total=")?)?,
    })
}

/// `12.34` (per cent) as 1234. The kernel prints exactly two decimals; anything else is refused,
/// `nan` included.
fn permyriad(word: &[u8]) -> Option<u32> {
    let point = word.iter().position(|byte| *byte == b'.')?;
    let (whole, decimals) = (&word[..point], &word[point + 1..]);
    if decimals.len() != 2 {
        return None;
    }
    let value = decimal::<u32>(whole)?.checked_mul(100)?.checked_add(decimal(decimals)?)?;
    (value <= 10_000).then_some(value)
}
