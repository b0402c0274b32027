//! Wakes a task as soon as something happens in a checkpoint directory.
//!
//! This only makes scans come earlier. It sees no writes of other machines on network file systems
//! and may lose events, so scans at a fixed period remain what is relied upon, and an event says
//! nothing but "look now".

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Reads per wake-up, of up to [`BUFFER_BYTES`] each. A flood of events is cut off here and wakes
/// again at once; a scan follows in either case.
const READS_MAX: u32 = 64;

/// Room for some 100 events; a single one takes at most 16 + 256 bytes. Source: inotify(7).
const BUFFER_BYTES: usize = 4096;

/// An inotify instance over a checkpoint directory and its newest checkpoint.
#[derive(Debug)]
pub(crate) struct ChangeWatch {
    events: AsyncFd<OwnedFd>,
    /// The subdirectory watched, with its watch descriptor.
    newest: Option<(PathBuf, i32)>,
}

impl ChangeWatch {
    /// Watches `directory`. To be called within a tokio runtime.
    ///
    /// # Errors
    /// What the operating system said: no such directory, or no more watches for this user
    /// (`fs.inotify.max_user_instances`). Scans at a fixed period do without.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        inotify::add_watch(&events, directory, flags())?;
        #[expect(
            deprecated,
            reason = "what replaces it is unsafe, and an owned descriptor keeps its promise: it stays open and the same"
        )]
        let events = AsyncFd::with_interest(events, Interest::READABLE)?;
        Ok(Self { events, newest: None })
    }

    /// Watches `checkpoint` too, instead of the one given before: the directory in which a save is
    /// going on. Never follows a link.
    ///
    /// # Errors
    /// What the operating system said; the one given before is no longer watched then.
    pub(crate) fn follow(&mut self, checkpoint: &Path) -> io::Result<()> {
        if self.newest.as_ref().is_some_and(|(path, _)| path == checkpoint) {
            return Ok(());
        }
        if let Some((_, watch)) = self.newest.take() {
            // The watch goes by itself with its directory; then there is nothing to remove.
            let _gone = inotify::remove_watch(self.events.get_ref(), watch);
        }
        let flags = flags() | WatchFlags::DONT_FOLLOW;
        let watch = inotify::add_watch(self.events.get_ref(), checkpoint, flags)?;
        self.newest = Some((checkpoint.to_owned(), watch));
        Ok(())
    }

    /// Waits until something was created, renamed, deleted or closed after writing. Events up to
    /// the return are taken off together. Cancel safe: an event is at worst seen a second time.
    ///
    /// # Errors
    /// What the operating system said when events were read.
    pub(crate) async fn changed(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.events.readable().await?;
            let mut has_read = false;
            for _ in 0..READS_MAX {
                let mut buffer = [0; BUFFER_BYTES];
                match rustix::io::read(ready.get_inner(), &mut buffer) {
                    Ok(_) => has_read = true,
                    Err(Errno::AGAIN) => {
                        ready.clear_ready();
                        break;
                    }
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            if has_read {
                return Ok(());
            }
        }
    }
}

/// Not `MODIFY`: it would wake once per write of a save of many gigabytes.
fn flags() -> WatchFlags {
    WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::ONLYDIR
}
