//! One stream: from the hello to its end.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use sluice::wire::pb::agent_message::Body;
use sluice::wire::pb::agents_client::AgentsClient;
use sluice::wire::pb::arbiter_message::Body as Answer;
use sluice::wire::{PROTOCOL, asked, pb};
use sluice_core::agent::Input;
use sluice_core::protocol::Order;
use sluice_core::volume::read_ahead::Asked;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tracing::{debug, info, warn};

use super::Uplink;
use crate::clock;
use crate::executor::Message;
use crate::report::{Reporter, count};

/// Longest wait for the arbiter's welcome. An arbiter that is flooded with agents after its start lets some wait.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(20);

/// Messages on their way to the wire. What does not fit waits in its own place, where newer may replace it.
const SENDING_MAX: usize = 16;

/// Questions of the arbiter that wait for an answer; it asks one at a time.
const QUERIES_MAX: usize = 16;

/// Bounds of what the arbiter may assign: below, its agents would flood it; above, nothing would be noticed.
const INTERVAL_MS: std::ops::RangeInclusive<u64> = 50..=600_000;

/// Silence that ends a stream where the arbiter assigned none.
const LOST_AFTER_MS: u64 = 60_000;

/// How often the digest is sent where the arbiter assigned nothing.
const DIGEST_INTERVAL_MS: u64 = 300_000;

/// Why a stream ended, or never began.
#[derive(Debug)]
pub(super) enum End {
    /// The arbiter asked to come back later.
    GoingAway { retry_after: Duration },
    /// The arbiter will not have this agent: another version, or another agent with its name.
    Refused(String),
    /// Anything that may pass.
    Broken(String),
    /// The agent stops.
    Stopping,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GoingAway { .. } => f.write_str("the arbiter asked to come back later"),
            Self::Refused(why) | Self::Broken(why) => f.write_str(why),
            Self::Stopping => f.write_str("the agent stops"),
        }
    }
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        let text = status.message().to_owned();
        match status.code() {
            Code::FailedPrecondition | Code::AlreadyExists | Code::InvalidArgument => {
                Self::Refused(text)
            }
            Code::Ok => Self::Broken("the arbiter ended the stream".to_owned()),
            code => Self::Broken(format!("the stream broke: {text} ({code:?})")),
        }
    }
}

/// What is to be told of the node.
#[derive(Debug, Clone, Copy, Default)]
struct Due {
    /// Everything.
    full: bool,
    /// What may have changed.
    change: bool,
    /// Figures, or at least a sign of life.
    heartbeat: bool,
}

/// The stream's state.
#[derive(Debug)]
pub(super) struct Session {
    sender: mpsc::Sender<pb::AgentMessage>,
    heartbeat_interval: Duration,
    lost_after: Duration,
    digest_interval: Duration,
    heard_at: Instant,
    heartbeat_at: Instant,
    digest_at: Instant,
    due: Due,
    /// The wire takes no more for now.
    is_blocked: bool,
    queries: VecDeque<u64>,
}

impl Session {
    /// Says hello and waits for the welcome.
    ///
    /// # Errors
    /// How the attempt ended.
    pub(super) async fn open(
        uplink: &mut Uplink,
        channel: Channel,
    ) -> Result<(Self, Streaming<pb::ArbiterMessage>), End> {
        let (sender, receiver) = mpsc::channel(SENDING_MAX);
        uplink.seq += 1;
        let hello = hello(uplink);
        let hello = pb::AgentMessage { seq: uplink.seq, body: Some(Body::Hello(hello)) };
        sender.try_send(hello).expect("an empty channel has room");
        let attempt = async {
            let mut client = AgentsClient::new(channel);
            let mut inbound = client.connect(ReceiverStream::new(receiver)).await?.into_inner();
            let first = inbound.message().await?;
            Ok::<_, Status>((inbound, first))
        };
        let (inbound, first) = match timeout(WELCOME_TIMEOUT, attempt).await {
            Ok(result) => result?,
            Err(_) => {
                let waited = WELCOME_TIMEOUT.as_secs();
                return Err(End::Broken(format!("no welcome from the arbiter within {waited} s")));
            }
        };
        match first.and_then(|message| message.body) {
            Some(Answer::Welcome(welcome)) => {
                uplink.outbox.start_over();
                Ok((Self::welcomed(uplink, &welcome, sender)?, inbound))
            }
            Some(Answer::GoingAway(away)) => Err(going_away(&away)),
            Some(_) => Err(End::Refused("the arbiter answered the hello with something else than a welcome; run the same version on both sides".to_owned())),
            None => Err(End::Broken("the arbiter ended the stream before its welcome".to_owned())),
        }
    }

