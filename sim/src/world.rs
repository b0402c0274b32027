//! The simulated cluster: an arbiter with its store, nodes, launchers and the network between them.
//!
//! Time goes in ticks of [`TICK_MS`]. The arbiter's store is written as the real one is: everything that
//! a step saves at once, before anything is sent; a crash may come between the two.

use std::collections::{BTreeMap, BTreeSet};

use sluice_core::arbiter::{Arbiter, Config, Faults, Input, Output, Reply};
use sluice_core::checkpoint::CheckpointScan;
use sluice_core::drain::Drain;
use sluice_core::id::{DeviceId, DrainId, NodeName, WorkerId, WorkloadName};
use sluice_core::protocol::{DrainEvent, NodeReport, Order};
use sluice_core::unit::Time;
use sluice_core::workload::Workload;

use crate::device;
use crate::gang::{Directory, Gang, Program};
use crate::launcher::{Launcher, Stage};
use crate::node::Node;
use crate::rng::Rng;

/// Length of a tick.
pub(crate) const TICK_MS: u64 = 10;
/// Events kept to show what led to a violation.
const TRACE_MAX: usize = 200;

/// All gangs that ever ran, with their checkpoint directories.
#[derive(Debug, Default)]
pub(crate) struct Gangs {
    programs: BTreeMap<WorkloadName, Program>,
    directories: BTreeMap<WorkloadName, Directory>,
    gangs: BTreeMap<(WorkloadName, u32), Gang>,
    started: BTreeSet<WorkerId>,
}

impl Gangs {
    pub(crate) fn of(&self, worker: &WorkerId) -> Option<&Gang> {
        let gang = self.gangs.get(&(worker.workload.clone(), worker.attempt));
        gang.filter(|_| self.started.contains(worker))
    }

    pub(crate) fn of_mut(&mut self, worker: &WorkerId) -> Option<&mut Gang> {
        self.gangs.get_mut(&(worker.workload.clone(), worker.attempt))
    }

    pub(crate) fn of_attempt(&self, name: &WorkloadName, attempt: u32) -> Option<&Gang> {
        self.gangs.get(&(name.clone(), attempt))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&WorkloadName, &Gang)> {
        self.gangs.iter().map(|((name, _), gang)| (name, gang))
    }

    pub(crate) fn scan(&self, worker: &WorkerId) -> CheckpointScan {
        let saving = self.of(worker).is_some_and(Gang::is_saving);
        let empty = Directory::default();
        self.directories.get(&worker.workload).unwrap_or(&empty).scan(saving)
    }

    pub(crate) fn start(&mut self, now: u64, worker: &WorkerId, ranks: u32) {
        let Some(program) = self.programs.get(&worker.workload).copied() else { return };
        let directory = self.directories.entry(worker.workload.clone()).or_default();
        let resume = directory.complete.last().copied().unwrap_or(0);
        let key = (worker.workload.clone(), worker.attempt);
        self.gangs.entry(key).or_insert_with(|| Gang::new(now, program, resume, ranks));
        self.started.insert(worker.clone());
    }

    fn advance(&mut self, now: u64) {
        for ((name, attempt), gang) in &mut self.gangs {
            let ranks = u32::try_from(gang.processes.len()).unwrap_or(u32::MAX);
            let id = |rank| WorkerId { workload: name.clone(), attempt: *attempt, rank };
            let complete = (0..ranks).all(|rank| self.started.contains(&id(rank)));
            gang.advance(now, complete, self.directories.entry(name.clone()).or_default());
        }
    }
}

#[derive(Debug, Clone)]
enum Message {
    Event(NodeName, DrainEvent),
    Report(NodeName, NodeReport),
    Order(NodeName, Order),
}

/// How the network behaves, in occurrences per million messages.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weather {
    pub(crate) loss: u64,
    pub(crate) duplicates: u64,
    pub(crate) delay_ms_max: u64,
}

