//! What a simulation counts while it runs, per workload.

use sluice_core::kueue::reason::PendingReason;

use super::execution::{Attempt, Exit};
use super::scenario::{Job, Scenario};

/// What became of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What became of each workload, in the order of the scenario.
    pub jobs: Vec<Fate>,
    /// When nothing happened any more, in virtual milliseconds.
    pub ended_at_ms: u64,
    /// How much of the measured resource was held, at each moment it changed. Unit: milliseconds and the engine's unit.
    pub held: Vec<(u64, i64)>,
}

/// What became of a workload. Times are in milliseconds, of all its devices together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// When it was first admitted.
    pub first_admitted_at_ms: Option<u64>,
    /// When it ended for good.
    pub ended_at_ms: Option<u64>,
    /// Times it was admitted.
    pub admissions: u32,
    /// Times it had to go.
    pub preemptions: u32,
    /// Time it held its devices.
    pub held_ms: u64,
    /// Start costs paid, without the first.
    pub restart_ms: u64,
    /// Time in which it held its devices only to save or to go.
    pub saving_ms: u64,
    /// Work that was lost and had to be done again.
    pub lost_ms: u64,
    /// What kills at the same decisions would have lost, less what was lost.
    pub spared_ms: u64,
    /// Work done and not lost.
    pub useful_ms: u64,
    /// Why it still waits at the end, if it does.
    pub waits: Option<PendingReason>,
}

/// What is counted so far.
#[derive(Debug)]
pub(super) struct Tally {
    jobs: Vec<Fate>,
    /// What each workload takes of the measured resource.
    amounts: Vec<i64>,
    held_now: i128,
    held: Vec<(u64, i64)>,
}

impl Tally {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let amounts = scenario.jobs.iter().map(|job| job.total(&scenario.measured.resource));
        Self {
            jobs: vec![Fate::default(); scenario.jobs.len()],
            amounts: amounts.collect(),
            held_now: 0,
            held: Vec::new(),
        }
    }

    pub(super) fn admit(&mut self, job: usize, spec: &Job, now_ms: u64) {
        let fate = &mut self.jobs[job];
        assert!(now_ms >= spec.arrival_ms, "nobody is admitted before it arrives");
        fate.first_admitted_at_ms.get_or_insert(now_ms);
        fate.admissions += 1;
        self.change_held(now_ms, self.amounts[job]);
    }

    /// Counts what `exit` saves over `killed`. Both would be followed by the same start, unless it ends.
    pub(super) fn preempt(&mut self, job: usize, spec: &Job, killed: Exit, exit: Exit) {
        let fate = &mut self.jobs[job];
        fate.preemptions += 1;
        let lost_by = |exit: Exit| {
            let has_ended = exit.saved_ms == spec.work.duration_ms;
            let again_ms = if has_ended { 0 } else { spec.work.start_cost_ms };
            (exit.done_ms - exit.saved_ms).saturating_add(again_ms)
        };
        fate.spared_ms += lost_by(killed).saturating_sub(lost_by(exit));
    }

    pub(super) fn release(
        &mut self,
        job: usize,
        spec: &Job,
        attempt: Attempt,
        exit: Exit,
        now_ms: u64,
    ) {
        self.count(job, spec, attempt, exit, now_ms);
        self.change_held(now_ms, -self.amounts[job]);
        let fate = &mut self.jobs[job];
        if exit.saved_ms == spec.work.duration_ms {
            assert_eq!(fate.useful_ms, spec.work.duration_ms, "all work is done once in the end");
            fate.ended_at_ms = Some(now_ms);
        }
    }

    /// Counts an attempt that is still running when the simulation is cut off.
    pub(super) fn cut_off(
        &mut self,
        job: usize,
        spec: &Job,
        attempt: Attempt,
        exit: Exit,
        now_ms: u64,
    ) {
        self.count(job, spec, attempt, exit, now_ms);
    }

    pub(super) fn leave_waiting(&mut self, job: usize, reason: Option<PendingReason>) {
        self.jobs[job].waits = reason;
    }

    pub(super) fn finish(self, ended_at_ms: u64) -> Outcome {
        Outcome { jobs: self.jobs, ended_at_ms, held: self.held }
    }

    fn count(&mut self, job: usize, spec: &Job, attempt: Attempt, exit: Exit, now_ms: u64) {
        let fate = &mut self.jobs[job];
        let held_ms = now_ms - attempt.started_at_ms;
        let starting_ms = held_ms.min(spec.work.start_cost_ms);
        let worked_ms = exit.done_ms - attempt.resumed_ms;
        assert!(starting_ms + worked_ms <= held_ms, "nobody works without devices");
        fate.held_ms += held_ms;
        fate.saving_ms += held_ms - starting_ms - worked_ms;
        fate.lost_ms += exit.done_ms - exit.saved_ms;
        fate.useful_ms += exit.saved_ms - attempt.resumed_ms;
        if fate.admissions > 1 {
            fate.restart_ms += starting_ms;
        }
    }

    fn change_held(&mut self, now_ms: u64, by: i64) {
        self.held_now += i128::from(by);
        assert!(self.held_now >= 0, "only what is held is released");
        let held_now = i64::try_from(self.held_now).unwrap_or(i64::MAX);
        match self.held.last_mut() {
            Some((at_ms, held)) if *at_ms == now_ms => *held = held_now,
            Some(_) | None => self.held.push((now_ms, held_now)),
        }
    }
}
