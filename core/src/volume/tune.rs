//! Setting read-ahead: whether a volume may be touched, what is to be written, and whether it stays.
//!
//! Wanted properties: nothing is written in [`Mode::Observe`]; what is spared ([`spare`]) is never written; a value is never
//! lowered but back to what it was; 1 to 3 KiB, which switch read-ahead off, are never written; one change a volume in ten
//! minutes; a step stays only if loads got faster by it; what was there before the first write comes back at the end,
//! unless somebody else has set another value meanwhile, which then stays.
//!
//! ```text
//!            intent, actual below it                       actual is another's
//! untouched ────────────────────────▶ written, read back ──────────────────────▶ written again, at most REPAIRS_MAX times
//!     │                                     │      ▲
//!     │ opted in, two loads that wait       │      │ step kept
//!     └──────── twice as much ─────────────▶└──────┘
//!                                           │ unmounted, spared, no intent any more, agent ends; step that gained nothing
//!                                           ▼
//!                                   as it was before
//! ```

mod loads;
mod spare;
#[cfg(test)]
mod tests;

use super::bottleneck::Bottleneck;
use super::read_ahead::{READ_AHEAD_DEFAULT_KIB, READ_AHEAD_MAX_KIB};
use super::{Finding, MIB_BYTES, Mib};

use self::loads::{Load, Loads, mean};

pub use self::spare::{Driver, Kind, Mounts, Spared, Subject, spare};

/// Time between two changes of one volume. Loads take minutes, and each change needs two of them to be judged.
pub const CHANGE_INTERVAL_MS: u64 = 600_000;

/// A value that others reset so often is left to them: two programs that set one value in turns help nobody.
pub const REPAIRS_MAX: u32 = 3;

/// Loads before a step and after it that are compared. One may be disturbed by chance.
const LOADS_COMPARED: usize = 2;

/// A step stays if loads are faster by so much. Unit: per cent.
const GAIN_PERCENT_MIN: u64 = 10;

/// A step goes if loads read so much more than before: what was read ahead was not used. Unit: per cent.
const BYTES_GROWTH_PERCENT_MAX: u64 = 5;

/// Memory that must be available for each KiB read ahead, or pages go before they are used.
const MEMORY_FACTOR: u64 = 64;

/// What is advised where nothing is known of the latency. Unit: KiB.
const BLIND_KIB: u64 = 4_096;

/// The same from [`FAST_NODE`] on. Unit: KiB.
const BLIND_FAST_KIB: u64 = 8_192;

/// Machines that move so much need twice the read-ahead.
const FAST_NODE: Mib = Mib(4_000);

/// What the agent may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Nothing is written.
    #[default]
    Observe,
    /// What was asked for is set where it is not.
    Repair,
    /// Also, volumes that were named get more step by step, as long as it helps.
    Tune,
}

/// What the operator allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// See [`Mode`].
    pub mode: Mode,
    /// Loop devices count as disks: for trials on machines without any.
    pub takes_loops: bool,
}

/// What is to be written now. The value before the first write has to be on disk before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// A new value. Unit: KiB.
    Set {
        /// What is in force.
        before_kib: u64,
        /// What is to be.
        kib: u64,
    },
    /// What was there before the first write. Unit: KiB.
    Restore {
        /// That value.
        kib: u64,
    },
}

/// Facts that cost something to learn; asked for only where everything else speaks for a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costly {
    /// Whether any process has mapped a file of the volume. `None`: it cannot be told.
    pub is_mapped: Option<bool>,
    /// Memory that programs and caches could have. Unit: KiB. `None`: not known.
    pub available_kib: Option<u64>,
}

/// One disk as long as it is the same.
#[derive(Clone, Debug, Default)]
pub struct Tuner {
    /// Before the first write. Unit: KiB.
    original_kib: Option<u64>,
    /// Written last and read back. Unit: KiB. `None`: nothing of ours is in force.
    ours_kib: Option<u64>,
    changed_at_ms: Option<u64>,
    repairs: u32,
    quickest_us: Option<u64>,
    loads: Loads,
    trial: Option<Trial>,
    /// No more steps: the last gained nothing, or somebody else has taken over.
    is_settled: bool,
    /// Why nothing is written any more.
    given_up: Option<Finding>,
    /// What was done last.
    last: Option<Finding>,
}

/// A step whose worth is not known yet.
#[derive(Clone, Debug)]
struct Trial {
    from_kib: u64,
    before: Vec<Load>,
}

