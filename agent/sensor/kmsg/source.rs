//! Where records come from: the kernel's own file, or a file or pipe with the same text.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Longest record. The kernel's are at most 8 KiB with everything in them; a shorter buffer is refused (`EINVAL`).
const RECORD_BYTES_MAX: usize = 16 << 10;

/// How often a file that has come to its end is looked at again. Only tests have one.
const FILE_EVERY: Duration = Duration::from_millis(50);

/// What a read gave.
#[derive(Debug)]
pub(super) enum Read<'a> {
    /// A record.
    Record(&'a [u8]),
    /// Records were overwritten before they could be read; the next one is there.
    Overrun,
    /// Nothing came in time.
    Nothing,
}

/// An open log.
#[derive(Debug)]
pub(super) struct Source {
    file: File,
    form: Form,
    buffer: Vec<u8>,
    filled: usize,
    /// Start of what was not handed out yet (lines).
    next: usize,
    /// A line that is too long is being skipped.
    is_skipping: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A read is a record.
    Kernel,
    /// Lines that somebody writes into a pipe.
    Pipe,
    /// Lines of a file that may grow.
    Lines,
}

impl Source {
    /// Opens the log at its start.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let kind = std::fs::metadata(path)?.file_type();
        let form = if kind.is_char_device() {
            Form::Kernel
        } else if kind.is_fifo() {
            Form::Pipe
        } else {
            Form::Lines
        };
        let mut options = OpenOptions::new();
        // A pipe is opened for writing too, so that it has no end when a writer leaves.
        options.read(true).write(form == Form::Pipe).custom_flags(libc::O_NONBLOCK);
        let file = options.open(path)?;
        let buffer = vec![0; RECORD_BYTES_MAX];
        Ok(Self { file, form, buffer, filled: 0, next: 0, is_skipping: false })
    }

    /// The next record, or nothing within `timeout`; `None`: however long it takes.
    pub(super) fn next(&mut self, timeout: Option<Duration>) -> io::Result<Read<'_>> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some((start, end)) = self.line() {
                return Ok(Read::Record(self.buffer.get(start..end).unwrap_or_default()));
            }
            self.make_room();
            let room = self.buffer.get_mut(self.filled..).unwrap_or_default();
            match self.file.read(room) {
                Ok(count @ 1..) if self.form == Form::Kernel => {
                    return Ok(Read::Record(self.buffer.get(..count).unwrap_or_default()));
                }
                Ok(count @ 1..) => {
                    self.filled += count;
                    continue;
                }
                // The kernel's log has no end; what stands in its place in some containers has.
                Ok(_) if self.form == Form::Kernel => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "it is at its end, which the kernel's log never is: something else lies there",
                    ));
                }
                Err(error) if is(&error, Errno::EPIPE) => return Ok(Read::Overrun),
                Err(error) if is(&error, Errno::EINTR) => continue,
                Err(error) if !is(&error, Errno::EAGAIN) => return Err(error),
                Ok(_) | Err(_) => {}
            }
            if !self.wait(deadline)? {
                return Ok(Read::Nothing);
            }
        }
    }

    /// The next whole line that is no continuation of the one before.
    fn line(&mut self) -> Option<(usize, usize)> {
        if self.form == Form::Kernel {
            return None;
        }
        loop {
            let rest = self.buffer.get(self.next..self.filled)?;
            let length = rest.iter().position(|byte| *byte == b'\n')?;
            let (start, end) = (self.next, self.next + length);
            self.next = end + 1;
            let is_continued = rest.first() == Some(&b' ');
            if !std::mem::take(&mut self.is_skipping) && !is_continued {
                return Some((start, end));
            }
        }
    }

    /// Makes room for more. A line longer than the buffer is given up.
    fn make_room(&mut self) {
        self.buffer.copy_within(self.next..self.filled, 0);
        self.filled -= self.next;
        self.next = 0;
        if self.filled == self.buffer.len() {
            (self.filled, self.is_skipping) = (0, true);
        }
    }

    /// Waits for more; `false`: it is time.
    fn wait(&self, deadline: Option<Instant>) -> io::Result<bool> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(false);
        }
        if self.form == Form::Lines {
            thread::sleep(left.map_or(FILE_EVERY, |left| left.min(FILE_EVERY)));
            return Ok(true);
        }
        let timeout = left.map_or(PollTimeout::NONE, |left| {
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        let mut files = [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)];
        match poll(&mut files, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno as i32)
}
