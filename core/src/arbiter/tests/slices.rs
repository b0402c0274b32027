//! Slices of TPUs through the arbiter: two cubes of 16 hosts with 4 chips each.

use super::*;
use crate::slice::label::{ACCELERATOR, BLOCK};
use crate::slice::{Cube, Tiling};
use crate::topology::fixture;
use crate::unit::Time;
use crate::workload::SliceSpec;

const CUBES: [&str; 2] = ["a", "b"];

fn tpu() -> ResourceName {
    "google.com/tpu".parse().unwrap()
}

/// Labels of host `number` of cube `id`.
fn labels(id: &str, number: usize) -> BTreeMap<String, String> {
    let generation = fixture::generation("tpu7x");
    let tiling = Tiling::of(&generation, generation.hosts[0], generation.whole().unwrap()).unwrap();
    let cube = Cube::healthy(id, "block-1", &tiling);
    let mut labels = BTreeMap::from([
        (ACCELERATOR.to_owned(), "tpu7x".to_owned()),
        (BLOCK.to_owned(), "block-1".to_owned()),
    ]);
    for (part, id) in cube.ids.iter().filter(|(part, _)| part.hosts() >> number & 1 == 1) {
        let key = format!("cloud.google.com/gke-tpu-partition-{}", tiling.shape(part.level()));
        labels.insert(format!("{key}-id"), id.replace('/', "."));
        labels.insert(format!("{key}-state"), "HEALTHY".to_owned());
    }
    labels
}

fn nodes() -> Vec<String> {
    CUBES.iter().flat_map(|cube| (0..16).map(move |number| format!("{cube}-{number:02}"))).collect()
}

/// A host with chips of the given health.
fn report(bench: &mut Bench, node: &str, chips: &[Health], more: &[(&str, String)]) {
    let (cube, number) = node.split_once('-').unwrap();
    let node: NodeName = node.parse().unwrap();
    let device = |(index, health): (u32, &Health)| {
        let device = Device {
            resource: tpu(),
            index,
            kind: "tpu7x".to_owned(),
            simulated: true,
            health: *health,
            fault: None,
        };
        (format!("{node}-{index}").parse().unwrap(), device)
    };
    let mut labels = labels(cube, number.parse().unwrap());
    labels.extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    let known = bench.arbiter.nodes().get(&node).map(|n| n.workers.clone()).unwrap_or_default();
    let devices = (0..).zip(chips).map(device).collect();
    let report =
        NodeReport { full: true, labels, devices, workers: known, ..NodeReport::default() };
    bench.give(Input::AgentConnected { node: node.clone() });
    bench.give(Input::NodeReport { node, report });
}

fn with_queues(queues: Queues) -> Bench {
    let config = Config { queues, generations: fixture::table(), ..Config::default() };
    let mut bench = Bench::with(config, &[]);
    for node in nodes() {
        report(&mut bench, &node, &[Health::Healthy; 4], &[]);
    }
    bench
}

fn two_cubes() -> Bench {
    with_queues(Queues::single("default", &[("google.com/tpu", 999_999)]))
}

fn spec(workload: &str, priority: i32, shape: &str, count: u32, ranks: u32) -> WorkloadSpec {
    WorkloadSpec {
        resources: BTreeMap::from([(tpu(), 4)]),
        slice: Some(Box::new(SliceSpec {
            generation: String::new(),
            shape: shape.to_owned(),
            count,
            is_healthy_only: false,
            group: None,
        })),
        ..Bench::spec(workload, priority, ranks, 4)
    }
}

fn submit(bench: &mut Bench, spec: &WorkloadSpec) {
    let nodes = nodes();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    bench.submit(spec, &nodes);
}

fn partitions(bench: &Bench, workload: &str) -> Vec<String> {
    let slices = bench.workload(workload).slices_held();
    slices.iter().map(|slice| slice.partitions.join("+")).collect()
}

fn states(bench: &Bench, workload: &str) -> BTreeSet<&'static str> {
    let slices = bench.arbiter.slices().into_iter().filter(|s| s.workload == name(workload));
    slices.map(|slice| slice.state.as_str()).collect()
}

/// Plays what agents do with the open drain of `workload`, to its end.
fn drain(bench: &mut Bench, workload: &str) {
    let drain = bench.workload(workload).last_drain.clone().unwrap().to_string();
    let ranks = bench.workload(workload).spec.nnodes;
    for rank in 0..ranks {
        bench.event(&drain, workload, rank, ARMED);
    }
    if bench.drain(&drain).state == DrainState::Saving {
        for rank in 0..ranks {
            bench.event(&drain, workload, rank, durable(checkpoint(50)));
        }
    }
    assert_eq!(bench.drain(&drain).state, DrainState::Releasing);
    let workers: Vec<_> = (0..ranks).map(|rank| bench.worker(workload, rank)).collect();
    for (node, worker) in workers {
        assert_eq!(bench.phase(workload), Phase::Draining);
        bench.event_from(&node, &drain, worker, freed());
    }
}

