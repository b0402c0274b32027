//! The flight recorder: every input with its time, so that any decision can be made again.
//!
//! A file begins with the arbiter's whole state and holds the steps from there, each with a digest
//! of what came of it; so each file can be replayed by itself ([`replay`]). Encoding and writing are
//! on a thread of their own. If that falls behind, or the disk fails, the record has a gap and goes
//! on in a new file; the arbiter never waits for it.

mod digest;
mod file;
pub(crate) mod replay;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use sluice_core::arbiter::{Arbiter, Input, Output, Snapshot};
use sluice_core::unit::Time;
use tracing::warn;

/// Most entries waiting to be written. A burst of reports after a restart has tens of thousands;
/// more than this on a disk that slow means that the record has a gap.
const WAITING_MAX: usize = 16_384;

/// What goes to the writer.
#[derive(Debug)]
enum Entry {
    /// Begin a file.
    Start(Box<Snapshot>),
    /// One step.
    Step { at: Time, input: Box<Input>, outputs: u32, digest: u64 },
}

/// Where steps are handed over.
#[derive(Debug)]
pub(crate) struct Recorder {
    sender: SyncSender<Entry>,
    writer: JoinHandle<()>,
    /// The writer wants a new file to begin: the last one is full.
    is_full: Arc<AtomicBool>,
    /// An entry could not be handed over: steps from here on need a new start.
    has_gap: bool,
    step: Option<(Time, Input)>,
}

impl Recorder {
    /// Starts recording into `dir`.
    ///
    /// # Errors
    /// The directory or the thread cannot be made.
    pub(crate) fn start(dir: &Path) -> std::io::Result<Self> {
        let (sender, receiver): (_, Receiver<Entry>) = sync_channel(WAITING_MAX);
        let is_full = Arc::new(AtomicBool::new(false));
        let files = file::Files::open(dir)?;
        let told = is_full.clone();
        let writer = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || writer::run(&receiver, files, &told))?;
        Ok(Self { sender, writer, is_full, has_gap: true, step: None })
    }

    /// Before a step: takes down the input, and the state where a file is to begin.
    pub(crate) fn begin(&mut self, arbiter: &mut Arbiter, now: Time, input: &Input) {
        if self.has_gap || self.is_full.swap(false, Ordering::Relaxed) {
            self.has_gap = !self.hand_over(Entry::Start(Box::new(arbiter.snapshot())));
            if !self.has_gap {
                arbiter.look_at_all();
            }
        }
        self.step = (!self.has_gap).then(|| (now, input.clone()));
    }

    /// After a step: takes down what came of it.
    pub(crate) fn end(&mut self, arbiter: &Arbiter, outputs: &[Output]) {
        let Some((at, input)) = self.step.take() else { return };
        let digest = digest::of(arbiter, outputs);
        let outputs = u32::try_from(outputs.len()).unwrap_or(u32::MAX);
        if !self.hand_over(Entry::Step { at, input: Box::new(input), outputs, digest }) {
            self.has_gap = true;
            warn!(
                waiting = WAITING_MAX,
                "the record of inputs has a gap: the disk is too slow for it"
            );
        }
    }

    /// False if there is no room. A writer that has ended has said why; then nothing is recorded.
    fn hand_over(&self, entry: Entry) -> bool {
        match self.sender.try_send(entry) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => true,
            Err(TrySendError::Full(_)) => false,
        }
    }

    /// Waits until everything handed over is written.
    pub(crate) fn finish(self) {
        drop(self.sender);
        if self.writer.join().is_err() {
            warn!("the recorder had ended early");
        }
    }
}
