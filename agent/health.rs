//! The health of this node's devices: one task owns core's judge, and gives it what the sensors see.
//!
//! It waits for nothing that may hang: the kernel's log and the driver are read elsewhere, what has to be kept over a
//! restart of the agent is written by another thread. Others read its newest [`HealthView`].

mod inject;
mod keep;
#[cfg(test)]
mod tests;
mod workers;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_core::health::kmsg::{KernelEvent, KernelLog, LogCounters, Occurrence};
use sluice_core::health::{Change, Input, Judge, Standing, Verdict};
use sluice_core::id::WorkerId;
use sluice_core::reason::Reason;
use sluice_core::sample::{PciAddress, ProcessTableSample};
use sluice_core::unit::Time;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{info, warn};

use crate::clock;
use crate::config::Config;
use crate::report::{Identity, View};
use crate::run::sensors::Sensors;
use crate::sensor::Reading;
use crate::sensor::gpu::GpuSensor;
use crate::sensor::kmsg::{self, Batch, LogConfig};

pub(crate) use self::inject::Injected;

use self::keep::{Keeper, Kept};
use self::workers::WorkerFaults;

/// Tellings of the kernel's log that may wait. The reader waits then, and the kernel counts what is overwritten.
const BATCHES_MAX: usize = 8;

/// Requests of people that may wait.
const REQUESTS_MAX: usize = 16;

/// How often what is old is looked for.
const TICK: Duration = Duration::from_secs(60);

/// Codes that are counted, all devices together; the table has 170, and a node has 16 GPUs.
const COUNTS_MAX: usize = 1_024;

/// What is known of health.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HealthView {
    /// The verdict on each device of which something was said.
    pub(crate) devices: BTreeMap<PciAddress, Verdict>,
    /// The verdict on every other device; `None` before the first.
    pub(crate) others: Option<Verdict>,
    /// The verdict on the node; `None` before the first.
    pub(crate) node: Option<Verdict>,
    /// Errors that programs met.
    pub(crate) workers: BTreeMap<WorkerId, Reason>,
    /// How often each Xid was printed of each device.
    pub(crate) xids: BTreeMap<(PciAddress, u32), u64>,
    /// How the kernel's log is read.
    pub(crate) counters: LogCounters,
    /// Number of the newest record.
    pub(crate) last: Option<u64>,
    /// Why the kernel's log is not read; empty while it is.
    pub(crate) problem: String,
}

impl HealthView {
    /// The verdict on the device at `pci`; `None` before the first.
    pub(crate) fn device(&self, pci: Option<PciAddress>) -> Option<&Verdict> {
        let own = pci.and_then(|pci| self.devices.get(&PciAddress { function: 0, ..pci }));
        own.or(self.others.as_ref())
    }
}

/// What people ask for.
#[derive(Debug)]
pub(crate) enum Request {
    /// Takes a message that nobody wrote as if the kernel had.
    Inject {
        /// The message.
        fault: Injected,
        /// The record as the parser was given it.
        reply: oneshot::Sender<String>,
    },
    /// Forgets what stands against the device.
    Clear {
        /// Where it is.
        pci: PciAddress,
        /// How many faults that were.
        reply: oneshot::Sender<u32>,
    },
}

/// What the task works with.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Which boot this is.
    pub(crate) boot_id: String,
    /// What the driver and the bus say. `None`: they are not asked.
    pub(crate) gpus: Option<GpuSensor>,
    /// Processes, to find whose one is.
    pub(crate) processes: watch::Receiver<Reading<ProcessTableSample>>,
    /// Workers, likewise.
    pub(crate) view: watch::Receiver<Arc<View>>,
}

impl Parts {
    /// The task's share of what the agent has.
    pub(crate) fn of(
        identity: &Identity,
        sensors: &Sensors,
        view: &watch::Receiver<Arc<View>>,
    ) -> Self {
        Self {
            boot_id: identity.boot_id.clone(),
            gpus: sensors.gpus.clone(),
            processes: sensors.processes.clone(),
            view: view.clone(),
        }
    }
}

