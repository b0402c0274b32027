//! A node: the agent's core, its journal on disk, and the processes, which outlive the agent.

use std::collections::{BTreeMap, BTreeSet};

use sluice_core::agent::{Agent, Audience, Hand, Input, Output, Registration, TargetFacts};
use sluice_core::id::{DeviceId, DrainId, NodeName, ResourceName, WorkerId};
use sluice_core::protocol::{Device, DrainEvent, Health, NodeReport, Order, Verb, WorkerReport};
use sluice_core::unit::Time;

use crate::gang::Gang;
use crate::world::Gangs;

/// How often a checkpoint directory is looked into when nothing is awaited. Unit: ms.
const SCAN_PERIOD_MS: u64 = 1_000;

/// What survives the agent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    workers: BTreeMap<WorkerId, Registration>,
    hands: BTreeMap<(DrainId, WorkerId), Hand>,
}

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: NodeName,
    pub(crate) devices: BTreeMap<DeviceId, Device>,
    pub(crate) agent: Option<Agent>,
    pub(crate) disk: Disk,
    /// Events that wait to be sent; lost with the agent.
    pub(crate) outbox: Vec<DrainEvent>,
    /// Outputs to perform before the agent is killed; `None`: it lives.
    pub(crate) crash_after_outputs: Option<u64>,
    watch: BTreeMap<WorkerId, u64>,
    next_scan: BTreeMap<WorkerId, u64>,
    wake_at: u64,
    reported: BTreeMap<WorkerId, WorkerReport>,
}

impl Node {
    pub(crate) fn new(name: &NodeName, devices: u32) -> Self {
        let resource: ResourceName = "nvidia.com/gpu".parse().expect("a valid name");
        let device = |index: u32| {
            let id: DeviceId = format!("{name}-{index}").parse().expect("a valid name");
            let device = Device {
                resource: resource.clone(),
                index,
                kind: "simulated".to_owned(),
                simulated: true,
                health: Health::Healthy,
                fault: None,
            };
            (id, device)
        };
        Self {
            name: name.clone(),
            devices: (0..devices).map(device).collect(),
            agent: None,
            disk: Disk::default(),
            outbox: Vec::new(),
            crash_after_outputs: None,
            watch: BTreeMap::new(),
            next_scan: BTreeMap::new(),
            wake_at: 0,
            reported: BTreeMap::new(),
        }
    }

    /// Starts the agent from what is on disk.
    pub(crate) fn start(&mut self, now: u64, gangs: &mut Gangs) {
        let workers = self.disk.workers.values().cloned().collect();
        let hands = self.disk.hands.values().cloned().collect();
        self.watch.clear();
        self.next_scan.clear();
        self.outbox.clear();
        self.reported.clear();
        self.crash_after_outputs = None;
        self.agent = Some(Agent::new(Time(now), self.name.clone(), workers, hands));
        self.step(now, Input::Tick, gangs);
    }

    pub(crate) fn crash(&mut self) {
        self.agent = None;
        self.outbox.clear();
    }

    pub(crate) fn register(
        &mut self,
        now: u64,
        registration: Registration,
        gangs: &mut Gangs,
    ) -> bool {
        let alive = self.agent.is_some();
        self.step(now, Input::Register(registration), gangs);
        alive
    }

    pub(crate) fn order(&mut self, now: u64, order: Order, gangs: &mut Gangs) {
        let worker = order.worker.clone();
        if matches!(order.verb, Verb::Prepare { .. }) {
            self.scan(now, &worker, gangs);
        }
        let gang = gangs.of(&worker);
        let facts = TargetFacts {
            alive: gang.as_ref().is_some_and(|g| g.alive(worker.rank)),
            caught_signals: if gang.is_some_and(Gang::catches) { 1 << 9 } else { 0 },
            free_bytes: gang.map(Gang::free_bytes),
        };
        self.step(now, Input::Order { order, facts }, gangs);
    }

    /// Its stream to the arbiter is up.
    pub(crate) fn welcomed(&mut self, now: u64, epoch: u64, gangs: &mut Gangs) {
        self.step(now, Input::Epoch(epoch), gangs);
    }

    /// What happens by itself: looks into directories, exits, timers.
    pub(crate) fn advance(&mut self, now: u64, gangs: &mut Gangs) {
        let Some(agent) = &self.agent else { return };
        let workers: Vec<(WorkerId, bool)> =
            agent.workers().iter().map(|(id, w)| (id.clone(), w.exit.is_some())).collect();
        for (id, known_exit) in workers {
            let alive = gangs.of(&id).is_some_and(|g| g.alive(id.rank));
            if !alive && !known_exit {
                let exit = sluice_core::workload::Exit::Unknown;
                self.step(now, Input::Exited { worker: id.clone(), exit }, gangs);
            }
            if self.next_scan.get(&id).is_none_or(|at| now >= *at) {
                let period =
                    self.watch.get(&id).copied().filter(|p| *p > 0).unwrap_or(SCAN_PERIOD_MS);
                self.next_scan.insert(id.clone(), now + period);
                self.scan(now, &id, gangs);
                let client = gangs.of(&id).map(|g| g.client(id.rank)).unwrap_or_default();
                let looked = Input::Looked { worker: id.clone(), client, launcher_grace_ms: None };
                self.step(now, looked, gangs);
            }
        }
        if now >= self.wake_at {
            self.wake_at = u64::MAX;
            self.step(now, Input::Tick, gangs);
        }
    }

