//! Loads of a volume: stretches of time in which something is read, and how fast it was.

use crate::sample::VolumeRates;
use crate::volume::MIB_BYTES;

/// Below this nobody loads anything. Unit: bytes a second.
const ACTIVE_BYTES_PER_SECOND: u64 = MIB_BYTES;

/// So long without anything ends a load. Unit: milliseconds.
const QUIET_MS: u64 = 3_000;

/// Samples that a load must have, of which the first and the last, in which it ran only in part, do not count for its speed.
const SAMPLES_MIN: u64 = 4;

/// Smallest load that tells anything. Unit: bytes.
const BYTES_MIN: u64 = 64 * MIB_BYTES;

/// Loads kept: more would compare last week with today.
const FINISHED_MAX: usize = 2;

/// One load, or the mean of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// All that was read.
    pub(super) bytes: u64,
    /// How fast.
    pub(super) bytes_per_second: u64,
    /// Its reader's read-ahead was found to be the bottleneck meanwhile.
    pub(super) waits_for_read_ahead: bool,
}

/// What is loaded now, and the last loads that ran from beginning to end with one read-ahead.
#[derive(Clone, Debug, Default)]
pub(super) struct Loads {
    open: Option<Open>,
    finished: Vec<Load>,
}

#[derive(Clone, Debug)]
struct Open {
    kib: u64,
    /// It ran with two values, or began with files opened under another.
    is_mixed: bool,
    waits_for_read_ahead: bool,
    quiet_ms: u64,
    samples: u64,
    bytes: u128,
    /// Without the first sample and, until the next one comes, the last.
    inner_bytes: u128,
    inner_ms: u64,
    last: (u128, u64),
}

impl Loads {
    pub(super) fn update(&mut self, rates: &VolumeRates, kib: u64, waits_for_read_ahead: bool) {
        let is_active = rates.read_bytes_per_second >= ACTIVE_BYTES_PER_SECOND;
        if !is_active {
            let Some(open) = &mut self.open else { return };
            open.quiet_ms = open.quiet_ms.saturating_add(rates.interval_ms);
            if open.quiet_ms >= QUIET_MS {
                self.end();
            }
            return;
        }
        let open = self.open.get_or_insert(Open {
            kib,
            is_mixed: false,
            waits_for_read_ahead: false,
            quiet_ms: 0,
            samples: 0,
            bytes: 0,
            inner_bytes: 0,
            inner_ms: 0,
            last: (0, 0),
        });
        open.is_mixed |= open.kib != kib;
        open.waits_for_read_ahead |= waits_for_read_ahead;
        open.quiet_ms = 0;
        let bytes = u128::from(rates.read_bytes_per_second) * u128::from(rates.interval_ms) / 1_000;
        if open.samples >= 2 {
            open.inner_bytes = open.inner_bytes.saturating_add(open.last.0);
            open.inner_ms = open.inner_ms.saturating_add(open.last.1);
        }
        open.samples = open.samples.saturating_add(1);
        open.bytes = open.bytes.saturating_add(bytes);
        open.last = (bytes, rates.interval_ms);
    }

    /// A value set anew counts only for files opened afterwards.
    pub(super) fn value_changed(&mut self) {
        self.finished.clear();
        if let Some(open) = &mut self.open {
            open.is_mixed = true;
        }
    }

    pub(super) fn finished(&self) -> &[Load] {
        &self.finished
    }

    pub(super) fn take(&mut self) -> Vec<Load> {
        std::mem::take(&mut self.finished)
    }

    pub(super) fn forget(&mut self) {
        self.finished.clear();
    }

    fn end(&mut self) {
        let Some(open) = self.open.take() else { return };
        let bytes = u64::try_from(open.bytes).unwrap_or(u64::MAX);
        if open.is_mixed || open.samples < SAMPLES_MIN || bytes < BYTES_MIN || open.inner_ms == 0 {
            return;
        }
        let rate = open.inner_bytes * 1_000 / u128::from(open.inner_ms);
        if self.finished.len() == FINISHED_MAX {
            self.finished.remove(0);
        }
        self.finished.push(Load {
            bytes,
            bytes_per_second: u64::try_from(rate).unwrap_or(u64::MAX),
            waits_for_read_ahead: open.waits_for_read_ahead,
        });
    }
}

/// The mean of some loads.
pub(super) fn mean(loads: &[Load]) -> Load {
    let count = u128::try_from(loads.len()).unwrap_or(1).max(1);
    let of = |value: fn(&Load) -> u64| {
        let sum: u128 = loads.iter().map(|load| u128::from(value(load))).sum();
        u64::try_from(sum / count).unwrap_or(u64::MAX)
    };
    Load {
        bytes: of(|load| load.bytes),
        bytes_per_second: of(|load| load.bytes_per_second),
        waits_for_read_ahead: loads.iter().all(|load| load.waits_for_read_ahead),
    }
}
