//! The agent's clock and the machine's identity.

use std::io;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sluice_core::unit::Time;

/// Time since the machine was started, time suspended included: goes on over restarts of the agent, never goes back.
pub(crate) fn now() -> Time {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME)
        .expect("every kernel that runs this program has CLOCK_BOOTTIME");
    Time(u64::try_from(Duration::from(now).as_millis()).unwrap_or(u64::MAX))
}

/// Which boot of the machine this is.
///
/// # Errors
/// `/proc` is not mounted.
pub(crate) fn boot_id() -> Result<String, String> {
    let file = "/proc/sys/kernel/random/boot_id";
    let read: io::Result<String> = std::fs::read_to_string(file);
    let id = read.map_err(|e| format!("could not read \"{file}\": {e}; mount /proc"))?;
    Ok(id.trim().to_owned())
}

/// A duration in whole milliseconds.
pub(crate) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
