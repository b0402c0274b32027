//! Kueue's own three shapes of load, a tenth of each, through the scheduler to the last workload, in virtual time.
//!
//! `cargo bench --bench generators`. Criterion measures wall time on one thread; the lines before its own say how many
//! decisions (admissions and preemptions) that is per second of CPU. Compare with the yardstick of the same run, never
//! with figures of another machine; Kueue's published 42 admissions per second are its API client's limit.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nix::time::{ClockId, clock_gettime};
use sluice::simulate::{Mode, Overrides, Scenario, load, simulate};
use sluice_core::kueue::name::QueueName;

/// The part of the queues that is kept, with all their workloads: one of so many.
const SCALE: usize = 10;
/// Runs per shape; each takes up to seconds.
const SAMPLES: usize = 10;

/// A shape as it ships, with a tenth of its queues.
fn shape(name: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/simulate").join(name);
    let path = path.with_extension("yaml");
    let mut scenario = load(&path, &Overrides::default()).expect("the shipped inputs can be read");
    // Queues are made cohort by cohort, so whole cohorts stay as far as a tenth goes.
    let kept = scenario.setup.queues.len() / SCALE;
    scenario.setup.queues.truncate(kept);
    let names: BTreeSet<QueueName> =
        scenario.setup.queues.iter().map(|queue| queue.name.clone()).collect();
    scenario.jobs.retain(|job| names.contains(&job.queue));
    scenario
}

/// Runs a shape; how much was decided.
fn decide(scenario: &Scenario) -> u64 {
    let outcome = simulate(scenario, Mode::Kill).expect("the shapes end");
    let ended = outcome.jobs.iter().filter(|fate| fate.ended_at_ms.is_some()).count();
    assert_eq!(ended, scenario.jobs.len(), "every workload runs to its end");
    outcome.jobs.iter().map(|fate| u64::from(fate.admissions) + u64::from(fate.preemptions)).sum()
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn shapes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("generators");
    group.sample_size(SAMPLES);
    for name in ["baseline", "large-scale", "tas"] {
        let scenario = shape(name);
        let before = cpu_time();
        let decisions = decide(&scenario);
        let cpu = cpu_time().saturating_sub(before);
        let micros = u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX).max(1);
        println!(
            "{name}: {} workloads in {} queues, {decisions} decisions, {} per CPU-second",
            scenario.jobs.len(),
            scenario.setup.queues.len(),
            decisions.saturating_mul(1_000_000) / micros
        );
        group.throughput(Throughput::Elements(decisions));
        group.bench_function(name, |bencher| bencher.iter(|| decide(black_box(&scenario))));
    }
    group.finish();
}

/// What the scheduler mostly does, without deciding anything: names into and out of an ordered map.
fn yardstick(criterion: &mut Criterion) {
    const NAMES: u64 = 100_000;
    let names: Vec<String> = (0..NAMES).map(|number| format!("workload-{number:06}")).collect();
    let mut group = criterion.benchmark_group("yardstick");
    group.sample_size(SAMPLES).throughput(Throughput::Elements(NAMES));
    group.bench_function("names into and out of an ordered map", |bencher| {
        bencher.iter(|| {
            let mut map: BTreeMap<&str, usize> = BTreeMap::new();
            for (number, name) in names.iter().enumerate() {
                map.insert(name, number);
            }
            names.iter().filter_map(|name| map.remove(name.as_str())).sum::<usize>()
        });
    });
    group.finish();
}

criterion_group!(benches, yardstick, shapes);
criterion_main!(benches);
