//! Read-ahead as it ought to be and as it is: whether what was asked for was set, and if not, why.
//!
//! Nothing is changed here ([`tune`](super::tune) decides on that). What was asked for is in the mount options of a
//! PersistentVolume, which the driver takes off the mount command, so that no mount shows them.

use std::collections::BTreeMap;

use super::Finding;

#[cfg(test)]
mod tests;

/// Beyond this nothing was measured to get faster, and caches suffer. Unit: KiB.
pub const READ_AHEAD_MAX_KIB: u64 = 16_384;

/// What the kernel gives a disk that asks for nothing. Unit: KiB.
pub const READ_AHEAD_DEFAULT_KIB: u64 = 128;

/// What most sequential loads need at 2 ms and 2,400 MiB/s. Unit: KiB.
pub const READ_AHEAD_ADVISED_KIB: u64 = 4_096;

/// The kernel keeps whole pages. Unit: KiB.
const PAGE_KIB: u64 = 4;

/// The driver's arithmetic is right only for sectors of this size. Unit: bytes.
const DRIVER_SECTOR_BYTES: u64 = 512;

/// The mount option by which a PersistentVolume asks for read-ahead.
const OPTION: &str = "read_ahead_kb";

/// What PersistentVolumes ask for, by the handle of the disk.
pub type Asked = BTreeMap<String, Intent>;

/// A read-ahead that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    /// As written. Unit: KiB.
    pub asked_kib: u64,
}

impl Intent {
    /// What the kernel makes of it: whole pages. Unit: KiB.
    #[must_use]
    pub fn expected_kib(self) -> u64 {
        self.asked_kib / PAGE_KIB * PAGE_KIB
    }

    /// What there is to say about it, whatever is set.
    #[must_use]
    pub fn remark(self) -> Option<Finding> {
        let kib = self.asked_kib;
        match kib {
            0 => Some(Finding::ReadAheadAskedOff),
            1..PAGE_KIB => Some(Finding::ReadAheadRoundsToOff { kib }),
            _ if kib > READ_AHEAD_MAX_KIB => {
                Some(Finding::ReadAheadAskedHuge { kib, max_kib: READ_AHEAD_MAX_KIB })
            }
            _ => None,
        }
    }
}

/// The read-ahead asked for in mount options. As in the driver the first one counts. `Ok(None)`: none is.
///
/// # Errors
/// The option has no whole number of 0 or more: the driver refuses to mount.
pub fn intent<'a>(
    options: impl IntoIterator<Item = &'a str>,
) -> Result<Option<Intent>, Box<Finding>> {
    for option in options {
        let Some((name, value)) = option.trim().split_once('=') else { continue };
        if name == OPTION {
            let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            let asked_kib = value.parse().ok().filter(|_| is_number);
            let refused = || Box::new(Finding::ReadAheadMalformed { text: value.to_owned() });
            return asked_kib.map(|asked_kib| Some(Intent { asked_kib })).ok_or_else(refused);
        }
    }
    Ok(None)
}

/// What the file system on a volume is, where it matters for read-ahead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounted {
    /// `ext4`, `xfs`, `btrfs`. `None`: not mounted.
    pub fs_type: Option<String>,
    /// Every mount of it is read-only.
    pub is_read_only: bool,
    /// Mounted with `noload` or `norecovery`: the driver's second attempt after a dirty journal.
    pub is_without_journal: bool,
    /// A pod has the device as it is.
    pub is_block: bool,
}

/// One volume, as far as read-ahead goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// What was asked for. `None`: nothing.
    pub intent: Option<Intent>,
    /// What is in force. Unit: KiB. `None`: not known.
    pub actual_kib: Option<u64>,
    /// The device's sector. Unit: bytes.
    pub logical_sector_bytes: Option<u32>,
    /// A Google disk that outlives the VM.
    pub is_persistent_disk: bool,
    /// What was made of it (Data Cache, LVM, RAID): the first such device.
    pub holder: Option<String>,
    /// How it is mounted.
    pub mounted: Mounted,
    /// What was asked for was in force earlier on this disk.
    pub was_as_asked: bool,
}