impl Tuner {
    /// What is to be written now. To be called once for each sample of the volume; `costly` at most once.
    pub fn look(
        &mut self,
        now_ms: u64,
        rules: Rules,
        subject: &Subject,
        costly: impl FnOnce() -> Costly,
    ) -> Option<Write> {
        let actual_kib = subject.actual_kib?;
        self.observe(subject, actual_kib);
        let is_wanted =
            subject.expected_kib.is_some() || (subject.is_opted_in && rules.mode == Mode::Tune);
        if !is_wanted || rules.mode == Mode::Observe {
            self.last = None;
            return self.give_back(actual_kib);
        }
        if let Some(why) = spare(rules, subject) {
            self.last = Some(Finding::ReadAheadLeftAlone { why });
            return self.give_back(actual_kib);
        }
        if self.given_up.is_some() {
            return self.give_back(actual_kib);
        }
        match subject.expected_kib {
            Some(expected_kib) => self.repair(now_ms, expected_kib, actual_kib),
            None => self.tune(now_ms, subject, actual_kib, costly),
        }
    }

    /// Before the first write of what is in force of ours. Unit: KiB.
    #[must_use]
    pub fn original_kib(&self) -> Option<u64> {
        self.original_kib.filter(|_| self.ours_kib.is_some())
    }

    /// Something of ours was in force last.
    #[must_use]
    pub fn has_set(&self) -> bool {
        self.ours_kib.is_some()
    }