/// The running task.
#[derive(Debug)]
pub(crate) struct Health {
    /// What is known.
    pub(crate) view: watch::Receiver<Arc<HealthView>>,
    /// Where people's requests go.
    pub(crate) requests: mpsc::Sender<Request>,
}

/// Starts the task and the reader of the kernel's log.
///
/// # Errors
/// The system refuses a thread.
pub(crate) fn start(config: &Config, agent_dir: &Path, parts: Parts) -> Result<Health, String> {
    let now = clock::now();
    let (keeper, kept) = Keeper::open(agent_dir.join("health.json"), parts.boot_id)?;
    let mut judge = Judge::new(now, kmsg::table());
    judge.restore(kept.standing.clone(), kept.has_rebooted);
    if let Some(version) = driver_version(&config.host_root) {
        judge.step(now, Input::DriverVersion(&version));
    }
    let (told, batches) = mpsc::channel(BATCHES_MAX);
    if let Some(path) = config.kmsg.clone() {
        let (last, counters) = (kept.last, kept.counters);
        let accepts_all = config.is_any_facility_taken;
        let config = LogConfig { path, accepts_all, last, counters };
        kmsg::spawn(config, told).map_err(|error| {
            format!("could not start the thread for the kernel's log: {error}; raise the limit on threads")
        })?;
    }
    let (requests, asked) = mpsc::channel(REQUESTS_MAX);
    let (view, view_reader) = watch::channel(Arc::new(HealthView::default()));
    let mut task = Task {
        judge,
        keeper,
        view,
        gpus: parts.gpus,
        processes: parts.processes,
        workers: WorkerFaults::new(parts.view),
        injected: KernelLog::new(None, LogCounters::default(), true),
        injections: 0,
        kept,
        problem: String::new(),
    };
    task.publish();
    tokio::spawn(task.run(batches, asked));
    Ok(Health { view: view_reader, requests })
}

/// Version of the driver's kernel module, which says how to read some of its messages. `None`: none is loaded.
fn driver_version(host_root: &Path) -> Option<String> {
    let version = std::fs::read_to_string(host_root.join("sys/module/nvidia/version")).ok()?;
    Some(version.trim().to_owned())
}

struct Task {
    judge: Judge,
    keeper: Arc<Keeper>,
    view: watch::Sender<Arc<HealthView>>,
    gpus: Option<GpuSensor>,
    processes: watch::Receiver<Reading<ProcessTableSample>>,
    workers: WorkerFaults,
    /// Messages that nobody wrote.
    injected: KernelLog,
    injections: u64,
    /// What has to last: faults, the place in the log, counts.
    kept: Kept,
    problem: String,
}

impl Task {
    async fn run(mut self, mut batches: mpsc::Receiver<Batch>, mut asked: mpsc::Receiver<Request>) {
        let mut ticks = tokio::time::interval(TICK);
        let (mut has_log, mut has_processes) = (true, true);
        loop {
            tokio::select! {
                batch = batches.recv(), if has_log => match batch {
                    Some(batch) => self.batch(batch),
                    None => has_log = false,
                },
                is_open = changed(&mut self.gpus) => if is_open { self.look() } else { self.gpus = None },
                is_open = self.processes.changed(), if has_processes => {
                    has_processes = is_open.is_ok();
                    let table = self.processes.borrow_and_update().value.clone();
                    self.workers.attribute(table.as_ref());
                }
                request = asked.recv() => match request {
                    Some(request) => self.request(request),
                    None => return,
                },
                _ = ticks.tick() => {
                    self.step(Input::Tick);
                    self.save_news();
                }
            }
            self.publish();
        }
    }

    fn batch(&mut self, batch: Batch) {
        for event in &batch.events {
            self.event(event);
        }
        self.kept.last = batch.last;
        self.kept.counters = batch.counters;
        self.problem = batch.problem.unwrap_or_default();
        self.save();
    }

    fn event(&mut self, event: &KernelEvent) {
        if let Occurrence::Xid { line, .. } = &event.what {
            let key = (line.pci, line.code);
            if self.kept.xids.len() < COUNTS_MAX || self.kept.xids.contains_key(&key) {
                let count = self.kept.xids.entry(key).or_insert(0);
                *count = count.saturating_add(event.count);
            }
        }
        let at = Time(event.uptime_us / 1_000);
        self.step(Input::Kernel { event, at });
    }

