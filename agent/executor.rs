//! Performs what core decided: journals, signals, looks for processes, watches checkpoint directories.
//!
//! Outputs are performed one after the other, in order; one that has to be durable is so before the next. What takes
//! time or may hang (directories, the process table, a process's end) runs beside it and comes back as a [`Message`].

mod ask;
mod elastic;
mod probe;
mod ranks;
mod record;
mod recover;
mod scan;
mod send;
mod signal;
#[cfg(test)]
mod tests;
mod torn;
mod trail;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use sluice::wire::pb::{self, drain_event::Kind};
use sluice_core::agent::{Agent, Hand, Input, Output, Registration, Stage};
use sluice_core::id::WorkerId;
use sluice_core::protocol::{DrainEvent, Order};
use sluice_core::sample::{ProcessKey, ProcessTableSample};
use sluice_core::workload::Exit;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

use crate::journal::{Journal, JournalError};
use crate::pods::Pods;
use crate::report::Counters;
use crate::sensor::Reading;
use crate::sensor::gpu::GpuSensor;
use crate::sensor::process::WatchedWorker;
use crate::signals::{ProcessIdentity, Target};
use crate::uplink::Outbox;

pub(crate) use self::record::{DRAIN_NAME_BYTES_MAX, WORKER_NAME_BYTES_MAX, journal_bytes};
pub(crate) use self::recover::{Recovered, recover};
pub(crate) use self::scan::LOOKS_MAX;
pub(crate) use self::trail::Trail;

use self::ask::{AskTask, Asking};
use self::probe::Prober;
use self::record::{Record, hand_key, worker_key};
use self::scan::{ScanTask, Scanning};
use self::torn::Place;

/// What comes to the owner of the state.
#[derive(Debug)]
pub(crate) enum Message {
    /// A launcher registers its worker, whose process was looked up.
    Register {
        /// The worker.
        registration: Registration,
        /// Its process.
        target: Arc<Target>,
        /// Told once the registration is durable.
        reply: oneshot::Sender<()>,
    },
    /// An order from the arbiter.
    Order(Order),
    /// Anything that needs no more than core.
    Input(Input),
}

/// Hands on the world.
#[derive(Debug)]
pub(crate) struct Executor {
    journal: Arc<Journal>,
    boot_id: String,
    messages: mpsc::Sender<Message>,
    watched: watch::Sender<Vec<WatchedWorker>>,
    prober: Prober,
    quarantine_torn: bool,
    audit: Option<Trail>,
    scanning: Scanning,
    asking: Asking,
    outbox: Outbox,
    counters: Arc<Counters>,
    workers: BTreeMap<WorkerId, Held>,
    /// Processes of registrations that core has not taken over yet.
    looked_up: BTreeMap<WorkerId, Arc<Target>>,
    /// What core has to be told of before anything else.
    follow_ups: VecDeque<Input>,
}

/// What is held of one worker.
#[derive(Debug)]
struct Held {
    registration: Registration,
    /// `None`: it had ended when this agent came up.
    target: Option<Arc<Target>>,
    exit: Option<JoinHandle<()>>,
    scan: Option<ScanTask>,
    ask: AskTask,
}

impl Held {
    fn look_every(&self, period_ms: u64) {
        if let Some(scan) = &self.scan {
            scan.look_every(period_ms);
        }
        self.ask.look_every(period_ms);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(task) = &self.exit {
            task.abort();
        }
    }
}

/// What the executor works with.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The journal.
    pub(crate) journal: Journal,
    /// Which boot this is.
    pub(crate) boot_id: String,
    /// Who this agent is.
    pub(crate) node_uid: String,
    /// Where the host's `/` is seen.
    pub(crate) host_root: PathBuf,
    /// Where the files of simulated devices lie.
    pub(crate) devices_dir: PathBuf,
    /// Put aside what a worker that has ended left half-written.
    pub(crate) quarantine_torn: bool,
    /// Where it is written down what is done to workers.
    pub(crate) audit: Option<Trail>,
    /// To the owner of the state.
    pub(crate) messages: mpsc::Sender<Message>,
    /// The workers for which the process sensor looks.
    pub(crate) watched: watch::Sender<Vec<WatchedWorker>>,
    /// What the process sensor saw.
    pub(crate) processes: watch::Receiver<Reading<ProcessTableSample>>,
    /// Who asks GPUs' drivers. `None`: nobody.
    pub(crate) gpus: Option<GpuSensor>,
    /// Where pods are looked for.
    pub(crate) pods: Pods,
    /// Events for the arbiter.
    pub(crate) outbox: Outbox,
    /// Numbers that only rise.
    pub(crate) counters: Arc<Counters>,
}

