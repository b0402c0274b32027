//! What Prometheus reads. Base units; counters count what became durable.

mod serve;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use sluice_core::arbiter::{Arbiter, Decision};
use sluice_core::drain::{Drain, DrainState};
use sluice_core::id::DrainId;
use sluice_core::workload::Phase;

pub(crate) use serve::serve;

/// Device seconds. Floating point: only shown, never decided by.
type Seconds = Counter<f64, AtomicU64>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabel {
    phase: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    queue: String,
    flavor: String,
    resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    kind: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModeLabel {
    mode: String,
}

/// All metrics of the arbiter.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    agents_connected: Gauge,
    workloads: Family<PhaseLabel, Gauge>,
    queue_usage: Family<QueueLabels, Gauge>,
    queue_quota: Family<QueueLabels, Gauge>,
    drains: Family<StateLabel, Gauge>,
    epoch: Gauge,
    frozen: Gauge,
    decisions: Family<DecisionLabels, Counter>,
    drain_duration: Family<ModeLabel, Histogram>,
    lost: Seconds,
    saved: Seconds,
    idle: Seconds,
    at_risk: Seconds,
    restart: Seconds,
    step_duration: Histogram,
    commit_duration: Histogram,
    /// What of each drain is counted already.
    counted: Mutex<BTreeMap<DrainId, Counted>>,
}

/// What of one drain is counted already. Unit: device-milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counted {
    lost: u64,
    saved: u64,
    idle: u64,
    at_risk: u64,
    restart: u64,
    freed: bool,
}

fn drain_histogram() -> Histogram {
    // From 0.1 s (nothing to wait for) to an hour (a deadline of long ago).
    Histogram::new(exponential_buckets(0.1, 2.0, 16))
}

fn short_histogram() -> Histogram {
    // From 10 µs to 10 s.
    Histogram::new(exponential_buckets(0.000_01, 4.0, 11))
}

impl Metrics {
    /// Metrics of an arbiter that takes up `drains`: what those cost was counted by an earlier process.
    pub(crate) fn new(drains: &BTreeMap<DrainId, Drain>) -> Self {
        let counted = drains.iter().map(|(id, drain)| (id.clone(), Counted::of(drain))).collect();
        let mut metrics = Self {
            registry: Registry::with_prefix("sluice_arbiter"),
            agents_connected: Gauge::default(),
            workloads: Family::default(),
            queue_usage: Family::default(),
            queue_quota: Family::default(),
            drains: Family::default(),
            epoch: Gauge::default(),
            frozen: Gauge::default(),
            decisions: Family::default(),
            drain_duration: Family::new_with_constructor(drain_histogram),
            lost: Seconds::default(),
            saved: Seconds::default(),
            idle: Seconds::default(),
            at_risk: Seconds::default(),
            restart: Seconds::default(),
            step_duration: short_histogram(),
            commit_duration: short_histogram(),
            counted: Mutex::new(counted),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let r = &mut self.registry;
        r.register("agents_connected", "Agents whose stream is up", self.agents_connected.clone());
        r.register("workloads", "Workloads by phase", self.workloads.clone());
        r.register("queue_usage", "Used or reserved, in whole units", self.queue_usage.clone());
        r.register("queue_quota", "Nominal quota, in whole units", self.queue_quota.clone());
        r.register("drains", "Drains by state", self.drains.clone());
        r.register("epoch", "Epoch of this arbiter", self.epoch.clone());
        r.register("frozen", "1 while no new decisions are made", self.frozen.clone());
        r.register("decisions", "Decisions by kind and reason", self.decisions.clone());
        let duration = self.drain_duration.clone();
        let help = "From the plan of a drain until its devices were free";
        r.register_with_unit("drain_duration", help, Unit::Seconds, duration);
        let help = "Work lost by drains, in device seconds";
        r.register_with_unit("lost_device", help, Unit::Seconds, self.lost.clone());
        let help = "Work that was at risk when a drain was planned and is saved, in device seconds";
        r.register_with_unit("saved_device", help, Unit::Seconds, self.saved.clone());
        let help = "Devices held without work while they were released, in device seconds";
        r.register_with_unit("idle_device", help, Unit::Seconds, self.idle.clone());
        let help = "Work in no checkpoint when a drain was planned, in device seconds";
        r.register_with_unit("at_risk_device", help, Unit::Seconds, self.at_risk.clone());
        let help = "Restarts after drains, in device seconds";
        r.register_with_unit("restart_device", help, Unit::Seconds, self.restart.clone());
        let help = "One step of the arbiter's logic";
        r.register_with_unit("step_duration", help, Unit::Seconds, self.step_duration.clone());
        let help = "One durable write";
        r.register_with_unit("store_commit", help, Unit::Seconds, self.commit_duration.clone());
    }

    /// Counts the time of one step.
    pub(crate) fn stepped(&self, elapsed: Duration) {
        self.step_duration.observe(elapsed.as_secs_f64());
    }

    /// Counts the time of one durable write.
    pub(crate) fn committed(&self, elapsed: Duration) {
        self.commit_duration.observe(elapsed.as_secs_f64());
    }

    /// Counts a decision.
    pub(crate) fn decided(&self, decision: &Decision) {
        let labels =
            DecisionLabels { kind: decision.kind.as_str(), reason: decision.reason.code() };
        self.decisions.get_or_create(&labels).inc();
    }

    /// Counts what a drain has cost since it was last looked at; `None` if it was forgotten.
    pub(crate) fn drain_changed(&self, id: &DrainId, drain: Option<&Drain>) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(drain) = drain else {
            counted.remove(id);
            return;
        };
        let now = Counted::of(drain);
        let before = counted.insert(id.clone(), now).unwrap_or_default();
        drop(counted);
        for (counter, now, before) in [
            (&self.lost, now.lost, before.lost),
            (&self.saved, now.saved, before.saved),
            (&self.idle, now.idle, before.idle),
            (&self.at_risk, now.at_risk, before.at_risk),
            (&self.restart, now.restart, before.restart),
        ] {
            counter.inc_by(seconds(now.saturating_sub(before)));
        }
        if now.freed && !before.freed {
            let freed = drain.history.iter().find(|t| t.state == DrainState::Freed);
            let took_ms = freed.map_or(0, |t| t.at.ms_since(drain.planned_at));
            let labels = ModeLabel { mode: drain.plan.mode.to_string() };
            self.drain_duration.get_or_create(&labels).observe(seconds(took_ms));
        }
    }

