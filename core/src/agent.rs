//! The agent's side of a drain: what a node does with the arbiter's orders.
//!
//! [`Agent::step`] takes one [`Input`] and returns the [`Output`]s to perform, in order. A
//! [`Output::Journal`] must be durable before anything that follows it is performed: a signal is
//! journalled before it is sent and never sent again, whatever dies in between; what is observed is
//! told as often as it is asked for. Cut off from the arbiter the agent starts nothing: a save that
//! was ordered is watched to its deadline, and no worker is ended without a release order.

mod client;
mod hand;
mod orders;
mod profile;
mod release;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoint::{CheckpointFormat, CheckpointRules, CheckpointScan};
use crate::client::{ClientOrder, ClientSeen};
use crate::id::{DeviceId, DrainId, NodeName, WorkerId};
use crate::pod::PodWorker;
use crate::protocol::{DrainEvent, Order, WorkerReport};
use crate::unit::Time;
use crate::workload::Exit;

pub use hand::{Hand, Stage};
pub use profile::Measured;

/// A worker process that a launcher has made known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Which worker.
    pub worker: WorkerId,
    /// Ranks in its gang.
    pub world_size: u32,
    /// Its process.
    pub pid: u32,
    /// Start time of the process, so that a reused pid is not taken for it. Unit: clock ticks since boot.
    /// Source: field 22 of `/proc/<pid>/stat`.
    pub start_time_ticks: u64,
    /// Where its checkpoints are; empty if nobody said.
    pub checkpoint_dir: String,
    /// Their layout.
    pub checkpoint_format: CheckpointFormat,
    /// What else was said about them.
    pub checkpoint_rules: CheckpointRules,
    /// Devices assigned to it.
    pub devices: BTreeSet<DeviceId>,
    /// Where it can be asked through files; empty if it was given no such place.
    pub drain_dir: String,
    /// The pod whose container it is; `None`: its processes are known by their marker.
    pub pod: Option<PodWorker>,
}

/// What the agent looked up about a worker just before an order is handled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetFacts {
    /// The registered process still lives (same pid, same start time).
    pub alive: bool,
    /// Signals it catches, one bit each (bit n-1 for signal n). Source: `SigCgt` of `/proc/<pid>/status`.
    pub caught_signals: u64,
    /// Free space where its checkpoints go. Unit: bytes. `None` if it cannot be told.
    pub free_bytes: Option<u64>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A launcher registers its worker. The process was checked to exist.
    Register(Registration),
    /// An order from the arbiter, with what was looked up for it.
    Order {
        /// The order.
        order: Order,
        /// Fresh facts about its worker.
        facts: TargetFacts,
    },
    /// The arbiter's epoch, learned when the stream came up.
    Epoch(u64),
    /// A look into the worker's checkpoint directory.
    Scanned {
        /// The worker.
        worker: WorkerId,
        /// What was seen.
        scan: CheckpointScan,
    },
    /// The worker's process has ended.
    Exited {
        /// The worker.
        worker: WorkerId,
        /// How, if it is known.
        exit: Exit,
    },
    /// Who still belongs to the worker or holds its devices.
    Holders {
        /// The worker.
        worker: WorkerId,
        /// Live processes that carry its marker or are its descendants.
        processes: u32,
        /// Its devices that any process holds.
        busy_devices: BTreeSet<DeviceId>,
    },
    /// A look at what the worker itself says, and at how it was started.
    Looked {
        /// The worker.
        worker: WorkerId,
        /// What its files say.
        client: ClientSeen,
        /// Time after which a launcher within it kills its processes once it was told to end. Unit: ms. `None`: there
        /// is no such launcher.
        launcher_grace_ms: Option<u64>,
    },
    /// A signal could not be delivered, or the worker's file not be written.
    SignalFailed {
        /// The worker.
        worker: WorkerId,
        /// Stable code.
        code: String,
    },
    /// Time has passed.
    Tick,
}