    fn scan(&mut self, now: u64, worker: &WorkerId, gangs: &mut Gangs) {
        let scan = gangs.scan(worker);
        self.step(now, Input::Scanned { worker: worker.clone(), scan }, gangs);
    }

    fn step(&mut self, now: u64, input: Input, gangs: &mut Gangs) {
        let Some(agent) = &mut self.agent else { return };
        let outputs = agent.step(Time(now), input);
        for output in outputs {
            match &mut self.crash_after_outputs {
                Some(0) => return self.crash(),
                Some(left) => *left -= 1,
                None => {}
            }
            self.perform(now, output, gangs);
        }
    }

    fn perform(&mut self, now: u64, output: Output, gangs: &mut Gangs) {
        match output {
            Output::Journal(hand) => {
                self.disk.hands.insert((hand.drain.clone(), hand.worker.clone()), hand);
            }
            Output::Unjournal { drain, worker } => {
                self.disk.hands.remove(&(drain, worker));
            }
            Output::SaveWorker(registration) => {
                self.disk.workers.insert(registration.worker.clone(), registration);
            }
            Output::ForgetWorker(worker) => {
                self.disk.workers.remove(&worker);
            }
            Output::Send(event) => self.outbox.push(event),
            Output::Signal { worker, signal, audience } => {
                self.signal(&worker, signal, audience, gangs);
            }
            Output::TellClient { worker, drain, order } => {
                if let Some(gang) = gangs.of_mut(&worker) {
                    gang.tell(worker.rank, drain.as_str(), order);
                }
            }
            Output::CheckHolders(worker) => {
                let alive = gangs.of(&worker).is_some_and(|g| g.alive(worker.rank));
                let registration = self.disk.workers.get(&worker);
                let devices = registration.map(|r| r.devices.clone()).unwrap_or_default();
                let input = Input::Holders {
                    worker,
                    processes: u32::from(alive),
                    busy_devices: if alive { devices } else { BTreeSet::new() },
                };
                self.step(now, input, gangs);
            }
            Output::WatchEvery { worker, period_ms } => {
                self.next_scan.remove(&worker);
                self.watch.insert(worker, period_ms);
            }
            Output::WorkerChanged(_) => {}
            Output::WakeAt(at) => self.wake_at = self.wake_at.min(at.0.max(now + 1)),
        }
    }

    fn signal(&self, worker: &WorkerId, signal: i32, audience: Audience, gangs: &mut Gangs) {
        let drain = self.open_drain_of(worker);
        let Some(gang) = gangs.of_mut(worker) else { return };
        match (signal, audience) {
            (15, _) => gang.term(worker.rank),
            (9, _) => gang.kill(worker.rank),
            (_, Audience::Main | Audience::All) => gang.save_signal(worker.rank, &drain),
        }
    }

    fn open_drain_of(&self, worker: &WorkerId) -> String {
        let open = self.disk.hands.values().find(|h| h.worker == *worker && h.stage.is_open());
        open.map(|h| h.drain.to_string()).unwrap_or_default()
    }

    /// What has changed since the last report; everything if `full`.
    pub(crate) fn report(&mut self, full: bool) -> Option<NodeReport> {
        let agent = self.agent.as_ref()?;
        let known = agent.workers().keys().filter_map(|id| Some((id.clone(), agent.report(id)?)));
        let now: BTreeMap<WorkerId, WorkerReport> = known.collect();
        let is_news = |id: &WorkerId, report: &WorkerReport| {
            self.reported.get(id).is_none_or(|before| !same(before, report))
        };
        let workers: BTreeMap<WorkerId, WorkerReport> = now
            .iter()
            .filter(|(id, r)| full || is_news(id, r))
            .map(|(id, r)| (id.clone(), r.clone()))
            .collect();
        let removed_workers: BTreeSet<WorkerId> =
            self.reported.keys().filter(|id| !now.contains_key(*id)).cloned().collect();
        self.reported = now;
        if !full && workers.is_empty() && removed_workers.is_empty() {
            return None;
        }
        let devices = if full { self.devices.clone() } else { BTreeMap::new() };
        Some(NodeReport {
            labels: BTreeMap::new(),
            full,
            devices,
            workers,
            removed_devices: BTreeSet::new(),
            removed_workers,
        })
    }
}

/// Equal but for what changes with time alone.
fn same(a: &WorkerReport, b: &WorkerReport) -> bool {
    let timeless =
        |r: &WorkerReport| WorkerReport { running_ms: 0, checkpoint_age_ms: None, ..r.clone() };
    timeless(a) == timeless(b)
}
