//! How much CPU time each kind of change took: what else the machine does counts for little.

use std::collections::BTreeMap;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Measures the CPU time of the thread that asks.
pub(crate) struct Stopwatch(Duration);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(thread_time())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        thread_time().saturating_sub(self.0)
    }
}

fn thread_time() -> Duration {
    let clock = ClockId::CLOCK_THREAD_CPUTIME_ID;
    clock_gettime(clock).expect("every thread has that clock").into()
}

/// Times by kind of change.
#[derive(Default)]
pub(crate) struct Times {
    by_kind: BTreeMap<&'static str, Vec<Duration>>,
}

impl Times {
    pub(crate) fn note(&mut self, kind: &'static str, took: Duration) {
        self.by_kind.entry(kind).or_default().push(took);
    }

    pub(crate) fn print(&self, title: &str) {
        println!("{title}, in microseconds of CPU time:");
        println!("{:<34} {:>6} {:>8} {:>8} {:>8}", "", "count", "p50", "p99", "max");
        let all: Vec<Duration> = self.by_kind.values().flatten().copied().collect();
        let kinds = self.by_kind.iter().map(|(kind, took)| (*kind, took));
        for (kind, took) in kinds.chain([("all of them", &all)]) {
            let mut took: Vec<u128> = took.iter().map(Duration::as_micros).collect();
            took.sort_unstable();
            let at = |percent: usize| took[(took.len() - 1) * percent / 100];
            println!("{kind:<34} {:>6} {:>8} {:>8} {:>8}", took.len(), at(50), at(99), at(100));
        }
    }
}
