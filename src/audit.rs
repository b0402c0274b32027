//! The audit log: what was decided and done, one JSON object a line, appended and never changed.
//!
//! Lines are written by a thread of their own. A file that has grown to [`FILE_BYTES_MAX`] is renamed to `PATH.1`, that
//! to `PATH.2`, and so on; the oldest of [`FILES_MAX`] is removed. Each file is durable when it is renamed away; the
//! newest lines may be missing after a power failure, and are in the arbiter's store.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tracing::warn;

/// Size at which a file is renamed away. A line has some 500 bytes: thirty thousand of them.
pub const FILE_BYTES_MAX: u64 = 16 << 20;
/// Files kept, the one being written among them: 128 MiB at most.
pub const FILES_MAX: u32 = 8;
/// Lines that wait for the disk.
const LINES_MAX: usize = 4_096;
/// Longest wait for the last lines, and between two looks whether they are written.
const FINISH_PATIENCE: Duration = Duration::from_secs(2);
const FINISH_PAUSE: Duration = Duration::from_millis(2);
/// How much of the end of a file is looked at for its last line.
const TAIL_BYTES: u64 = 256 * 1024;

/// Where lines are written.
#[derive(Debug)]
pub struct Audit {
    lines: SyncSender<Value>,
    lost: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Audit {
    /// Opens the log at `path`, creating it for this user alone, and starts its thread.
    ///
    /// # Errors
    /// The file cannot be opened for writing, or the system refuses a thread.
    pub fn open(path: &Path) -> io::Result<Self> {
        let files = Files::open(path, FILE_BYTES_MAX)?;
        let (lines, waiting) = sync_channel(LINES_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let thread = std::thread::Builder::new().name("audit".to_owned()).spawn({
            let lost = lost.clone();
            move || write_all(&waiting, files, &lost)
        })?;
        Ok(Self { lines, lost, thread })
    }

    /// Writes a line; waits if too many are waiting already. For those who may block.
    pub fn write(&self, line: Value) {
        if self.lines.send(line).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes a line unless too many are waiting already; then it is counted as lost, and the log says so.
    pub fn offer(&self, line: Value) {
        match self.lines.try_send(line) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Lines that could not be written.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits until everything has been written, at most [`FINISH_PATIENCE`]: a disk that hangs must not keep a program
    /// from ending.
    pub fn finish(self) {
        let Self { lines, lost: _, thread } = self;
        drop(lines);
        let deadline = Instant::now() + FINISH_PATIENCE;
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(FINISH_PAUSE);
        }
    }
}

/// The value of `field` in the last line of the log at `path` that has one, also if that is in the file before.
///
/// # Errors
/// A file cannot be read. One that does not exist has none.
pub fn last_number(path: &Path, field: &str) -> io::Result<Option<u64>> {
    match last_number_of(path, field)? {
        Some(number) => Ok(Some(number)),
        None => last_number_of(&numbered(path, 1), field),
    }
}

fn last_number_of(path: &Path, field: &str) -> io::Result<Option<u64>> {
    let length = match std::fs::metadata(path) {
        Ok(there) if there.is_file() => there.len(),
        Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let lines = BufReader::new(io::Read::take(file, TAIL_BYTES)).split(b'\n');
    let numbers = lines.map_while(Result::ok).filter_map(|line| {
        // The first may be cut, and the last torn by a crash.
        let value: Value = serde_json::from_slice(&line).ok()?;
        value.get(field)?.as_u64()
    });
    Ok(numbers.last())
}

fn write_all(waiting: &Receiver<Value>, mut files: Files, lost: &AtomicU64) {
    let mut told = 0;
    while let Ok(line) = waiting.recv() {
        let missing = lost.load(Ordering::Relaxed);
        if missing > told
            && files.append(&serde_json::json!({ "lost_lines": missing - told })).is_ok()
        {
            told = missing;
        }
        let Err(why) = files.append(&line) else { continue };
        let is_first = lost.fetch_add(1, Ordering::Relaxed) == told;
        if is_first {
            warn!(path = %files.path.display(), "audit log cannot be written: {why}; make room");
        }
    }
    if let Err(why) = files.file.sync_all() {
        warn!(path = %files.path.display(), "the end of the audit log may not be durable: {why}");
    }
}

/// The file being written, and those before it.
#[derive(Debug)]
struct Files {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl Files {
    fn open(path: &Path, bytes_max: u64) -> io::Result<Self> {
        if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            // A device has no end to be looked for, a pipe waits for a reader.
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        let file = append_to(path)?;
        let bytes = file.metadata()?.len();
        let mut files = Self { path: path.to_owned(), file, bytes, bytes_max };
        files.end_torn_line()?;
        Ok(files)
    }

    /// A line that a crash has cut is left as it is; the next begins on a line of its own.
    fn end_torn_line(&mut self) -> io::Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        let mut reader = File::open(&self.path)?;
        reader.seek(SeekFrom::End(-1))?;
        let mut last = [0_u8];
        io::Read::read_exact(&mut reader, &mut last)?;
        if last != *b"\n" {
            self.file.write_all(b"\n")?;
            self.bytes += 1;
        }
        Ok(())
    }

    fn append(&mut self, line: &Value) -> io::Result<()> {
        let text = format!("{line}\n");
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if self.bytes > 0 && self.bytes.saturating_add(length) > self.bytes_max {
            self.rotate()?;
        }
        self.file.write_all(text.as_bytes())?;
        self.bytes = self.bytes.saturating_add(length);
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        for number in (1..FILES_MAX).rev() {
            let from =
                if number == 1 { self.path.clone() } else { numbered(&self.path, number - 1) };
            match std::fs::rename(&from, numbered(&self.path, number)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.file = append_to(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

/// For this user alone: lines name workloads and commands' outcomes.
fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
