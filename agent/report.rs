//! What a node says of itself: readings of sensors and the state of its workers, put into the contract's words.
//!
//! Nothing is sampled here. Every value carries its age, and what is not known is said to be unknown.

mod devices;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluice::wire::{field, health, node, pb, sample};
use sluice_core::agent::{Agent, Worker};
use sluice_core::checkpoint::{CheckpointScan, Incomplete};
use sluice_core::client::ClientProblem;
use sluice_core::id::WorkerId;
use sluice_core::unit::Time;
use tokio::sync::watch;

use crate::clock;
use crate::health::HealthView;
use crate::run::sensors::Sensors;
use crate::uplink::UplinkStatus;

pub(crate) use self::devices::devices;

/// Who this agent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Name of the node.
    pub(crate) node: String,
    /// Stays the same for the life of the state directory.
    pub(crate) node_uid: String,
    /// Which boot of the machine.
    pub(crate) boot_id: String,
    /// Changes with each start of this program.
    pub(crate) instance: String,
    /// Some accelerator is not real.
    pub(crate) is_simulated: bool,
    /// Labels of the node.
    pub(crate) labels: std::collections::BTreeMap<String, String>,
}

/// The state of workers and drains as it was at some moment.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// The state.
    pub(crate) agent: Agent,
    /// When it was so.
    pub(crate) at: Time,
}

/// Numbers that only rise, for metrics and status.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Reports sent to the arbiter.
    pub(crate) reports_sent: AtomicU64,
    /// Streams to the arbiter that came up.
    pub(crate) connects: AtomicU64,
    /// Save signals sent.
    pub(crate) save_signals_sent: AtomicU64,
    /// `SIGTERM` sent to release.
    pub(crate) term_signals_sent: AtomicU64,
    /// `SIGKILL` sent to release.
    pub(crate) kill_signals_sent: AtomicU64,
    /// Attempts to write the journal that failed.
    pub(crate) journal_failures: AtomicU64,
    /// Signals that could not be delivered.
    pub(crate) signals_failed: AtomicU64,
    /// Times a worker was told something through its files.
    pub(crate) client_orders: AtomicU64,
    /// Files of workers that were not used, in the order of [`ClientProblem::ALL`].
    pub(crate) client_files_refused: [AtomicU64; ClientProblem::ALL.len()],
}

impl Counters {
    /// The counter of files that were refused for `problem`.
    pub(crate) fn client_file(&self, problem: ClientProblem) -> &AtomicU64 {
        let index = ClientProblem::ALL.iter().position(|p| *p == problem);
        &self.client_files_refused[index.expect("the list holds every problem")]
    }
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Everything that can be told. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Reporter {
    /// Who this agent is.
    pub(crate) identity: Arc<Identity>,
    /// The sensors.
    pub(crate) sensors: Sensors,
    /// Workers and drains.
    pub(crate) view: watch::Receiver<Arc<View>>,
    /// Health of the devices.
    pub(crate) health: watch::Receiver<Arc<HealthView>>,
    /// The stream to the arbiter.
    pub(crate) uplink: watch::Receiver<UplinkStatus>,
    /// Numbers that only rise.
    pub(crate) counters: Arc<Counters>,
    /// The arbiter's address as configured.
    pub(crate) arbiter: Arc<str>,
    /// When this program started.
    pub(crate) started: Time,
    /// Time between two samples of the accelerators. Unit: ms.
    pub(crate) device_interval_ms: u64,
}

impl Reporter {
    /// The node now.
    pub(crate) fn report(&self) -> pb::NodeReport {
        let sample = self.sensors.sample();
        let view = self.view.borrow().clone();
        let judged = self.health.borrow().clone();
        let now = clock::now();
        let id = &self.identity;
        pb::NodeReport {
            node: id.node.clone(),
            node_uid: id.node_uid.clone(),
            boot_id: id.boot_id.clone(),
            devices: devices(&sample, &view, &judged, self.device_interval_ms, now),
            volumes: sample::volumes(&sample),
            workers: workers(&view, &judged, now),
            health: Some(node_health(&judged, now)),
            pressure: sample::pressure(&sample),
            simulated: id.is_simulated,
            labels: id.labels.clone(),
        }
    }

    /// The agent itself now.
    pub(crate) fn status(&self) -> pb::AgentStatus {
        let now = clock::now();
        let uplink = self.uplink.borrow().clone();
        pb::AgentStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: now.ms_since(self.started),
            arbiter: self.arbiter.to_string(),
            connected: uplink.connected,
            last_ack_age_ms: uplink.last_ack_at.map(|at| now.ms_since(at)),
            disconnect_reason: uplink.disconnect_reason,
            epoch: self.view.borrow().agent.epoch(),
            heartbeat_interval_ms: uplink.heartbeat_interval_ms,
            reports_sent: self.counters.reports_sent.load(Ordering::Relaxed),
            sensors: self.sensors.statuses(),
        }
    }

