//! How long to wait before dialling again: full jitter, so that agents cut off together do not come back together.

#[cfg(test)]
mod tests;

use std::time::Duration;

/// Upper bound of the first wait.
const BASE: Duration = Duration::from_millis(500);

/// Upper bound of every wait that the arbiter did not ask for. 15,000 agents that wait 15 s on average make 1,000
/// attempts a second.
const CAP: Duration = Duration::from_secs(30);

/// Longest wait that the arbiter may ask for: a mistake of its must not send agents away for a day.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

/// Counts failures since the last stream that came up.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// A stream came up.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The wait after another failure: anything from 0 to `min(cap, base * 2^failures)`.
    pub(super) fn next(&mut self, rng: &mut fastrand::Rng) -> Duration {
        let bound = BASE.saturating_mul(1 << self.failures.min(16)).min(CAP);
        self.failures = self.failures.saturating_add(1);
        between(Duration::ZERO, bound, rng)
    }

    /// The wait after a refusal that only a person can end.
    pub(super) fn longest(&mut self, rng: &mut fastrand::Rng) -> Duration {
        between(CAP / 2, CAP, rng)
    }

    /// The wait that the arbiter asked for, and up to a quarter more.
    pub(super) fn after(&mut self, retry_after: Duration, rng: &mut fastrand::Rng) -> Duration {
        let asked = retry_after.min(RETRY_AFTER_MAX);
        between(asked, asked + asked / 4 + BASE, rng)
    }
}

fn between(low: Duration, high: Duration, rng: &mut fastrand::Rng) -> Duration {
    let ms = |d: Duration| crate::clock::whole_ms(d);
    Duration::from_millis(rng.u64(ms(low)..=ms(high)))
}
