//! Signals a process that is certainly the one meant, and only if it has a handler.
//!
//! A process id is reused, and a signal without a handler kills. So a [`Target`] holds a process
//! descriptor, which never comes to mean another process, and what was known of the process is
//! compared *after* the descriptor was opened. Whether a handler *saves* cannot be seen from
//! outside; that one was installed can. Sending at most once is the journal's matter, not this one's.

mod process;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::signal::Signal;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
use sluice_core::pod::PodWorker;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub(crate) use self::process::{ProcessIdentity, SignalMasks};

/// What happens in a process when a signal arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// It has a handler.
    Caught,
    /// It is ignored: nothing happens.
    Ignored,
    /// The default action of the kernel: for the signals used to ask for a save, death.
    Default,
}

impl fmt::Display for Disposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Caught => "it has a handler",
            Self::Ignored => "it ignores the signal",
            Self::Default => "the signal would end it",
        })
    }
}

/// How a process is ended once its work is safe or given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// `SIGTERM`: it may clean up.
    Terminate,
    /// `SIGKILL`: it has no say.
    Kill,
}

/// Why a process was not signalled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignalError {
    /// A signal that asks for a save was refused because it would kill or do nothing.
    #[error(
        "process {pid} was not sent {signal}: it has no handler for it, {disposition}; declare the signal its training script handles or none"
    )]
    NoHandler { pid: u32, signal: Signal, disposition: Disposition },
    /// The process id now belongs to another process, or the machine was restarted.
    #[error(
        "process {pid} is not the one meant: {detail}; the worker has ended, register its new process"
    )]
    StaleTarget { pid: u32, detail: String },
    /// There is no such process any more.
    #[error("there is no process {pid}; the worker has ended, register its new process")]
    NoSuchProcess { pid: u32 },
    /// The operating system does not let this agent.
    #[error(
        "process {pid} may not be signalled or looked into: {source}; run the agent as the user of the worker or with CAP_KILL"
    )]
    NotPermitted { pid: u32, source: io::Error },
    /// Anything else the operating system said.
    #[error(
        "could not {action} process {pid}: {source}; look for exhausted descriptors or an unusual kernel"
    )]
    System { pid: u32, action: &'static str, source: io::Error },
}

impl SignalError {
    /// Stable code, used in metrics, records and messages.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::NoHandler { .. } => "no_handler",
            Self::StaleTarget { .. } => "stale_target",
            Self::NoSuchProcess { .. } => "no_such_process",
            Self::NotPermitted { .. } => "not_permitted",
            Self::System { .. } => "signal_failed",
        }
    }

    fn of(pid: u32, action: &'static str, source: io::Error) -> Self {
        match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::SRCH | Errno::NOENT) => Self::NoSuchProcess { pid },
            Some(Errno::PERM | Errno::ACCESS) => Self::NotPermitted { pid, source },
            Some(_) | None => Self::System { pid, action, source },
        }
    }
}

/// One certain process. Dropping it does nothing to the process.
#[derive(Debug)]
pub(crate) struct Target {
    descriptor: OwnedFd,
    identity: ProcessIdentity,
    owner_uid: u32,
}

