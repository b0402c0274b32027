//! Whether programs have mapped files of a volume, and how much memory there is. Read only before a step is taken: it
//! goes over all processes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read as _};
use std::path::Path;

use nix::errno::Errno;
use sluice_core::sample::DeviceNumber;

/// Most processes looked at; on a node with more the answer is not known.
const PROCESSES_MAX: usize = 65_536;

/// Most bytes read of one process's mappings: 65,530 of them, the kernel's own limit, of 256 bytes.
const MAPS_BYTES_MAX: u64 = 16 << 20;

/// Whether any process has mapped a file of the volume. `None`: some process does not let itself be looked at, and no
/// other has.
pub(super) fn is_mapped(root: &Path, number: DeviceNumber) -> Option<bool> {
    let wanted = format!("{:02x}:{:02x}", number.major, number.minor);
    let (mut looked, mut is_known) = (0, true);
    for entry in fs::read_dir(root.join("proc")).ok()? {
        let Ok(entry) = entry else { return None };
        let name = entry.file_name();
        if !name.to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
            continue;
        }
        looked += 1;
        if looked > PROCESSES_MAX {
            return None;
        }
        match has_mapped(&entry.path().join("maps"), &wanted) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => is_known = false,
        }
    }
    is_known.then_some(false)
}

fn has_mapped(maps: &Path, wanted: &str) -> Option<bool> {
    let file = match File::open(maps) {
        Ok(file) => file,
        Err(error) => return has_ended(&error).then_some(false),
    };
    let mut reader = BufReader::new(file.take(MAPS_BYTES_MAX));
    let mut line = Vec::new();
    let mut bytes = 0;
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) => return (bytes < MAPS_BYTES_MAX).then_some(false),
            Ok(read) => bytes += u64::try_from(read).unwrap_or(u64::MAX),
            Err(error) => return has_ended(&error).then_some(false),
        }
        // Addresses, rights, offset, device: paths, which may hold anything, come later.
        let device = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).nth(3);
        if device == Some(wanted.as_bytes()) {
            return Some(true);
        }
    }
}

/// A process that has ended meanwhile maps nothing.
fn has_ended(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32)
}

/// Memory that programs and caches could have. Unit: KiB. `None`: the kernel does not tell.
pub(super) fn available_kib(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}
