//! What came of a simulation, in figures. Whole numbers only, so that the same input gives the same bytes anywhere.

use std::collections::BTreeMap;

use serde::Serialize;
use sluice_core::kueue::name::QueueName;

use super::scenario::{Job, Measured, Mode, PolicyName, Scenario};
use super::tally::{Fate, Outcome};

/// Most workloads that are named for one reason.
const NAMES_MAX: usize = 8;

/// What came of a simulation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// How victims left.
    pub mode: Mode,
    /// How they were chosen.
    pub policy: PolicyName,
    /// The resource counted, called device in all that follows.
    pub measured_resource: String,
    /// How many there are. Unit: thousandths of a device.
    pub capacity_millidevices: u64,
    /// From the first arrival to the end of the last workload. Unit: virtual milliseconds.
    pub makespan_ms: u64,
    /// Jain's index over the queues, of the speed at which each was served: a workload's work by its time from arrival
    /// to end, weighted by its devices. 1000 means that all queues were served alike. Unit: thousandths.
    pub fairness_permille: u64,
    /// Why workloads that were never admitted wait, with how many do.
    pub never_admitted: BTreeMap<&'static str, u64>,
    /// The first of them by reason, at most 8 of each.
    pub never_admitted_names: BTreeMap<&'static str, Vec<String>>,
    /// Everything together.
    pub total: Figures,
    /// Per class, by name.
    pub classes: Vec<Group>,
    /// Per queue, by name; those without any workload too.
    pub queues: Vec<Group>,
}

/// The figures of some workloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// What they have in common.
    pub name: String,
    /// Their figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What came of some workloads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Workloads submitted.
    pub workloads: u64,
    /// Those that ended.
    pub finished: u64,
    /// Times that one was admitted.
    pub admissions: u64,
    /// Times that one had to go.
    pub preemptions: u64,
    /// From arrival to the first admission, of those that were admitted.
    pub waiting: WaitingTimes,
    /// Mean time from arrival to end, of those that ended. Unit: milliseconds.
    pub turnaround_mean_ms: u64,
    /// Devices held, as a part of all there are (of a queue: of its own quota) over the whole time. Unit: thousandths.
    pub utilisation_permille: u64,
    /// The same, with nothing counted but work that was not lost. Unit: thousandths.
    pub useful_permille: u64,
    /// Time that devices were held.
    pub held_device_ms: u64,
    /// Work done and not lost.
    pub useful_device_ms: u64,
    /// Work lost, and the starts after a preemption.
    pub lost_device_ms: u64,
    /// The part of it that was work.
    pub lost_work_device_ms: u64,
    /// The part of it that was starts.
    pub restart_device_ms: u64,
    /// Time in which devices were held only to save or to go.
    pub saving_device_ms: u64,
    /// What kills at the same decisions would have lost, less what was lost.
    pub saved_device_ms: u64,
}

/// How long workloads waited. Unit: milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WaitingTimes {
    /// Mean.
    pub mean_ms: u64,
    /// Half of them waited at most this long.
    pub p50_ms: u64,
    /// 95 of 100 waited at most this long.
    pub p95_ms: u64,
    /// The longest.
    pub max_ms: u64,
}

impl Summary {
    /// The figures of `outcome`, which came of `scenario` in `mode`.
    #[must_use]
    pub fn new(scenario: &Scenario, mode: Mode, outcome: &Outcome) -> Self {
        let first_ms = scenario.jobs.first().map_or(0, |job| job.arrival_ms);
        let makespan_ms = outcome.ended_at_ms.saturating_sub(first_ms);
        let measured = &scenario.measured;
        let capacity = measured.capacity.unsigned_abs();
        let all: Vec<(&Job, &Fate)> = scenario.jobs.iter().zip(&outcome.jobs).collect();
        let mut by_class = BTreeMap::<&str, Vec<_>>::new();
        let mut by_queue = BTreeMap::<&QueueName, Vec<_>>::new();
        for queue in &scenario.setup.queues {
            by_queue.entry(&queue.name).or_default();
        }
        let mut never_admitted = BTreeMap::new();
        let mut never_admitted_names: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for &(job, fate) in &all {
            by_class.entry(&job.class).or_default().push((job, fate));
            by_queue.entry(&job.queue).or_default().push((job, fate));
            if fate.first_admitted_at_ms.is_none() {
                let reason = fate.waits.map_or("NotDecided", |reason| reason.code());
                *never_admitted.entry(reason).or_insert(0) += 1;
                let names = never_admitted_names.entry(reason).or_default();
                if names.len() < NAMES_MAX {
                    names.push(job.name.clone());
                }
            }
        }
        let figures = |jobs: &[_], of: u64| figures(jobs, measured, of, makespan_ms);
        let class = |(name, jobs): (&&str, &Vec<_>)| Group {
            name: (*name).to_owned(),
            figures: figures(jobs, capacity),
        };
        let queue = |(name, jobs): (&&QueueName, &Vec<_>)| Group {
            name: name.to_string(),
            figures: figures(jobs, quota_of(scenario, name)),
        };
        Self {
            mode,
            policy: scenario.policy,
            measured_resource: measured.resource.to_string(),
            capacity_millidevices: capacity.saturating_mul(1_000 / measured.scale()),
            makespan_ms,
            fairness_permille: fairness_permille(by_queue.values(), measured, outcome.ended_at_ms),
            never_admitted,
            never_admitted_names,
            total: figures(&all, capacity),
            classes: by_class.iter().map(class).collect(),
            queues: by_queue.iter().map(queue).collect(),
        }
    }
}

