//! The reading itself, in threads that can be left behind: a disk that is lost keeps whoever reads it for ever.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::sys::stat::{major, minor};
use sluice_core::volume::measure::Completion;

/// Addresses of buffers for reads past the page cache: a multiple of every sector there is.
const ALIGNMENT_BYTES: usize = 4_096;

/// The kernel counts sectors of 512 bytes, whatever the device's own sector is.
const SECTOR_BYTES: u64 = 512;

/// What is to be read.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) file: PathBuf,
    pub(super) depth: u64,
    pub(super) block_bytes: u64,
    pub(super) time: Duration,
    pub(super) budget_bytes: u64,
    pub(super) file_bytes_min: u64,
}

/// What is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// Size of the file.
    pub(super) file_bytes: u64,
    /// Its device, `major:minor`.
    pub(super) number: String,
    /// The device's name. `None`: no single device is behind it.
    pub(super) device: Option<String>,
}

/// What the threads have to say.
#[derive(Debug)]
pub(super) enum Message {
    Opened(Target),
    Read(Completion),
    Failed(String),
    /// All have ended. `device_bytes`: what the device read meanwhile.
    Ended {
        device_bytes: Option<u64>,
    },
}

/// Starts reading. Nobody waits for the threads: whoever gives up drops the receiver.
pub(super) fn start(run: Run) -> Receiver<Message> {
    let capacity = usize::try_from(run.depth).unwrap_or(128).saturating_mul(64);
    let (sender, receiver) = sync_channel(capacity);
    let failures = sender.clone();
    let lead = move || {
        if let Err(why) = read_all(&run, &sender) {
            // Nobody listens any more: nothing is left to say.
            let _ = sender.send(Message::Failed(why));
        }
    };
    if let Err(error) = thread::Builder::new().name("bench".to_owned()).spawn(lead) {
        let _ = failures.send(Message::Failed(format!("no thread can be started: {error}")));
    }
    receiver
}

fn read_all(run: &Run, sender: &SyncSender<Message>) -> Result<(), String> {
    let (file, target) = open(&run.file, run.file_bytes_min)?;
    let blocks = target.file_bytes / run.block_bytes;
    if blocks == 0 {
        return Err(format!("it has {} bytes, less than one block", target.file_bytes));
    }
    let before = sectors_read(&target.number);
    let number = target.number.clone();
    sender.send(Message::Opened(target)).map_err(|error| error.to_string())?;
    let shared = Arc::new(Shared {
        file,
        blocks,
        block_bytes: run.block_bytes,
        blocks_max: (run.budget_bytes / run.block_bytes).max(1),
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        started: Instant::now(),
        time: run.time,
    });
    let mut readers = Vec::new();
    for _ in 0..run.depth {
        let (shared, sender) = (Arc::clone(&shared), sender.clone());
        let read = move || read_blocks(&shared, &sender);
        let reader = thread::Builder::new().name("bench-read".to_owned()).spawn(read);
        readers.push(reader.map_err(|error| format!("no thread can be started: {error}"))?);
    }
    for reader in readers {
        reader.join().map_err(|_| "a reader has died".to_owned())?.map_err(|e| read_failed(&e))?;
    }
    let after = sectors_read(&number);
    let sectors = before.zip(after).map(|(before, after)| after.saturating_sub(before));
    let device_bytes = sectors.map(|sectors| sectors.saturating_mul(SECTOR_BYTES));
    sender.send(Message::Ended { device_bytes }).map_err(|error| error.to_string())
}

/// What the readers share.
struct Shared {
    file: File,
    blocks: u64,
    block_bytes: u64,
    blocks_max: u64,
    next: AtomicU64,
    stop: AtomicBool,
    started: Instant,
    time: Duration,
}