/// No host is on two slices, and every rank has exactly the chips of its host.
fn assert_sound(bench: &Bench) {
    let mut taken = BTreeSet::new();
    for workload in bench.arbiter.workloads().values().filter(|w| w.device_count() > 0) {
        let nodes = workload.slices_held().iter().flat_map(|slice| &slice.nodes);
        for (rank, node) in nodes {
            assert!(taken.insert(node.clone()), "{node} twice");
            let assignment = workload.members[rank].assignment.as_ref().unwrap();
            assert_eq!((&assignment.node, assignment.devices.len()), (node, 4));
        }
    }
}

#[test]
fn six_small_slices_go_to_one_cube_and_leave_the_other_whole() {
    let mut bench = two_cubes();
    submit(&mut bench, &spec("low", 1_000, "2x2x2", 6, 12));
    assert_eq!(bench.phase("low"), Phase::Admitted);
    assert_sound(&bench);
    let expected: Vec<String> = (0..6).map(|pair| format!("a.2x2x2.{pair}")).collect();
    assert_eq!(partitions(&bench, "low"), expected);
    assert_eq!(states(&bench, "low"), BTreeSet::from(["CREATED"]));
    bench.start("low");
    assert_eq!(states(&bench, "low"), BTreeSet::from(["ACTIVE"]));
    let pair: Vec<String> = (0..2).map(|r| bench.worker("low", r).0.to_string()).collect();
    assert_eq!(pair, ["a-00", "a-01"], "the first ranks are on the first slice");
}

/// What six small slices, a large one, and eight replicas of a server make of two cubes.
fn seed() -> Bench {
    let mut bench = two_cubes();
    submit(&mut bench, &spec("low", 1_000, "2x2x2", 6, 12));
    bench.start("low");
    bench.wait(600_000);
    submit(&mut bench, &spec("medium", 2_000, "4x4x8", 1, 32));
    assert_eq!((bench.phase("low"), bench.phase("medium")), (Phase::Draining, Phase::Pending));
    assert_eq!(states(&bench, "medium"), BTreeSet::from(["HELD"]));
    drain(&mut bench, "low");
    assert_eq!(bench.phase("medium"), Phase::Admitted, "{}", bench.workload("medium").reason);
    assert_eq!(partitions(&bench, "medium"), ["a+b"]);
    assert_eq!(bench.workload("low").reason.code(), "resume-pending");
    bench.start("medium");
    bench.wait(600_000);
    for replica in SERVERS {
        submit(&mut bench, &spec(replica, 3_000, "2x2x2", 1, 2));
    }
    bench
}

const SERVERS: [&str; 8] = [
    "decode-0",
    "decode-1",
    "decode-2",
    "decode-3",
    "prefill-0",
    "prefill-1",
    "prefill-2",
    "prefill-3",
];

#[test]
fn the_first_replica_evicts_the_large_slice_and_the_other_seven_evict_nobody() {
    let mut bench = seed();
    let drains: Vec<String> =
        bench.arbiter.drains().values().map(|d| d.victim.to_string()).collect();
    assert_eq!(drains, ["low", "medium"]);
    drain(&mut bench, "medium");
    let mut pairs: Vec<String> = SERVERS.iter().flat_map(|s| partitions(&bench, s)).collect();
    pairs.sort();
    let cube = pairs[0].split('.').next().unwrap().to_owned();
    let expected: Vec<String> = (0..8).map(|pair| format!("{cube}.2x2x2.{pair}")).collect();
    assert_eq!(pairs, expected, "all in one cube");
    assert!(SERVERS.iter().all(|s| bench.phase(s) == Phase::Admitted));
    assert_sound(&bench);
    assert_eq!(bench.phase("low"), Phase::Admitted, "six pairs fit the other cube");
    let why = bench.workload("medium").reason.clone();
    assert_eq!(bench.phase("medium"), Phase::Pending);
    assert_eq!(why.code(), "resume-pending", "for whom it was drained still runs");
    assert_eq!(bench.arbiter.drains().len(), 2, "nobody else was drained");
}

#[test]
fn the_same_three_at_once_evict_nobody() {
    let mut bench = two_cubes();
    bench.give(Input::Freeze { why: "until all are there".to_owned() });
    submit(&mut bench, &spec("low", 1_000, "2x2x2", 6, 12));
    submit(&mut bench, &spec("medium", 2_000, "4x4x8", 1, 32));
    for replica in SERVERS {
        submit(&mut bench, &spec(replica, 3_000, "2x2x2", 1, 2));
    }
    bench.give(Input::Unfreeze);
    assert!(SERVERS.iter().all(|s| bench.phase(s) == Phase::Admitted));
    assert_eq!(bench.phase("low"), Phase::Admitted);
    let why = bench.workload("medium").reason.to_string();
    assert_eq!(why, "no place for 1 x 4x4x8: 2 free cubes of one block are needed, 0 free");
    assert!(bench.arbiter.drains().is_empty());
    assert_sound(&bench);
}

