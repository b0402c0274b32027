//! Workloads made by a rule: so many of a kind for each of these queues. Seeded; integers only.

use std::collections::BTreeMap;

use fastrand::Rng;
use serde::Deserialize;
use sluice_core::kueue::name::QueueName;

use super::amount::Written;
use super::row::{Bad, QueueNames, Row, TopologyWord, span};
use super::scenario::{JOBS_MAX, Job};

/// Workloads of one kind, for each of some queues.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Generator {
    /// Names the workloads, and what is summed up together.
    pub class: String,
    /// Which cluster queues get them; `*` stands for any text.
    #[serde(default = "every_queue")]
    pub queues: String,
    /// Workloads per queue.
    pub count: u32,
    #[serde(default)]
    pub first_arrival_ms: u64,
    /// Time between two arrivals in one queue.
    #[serde(default)]
    pub interval_ms: u64,
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Workloads that arrive together; `interval_ms` lies between groups.
    #[serde(default = "one")]
    pub burst: u32,
    #[serde(default)]
    pub duration_spread_percent: u32,
    pub duration_ms: u64,
    pub ranks: Option<u32>,
    pub priority: Option<i32>,
    pub start_cost_ms: Option<u64>,
    pub step_ms: Option<u64>,
    pub save_interval_ms: Option<u64>,
    pub save_duration_ms: Option<u64>,
    pub save_in_background: Option<bool>,
    pub topology: Option<TopologyWord>,
    pub topology_level: Option<String>,
    pub slice_level: Option<String>,
    pub slice_ranks: Option<u32>,
    #[serde(default)]
    pub resources: BTreeMap<String, Written>,
}

/// How arrivals lie to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Arrivals {
    /// Always the same interval.
    #[default]
    Even,
    /// Any interval from 0 to twice the given one, all equally likely.
    Random,
}

fn every_queue() -> String {
    "*".to_owned()
}

fn one() -> u32 {
    1
}

impl Generator {
    /// The workloads of this generator, the `index`-th of the file.
    pub(super) fn jobs(
        &self,
        index: usize,
        cluster_queues: &[QueueName],
        seed: u64,
    ) -> Result<Vec<Job>, Bad> {
        let queues: Vec<&QueueName> =
            cluster_queues.iter().filter(|name| matches(&self.queues, name.as_str())).collect();
        if queues.is_empty() {
            return Err(Bad::new(
                "queues",
                format!("is {:?}, which no cluster queue matches", self.queues),
            ));
        }
        if self.count as usize > JOBS_MAX || self.count as usize * queues.len() > JOBS_MAX {
            let problem = format!(
                "is {} for each of {} queues, more than {JOBS_MAX} workloads",
                self.count,
                queues.len()
            );
            return Err(Bad::new("count", problem));
        }
        self.check()?;
        let template = self.template().to_job(&QueueNames(
            queues.iter().map(|name| (name.to_string(), (*name).clone())).take(1).collect(),
        ))?;
        let mut jobs = Vec::new();
        for (position, queue) in (0_u64..).zip(queues) {
            let mut rng = Rng::with_seed(mix(seed, index as u64, position));
            let mut arrival_ms = self.first_arrival_ms;
            for number in 0..self.count {
                if number > 0 && number % self.burst == 0 {
                    arrival_ms += self.gap_ms(&mut rng);
                }
                let mut job = template.clone();
                job.name = format!("{}-{}-{index}-{number}", self.class, queue.as_str());
                job.queue = queue.clone();
                job.arrival_ms = arrival_ms;
                job.work.duration_ms = self.spread_ms(&mut rng);
                jobs.push(job);
            }
        }
        Ok(jobs)
    }

    fn check(&self) -> Result<(), Bad> {
        span("first_arrival_ms", self.first_arrival_ms, 0)?;
        span("interval_ms", self.interval_ms, 0)?;
        if self.burst == 0 {
            return Err(Bad::new("burst", "is 0 but must be 1 or more"));
        }
        if self.duration_spread_percent > 100 {
            let problem = format!("is {} but must be from 0 to 100", self.duration_spread_percent);
            return Err(Bad::new("duration_spread_percent", problem));
        }
        let last_ms = u64::from(self.count).saturating_mul(self.interval_ms.saturating_mul(2));
        span("interval_ms (times count)", last_ms / 2, 0).map(|_| ())
    }

    fn template(&self) -> Row {
        Row {
            name: self.class.clone(),
            class: Some(self.class.clone()),
            queue: None,
            arrival_ms: self.first_arrival_ms,
            ranks: self.ranks,
            priority: self.priority,
            duration_ms: self.duration_ms,
            start_cost_ms: self.start_cost_ms,
            step_ms: self.step_ms,
            save_interval_ms: self.save_interval_ms,
            save_duration_ms: self.save_duration_ms,
            save_in_background: self.save_in_background,
            topology: self.topology,
            topology_level: self.topology_level.clone(),
            slice_level: self.slice_level.clone(),
            slice_ranks: self.slice_ranks,
            resources: self.resources.clone(),
        }
    }

    fn gap_ms(&self, rng: &mut Rng) -> u64 {
        match self.arrivals {
            Arrivals::Even => self.interval_ms,
            Arrivals::Random => rng.u64(0..=self.interval_ms * 2),
        }
    }

    /// The duration, up to `duration_spread_percent` shorter or longer; at least 1 ms.
    fn spread_ms(&self, rng: &mut Rng) -> u64 {
        let spread_ms = self.duration_ms * u64::from(self.duration_spread_percent) / 100;
        if spread_ms == 0 {
            return self.duration_ms;
        }
        (self.duration_ms - spread_ms + rng.u64(0..=spread_ms * 2)).max(1)
    }
}

/// One number of three, so that no two series of random numbers are alike.
fn mix(seed: u64, index: u64, position: u64) -> u64 {
    // Odd constants of the golden ratio and of the splitmix64 generator.
    seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_add(position.wrapping_mul(0xbf58_476d_1ce4_e5b9))
}

/// Whether `name` is `pattern`, in which `*` stands for any text.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests;
