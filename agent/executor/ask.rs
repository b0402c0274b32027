//! Looks at what a worker says in its files and at the launchers within it, and writes what it is to do.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sluice_core::agent::{Input, Registration};
use sluice_core::client::{ClientOrder, ClientProblem};
use sluice_core::id::{DrainId, WorkerId};
use sluice_core::sample::{ProcessKey, ProcessTableSample};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::Message;
use super::elastic::grace_ms;
use crate::client::{ClientFiles, Look};
use crate::report::{Counters, count};
use crate::sensor::Reading;

/// Time between two looks while nothing is asked of the worker: how soon its hello is known.
const PERIOD: Duration = Duration::from_secs(1);
/// Shortest time between two looks, whatever the worker writes.
const PERIOD_MIN: Duration = Duration::from_millis(100);
/// Longest time for writing what a worker is to do: a file of 200 bytes, made durable.
const TELL_MAX: Duration = Duration::from_secs(5);
/// Processes of one worker whose command lines are remembered. Beyond it they are read again.
const KEYS_MAX: usize = 4_096;

/// What all looks share.
#[derive(Debug, Clone)]
pub(super) struct Asking {
    pub(super) messages: mpsc::Sender<Message>,
    pub(super) processes: watch::Receiver<Reading<ProcessTableSample>>,
    pub(super) counters: Arc<Counters>,
}

/// The task that looks at one worker; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct AskTask {
    files: Arc<Mutex<ClientFiles>>,
    period: watch::Sender<Duration>,
    task: JoinHandle<()>,
}

impl Drop for AskTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl AskTask {
    pub(super) fn start(registration: &Registration, shared: &Asking) -> Self {
        let (period, periods) = watch::channel(PERIOD);
        let files = Arc::new(Mutex::new(ClientFiles::new(&registration.drain_dir)));
        let looker = Looker {
            worker: registration.worker.clone(),
            has_files: !registration.drain_dir.is_empty(),
            files: files.clone(),
            shared: shared.clone(),
            periods,
            graces: BTreeMap::new(),
            problem: None,
            told: None,
        };
        Self { files, period, task: tokio::spawn(looker.run()) }
    }

    /// Looks every `period_ms` from now on; 0: as usual.
    pub(super) fn look_every(&self, period_ms: u64) {
        let period =
            if period_ms == 0 { PERIOD } else { Duration::from_millis(period_ms).max(PERIOD_MIN) };
        self.period.send_if_modified(|now| std::mem::replace(now, period) != period);
    }

    /// Writes what the worker is to do.
    ///
    /// # Errors
    /// The directory is gone or cannot be written.
    pub(super) async fn tell(&self, drain: DrainId, order: ClientOrder) -> io::Result<()> {
        let files = self.files.clone();
        let telling = tokio::task::spawn_blocking(move || {
            files.lock().unwrap_or_else(PoisonError::into_inner).tell(&drain, order)
        });
        // A file system that hangs must not keep other workers' orders waiting.
        match tokio::time::timeout(TELL_MAX, telling).await {
            Ok(told) => told.map_err(io::Error::other)?,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "its directory does not answer")),
        }
    }
}

struct Looker {
    worker: WorkerId,
    has_files: bool,
    files: Arc<Mutex<ClientFiles>>,
    shared: Asking,
    periods: watch::Receiver<Duration>,
    /// The grace of each process that was looked at: what it was started with does not change.
    graces: BTreeMap<ProcessKey, Option<u64>>,
    problem: Option<ClientProblem>,
    /// The last thing that core was told.
    told: Option<Input>,
}

impl Looker {
    async fn run(mut self) {
        loop {
            let files = self.has_files.then(|| self.files.clone());
            let keys = self.new_processes();
            let looking = tokio::task::spawn_blocking(move || {
                let look = files.map(|f| f.lock().unwrap_or_else(PoisonError::into_inner).look());
                let graces: Vec<(ProcessKey, Option<u64>)> =
                    keys.into_iter().map(|key| (key, grace_ms(key.pid))).collect();
                (look.unwrap_or_default(), graces)
            });
            // An error: the pool is shutting down.
            let Ok((look, graces)) = looking.await else { return };
            self.graces.extend(graces);
            if !self.tell(look).await {
                return;
            }
            self.wait(Instant::now()).await;
        }
    }

    /// Processes of the worker that were not looked at yet; those that are gone are forgotten.
    fn new_processes(&mut self) -> Vec<ProcessKey> {
        let marker = self.worker.to_string();
        let reading = self.shared.processes.borrow();
        let table = reading.value.as_ref();
        let worker = table.and_then(|table| table.workers.iter().find(|w| w.marker == marker));
        let keys: Vec<ProcessKey> =
            worker.into_iter().flat_map(|w| &w.processes).map(|p| p.key).take(KEYS_MAX).collect();
        self.graces.retain(|key, _| keys.contains(key));
        keys.into_iter().filter(|key| !self.graces.contains_key(key)).collect()
    }

    /// Tells core what was seen, if that is news. `false`: the agent stops.
    async fn tell(&mut self, look: Look) -> bool {
        for problem in &look.refused {
            count(self.shared.counters.client_file(*problem));
        }
        if look.seen.problem != self.problem {
            self.problem = look.seen.problem;
            if let Some(problem) = self.problem {
                warn!(worker = %self.worker, code = problem.code(), "{problem}; it is not used");
            }
        }
        let input = Input::Looked {
            worker: self.worker.clone(),
            client: look.seen,
            launcher_grace_ms: self.graces.values().flatten().min().copied(),
        };
        if self.told.as_ref() == Some(&input) {
            return true;
        }
        self.told = Some(input.clone());
        self.shared.messages.send(Message::Input(input)).await.is_ok()
    }

    async fn wait(&mut self, looked_at: Instant) {
        loop {
            let period = *self.periods.borrow_and_update();
            tokio::select! {
                () = sleep_until(looked_at + period) => return,
                result = self.periods.changed() => {
                    if result.is_err() {
                        return;
                    }
                }
            }
        }
    }
}
