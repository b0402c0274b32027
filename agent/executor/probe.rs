//! Looks for the processes and devices of workers that are being ended, on a thread of its own.
//!
//! Reading `/proc` of a process that hangs in the kernel may hang too; then this thread does, and nothing else. Requests
//! are kept by worker, so there are never more than there are workers, and one pass serves all that are waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sluice_core::agent::Input;
use sluice_core::id::{DeviceId, WorkerId};
use sluice_core::sample::{DeviceFile, ProcessSample, ProcessState, ProcessTableSample};
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::Message;
use super::torn::Place;
use crate::pods::Pods;
use crate::report::{Counters, count};
use crate::sensor::gpu::GpuSensor;
use crate::sensor::process::{ProcessSensor, WatchedWorker};
use crate::sensor::simulated::is_simulated;
use crate::signals::{Ending, SignalError, Target};

/// Longest that one pass waits for a GPU's driver; the next pass waits again.
const DRIVER_WAIT: Duration = Duration::from_secs(2);

/// What is asked about one worker.
#[derive(Debug)]
struct Job {
    watched: WatchedWorker,
    devices: BTreeSet<DeviceId>,
    /// Where a torn checkpoint is put aside once nothing of it lives.
    torn: Option<Place>,
    /// What is left of it is ended.
    is_kill_due: bool,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: BTreeMap<WorkerId, Job>,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // A panic while it was held cannot leave a map half-changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's handle; the thread ends when it is dropped and its pass is over.
#[derive(Debug)]
pub(super) struct Prober {
    shared: Arc<Shared>,
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.shared.queue().is_closed = true;
        self.shared.wake.notify_one();
    }
}

impl Prober {
    pub(super) fn start(
        host_root: &Path,
        devices_dir: &Path,
        node_uid: &str,
        gpus: Option<GpuSensor>,
        pods: Pods,
        messages: mpsc::Sender<Message>,
        counters: Arc<Counters>,
    ) -> Result<Self, String> {
        let shared = Arc::new(Shared::default());
        let mut pass = Pass {
            sensor: ProcessSensor::new(host_root, Some(devices_dir)).only_of(node_uid),
            gpus,
            pods,
            messages,
            counters,
        };
        let theirs = shared.clone();
        thread::Builder::new()
            .name("prober".to_owned())
            .spawn(move || {
                while let Some(jobs) = take(&theirs) {
                    pass.run(&jobs);
                }
            })
            .map_err(|e| format!("could not start the prober's thread: {e}"))?;
        Ok(Self { shared })
    }

    /// Asks for the processes and busy devices of `worker`; the answer comes as [`Input::Holders`].
    pub(super) fn ask(
        &self,
        worker: WorkerId,
        watched: WatchedWorker,
        devices: BTreeSet<DeviceId>,
        torn: Option<Place>,
        is_kill_due: bool,
    ) {
        let mut queue = self.shared.queue();
        let was_due = queue.jobs.get(&worker).is_some_and(|job| job.is_kill_due);
        let is_kill_due = is_kill_due || was_due;
        queue.jobs.insert(worker, Job { watched, devices, torn, is_kill_due });
        drop(queue);
        self.shared.wake.notify_one();
    }
}

/// Waits for jobs; `None`: the agent stops.
fn take(shared: &Shared) -> Option<BTreeMap<WorkerId, Job>> {
    let queue = shared.queue();
    let waited = shared.wake.wait_while(queue, |q| q.jobs.is_empty() && !q.is_closed);
    let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
    if queue.is_closed { None } else { Some(std::mem::take(&mut queue.jobs)) }
}

struct Pass {
    sensor: ProcessSensor,
    gpus: Option<GpuSensor>,
    pods: Pods,
    messages: mpsc::Sender<Message>,
    counters: Arc<Counters>,
}

