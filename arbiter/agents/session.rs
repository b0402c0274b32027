//! One agent's stream, from Hello to its end.
//!
//! An acknowledgement is sent only after what the message led to is durable. Silence, a broken
//! stream and a message that cannot be used all end the session; the agent dials again.

use std::time::Duration;

use sluice::wire::pb::agent_message::Body as Said;
use sluice::wire::pb::arbiter_message::Body;
use sluice::wire::{PROTOCOL, WireError, field, pb};
use sluice_core::arbiter::Input;
use sluice_core::id::NodeName;
use sluice_core::protocol::{DrainEvent, NodeReport};
use tokio::sync::{mpsc, oneshot};
use tonic::{Status, Streaming};
use tracing::{debug, info, warn};

use super::service::AgentsService;
use super::{End, Joined, Outgoing};

/// How long an agent may take to say who it is.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// When an agent should come back after the arbiter has gone away. Unit: ms.
const RETRY_AFTER_MS: u64 = 1_000;
/// Change of the fleet's heartbeat that is worth telling. Unit: ms.
const CADENCE_STEP_MS: u64 = 500;
/// Longest text in a Hello. The limit of Kubernetes object names.
const HELLO_TEXT_BYTES_MAX: usize = 253;

/// Serves one stream; the outcome is its last message.
pub(super) async fn run(
    service: AgentsService,
    mut inbound: Streaming<pb::AgentMessage>,
    outbox: mpsc::Sender<Outgoing>,
) {
    let result = match hello(&mut inbound).await {
        Ok((node, hello, seq)) => Session::serve(service, node, hello, seq, inbound, &outbox).await,
        Err(status) => Err(status),
    };
    if let Err(status) = result {
        // The agent may be gone or deaf: then the end of the stream tells it.
        drop(outbox.try_send(Err(status)));
    }
}

/// The first message.
async fn hello(
    inbound: &mut Streaming<pb::AgentMessage>,
) -> Result<(NodeName, pb::Hello, u64), Status> {
    let first = tokio::time::timeout(HELLO_TIMEOUT, inbound.message()).await.map_err(|_| {
        let seconds = HELLO_TIMEOUT.as_secs();
        Status::deadline_exceeded(format!("no Hello within {seconds} s of connecting"))
    })??;
    let Some(pb::AgentMessage { seq, body: Some(Said::Hello(hello)) }) = first else {
        return Err(Status::failed_precondition("the first message has to be Hello"));
    };
    if hello.protocol != PROTOCOL {
        return Err(Status::failed_precondition(format!(
            "the agent speaks protocol {} (version {:?}), this arbiter speaks protocol {PROTOCOL} (version {:?}); \
             install the same version of both",
            hello.protocol,
            hello.version,
            env!("CARGO_PKG_VERSION")
        )));
    }
    let node = field::name("hello.node", &hello.node)?;
    for (name, text) in [
        ("hello.node_uid", &hello.node_uid),
        ("hello.boot_id", &hello.boot_id),
        ("hello.instance", &hello.instance),
        ("hello.version", &hello.version),
    ] {
        if text.len() > HELLO_TEXT_BYTES_MAX || (text.is_empty() && name == "hello.node_uid") {
            let expected = format!("1 to {HELLO_TEXT_BYTES_MAX} bytes");
            return Err(WireError::new(name, text, expected).into());
        }
    }
    Ok((node, hello, seq))
}

/// A stream that was accepted.
struct Session<'a> {
    service: AgentsService,
    node: NodeName,
    number: u64,
    outbox: &'a mpsc::Sender<Outgoing>,
    /// Cadence that the agent was last told. Unit: ms.
    heartbeat_ms: u64,
    /// A full report is awaited: changes to what the arbiter does not have would be lost.
    needs_full: bool,
}

impl<'a> Session<'a> {
    async fn serve(
        service: AgentsService,
        node: NodeName,
        hello: pb::Hello,
        seq: u64,
        mut inbound: Streaming<pb::AgentMessage>,
        outbox: &'a mpsc::Sender<Outgoing>,
    ) -> Result<(), Status> {
        warn_of_higher_epoch(&node, &hello, service.epoch);
        let (joined, connected) = {
            let _turn = service.turnstile.lock().await;
            let joined = service.agents.join(&node, hello, service.epoch, outbox.clone())?;
            let connected = Input::AgentConnected { node: node.clone() };
            (joined, service.handle.post(connected).await)
        };
        let Joined { session: number, heartbeat_ms, is_known, mut ends } = joined;
        let needs_full = !is_known;
        let mut session = Session { service, node, number, outbox, heartbeat_ms, needs_full };
        let result = match connected {
            Ok(_) => session.talk(&mut inbound, &mut ends, seq).await,
            Err(stopped) => Err(stopped.into()),
        };
        session.leave(&result).await;
        result
    }

    async fn talk(
        &mut self,
        inbound: &mut Streaming<pb::AgentMessage>,
        ends: &mut oneshot::Receiver<End>,
        seq: u64,
    ) -> Result<(), Status> {
        info!(node = %self.node, session = self.number, full = self.needs_full, "agent connected");
        if !self.needs_full {
            self.report_mirror().await?;
        }
        self.acknowledge(seq).await?;
        loop {
            let lost_after_ms = self.service.agents.lost_after_ms(self.heartbeat_ms);
            let lost_after = Duration::from_millis(lost_after_ms);
            let message = tokio::select! {
                end = &mut *ends => return self.end(end.unwrap_or(End::GoingAway)).await,
                message = tokio::time::timeout(lost_after, inbound.message()) => message,
            };
            let message = message.map_err(|_| {
                Status::deadline_exceeded(format!("nothing was heard for {lost_after_ms} ms"))
            })?;
            let Some(message) = message? else { return Ok(()) };
            self.hear(message).await?;
        }
    }

