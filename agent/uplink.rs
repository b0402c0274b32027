//! The stream to the arbiter: dials, tells what has changed, takes orders, and dials again.
//!
//! The agent works without it. Cut off, it starts nothing new; what it saw is told once the stream is back.

mod backoff;
mod delta;
mod outbox;
mod session;

use std::time::Duration;

use sluice::net::{self, Address};
use sluice_core::unit::Time;
use tokio::sync::{mpsc, watch};
use tracing::{debug, error, info, warn};

use crate::executor::Message;
use crate::report::{Reporter, count};

use self::backoff::Backoff;
use self::delta::Told;
use self::session::{End, Session};

pub(crate) use self::outbox::Outbox;

/// How the stream is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UplinkStatus {
    /// The arbiter has answered on a stream that is up.
    pub(crate) connected: bool,
    /// When the arbiter last acknowledged something.
    pub(crate) last_ack_at: Option<Time>,
    /// Why it is not connected; empty when it is.
    pub(crate) disconnect_reason: String,
    /// Cadence assigned by the arbiter. Unit: ms; 0 before the first stream.
    pub(crate) heartbeat_interval_ms: u64,
}

/// What outlives a stream.
#[derive(Debug)]
pub(crate) struct Uplink {
    arbiter: Address,
    reporter: Reporter,
    messages: mpsc::Sender<Message>,
    outbox: Outbox,
    status: watch::Sender<UplinkStatus>,
    told: Told,
    /// Position of the last message; counts on over streams.
    seq: u64,
    /// Highest position that was acknowledged.
    acked_seq: u64,
    rng: fastrand::Rng,
}

impl Uplink {
    pub(crate) fn new(
        arbiter: Address,
        reporter: Reporter,
        messages: mpsc::Sender<Message>,
        outbox: Outbox,
        status: watch::Sender<UplinkStatus>,
    ) -> Self {
        let (told, rng) = (Told::default(), fastrand::Rng::new());
        Self { arbiter, reporter, messages, outbox, status, told, seq: 0, acked_seq: 0, rng }
    }

    /// Keeps a stream up for as long as the agent runs.
    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::default();
        loop {
            let was_up = self.reporter.counters.connects.load(std::sync::atomic::Ordering::Relaxed);
            let end = self.one_stream().await;
            if self.reporter.counters.connects.load(std::sync::atomic::Ordering::Relaxed) > was_up {
                backoff.reset();
            }
            let delay = match &end {
                End::GoingAway { retry_after } => backoff.after(*retry_after, &mut self.rng),
                End::Refused(_) => backoff.longest(&mut self.rng),
                End::Broken(_) => backoff.next(&mut self.rng),
                End::Stopping => return,
            };
            self.note(&end, delay);
            tokio::time::sleep(delay).await;
        }
    }

    async fn one_stream(&mut self) -> End {
        let channel = match net::connect(&self.arbiter).await {
            Ok(channel) => channel,
            Err(why) => return End::Broken(why.to_string()),
        };
        let (session, inbound) = match Session::open(self, channel).await {
            Ok(opened) => opened,
            Err(end) => return end,
        };
        count(&self.reporter.counters.connects);
        self.status.send_modify(|status| {
            status.connected = true;
            status.disconnect_reason.clear();
        });
        info!(arbiter = %self.arbiter, "connected to the arbiter");
        session.run(self, inbound).await
    }

    /// Logs an end once; the same again is for debugging only, as an arbiter may be away for days.
    fn note(&self, end: &End, delay: Duration) {
        let why = end.to_string();
        let is_new = self.status.borrow().disconnect_reason != why;
        self.status.send_modify(|status| {
            status.connected = false;
            status.disconnect_reason.clone_from(&why);
        });
        let retry_ms = crate::clock::whole_ms(delay);
        match end {
            End::Refused(_) if is_new => error!(retry_ms, "the arbiter refuses this agent: {why}"),
            End::GoingAway { .. } => info!(retry_ms, "{why}"),
            End::Broken(_) if is_new => warn!(retry_ms, "not connected to the arbiter: {why}"),
            End::Refused(_) | End::Broken(_) | End::Stopping => {
                debug!(retry_ms, "still not connected to the arbiter: {why}");
            }
        }
    }
}
