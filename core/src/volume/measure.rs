//! Throughput from the times at which reads completed.
//!
//! Counting all bytes over all the time is wrong at both ends: the queue fills at the beginning and is still full at the
//! end. So only completions inside a window count, which begins after the warm-up.

#[cfg(test)]
mod tests;

/// So long a window is believed, however few reads completed in it. Unit: microseconds.
const WINDOW_US_MIN: u64 = 3_000_000;

/// So many completions are believed, however short the window.
const COMPLETIONS_MIN: u64 = 64;

/// The last third of a steady run differs from the middle third by at most so much. Unit: 1/1000.
const STEADY_PERMILLE: u64 = 30;

/// One read that completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// When, since the start. Unit: microseconds.
    pub at_us: u64,
    /// How long it took. Unit: microseconds.
    pub took_us: u64,
    /// How much it read.
    pub bytes: u64,
}

/// What a run showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Throughput inside the window.
    pub bytes_per_second: u64,
    /// Length of the window. Unit: microseconds.
    pub window_us: u64,
    /// Completions inside the window.
    pub completions: u64,
    /// Enough completions, or a long enough window.
    pub is_long_enough: bool,
    /// The last third was as fast as the middle third: no burst that runs out.
    pub is_steady: bool,
    /// Half of the reads took at most so long. Unit: microseconds.
    pub took_p50_us: u64,
    /// 99 of 100 reads took at most so long. Unit: microseconds.
    pub took_p99_us: u64,
    /// The slowest. Unit: microseconds.
    pub took_max_us: u64,
    /// How many reads took how long, from the first step that has any to the last.
    pub histogram: Vec<Step>,
}

/// Reads that took less than [`Step::below_us`] and no less than the step before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// A power of two. Unit: microseconds.
    pub below_us: u64,
    /// Reads.
    pub reads: u64,
}

/// What `completions`, in any order, show between `from_us` and the last of them. `None` where nothing completed in
/// there.
#[must_use]
pub fn measure(completions: &[Completion], from_us: u64) -> Option<Measured> {
    let until_us = completions.iter().map(|done| done.at_us).max()?;
    let inside: Vec<&Completion> = completions.iter().filter(|done| done.at_us > from_us).collect();
    let window_us = until_us.checked_sub(from_us).filter(|window| *window > 0)?;
    if inside.is_empty() {
        return None;
    }
    let mut took: Vec<u64> = inside.iter().map(|done| done.took_us).collect();
    took.sort_unstable();
    let third = |index: u64| {
        let (begin, end) = (window_us / 3 * index, window_us / 3 * (index + 1));
        let of_third = inside.iter().filter(|done| {
            let at = done.at_us - from_us;
            at > begin && at <= end
        });
        of_third.map(|done| u128::from(done.bytes)).sum::<u128>()
    };
    let (middle, last) = (third(1), third(2));
    let difference = middle.abs_diff(last) * 1_000;
    let completions = u64::try_from(inside.len()).unwrap_or(u64::MAX);
    let bytes: u128 = inside.iter().map(|done| u128::from(done.bytes)).sum();
    Some(Measured {
        bytes_per_second: u64::try_from(bytes * 1_000_000 / u128::from(window_us))
            .unwrap_or(u64::MAX),
        window_us,
        completions,
        is_long_enough: window_us >= WINDOW_US_MIN || completions >= COMPLETIONS_MIN,
        is_steady: difference <= middle.max(1) * u128::from(STEADY_PERMILLE),
        took_p50_us: quantile(&took, 500),
        took_p99_us: quantile(&took, 990),
        took_max_us: took.last().copied().unwrap_or(0),
        histogram: histogram(&took),
    })
}

/// The value that `permille` of the ordered `values` do not exceed.
fn quantile(values: &[u64], permille: usize) -> u64 {
    let index = (values.len() * permille).div_ceil(1_000).saturating_sub(1);
    values.get(index).copied().unwrap_or(0)
}

/// Ordered values in steps of powers of two.
fn histogram(values: &[u64]) -> Vec<Step> {
    let power = |value: &u64| u64::BITS - value.leading_zeros();
    let (Some(first), Some(last)) = (values.first().map(power), values.last().map(power)) else {
        return Vec::new();
    };
    let step = |wanted: u32| Step {
        below_us: 1_u64.checked_shl(wanted).unwrap_or(u64::MAX),
        reads: u64::try_from(values.iter().filter(|value| power(value) == wanted).count())
            .unwrap_or(u64::MAX),
    };
    (first..=last).map(step).collect()
}
