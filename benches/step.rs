//! What one input costs the whole arbiter (`Arbiter::step`) in a full cluster of 65,536 nodes, 50,000 workloads and
//! 1,000 queues: the picture of nodes, timers, the decision and what is to be stored.
//!
//! `cargo bench --bench step -- --quick` takes two minutes, most of it to fill the cluster. Compare with the
//! yardstick, not with the figures of another machine.

#![forbid(unsafe_code)]

mod full;
mod report;
mod world;
mod yardstick;

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use full::{Nodes, QUEUES, RUNNING, SHAPES, SIZE, WAITING, queues, shape_of};
use report::{Stopwatch, Times};
use sluice_core::arbiter::{Arbiter, Config, Input, Node, Output, Snapshot};
use sluice_core::id::{NodeName, WorkerId, WorkloadName};
use sluice_core::kueue::workload::TopologyMode;
use sluice_core::protocol::{Device, Health, NodeReport, WorkerReport};
use sluice_core::queue::Queues;
use sluice_core::reason::Reason;
use sluice_core::unit::Time;
use sluice_core::workload::{Assignment, Exit, Member, Phase, Profile, Workload, WorkloadSpec};
use world::{GPU, LEVELS};
use yardstick::yardstick;

/// Rounds of the changes in [`Driver::round`].
const ROUNDS: usize = 60;
const START: Time = Time(1_000_000_000);

fn name<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a good name")
}

fn node_name(index: usize) -> NodeName {
    name(&format!("node-{index:05}"))
}

fn device(index: u32, health: Health) -> Device {
    Device {
        resource: name(GPU),
        index,
        kind: "nvidia-h100".to_owned(),
        simulated: false,
        health,
        fault: None,
    }
}

fn spec(workload: &str, queue: usize, priority: i32, (nnodes, gpus): (u32, u64)) -> WorkloadSpec {
    WorkloadSpec {
        slice: None,
        name: name(workload),
        queue: name(&format!("queue-{queue:03}")),
        priority,
        nnodes,
        resources: BTreeMap::from([(name(GPU), gpus)]),
        topology: (nnodes > 1).then(|| TopologyMode::Required(LEVELS[1].to_owned())),
        checkpoint: None,
        save_signal: None,
        is_signal_vouched: false,
        grace_ms: None,
        drain_deadline_ms: 0,
        command: vec!["train".to_owned()],
    }
}

fn shape(index: usize) -> (u32, u64) {
    let (pods, gpus) = SHAPES[shape_of(index)];
    (pods, gpus.unsigned_abs())
}

/// The names of the nodes of each rack: whoever waits reaches one rack.
struct Racks(Vec<Arc<BTreeSet<NodeName>>>);

impl Racks {
    fn new() -> Self {
        let nodes: Vec<NodeName> = (0..SIZE.nodes).map(node_name).collect();
        let racks = nodes.chunks(SIZE.nodes_per_rack);
        Self(racks.map(|rack| Arc::new(rack.iter().cloned().collect())).collect())
    }

    fn of(&self, node: usize) -> Arc<BTreeSet<NodeName>> {
        Arc::clone(&self.0[node / SIZE.nodes_per_rack])
    }
}

fn workload(spec: WorkloadSpec, reach: &Arc<BTreeSet<NodeName>>) -> Workload {
    let member = |rank: u32| {
        let member = Member {
            launcher: name(&format!("{}-launcher-{rank}", spec.name)),
            nodes: Arc::clone(reach),
            detached_at: None,
            assignment: None,
            started: false,
            exit: None,
            vanished_at: None,
        };
        (rank, member)
    };
    Workload {
        slices: Vec::new(),
        members: (0..spec.nnodes).map(member).collect(),
        phase: Phase::Pending,
        reason: Reason::Submitted,
        attempt: 0,
        submitted_at: START,
        phase_since: START,
        admitted_at: None,
        running_since: None,
        checkpoint: None,
        checkpoint_at: None,
        profile: Profile::default(),
        last_drain: None,
        resume_step: None,
        reservation: None,
        spec,
    }
}