    async fn hear(&mut self, message: pb::AgentMessage) -> Result<(), Status> {
        let seq = message.seq;
        let body = field::required("body", message.body)?;
        match body {
            Said::Hello(_) => {
                return Err(Status::failed_precondition("Hello was said twice on one stream"));
            }
            Said::Report(report) => self.report(report).await?,
            Said::Heartbeat(heartbeat) => {
                let hash = heartbeat.state_hash;
                let matches = self.mirror(|mirror| hash.is_none_or(|h| mirror.digest() == h))?;
                if !matches {
                    self.resync("heartbeat").await?;
                }
            }
            Said::DrainEvent(event) => {
                let event = DrainEvent::try_from(&event).map_err(|e| e.within("drain_event"))?;
                let node = self.node.clone();
                self.service.handle.step(Input::DrainEvent { node, event }).await?;
            }
            Said::QueryAnswer(answer) => {
                debug!(node = %self.node, query_id = answer.query_id, "an answer nobody asked for");
            }
        }
        self.acknowledge(seq).await
    }

    async fn report(&mut self, report: pb::Report) -> Result<(), Status> {
        if self.needs_full && !report.full {
            return self.resync("report of changes before everything was told").await;
        }
        let input = NodeReport::try_from(&report).map_err(|e| e.within("report"))?;
        let hash = report.state_hash;
        let matches = self.mirror(|mirror| {
            mirror.apply(report)?;
            Ok::<bool, Status>(hash == 0 || mirror.digest() == hash)
        })??;
        self.needs_full = false;
        if input != NodeReport::default() {
            let node = self.node.clone();
            self.service.handle.step(Input::NodeReport { node, report: input }).await?;
        }
        if matches { Ok(()) } else { self.resync("report").await }
    }

    /// The agent goes on with changes: core is told the rest from what was kept.
    async fn report_mirror(&mut self) -> Result<(), Status> {
        let report = self.mirror(|mirror| mirror.full())??;
        let node = self.node.clone();
        Ok(self.service.handle.step(Input::NodeReport { node, report }).await?)
    }

    async fn resync(&mut self, after: &str) -> Result<(), Status> {
        warn!(node = %self.node, after, "state of the agent and of the arbiter differ; it tells everything again");
        self.needs_full = true;
        self.send(Body::Resync(pb::Resync {})).await
    }

    /// Acknowledges everything up to `seq`, and tells the cadence where the fleet has changed.
    async fn acknowledge(&mut self, seq: u64) -> Result<(), Status> {
        let wanted_ms = self.service.agents.heartbeat_ms();
        let changed = wanted_ms.abs_diff(self.heartbeat_ms) >= CADENCE_STEP_MS;
        if changed {
            self.heartbeat_ms = wanted_ms;
        }
        let heartbeat_interval_ms = if changed { wanted_ms } else { 0 };
        self.send(Body::Ack(pb::Ack { seq, heartbeat_interval_ms })).await
    }

    fn mirror<T>(&self, work: impl FnOnce(&mut super::Mirror) -> T) -> Result<T, Status> {
        let found = self.service.agents.with_mirror(&self.node, self.number, work);
        found.ok_or_else(replaced)
    }

    async fn send(&self, body: Body) -> Result<(), Status> {
        let message = pb::ArbiterMessage { body: Some(body) };
        let patience = Duration::from_millis(self.service.agents.lost_after_ms(self.heartbeat_ms));
        match tokio::time::timeout(patience, self.outbox.send(Ok(message))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Status::cancelled("the agent has gone")),
            Err(_) => Err(overrun()),
        }
    }

    async fn end(&self, end: End) -> Result<(), Status> {
        match end {
            End::Replaced => Err(replaced()),
            End::Overrun => Err(overrun()),
            End::GoingAway => {
                let going = pb::GoingAway { retry_after_ms: RETRY_AFTER_MS };
                self.send(Body::GoingAway(going)).await
            }
        }
    }

    async fn leave(&self, result: &Result<(), Status>) {
        let _turn = self.service.turnstile.lock().await;
        if !self.service.agents.leave(&self.node, self.number) {
            return;
        }
        let why = result.as_ref().err().map_or("it ended the stream", Status::message);
        info!(node = %self.node, session = self.number, why, "agent disconnected");
        let node = self.node.clone();
        // If the arbiter is stopping nobody needs to be told.
        drop(self.service.handle.post(Input::AgentDisconnected { node }).await);
    }
}

fn replaced() -> Status {
    Status::aborted("the same agent has connected again on another stream")
}

fn overrun() -> Status {
    Status::resource_exhausted(
        "messages to the agent are not taken; connect again to be told what is open",
    )
}

/// An agent that has obeyed a later arbiter refuses this one's orders.
fn warn_of_higher_epoch(node: &NodeName, hello: &pb::Hello, epoch: u64) {
    if hello.epoch > epoch {
        warn!(
            %node,
            theirs = hello.epoch,
            ours = epoch,
            "the agent has obeyed an arbiter with a higher epoch and will refuse orders; stop that arbiter, \
             or start this one with its state directory"
        );
    }
}
