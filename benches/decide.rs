//! How long a decision takes after one change, among 65,536 nodes and 50,000 workloads in 1,000 queues.
//!
//! `cargo bench --bench decide -- --quick` takes a minute, most of it to fill the cluster. It first prints how long
//! each kind of change took; then come a yardstick and the mean. Compare with the yardstick, not with the figures of
//! another machine.

#![forbid(unsafe_code)]

mod world;
mod yardstick;

use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use sluice_core::kueue::model::{BorrowWithinCohort, Preemption, PreemptionPolicy};
use sluice_core::kueue::name::WorkloadKey;
use sluice_core::kueue::tas::Node;
use sluice_core::kueue::workload::{TopologyMode, Workload};
use sluice_core::scheduler::{Policy, Scheduler, Standing, Verdict};
use world::{LEVELS, Size, pending, placed, queue};
use yardstick::yardstick;

const SIZE: Size = Size { nodes: 65_536, nodes_per_rack: 64, racks_per_block: 16 };
const QUEUES: usize = 1_000;
const COHORTS: usize = 10;
const RUNNING: usize = 48_000;
const WAITING: usize = 2_000;
/// Rounds of the changes in [`Driver::round`].
const ROUNDS: usize = 225;
/// Times that everybody is looked at.
const LOOKS: usize = 21;

/// Pods and GPUs per pod; on 100 workloads come 32, 50 and 18.
const SHAPES: [(u32, i64); 3] = [(2, 8), (1, 8), (1, 4)];

fn shape_of(index: usize) -> usize {
    match index * 37 % 100 {
        ..32 => 0,
        32..82 => 1,
        _ => 2,
    }
}

fn workload(name: &str, queue: usize, priority: i32, shape: usize) -> Workload {
    let mode = match shape {
        0 => TopologyMode::Required(LEVELS[1].to_owned()),
        _ => TopologyMode::Unconstrained,
    };
    pending(name, &format!("queue-{queue:03}"), priority, SHAPES[shape], mode)
}

/// Hands out nodes: pairs of neighbours from all over the cluster, then their halves.
struct Nodes {
    pairs: usize,
    single: Option<usize>,
    half: Option<usize>,
}

impl Nodes {
    fn pair(&mut self) -> usize {
        self.pairs += 1;
        self.pairs * 20_011 % (SIZE.nodes / 2) * 2
    }

    fn single(&mut self) -> usize {
        self.single.take().unwrap_or_else(|| {
            let pair = self.pair();
            self.single = Some(pair + 1);
            pair
        })
    }

    fn take(&mut self, shape: usize) -> Vec<usize> {
        match shape {
            0 => {
                let pair = self.pair();
                vec![pair, pair + 1]
            }
            1 => vec![self.single()],
            _ => vec![self.half.take().unwrap_or_else(|| {
                let node = self.single();
                self.half = Some(node);
                node
            })],
        }
    }
}

/// Each queue has a little more or less than its share in use; together they have 3 GPUs left per cohort.
fn cluster(policy: Policy) -> Scheduler {
    let preemption = Preemption {
        within_queue: PreemptionPolicy::LowerPriority,
        reclaim_within_cohort: PreemptionPolicy::LowerPriority,
        borrow_within_cohort: BorrowWithinCohort::LowerPriority { max_priority: None },
    };
    let cohort_of = |queue: usize| queue % COHORTS;
    let mut used = [0_i64; COHORTS];
    for index in 0..RUNNING {
        let (pods, gpus) = SHAPES[shape_of(index)];
        used[cohort_of(index % QUEUES)] += i64::from(pods) * gpus;
    }
    let members = i64::try_from(QUEUES / COHORTS).expect("some hundred");
    let queues = (0..QUEUES).map(|index| {
        let cohort = cohort_of(index);
        let share = used[cohort] / members;
        let rest = if index < COHORTS { used[cohort] % members + 3 } else { 0 };
        queue(&format!("queue-{index:03}"), &format!("cohort-{cohort}"), share + rest, preemption)
    });
    let mut scheduler = Scheduler::new(SIZE.setup(queues.collect()), policy);
    let mut nodes = Nodes { pairs: 0, single: None, half: None };
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
    took: BTreeMap<&'static str, Vec<Duration>>,
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
            took: BTreeMap::new(),
        };
        let verdicts = driver.scheduler.decide(driver.now_ms, &standing);
        let waits = verdicts.iter().filter(|v| matches!(v, Verdict::Wait { .. })).count();
        println!("the cluster is full: {waits} heads of queues wait");
        driver
    }

    /// One change, and what is decided then.
    fn change(&mut self, kind: &'static str, change: impl FnOnce(&mut Scheduler)) -> Vec<Verdict> {
        self.now_ms += 1_000;
        let start = Instant::now();
        change(&mut self.scheduler);
        let verdicts = self.scheduler.decide(self.now_ms, &standing);
        self.took.entry(kind).or_default().push(start.elapsed());
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
                let start = Instant::now();
                self.scheduler.wake_all();
                black_box(self.scheduler.decide(self.now_ms, &standing));
                start.elapsed().as_micros()
            })
            .collect();
        took.sort_unstable();
        println!(
            "all who wait are looked at again: p50 {} us, max {} us",
            took[LOOKS / 2],
            took[LOOKS - 1]
        );
    }

    fn report(&self, title: &str) {
        println!("{title}, in microseconds:");
        println!("{:<34} {:>6} {:>8} {:>8} {:>8}", "", "count", "p50", "p99", "max");
        let all: Vec<Duration> = self.took.values().flatten().copied().collect();
        let kinds = self.took.iter().map(|(kind, took)| (*kind, took));
        for (kind, took) in kinds.chain([("all of them", &all)]) {
            let mut took: Vec<u128> = took.iter().map(Duration::as_micros).collect();
            took.sort_unstable();
            let at = |percent: usize| took[(took.len() - 1) * percent / 100];
            println!("{kind:<34} {:>6} {:>8} {:>8} {:>8}", took.len(), at(50), at(99), at(100));
        }
    }
}

fn decisions(criterion: &mut Criterion) {
    for (name, policy) in [("sluice", Policy::sluice()), ("compat", Policy::compat())] {
        let mut driver = Driver::new(policy);
        driver.round();
        driver.took.clear();
        for _ in 0..ROUNDS {
            driver.round();
        }
        driver.report(&format!("changes under policy {name}"));
        driver.look_at_all();
        criterion.bench_function(&format!("a round of ten changes, {name}"), |bencher| {
            bencher.iter(|| driver.round());
        });
    }
}

criterion_group!(benches, yardstick, decisions);
criterion_main!(benches);