/// Everything.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) config: Config,
    pub(crate) arbiter: Option<Arbiter>,
    /// Steps of the arbiter after which it dies between storing and sending.
    pub(crate) arbiter_dies_in: Option<u64>,
    /// It dies before storing instead.
    pub(crate) dies_before_storing: bool,
    pub(crate) epoch: u64,
    stored_workloads: BTreeMap<WorkloadName, Workload>,
    stored_drains: BTreeMap<DrainId, Drain>,
    stored_faults: Faults,
    pub(crate) nodes: BTreeMap<NodeName, Node>,
    pub(crate) connected: BTreeSet<NodeName>,
    /// Nodes cut off from the arbiter.
    pub(crate) partitioned: BTreeSet<NodeName>,
    pub(crate) launchers: Vec<Launcher>,
    pub(crate) gangs: Gangs,
    pub(crate) weather: Weather,
    messages: Vec<(u64, u64, Message)>,
    sequence: u64,
    arbiter_wakes_at: u64,
    network: Rng,
    pub(crate) trace: Vec<String>,
}

impl World {
    pub(crate) fn new(seed: &Rng, config: Config, nodes: &[NodeName], devices: u32) -> Self {
        let mut world = Self {
            now: 1_000,
            config,
            arbiter: None,
            arbiter_dies_in: None,
            dies_before_storing: false,
            epoch: 0,
            stored_workloads: BTreeMap::new(),
            stored_drains: BTreeMap::new(),
            stored_faults: Faults::default(),
            nodes: nodes.iter().map(|n| (n.clone(), Node::new(n, devices))).collect(),
            connected: BTreeSet::new(),
            partitioned: BTreeSet::new(),
            launchers: Vec::new(),
            gangs: Gangs::default(),
            weather: Weather { delay_ms_max: 20, ..Weather::default() },
            messages: Vec::new(),
            sequence: 0,
            arbiter_wakes_at: 0,
            network: seed.child("network"),
            trace: Vec::new(),
        };
        world.start_arbiter();
        for name in nodes {
            world.start_agent(name);
        }
        world
    }

    pub(crate) fn add(&mut self, launcher: Launcher, program: Program) {
        self.gangs.programs.insert(launcher.spec.name.clone(), program);
        self.launchers.push(launcher);
    }

    pub(crate) fn log(&mut self, line: &str) {
        if self.trace.len() >= TRACE_MAX {
            self.trace.remove(0);
        }
        self.trace.push(format!("{:>8} ms  {line}", self.now));
    }

    pub(crate) fn start_arbiter(&mut self) {
        self.epoch += 1;
        self.log(&format!("arbiter starts, epoch {}", self.epoch));
        let config = Config { epoch: self.epoch, ..self.config.clone() };
        let workloads = self.stored_workloads.values().cloned().collect();
        let drains = self.stored_drains.values().cloned().collect();
        let mut arbiter = Arbiter::new(Time(self.now), config, workloads, drains, None);
        arbiter.take_up_faults(self.stored_faults.clone());
        self.arbiter = Some(arbiter);
        self.arbiter_wakes_at = self.now;
        self.arbiter_dies_in = None;
    }

    pub(crate) fn crash_arbiter(&mut self) {
        self.log("arbiter dies");
        self.arbiter = None;
        self.connected.clear();
        self.messages.clear();
        for launcher in &mut self.launchers {
            launcher.attached = false;
        }
    }

    pub(crate) fn start_agent(&mut self, name: &NodeName) {
        self.log(&format!("agent of {name} starts"));
        let now = self.now;
        if let Some(node) = self.nodes.get_mut(name) {
            node.start(now, &mut self.gangs);
        }
    }

    pub(crate) fn crash_agent(&mut self, name: &NodeName) {
        self.log(&format!("agent of {name} dies"));
        if let Some(node) = self.nodes.get_mut(name) {
            node.crash();
        }
    }

