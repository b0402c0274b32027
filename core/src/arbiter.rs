//! The arbiter: who gets which devices, who is drained for whom.
//!
//! [`Arbiter::step`] takes one [`Input`] and returns the [`Output`]s to perform, in order: what must
//! be stored comes before what is sent, so that a crash between the two repeats an order and never
//! loses one. Each output is safe to perform twice. The state lives in maps ordered by name; the
//! parts that change it are beside this file: [`submit`](self) (workloads and launchers), nodes,
//! drains, schedule (admission and preemption), freeze.

mod devices;
mod drain_ends;
mod drain_events;
mod drain_plan;
mod drain_steps;
mod engine;
mod exits;
mod explain;
mod faults;
mod freeze;
mod messages;
mod nodes;
mod overtake;
mod rehearse;
mod review;
mod schedule;
mod slices;
mod snapshot;
mod stock;
mod submit;
mod sync;
#[cfg(test)]
mod tests;
mod usage;
mod view;
mod waits;
mod watchlist;
mod wave;
mod weigh;

use std::collections::{BTreeMap, BTreeSet};

use crate::drain::Drain;
use crate::id::{DeviceId, DrainId, NodeName, WorkerId, WorkloadName};
use crate::kueue::snapshot::Setup;
use crate::kueue::workload::Requests;
use crate::protocol::{Device, WorkerReport};
use crate::queue::Queues;
use crate::reason::Reason;
use crate::scheduler::{Policy, Rules, Scheduler};
use crate::topology::Table;
use crate::unit::Time;
use crate::workload::Workload;
use engine::Holders;
use review::Review;
use slices::Pin;
use stock::Stock;
use watchlist::Watchlist;

pub use explain::{
    Change, Explanation, FlavorTried, QuotaLevel, Remedy, TOPOLOGY_FORMS, WHAT_IF_FORMS,
};
pub use messages::{Decision, DecisionKind, Input, Output, Reply};
pub use rehearse::REHEARSAL_MS_MAX;
pub use slices::{CubeView, HostView, SliceAnswer, SliceState, SliceView};
pub use snapshot::Snapshot;
pub use usage::QueueUsage;
pub use wave::{Faults, NodeFaults};
pub use weigh::Candidate;

/// Everything that can be set. Durations in ms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// This arbiter's epoch: one more than any before it.
    pub epoch: u64,
    /// The queues and all that belongs to them.
    pub queues: Queues,
    /// The generations of TPUs of which slices can be made.
    pub generations: Table,
    /// Whether unused quota is shared fairly, as Kueue's fair sharing does it.
    pub fair_sharing: bool,
    /// Which of Sluice's own rules are on; none: decides as Kueue does.
    pub rules: Rules,
    /// How long a preemptor waits for a victim's checkpoint unless it says otherwise.
    pub drain_deadline_ms: u64,
    /// The same for preemptors of one priority, by priority.
    pub drain_deadlines_ms: BTreeMap<i32, u64>,
    /// How long agents may take to accept an order before it is taken back. No signal was sent by then.
    pub arm_timeout_ms: u64,
    /// Time between SIGTERM and SIGKILL at release.
    pub release_grace_ms: u64,
    /// How long a rank may take from admission to start.
    pub start_timeout_ms: u64,
    /// How long a launcher may be gone while its workload waits.
    pub launcher_gone_ms: u64,
    /// How long a restarted arbiter waits for the agents of running workers before it decides.
    pub recovery_ms: u64,
    /// How long a drained workload is left alone after its next start, at least.
    pub productive_floor_ms: u64,
    /// Most drains of one workload within an hour.
    pub drains_per_hour: u32,
    /// Longest time for which demand must have been low before a workload that is drained again and again comes back.
    pub hold_off_ms_max: u64,
    /// Restart cost taken for a workload of which none was measured.
    pub restart_assumed_ms: u64,
    /// Most unsaved work that is assumed of a workload whose checkpoints cannot be seen.
    pub unseen_work_ms_max: u64,
    /// If false, only `drain = kill` is planned: what a scheduler without drains does.
    pub checkpoint_drain: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            epoch: 1,
            queues: Queues::default(),
            generations: Table::default(),
            fair_sharing: false,
            rules: Rules::all(),
            drain_deadline_ms: 60_000,
            drain_deadlines_ms: BTreeMap::new(),
            arm_timeout_ms: 2_000,
            release_grace_ms: 10_000,
            start_timeout_ms: 60_000,
            launcher_gone_ms: 30_000,
            recovery_ms: 15_000,
            productive_floor_ms: 30_000,
            drains_per_hour: 6,
            hold_off_ms_max: 300_000,
            restart_assumed_ms: 60_000,
            unseen_work_ms_max: 30 * 60_000,
            checkpoint_drain: true,
        }
    }
}

