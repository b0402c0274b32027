//! The simulation itself: a loop over moments of virtual time. No clock, no randomness, no I/O.
//!
//! At each moment everything that happens then is taken first (ends, releases, arrivals), and then the scheduler decides
//! once. What it decides may free devices at the same moment; then that moment is looked at again.

mod prepare;
mod standing;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use sluice_core::kueue::name::WorkloadKey;
use sluice_core::kueue::reason::PendingReason;
use sluice_core::kueue::workload::{Admission, Workload};
use sluice_core::scheduler::{Scheduler, Standing, Verdict};

use super::error::Error;
use super::execution::{Attempt, Exit};
use super::scenario::{Job, Mode, Scenario};
use super::tally::{Outcome, Tally};
use prepare::{policy_of, to_workload};
use standing::standing;

/// Most decisions per workload of the scenario at one moment of virtual time, and altogether. More mean that workloads
/// push each other out for ever: each is admitted and preempted once at a moment, with some room for chains.
const DECISIONS_NOW_PER_JOB_MAX: u64 = 10;
const DECISIONS_PER_JOB_MAX: u64 = 2_000;

/// What happened, for those who check a simulation.
#[derive(Debug)]
pub enum Happening<'a> {
    /// A workload got its devices.
    Admitted {
        /// Its position in the scenario.
        job: usize,
        /// What it got.
        admission: &'a Admission,
    },
    /// It must go.
    Preempted {
        /// Its position in the scenario.
        job: usize,
    },
    /// Its devices are free again.
    Released {
        /// Its position in the scenario.
        job: usize,
        /// Work done until now. Unit: milliseconds.
        done_ms: u64,
        /// Whether it has ended for good.
        has_ended: bool,
    },
}

/// What happens at a moment. The order of the variants is the order at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Its work is done, unless it was preempted meanwhile.
    Ends { job: usize, attempt: u32 },
    /// A victim's devices are free.
    Leaves { job: usize },
    /// It is submitted.
    Arrives { job: usize },
    /// The scheduler asked to be called again.
    Wakes,
}

/// Where a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not submitted, or waiting.
    Waiting,
    Running(Attempt),
    Leaving(Attempt, Exit),
    Ended,
}

#[derive(Debug)]
struct Entry {
    workload: Arc<Workload>,
    state: State,
    /// Starts so far.
    attempts: u32,
    /// Work that the next attempt starts from. Unit: milliseconds.
    resumed_ms: u64,
    /// When it was preempted, oldest first. Unit: virtual milliseconds.
    preempted_at_ms: Vec<u64>,
    /// Why it was not admitted when it was last looked at.
    waits: Option<PendingReason>,
}

/// Runs `scenario` to its end; the same scenario and mode always give the same outcome.
///
/// # Errors
/// [`Error::Endless`] if workloads push each other out for ever.
pub fn simulate(scenario: &Scenario, mode: Mode) -> Result<Outcome, Error> {
    simulate_with(scenario, mode, &mut |_, _| {})
}

/// As [`simulate`]; `watch` is told whatever happens, with the virtual time in milliseconds.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_with(
    scenario: &Scenario,
    mode: Mode,
    watch: &mut dyn FnMut(u64, Happening<'_>),
) -> Result<Outcome, Error> {
    let mut run = Run::new(scenario, mode, watch);
    while let Some(now_ms) = run.next_moment() {
        run.take_events(now_ms);
        run.decide(now_ms)?;
    }
    Ok(run.finish())
}

struct Run<'s, 'w> {
    scenario: &'s Scenario,
    mode: Mode,
    watch: &'w mut dyn FnMut(u64, Happening<'_>),
    scheduler: Scheduler,
    entries: Vec<Entry>,
    by_key: BTreeMap<WorkloadKey, usize>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    tally: Tally,
    now_ms: u64,
    /// When the scheduler is called again though nothing happens.
    wakes_at_ms: Option<u64>,
    /// Decisions at the present moment.
    decisions_now: u64,
    /// Decisions before it.
    decisions_before: u64,
}

