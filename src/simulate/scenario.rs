//! What is simulated: queues, nodes, workloads and the rules, ready to run.

use sluice_core::kueue::name::{QueueName, ResourceName};
use sluice_core::kueue::snapshot::Setup;
use sluice_core::kueue::workload::{Requests, TopologyRequest};

use super::execution::Work;

/// Most workloads of one simulation.
pub const JOBS_MAX: usize = 1_000_000;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Queues, flavors, topologies and nodes.
    pub setup: Setup,
    /// The workloads, by arrival; equal ones in the order of the trace.
    pub jobs: Vec<Job>,
    /// How victims are chosen.
    pub policy: PolicyName,
    /// Whether queues share by fair shares instead of by priority and quota.
    pub is_fair_sharing: bool,
    /// The resource that utilisation and lost work are counted in.
    pub measured: Measured,
    /// Time from a kill until the devices are free. Unit: milliseconds.
    pub kill_grace_ms: u64,
    /// When the simulation is cut off, in virtual milliseconds; `None` means that it goes on until nothing runs or can
    /// be admitted.
    pub end_ms: Option<u64>,
    /// What is simulated otherwise than written, one sentence each.
    pub warnings: Vec<String>,
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Unique in the scenario.
    pub name: String,
    /// Workloads of one class are summed up together.
    pub class: String,
    /// Its cluster queue.
    pub queue: QueueName,
    /// When it is submitted, in virtual milliseconds.
    pub arrival_ms: u64,
    /// Ranks, all of which run or none does. Range: 1 or more.
    pub ranks: u32,
    /// What one rank requests.
    pub requests: Requests,
    /// Higher goes first.
    pub priority: i32,
    /// What it does when it runs.
    pub work: Work,
    /// How its ranks must lie to each other.
    pub topology: Option<TopologyRequest>,
}

impl Job {
    /// What all its ranks take of `resource` together, in the engine's unit.
    #[must_use]
    pub fn total(&self, resource: &ResourceName) -> i64 {
        let per_rank = self.requests.get(resource).copied().unwrap_or(0);
        per_rank.saturating_mul(i64::from(self.ranks))
    }
}

/// The resource that utilisation and lost work are counted in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Its name.
    pub resource: ResourceName,
    /// How much of it there is: what the queues' own quotas add up to, or what the nodes have if that is less and pods
    /// are placed on them. Unit: the engine's, thousandths for `cpu`.
    pub capacity: i64,
}

impl Measured {
    /// How many of the engine's units are one of what people count: 1000 for `cpu`, else 1.
    #[must_use]
    pub fn scale(&self) -> u64 {
        if self.resource.as_str() == "cpu" { 1_000 } else { 1 }
    }

    /// What people call one of it: `GPU`, `core`, `TPU`, else `device`.
    #[must_use]
    pub fn noun(&self) -> &'static str {
        match self.resource.as_str() {
            "cpu" => "core",
            "google.com/tpu" => "TPU",
            name if name.ends_with("/gpu") => "GPU",
            _ => "device",
        }
    }
}

/// Which rules choose victims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyName {
    /// The least work lost first, among those that Kueue's rules allow.
    #[default]
    Sluice,
    /// As Kueue chooses.
    Compat,
}

/// How a victim leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It is killed at once: what was not saved is done again.
    Kill,
    /// It saves first, if it can.
    Drain,
}

impl Mode {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Drain => "drain",
        }
    }
}
