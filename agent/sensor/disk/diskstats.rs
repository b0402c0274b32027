//! `/proc/diskstats`: counters of block devices, and rates between two of them. Parsed line by
//! line, as one cut-off line must not hide the other disks.

use sluice_core::sample::{DiscardCounters, FlushCounters, VolumeCounters, VolumeRates};

use super::super::tree::{decimal, lossy, words};

#[cfg(test)]
mod tests;

/// The kernel counts sectors of 512 bytes here, whatever the device's own sector is.
const SECTOR_BYTES: u64 = 512;

/// What one line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) counters: VolumeCounters,
}

/// All usable lines, in the file's order, and the number of lines that were skipped or had to lose
/// a field.
pub(super) fn parse(bytes: &[u8]) -> (Vec<Line>, u32) {
    let mut lines = Vec::new();
    let mut malformed = 0_u32;
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match parse_line(line) {
            Some(line) => {
                if line.counters.in_flight.is_none() {
                    malformed = malformed.saturating_add(1);
                }
                lines.push(line);
            }
            None => malformed = malformed.saturating_add(1),
        }
    }
    (lines, malformed)
}

/// Columns: 3 that identify, 11 since the beginning, 4 more for discards (4.18), 2 more for flushes
/// (5.5), and whatever later kernels add. A line of 7 columns is either a partition on a kernel
/// before 2.6.25, where no agent runs, or cut off: it is not used.
fn parse_line(line: &[u8]) -> Option<Line> {
    let mut columns: [&[u8]; 20] = [&[]; 20];
    let mut found = 0;
    for (place, word) in columns.iter_mut().zip(words(line)) {
        *place = word;
        found += 1;
    }
    if found < 14 || decimal::<u32>(columns[0]).is_none() || decimal::<u32>(columns[1]).is_none() {
        return None;
    }
    let count = |column: usize| decimal::<u64>(columns[column]);
    let bytes = |column: usize| count(column).map(|sectors| sectors.saturating_mul(SECTOR_BYTES));
    // 32 bits wide in the kernel; a wider number is none of its.
    let time_ms = |column: usize| decimal::<u32>(columns[column]);
    let counters = VolumeCounters {
        read_ios: count(3)?,
        read_merges: count(4)?,
        read_bytes: bytes(5)?,
        read_time_ms: time_ms(6)?,
        write_ios: count(7)?,
        write_merges: count(8)?,
        write_bytes: bytes(9)?,
        write_time_ms: time_ms(10)?,
        in_flight: decimal(columns[11]),
        io_time_ms: time_ms(12)?,
        weighted_io_time_ms: time_ms(13)?,
        discard: if found >= 18 {
            Some(DiscardCounters {
                ios: count(14)?,
                merges: count(15)?,
                bytes: bytes(16)?,
                time_ms: time_ms(17)?,
            })
        } else {
            None
        },
        flush: if found >= 20 {
            Some(FlushCounters { ios: count(18)?, time_ms: time_ms(19)? })
        } else {
            None
        },
    };
    Some(Line { name: lossy(columns[2]), counters })
}

/// Rates between two samples of the same disk. `None` where no time passed or a counter went back,
/// which means that the counters started anew.
pub(super) fn rates(
    before: &VolumeCounters,
    after: &VolumeCounters,
    interval_ms: u64,
) -> Option<VolumeRates> {
    if interval_ms == 0
        || after.write_merges < before.write_merges
        || after.read_merges < before.read_merges
    {
        return None;
    }
    let read_ios = after.read_ios.checked_sub(before.read_ios)?;
    let write_ios = after.write_ios.checked_sub(before.write_ios)?;
    let read_bytes = after.read_bytes.checked_sub(before.read_bytes)?;
    let write_bytes = after.write_bytes.checked_sub(before.write_bytes)?;
    let io_time_ms = after.io_time_ms.wrapping_sub(before.io_time_ms);
    let queued_ms = after.weighted_io_time_ms.wrapping_sub(before.weighted_io_time_ms);
    Some(VolumeRates {
        interval_ms,
        read_bytes_per_second: scaled(read_bytes, 1000, interval_ms),
        write_bytes_per_second: scaled(write_bytes, 1000, interval_ms),
        read_ios_per_second: scaled(read_ios, 1000, interval_ms),
        write_ios_per_second: scaled(write_ios, 1000, interval_ms),
        read_await_us: await_us(before.read_time_ms, after.read_time_ms, read_ios),
        write_await_us: await_us(before.write_time_ms, after.write_time_ms, write_ios),
        queue_length_milli: scaled(u64::from(queued_ms), 1000, interval_ms),
        // The kernel samples this at ticks and may overshoot the interval by a few.
        utilisation_permille: u32::try_from(
            scaled(u64::from(io_time_ms), 1000, interval_ms).min(1000),
        )
        .unwrap_or(1000),
    })
}

fn await_us(before_ms: u32, after_ms: u32, ios: u64) -> Option<u64> {
    (ios > 0).then(|| scaled(u64::from(after_ms.wrapping_sub(before_ms)), 1000, ios))
}

/// `value × factor ÷ divisor`, rounded to the nearest, in 128 bits.
fn scaled(value: u64, factor: u64, divisor: u64) -> u64 {
    let divisor = u128::from(divisor.max(1));
    let product = u128::from(value) * u128::from(factor) + divisor / 2;
    u64::try_from(product / divisor).unwrap_or(u64::MAX)
}
