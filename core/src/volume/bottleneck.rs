//! Who is the bottleneck of a volume, from what passes through it: the volume's own limit, the machine's, a cgroup's, or
//! the reader's read-ahead.
//!
//! A full queue at a flat throughput is a limit behind the device; a flat throughput without any queue is one before it; a
//! short queue of quick requests is a reader that does not ask for enough. How long the device is busy says nothing: a
//! device that serves requests in parallel is always busy.

use std::collections::VecDeque;

use super::{Finding, MIB_BYTES, Mib};
use crate::sample::VolumeRates;

#[cfg(test)]
mod tests;

/// So long a state has to last before it is believed. Unit: milliseconds.
const WINDOW_MS: u64 = 5_000;

/// Most samples in a window: at the shortest interval, 100 ms, it takes 50.
const SAMPLES_MAX: usize = 64;

/// So long everything has to look otherwise before a verdict is given up. Unit: milliseconds.
const LEAVE_MS: u64 = 3_000;

/// Requests in flight and none completed for so long: the device is lost. Google's disks never answer with an error
/// then. Unit: milliseconds.
const HUNG_MS: u64 = 30_000;

/// Below this nobody loads anything. Unit: bytes a second.
const IDLE_BYTES_PER_SECOND: u64 = MIB_BYTES;

/// Time of a request that does not wait, as Google plans with it. Unit: microseconds.
const BASE_US: u64 = 2_000;

/// Requests in flight from which on a queue is full. Unit: thousandths.
const QUEUE_FULL_MILLI: u64 = 8_000;

/// A reader that gets less than this share of what the machine moves could get more. Unit: per cent.
const READ_AHEAD_SHARE_PERCENT: u64 = 70;

/// Pressure above which tasks wait for the disk. Unit: 1/10,000 of the time.
const PRESSURE_PERMYRIAD: u32 = 2_000;

/// What is known of a volume's surroundings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// What the machine moves, all its disks together. `None`: not known.
    pub node_limit: Option<Mib>,
    /// What all disks that count towards it move now. Unit: bytes a second.
    pub node_bytes_per_second: u64,
    /// Read-ahead in force. Unit: KiB.
    pub read_ahead_kib: Option<u64>,
    /// The tightest limit that a cgroup has on this device. `None`: none.
    pub cgroup: Option<CgroupLimit>,
    /// Share of the last 10 s in which some task waited for a disk. Unit: 1/10,000. `None`: the kernel does not tell.
    pub io_pressure_permyriad: Option<u32>,
}

/// A cgroup's limit on reads from a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupLimit {
    /// Its path below the root of cgroups, for people.
    pub cgroup: String,
    /// The limit.
    pub read_bytes_per_second: u64,
}

/// Who is the bottleneck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bottleneck {
    /// Not enough was seen yet.
    #[default]
    Unknown,
    /// Nothing passes.
    Idle,
    /// Something passes and nothing holds it up.
    Nobody,
    /// The reader's read-ahead.
    ReadAhead,
    /// A cgroup's limit.
    Cgroup,
    /// The volume's own limit, or its other readers.
    Volume,
    /// The machine's limit.
    Node,
    /// The device does not answer.
    Hung,
}

impl Bottleneck {
    /// As it is printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Idle => "idle",
            Self::Nobody => "none",
            Self::ReadAhead => "read-ahead",
            Self::Cgroup => "cgroup",
            Self::Volume => "volume",
            Self::Node => "node",
            Self::Hung => "hung",
        }
    }
}

/// One sample.
#[derive(Clone, Copy, Debug)]
struct Seen {
    interval_ms: u64,
    bytes_per_second: u64,
    ios_per_second: u64,
    await_us: Option<u64>,
    queue_milli: u64,
}

/// One disk, watched. To be made anew when another disk takes the name.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    window: VecDeque<Seen>,
    /// Quickest mean time of reads so far. Unit: microseconds.
    quickest_us: Option<u64>,
    current: Bottleneck,
    finding: Option<Finding>,
    otherwise_ms: u64,
    silent_ms: u64,
}

/// Means over the window.
#[derive(Clone, Copy, Debug)]
struct Means {
    bytes_per_second: u64,
    request_bytes: u64,
    await_us: Option<u64>,
    queue_milli: u64,
    /// Standard deviation of the throughput is below 3 % of its mean.
    is_flat: bool,
}

impl Watch {
    /// Who is the bottleneck as far as is known.
    #[must_use]
    pub fn bottleneck(&self) -> Bottleneck {
        self.current
    }

