//! Looks into the checkpoint directory of each worker: at a cadence, and at once when something happens there.
//!
//! A look blocks on the file system, so it runs on a thread of the blocking pool. A file system that hangs keeps that
//! one thread and one of [`LOOKS_MAX`] permits; the worker's other looks wait for it, everybody else goes on.

use std::sync::Arc;
use std::time::Duration;

use sluice_core::agent::{Input, Registration};
use sluice_core::checkpoint::{CheckpointScan, IncompleteReason};
use sluice_core::sample::ProcessTableSample;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

use super::Message;
use crate::checkpoint::watch::ChangeWatch;
use crate::checkpoint::{CheckpointWatcher, WrittenFiles};
use crate::sensor::Reading;

/// Looks at the same time, all workers together. A node has some tens of workers, and most looks take a millisecond;
/// it has to be well below the size of the blocking pool, so that the journal always finds a thread.
pub(crate) const LOOKS_MAX: usize = 64;

/// Time between two looks where no drain asks for more: a new checkpoint is known within this time even where changes
/// are not announced (network file systems).
const PERIOD: Duration = Duration::from_millis(2_000);

/// Shortest time between two looks that changes cause: a save makes many.
const PERIOD_MIN: Duration = Duration::from_millis(100);

/// Pause before a look is repeated because a checkpoint has been seen only once as it is now.
const AGAIN: Duration = Duration::from_millis(15);
/// Most repeats of one look. What is still changing after that is being written.
const REPEATS_MAX: u32 = 2;

/// A look that takes longer is reported.
const SLOW: Duration = Duration::from_secs(10);

/// Longest wait for a file system to say how much space is free. A hung one must not hold up an order; the check for
/// space is then left out.
const FREE_BYTES_TIMEOUT: Duration = Duration::from_secs(2);

/// What all looks share.
#[derive(Debug, Clone)]
pub(super) struct Scanning {
    permits: Arc<Semaphore>,
    messages: mpsc::Sender<Message>,
    processes: watch::Receiver<Reading<ProcessTableSample>>,
}

impl Scanning {
    pub(super) fn new(
        messages: mpsc::Sender<Message>,
        processes: watch::Receiver<Reading<ProcessTableSample>>,
    ) -> Self {
        Self { permits: Arc::new(Semaphore::new(LOOKS_MAX)), messages, processes }
    }
}

/// The task that looks into one worker's directory; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct ScanTask {
    period: watch::Sender<Duration>,
    task: JoinHandle<()>,
}

impl Drop for ScanTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ScanTask {
    /// `None`: the worker has no checkpoint directory.
    pub(super) fn start(registration: &Registration, shared: &Scanning) -> Option<Self> {
        if registration.checkpoint_dir.is_empty() {
            return None;
        }
        let (period, periods) = watch::channel(PERIOD);
        let looker = Looker {
            registration: registration.clone(),
            shared: shared.clone(),
            periods,
            eyes: Some(Eyes {
                watcher: CheckpointWatcher::open(
                    &registration.checkpoint_dir,
                    registration.checkpoint_format,
                    &registration.checkpoint_rules,
                    registration.world_size,
                ),
                changes: None,
            }),
        };
        Some(Self { period, task: tokio::spawn(looker.run()) })
    }

    /// Looks every `period_ms` from now on; 0: as usual.
    pub(super) fn look_every(&self, period_ms: u64) {
        let period = if period_ms == 0 { PERIOD } else { Duration::from_millis(period_ms) };
        self.period.send_if_modified(|now| std::mem::replace(now, period) != period);
    }
}

/// What looks: handed to a thread and back.
#[derive(Debug)]
struct Eyes {
    watcher: CheckpointWatcher,
    /// `None` while the directory does not exist, or where the system allows no more watches.
    changes: Option<ChangeWatch>,
}

#[derive(Debug)]
struct Looker {
    registration: Registration,
    shared: Scanning,
    periods: watch::Receiver<Duration>,
    /// `None` only while a thread has it.
    eyes: Option<Eyes>,
}

impl Looker {
    async fn run(mut self) {
        while let Ok(scan) = self.look().await {
            // Before that old checkpoints are still missing from what is seen, and would seem new later.
            let is_settled = self.eyes.as_ref().is_some_and(|eyes| eyes.watcher.is_settled());
            let worker = self.registration.worker.clone();
            let input = Input::Scanned { worker, scan };
            if is_settled && self.shared.messages.send(Message::Input(input)).await.is_err() {
                return; // The agent stops.
            }
            self.wait(Instant::now()).await;
        }
    }

