//! Keeps drains from eating up the work that they save: how long a workload is left alone, and how long demand must
//! have been low before it comes back.

use super::{Protection, Rule};

const HOUR_MS: u64 = 3_600_000;

/// How much a workload may be disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// After a drain a workload makes progress for at least as long before it is drained again; at least as long as
    /// its restart takes, too. Unit: ms.
    pub productive_floor_ms: u64,
    /// Most drains of one workload within an hour. Range: 1 and more.
    pub drains_per_hour: u32,
    /// Longest time for which demand must have been low before a workload that is drained again and again comes
    /// back. Unit: ms.
    pub hold_off_ms_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { productive_floor_ms: 30_000, drains_per_hour: 6, hold_off_ms_max: 300_000 }
    }
}

/// What has happened to a workload. All times on the caller's clock, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History<'h> {
    /// Since when it runs; `None` if it does not.
    pub running_since_ms: Option<u64>,
    /// Whether it was drained before.
    pub was_drained: bool,
    /// When it was drained, oldest first; those of the last hour at least.
    pub drained_at_ms: &'h [u64],
    /// How long a start takes until the first step.
    pub restart_ms: u64,
}

impl History<'_> {
    fn drains_within_hour(&self, now_ms: u64) -> impl Iterator<Item = u64> {
        self.drained_at_ms.iter().copied().filter(move |at| now_ms.saturating_sub(*at) < HOUR_MS)
    }

    /// What protects it at `now_ms`: of the floor and the budget, the one that lasts longer.
    ///
    /// With the floor, at least half of the time between a start and the next drain is productive.
    #[must_use]
    pub fn protection(&self, limits: &Limits, now_ms: u64) -> Option<Protection> {
        let floor = self.running_since_ms.filter(|_| self.was_drained).map(|since_ms| {
            let productive_ms = limits.productive_floor_ms.max(self.restart_ms);
            let until_ms = since_ms.saturating_add(self.restart_ms).saturating_add(productive_ms);
            Protection { until_ms, rule: Rule::ProductiveFloor }
        });
        let drains = self.drains_within_hour(now_ms).count();
        // Once the oldest of the last `drains_per_hour` drains is an hour ago, there is room for one more.
        let excess = drains.saturating_sub(limits.drains_per_hour as usize);
        let budget = self.drains_within_hour(now_ms).nth(excess);
        let budget = budget.filter(|_| drains >= limits.drains_per_hour as usize);
        let budget = budget.map(|at_ms| Protection {
            until_ms: at_ms.saturating_add(HOUR_MS),
            rule: Rule::DrainBudget,
        });
        floor.into_iter().chain(budget).filter(|p| p.until_ms > now_ms).max()
    }

    /// For how long what it needs must have been free before it comes back. Unit: ms.
    ///
    /// Nothing after a first drain; after more within an hour as long as its restart takes, because it would not
    /// even have begun to work when the same demand returns.
    #[must_use]
    pub fn hold_off_ms(&self, limits: &Limits, now_ms: u64) -> u64 {
        if self.drains_within_hour(now_ms).count() < 2 {
            return 0;
        }
        self.restart_ms.min(limits.hold_off_ms_max)
    }
}