impl Target {
    /// Takes hold of process `pid`, which has to have been started at `start_time_ticks` (clock
    /// ticks since boot, field 22 of `/proc/<pid>/stat`).
    ///
    /// # Errors
    /// [`SignalError::NoSuchProcess`], also for an id that is a thread's; `StaleTarget` if another
    /// process has the id by now; `NotPermitted`; `System`.
    pub(crate) fn open(pid: u32, start_time_ticks: u64) -> Result<Self, SignalError> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let raw = raw.ok_or(SignalError::NoSuchProcess { pid })?;
        let descriptor = pidfd_open(raw, PidfdFlags::empty()).map_err(|errno| match errno {
            // A thread that is not the first of its process.
            Errno::INVAL | Errno::NOENT => SignalError::NoSuchProcess { pid },
            other => SignalError::of(pid, "open", other.into()),
        })?;
        // The id cannot be reused while it is compared: either the descriptor was opened on the
        // process meant, or the start times differ.
        let identity = ProcessIdentity::read(pid)?;
        if identity.start_time_ticks != start_time_ticks {
            let detail = format!(
                "it started at tick {}, not at {start_time_ticks}",
                identity.start_time_ticks
            );
            return Err(SignalError::StaleTarget { pid, detail });
        }
        let status = process::Status::read(pid)?;
        let target = Self { descriptor, identity, owner_uid: status.owner_uid };
        // What was read is that of the process held only if that process is still there.
        if target.has_exited()? {
            return Err(SignalError::NoSuchProcess { pid });
        }
        Ok(target)
    }

    /// Takes hold of a process again, as after a restart of the agent.
    ///
    /// # Errors
    /// As [`Self::open`]; [`SignalError::StaleTarget`] also after a restart of the machine, since
    /// when ids and start times begin anew.
    pub(crate) fn reopen(identity: &ProcessIdentity) -> Result<Self, SignalError> {
        let pid = identity.pid;
        let boot_id =
            process::boot_id().map_err(|error| SignalError::of(pid, "look into", error))?;
        if identity.boot_id != boot_id {
            let detail = "the machine was restarted since".to_owned();
            return Err(SignalError::StaleTarget { pid, detail });
        }
        Self::open(pid, identity.start_time_ticks)
    }

    /// Which process this is; can be stored and given to [`Self::reopen`].
    pub(crate) fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// The real user the process runs as.
    pub(crate) fn owner_uid(&self) -> u32 {
        self.owner_uid
    }

    /// Which signals the process handles, ignores and blocks now.
    ///
    /// # Errors
    /// [`SignalError::NoSuchProcess`] once it has ended.
    pub(crate) fn masks(&self) -> Result<SignalMasks, SignalError> {
        let pid = self.identity.pid;
        let masks = process::Status::read(pid)?.masks;
        // Read first, asked second: a process that is still there kept its id meanwhile.
        if self.has_exited()? {
            return Err(SignalError::NoSuchProcess { pid });
        }
        Ok(masks)
    }

    /// Makes sure that the process is in the container of `pod` now.
    ///
    /// # Errors
    /// [`SignalError::StaleTarget`] if it is not; `NoSuchProcess`; `NotPermitted`; `System`.
    pub(crate) fn check_pod(&self, pod: &PodWorker) -> Result<(), SignalError> {
        let pid = self.identity.pid;
        let cgroups = process::cgroups(pid)?;
        if self.has_exited()? {
            return Err(SignalError::NoSuchProcess { pid });
        }
        if pod.has(&cgroups) {
            return Ok(());
        }
        let detail = format!("it is not in container {} of pod {}", pod.container, pod.uid);
        Err(SignalError::StaleTarget { pid, detail })
    }

    /// Sends `signal`, which asks for a save, if the process has a handler for it now.
    ///
    /// # Errors
    /// [`SignalError::NoHandler`]: nothing was sent, the process lives on. `NoSuchProcess` if it
    /// has ended; `NotPermitted`; `System`.
    pub(crate) fn send(&self, signal: Signal) -> Result<(), SignalError> {
        match self.masks()?.disposition(signal) {
            Disposition::Caught => self.send_now(signal),
            disposition @ (Disposition::Ignored | Disposition::Default) => {
                let pid = self.identity.pid;
                Err(SignalError::NoHandler { pid, signal, disposition })
            }
        }
    }

    /// Ends the process. Unlike [`Self::send`] this is meant to.
    ///
    /// # Errors
    /// `NoSuchProcess` if it has ended already; `NotPermitted`; `System`.
    pub(crate) fn end(&self, how: Ending) -> Result<(), SignalError> {
        self.send_now(match how {
            Ending::Terminate => Signal::SIGTERM,
            Ending::Kill => Signal::SIGKILL,
        })
    }

    /// Whether the process has ended, reaped by its parent or not.
    ///
    /// # Errors
    /// [`SignalError::System`] if the descriptor could not be asked.
    pub(crate) fn has_exited(&self) -> Result<bool, SignalError> {
        let mut polled = [PollFd::new(self.descriptor.as_fd(), PollFlags::POLLIN)];
        loop {
            match nix::poll::poll(&mut polled, PollTimeout::ZERO) {
                Ok(ready) => return Ok(ready > 0),
                Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => {
                    return Err(SignalError::of(self.identity.pid, "poll", errno.into()));
                }
            }
        }
    }

    /// Waits until the process has ended. Cancel safe. To be called within a tokio runtime.
    ///
    /// # Errors
    /// [`SignalError::System`] if the descriptor could not be watched.
    pub(crate) async fn exited(&self) -> Result<(), SignalError> {
        let failed = |error| SignalError::of(self.identity.pid, "wait for", error);
        // A copy, so that several tasks can wait at a time: a descriptor is registered once.
        let descriptor = self.descriptor.try_clone().map_err(failed)?;
        #[expect(
            deprecated,
            reason = "what replaces it is unsafe, and an owned descriptor keeps its promise: it stays open and the same"
        )]
        let watched = AsyncFd::with_interest(descriptor, Interest::READABLE).map_err(failed)?;
        let _ready = watched.readable().await.map_err(failed)?;
        Ok(())
    }

    fn send_now(&self, signal: Signal) -> Result<(), SignalError> {
        let pid = self.identity.pid;
        let raw = rustix::process::Signal::from_named_raw(signal as i32)
            .expect("every signal nix names has a name in rustix too");
        pidfd_send_signal(&self.descriptor, raw)
            .map_err(|errno| SignalError::of(pid, "signal", errno.into()))
    }
}