/// What a queue has of its own of the measured resource.
fn quota_of(scenario: &Scenario, name: &QueueName) -> u64 {
    let queue = scenario.setup.queues.iter().find(|queue| queue.name == *name);
    let flavors =
        queue.into_iter().flat_map(|queue| &queue.groups).flat_map(|group| &group.flavors);
    let quotas = flavors.filter_map(|flavor| flavor.quotas.get(&scenario.measured.resource));
    quotas.fold(0, |sum, quota| sum.saturating_add(quota.nominal.unsigned_abs()))
}

fn figures(
    jobs: &[(&Job, &Fate)],
    measured: &Measured,
    capacity: u64,
    makespan_ms: u64,
) -> Figures {
    let count = |number: usize| number as u64;
    let device_ms = |of: fn(&Fate) -> u64| {
        let amounts = jobs.iter().map(|(job, fate)| {
            u128::from(of(fate)) * u128::from(job.total(&measured.resource).unsigned_abs())
        });
        amounts.sum::<u128>()
    };
    let (held, useful) = (device_ms(|fate| fate.held_ms), device_ms(|fate| fate.useful_ms));
    let all = u128::from(capacity) * u128::from(makespan_ms);
    let part = |amount: u128| to_u64((amount * 1_000).checked_div(all).unwrap_or(0));
    let scaled = |amount: u128| to_u64(amount / u128::from(measured.scale()));
    let (lost, restart) = (device_ms(|fate| fate.lost_ms), device_ms(|fate| fate.restart_ms));
    let waits =
        jobs.iter().filter_map(|(job, fate)| Some(fate.first_admitted_at_ms? - job.arrival_ms));
    let turnarounds: Vec<u64> =
        jobs.iter().filter_map(|(job, fate)| Some(fate.ended_at_ms? - job.arrival_ms)).collect();
    Figures {
        workloads: count(jobs.len()),
        finished: count(turnarounds.len()),
        admissions: jobs.iter().map(|(_, fate)| u64::from(fate.admissions)).sum(),
        preemptions: jobs.iter().map(|(_, fate)| u64::from(fate.preemptions)).sum(),
        waiting: WaitingTimes::of(waits.collect()),
        turnaround_mean_ms: mean(&turnarounds),
        utilisation_permille: part(held),
        useful_permille: part(useful),
        held_device_ms: scaled(held),
        useful_device_ms: scaled(useful),
        lost_device_ms: scaled(lost + restart),
        lost_work_device_ms: scaled(lost),
        restart_device_ms: scaled(restart),
        saving_device_ms: scaled(device_ms(|fate| fate.saving_ms)),
        saved_device_ms: scaled(device_ms(|fate| fate.spared_ms)),
    }
}

impl WaitingTimes {
    fn of(mut waits_ms: Vec<u64>) -> Self {
        waits_ms.sort_unstable();
        let rank = |percent: usize| {
            let rank = (waits_ms.len() * percent).div_ceil(100).max(1) - 1;
            waits_ms.get(rank).copied().unwrap_or(0)
        };
        Self {
            mean_ms: mean(&waits_ms),
            p50_ms: rank(50),
            p95_ms: rank(95),
            max_ms: waits_ms.last().copied().unwrap_or(0),
        }
    }
}

fn mean(values: &[u64]) -> u64 {
    let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
    to_u64(sum.checked_div(values.len() as u128).unwrap_or(0))
}

fn to_u64(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// Jain's index of the speeds of queues that have workloads: (Σx)² / (n · Σx²).
fn fairness_permille<'a>(
    queues: impl Iterator<Item = &'a Vec<(&'a Job, &'a Fate)>>,
    measured: &Measured,
    ended_at_ms: u64,
) -> u64 {
    let (mut number, mut sum, mut squares) = (0_u128, 0_u128, 0_u128);
    for jobs in queues {
        let (mut useful, mut present) = (0_u128, 0_u128);
        for (job, fate) in jobs {
            let devices = u128::from(job.total(&measured.resource).unsigned_abs().max(1));
            let until_ms = fate.ended_at_ms.unwrap_or(ended_at_ms);
            useful = devices.saturating_mul(fate.useful_ms.into()).saturating_add(useful);
            let present_ms = until_ms.saturating_sub(job.arrival_ms);
            present = devices.saturating_mul(present_ms.into()).saturating_add(present);
        }
        // Millionths are fine enough, and their squares are far from the end of 128 bits.
        if let Some(speed) = useful.saturating_mul(1_000_000).checked_div(present) {
            number += 1;
            sum += speed;
            squares += speed * speed;
        }
    }
    to_u64((sum * sum * 1_000).checked_div(number * squares).unwrap_or(1_000))
}

#[cfg(test)]
mod tests;
