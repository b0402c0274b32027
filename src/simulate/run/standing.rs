//! What it would cost to take a workload away, as the scheduler asks.

use sluice_core::scheduler::{History, Limits, Standing};

use super::super::execution::Attempt;
use super::super::scenario::{Job, Mode, Scenario};
use super::{Entry, State};

/// What taking the workload away now would cost, and what speaks against it.
pub(super) fn standing(
    scenario: &Scenario,
    mode: Mode,
    job: &Job,
    entry: &Entry,
    now_ms: u64,
) -> Standing {
    let attempt = match entry.state {
        State::Running(attempt) => Some(attempt),
        State::Waiting | State::Leaving(..) | State::Ended => None,
    };
    let limits = Limits::default();
    let history = History {
        running_since_ms: attempt.map(|attempt| attempt.started_at_ms),
        was_drained: !entry.preempted_at_ms.is_empty(),
        drained_at_ms: &entry.preempted_at_ms,
        restart_ms: job.work.start_cost_ms,
    };
    let devices = job.total(&scenario.measured.resource).max(1).unsigned_abs();
    let (mut cost_ms, mut at_risk_ms) = (0, 0);
    if let Some(attempt) = attempt {
        cost_ms = cost_of(job, attempt, now_ms, mode, scenario.kill_grace_ms);
        at_risk_ms = job.work.progress(attempt, now_ms).at_risk_ms();
    }
    Standing {
        cost_device_ms: cost_ms.saturating_mul(devices),
        at_risk_device_ms: at_risk_ms.saturating_mul(devices),
        protected: history.protection(&limits, now_ms),
        hold_off_ms: history.hold_off_ms(&limits, now_ms),
        cannot_leave: false,
    }
}

/// Work to be done again, the next start, and the time it takes to go. Unit: milliseconds.
fn cost_of(job: &Job, attempt: Attempt, now_ms: u64, mode: Mode, grace_ms: u64) -> u64 {
    let killed = job.work.kill(attempt, now_ms, grace_ms);
    let exit = match mode {
        Mode::Kill => killed,
        Mode::Drain => job.work.drain(attempt, now_ms).unwrap_or(killed),
    };
    let (lost_ms, leaving_ms) = (exit.done_ms - exit.saved_ms, exit.leaves_at_ms - now_ms);
    lost_ms.saturating_add(job.work.start_cost_ms).saturating_add(leaving_ms)
}
