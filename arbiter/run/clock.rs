//! The arbiter's clock: Unix time when it started, monotonic from there on.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sluice_core::unit::Time;
use tokio::time::Instant;

/// Milliseconds since 1970, as the machine's clock said at the start; never going back, whatever
/// happens to that clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Time,
    started: Instant,
}

impl Clock {
    /// A clock that starts now, and not before `last`: the latest time an earlier arbiter has seen.
    pub(crate) fn start(last: Time) -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let unix = Time(u64::try_from(unix.as_millis()).unwrap_or(u64::MAX));
        Self { origin: unix.max(last), started: Instant::now() }
    }

    /// Now.
    pub(crate) fn now(&self) -> Time {
        let elapsed_ms = self.started.elapsed().as_millis();
        self.origin.plus_ms(u64::try_from(elapsed_ms).unwrap_or(u64::MAX))
    }

    /// Waits until `time`; for ever where there is none.
    pub(crate) async fn sleep_until(&self, time: Option<Time>) {
        let Some(time) = time else { return std::future::pending().await };
        let wait = Duration::from_millis(time.ms_since(self.origin));
        match self.started.checked_add(wait) {
            Some(at) => tokio::time::sleep_until(at).await,
            // Beyond what the clock can count.
            None => std::future::pending().await,
        }
    }
}