    /// Why, with the figures of when it began. `None` where nobody is.
    #[must_use]
    pub fn finding(&self) -> Option<&Finding> {
        self.finding.as_ref()
    }

    /// Takes the next sample. Without rates (a new disk, or counters that began anew) everything begins anew.
    pub fn update(
        &mut self,
        rates: Option<&VolumeRates>,
        in_flight: Option<u32>,
        setting: &Setting,
    ) {
        let Some(rates) = rates else {
            *self = Self::default();
            return;
        };
        self.remember(rates, in_flight);
        let (seen, finding) = self.judge(in_flight, setting);
        if seen == self.current {
            self.otherwise_ms = 0;
            return;
        }
        self.otherwise_ms = self.otherwise_ms.saturating_add(rates.interval_ms);
        let is_weak = matches!(
            self.current,
            Bottleneck::Unknown | Bottleneck::Idle | Bottleneck::Nobody | Bottleneck::Hung
        );
        if is_weak || seen == Bottleneck::Hung || self.otherwise_ms >= LEAVE_MS {
            self.current = seen;
            self.finding = finding;
            self.otherwise_ms = 0;
        }
    }

    fn remember(&mut self, rates: &VolumeRates, in_flight: Option<u32>) {
        let ios_per_second = rates.read_ios_per_second.saturating_add(rates.write_ios_per_second);
        let is_silent = ios_per_second == 0 && in_flight.is_some_and(|requests| requests > 0);
        self.silent_ms =
            if is_silent { self.silent_ms.saturating_add(rates.interval_ms) } else { 0 };
        if let Some(await_us) = rates.read_await_us.filter(|_| rates.read_ios_per_second >= 10) {
            let quickest = self.quickest_us.unwrap_or(u64::MAX);
            self.quickest_us = Some(await_us.max(1).min(quickest));
        }
        let reads = rates.read_bytes_per_second >= rates.write_bytes_per_second;
        self.window.push_back(Seen {
            interval_ms: rates.interval_ms,
            bytes_per_second: rates
                .read_bytes_per_second
                .saturating_add(rates.write_bytes_per_second),
            ios_per_second,
            await_us: if reads { rates.read_await_us } else { rates.write_await_us },
            queue_milli: rates.queue_length_milli,
        });
        // The oldest sample may go while the others still cover the window.
        while self.window.len() > SAMPLES_MAX
            || self.window.front().is_some_and(|oldest| {
                self.covered_ms().saturating_sub(oldest.interval_ms) >= WINDOW_MS
            })
        {
            self.window.pop_front();
        }
    }

    fn covered_ms(&self) -> u64 {
        self.window.iter().map(|seen| seen.interval_ms).fold(0, u64::saturating_add)
    }

    fn judge(&self, in_flight: Option<u32>, setting: &Setting) -> (Bottleneck, Option<Finding>) {
        if self.silent_ms >= HUNG_MS {
            let (in_flight, silent_ms) = (in_flight.unwrap_or(0), self.silent_ms);
            return (Bottleneck::Hung, Some(Finding::VolumeHung { in_flight, silent_ms }));
        }
        if self.covered_ms() < WINDOW_MS {
            return (Bottleneck::Unknown, None);
        }
        let means = self.means();
        if means.bytes_per_second < IDLE_BYTES_PER_SECOND {
            return (Bottleneck::Idle, None);
        }
        let checks = [
            cgroup(&means, setting),
            self.device(&means, setting),
            self.read_ahead(&means, setting),
        ];
        checks
            .into_iter()
            .flatten()
            .next()
            .map_or((Bottleneck::Nobody, None), |(who, finding)| (who, Some(finding)))
    }

    fn means(&self) -> Means {
        let covered = u128::from(self.covered_ms().max(1));
        let mean = |value: fn(&Seen) -> u64| {
            let sum: u128 = self
                .window
                .iter()
                .map(|seen| u128::from(value(seen)) * u128::from(seen.interval_ms))
                .fold(0, u128::saturating_add);
            u64::try_from(sum / covered).unwrap_or(u64::MAX)
        };
        let bytes_per_second = mean(|seen| seen.bytes_per_second);
        let ios_per_second = mean(|seen| seen.ios_per_second);
        let waits: Vec<u64> = self.window.iter().filter_map(|seen| seen.await_us).collect();
        let waited: u128 = waits.iter().copied().map(u128::from).sum();
        let count = u128::try_from(waits.len()).unwrap_or(1).max(1);
        Means {
            bytes_per_second,
            request_bytes: bytes_per_second / ios_per_second.max(1),
            await_us: (!waits.is_empty())
                .then(|| u64::try_from(waited / count).unwrap_or(u64::MAX)),
            queue_milli: mean(|seen| seen.queue_milli),
            is_flat: self.is_flat(bytes_per_second),
        }
    }