    /// One tick.
    pub(crate) fn tick(&mut self) {
        self.now += TICK_MS;
        self.gangs.advance(self.now);
        self.update_connections();
        self.deliver();
        for index in 0..self.launchers.len() {
            self.launcher_acts(index);
        }
        let now = self.now;
        for node in self.nodes.values_mut() {
            node.advance(now, &mut self.gangs);
        }
        self.send_from_nodes();
        if now >= self.arbiter_wakes_at {
            self.arbiter_wakes_at = u64::MAX;
            self.give(Input::Tick);
        }
    }

    fn update_connections(&mut self) {
        for name in self.nodes.keys().cloned().collect::<Vec<_>>() {
            let alive = self.nodes.get(&name).is_some_and(|n| n.agent.is_some());
            let up = alive && self.arbiter.is_some() && !self.partitioned.contains(&name);
            if up && self.connected.insert(name.clone()) {
                let report = self.nodes.get_mut(&name).and_then(|n| n.report(true));
                self.give(Input::AgentConnected { node: name.clone() });
                let (now, epoch) = (self.now, self.epoch);
                if let Some(node) = self.nodes.get_mut(&name) {
                    node.welcomed(now, epoch, &mut self.gangs);
                }
                if let Some(report) = report {
                    self.give(Input::NodeReport { node: name, report });
                }
            } else if !up && self.connected.remove(&name) {
                let is_of = |m: &Message| match m {
                    Message::Event(n, _) | Message::Report(n, _) | Message::Order(n, _) => {
                        *n == name
                    }
                };
                self.messages.retain(|(_, _, m)| !is_of(m));
                self.give(Input::AgentDisconnected { node: name });
            }
        }
    }

    fn send_from_nodes(&mut self) {
        for name in self.connected.clone() {
            let Some(node) = self.nodes.get_mut(&name) else { continue };
            let events: Vec<DrainEvent> = std::mem::take(&mut node.outbox);
            let report = node.report(false);
            for event in events {
                self.post(&Message::Event(name.clone(), event));
            }
            if let Some(report) = report {
                // Reports are sequenced and acknowledged: they are never lost while the stream is up.
                self.sequence += 1;
                self.messages.push((
                    self.now + TICK_MS,
                    self.sequence,
                    Message::Report(name, report),
                ));
            }
        }
    }

    fn post(&mut self, message: &Message) {
        if self.network.chance(self.weather.loss) {
            return;
        }
        let copies = if self.network.chance(self.weather.duplicates) { 2 } else { 1 };
        for _ in 0..copies {
            self.sequence += 1;
            let at = self.now + self.network.range(0, self.weather.delay_ms_max + 1);
            self.messages.push((at, self.sequence, message.clone()));
        }
    }

    fn deliver(&mut self) {
        self.messages.sort_by_key(|(at, sequence, _)| (*at, *sequence));
        let due = self.messages.iter().take_while(|(at, _, _)| *at <= self.now).count();
        let messages: Vec<_> = self.messages.drain(..due).collect();
        for (_, _, message) in messages {
            match message {
                Message::Event(node, event) => {
                    self.log(&format!("{node} says {:?} of {}", event.kind, event.drain));
                    self.give(Input::DrainEvent { node, event });
                }
                Message::Report(node, report) => {
                    self.give(Input::NodeReport { node, report });
                }
                Message::Order(node, order) => {
                    self.log(&format!("{node} is told {:?} ({})", order.verb, order.drain));
                    let now = self.now;
                    if let Some(node) = self.nodes.get_mut(&node) {
                        node.order(now, order, &mut self.gangs);
                    }
                }
            }
        }
    }

