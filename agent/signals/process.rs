//! Who a process is and which signals it handles, read from `/proc`.

use std::fs::File;
use std::io::{self, Read};

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::{Disposition, SignalError};

/// Longest file of `/proc/<pid>` that is read. `status` has some 1.5 KB; supplementary groups
/// make it longer, at most 65,536 of 11 bytes.
const PROC_BYTES_MAX: u64 = 1 << 20;

/// What tells a process from every other one on this machine, before or after.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    pub(crate) pid: u32,
    /// When it was started. Unit: clock ticks since boot. Source: `/proc/<pid>/stat`, field 22.
    pub(crate) start_time_ticks: u64,
    /// Which boot of the machine. Source: `/proc/sys/kernel/random/boot_id`.
    pub(crate) boot_id: String,
}

impl ProcessIdentity {
    /// Reads who process `pid` is now.
    ///
    /// # Errors
    /// [`SignalError::NoSuchProcess`], `NotPermitted` or `System`.
    pub(crate) fn read(pid: u32) -> Result<Self, SignalError> {
        let failed = |error| SignalError::of(pid, "look into", error);
        let stat = read(&format!("/proc/{pid}/stat")).map_err(failed)?;
        let start_time_ticks = start_time_ticks(&stat)
            .ok_or_else(|| failed(invalid(format!("\"/proc/{pid}/stat\" has no start time"))))?;
        let boot_id = boot_id().map_err(failed)?;
        Ok(Self { pid, start_time_ticks, boot_id })
    }
}

/// Which signals a process handles, ignores and blocks: bit `n - 1` is signal `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SignalMasks {
    /// `SigCgt`: it has a handler. Inherited by forked children, not by executed programs.
    pub(crate) caught: u64,
    /// `SigIgn`.
    pub(crate) ignored: u64,
    /// `SigBlk` of the first thread: held back until it unblocks them.
    pub(crate) blocked: u64,
}

impl SignalMasks {
    /// What happens when `signal` arrives. A blocked signal with a handler counts as caught: it
    /// arrives later, or in another thread.
    pub(crate) fn disposition(&self, signal: Signal) -> Disposition {
        let bit = bit(signal);
        if self.caught & bit != 0 {
            Disposition::Caught
        } else if self.ignored & bit != 0 {
            Disposition::Ignored
        } else {
            Disposition::Default
        }
    }

    /// Whether the first thread holds `signal` back.
    #[cfg(test)]
    pub(crate) fn is_blocked(&self, signal: Signal) -> bool {
        self.blocked & bit(signal) != 0
    }
}

fn bit(signal: Signal) -> u64 {
    1 << (signal as i32 - 1)
}

/// What is used of `/proc/<pid>/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) masks: SignalMasks,
    /// Real user id.
    pub(super) owner_uid: u32,
}

impl Status {
    pub(super) fn read(pid: u32) -> Result<Self, SignalError> {
        let failed = |error| SignalError::of(pid, "look into", error);
        let status = read(&format!("/proc/{pid}/status")).map_err(failed)?;
        Self::parse(&status).ok_or_else(|| {
            failed(invalid(format!("\"/proc/{pid}/status\" lacks signal masks or the user")))
        })
    }

    /// A process may choose its name, so a line counts only as a whole and the first of its key
    /// after `Name:`, in which the kernel escapes line ends.
    pub(super) fn parse(status: &str) -> Option<Self> {
        let value = |key: &str| {
            status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
        };
        let mask = |key| u64::from_str_radix(value(key)?, 16).ok();
        let masks = SignalMasks {
            caught: mask("SigCgt")?,
            ignored: mask("SigIgn")?,
            blocked: mask("SigBlk")?,
        };
        let owner_uid = value("Uid")?.split_whitespace().next()?.parse().ok()?;
        Some(Self { masks, owner_uid })
    }
}

/// The cgroups of process `pid`, as `/proc/PID/cgroup` has them.
///
/// # Errors
/// [`SignalError::NoSuchProcess`], `NotPermitted` or `System`.
pub(super) fn cgroups(pid: u32) -> Result<String, SignalError> {
    read(&format!("/proc/{pid}/cgroup")).map_err(|error| SignalError::of(pid, "look into", error))
}

/// Field 22 of `/proc/<pid>/stat`. The second field is the name in parentheses, which may hold
/// anything; no later field holds a parenthesis.
pub(super) fn start_time_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(22 - 3)?.parse().ok()
}

/// Which boot of the machine this is.
pub(super) fn boot_id() -> io::Result<String> {
    read("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned())
}

fn read(path: &str) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(PROC_BYTES_MAX).read_to_end(&mut bytes)?;
    // Names of processes need not be UTF-8.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn invalid(detail: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, detail)
}