impl Executor {
    /// Starts the helpers' threads.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start(parts: Parts) -> Result<Self, String> {
        let prober = Prober::start(
            &parts.host_root,
            &parts.devices_dir,
            &parts.node_uid,
            parts.gpus,
            parts.pods,
            parts.messages.clone(),
            parts.counters.clone(),
        )?;
        Ok(Self {
            journal: Arc::new(parts.journal),
            boot_id: parts.boot_id,
            quarantine_torn: parts.quarantine_torn,
            audit: parts.audit,
            asking: Asking {
                messages: parts.messages.clone(),
                processes: parts.processes.clone(),
                counters: parts.counters.clone(),
            },
            scanning: Scanning::new(parts.messages.clone(), parts.processes),
            messages: parts.messages,
            watched: parts.watched,
            prober,
            outbox: parts.outbox,
            counters: parts.counters,
            workers: BTreeMap::new(),
            looked_up: BTreeMap::new(),
            follow_ups: VecDeque::new(),
        })
    }

    /// Takes hold again of the workers of an earlier process; those that have ended are told to core as gone.
    pub(crate) fn take_up(&mut self, recovered: &Recovered) {
        for registration in &recovered.registrations {
            let worker = &registration.worker;
            let identity = ProcessIdentity {
                pid: registration.pid,
                start_time_ticks: registration.start_time_ticks,
                boot_id: recovered.boot_ids.get(worker).cloned().unwrap_or_default(),
            };
            let reopened = Target::reopen(&identity).and_then(|target| {
                registration.pod.as_ref().map_or(Ok(()), |pod| target.check_pod(pod))?;
                Ok(target)
            });
            let target = match reopened {
                Ok(target) => Some(Arc::new(target)),
                Err(why) => {
                    info!(%worker, "worker of an earlier start has ended: {why}");
                    self.follow_ups
                        .push_back(Input::Exited { worker: worker.clone(), exit: Exit::Unknown });
                    None
                }
            };
            self.hold(registration.clone(), target);
        }
    }

    /// What core has to be told of next, if anything.
    pub(crate) fn next_follow_up(&mut self) -> Option<Input> {
        self.follow_ups.pop_front()
    }

    /// Remembers the process of a registration that core is about to get.
    pub(crate) fn looked_up(&mut self, worker: WorkerId, target: Arc<Target>) {
        self.looked_up.insert(worker, target);
    }

    /// Forgets processes that core made no use of, as of a registration that it knew already.
    pub(crate) fn forget_looked_up(&mut self) {
        self.looked_up.clear();
    }

    /// Performs one output. Durable on return, if it has to be.
    ///
    /// # Errors
    /// The journal could not be written: nothing after this output may be performed before it is.
    pub(crate) async fn perform(
        &mut self,
        agent: &Agent,
        output: &Output,
    ) -> Result<(), JournalError> {
        match output {
            Output::Journal(hand) => {
                let key = hand_key(&hand.drain, &hand.worker);
                self.put(key, Record::of_hand(hand, &self.boot_id)).await?;
                info!(drain = %hand.drain, worker = %hand.worker, stage = hand.stage.as_str(), "drain");
            }
            Output::Unjournal { drain, worker } => self.remove(hand_key(drain, worker)).await?,
            Output::SaveWorker(registration) => {
                let record = Record::of_worker(registration, &self.boot_id);
                self.put(worker_key(&registration.worker), record).await?;
                info!(worker = %registration.worker, pid = registration.pid, "worker registered");
                let target = self.looked_up.remove(&registration.worker);
                self.hold(registration.clone(), target);
            }
            Output::ForgetWorker(worker) => {
                self.remove(worker_key(worker)).await?;
                self.workers.remove(worker);
                self.tell_watched();
            }
            Output::Send(event) => {
                self.outbox.push(self.in_full(agent, event));
            }
            Output::Signal { worker, signal, audience } => {
                self.signal(agent, worker, *signal, *audience);
            }
            Output::CheckHolders(worker) => self.check_holders(agent, worker),
            Output::WatchEvery { worker, period_ms } => {
                if let Some(held) = self.workers.get(worker) {
                    held.look_every(*period_ms);
                }
            }
            Output::TellClient { worker, drain, order } => {
                self.tell_client(worker, drain, *order).await;
            }
            // The owner of the state publishes it after each step and keeps the timer.
            Output::WorkerChanged(_) | Output::WakeAt(_) => {}
        }
        if let Some(trail) = &self.audit {
            trail.performed(output);
        }
        Ok(())
    }

    /// The agent stops: what was written down is written out.
    pub(crate) fn finish(&mut self) {
        if let Some(trail) = self.audit.take() {
            trail.finish();
        }
    }

    fn hold(&mut self, registration: Registration, target: Option<Arc<Target>>) {
        let worker = registration.worker.clone();
        let exit = target
            .clone()
            .map(|target| tokio::spawn(tell_exit(worker.clone(), target, self.messages.clone())));
        let scan = ScanTask::start(&registration, &self.scanning);
        let ask = AskTask::start(&registration, &self.asking);
        self.workers.insert(worker, Held { registration, target, exit, scan, ask });
        self.tell_watched();
    }

    fn tell_watched(&self) {
        let watched = self.workers.values().map(|held| watched(&held.registration)).collect();
        self.watched.send_replace(watched);
    }

    /// The event with the facts that only people look at.
    fn in_full(&self, agent: &Agent, event: &DrainEvent) -> pb::DrainEvent {
        let mut told = pb::DrainEvent::from(event);
        let held = self.workers.get(&event.worker);
        let hand = agent.hands().get(&(event.drain.clone(), event.worker.clone()));
        match &mut told.kind {
            Some(Kind::Armed(armed)) => {
                armed.pid = held.map_or(0, |h| h.registration.pid);
                armed.start_time_ticks = held.map_or(0, |h| h.registration.start_time_ticks);
            }
            Some(Kind::Signalled(signalled)) => {
                signalled.signal = hand.and_then(|h| h.save_signal).map_or(0, |s| s.number);
            }
            _ => {}
        }
        told
    }

    /// Looks for processes and devices; ends what is left if the time for leaving by itself is over. That is told by
    /// the journalled intent, so it also holds after a restart of the agent between intent and deed.
    fn check_holders(&self, agent: &Agent, worker: &WorkerId) {
        let Some(held) = self.workers.get(worker) else {
            warn!(%worker, "processes of a worker that is not registered cannot be looked for");
            return;
        };
        let is_kill_due =
            is_in_stage(agent, worker, |hand| hand.stage == Stage::Releasing && hand.kill_intent);
        let registration = &held.registration;
        let torn = Place::of(agent, registration).filter(|_| self.quarantine_torn);
        let devices = registration.devices.clone();
        self.prober.ask(worker.clone(), watched(registration), devices, torn, is_kill_due);
    }

    async fn put(&self, key: String, record: Record) -> Result<(), JournalError> {
        self.on_disk(move |journal| journal.put(&key, &record)).await
    }

    async fn remove(&self, key: String) -> Result<(), JournalError> {
        self.on_disk(move |journal| journal.remove(&key)).await
    }

    /// Runs `action` where waiting for the disk holds up nobody but the caller.
    async fn on_disk(
        &self,
        action: impl FnOnce(&Journal) -> Result<(), JournalError> + Send + 'static,
    ) -> Result<(), JournalError> {
        let journal = self.journal.clone();
        tokio::task::spawn_blocking(move || action(&journal))
            .await
            .expect("the journal does not panic and is not cancelled")
    }
}

fn is_in_stage(agent: &Agent, worker: &WorkerId, is: impl Fn(&Hand) -> bool) -> bool {
    agent.hands().values().any(|hand| hand.worker == *worker && is(hand))
}

fn watched(registration: &Registration) -> WatchedWorker {
    let dir = &registration.checkpoint_dir;
    WatchedWorker {
        marker: registration.worker.to_string(),
        process: Some(ProcessKey {
            pid: registration.pid,
            start_time_ticks: registration.start_time_ticks,
        }),
        checkpoint_dir: (!dir.is_empty()).then(|| dir.into()),
        pod: registration.pod.clone(),
    }
}

async fn tell_exit(worker: WorkerId, target: Arc<Target>, messages: mpsc::Sender<Message>) {
    if let Err(why) = target.exited().await {
        // Not being able to wait is not an end. The process sensor goes on seeing it.
        error!(%worker, "the end of the worker will not be noticed: {why}");
        return;
    }
    info!(%worker, "worker has ended");
    // How it ended is known to its parent alone, which tells the arbiter itself.
    let input = Input::Exited { worker, exit: Exit::Unknown };
    // A closed channel means that the agent is stopping.
    let _ = messages.send(Message::Input(input)).await;
}
