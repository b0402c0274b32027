//! What ways of ending a gang cost, side by side: computed by the planner itself over all moments at which a
//! preemption may come.
//!
//! A preemption comes at any moment between two periodic checkpoints with equal likelihood. The modes of Sluice are
//! planned one at a time ([`crate::plan::plan`] with all others refused), what it would pick with all of them
//! allowed. What is not Sluice's is a formula of a line.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use crate::drain::{Mode, Plan};
use crate::plan::{Situation, plan};
use crate::workload::SaveSignal;

/// Moments looked at between two checkpoints: the mean is exact to a thousandth of the interval.
const MOMENTS: u64 = 1_000;
/// No deadline: longer than any interval that is allowed.
const NO_DEADLINE_MS: u64 = u64::MAX / 4;

/// A gang that trains. Durations in ms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Training {
    /// Devices of the gang.
    pub devices: u64,
    /// Time of a step.
    pub step_ms: u64,
    /// Time of a save (p95).
    pub save_ms: u64,
    /// Time from one periodic checkpoint to the next, at least 1.
    pub save_interval_ms: u64,
    /// Time from a start to the first step.
    pub restart_ms: u64,
    /// Time between SIGTERM and the kill, as the scheduler and the launcher within the worker allow it.
    pub grace_ms: u64,
    /// How long the preemptor waits.
    pub deadline_ms: u64,
}

/// A way of making room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// The gang is killed.
    Kill,
    /// It is told to end and killed after a grace, and its handler just ends, as the tutorial's does.
    GraceExit,
    /// The same with a handler that saves and ends, if the grace lets it.
    GraceSave,
    /// Sluice waits for the next periodic checkpoint.
    Boundary,
    /// Sluice asks by a signal.
    Signal,
    /// Sluice asks through the worker client.
    Client,
    /// What Sluice picks of all those.
    Planned,
}

impl Policy {
    /// All policies, in the order in which they are listed.
    pub const ALL: [Self; 7] = [
        Self::Kill,
        Self::GraceExit,
        Self::GraceSave,
        Self::Boundary,
        Self::Signal,
        Self::Client,
        Self::Planned,
    ];
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kill => "kill",
            Self::GraceExit => "grace period, handler only exits",
            Self::GraceSave => "grace period, handler saves",
            Self::Boundary => "BOUNDARY",
            Self::Signal => "SIGNAL",
            Self::Client => "CLIENT",
            Self::Planned => "sluice picks",
        })
    }
}

/// What a policy costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Which.
    pub policy: Policy,
    /// Mean of what is lost, idle time while saving included. Unit: device-milliseconds.
    pub mean_loss_device_ms: u64,
    /// The same at the worst moment.
    pub worst_loss_device_ms: u64,
    /// Mean time until the devices are free. Unit: ms.
    pub mean_wait_ms: u64,
    /// The same at the worst moment.
    pub worst_wait_ms: u64,
}

/// Loss (device-milliseconds) and wait (ms).
type Cost = (u64, u64);

/// All policies for one gang.
#[must_use]
pub fn compare(training: &Training) -> Vec<Row> {
    Policy::ALL.into_iter().map(|policy| row(training, policy)).collect()
}

/// What the restart after any of them costs. Unit: device-milliseconds.
#[must_use]
pub fn restart_device_ms(training: &Training) -> u64 {
    training.devices.saturating_mul(training.restart_ms)
}

fn row(training: &Training, policy: Policy) -> Row {
    let interval_ms = training.save_interval_ms.max(1);
    // The middle of each thousandth.
    let moment = |i: u64| {
        let at = u128::from(interval_ms) * u128::from(2 * i + 1) / u128::from(2 * MOMENTS);
        u64::try_from(at).unwrap_or(interval_ms)
    };
    let costs: Vec<Cost> = (0..MOMENTS).map(|i| cost(training, policy, moment(i))).collect();
    let ends = [0, interval_ms.saturating_sub(1)].map(|at| cost(training, policy, at));
    let mean = |of: fn(&Cost) -> u64| {
        let sum: u128 = costs.iter().map(|cost| u128::from(of(cost))).sum();
        u64::try_from(sum / u128::from(MOMENTS)).unwrap_or(u64::MAX)
    };
    let worst = |of: fn(&Cost) -> u64| costs.iter().chain(&ends).map(of).max().unwrap_or(0);
    Row {
        policy,
        mean_loss_device_ms: mean(|cost| cost.0),
        worst_loss_device_ms: worst(|cost| cost.0),
        mean_wait_ms: mean(|cost| cost.1),
        worst_wait_ms: worst(|cost| cost.1),
    }
}

/// A preemption `unsaved_ms` after the last checkpoint.
fn cost(training: &Training, policy: Policy, unsaved_ms: u64) -> Cost {
    let save_ms = training.step_ms.saturating_add(training.save_ms);
    let device_ms = |ms: u64| training.devices.saturating_mul(ms);
    match policy {
        Policy::Kill => planned(training, unsaved_ms, Some(Mode::Kill)),
        // It has ended within moments; nobody uses the grace.
        Policy::GraceExit => planned(training, unsaved_ms, Some(Mode::Kill)),
        Policy::GraceSave if save_ms <= training.grace_ms => (device_ms(save_ms), save_ms),
        // Killed in the middle of its save, with what it has trained until then.
        Policy::GraceSave => {
            let lost_ms = unsaved_ms.saturating_add(training.grace_ms);
            (device_ms(lost_ms), training.grace_ms)
        }
        Policy::Boundary => planned(training, unsaved_ms, Some(Mode::Boundary)),
        Policy::Signal => planned(training, unsaved_ms, Some(Mode::Signal)),
        Policy::Client => planned(training, unsaved_ms, Some(Mode::Client)),
        Policy::Planned => planned(training, unsaved_ms, None),
    }
}

/// What the planner expects of `only`, or of what it picks.
fn planned(training: &Training, unsaved_ms: u64, only: Option<Mode>) -> Cost {
    let others = Mode::ALL.into_iter().filter(|mode| only.is_some_and(|only| only != *mode));
    let refused: BTreeMap<Mode, String> = others.map(|mode| (mode, String::new())).collect();
    let Plan { delay_ms, loss_device_ms, .. } = plan(&Situation {
        devices: training.devices,
        unsaved_ms,
        checkpoint_seen: true,
        has_checkpoint_dir: true,
        step_ms: Some(training.step_ms),
        save_ms: Some(training.save_ms),
        save_interval_ms: Some(training.save_interval_ms),
        has_client: true,
        client_unproven: false,
        // One that goes on after its save and that no launcher handles.
        save_signal: Some(SaveSignal { number: 10, exits_after_save: false }),
        signal_proven: true,
        signal_unproven: false,
        grace_ms: None,
        refused: &refused,
        deadline_ms: if only.is_some() { NO_DEADLINE_MS } else { training.deadline_ms },
        checkpoint_drain: true,
    });
    (loss_device_ms, delay_ms.unwrap_or(training.deadline_ms))
}