/// Which processes of a worker a signal is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Audience {
    /// The registered process, if it catches the signal; else its ranks that do, each once.
    Main,
    /// Every live process of the worker.
    All,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Make this hand durable before anything after it is performed.
    Journal(Hand),
    /// The hand is finished with: remove it from the journal.
    Unjournal {
        /// The drain.
        drain: DrainId,
        /// The worker.
        worker: WorkerId,
    },
    /// Make this registration durable.
    SaveWorker(Registration),
    /// The worker is gone and done with: forget the registration.
    ForgetWorker(WorkerId),
    /// Tell the arbiter. Kept by the uplink until it is acknowledged.
    Send(DrainEvent),
    /// Send a signal.
    Signal {
        /// The worker.
        worker: WorkerId,
        /// Signal number.
        signal: i32,
        /// To which of its processes.
        audience: Audience,
    },
    /// Write the worker's `drain.json`. May be repeated.
    TellClient {
        /// The worker.
        worker: WorkerId,
        /// The drain.
        drain: DrainId,
        /// What it is to do.
        order: ClientOrder,
    },
    /// Look for processes and devices of this worker now and answer with [`Input::Holders`].
    CheckHolders(WorkerId),
    /// Look into the worker's checkpoint directory this often from now on. Unit: ms. 0: as usual.
    WatchEvery {
        /// The worker.
        worker: WorkerId,
        /// Period.
        period_ms: u64,
    },
    /// The worker's report ([`Agent::report`]) has changed.
    WorkerChanged(WorkerId),
    /// Give an [`Input::Tick`] at this time, or before.
    WakeAt(Time),
}

/// A worker and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// As registered.
    pub registration: Registration,
    /// When it was registered (or found again after a restart), on the agent's clock.
    pub since: Time,
    /// How it ended; `None` while it runs.
    pub exit: Option<Exit>,
    /// Newest scan of its directory.
    pub scan: Option<CheckpointScan>,
    /// What was measured from the scans.
    pub measured: Measured,
    /// What its files say.
    pub client: ClientSeen,
    /// Time after which a launcher within it kills its processes. Unit: ms.
    pub launcher_grace_ms: Option<u64>,
    /// What it was told last through its files, by this process of the agent.
    pub told: Option<(DrainId, ClientOrder)>,
    /// Since when all its processes have claimed to have saved, and for which drain.
    pub claimed: Option<(DrainId, Time)>,
    /// Live processes, by the newest look.
    pub processes: u32,
    /// When it was first seen to be gone.
    pub gone_at: Option<Time>,
}

/// The agent's state. See the module.
#[derive(Debug, Clone)]
pub struct Agent {
    node: NodeName,
    now: Time,
    epoch: u64,
    workers: BTreeMap<WorkerId, Worker>,
    hands: BTreeMap<(DrainId, WorkerId), Hand>,
    /// When holders are looked for next.
    next_look: Option<Time>,
    outputs: Vec<Output>,
}

/// Most workers on one node.
pub const WORKERS_MAX: usize = 1_024;
/// Most drains remembered on one node.
pub const HANDS_MAX: usize = 1_024;

impl Agent {
    /// An agent that takes up what an earlier process of it journalled.
    #[must_use]
    pub fn new(now: Time, node: NodeName, workers: Vec<Registration>, hands: Vec<Hand>) -> Self {
        let epoch = hands.iter().map(|h| h.epoch).max().unwrap_or(0);
        let workers =
            workers.into_iter().map(|r| (r.worker.clone(), Worker::new(now, r))).collect();
        let mut agent = Self {
            node,
            now,
            epoch,
            workers,
            hands: BTreeMap::new(),
            next_look: None,
            outputs: Vec::new(),
        };
        agent.recover(hands);
        agent
    }

    /// Advances the agent by one input. `now` never goes back: an earlier value counts as the last one.
    pub fn step(&mut self, now: Time, input: Input) -> Vec<Output> {
        self.now = self.now.max(now);
        match input {
            Input::Register(registration) => self.register(registration),
            Input::Order { order, facts } => self.order(order, &facts),
            Input::Epoch(epoch) => self.welcomed(epoch),
            Input::Scanned { worker, scan } => self.scanned(&worker, scan),
            Input::Exited { worker, exit } => self.exited(&worker, exit),
            Input::Holders { worker, processes, busy_devices } => {
                self.holders(&worker, processes, &busy_devices);
            }
            Input::Looked { worker, client, launcher_grace_ms } => {
                self.looked(&worker, client, launcher_grace_ms);
            }
            Input::SignalFailed { worker, code } => self.signal_failed(&worker, &code),
            Input::Tick => {}
        }
        self.check_timers();
        std::mem::take(&mut self.outputs)
    }

    /// The node's name.
    #[must_use]
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Highest epoch obeyed.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Workers by id.
    #[must_use]
    pub fn workers(&self) -> &BTreeMap<WorkerId, Worker> {
        &self.workers
    }

    /// Drains by (drain, worker).
    #[must_use]
    pub fn hands(&self) -> &BTreeMap<(DrainId, WorkerId), Hand> {
        &self.hands
    }

    /// What to report of a worker now; `None` if it is not known.
    #[must_use]
    pub fn report(&self, worker: &WorkerId) -> Option<WorkerReport> {
        self.workers.get(worker).map(|w| w.report(self.now))
    }
}