#[test]
fn equal_priority_evicts_nobody() {
    let mut bench = two_cubes();
    submit(&mut bench, &spec("low", 1_000, "2x2x2", 6, 12));
    bench.start("low");
    submit(&mut bench, &spec("same", 1_000, "4x4x8", 1, 32));
    assert_eq!(bench.workload("same").reason.code(), "slice-waits");
    assert!(bench.arbiter.drains().is_empty());
}

#[test]
fn what_cannot_be_a_slice_is_refused_with_what_would_be_right() {
    let mut bench = two_cubes();
    let cases = [
        ("4x4x6", 1, 24, "slice-illegal", "nearest: 4x4x4 (smaller), 4x4x8 (larger)"),
        ("8x4x4", 1, 32, "slice-illegal", "4x4x8"),
        ("2x2", 1, 1, "slice-illegal", "2 dimensions instead of 3"),
        ("2x2x2", 1, 3, "slice-illegal", "use 2 pods"),
        ("4x4x8", 1, 16, "slice-illegal", "use 32 pods"),
        ("2x2x2", 5, 12, "slice-illegal", "12 ranks cannot be spread evenly over 5 slices"),
        ("2x2x2", 0, 12, "bad-spec", "1 to 4096"),
    ];
    for (shape, count, ranks, code, part) in cases {
        let spec = spec("x", 0, shape, count, ranks);
        let reason = bench.submit_rank(&spec, 0, &["a-00"]).unwrap_err();
        assert_eq!(reason.code(), code, "{shape}: {reason}");
        assert!(reason.to_string().contains(part), "{shape}: {reason}");
    }
    let slice = Some(Box::new(SliceSpec {
        generation: "v5p".to_owned(),
        ..*spec("x", 0, "4x4x4", 1, 16).slice.unwrap()
    }));
    let reason =
        bench.submit_rank(&WorkloadSpec { slice, ..spec("x", 0, "4x4x4", 1, 16) }, 0, &["a-00"]);
    assert!(reason.unwrap_err().to_string().contains("not made on demand"));
    assert!(bench.arbiter.workloads().is_empty());
}

#[test]
fn who_lacks_quota_keeps_nobody_off_the_place_that_it_would_have() {
    let mut queues = Queues::single("default", &[("google.com/tpu", 999_999)]);
    let tight = Queues::single("tight", &[("google.com/tpu", 64)]);
    queues.setup.queues.extend(tight.setup.queues);
    let mut bench = with_queues(queues);
    let in_tight = |workload, priority| WorkloadSpec {
        queue: "tight".parse().unwrap(),
        ..spec(workload, priority, "4x4x4", 1, 16)
    };
    submit(&mut bench, &in_tight("first", 1_000));
    bench.start("first");
    submit(&mut bench, &in_tight("second", 500));
    assert_eq!(bench.workload("second").reason.code(), "waiting-for-quota", "a cube is free");
    submit(&mut bench, &spec("third", 100, "4x4x4", 1, 16));
    assert_eq!(partitions(&bench, "third"), ["b"], "{}", bench.workload("third").reason);
    assert_sound(&bench);
}

#[test]
fn slices_keep_off_hosts_that_are_not_in_order() {
    let mut bench = two_cubes();
    let mut chips = [Health::Healthy; 4];
    chips[2] = Health::Unhealthy;
    report(&mut bench, "a-00", &chips, &[]);
    submit(&mut bench, &spec("cube", 10, "4x4x4", 1, 16));
    assert_eq!(partitions(&bench, "cube"), ["b"]);
    report(&mut bench, "a-02", &[Health::Healthy; 3], &[]);
    submit(&mut bench, &spec("half", 10, "2x4x4", 1, 8));
    assert_eq!(partitions(&bench, "half"), ["a.2x4x4.1"], "a host that lacks a chip is of no use");
    submit(&mut bench, &spec("column", 10, "2x2x4", 1, 4));
    assert_eq!(partitions(&bench, "column"), ["a.2x2x4.1"]);
    assert_sound(&bench);
}

