//! One workload as a trace or a generator describes it, checked field by field.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use sluice_core::kueue::name::QueueName;
use sluice_core::kueue::workload::{Requests, TopologyMode, TopologyRequest};

use super::amount::{self, Written};
use super::execution::{Saves, Work};
use super::scenario::Job;

/// Longest time that may be asked for: ten years. Sums of a million of them fit in 64 bits.
pub(super) const SPAN_MS_MAX: u64 = 315_360_000_000;
/// Most ranks of one workload.
const RANKS_MAX: u32 = 100_000;
/// Longest name. Kubernetes allows 253.
const NAME_BYTES_MAX: usize = 253;

/// A workload as a trace describes it. The names of the fields are those of the columns.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub name: String,
    pub queue: Option<String>,
    pub class: Option<String>,
    #[serde(default)]
    pub arrival_ms: u64,
    pub ranks: Option<u32>,
    pub priority: Option<i32>,
    pub duration_ms: u64,
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

/// How the ranks must lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TopologyWord {
    Required,
    Preferred,
    Unconstrained,
}

/// A field that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bad {
    /// The field or column.
    pub field: String,
    /// What is wrong with it, from "is" on.
    pub problem: String,
}

impl Bad {
    pub(super) fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), problem: problem.into() }
    }
}

/// The cluster queues that workloads may name, by each name that leads to one.
#[derive(Clone, Debug, Default)]
pub(super) struct QueueNames(pub BTreeMap<String, QueueName>);

impl QueueNames {
    /// The queue called `name`; the only one there is if none is named.
    fn find(&self, name: Option<&str>) -> Result<QueueName, Bad> {
        let Some(name) = name else {
            let queues: BTreeSet<&QueueName> = self.0.values().collect();
            return match (queues.first(), queues.len()) {
                (Some(only), 1) => Ok((*only).clone()),
                (Some(_) | None, _) => {
                    Err(Bad::new("queue", "is absent, but there are several queues; name one"))
                }
            };
        };
        self.0.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().take(5).map(String::as_str).collect();
            let problem =
                format!("is {name:?}, which no queue is called; known are {}", known.join(", "));
            Bad::new("queue", problem)
        })
    }
}

impl Row {
    /// The workload, if every field can be used.
    pub(super) fn to_job(&self, queues: &QueueNames) -> Result<Job, Bad> {
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX {
            let problem =
                format!("has {} bytes but must have 1 to {NAME_BYTES_MAX}", self.name.len());
            return Err(Bad::new("name", problem));
        }
        let ranks = self.ranks.unwrap_or(1);
        if ranks == 0 || ranks > RANKS_MAX {
            return Err(Bad::new("ranks", format!("is {ranks} but must be from 1 to {RANKS_MAX}")));
        }
        let requests = requests(&self.resources)?;
        let is_too_much = |amount: &i64| amount.saturating_mul(ranks.into()) > amount::AMOUNT_MAX;
        if requests.values().any(is_too_much) {
            return Err(Bad::new(
                "ranks",
                format!("is {ranks}, and together they request more than 2^53"),
            ));
        }
        Ok(Job {
            name: self.name.clone(),
            class: self.class.clone().unwrap_or_else(|| "default".to_owned()),
            queue: queues.find(self.queue.as_deref())?,
            arrival_ms: span("arrival_ms", self.arrival_ms, 0)?,
            ranks,
            requests,
            priority: self.priority.unwrap_or(0),
            work: self.work()?,
            topology: self.topology()?,
        })
    }

    fn work(&self) -> Result<Work, Bad> {
        let work = Work {
            duration_ms: span("duration_ms", self.duration_ms, 1)?,
            start_cost_ms: span("start_cost_ms", self.start_cost_ms.unwrap_or(0), 0)?,
            step_ms: span("step_ms", self.step_ms.unwrap_or(0), 0)?,
            saves: None,
        };
        let Some(interval_ms) = self.save_interval_ms else {
            if self.save_duration_ms.is_some() || self.save_in_background.is_some() {
                let problem = "is absent, but other fields say how it saves; add it or drop them";
                return Err(Bad::new("save_interval_ms", problem));
            }
            return Ok(work);
        };
        let saves = Saves {
            interval_ms: span("save_interval_ms", interval_ms, 1)?,
            duration_ms: span("save_duration_ms", self.save_duration_ms.unwrap_or(0), 0)?,
            is_background: self.save_in_background.unwrap_or(false),
        };
        if saves.is_background && saves.duration_ms > saves.interval_ms {
            let (taken, interval) = (saves.duration_ms, saves.interval_ms);
            let problem = format!(
                "is {taken}, longer than save_interval_ms ({interval}): saves in the background would overlap"
            );
            return Err(Bad::new("save_duration_ms", problem));
        }
        Ok(Work { saves: Some(saves), ..work })
    }

    fn topology(&self) -> Result<Option<TopologyRequest>, Bad> {
        let level = self.topology_level.clone();
        let mode = match (self.topology, level) {
            (None, None) => None,
            (Some(TopologyWord::Unconstrained), None) => Some(TopologyMode::Unconstrained),
            (Some(TopologyWord::Required), Some(level)) => Some(TopologyMode::Required(level)),
            (Some(TopologyWord::Preferred), Some(level)) => Some(TopologyMode::Preferred(level)),
            (Some(TopologyWord::Required | TopologyWord::Preferred), None) => {
                return Err(Bad::new("topology_level", "is absent, but topology needs a level"));
            }
            (Some(TopologyWord::Unconstrained) | None, Some(_)) => {
                let problem = "is set, but topology is neither required nor preferred";
                return Err(Bad::new("topology_level", problem));
            }
        };
        match (&self.slice_level, self.slice_ranks) {
            (None, None) => {}
            (Some(_), Some(1..)) => {}
            (Some(_), None | Some(0)) => {
                return Err(Bad::new("slice_ranks", "must be 1 or more where slice_level is set"));
            }
            (None, Some(_)) => {
                return Err(Bad::new("slice_level", "is absent, but slice_ranks needs a level"));
            }
        }
        let is_asked = mode.is_some() || self.slice_level.is_some();
        Ok(is_asked.then(|| TopologyRequest {
            mode,
            slice_level: self.slice_level.clone(),
            slice_size: self.slice_ranks,
            ..TopologyRequest::default()
        }))
    }
}

/// `value_ms` if it is in range.
pub(super) fn span(field: &str, value_ms: u64, least_ms: u64) -> Result<u64, Bad> {
    if (least_ms..=SPAN_MS_MAX).contains(&value_ms) {
        return Ok(value_ms);
    }
    Err(Bad::new(field, format!("is {value_ms} but must be from {least_ms} to {SPAN_MS_MAX}")))
}

/// Amounts per resource in the engine's units; at least one above 0.
pub(super) fn requests(resources: &BTreeMap<String, Written>) -> Result<Requests, Bad> {
    let mut requests = Requests::new();
    for (name, Written(text)) in resources {
        let Some(amount) = amount::parse(name, text) else {
            return Err(Bad::new(name, format!("is {text:?} but must be {}", amount::EXPECTED)));
        };
        requests.insert(name.as_str().into(), amount);
    }
    if requests.values().all(|amount| *amount == 0) {
        let problem = "are absent or 0, but each rank must request something";
        return Err(Bad::new("resources", problem));
    }
    Ok(requests)
}