impl<'s, 'w> Run<'s, 'w> {
    fn new(
        scenario: &'s Scenario,
        mode: Mode,
        watch: &'w mut dyn FnMut(u64, Happening<'_>),
    ) -> Self {
        let entry = |(index, job): (usize, &Job)| Entry {
            workload: Arc::new(to_workload(index, job)),
            state: State::Waiting,
            attempts: 0,
            resumed_ms: 0,
            preempted_at_ms: Vec::new(),
            waits: None,
        };
        let entries: Vec<Entry> = scenario.jobs.iter().enumerate().map(entry).collect();
        let keys = entries.iter().map(|entry| entry.workload.key.clone());
        let arrival =
            |(job, spec): (usize, &Job)| Reverse((spec.arrival_ms, Event::Arrives { job }));
        Self {
            by_key: keys.zip(0..).collect(),
            events: scenario.jobs.iter().enumerate().map(arrival).collect(),
            scheduler: Scheduler::new(scenario.setup.clone(), policy_of(scenario)),
            tally: Tally::new(scenario),
            now_ms: 0,
            wakes_at_ms: None,
            decisions_now: 0,
            decisions_before: 0,
            scenario,
            mode,
            watch,
            entries,
        }
    }

    /// The next moment at which something happens; `None` at the end.
    fn next_moment(&mut self) -> Option<u64> {
        let &Reverse((at_ms, _)) = self.events.peek()?;
        if self.scenario.end_ms.is_some_and(|end_ms| at_ms > end_ms) {
            return None;
        }
        if at_ms > self.now_ms {
            self.decisions_before += std::mem::take(&mut self.decisions_now);
        }
        self.now_ms = at_ms;
        Some(at_ms)
    }

    fn take_events(&mut self, now_ms: u64) {
        while let Some(&Reverse((at_ms, event))) = self.events.peek()
            && at_ms == now_ms
        {
            self.events.pop();
            match event {
                Event::Arrives { job } => {
                    self.scheduler.submit(Arc::clone(&self.entries[job].workload));
                }
                Event::Ends { job, attempt } => self.end(job, attempt),
                Event::Leaves { job } => self.leave(job),
                Event::Wakes => self.wakes_at_ms = None,
            }
        }
    }

    fn end(&mut self, job: usize, number: u32) {
        let entry = &mut self.entries[job];
        let State::Running(attempt) = entry.state else { return };
        if entry.attempts != number {
            return;
        }
        let spec = &self.scenario.jobs[job];
        let done_ms = spec.work.progress(attempt, self.now_ms).done_ms;
        entry.state = State::Ended;
        self.scheduler.forget(&entry.workload.key);
        let exit = Exit { leaves_at_ms: self.now_ms, done_ms, saved_ms: done_ms };
        self.tally.release(job, spec, attempt, exit, self.now_ms);
        (self.watch)(self.now_ms, Happening::Released { job, done_ms, has_ended: true });
    }

    /// The devices of a victim are free: it has ended meanwhile, or it waits again.
    fn leave(&mut self, job: usize) {
        let entry = &mut self.entries[job];
        let State::Leaving(attempt, exit) = entry.state else { return };
        let spec = &self.scenario.jobs[job];
        self.tally.release(job, spec, attempt, exit, self.now_ms);
        self.scheduler.left(&entry.workload.key);
        let has_ended = exit.saved_ms == spec.work.duration_ms;
        if has_ended {
            entry.state = State::Ended;
            self.scheduler.forget(&entry.workload.key);
        } else {
            entry.state = State::Waiting;
            entry.resumed_ms = exit.saved_ms;
            self.scheduler.submit(Arc::clone(&entry.workload));
        }
        let happening = Happening::Released { job, done_ms: exit.done_ms, has_ended };
        (self.watch)(self.now_ms, happening);
    }

    fn decide(&mut self, now_ms: u64) -> Result<(), Error> {
        let (entries, by_key) = (&self.entries, &self.by_key);
        let (scenario, mode) = (self.scenario, self.mode);
        let standing = |_: &Workload, workload: &Workload| match by_key.get(&workload.key) {
            Some(&job) => standing(scenario, mode, &scenario.jobs[job], &entries[job], now_ms),
            None => Standing::default(),
        };
        for verdict in self.scheduler.decide(now_ms, &standing) {
            match verdict {
                Verdict::Admit { workload, admission, was_held: _ } => {
                    self.admit(&workload, &admission);
                }
                Verdict::Preempt { workload: _, victims, held: _, considered: _ } => {
                    for victim in victims.iter().filter(|victim| !victim.is_leaving) {
                        self.preempt(&victim.workload);
                    }
                }
                Verdict::Evict { workload, reason: _ } => self.preempt(&workload),
                Verdict::Wait { workload, reason, assignment: _, protected: _ } => {
                    if let Some(&job) = self.by_key.get(&workload) {
                        self.entries[job].waits = Some(reason);
                    }
                }
            }
        }
        self.set_alarm();
        self.check_that_it_ends()
    }

    /// Sees to it that the scheduler is called when it wants to be.
    fn set_alarm(&mut self) {
        let Some(at_ms) = self.scheduler.retry_at_ms() else { return };
        let at_ms = at_ms.max(self.now_ms + 1);
        if self.wakes_at_ms.is_none_or(|earlier_ms| at_ms < earlier_ms) {
            self.wakes_at_ms = Some(at_ms);
            self.events.push(Reverse((at_ms, Event::Wakes)));
        }
    }

    fn check_that_it_ends(&self) -> Result<(), Error> {
        let jobs = self.entries.len() as u64 + 1;
        let now_max = DECISIONS_NOW_PER_JOB_MAX.saturating_mul(jobs);
        let all_max = DECISIONS_PER_JOB_MAX.saturating_mul(jobs);
        let decisions = self.decisions_before + self.decisions_now;
        if self.decisions_now <= now_max && decisions <= all_max {
            return Ok(());
        }
        let problem = format!(
            "{} decisions at this moment and {decisions} altogether for {} workloads: they push each other out for \
             ever; look at the preemption rules of the queues",
            self.decisions_now,
            self.entries.len()
        );
        Err(Error::Endless { at_ms: self.now_ms, problem })
    }

    fn admit(&mut self, key: &WorkloadKey, admission: &Admission) {
        let Some(&job) = self.by_key.get(key) else { return };
        let (entry, spec) = (&mut self.entries[job], &self.scenario.jobs[job]);
        let attempt = Attempt { started_at_ms: self.now_ms, resumed_ms: entry.resumed_ms };
        entry.state = State::Running(attempt);
        entry.attempts += 1;
        entry.waits = None;
        let end = Event::Ends { job, attempt: entry.attempts };
        self.events.push(Reverse((spec.work.ends_at_ms(attempt), end)));
        self.tally.admit(job, spec, self.now_ms);
        self.decisions_now += 1;
        (self.watch)(self.now_ms, Happening::Admitted { job, admission });
    }

    fn preempt(&mut self, key: &WorkloadKey) {
        let Some(&job) = self.by_key.get(key) else { return };
        let (entry, spec) = (&mut self.entries[job], &self.scenario.jobs[job]);
        let State::Running(attempt) = entry.state else { return };
        let killed = spec.work.kill(attempt, self.now_ms, self.scenario.kill_grace_ms);
        let exit = match self.mode {
            Mode::Kill => killed,
            Mode::Drain => spec.work.drain(attempt, self.now_ms).unwrap_or(killed),
        };
        entry.state = State::Leaving(attempt, exit);
        entry.preempted_at_ms.push(self.now_ms);
        self.events.push(Reverse((exit.leaves_at_ms, Event::Leaves { job })));
        self.tally.preempt(job, spec, killed, exit);
        self.decisions_now += 1;
        (self.watch)(self.now_ms, Happening::Preempted { job });
    }

    /// The scheduler looks at one of several alike: the others wait for the same reason.
    fn share_reasons(&mut self) {
        for job in 0..self.entries.len() {
            let entry = &self.entries[job];
            let (State::Waiting, None) = (entry.state, entry.waits) else { continue };
            let alike = self.scheduler.alike(&entry.workload.key);
            let jobs: Vec<usize> =
                alike.iter().filter_map(|key| self.by_key.get(key).copied()).chain([job]).collect();
            let reason = jobs.iter().find_map(|&job| self.entries[job].waits);
            for job in jobs {
                self.entries[job].waits = self.entries[job].waits.or(reason);
            }
        }
    }

    fn finish(mut self) -> Outcome {
        self.share_reasons();
        for (job, entry) in self.entries.iter().enumerate() {
            let spec = &self.scenario.jobs[job];
            let (attempt, exit) = match entry.state {
                State::Running(attempt) => {
                    let progress = spec.work.progress(attempt, self.now_ms);
                    let (done_ms, saved_ms) = (progress.done_ms, progress.done_ms);
                    (attempt, Exit { leaves_at_ms: self.now_ms, done_ms, saved_ms })
                }
                State::Leaving(attempt, exit) => {
                    let progress = spec.work.progress(attempt, self.now_ms);
                    let done_ms = progress.done_ms.min(exit.done_ms);
                    (attempt, Exit { done_ms, saved_ms: exit.saved_ms.min(done_ms), ..exit })
                }
                State::Waiting => {
                    self.tally.leave_waiting(job, entry.waits);
                    continue;
                }
                State::Ended => continue,
            };
            self.tally.cut_off(job, spec, attempt, exit, self.now_ms);
        }
        self.tally.finish(self.now_ms)
    }
}

#[cfg(test)]
mod tests;