#[test]
fn a_slice_with_a_failed_host_moves_as_a_whole_and_keeps_off_it() {
    let mut bench = two_cubes();
    submit(&mut bench, &spec("train", 10, "4x4x4", 1, 16));
    assert_eq!(partitions(&bench, "train"), ["a"]);
    bench.start("train");
    let mut chips = [Health::Healthy; 4];
    chips[0] = Health::Unhealthy;
    report(&mut bench, "a-05", &chips, &[]);
    assert_eq!(bench.phase("train"), Phase::Draining);
    assert_eq!(bench.drain("drain-1").cause.code(), "slice-moves");
    assert_eq!(states(&bench, "train"), BTreeSet::from(["FAILED"]));
    drain(&mut bench, "train");
    assert_eq!(
        (bench.phase("train"), partitions(&bench, "train")),
        (Phase::Admitted, vec!["b".to_owned()])
    );
    assert_sound(&bench);
}

#[test]
fn a_host_that_fails_while_agents_come_back_to_a_new_arbiter_moves_nobody_yet() {
    let mut bench = two_cubes();
    submit(&mut bench, &spec("train", 10, "4x4x4", 1, 16));
    bench.start("train");
    // An earlier arbiter knew one node more.
    bench.arbiter.known_before = nodes().len() + 1;
    let mut chips = [Health::Healthy; 4];
    chips[0] = Health::Unhealthy;
    report(&mut bench, "a-05", &chips, &[]);
    assert_eq!(bench.phase("train"), Phase::Running);
    bench.wait(bench.arbiter.config.recovery_ms);
    assert_eq!(bench.phase("train"), Phase::Draining);
}

#[test]
fn a_slice_leaves_before_maintenance_that_was_announced() {
    let mut bench = two_cubes();
    submit(&mut bench, &spec("train", 10, "2x2x2", 1, 2));
    bench.start("train");
    let at = (bench.now + 1_000_000) / 1_000;
    let node = bench.worker("train", 1).0.to_string();
    let label = ("cloud.google.com/scheduled-maintenance-time", at.to_string());
    report(&mut bench, &node, &[Health::Healthy; 4], &[label]);
    assert_eq!(bench.phase("train"), Phase::Running);
    bench.wait(500_000);
    assert_eq!(bench.phase("train"), Phase::Running);
    bench.wait(51_000);
    assert_eq!(bench.phase("train"), Phase::Draining);
    drain(&mut bench, "train");
    assert_eq!(bench.phase("train"), Phase::Admitted);
    assert!(bench.workload("train").slices[0].nodes.values().all(|n| n.as_str() != node));
}

#[test]
fn an_arbiter_that_goes_on_from_a_snapshot_decides_alike() {
    let mut bench = seed();
    let mut other = Arbiter::restore(bench.arbiter.snapshot());
    assert_eq!(other.snapshot(), bench.arbiter.snapshot());
    let medium = bench.workload("medium").last_drain.clone().unwrap();
    for rank in 0..32 {
        let (node, worker) = bench.worker("medium", rank);
        let event = DrainEvent { drain: medium.clone(), epoch: 1, worker, kind: ARMED };
        let input = Input::DrainEvent { node, event };
        let now = Time(bench.now);
        assert_eq!(bench.arbiter.step(now, input.clone()), other.step(now, input));
    }
    for _ in 0..3 {
        bench.now += 100_000;
        let now = Time(bench.now);
        assert_eq!(bench.arbiter.step(now, Input::Tick), other.step(now, Input::Tick));
    }
    assert_eq!(other.snapshot(), bench.arbiter.snapshot());
}

#[test]
fn ranks_that_reach_one_node_each_get_the_slice_of_these_nodes() {
    let mut bench = two_cubes();
    let spec = spec("pinned", 10, "2x2x2", 1, 2);
    bench.submit_rank(&spec, 0, &["b-05"]).unwrap();
    bench.submit_rank(&spec, 1, &["b-04"]).unwrap();
    assert_eq!(partitions(&bench, "pinned"), ["b.2x2x2.2"]);
    assert_eq!(bench.worker("pinned", 0).0.as_str(), "b-05");
    let apart = WorkloadSpec { name: name("apart"), ..spec };
    bench.submit_rank(&apart, 0, &["b-07"]).unwrap();
    bench.submit_rank(&apart, 1, &["b-08"]).unwrap();
    assert_eq!(bench.workload("apart").reason.code(), "slice-waits", "they are no pair");
}

#[test]
fn chips_that_were_given_without_a_slice_are_no_part_of_one() {
    let mut bench = two_cubes();
    let plain = WorkloadSpec { slice: None, ..spec("plain", 10, "2x2x1", 1, 1) };
    bench.submit(&plain, &["a-00"]);
    bench.start("plain");
    submit(&mut bench, &spec("cube", 10, "4x4x8", 1, 32));
    assert_eq!(bench.workload("cube").reason.code(), "slice-waits");
    submit(&mut bench, &spec("above", 20, "4x4x8", 1, 32));
    assert_eq!(bench.phase("plain"), Phase::Draining);
}