    fn welcomed(
        uplink: &mut Uplink,
        welcome: &pb::Welcome,
        sender: mpsc::Sender<pb::AgentMessage>,
    ) -> Result<Self, End> {
        deliver(uplink, Message::Input(Input::Epoch(welcome.epoch)))?;
        let asked = asked::heard(welcome.volumes.clone());
        let before = |before: &mut Asked| std::mem::replace(before, asked.clone()) != asked;
        uplink.reporter.sensors.asked.send_if_modified(before);
        let now = Instant::now();
        let heartbeat_interval = assigned(welcome.heartbeat_interval_ms, *INTERVAL_MS.end() / 100);
        let lost_after = assigned(welcome.lost_after_ms, LOST_AFTER_MS);
        let digest_interval = assigned(welcome.digest_interval_ms, DIGEST_INTERVAL_MS);
        debug!(epoch = welcome.epoch, full = welcome.resync_full, "welcome");
        let mut first = |within: Duration| now + within.mul_f64(uplink.rng.f64());
        let session = Self {
            sender,
            heartbeat_interval,
            // Acknowledgements come with heartbeats at the latest, so silence below a few of them means nothing.
            lost_after: lost_after.max(heartbeat_interval.saturating_mul(3)),
            digest_interval,
            heard_at: now,
            // Anywhere within the first interval: agents that were welcomed together do not stay in step.
            heartbeat_at: first(heartbeat_interval),
            digest_at: first(digest_interval),
            due: Due { full: welcome.resync_full, change: true, heartbeat: false },
            is_blocked: false,
            queries: VecDeque::new(),
        };
        session.publish_interval(uplink);
        Ok(session)
    }

    /// Carries the stream until it ends.
    pub(super) async fn run(
        mut self,
        uplink: &mut Uplink,
        mut inbound: Streaming<pb::ArbiterMessage>,
    ) -> End {
        let mut sensors = uplink.reporter.sensors.clone();
        let mut view = uplink.reporter.view.clone();
        let mut health = uplink.reporter.health.clone();
        let outbox = uplink.outbox.clone();
        let sender = self.sender.clone();
        loop {
            self.send_what_is_due(uplink);
            tokio::select! {
                message = inbound.message() => match message {
                    Ok(Some(message)) => {
                        self.heard_at = Instant::now();
                        if let Err(end) = self.hear(uplink, message) {
                            return end;
                        }
                    }
                    Ok(None) => return End::Broken("the arbiter ended the stream".to_owned()),
                    Err(status) => return status.into(),
                },
                () = sensors.changed() => self.due.change = true,
                () = changed(&mut view) => self.due.change = true,
                () = changed(&mut health) => self.due.change = true,
                () = outbox.pushed() => {}
                () = sleep_until(self.heartbeat_at) => {
                    self.due.heartbeat = true;
                    self.heartbeat_at = Instant::now() + self.heartbeat_interval;
                }
                () = sleep_until(self.heard_at + self.lost_after) => {
                    let silent_ms = clock::whole_ms(self.lost_after);
                    return End::Broken(format!("nothing was heard of the arbiter for {silent_ms} ms"));
                }
                permit = sender.reserve(), if self.is_blocked => {
                    if permit.is_err() {
                        return End::Broken("the stream to the arbiter was closed".to_owned());
                    }
                    self.is_blocked = false;
                }
            }
        }
    }

    fn hear(&mut self, uplink: &mut Uplink, message: pb::ArbiterMessage) -> Result<(), End> {
        match message.body {
            Some(Answer::Ack(ack)) => self.acknowledged(uplink, &ack),
            Some(Answer::Order(order)) => match Order::try_from(&order) {
                Ok(order) => {
                    debug!(drain = %order.drain, worker = %order.worker, verb = ?order.verb, "order");
                    deliver(uplink, Message::Order(order))?;
                }
                Err(why) => {
                    let drain = &order.drain_id;
                    warn!(drain, "an order of the arbiter cannot be read and is ignored: {why}");
                }
            },
            Some(Answer::Query(query)) if self.queries.len() < QUERIES_MAX => {
                self.queries.push_back(query.query_id);
            }
            Some(Answer::Query(query)) => {
                warn!(
                    query_id = query.query_id,
                    "a question of the arbiter is not answered: {QUERIES_MAX} wait already"
                );
            }
            Some(Answer::Resync(pb::Resync {})) => {
                info!("the arbiter asks for everything: what it has differs from what was told");
                self.due.full = true;
            }
            Some(Answer::GoingAway(away)) => return Err(going_away(&away)),
            // Something of a later version that need not be understood, or a second welcome.
            Some(Answer::Welcome(_)) | None => {}
        }
        Ok(())
    }