impl Pass {
    fn run(&mut self, jobs: &BTreeMap<WorkerId, Job>) {
        let started = Instant::now();
        let watched: Vec<WatchedWorker> = jobs.values().map(|job| job.watched.clone()).collect();
        let table = match self.sensor.sample(&watched) {
            Ok(table) => table,
            Err(why) => {
                // No answer: the state machine asks again, and nothing is taken for released meanwhile.
                warn!("processes of workers could not be looked for: {why}");
                return;
            }
        };
        for (worker, job) in jobs {
            let alive = alive(&table, &job.watched.marker);
            if job.is_kill_due {
                self.end(worker, &alive);
            }
            // What a cgroup holds counts also if the process table does not show it.
            let pod = job.watched.pod.as_ref();
            let is_hidden = alive.is_empty() && pod.is_some_and(|p| self.pods.is_populated(p));
            let is_alive = !alive.is_empty() || is_hidden;
            if let Some(place) = job.torn.as_ref().filter(|_| !is_alive) {
                place.put_torn_aside();
            }
            let Some(busy_devices) = self.busy(&job.devices, is_alive, started) else { continue };
            let input = Input::Holders {
                worker: worker.clone(),
                processes: u32::try_from(alive.len()).unwrap_or(u32::MAX).max(is_hidden.into()),
                busy_devices,
            };
            // A closed channel means that the agent is stopping.
            let _ = self.messages.blocking_send(Message::Input(input));
        }
    }

    fn end(&self, worker: &WorkerId, alive: &[&ProcessSample]) {
        for process in alive {
            let key = process.key;
            let ended = Target::open(key.pid, key.start_time_ticks)
                .and_then(|target| target.end(Ending::Kill));
            match ended {
                Ok(()) => {
                    count(&self.counters.kill_signals_sent);
                    info!(%worker, pid = key.pid, comm = process.comm, "ended a process that outlived its grace");
                }
                Err(SignalError::NoSuchProcess { .. } | SignalError::StaleTarget { .. }) => {}
                Err(why) => warn!(%worker, pid = key.pid, "could not end a process: {why}"),
            }
        }
    }

    /// Which of the worker's devices are in use; `None` if that cannot be told now. As long as any of its processes
    /// lives all of them are, since a process need not have opened what it may open.
    ///
    /// Processes whose files this agent may not list count as holding nothing: a simulated device lies in a directory
    /// of the agent's user alone, so only that user and root can have it open.
    /// A real device is in use as long as its driver says so, when asked after `moment`.
    fn busy(
        &mut self,
        devices: &BTreeSet<DeviceId>,
        is_alive: bool,
        moment: Instant,
    ) -> Option<BTreeSet<DeviceId>> {
        if is_alive {
            return Some(devices.clone());
        }
        let (simulated, real): (BTreeSet<DeviceId>, BTreeSet<DeviceId>) =
            devices.iter().cloned().partition(|id| is_simulated(id.as_str()));
        let mut busy = self.held(&simulated)?;
        for id in real {
            // Without an answer it cannot be told; an agent that asks no driver never can.
            if self.gpus.as_ref()?.is_busy(id.as_str(), moment, DRIVER_WAIT)? {
                busy.insert(id);
            }
        }
        Some(busy)
    }

    /// The simulated devices whose files somebody has open.
    fn held(&mut self, devices: &BTreeSet<DeviceId>) -> Option<BTreeSet<DeviceId>> {
        if devices.is_empty() {
            return Some(BTreeSet::new());
        }
        let file = |id: &DeviceId| DeviceFile::Simulated(id.to_string());
        let files: BTreeSet<DeviceFile> = devices.iter().map(file).collect();
        match self.sensor.holders(&files) {
            Ok((holders, _unreadable)) => {
                let held = |id: &&DeviceId| {
                    let opened = |p: &ProcessSample| {
                        p.devices.as_ref().is_none_or(|files| files.contains(&file(id)))
                    };
                    holders.iter().any(opened)
                };
                Some(devices.iter().filter(held).cloned().collect())
            }
            Err(why) => {
                warn!("holders of devices could not be looked for: {why}");
                None
            }
        }
    }
}

fn alive<'a>(table: &'a ProcessTableSample, marker: &str) -> Vec<&'a ProcessSample> {
    let of_worker = table.workers.iter().filter(|w| w.marker == marker);
    let is_alive = |p: &&ProcessSample| match p.state {
        ProcessState::Zombie | ProcessState::Dead => false,
        ProcessState::Running
        | ProcessState::Sleeping
        | ProcessState::Uninterruptible
        | ProcessState::Stopped
        | ProcessState::Traced
        | ProcessState::Idle
        | ProcessState::Other => true,
    };
    of_worker.flat_map(|w| &w.processes).filter(is_alive).collect()
}
