//! The agents' side: who is connected, what each node has reported, and where orders go.
//!
//! Each stream is a task ([`session`]); this module is what they share. Orders are queued per stream
//! with a bound: an agent that does not take them is disconnected and told again when it is back,
//! so that none is lost.

mod mirror;
mod service;
mod session;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sluice::wire::asked::told;
use sluice::wire::pb::{self, arbiter_message::Body};
use sluice_core::id::NodeName;
use sluice_core::protocol::Order;
use sluice_core::volume::read_ahead::Asked;
use tokio::sync::{mpsc, oneshot};
use tonic::Status;
use tracing::warn;

use crate::config::AgentTimes;
use mirror::Mirror;

pub(crate) use service::AgentsService;

/// Most messages waiting for one agent. A node has a handful of workers, each with a few orders;
/// what does not fit belongs to an agent that has stopped reading.
const OUTBOX_MAX: usize = 64;
/// Most nodes known. Twice the largest GKE cluster.
const NODES_MAX: usize = 131_072;
/// Fleet size that one heartbeat every 2 s allows at 250 messages a second.
const AGENTS_PER_SECOND: u64 = 250;
/// Shortest time between heartbeats where the fleet decides. Unit: ms.
const HEARTBEAT_MS_MIN: u64 = 2_000;
/// Heartbeats that may be missing before an agent counts as lost.
const HEARTBEATS_LOST: u64 = 3;
/// How often a heartbeat carries the digest. Unit: ms.
const DIGEST_INTERVAL_MS: u64 = 300_000;

/// What goes to an agent.
type Outgoing = Result<pb::ArbiterMessage, Status>;

/// Why the arbiter ends a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// The same agent has come back on another stream.
    Replaced,
    /// Its orders could not be queued.
    Overrun,
    /// The arbiter stops.
    GoingAway,
}

/// The stream of a connected agent.
#[derive(Debug)]
struct Link {
    outbox: mpsc::Sender<Outgoing>,
    /// Taken when the stream is told to end.
    end: Option<oneshot::Sender<End>>,
}

impl Link {
    fn end(&mut self, why: End) {
        // A session that ends by itself at this moment has dropped the receiver.
        if let Some(sender) = self.end.take() {
            drop(sender.send(why));
        }
    }
}

/// A node whose agent has been connected since the start of the arbiter.
#[derive(Debug)]
struct Entry {
    hello: pb::Hello,
    session: u64,
    last_seen: Instant,
    mirror: Mirror,
    link: Option<Link>,
}

/// What is known of one node, for people.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NodeView {
    /// What it has reported, with ages as of now.
    pub report: pb::NodeReport,
    /// Version of its agent.
    pub version: String,
    /// Number of its newest stream.
    pub session: u64,
    /// Time since it last said anything. Unit: ms.
    pub last_seen_ms: u64,
}

/// All agents.
#[derive(Debug)]
pub(crate) struct Agents {
    times: AgentTimes,
    /// What PersistentVolumes ask for.
    asked: Vec<pb::VolumeIntent>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<NodeName, Entry>,
    connected: u64,
    sessions: u64,
    stopping: bool,
}

/// A stream that was accepted.
struct Joined {
    session: u64,
    /// Cadence that the agent was told. Unit: ms.
    heartbeat_ms: u64,
    /// What the agent believes the arbiter to have is what it has.
    is_known: bool,
    ends: oneshot::Receiver<End>,
}