    fn acknowledged(&mut self, uplink: &mut Uplink, ack: &pb::Ack) {
        uplink.outbox.acknowledged(ack.seq);
        uplink.acked_seq = uplink.acked_seq.max(ack.seq.min(uplink.seq));
        uplink.status.send_modify(|status| status.last_ack_at = Some(clock::now()));
        if ack.heartbeat_interval_ms > 0 {
            let before = self.heartbeat_interval;
            self.heartbeat_interval = assigned(ack.heartbeat_interval_ms, 0);
            self.lost_after = self.lost_after.max(self.heartbeat_interval.saturating_mul(3));
            if self.heartbeat_interval < before {
                self.heartbeat_at = self.heartbeat_at.min(Instant::now() + self.heartbeat_interval);
            }
            self.publish_interval(uplink);
        }
    }

    fn publish_interval(&self, uplink: &Uplink) {
        let interval_ms = clock::whole_ms(self.heartbeat_interval);
        uplink.status.send_if_modified(|status| {
            std::mem::replace(&mut status.heartbeat_interval_ms, interval_ms) != interval_ms
        });
    }

    /// Sends until there is nothing to send or no room. Events first: a drain waits for them.
    fn send_what_is_due(&mut self, uplink: &mut Uplink) {
        loop {
            match self.sender.clone().try_reserve() {
                Ok(permit) => {
                    let Some(body) = self.next_body(uplink) else { return };
                    uplink.seq += 1;
                    permit.send(pb::AgentMessage { seq: uplink.seq, body: Some(body) });
                }
                // A closed channel shows at once as the end of what is heard.
                Err(TrySendError::Full(()) | TrySendError::Closed(())) => {
                    self.is_blocked = true;
                    return;
                }
            }
        }
    }

    fn next_body(&mut self, uplink: &mut Uplink) -> Option<Body> {
        if let Some(event) = uplink.outbox.take(uplink.seq + 1) {
            return Some(Body::DrainEvent(event));
        }
        if let Some(query_id) = self.queries.pop_front() {
            let report = Some(uplink.reporter.answer());
            return Some(Body::QueryAnswer(pb::QueryAnswer { query_id, report }));
        }
        if self.due.full || self.due.change || self.due.heartbeat {
            let report = self.next_report(uplink);
            if report.is_some() {
                return report.map(Body::Report);
            }
        }
        if !std::mem::take(&mut self.due.heartbeat) {
            return None;
        }
        let is_digest_due = Instant::now() >= self.digest_at;
        if is_digest_due {
            self.digest_at = Instant::now() + self.digest_interval;
        }
        let state_hash = is_digest_due.then(|| uplink.told.digest());
        Some(Body::Heartbeat(pb::Heartbeat { state_hash }))
    }

    fn next_report(&mut self, uplink: &mut Uplink) -> Option<pb::Report> {
        let is_full = std::mem::take(&mut self.due.full);
        let has_figures = is_full || self.due.heartbeat;
        self.due.change = false;
        let report = uplink.told.tell(uplink.reporter.report(), is_full, has_figures)?;
        count(&uplink.reporter.counters.reports_sent);
        if has_figures && Instant::now() < self.digest_at {
            // It is a sign of life as good as a heartbeat; only the digest needs one of its own.
            self.due.heartbeat = false;
        }
        Some(report)
    }
}

fn hello(uplink: &Uplink) -> pb::Hello {
    let Reporter { identity, view, .. } = &uplink.reporter;
    pb::Hello {
        node: identity.node.clone(),
        node_uid: identity.node_uid.clone(),
        boot_id: identity.boot_id.clone(),
        instance: identity.instance.clone(),
        protocol: PROTOCOL,
        last_seq: uplink.acked_seq,
        state_hash: uplink.told.digest(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        simulated: identity.is_simulated,
        epoch: view.borrow().agent.epoch(),
    }
}

/// Hands a message to the owner of the state. If its queue is full the stream ends, and the arbiter gives its orders
/// anew on the next: none is lost, none waits unseen.
fn deliver(uplink: &Uplink, message: Message) -> Result<(), End> {
    uplink.messages.try_send(message).map_err(|error| match error {
        TrySendError::Full(_) => End::Broken(
            "orders come faster than they can be journalled; the state directory's disk may be full or slow".to_owned(),
        ),
        TrySendError::Closed(_) => End::Stopping,
    })
}

fn going_away(away: &pb::GoingAway) -> End {
    End::GoingAway { retry_after: Duration::from_millis(away.retry_after_ms) }
}

/// A span that the arbiter assigned, within bounds; `default_ms` where it assigned none.
fn assigned(ms: u64, default_ms: u64) -> Duration {
    let ms = if ms == 0 { default_ms } else { ms };
    Duration::from_millis(ms.clamp(*INTERVAL_MS.start(), *INTERVAL_MS.end()))
}

async fn changed<T>(view: &mut tokio::sync::watch::Receiver<T>) {
    if view.changed().await.is_err() {
        // The owner of the state has ended: the agent stops, and this task is ended with it.
        std::future::pending::<()>().await;
    }
}
