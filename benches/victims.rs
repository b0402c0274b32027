//! How long it takes to choose victims among 700 workloads on 2,000 nodes, for a gang that must lie in one rack.
//!
//! `cargo bench --bench victims -- --quick` takes some seconds. The first case is a yardstick: compare with it, not
//! with the figures of another machine.

#![forbid(unsafe_code)]

mod jobs;
mod world;
mod yardstick;

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use jobs::{pending, placed};
use sluice_core::kueue::cycle::{CycleOutcome, Decision, Options, run_cycle};
use sluice_core::kueue::model::{BorrowWithinCohort, Preemption, PreemptionPolicy};
use sluice_core::kueue::order::Pending;
use sluice_core::kueue::preempt::{FairSharing, Standing, VictimPolicy, VictimRule, Weighing};
use sluice_core::kueue::snapshot::{Running, Snapshot};
use sluice_core::kueue::workload::{TopologyMode, Workload};
use world::{LEVELS, Size, queue};
use yardstick::yardstick;

const SIZE: Size = Size { nodes: 2_000, nodes_per_rack: 16, racks_per_block: 8 };
const WORKLOADS: usize = 700;
const QUEUES: usize = 8;
const NOW_MS: u64 = 1_000_000_000;

/// Every queue borrows from the first; 700 gangs are spread over the racks and leave few nodes free.
fn cluster() -> Snapshot {
    let preemption = Preemption {
        within_queue: PreemptionPolicy::LowerPriority,
        reclaim_within_cohort: PreemptionPolicy::Any,
        borrow_within_cohort: BorrowWithinCohort::LowerPriority { max_priority: None },
    };
    let gpus = i64::try_from(SIZE.nodes * 8).expect("some thousand");
    let queues = (0..QUEUES).map(|index| {
        let nominal = if index == 0 { gpus } else { 0 };
        queue(&format!("q{index}"), "all", nominal, preemption)
    });
    let mut snapshot = Snapshot::new(SIZE.setup(queues.collect()));
    let mut next_node = (0..SIZE.nodes).map(|index| index * 617 % SIZE.nodes);
    for index in 0..WORKLOADS {
        let count = [1, 2, 4, 4][index % 4];
        let nodes: Vec<usize> = next_node.by_ref().take(count).collect();
        let name = format!("job-{index:03}");
        let pods = u32::try_from(count).expect("a few");
        let queue = format!("q{}", 1 + index % (QUEUES - 1));
        let workload = pending(&name, &queue, 0, (pods, 8), TopologyMode::Unconstrained);
        assert!(snapshot.insert(Running::new(placed(workload, &nodes, index as u64))));
    }
    snapshot
}

/// Work lost, which differs from gang to gang.
fn standing(_: &Workload, running: &Running) -> Standing {
    let at_ms = running.workload.reservation.as_ref().map_or(0, |held| held.at_ms);
    let devices = running.usage.values().sum::<i64>().unsigned_abs();
    let unsaved_ms = at_ms.wrapping_mul(7_919) % 600_000;
    Standing { cost_device_ms: devices * unsaved_ms, at_risk_device_ms: 0, is_spared: false }
}

fn decide(snapshot: &Snapshot, rule: &VictimRule, pods: u32, is_sluice: bool) -> CycleOutcome {
    let weighing = Weighing { standing: &standing, finds_cheapest: true, follows_topology: true };
    let weighing = is_sluice.then_some(weighing);
    let options =
        Options { victims: VictimPolicy { rule: rule.clone(), weighing }, ..Options::classical() };
    let new = pending("new", "q0", 5, (pods, 8), TopologyMode::Required(LEVELS[1].to_owned()));
    run_cycle(snapshot, &[Pending::new(Arc::new(new))], &options, NOW_MS)
}

fn victims(criterion: &mut Criterion) {
    let snapshot = cluster();
    let rules = [
        ("classical", VictimRule::Classical),
        ("fair sharing", VictimRule::FairSharing(FairSharing::default())),
    ];
    for (name, rule) in &rules {
        for (policy, is_sluice) in [("compat", false), ("sluice", true)] {
            for pods in [4, 16] {
                let outcome = decide(&snapshot, rule, pods, is_sluice);
                let Decision::Preempt(victims) = &outcome.verdicts[0].decision else {
                    panic!("{pods} pods need victims, found {:?}", outcome.verdicts[0]);
                };
                let cost = victims.iter().filter_map(|v| snapshot.running(&v.workload));
                let cost: u64 = cost.map(|r| standing(&r.workload, r).cost_device_ms).sum();
                let title = format!("victims for {pods} pods in a rack, {name}, {policy}");
                println!("{title}: {} gangs, {} device-seconds", victims.len(), cost / 1_000);
                criterion.bench_function(&title, |bencher| {
                    bencher.iter(|| black_box(decide(&snapshot, rule, pods, is_sluice)));
                });
            }
        }
    }
}

criterion_group!(benches, yardstick, victims);
criterion_main!(benches);