/// `workload` as it runs since `at` with one rank on each of `nodes`; devices are taken from the first on.
fn running(mut workload: Workload, nodes: &[usize], first: u32, at: Time) -> Workload {
    let gpus = u32::try_from(workload.spec.resources[&name(GPU)]).expect("at most 8");
    for (member, node) in workload.members.values_mut().zip(nodes) {
        let devices = (first..first + gpus).map(|index| name(&format!("{node}-{index}")));
        member.assignment = Some(Assignment {
            node: node_name(*node),
            devices: devices.collect(),
            flavors: BTreeMap::from([(GPU.to_owned(), "reserved".to_owned())]),
        });
        member.started = true;
    }
    Workload {
        phase: Phase::Running,
        attempt: 1,
        phase_since: at,
        admitted_at: Some(at),
        running_since: Some(at),
        ..workload
    }
}

fn report_of(workload: &Workload, rank: u32) -> (WorkerId, WorkerReport) {
    let worker = WorkerId { workload: workload.spec.name.clone(), attempt: 1, rank };
    let report = WorkerReport {
        running: true,
        checkpoint: None,
        checkpoint_age_ms: None,
        checkpoint_is_of_this_attempt: false,
        step_ms: Some(1_000),
        save_interval_ms: None,
        save_ms: None,
        saves: 0,
        running_ms: 0,
        device_fault: None,
        has_client: false,
        launcher_grace_ms: None,
    };
    (worker, report)
}

fn nodes() -> BTreeMap<NodeName, Node> {
    let node = |index: usize| {
        let devices = (0..8).map(|d| (name(&format!("{index}-{d}")), device(d, Health::Healthy)));
        let node = Node {
            joined_at: Time(0),
            connected: true,
            since: Time(0),
            labels: SIZE.node(index).labels,
            devices: devices.collect(),
            workers: BTreeMap::new(),
            fault_at: None,
        };
        (node_name(index), node)
    };
    (0..SIZE.nodes).map(node).collect()
}

fn cluster(racks: &Racks) -> Snapshot {
    let mut nodes = nodes();
    let mut workloads = BTreeMap::new();
    let mut free = Nodes::default();
    let mut halves = BTreeSet::new();
    for index in 0..RUNNING {
        let taken = free.take(shape_of(index));
        let spec = spec(&format!("job-{index:05}"), index % QUEUES, 0, shape(index));
        // The second half of a node that is shared begins at its fifth device.
        let first = if shape_of(index) == 2 && !halves.insert(taken[0]) { 4 } else { 0 };
        let waiting = workload(spec, &racks.of(taken[0]));
        let at = Time(START.0 - 1 - index as u64 * 7_919 % 600_000);
        let runs = running(waiting, &taken, first, at);
        for (rank, node) in (0..).zip(&taken) {
            let on_node = nodes.get_mut(&node_name(*node)).expect("all nodes are there");
            on_node.workers.extend([report_of(&runs, rank)]);
        }
        workloads.insert(runs.spec.name.clone(), runs);
    }
    for index in 0..WAITING {
        let spec = spec(&format!("wait-{index:04}"), index % QUEUES, 0, shape(index));
        let waits = workload(spec, &racks.of(index * 20_011 % SIZE.nodes));
        workloads.insert(waits.spec.name.clone(), waits);
    }
    let setup = sluice_core::kueue::snapshot::Setup { nodes: Vec::new(), ..SIZE.setup(queues()) };
    Snapshot {
        config: Config { queues: Queues { setup, ..Queues::default() }, ..Config::default() },
        now: START,
        started_at: Time(0),
        nodes,
        workloads,
        drains: BTreeMap::new(),
        avoid_until: BTreeMap::new(),
        next_drain: 1,
        frozen_by_hand: None,
        awaited: BTreeSet::new(),
        retry_at: None,
        hold_offs: BTreeMap::new(),
        breaker_open: false,
        wave_open: false,
        recalled: BTreeMap::new(),
        known_before: 0,
        dirty: true,
    }
}

/// Gives inputs to an arbiter so that the cluster stays as full as it is.
struct Driver {
    arbiter: Arbiter,
    racks: Racks,
    now_ms: u64,
    steps: usize,
    took: Times,
}

impl Driver {
    fn new() -> Self {
        let racks = Racks::new();
        let watch = Stopwatch::start();
        let arbiter = Arbiter::restore(cluster(&racks));
        println!("an arbiter is built anew: {} ms", watch.elapsed().as_millis());
        let now_ms = START.0;
        let mut driver = Self { arbiter, racks, now_ms, steps: 0, took: Times::default() };
        driver.give("the first look at all who wait", Input::Tick);
        driver.took.print("once");
        driver
    }