    /// Takes down how things stand.
    pub(crate) fn look(&self, arbiter: &Arbiter, agents_connected: u64) {
        self.agents_connected.set(gauge(agents_connected));
        self.epoch.set(gauge(arbiter.epoch()));
        self.frozen.set(i64::from(arbiter.frozen().is_some()));
        let mut phases = BTreeMap::from(PHASES.map(|phase| (phase, 0)));
        for workload in arbiter.workloads().values() {
            *phases.entry(workload.phase).or_default() += 1;
        }
        for (phase, count) in phases {
            self.workloads.get_or_create(&PhaseLabel { phase: phase_name(phase) }).set(count);
        }
        let mut states = BTreeMap::from(DrainState::ALL.map(|state| (state, 0)));
        for drain in arbiter.drains().values() {
            *states.entry(drain.state).or_default() += 1;
        }
        for (state, count) in states {
            let state = state.to_string().to_lowercase();
            self.drains.get_or_create(&StateLabel { state }).set(count);
        }
        for queue in &arbiter.queues().setup.queues {
            let Ok(name) = queue.name.as_str().parse() else { continue };
            for usage in arbiter.usage(&name) {
                let labels = QueueLabels {
                    queue: queue.name.to_string(),
                    flavor: usage.flavor.clone(),
                    resource: usage.resource.to_string(),
                };
                self.queue_usage.get_or_create(&labels).set(gauge(usage.used));
                self.queue_quota.get_or_create(&labels).set(gauge(usage.nominal));
            }
        }
    }
}

impl Counted {
    fn of(drain: &Drain) -> Self {
        Self {
            lost: drain.account.lost_device_ms,
            saved: drain.account.saved_device_ms,
            idle: drain.account.idle_device_ms,
            at_risk: drain.account.at_risk_device_ms,
            restart: drain.account.restart_ms.unwrap_or(0).saturating_mul(drain.device_count()),
            freed: drain.history.iter().any(|t| t.state == DrainState::Freed),
        }
    }
}

const PHASES: [Phase; 7] = [
    Phase::Pending,
    Phase::Admitted,
    Phase::Running,
    Phase::Draining,
    Phase::Succeeded,
    Phase::Failed,
    Phase::Cancelled,
];

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "pending",
        Phase::Admitted => "admitted",
        Phase::Running => "running",
        Phase::Draining => "draining",
        Phase::Succeeded => "succeeded",
        Phase::Failed => "failed",
        Phase::Cancelled => "cancelled",
    }
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}
