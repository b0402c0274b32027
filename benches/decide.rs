//! How long a decision takes after one change, among 65,536 nodes and 50,000 workloads in 1,000 queues.
//!
//! `cargo bench --bench decide -- --quick` takes a minute, most of it to fill the cluster. It first prints how long
//! each kind of change took; then come a yardstick and the mean. Compare with the yardstick, not with the figures of
//! another machine.

#![forbid(unsafe_code)]

mod full;
mod jobs;
mod report;
mod world;
mod yardstick;

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use full::{Nodes, QUEUES, RUNNING, SHAPES, SIZE, WAITING, queues, shape_of};
use jobs::{pending, placed};
use report::{Stopwatch, Times};
use sluice_core::kueue::name::WorkloadKey;
use sluice_core::kueue::tas::Node;
use sluice_core::kueue::workload::{TopologyMode, Workload};
use sluice_core::scheduler::{Policy, Scheduler, Standing, Verdict};
use world::LEVELS;
use yardstick::yardstick;

/// Rounds of the changes in [`Driver::round`].
const ROUNDS: usize = 225;
/// Times that everybody is looked at.
const LOOKS: usize = 21;

fn workload(name: &str, queue: usize, priority: i32, shape: usize) -> Workload {
    let mode = match shape {
        0 => TopologyMode::Required(LEVELS[1].to_owned()),
        _ => TopologyMode::Unconstrained,
    };
    pending(name, &format!("queue-{queue:03}"), priority, SHAPES[shape], mode)
}

/// What [`full`] describes, as the scheduler knows it.
fn cluster(policy: Policy) -> Scheduler {
    let mut scheduler = Scheduler::new(SIZE.setup(queues()), policy);
    let mut nodes = Nodes::default();
    for index in 0..RUNNING {
        let shape = shape_of(index);
        let waiting = workload(&format!("job-{index:05}"), index % QUEUES, 0, shape);
        scheduler.resume(placed(waiting, &nodes.take(shape), index as u64));
    }
    for index in 0..WAITING {
        let waiting = workload(&format!("wait-{index:04}"), index % QUEUES, 0, shape_of(index));
        scheduler.submit(Arc::new(waiting));
    }
    scheduler
}

/// Work lost, which differs from gang to gang.
fn standing(_: &Workload, running: &Workload) -> Standing {
    let at_ms = running.reservation.as_ref().map_or(0, |held| held.at_ms);
    let cost_device_ms = at_ms.wrapping_mul(7_919) % 600_000;
    Standing { cost_device_ms, ..Standing::default() }
}

/// Changes the cluster step by step so that it stays as full as it is.
struct Driver {
    scheduler: Scheduler,
    running: VecDeque<WorkloadKey>,
    now_ms: u64,
    steps: usize,
    took: Times,
}

impl Driver {
    fn new(policy: Policy) -> Self {
        let running = (0..RUNNING).map(|index| index * 13_331 % RUNNING);
        let running = running.map(|index| WorkloadKey::new("research", &format!("job-{index:05}")));
        let mut driver = Self {
            scheduler: cluster(policy),
            running: running.collect(),
            now_ms: 1_000_000_000,
            steps: 0,
            took: Times::default(),
        };
        let verdicts = driver.scheduler.decide(driver.now_ms, &standing);
        let waits = verdicts.iter().filter(|v| matches!(v, Verdict::Wait { .. })).count();
        println!("the cluster is full: {waits} heads of queues wait");
        driver
    }

    /// One change, and what is decided then.
    fn change(&mut self, kind: &'static str, change: impl FnOnce(&mut Scheduler)) -> Vec<Verdict> {
        self.now_ms += 1_000;
        let watch = Stopwatch::start();
        change(&mut self.scheduler);
        let verdicts = self.scheduler.decide(self.now_ms, &standing);
        self.took.note(kind, watch.elapsed());
        for verdict in &verdicts {
            if let Verdict::Admit { workload, .. } = verdict {
                self.running.push_back(workload.clone());
            }
        }
        black_box(verdicts)
    }

