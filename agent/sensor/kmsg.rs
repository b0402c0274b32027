//! The kernel's log: read from the start of the boot once, then followed, on a thread of its own.
//!
//! What is not new by its number is skipped, so that nothing is told twice over restarts of the agent. It works with the
//! driver's library hung or gone. `--kmsg-path` takes another file or a pipe with the same records, one a line.

mod source;
mod table;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use sluice_core::health::kmsg::{KernelEvent, KernelLog, LogCounters};
use tokio::sync::mpsc;
use tracing::warn;

pub(crate) use self::table::table;

use self::source::{Read, Source};

/// Events told at once; what is more is told with the next.
const EVENTS_MAX: usize = 256;

/// Time between two tellings while records keep coming. Unit: ms. It bounds what has to be read again after a crash.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// For how long nothing has to come until it is told that nothing happened, so that what was read is noted down.
const QUIET: Duration = Duration::from_secs(1);

/// How often what has happened again is told. A second: nobody decides by it.
const REPEATS_EVERY: Duration = Duration::from_secs(1);

/// Time between two attempts to open a log that cannot be opened.
const OPEN_EVERY: Duration = Duration::from_secs(5);

/// What the thread needs to know.
#[derive(Debug, Clone)]
pub(crate) struct LogConfig {
    /// The log, or what stands for it.
    pub(crate) path: PathBuf,
    /// Take also what programs have written into it.
    pub(crate) accepts_all: bool,
    /// Everything up to this record has been seen.
    pub(crate) last: Option<u64>,
    /// What was counted until then.
    pub(crate) counters: LogCounters,
}

/// What was read since the last time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    /// What happened, in order.
    pub(crate) events: Vec<KernelEvent>,
    /// Number of the newest record.
    pub(crate) last: Option<u64>,
    /// What was counted.
    pub(crate) counters: LogCounters,
    /// Why the log is not read.
    pub(crate) problem: Option<String>,
}

/// Starts the thread. It waits where nobody takes what it tells: the kernel then overwrites what was not read, and says
/// so. It ends when the receiver is dropped and the log says something more.
///
/// # Errors
/// The system refuses another thread.
pub(crate) fn spawn(config: LogConfig, told: mpsc::Sender<Batch>) -> io::Result<()> {
    let log = KernelLog::new(config.last, config.counters, config.accepts_all);
    let reader = Reader { path: config.path, log, told, events: Vec::new() };
    thread::Builder::new().name("kmsg".to_owned()).spawn(move || reader.run())?;
    Ok(())
}

struct Reader {
    path: PathBuf,
    log: KernelLog,
    told: mpsc::Sender<Batch>,
    events: Vec<KernelEvent>,
}

impl Reader {
    fn run(mut self) {
        let mut known = None;
        loop {
            let problem = match Source::open(&self.path) {
                Ok(source) => match self.follow(source) {
                    Ok(()) => return,
                    Err(error) => format!("could not read \"{}\": {error}", self.path.display()),
                },
                Err(error) => format!(
                    "could not open \"{}\": {error}; give the agent CAP_SYSLOG or run it as root",
                    self.path.display()
                ),
            };
            if known.as_ref() != Some(&problem) {
                warn!("faults in the kernel's log are not seen: {problem}");
                known = Some(problem.clone());
            }
            if !self.tell(Some(problem)) {
                return;
            }
            thread::sleep(OPEN_EVERY);
        }
    }

    /// Reads for ever. `Ok`: nobody listens any more.
    fn follow(&mut self, mut source: Source) -> io::Result<()> {
        let mut told_at = Instant::now();
        let mut repeats_at = Instant::now();
        let mut has_read = false;
        loop {
            // What happened is told as soon as no more is there; that nothing did, a second later.
            let timeout = match (self.events.is_empty(), has_read) {
                (false, _) => Some(Duration::ZERO),
                (true, true) => Some(QUIET),
                (true, false) => None,
            };
            let is_quiet = match source.next(timeout)? {
                Read::Record(record) => {
                    has_read = true;
                    self.events.extend(self.log.take(record));
                    false
                }
                Read::Overrun => {
                    self.log.overrun();
                    false
                }
                Read::Nothing => true,
            };
            if repeats_at.elapsed() >= REPEATS_EVERY || is_quiet && self.events.is_empty() {
                repeats_at = Instant::now();
                self.events.extend(self.log.repeats());
            }
            let is_much = self.events.len() >= EVENTS_MAX;
            let is_due = !self.events.is_empty() && told_at.elapsed() >= TELL_EVERY;
            if is_quiet || is_much || is_due {
                told_at = Instant::now();
                has_read = !is_quiet || !self.events.is_empty();
                if !self.tell(None) {
                    return Ok(());
                }
            }
        }
    }

    /// `false`: nobody listens any more.
    fn tell(&mut self, problem: Option<String>) -> bool {
        let (last, counters) = (self.log.last(), self.log.counters());
        let events = std::mem::take(&mut self.events);
        self.told.blocking_send(Batch { events, last, counters, problem }).is_ok()
    }
}
