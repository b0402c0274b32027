//! The signals that `sluice run` and `sluice up` act on.

use std::future::poll_fn;
use std::task::Poll;

use nix::sys::signal::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use crate::failure::Failure;

/// Signals that are passed on to a worker.
pub(crate) const FORWARDED: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Handlers for a set of signals.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    streams: Vec<(Signal, Stream)>,
}

impl Signals {
    /// Installs handlers for `wanted`, except for SIGHUP if it is ignored: what `nohup` has switched
    /// off stays off.
    ///
    /// # Errors
    /// If a handler cannot be installed.
    pub(crate) fn install(wanted: &[Signal]) -> Result<Self, Failure> {
        let no_hangup = ignored_signals() & (1 << (Signal::SIGHUP as i32 - 1)) != 0;
        let open = |&wanted: &Signal| {
            let stream = signal(SignalKind::from_raw(wanted as i32));
            stream.map(|stream| (wanted, stream)).map_err(|e| {
                Failure::runtime(format!("could not install a handler for {wanted}: {e}"))
            })
        };
        let is_on = |s: &&Signal| **s != Signal::SIGHUP || !no_hangup;
        Ok(Self { streams: wanted.iter().filter(is_on).map(open).collect::<Result<_, _>>()? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (number, stream) in &mut self.streams {
                if stream.poll_recv(cx).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Signals that are ignored since before this process, one bit each (bit n-1 for signal n).
fn ignored_signals() -> u64 {
    let status = procfs::process::Process::myself().and_then(|p| p.status());
    // Without /proc all signals are taken as not ignored.
    status.map_or(0, |s| s.sigign)
}

/// True for the signals that ask a program to end.
pub(crate) fn asks_to_end(signal: Signal) -> bool {
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT].contains(&signal)
}

/// The exit status that says "ended by `signal`".
pub(crate) fn exit_status(signal: Signal) -> u8 {
    128_u8.saturating_add(u8::try_from(signal as i32).unwrap_or(127))
}