    /// # Errors
    /// The thread died: the pool is shutting down, or a bug.
    async fn look(&mut self) -> Result<CheckpointScan, JoinError> {
        let permit = self.shared.permits.clone().acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let eyes = self.eyes.take().expect("it comes back from each look");
        let pids = self.pids();
        let mut look = tokio::task::spawn_blocking(move || look(eyes, &pids, &permit));
        let looked = match timeout(SLOW, &mut look).await {
            Ok(looked) => looked,
            Err(_) => {
                let dir = &self.registration.checkpoint_dir;
                warn!(worker = %self.registration.worker, dir, "checkpoint directory has not answered for {} s; its file system may hang", SLOW.as_secs());
                look.await
            }
        };
        let (eyes, scan) = looked?;
        self.eyes = Some(eyes);
        Ok(scan)
    }

    /// The worker's processes, as far as they are known.
    fn pids(&self) -> Vec<u32> {
        let marker = self.registration.worker.to_string();
        let reading = self.shared.processes.borrow();
        let table = reading.value.as_ref();
        let worker = table.and_then(|table| table.workers.iter().find(|w| w.marker == marker));
        let seen = worker.into_iter().flat_map(|w| w.processes.iter().map(|p| p.key.pid));
        let mut pids: Vec<u32> = seen.chain([self.registration.pid]).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Until the next look is due, or something happens in the directory.
    async fn wait(&mut self, looked_at: Instant) {
        loop {
            let period = *self.periods.borrow_and_update();
            tokio::select! {
                () = sleep_until(looked_at + period) => return,
                () = happened(self.eyes.as_mut()) => {
                    return sleep_until(looked_at + period.min(PERIOD_MIN)).await;
                }
                result = self.periods.changed() => {
                    if result.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// Waits until something happens in the directory; for ever where that is not announced.
async fn happened(eyes: Option<&mut Eyes>) {
    let Some(eyes) = eyes else { return std::future::pending().await };
    let Some(changes) = eyes.changes.as_mut() else { return std::future::pending().await };
    if let Err(why) = changes.changed().await {
        debug!("changes are no longer announced: {why}");
        eyes.changes = None;
        std::future::pending::<()>().await;
    }
}

/// One look, on a thread that may block. The permit is held for as long as that lasts.
fn look(mut eyes: Eyes, pids: &[u32], _permit: &OwnedSemaphorePermit) -> (Eyes, CheckpointScan) {
    if eyes.changes.is_none() {
        // Before the look, so that nothing happens in between. Without it looks at the cadence remain.
        eyes.changes = ChangeWatch::open(eyes.watcher.directory()).ok();
    }
    let scan = look_until_sure(&mut eyes.watcher, pids);
    if scan.problem.is_some() {
        eyes.changes = None;
    }
    let newest = scan.incomplete.first().map(|entry| entry.path.clone());
    if let (Some(changes), Some(path)) = (eyes.changes.as_mut(), newest) {
        // A single file, or gone again: the directory itself is still watched.
        let _ = changes.follow(path.as_ref());
    }
    (eyes, scan)
}

/// Scans, and again after a pause where the only doubt about the newest entry is that it has to be seen unchanged: the
/// difference is lost work of a gang that waits for its release.
fn look_until_sure(watcher: &mut CheckpointWatcher, pids: &[u32]) -> CheckpointScan {
    let mut scan = scan_once(watcher, pids);
    for _ in 0..REPEATS_MAX {
        let newest = scan.incomplete.first().map(|entry| &entry.reason);
        if !matches!(newest, Some(IncompleteReason::NotAtRest)) {
            break;
        }
        std::thread::sleep(AGAIN);
        scan = scan_once(watcher, pids);
    }
    scan
}

fn scan_once(watcher: &mut CheckpointWatcher, pids: &[u32]) -> CheckpointScan {
    let written = WrittenFiles::of_processes(pids.iter().copied());
    watcher.scan(&written)
}

/// Free space where a worker's checkpoints go. Unit: bytes. `None` if it cannot be told now.
pub(super) async fn free_bytes(registration: &Registration) -> Option<u64> {
    let dir = &registration.checkpoint_dir;
    if dir.is_empty() {
        return None;
    }
    let watcher = CheckpointWatcher::open(
        dir,
        registration.checkpoint_format,
        &registration.checkpoint_rules,
        1,
    );
    let look = tokio::task::spawn_blocking(move || watcher.free_bytes());
    match tokio::time::timeout(FREE_BYTES_TIMEOUT, look).await {
        Ok(Ok(Ok(bytes))) => Some(bytes),
        Ok(Ok(Err(why))) => {
            warn!(dir, "free space is not known: {why}");
            None
        }
        Ok(Err(_)) => None,
        Err(_) => {
            warn!(dir, "free space is not known: the file system does not answer");
            None
        }
    }
}
