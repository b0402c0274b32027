//! What tells the agent to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that stop the agent.
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub(super) fn new() -> Result<Self, String> {
        let listen = |kind| signal(kind).map_err(|e| format!("could not listen for signals: {e}"));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