    /// What there is to say about what was done or not done.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.given_up.as_ref().or(self.last.as_ref()).into_iter()
    }

    /// What is to be written before the agent ends. Unit: KiB. `None`: nothing of ours is in force.
    #[must_use]
    pub fn give_back(&self, actual_kib: u64) -> Option<Write> {
        let is_ours = self.ours_kib == Some(actual_kib);
        self.original_kib.filter(|_| is_ours).map(|kib| Write::Restore { kib })
    }

    /// Takes in what came of a [`Write::Set`]: what was read back, or why it could not be written.
    pub fn was_set(
        &mut self,
        now_ms: u64,
        before_kib: u64,
        kib: u64,
        read_back: Result<u64, String>,
    ) {
        self.changed_at_ms = Some(now_ms);
        self.loads.value_changed();
        match read_back {
            Ok(actual_kib) => {
                let original_kib = *self.original_kib.get_or_insert(before_kib);
                self.ours_kib = (actual_kib != original_kib).then_some(actual_kib);
                if actual_kib == kib {
                    let set = Finding::ReadAheadSet { kib, original_kib };
                    self.last.get_or_insert(set);
                } else {
                    self.given_up = Some(Finding::ReadAheadNotTaken { kib, actual_kib });
                }
            }
            Err(why) => self.given_up = Some(Finding::ReadAheadNotWritten { kib, why }),
        }
    }

    /// Takes in that what was there before is there again, or why it could not be written.
    pub fn was_restored(&mut self, now_ms: u64, kib: u64, read_back: Result<u64, String>) {
        self.changed_at_ms = Some(now_ms);
        self.loads.value_changed();
        (self.original_kib, self.ours_kib, self.trial) = (None, None, None);
        if let Err(why) = read_back {
            self.given_up = Some(Finding::ReadAheadNotWritten { kib, why });
        }
    }

    fn observe(&mut self, subject: &Subject, actual_kib: u64) {
        let Some(rates) = subject.rates else { return };
        if let Some(await_us) = rates.read_await_us.filter(|_| rates.read_ios_per_second >= 10) {
            self.quickest_us = Some(await_us.max(1).min(self.quickest_us.unwrap_or(u64::MAX)));
        }
        let is_waited_for = subject.bottleneck == Bottleneck::ReadAhead;
        self.loads.update(&rates, actual_kib, is_waited_for);
    }

    fn is_too_soon(&self, now_ms: u64) -> bool {
        self.changed_at_ms.is_some_and(|at| now_ms.saturating_sub(at) < CHANGE_INTERVAL_MS)
    }

    /// To what was asked for, and no further.
    fn repair(&mut self, now_ms: u64, expected_kib: u64, actual_kib: u64) -> Option<Write> {
        if actual_kib == expected_kib {
            return None;
        }
        let spared = match expected_kib {
            0 => Some(Spared::AskedOff),
            _ if expected_kib > READ_AHEAD_MAX_KIB => Some(Spared::AskedHuge),
            // What is ours is no user's value, and the agent may lower it to what is asked for now.
            _ if actual_kib > expected_kib && self.ours_kib != Some(actual_kib) => {
                Some(Spared::Higher)
            }
            _ => None,
        };
        if let Some(why) = spared {
            self.last = Some(Finding::ReadAheadLeftAlone { why });
            return None;
        }
        if self.is_too_soon(now_ms) {
            return None;
        }
        if self.repairs >= REPAIRS_MAX {
            self.given_up = Some(Finding::ReadAheadFought { times: self.repairs });
            return None;
        }
        self.repairs += 1;
        if self.ours_kib != Some(actual_kib) {
            // Somebody has set it meanwhile: that is what comes back at the end.
            (self.original_kib, self.ours_kib) = (None, None);
        }
        self.last = None;
        Some(Write::Set { before_kib: actual_kib, kib: expected_kib })
    }

    /// One step further, or back.
    fn tune(
        &mut self,
        now_ms: u64,
        subject: &Subject,
        actual_kib: u64,
        costly: impl FnOnce() -> Costly,
    ) -> Option<Write> {
        let is_default = actual_kib == READ_AHEAD_DEFAULT_KIB && self.ours_kib.is_none();
        if self.ours_kib != Some(actual_kib) && !is_default {
            self.last = Some(Finding::ReadAheadLeftAlone { why: Spared::SetByOthers });
            (self.ours_kib, self.original_kib, self.trial) = (None, None, None);
            self.is_settled = true;
            return None;
        }
        if self.is_settled || self.loads.finished().len() < LOADS_COMPARED {
            return None;
        }
        match self.trial.take() {
            Some(trial) => self.judge_step(&trial, actual_kib),
            None => self.next_step(now_ms, subject, actual_kib, costly),
        }
    }

    /// Whether a step was worth it; if not, what takes it back. That does not wait: it does harm.
    fn judge_step(&mut self, trial: &Trial, actual_kib: u64) -> Option<Write> {
        let (before, after) = (mean(&trial.before), mean(self.loads.finished()));
        let (from_kib, kib) = (trial.from_kib, actual_kib);
        let (from, to) =
            (Mib(before.bytes_per_second / MIB_BYTES), Mib(after.bytes_per_second / MIB_BYTES));
        let is_faster =
            percent_of(after.bytes_per_second, before.bytes_per_second) >= 100 + GAIN_PERCENT_MIN;
        let reads_no_more = percent_of(after.bytes, before.bytes) <= 100 + BYTES_GROWTH_PERCENT_MAX;
        if is_faster && reads_no_more {
            self.last = Some(Finding::ReadAheadStepKept { from_kib, kib, from, to });
            return None;
        }
        self.is_settled = true;
        let bytes_percent = percent_of(after.bytes, before.bytes);
        self.last = Some(Finding::ReadAheadStepUndone { from_kib, kib, from, to, bytes_percent });
        Some(Write::Set { before_kib: actual_kib, kib: from_kib })
    }

    fn next_step(
        &mut self,
        now_ms: u64,
        subject: &Subject,
        actual_kib: u64,
        costly: impl FnOnce() -> Costly,
    ) -> Option<Write> {
        let kib = actual_kib.saturating_mul(2);
        let waits = self.loads.finished().iter().all(|load| load.waits_for_read_ahead);
        if !waits || kib > self.target_kib(subject.node_limit) || self.is_too_soon(now_ms) {
            return None;
        }
        let costly = costly();
        let needed_kib = kib.saturating_mul(MEMORY_FACTOR);
        let why = match costly {
            Costly { is_mapped: None, .. } => Some(Spared::MappedUnknown),
            Costly { is_mapped: Some(true), .. } => Some(Spared::Mapped),
            Costly { available_kib, .. } if available_kib.is_none_or(|kib| kib <= needed_kib) => {
                Some(Spared::LittleMemory)
            }
            Costly { .. } => None,
        };
        if let Some(why) = why {
            self.last = Some(Finding::ReadAheadLeftAlone { why });
            // Asked again after two more loads.
            self.loads.forget();
            return None;
        }
        self.trial = Some(Trial { from_kib: actual_kib, before: self.loads.take() });
        self.last = None;
        Some(Write::Set { before_kib: actual_kib, kib })
    }

    /// The read-ahead beyond which one stream has nothing to gain: twice what is under way at the machine's limit.
    /// Unit: KiB.
    fn target_kib(&self, node_limit: Option<Mib>) -> u64 {
        let blind_kib = match node_limit {
            Some(limit) if limit >= FAST_NODE => BLIND_FAST_KIB,
            Some(_) | None => BLIND_KIB,
        };
        let under_way = node_limit.zip(self.quickest_us).map(|(limit, base_us)| {
            let bytes = u128::from(limit.bytes_per_second()) * 2 * u128::from(base_us) / 1_000_000;
            u64::try_from(bytes / 1_024).unwrap_or(u64::MAX)
        });
        let kib = under_way.unwrap_or(blind_kib).clamp(READ_AHEAD_DEFAULT_KIB, READ_AHEAD_MAX_KIB);
        kib.next_power_of_two()
    }
}

/// `part` in hundredths of `whole`.
fn percent_of(part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(part) * 100 / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}