    /// Report and status together.
    pub(crate) fn answer(&self) -> pb::GetReportResponse {
        pb::GetReportResponse { report: Some(self.report()), status: Some(self.status()) }
    }

    /// Drains in which a worker of this node takes part.
    pub(crate) fn drains(&self) -> Vec<pb::NodeDrain> {
        drains(&self.view.borrow().clone(), clock::now())
    }
}

/// The node as a whole.
fn node_health(judged: &HealthView, now: Time) -> pb::NodeHealth {
    let log = health::kernel_log(&judged.counters, judged.last, &judged.problem);
    let Some(verdict) = &judged.node else {
        return pb::NodeHealth { kernel_log: Some(log), ..pb::NodeHealth::default() };
    };
    pb::NodeHealth {
        health: pb::Health::from(verdict.health).into(),
        action: health::action_out(verdict.action).into(),
        faults: health::faults(verdict, now),
        kernel_log: Some(log),
    }
}

/// The workers, their ages brought up to `now`.
pub(crate) fn workers(view: &View, health: &HealthView, now: Time) -> Vec<pb::Worker> {
    let passed_ms = now.ms_since(view.at);
    let known = view.agent.workers().iter();
    let told = known.filter_map(|(id, worker)| {
        let fault = health.workers.get(id).map(Into::into);
        Some(pb::Worker { device_fault: fault, ..one_worker(view, id, worker, passed_ms)? })
    });
    told.collect()
}

fn one_worker(view: &View, id: &WorkerId, worker: &Worker, passed_ms: u64) -> Option<pb::Worker> {
    let told = node::worker_out(id, &view.agent.report(id)?);
    let registration = &worker.registration;
    let incomplete = worker.scan.as_ref().and_then(newer_incomplete);
    Some(pb::Worker {
        pid: registration.pid,
        checkpoint_dir: registration.checkpoint_dir.clone(),
        checkpoint_format: pb::CheckpointFormat::from(registration.checkpoint_format).into(),
        incomplete_checkpoint: incomplete.map(|i| i.path.clone()).unwrap_or_default(),
        checkpoint_problem: worker.scan.as_ref().and_then(|scan| problem(scan, incomplete)),
        checkpoint_age_ms: told.checkpoint_age_ms.map(|age| age.saturating_add(passed_ms)),
        running_ms: told.running_ms.saturating_add(passed_ms),
        devices: field::texts(&registration.devices),
        processes: worker.processes,
        client_problem: worker.client.problem.map(|problem| pb::Reason {
            code: problem.code().to_owned(),
            message: problem.to_string(),
            ..pb::Reason::default()
        }),
        pod: registration.pod.as_ref().map(|pod| pod.name.clone()).unwrap_or_default(),
        pod_uid: registration.pod.as_ref().map(|pod| pod.uid.to_string()).unwrap_or_default(),
        ..told
    })
}

/// The newest entry that would be the newest checkpoint if it were complete.
fn newer_incomplete(scan: &CheckpointScan) -> Option<&Incomplete> {
    let newest = scan.newest().map(|c| c.step);
    let is_newer = |entry: &&Incomplete| match entry.step {
        Some(step) => newest.is_none_or(|newest| step > newest),
        None => entry.saving,
    };
    scan.incomplete.iter().find(is_newer)
}

fn problem(scan: &CheckpointScan, incomplete: Option<&Incomplete>) -> Option<pb::Reason> {
    let (code, message) = match (&scan.problem, incomplete) {
        (Some(problem), _) => (problem.code(), problem.to_string()),
        (None, Some(entry)) => (entry.reason.code(), entry.to_string()),
        (None, None) => return None,
    };
    Some(pb::Reason { code: code.to_owned(), message, ..pb::Reason::default() })
}

/// The drains, their remaining times as of `now`.
pub(crate) fn drains(view: &View, now: Time) -> Vec<pb::NodeDrain> {
    let drain = |hand: &sluice_core::agent::Hand| pb::NodeDrain {
        drain_id: hand.drain.to_string(),
        workload: hand.worker.workload.to_string(),
        attempt: hand.worker.attempt,
        rank: hand.worker.rank,
        epoch: hand.epoch,
        stage: hand.stage.as_str().to_owned(),
        remaining_ms: hand.stage.awaits_checkpoint().then(|| hand.deadline_at.ms_since(now)),
        mode: hand.mode.to_string(),
    };
    view.agent.hands().values().map(drain).collect()
}