    /// Variance below 9/10,000 of the square of the mean.
    fn is_flat(&self, mean: u64) -> bool {
        let samples = u128::try_from(self.window.len()).unwrap_or(1).max(1);
        let squares = self.window.iter().map(|seen| {
            let off = u128::from(seen.bytes_per_second.abs_diff(mean));
            off.saturating_mul(off)
        });
        let variance = squares.fold(0, u128::saturating_add) / samples;
        let mean = u128::from(mean);
        variance.saturating_mul(10_000) < mean.saturating_mul(mean).saturating_mul(9)
    }

    fn base_us(&self) -> u64 {
        self.quickest_us.unwrap_or(BASE_US).min(BASE_US)
    }

    /// A full queue at a flat throughput: a limit behind the device. Whose, the machine's limit tells.
    fn device(&self, means: &Means, setting: &Setting) -> Option<(Bottleneck, Finding)> {
        let await_us = means.await_us?;
        let is_queued = means.queue_milli >= QUEUE_FULL_MILLI;
        if !is_queued || !means.is_flat || await_us < self.base_us().saturating_mul(3) {
            return None;
        }
        let rate = Mib(means.bytes_per_second / MIB_BYTES);
        let (queue, base_us) = (means.queue_milli / 1_000, self.base_us());
        let node = setting.node_limit.filter(|limit| {
            let limit = u128::from(limit.bytes_per_second());
            let moved =
                u128::from(setting.node_bytes_per_second.max(means.bytes_per_second)) * 1_000;
            (limit * 970..=limit * 1_015).contains(&moved)
        });
        Some(match node {
            Some(limit) => (
                Bottleneck::Node,
                Finding::VolumeAtNodeLimit { rate, limit, queue, await_us, base_us },
            ),
            None => {
                (Bottleneck::Volume, Finding::VolumeAtItsLimit { rate, queue, await_us, base_us })
            }
        })
    }

    /// Large requests, one after the other, that do not wait: more read-ahead would ask for more.
    fn read_ahead(&self, means: &Means, setting: &Setting) -> Option<(Bottleneck, Finding)> {
        let kib = setting.read_ahead_kib.filter(|kib| *kib > 0)?;
        let await_us = means.await_us?;
        let limit = setting.node_limit?;
        let is_sequential = means.request_bytes / 1_024 >= kib.min(256) / 2;
        let flying_kib =
            u128::from(means.queue_milli) * u128::from(means.request_bytes) / 1_024_000;
        // A reader that leaves its window mostly unused is slow by itself.
        let kib_wide = u128::from(kib);
        let is_short = flying_kib <= kib_wide * 2 && flying_kib * 4 >= kib_wide;
        let is_quick = await_us < self.base_us().saturating_mul(2);
        let is_slow = u128::from(means.bytes_per_second) * 100
            < u128::from(limit.bytes_per_second()) * u128::from(READ_AHEAD_SHARE_PERCENT);
        let is_waited_for =
            setting.io_pressure_permyriad.is_none_or(|pressure| pressure > PRESSURE_PERMYRIAD);
        let rate = Mib(means.bytes_per_second / MIB_BYTES);
        (is_sequential && is_short && is_quick && is_slow && is_waited_for).then_some((
            Bottleneck::ReadAhead,
            Finding::VolumeReaderWaits { rate, kib, await_us, limit },
        ))
    }
}

/// The throughput is what a cgroup lets through, and the device has little to do.
fn cgroup(means: &Means, setting: &Setting) -> Option<(Bottleneck, Finding)> {
    let limit = setting.cgroup.as_ref()?;
    let (moved, most) =
        (u128::from(means.bytes_per_second), u128::from(limit.read_bytes_per_second));
    let is_at_limit = (most * 900..=most * 1_050).contains(&(moved * 1_000));
    (is_at_limit && means.queue_milli < QUEUE_FULL_MILLI).then(|| {
        let finding = Finding::VolumeThrottledByCgroup {
            rate_bytes: means.bytes_per_second,
            limit_bytes: limit.read_bytes_per_second,
            cgroup: limit.cgroup.clone(),
        };
        (Bottleneck::Cgroup, finding)
    })
}