/// Most workloads that have not ended.
pub const WORKLOADS_MAX: usize = 50_000;
/// Most ended workloads kept to be looked at; the oldest are forgotten.
pub const FINISHED_MAX: usize = 1_000;
/// Most closed drains kept.
pub const CLOSED_DRAINS_MAX: usize = 1_000;

/// A node as the arbiter knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// True while its agent's stream is up and has said what it has.
    pub connected: bool,
    /// When it last connected or disconnected.
    pub since: Time,
    /// When it joined; a node that an earlier arbiter knew has joined long ago.
    pub joined_at: Time,
    /// Labels by which flavors and topologies know it.
    pub labels: BTreeMap<String, String>,
    /// Its devices.
    pub devices: BTreeMap<DeviceId, Device>,
    /// Workers its agent has reported.
    pub workers: BTreeMap<WorkerId, WorkerReport>,
    /// When a device of it last began to fail. `None`: not since it is known.
    pub fault_at: Option<Time>,
}

/// The arbiter's state. See the module.
#[derive(Debug, Clone)]
pub struct Arbiter {
    config: Config,
    now: Time,
    started_at: Time,
    nodes: BTreeMap<NodeName, Node>,
    workloads: BTreeMap<WorkloadName, Workload>,
    drains: BTreeMap<DrainId, Drain>,
    scheduler: Scheduler,
    /// Who holds which devices.
    holders: Holders,
    /// Follows from `nodes` and `holders`.
    stock: Stock,
    /// Follows from `workloads`.
    watchlist: Watchlist,
    /// Nodes whose agents are not connected. Follows from `nodes`.
    silent: BTreeSet<NodeName>,
    /// What every node has plenty of.
    unlimited: Requests,
    /// Workloads about which the scheduler has not been told all.
    touched: BTreeSet<WorkloadName>,
    /// Nodes likewise.
    touched_nodes: BTreeSet<NodeName>,
    /// Victims left alone until then, because a drain of them could not be done.
    avoid_until: BTreeMap<WorkloadName, Time>,
    next_drain: u64,
    frozen_by_hand: Option<String>,
    /// Nodes with running workers that have not come back since the restart.
    awaited: BTreeSet<NodeName>,
    /// When a protected victim may be drained: decide again then.
    retry_at: Option<Time>,
    /// True if the silence breaker is open.
    breaker_open: bool,
    /// True if the breaker for waves of faults is open.
    wave_open: bool,
    /// Nodes with a device whose workers have to leave. Follows from `nodes`.
    failing: BTreeSet<NodeName>,
    /// What an earlier arbiter knew of the faults of nodes that have not come back yet.
    recalled: BTreeMap<NodeName, NodeFaults>,
    /// How many nodes it knew.
    known_before: usize,
    /// Workloads that ask for slices. Follows from the workloads.
    sliced: BTreeSet<WorkloadName>,
    /// Where workloads that wait for slices are to go, as of the last decision. Follows from the rest.
    pins: BTreeMap<WorkloadName, Pin>,
    /// Something changed that may let a workload in.
    dirty: bool,
    /// Who is to be looked at though nothing that concerns them has changed.
    review: Review,
    outputs: Vec<Output>,
}