    fn name(&mut self) -> String {
        self.steps += 1;
        format!("new-{:06}", self.steps)
    }

    fn arrives(&mut self, kind: &'static str, workload: Workload) -> Vec<Verdict> {
        self.change(kind, |scheduler| {
            scheduler.submit(Arc::new(workload));
        })
    }

    /// The next that runs.
    fn pop_running(&mut self) -> WorkloadKey {
        loop {
            let key = self.running.pop_front().expect("thousands run");
            if self.scheduler.snapshot().running(&key).is_some() {
                return key;
            }
        }
    }

    fn node(&mut self, kind: &'static str, index: usize, is_ready: bool) {
        let node = Node { is_ready, ..SIZE.node(index) };
        self.change(kind, |scheduler| scheduler.set_node(node));
    }

    /// One of every kind of change.
    fn round(&mut self) {
        let round = self.steps;
        let queue = round * 7 % QUEUES;
        let ended = self.pop_running();
        self.change("one ends, another starts", |scheduler| scheduler.forget(&ended));
        let name = self.name();
        self.arrives("one arrives and waits", workload(&name, queue, 0, round % 3));
        let name = self.name();
        let tiny =
            pending(&name, &format!("queue-{queue:03}"), 0, (1, 1), TopologyMode::Unconstrained);
        let key = tiny.key.clone();
        self.arrives("one arrives and fits", tiny);
        self.change("one ends, nobody starts", |scheduler| scheduler.forget(&key));
        self.preempt(queue);
        self.node("a node turns unready", round * 31 % SIZE.nodes, false);
        self.node("a node turns ready", round * 31 % SIZE.nodes, true);
    }

    fn preempt(&mut self, queue: usize) {
        let name = self.name();
        let urgent = workload(&name, queue, 5, 1);
        let key = urgent.key.clone();
        let verdicts = self.arrives("one arrives and preempts", urgent);
        let victims = verdicts.into_iter().find_map(|verdict| match verdict {
            Verdict::Preempt { victims, .. } => Some(victims),
            Verdict::Admit { .. } | Verdict::Evict { .. } | Verdict::Wait { .. } => None,
        });
        for victim in victims.unwrap_or_default() {
            let running = self.scheduler.snapshot().running(&victim.workload).expect("it runs");
            let again = Workload { reservation: None, ..Workload::clone(&running.workload) };
            self.change("a victim has left", |scheduler| scheduler.left(&victim.workload));
            let again = Workload { eviction: None, ..again };
            self.arrives("a victim comes back and waits", again);
        }
        self.change("one ends, another starts", |scheduler| scheduler.forget(&key));
    }

    /// What it takes to look at everybody who waits, as the arbiter does after each change.
    fn look_at_all(&mut self) {
        let mut took: Vec<u128> = (0..LOOKS)
            .map(|_| {
                self.now_ms += 1_000;
                let watch = Stopwatch::start();
                self.scheduler.wake_all();
                black_box(self.scheduler.decide(self.now_ms, &standing));
                watch.elapsed().as_micros()
            })
            .collect();
        took.sort_unstable();
        println!(
            "all who wait are looked at again: p50 {} us, max {} us",
            took[LOOKS / 2],
            took[LOOKS - 1]
        );
    }
}

fn decisions(criterion: &mut Criterion) {
    for (name, policy) in [("sluice", Policy::sluice()), ("compat", Policy::compat())] {
        let mut driver = Driver::new(policy);
        driver.round();
        driver.took = Times::default();
        for _ in 0..ROUNDS {
            driver.round();
        }
        driver.took.print(&format!("changes under policy {name}"));
        driver.look_at_all();
        criterion.bench_function(&format!("a round of ten changes, {name}"), |bencher| {
            bencher.iter(|| driver.round());
        });
    }
}

criterion_group!(benches, yardstick, decisions);
criterion_main!(benches);
