//! The child process as the agent has it: started, asked, ended by steps, never waited for.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::frame::{self, Answer, Request};
use super::{CHILD_COMMAND, Settings};

/// Most that is kept of what the child last wrote: a line or two of why.
const LAST_WORDS_BYTES_MAX: usize = 1_024;

/// How far the ending of a child has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Told to close the library.
    Asked,
    /// `SIGTERM` sent.
    Terminated,
    /// `SIGKILL` sent; if it does not end now it hangs in the kernel.
    Killed,
}

/// One child.
#[derive(Debug)]
pub(super) struct Probe {
    process: std::process::Child,
    socket: UnixStream,
    /// What it and the library print.
    words: UnixStream,
    last_words: Vec<u8>,
    received: Vec<u8>,
    /// When the question was asked that it has not answered.
    pub(super) asked_at: Option<Instant>,
    ending: Option<(Ending, Instant)>,
}

impl Probe {
    /// Starts one. It dies with the calling thread.
    pub(super) fn start(settings: &Settings) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let (words, their_words) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        words.set_nonblocking(true)?;
        let output = OwnedFd::from(their_words);
        // This very program, also if its file was replaced meanwhile.
        let process = Command::new("/proc/self/exe")
            .arg0("sluice-agent")
            .arg(CHILD_COMMAND)
            .arg(std::process::id().to_string())
            .args(&settings.libraries)
            // A socket both ways; what a library prints must not get into the conversation.
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(output.try_clone()?))
            .stderr(Stdio::from(output))
            // Ctrl-C is for the agent, which ends its child properly.
            .process_group(0)
            .spawn()?;
        Ok(Self {
            process,
            socket,
            words,
            last_words: Vec::new(),
            received: Vec::new(),
            asked_at: None,
            ending: None,
        })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Asks for a look, unless a question is open.
    pub(super) fn ask(&mut self, now: Instant) {
        if self.asked_at.is_none() {
            // A child that is gone shows when it is waited for.
            let _ = self.socket.write_all(&frame::encode(&Request::Look));
            self.asked_at = Some(now);
        }
    }

    /// The answer, if it is there.
    ///
    /// # Errors
    /// The child has closed the socket, or talks nonsense.
    pub(super) fn answer(&mut self) -> Result<Option<Answer>, String> {
        let mut chunk = [0; 16_384];
        loop {
            if let Some(answer) =
                frame::take(&mut self.received).map_err(|error| error.to_string())?
            {
                self.asked_at = None;
                return Ok(Some(answer));
            }
            match self.socket.read(&mut chunk) {
                Ok(0) => return Err("it closed the socket".to_owned()),
                Ok(len) => self.received.extend_from_slice(&chunk[..len]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// It is being ended.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// It was killed a while ago and is still there.
    pub(super) fn is_stuck(&self, settings: &Settings, now: Instant) -> bool {
        let killed_long_ago = |(step, since): (Ending, Instant)| {
            step == Ending::Killed && now.saturating_duration_since(since) >= settings.grace
        };
        self.ending.is_some_and(killed_long_ago)
    }

    /// Tells it to close the library and end; one with an open question would not hear it.
    pub(super) fn end(&mut self, now: Instant) {
        if self.ending.is_none() {
            // It may be gone already.
            let _ = self.socket.write_all(&frame::encode(&Request::End));
            self.ending = Some((Ending::Asked, now));
        }
    }

    /// Ends it without asking, as it does not answer.
    pub(super) fn terminate(&mut self, now: Instant) {
        if !matches!(self.ending, Some((Ending::Terminated | Ending::Killed, _))) {
            self.signal(Signal::SIGTERM);
            self.ending = Some((Ending::Terminated, now));
        }
    }

    /// The next step of its ending, when it is time.
    pub(super) fn press(&mut self, settings: &Settings, now: Instant) {
        let Some((step, since)) = self.ending else { return };
        if now.saturating_duration_since(since) < settings.grace {
            return;
        }
        match step {
            Ending::Asked => self.terminate(now),
            Ending::Terminated => {
                self.signal(Signal::SIGKILL);
                self.ending = Some((Ending::Killed, now));
            }
            Ending::Killed => {}
        }
    }

    fn signal(&self, signal: Signal) {
        // Its id is not reused before it has been waited for; and it was not, or `self` would be gone.
        if let Ok(pid) = i32::try_from(self.process.id()) {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// How it ended, if it has. Never waits.
    pub(super) fn exited(&mut self) -> Option<String> {
        self.hear();
        // An error: somebody else has waited for it, so it is gone.
        let status = self.process.try_wait().unwrap_or(Some(ExitStatus::default()))?;
        self.hear();
        let how = match (status.signal(), status.code()) {
            (Some(signal), _) => {
                let name = Signal::try_from(signal).map_or("an unknown signal", Signal::as_str);
                format!("was ended by {name}")
            }
            (None, Some(code)) => format!("ended with status {code}"),
            (None, None) => "ended".to_owned(),
        };
        let words = String::from_utf8_lossy(&self.last_words).trim().replace('\n', "; ");
        Some(if words.is_empty() { how } else { format!("{how}: {words}") })
    }

    /// Takes what it printed, so that it never waits for a reader; the end of it is kept.
    pub(super) fn hear(&mut self) {
        let mut chunk = [0; 4_096];
        while let Ok(len @ 1..) = self.words.read(&mut chunk) {
            self.last_words.extend_from_slice(&chunk[..len]);
            let excess = self.last_words.len().saturating_sub(LAST_WORDS_BYTES_MAX);
            self.last_words.drain(..excess);
        }
    }
}