    /// Gives the arbiter an input: stores what it saves, then sends. Returns its reply.
    pub(crate) fn give(&mut self, input: Input) -> Option<Reply> {
        if self.dies_before_storing && self.arbiter_dies_in == Some(0) && self.arbiter.is_some() {
            self.crash_arbiter();
            return None;
        }
        let mut arbiter = self.arbiter.take()?;
        let outputs = arbiter.step(Time(self.now), input);
        for output in &outputs {
            self.store(&arbiter, output);
        }
        self.arbiter = Some(arbiter);
        if let Some(left) = &mut self.arbiter_dies_in {
            if *left == 0 {
                self.crash_arbiter();
                return None;
            }
            *left -= 1;
        }
        let mut reply = None;
        for output in outputs {
            match output {
                Output::Send { node, order } => {
                    if self.connected.contains(&node) {
                        self.post(&Message::Order(node, order));
                    }
                }
                Output::Reply(answer) => reply = Some(answer),
                Output::WakeAt(at) => self.arbiter_wakes_at = self.arbiter_wakes_at.min(at.0),
                Output::Decided(d) => {
                    let about =
                        d.drain.map(|d| d.to_string()).or(d.workload.map(|w| w.to_string()));
                    let (about, code, reason) =
                        (about.unwrap_or_default(), d.reason.code(), d.reason);
                    self.log(&format!("decided [{code}] {about}: {reason}"));
                }
                Output::SaveWorkload(_)
                | Output::SaveDrain(_)
                | Output::ForgetWorkload(_)
                | Output::ForgetDrain(_)
                | Output::SaveNodeFaults(_)
                | Output::SaveWave => {}
            }
        }
        reply
    }

    fn store(&mut self, arbiter: &Arbiter, output: &Output) {
        match output {
            Output::SaveWorkload(name) => {
                let workload = arbiter.workload(name).cloned();
                self.stored_workloads.extend(workload.map(|w| (name.clone(), w)));
            }
            Output::SaveDrain(id) => {
                self.stored_drains.extend(arbiter.drain(id).cloned().map(|d| (id.clone(), d)));
            }
            Output::ForgetWorkload(name) => drop(self.stored_workloads.remove(name)),
            Output::ForgetDrain(id) => drop(self.stored_drains.remove(id)),
            other => device::store(&mut self.stored_faults, arbiter, other),
        }
    }

    /// Kills one live process of a node, as a bug or the kernel's out-of-memory killer would.
    pub(crate) fn kill_some_rank_on(&mut self, name: &NodeName) {
        let victim = self.live_workers().into_iter().find(|(_, node, _)| *node == name);
        let Some(worker) = victim.map(|(worker, ..)| worker.clone()) else { return };
        self.log(&format!("{worker} is killed by fate"));
        if let Some(gang) = self.gangs.of_mut(&worker) {
            gang.kill(worker.rank);
        }
    }

    /// Workers whose process lives, with what they hold. By the launchers, who know what they started.
    pub(crate) fn live_workers(&self) -> Vec<(&WorkerId, &NodeName, &BTreeSet<DeviceId>)> {
        let running = self.launchers.iter().filter_map(|launcher| match &launcher.stage {
            Stage::Running { worker, node, devices, .. } => Some((worker, node, devices)),
            Stage::Submitting | Stage::Waiting | Stage::Reporting { .. } | Stage::Done => None,
        });
        running
            .filter(|(worker, ..)| self.gangs.of(worker).is_some_and(|g| g.alive(worker.rank)))
            .collect()
    }

    pub(crate) fn stored_drains(&self) -> impl Iterator<Item = &Drain> {
        self.stored_drains.values()
    }

    pub(crate) fn directory_has(&self, workload: &WorkloadName, step: u64) -> bool {
        self.gangs.directories.get(workload).is_some_and(|d| d.complete.contains(&step))
    }

    pub(crate) fn all_done(&self) -> bool {
        let done = self.launchers.iter().all(|l| l.stage == Stage::Done);
        done && self.stored_workloads.values().all(|w| w.phase.is_finished())
    }
}