    fn give(&mut self, kind: &'static str, input: Input) -> Vec<Output> {
        self.now_ms += 100;
        let watch = Stopwatch::start();
        let outputs = self.arbiter.step(Time(self.now_ms), input);
        self.took.note(kind, watch.elapsed());
        black_box(outputs)
    }

    /// Somebody who runs, from all over the cluster.
    fn any_running(&self) -> WorkloadName {
        let candidates = (0..RUNNING).map(|i| (self.steps * 13_331 + i) % RUNNING);
        let mut names = candidates.map(|i| name::<WorkloadName>(&format!("job-{i:05}")));
        let workloads = self.arbiter.workloads();
        let is_running =
            |name: &WorkloadName| workloads.get(name).is_some_and(|w| w.phase == Phase::Running);
        names.find(is_running).expect("thousands run")
    }

    fn submit(&mut self, kind: &'static str, priority: i32, shape: (u32, u64)) -> WorkloadName {
        self.steps += 1;
        let spec = spec(&format!("new-{:06}", self.steps), self.steps % QUEUES, priority, shape);
        let workload = spec.name.clone();
        let nodes = BTreeSet::clone(&self.racks.of(self.steps * 20_011 % SIZE.nodes));
        let launcher = name(&format!("{workload}-launcher-0"));
        self.give(kind, Input::Submit { spec, rank: 0, launcher, nodes });
        let launcher = name(&format!("{workload}-launcher-0"));
        let attach = Input::Attach { workload: workload.clone(), rank: 0, launcher };
        self.give("its launcher watches", attach);
        workload
    }

    /// All ranks of one end, with success.
    fn ends(&mut self, workload: &WorkloadName) {
        let Some(found) = self.arbiter.workloads().get(workload) else { return };
        let attempt = found.attempt;
        let members: Vec<_> = found.members.iter().map(|(r, m)| (*r, m.clone())).collect();
        for (rank, member) in members {
            let worker = WorkerId { workload: workload.clone(), attempt, rank };
            let exit = Exit::Code(0);
            let ended =
                Input::ReportExit { worker: worker.clone(), launcher: member.launcher, exit };
            self.give("a launcher tells of an end", ended);
            let Some(held) = member.assignment else { continue };
            let report = NodeReport { removed_workers: [worker].into(), ..NodeReport::default() };
            let gone = Input::NodeReport { node: held.node, report };
            self.give("an agent tells that a worker is gone", gone);
        }
    }

    fn checkpoint(&mut self) {
        let workload = self.any_running();
        let workload = &self.arbiter.workloads()[&workload];
        let node = workload.members[&0].assignment.as_ref().expect("it runs").node.clone();
        let (worker, mut report) = report_of(workload, 0);
        report.step_ms = Some(1_000 + self.steps as u64);
        let report = NodeReport { workers: [(worker, report)].into(), ..NodeReport::default() };
        self.give("a worker is measured", Input::NodeReport { node, report });
    }

    fn device(&mut self, kind: &'static str, health: Health) {
        let index = self.steps * 31 % SIZE.nodes;
        let devices = [(name(&format!("{index}-0")), device(0, health))].into();
        let report = NodeReport { devices, ..NodeReport::default() };
        self.give(kind, Input::NodeReport { node: node_name(index), report });
    }

    fn round(&mut self) {
        self.give("nothing", Input::Tick);
        self.checkpoint();
        let running = self.any_running();
        self.ends(&running);
        self.submit("one arrives and waits", 0, SHAPES_WAITING);
        let small = self.submit("one arrives and fits", 0, (1, 1));
        let urgent = self.submit("one arrives and preempts", 5, (1, 8));
        for workload in [small, urgent] {
            self.give("one is cancelled", Input::Cancel { workload });
        }
        self.device("a device fails", Health::Unhealthy);
        self.device("a device is well again", Health::Healthy);
    }
}

const SHAPES_WAITING: (u32, u64) = (1, 8);

fn steps(criterion: &mut Criterion) {
    let mut driver = Driver::new();
    driver.round();
    driver.took = Times::default();
    for _ in 0..ROUNDS {
        driver.round();
    }
    driver.took.print("inputs of the arbiter");
    criterion.bench_function("a round of inputs", |bencher| bencher.iter(|| driver.round()));
}

criterion_group!(benches, yardstick, steps);
criterion_main!(benches);