/// Reads block after block, from the beginning again after the last, until time or budget is used up.
fn read_blocks(shared: &Shared, sender: &SyncSender<Message>) -> io::Result<()> {
    let length = usize::try_from(shared.block_bytes).unwrap_or(usize::MAX >> 1);
    let mut space = vec![0_u8; length + ALIGNMENT_BYTES];
    let skip = space.as_ptr().align_offset(ALIGNMENT_BYTES).min(ALIGNMENT_BYTES);
    let buffer = &mut space[skip..skip + length];
    while shared.started.elapsed() < shared.time && !shared.stop.load(Ordering::Relaxed) {
        let index = shared.next.fetch_add(1, Ordering::Relaxed);
        if index >= shared.blocks_max {
            break;
        }
        let offset = (index % shared.blocks).saturating_mul(shared.block_bytes);
        let begun = Instant::now();
        let result = shared.file.read_at(buffer, offset);
        if result.is_err() {
            shared.stop.store(true, Ordering::Relaxed);
        }
        let completion = Completion {
            at_us: micros(shared.started.elapsed()),
            took_us: micros(begun.elapsed()),
            bytes: u64::try_from(result?).unwrap_or(0),
        };
        if sender.send(Message::Read(completion)).is_err() {
            break;
        }
    }
    Ok(())
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn open(path: &Path, bytes_min: u64) -> Result<(File, Target), String> {
    let meta = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !meta.is_file() {
        return Err("it is no regular file; name a file on the volume".to_owned());
    }
    if meta.len() < bytes_min {
        let (has, needs) = (crate::text::bytes(meta.len()), crate::text::bytes(bytes_min));
        return Err(format!("it has {has} and needs {needs}; name a larger file of the volume"));
    }
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlag::O_DIRECT.bits());
    let file = options.open(path).map_err(|error| open_failed(&error))?;
    let number = format!("{}:{}", major(meta.dev()), minor(meta.dev()));
    let link = std::fs::read_link(format!("/sys/dev/block/{number}")).ok();
    let name = link.and_then(|link| Some(link.file_name()?.to_string_lossy().replace('!', "/")));
    Ok((file, Target { file_bytes: meta.len(), number, device: name }))
}

fn open_failed(error: &io::Error) -> String {
    if error.raw_os_error() == Some(nix::errno::Errno::EINVAL as i32) {
        return "its file system cannot read past the page cache (O_DIRECT), as overlay and many FUSE systems; name a \
                file on the volume itself"
            .to_owned();
    }
    error.to_string()
}

fn read_failed(error: &io::Error) -> String {
    if error.raw_os_error() == Some(nix::errno::Errno::EINVAL as i32) {
        return "reads past the page cache of that size are refused; try another --block"
            .to_owned();
    }
    format!("a read failed: {error}")
}

/// Sectors that the device has read since it appeared: the third number of its `stat`.
fn sectors_read(number: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/dev/block/{number}/stat")).ok()?;
    text.split_ascii_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Duration;

    use super::{Message, Run, start};

    fn run(file: &std::path::Path, budget_bytes: u64) -> Vec<Message> {
        let run = Run {
            file: file.to_owned(),
            depth: 4,
            block_bytes: 1 << 20,
            time: Duration::from_secs(600),
            budget_bytes,
            file_bytes_min: 8 << 20,
        };
        start(run).iter().collect()
    }

    #[test]
    fn budget_is_read_to_the_byte_and_small_files_from_the_beginning_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        std::fs::File::create(&path).unwrap().write_all(&vec![7; 8 << 20]).unwrap();
        let messages = run(&path, 20 << 20);
        if let [Message::Failed(why)] = &messages[..]
            && why.contains("O_DIRECT")
        {
            println!("skipped: {why}");
            return;
        }
        let read: u64 = messages
            .iter()
            .map(|message| match message {
                Message::Read(completion) => completion.bytes,
                Message::Opened(_) | Message::Ended { .. } => 0,
                Message::Failed(why) => panic!("{why}"),
            })
            .sum();
        assert_eq!(read, 20 << 20);
        assert!(
            matches!(messages.first(), Some(Message::Opened(target)) if target.file_bytes == 8 << 20)
        );
        assert!(matches!(messages.last(), Some(Message::Ended { .. })));
    }

    #[test]
    fn what_cannot_be_measured_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let said = |path: &std::path::Path| match run(path, 1 << 20).pop() {
            Some(Message::Failed(why)) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(said(dir.path()), "it is no regular file; name a file on the volume");
        let small = dir.path().join("small");
        std::fs::write(&small, b"x").unwrap();
        assert_eq!(said(&small), "it has 1 B and needs 8.0 MiB; name a larger file of the volume");
        assert_eq!(said(&dir.path().join("none")), "No such file or directory (os error 2)");
    }
}