impl Arbiter {
    /// An arbiter that takes up what an earlier one stored: workloads and drains; `frozen` if it was frozen by hand.
    #[must_use]
    pub fn new(
        now: Time,
        config: Config,
        workloads: Vec<Workload>,
        drains: Vec<Drain>,
        frozen: Option<String>,
    ) -> Self {
        let scheduler = scheduler_of(&config);
        let unlimited = engine::unlimited(&config.queues);
        let shared = |mut workload: Workload| {
            workload.share_reaches();
            (workload.spec.name.clone(), workload)
        };
        let next_drain = drains.iter().filter_map(|d| number_of(&d.id)).max().map_or(1, |n| n + 1);
        let mut arbiter = Self {
            config,
            now,
            started_at: now,
            nodes: BTreeMap::new(),
            workloads: workloads.into_iter().map(shared).collect(),
            drains: drains.into_iter().map(|d| (d.id.clone(), d)).collect(),
            scheduler,
            holders: Holders::default(),
            stock: Stock::default(),
            watchlist: Watchlist::default(),
            silent: BTreeSet::new(),
            unlimited,
            touched: BTreeSet::new(),
            touched_nodes: BTreeSet::new(),
            avoid_until: BTreeMap::new(),
            next_drain,
            frozen_by_hand: frozen,
            awaited: BTreeSet::new(),
            retry_at: None,
            breaker_open: false,
            wave_open: false,
            failing: BTreeSet::new(),
            recalled: BTreeMap::new(),
            known_before: 0,
            sliced: BTreeSet::new(),
            pins: BTreeMap::new(),
            dirty: true,
            review: Review::of_all(),
            outputs: Vec::new(),
        };
        arbiter.find_sliced();
        arbiter.recover();
        arbiter.sync_all();
        arbiter
    }

    /// Advances the arbiter by one input.
    ///
    /// `now` never goes back: an earlier value counts as the last one.
    pub fn step(&mut self, now: Time, input: Input) -> Vec<Output> {
        self.now = self.now.max(now);
        match input {
            Input::Submit { spec, rank, launcher, nodes } => {
                self.submit(spec, rank, launcher, nodes);
            }
            Input::Attach { workload, rank, launcher } => self.attach(&workload, rank, &launcher),
            Input::Detach { workload, rank, launcher } => self.detach(&workload, rank, &launcher),
            Input::ReportExit { worker, launcher, exit } => {
                self.report_exit(&worker, &launcher, exit);
            }
            Input::Cancel { workload } => self.cancel(&workload),
            Input::Freeze { why } => self.freeze(why),
            Input::Unfreeze => self.unfreeze(),
            Input::Rehearse { workload, deadline_ms } => self.rehearse(&workload, deadline_ms),
            Input::AgentConnected { node } => self.agent_connected(&node),
            Input::AgentDisconnected { node } => self.agent_disconnected(&node),
            Input::NodeReport { node, report } => self.node_report(&node, report),
            Input::DrainEvent { node, event } => self.drain_event(&node, event),
            Input::Tick => {}
        }
        self.check_timers();
        self.check_breaker();
        self.check_wave();
        self.drain_failing();
        self.drop_failing_reservations();
        self.move_slices();
        self.schedule();
        self.ask_for_wake();
        std::mem::take(&mut self.outputs)
    }

    fn save_workload(&mut self, name: &WorkloadName) {
        self.touched.insert(name.clone());
        self.watch(name);
        self.outputs.push(Output::SaveWorkload(name.clone()));
    }

    fn save_drain(&mut self, id: &DrainId) {
        self.touched.extend(self.drains.get(id).map(|drain| drain.victim.clone()));
        self.outputs.push(Output::SaveDrain(id.clone()));
    }

    fn decided(&mut self, kind: DecisionKind, workload: Option<&WorkloadName>, reason: Reason) {
        self.outputs.push(Output::Decided(Decision {
            kind,
            workload: workload.cloned(),
            drain: None,
            node: None,
            reason,
        }));
    }
}

/// A scheduler with nothing in it, in the place of one that is being asked.
fn no_scheduler() -> Scheduler {
    Scheduler::new(Setup::default(), Policy::compat())
}

fn scheduler_of(config: &Config) -> Scheduler {
    let policy = Policy { rules: config.rules.clone(), ..Policy::compat() };
    let policy = if config.fair_sharing { policy.with_fair_sharing() } else { policy };
    let setup = Setup { places_all: true, ..config.queues.setup.clone() };
    Scheduler::new(setup, policy)
}

fn number_of(id: &DrainId) -> Option<u64> {
    id.as_str().strip_prefix("drain-")?.parse().ok()
}
