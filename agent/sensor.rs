//! The agent's sensors: each samples one thing on its own thread and publishes its latest reading.
//!
//! A reading is never awaited. A sensor that fails, or hangs on a lost disk or device, leaves its
//! last value standing; its age grows and tells. Facts only: what they mean is judged elsewhere.

pub(crate) mod disk;
pub(crate) mod gpu;
pub(crate) mod kmsg;
pub(crate) mod mounts;
pub(crate) mod pressure;
pub(crate) mod process;
pub(crate) mod simulated;
mod tree;

#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use sluice_core::sample::Sampled;
use tokio::sync::watch;

/// A sensor is overdue once this many periods have passed without a finished attempt.
///
/// Three: one slow sample and one late wake-up are ordinary on a loaded node; doubling it would
/// double the time until a hung disk is named.
const OVERDUE_PERIODS: u32 = 3;

/// What a sensor last saw, and how well it does.
#[derive(Clone, Debug)]
pub(crate) struct Reading<T> {
    /// The sensor's name, as its thread has it.
    pub(crate) name: &'static str,
    /// The last good value. `None` until an attempt has succeeded.
    pub(crate) value: Option<T>,
    /// When `value` was sampled (the attempt's start); the sensor's start while there is no value.
    pub(crate) sampled_at: Instant,
    /// When the last attempt finished, well or not; the sensor's start before the first.
    pub(crate) attempted_at: Instant,
    /// How long the last finished attempt took. Unit: milliseconds.
    pub(crate) duration_ms: u64,
    /// Why the last attempt failed. `None` after a good one.
    pub(crate) error: Option<String>,
    /// Attempts that failed since the last good one.
    pub(crate) failures: u64,
    /// Time between the starts of two attempts.
    pub(crate) period: Duration,
}

impl<T> Reading<T> {
    pub(crate) fn starting(name: &'static str, period: Duration, now: Instant) -> Self {
        Reading {
            name,
            value: None,
            sampled_at: now,
            attempted_at: now,
            duration_ms: 0,
            error: None,
            failures: 0,
            period,
        }
    }

    /// Time since the value was sampled. Unit: milliseconds. `None` where there is no value.
    pub(crate) fn age_ms(&self, now: Instant) -> Option<u64> {
        self.value.as_ref().map(|_| whole_ms(now.saturating_duration_since(self.sampled_at)))
    }

    /// What is wrong with this sensor at `now`: the last attempt's error, or that no attempt
    /// finishes any more.
    pub(crate) fn problem(&self, now: Instant) -> Option<String> {
        let silent = now.saturating_duration_since(self.attempted_at);
        if silent > self.period.saturating_mul(OVERDUE_PERIODS) {
            return Some(format!(
                "sensor \"{}\" has not answered for {} ms but should every {} ms; a device it asks may hang",
                self.name,
                whole_ms(silent),
                whole_ms(self.period)
            ));
        }
        self.error.clone()
    }

    /// The same reading with ages instead of instants, as it travels and as core sees it.
    pub(crate) fn sampled(&self, now: Instant) -> Sampled<T>
    where
        T: Clone,
    {
        Sampled {
            value: self.value.clone(),
            age_ms: self.age_ms(now),
            duration_ms: self.duration_ms,
            error: self.problem(now),
        }
    }

    fn record<E: Display>(&mut self, started: Instant, finished: Instant, outcome: Result<T, E>) {
        self.attempted_at = finished;
        self.duration_ms = whole_ms(finished.saturating_duration_since(started));
        match outcome {
            Ok(value) => {
                self.value = Some(value);
                self.sampled_at = started;
                self.error = None;
                self.failures = 0;
            }
            Err(error) => {
                self.error = Some(error.to_string());
                self.failures = self.failures.saturating_add(1);
            }
        }
    }
}

/// Runs `sample` every `period` on a thread named `name`, at once for the first time.
///
/// The thread ends when the last receiver is dropped: at once if it waits, else when the sample in
/// progress returns. Nobody waits for it. `name` is at most 15 bytes, or the kernel shows it cut
/// off.
///
/// # Errors
/// The system refuses another thread.
pub(crate) fn spawn<T, E, F>(
    name: &'static str,
    period: Duration,
    mut sample: F,
) -> io::Result<watch::Receiver<Reading<T>>>
where
    T: Send + Sync + 'static,
    E: Display,
    F: FnMut() -> Result<T, E> + Send + 'static,
{
    let (sender, receiver) = watch::channel(Reading::starting(name, period, Instant::now()));
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        let mut next = Instant::now();
        loop {
            let started = Instant::now();
            let outcome = sample();
            sender.send_modify(|reading| reading.record(started, Instant::now(), outcome));
            next = next_start(next, period, Instant::now());
            if is_closed_before(&sender, next) {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// The next start on the grid of `period`, in the future: attempts that were missed are not made up
/// for.
fn next_start(last: Instant, period: Duration, now: Instant) -> Instant {
    let next = last + period;
    if next > now { next } else { now + period }
}

/// Waits for `deadline`; `true` as soon as nobody listens any more.
///
/// `closed()` is a future and this is a thread without a runtime, so the thread itself is what gets
/// woken.
fn is_closed_before<T>(sender: &watch::Sender<T>, deadline: Instant) -> bool {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut closed = pin!(sender.closed());
    loop {
        if closed.as_mut().poll(&mut context).is_ready() {
            return true;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        thread::park_timeout(left);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