    fn look(&mut self) {
        let sample = self.gpus.as_ref().and_then(|gpus| gpus.table(Instant::now()).value);
        if let Some(sample) = sample {
            self.step(Input::Look(&sample));
            self.save_news();
        }
    }

    fn step(&mut self, input: Input<'_>) {
        for change in self.judge.step(clock::now(), input) {
            match change {
                Change::Device(pci) => {
                    let verdict = self.judge.own_verdict(pci);
                    told(&format!("device {pci}"), &verdict);
                }
                Change::Node => told("node", &self.judge.node_verdict()),
                Change::Worker { pid, reason, .. } => {
                    let table = self.processes.borrow().value.clone();
                    self.workers.met(pid, reason, table.as_ref());
                }
            }
        }
    }

    fn request(&mut self, request: Request) {
        match request {
            Request::Inject { fault, reply } => {
                self.injections += 1;
                let uptime_us = clock::now().0.saturating_mul(1_000);
                let record = fault.record(self.injections, uptime_us);
                warn!(record, "a fault that nobody saw is taken as if the kernel had told it");
                if let Some(event) = self.injected.take(record.as_bytes()) {
                    self.event(&event);
                }
                for event in self.injected.repeats() {
                    self.event(&event);
                }
                self.save();
                // The caller may have given up.
                let _ = reply.send(record);
            }
            Request::Clear { pci, reply } => {
                let before = self.judge.device_verdict(pci).faults.len();
                self.step(Input::Cleared(pci));
                let cleared = before.saturating_sub(self.judge.device_verdict(pci).faults.len());
                info!(%pci, cleared, "faults were cleared on request");
                self.save();
                let _ = reply.send(u32::try_from(cleared).unwrap_or(u32::MAX));
            }
        }
    }

    fn publish(&mut self) {
        self.workers.forget_gone();
        let devices = self.judge.devices().map(|pci| (pci, self.judge.device_verdict(pci)));
        let view = HealthView {
            devices: devices.collect(),
            others: Some(self.judge.others_verdict()),
            node: Some(self.judge.node_verdict()),
            workers: self.workers.known().clone(),
            xids: self.kept.xids.clone(),
            counters: self.kept.counters,
            last: self.kept.last,
            problem: self.problem.clone(),
        };
        self.view.send_if_modified(|known| {
            let is_new = **known != view;
            if is_new {
                *known = Arc::new(view);
            }
            is_new
        });
    }

    /// Notes down what a look or time has changed; that something was merely seen again is not worth a write.
    fn save_news(&mut self) {
        let timeless = |standing: &[Standing]| {
            let mut standing = standing.to_vec();
            standing.iter_mut().filter_map(|s| s.fault.as_mut()).for_each(|f| f.seen_at = f.since);
            standing
        };
        if timeless(&self.judge.standing()) != timeless(&self.kept.standing) {
            self.save();
        }
    }

    /// Notes down what has to last.
    fn save(&mut self) {
        self.kept.standing = self.judge.standing();
        if self.keeper.submit(self.kept.clone()) {
            let keeper = self.keeper.clone();
            tokio::task::spawn_blocking(move || keeper.write_all());
        }
    }
}

fn told(of: &str, verdict: &Verdict) {
    let reason = verdict.reason().map(ToString::to_string).unwrap_or_default();
    let code = verdict.reason().map(Reason::code).unwrap_or_default();
    let (health, action) = (verdict.health, verdict.action);
    if health == sluice_core::protocol::Health::Healthy {
        info!(of, ?health, %action, reason = code, "{reason}");
    } else {
        warn!(of, ?health, %action, reason = code, "{reason}");
    }
}

/// `false`: the sensor is gone. Without one it waits for ever.
async fn changed(gpus: &mut Option<GpuSensor>) -> bool {
    match gpus {
        Some(gpus) => gpus.changed().await,
        None => std::future::pending().await,
    }
}