impl Agents {
    /// No agents yet.
    pub(crate) fn new(times: AgentTimes, asked: &Asked) -> Arc<Self> {
        Arc::new(Self { times, asked: told(asked), state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of streams that are up.
    pub(crate) fn connected(&self) -> u64 {
        self.lock().connected
    }

    /// Time between heartbeats for the fleet as it is. Unit: ms.
    fn heartbeat_ms(&self) -> u64 {
        self.cadence_ms(self.connected())
    }

    /// Time between heartbeats for so many agents. Unit: ms.
    fn cadence_ms(&self, agents: u64) -> u64 {
        match self.times.heartbeat_ms {
            0 => HEARTBEAT_MS_MIN.max(agents * 1_000 / AGENTS_PER_SECOND),
            fixed_ms => fixed_ms,
        }
    }

    /// Silence after which an agent with this cadence is lost. Unit: ms.
    fn lost_after_ms(&self, heartbeat_ms: u64) -> u64 {
        self.times.lost_ms.max(heartbeat_ms.saturating_mul(HEARTBEATS_LOST))
    }

    /// Queues `order` for the agent of `node`. Without an agent it is dropped: core sends what is
    /// open again when the agent connects.
    pub(crate) fn send(&self, node: &NodeName, order: &Order) {
        let mut state = self.lock();
        let Some(link) = state.nodes.get_mut(node).and_then(|entry| entry.link.as_mut()) else {
            return;
        };
        let message = pb::ArbiterMessage { body: Some(Body::Order(order.into())) };
        if link.outbox.try_send(Ok(message)).is_err() {
            warn!(%node, waiting = OUTBOX_MAX, "the agent does not take its orders; it is disconnected");
            link.end(End::Overrun);
        }
    }

    /// Accepts a stream and welcomes the agent: its state directory decides who owns a node's name.
    fn join(
        &self,
        node: &NodeName,
        hello: pb::Hello,
        epoch: u64,
        outbox: mpsc::Sender<Outgoing>,
    ) -> Result<Joined, Status> {
        let mut state = self.lock();
        state.check_room(node)?;
        let older = state.nodes.get(node);
        let is_same = older.is_some_and(|entry| entry.hello.node_uid == hello.node_uid);
        if let Some(entry) = older.filter(|entry| entry.link.is_some() && !is_same) {
            return Err(taken(&entry.hello, &hello));
        }
        let digest = older.filter(|_| is_same).map_or(0, |entry| entry.mirror.digest());
        let is_known = digest != 0 && digest == hello.state_hash;
        let heartbeat_ms = self.cadence_ms(state.connected + 1);
        let welcome = pb::Welcome {
            epoch,
            resync_full: !is_known,
            heartbeat_interval_ms: heartbeat_ms,
            lost_after_ms: self.lost_after_ms(heartbeat_ms),
            digest_interval_ms: DIGEST_INTERVAL_MS,
            volumes: self.asked.clone(),
        };
        // Queued before anybody can queue an order: an agent is welcomed first.
        let welcome = pb::ArbiterMessage { body: Some(Body::Welcome(welcome)) };
        outbox.try_send(Ok(welcome)).map_err(|_| Status::cancelled("the agent has gone"))?;
        let (end, ends) = oneshot::channel();
        let link = Link { outbox, end: Some(end) };
        let session = state.enter(node, hello, is_same, link);
        Ok(Joined { session, heartbeat_ms, is_known, ends })
    }

    /// Ends a stream. True if it was the node's newest, so that the node has no agent now; never
    /// while the arbiter stops: then it is not the agent that has gone.
    fn leave(&self, node: &NodeName, session: u64) -> bool {
        let mut state = self.lock();
        let Some(entry) = state.nodes.get_mut(node).filter(|entry| entry.session == session) else {
            return false;
        };
        if entry.link.take().is_some() {
            state.connected -= 1;
        }
        !state.stopping
    }

    /// Works on the mirror of a node whose stream is still the newest.
    fn with_mirror<T>(
        &self,
        node: &NodeName,
        session: u64,
        work: impl FnOnce(&mut Mirror) -> T,
    ) -> Option<T> {
        let mut state = self.lock();
        let entry = state.nodes.get_mut(node).filter(|entry| entry.session == session)?;
        entry.last_seen = Instant::now();
        Some(work(&mut entry.mirror))
    }

    /// What is known of `node`.
    pub(crate) fn view(&self, node: &NodeName) -> Option<NodeView> {
        let state = self.lock();
        let entry = state.nodes.get(node)?;
        Some(NodeView {
            report: pb::NodeReport {
                node: entry.hello.node.clone(),
                node_uid: entry.hello.node_uid.clone(),
                boot_id: entry.hello.boot_id.clone(),
                simulated: entry.hello.simulated,
                ..entry.mirror.report()
            },
            version: entry.hello.version.clone(),
            session: entry.session,
            last_seen_ms: millis(entry.last_seen.elapsed()),
        })
    }

    /// Tells every agent to come back later and ends its stream. Nobody joins any more.
    pub(crate) fn go_away(&self) {
        let mut state = self.lock();
        state.stopping = true;
        for link in state.nodes.values_mut().filter_map(|entry| entry.link.as_mut()) {
            link.end(End::GoingAway);
        }
    }
}

impl State {
    fn check_room(&self, node: &NodeName) -> Result<(), Status> {
        if self.stopping {
            return Err(Status::unavailable("the arbiter is stopping; connect again in a moment"));
        }
        if self.nodes.len() < NODES_MAX || self.nodes.contains_key(node) {
            return Ok(());
        }
        Err(Status::resource_exhausted(format!(
            "{} nodes are known and the limit is {NODES_MAX}; restart the arbiter to forget those that are gone",
            self.nodes.len()
        )))
    }

    /// Puts a stream in the place of the node's older one; what was reported is kept for the same agent.
    fn enter(&mut self, node: &NodeName, hello: pb::Hello, is_same: bool, link: Link) -> u64 {
        self.sessions += 1;
        let session = self.sessions;
        let mut mirror = Mirror::default();
        if let Some(mut older) = self.nodes.remove(node) {
            if let Some(mut link) = older.link.take() {
                link.end(End::Replaced);
                self.connected -= 1;
            }
            if is_same {
                mirror = older.mirror;
            }
        }
        self.connected += 1;
        let (link, last_seen) = (Some(link), Instant::now());
        self.nodes.insert(node.clone(), Entry { hello, session, last_seen, mirror, link });
        session
    }
}

fn taken(owner: &pb::Hello, newcomer: &pb::Hello) -> Status {
    Status::already_exists(format!(
        "node {:?} is connected with node_uid {:?}; node_uid {:?} says it is the same node; \
         give one of the two agents another --node name",
        owner.node, owner.node_uid, newcomer.node_uid
    ))
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