/// How what is in force relates to what was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// What is in force is not known.
    #[default]
    Unknown,
    /// Nothing was asked for.
    Unasked,
    /// As it was asked for.
    AsAsked,
    /// Otherwise than asked for.
    Drifted,
}

impl State {
    /// As it is printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Unasked => "unasked",
            Self::AsAsked => "as-asked",
            Self::Drifted => "drifted",
        }
    }
}

/// What is made of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// How it is.
    pub state: State,
    /// What ought to be in force. Unit: KiB. `None`: nothing was asked for.
    pub expected_kib: Option<u64>,
    /// Why, and what to do.
    pub findings: Vec<Finding>,
}

/// Judges one volume.
#[must_use]
pub fn judge(case: &Case) -> Verdict {
    let expected_kib = case.intent.map(Intent::expected_kib);
    let mut findings: Vec<Finding> = case.intent.and_then(Intent::remark).into_iter().collect();
    let state = match (expected_kib, case.actual_kib) {
        (_, None) => State::Unknown,
        (None, Some(actual)) => {
            findings.extend(unasked(case, actual));
            State::Unasked
        }
        (Some(expected), Some(actual)) if expected == actual => State::AsAsked,
        (Some(expected_kib), Some(actual_kib)) => {
            findings.push(cause(case, expected_kib, actual_kib));
            State::Drifted
        }
    };
    Verdict { state, expected_kib, findings }
}

/// Why the driver, or somebody, did not do as asked; the most certain first.
fn cause(case: &Case, expected_kib: u64, actual_kib: u64) -> Finding {
    if let Some(holder) = &case.holder {
        let holder = holder.clone();
        return Finding::ReadAheadOfLayer { expected_kib, actual_kib, holder };
    }
    if case.mounted.is_block {
        return Finding::ReadAheadOfBlock { expected_kib, actual_kib };
    }
    if case.mounted.fs_type.as_deref() == Some("btrfs") {
        return Finding::ReadAheadOfBtrfs { expected_kib, actual_kib };
    }
    let sector = u64::from(case.logical_sector_bytes.unwrap_or(512));
    let driver_kib = expected_kib.saturating_mul(DRIVER_SECTOR_BYTES) / sector.max(1);
    if sector != DRIVER_SECTOR_BYTES && actual_kib == driver_kib / PAGE_KIB * PAGE_KIB {
        let sector_bytes = sector;
        return Finding::ReadAheadDriverUnit { expected_kib, actual_kib, sector_bytes };
    }
    if case.was_as_asked {
        return Finding::ReadAheadReset { expected_kib, actual_kib };
    }
    if case.mounted.is_without_journal {
        return Finding::ReadAheadNoload { expected_kib, actual_kib };
    }
    Finding::ReadAheadNeverSet { expected_kib, actual_kib }
}

/// What a volume that asks for nothing could have.
fn unasked(case: &Case, actual_kib: u64) -> Option<Finding> {
    let fs_type = case.mounted.fs_type.as_deref()?;
    if case.holder.is_some() || !matches!(fs_type, "ext3" | "ext4" | "xfs" | "btrfs") {
        return None;
    }
    if actual_kib == 0 {
        return Some(Finding::ReadAheadOff);
    }
    if actual_kib > READ_AHEAD_MAX_KIB {
        return Some(Finding::ReadAheadHuge { actual_kib, max_kib: READ_AHEAD_MAX_KIB });
    }
    let could_gain = case.is_persistent_disk
        && case.mounted.is_read_only
        && fs_type != "btrfs"
        && actual_kib <= READ_AHEAD_DEFAULT_KIB;
    could_gain
        .then_some(Finding::ReadAheadDefault { actual_kib, advised_kib: READ_AHEAD_ADVISED_KIB })
}
