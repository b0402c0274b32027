use super::*;

/// A gang of one rank on its own node with a checkpoint `age_ms` old and one expected in half an hour.
fn running(bench: &mut Bench, workload: &str, node: &str, age_ms: u64) {
    let spec = Bench::spec(workload, 10, 1, 2);
    bench.submit(&spec, &[node]);
    bench.start(workload);
    let now = bench.now;
    bench.now -= age_ms;
    bench.arbiter.now = Time(bench.now);
    bench.arbiter.workloads.get_mut(&name(workload)).unwrap().running_since = Some(Time(0));
    bench.report(workload, 0, Some(40), Some((1_000, 500, 1_800_000)));
    bench.now = now;
}

#[test]
fn s1_the_gang_with_the_fresher_checkpoint_is_drained() {
    let mut bench = Bench::new(&["a", "b"], 4);
    bench.now += 10_000_000;
    running(&mut bench, "stale", "a", 1_500_000);
    running(&mut bench, "fresh", "b", 5_000);
    bench.submit(&Bench::spec("serve", 30, 1, 2), &["a", "b"]);
    assert_eq!(bench.phase("fresh"), Phase::Draining);
    assert_eq!(bench.phase("stale"), Phase::Running);
    let at_risk: Vec<(String, &str, String)> = bench
        .decided
        .iter()
        .filter(|d| d.kind == DecisionKind::Preempt)
        .map(|d| {
            let workload = d.workload.as_ref().unwrap().to_string();
            (workload, d.reason.code(), d.reason.values()["at_risk_device_ms"].clone())
        })
        .collect();
    assert_eq!(
        at_risk,
        [
            ("fresh".to_owned(), "cheapest-victim", "10000".to_owned()),
            ("stale".to_owned(), "costlier-victim", "3000000".to_owned()),
        ]
    );
}

#[test]
fn s2_exactly_one_whole_gang_is_drained_and_always_the_same() {
    let run = || {
        let mut bench = Bench::new(&["a", "b"], 4);
        for gang in ["one", "two"] {
            bench.submit(&Bench::spec(gang, 10, 2, 1), &["a", "b"]);
            bench.start(gang);
        }
        bench.now += 30_000;
        bench.submit(&Bench::spec("serve", 30, 2, 1), &["a", "b"]);
        let drained: Vec<WorkloadName> =
            bench.arbiter.drains().values().map(|d| d.victim.clone()).collect();
        assert_eq!(bench.drain("drain-1").members.len(), 2);
        drained
    };
    let first = run();
    assert_eq!(first, [name("one")]);
    assert!((0..100).all(|_| run() == first));
}

#[test]
fn equal_or_higher_priority_is_never_drained() {
    let mut bench = Bench::new(&["a"], 2);
    bench.submit(&Bench::spec("train", 30, 1, 2), &["a"]);
    bench.start("train");
    bench.submit(&Bench::spec("serve", 30, 1, 2), &["a"]);
    assert_eq!(bench.phase("train"), Phase::Running);
    assert_eq!(bench.workload("serve").reason.code(), "waiting-for-quota");
    let candidates = bench.arbiter.candidates(&name("serve"));
    let verdicts: Vec<&str> = candidates.iter().map(|c| c.reason.code()).collect();
    assert_eq!(verdicts, ["priority-not-lower"]);
}

#[test]
fn what_a_drain_frees_is_held_for_its_beneficiary() {
    let mut bench = Bench::preempting();
    for rank in 0..2 {
        bench.event("drain-1", "train", rank, ARMED);
    }
    // A bystander of higher priority than the victim, lower than the beneficiary, must not slip in.
    bench.submit(&Bench::spec("bystander", 20, 1, 2), &["a", "b"]);
    for rank in 0..2 {
        bench.event("drain-1", "train", rank, durable(checkpoint(50)));
    }
    let members = [bench.worker("train", 0), bench.worker("train", 1)];
    for (node, worker) in members {
        bench.event_from(&node, "drain-1", worker, freed());
    }
    assert_eq!(bench.phase("serve"), Phase::Admitted);
    // The drained gang held two nodes and serve needs one: the rest is free for the bystander.
    assert_eq!(bench.phase("bystander"), Phase::Admitted);
    let serve = bench.workload("serve").members[&0].assignment.clone();
    let bystander = bench.workload("bystander").members[&0].assignment.clone();
    assert_ne!(serve, bystander);
}

#[test]
fn s20_decisions_depend_on_time_passed_and_not_on_the_clock() {
    let run = |offset: u64| {
        let mut bench = Bench::preempting();
        bench.now += offset;
        let mut bench = Bench { now: 1_000_000 + offset, ..bench };
        bench.arbiter =
            Arbiter::new(Time(bench.now), bench.arbiter.config.clone(), vec![], vec![], None);
        bench.decided.clear();
        for node in ["a", "b"] {
            bench.connect(node);
        }
        bench.submit(&Bench::spec("train", 10, 2, 2), &["a", "b"]);
        bench.start("train");
        bench.now += 20_000;
        for rank in 0..2 {
            bench.report("train", rank, Some(40), Some((1_000, 500, 10_000)));
        }
        bench.now += 3_000;
        bench.submit(&Bench::spec("serve", 30, 1, 2), &["a", "b"]);
        bench.decided.iter().map(|d| (d.kind, d.reason.clone())).collect::<Vec<_>>()
    };
    assert_eq!(run(0), run(3_600_000));
}

#[test]
fn a_drained_workload_is_left_alone_until_it_has_made_progress() {
    let mut bench = Bench::preempting();
    for rank in 0..2 {
        bench.event("drain-1", "train", rank, ARMED);
    }
    for rank in 0..2 {
        bench.event("drain-1", "train", rank, durable(checkpoint(50)));
    }
    let members = [bench.worker("train", 0), bench.worker("train", 1)];
    for (node, worker) in members {
        bench.event_from(&node, "drain-1", worker, freed());
    }
    bench.give(Input::Cancel { workload: name("serve") });
    let launcher = Bench::launcher("serve", 0);
    bench.give(Input::Detach { workload: name("serve"), rank: 0, launcher });
    bench.start("train");
    bench.submit(&Bench::spec("again", 30, 1, 2), &["a", "b"]);
    assert_eq!(bench.workload("again").reason.code(), "waiting-for-productive-floor");
    bench.wait(30_000);
    assert_eq!(bench.phase("train"), Phase::Draining);
}

#[test]
fn deciding_again_without_a_change_decides_nothing_new() {
    let mut bench = Bench::preempting();
    bench.sent();
    bench.decided.clear();
    for _ in 0..3 {
        bench.arbiter.dirty = true;
        bench.give(Input::Tick);
    }
    assert_eq!((bench.sent(), bench.decided.len()), (vec![], 0));
}

#[test]
fn a_workload_that_was_drained_often_within_the_hour_is_left_alone() {
    let mut bench = Bench::new(&["a"], 2);
    bench.submit(&Bench::spec("train", 10, 1, 2), &["a"]);
    bench.start("train");
    bench.now += 600_000;
    let often = vec![Time(bench.now - 300_000); 6];
    bench.arbiter.workloads.get_mut(&name("train")).unwrap().profile.drained_at = often;
    bench.submit(&Bench::spec("serve", 30, 1, 2), &["a"]);
    let verdicts: Vec<&str> =
        bench.arbiter.candidates(&name("serve")).iter().map(|c| c.reason.code()).collect();
    assert_eq!(verdicts, ["drain-budget-spent"]);
    bench.wait(3_300_000);
    assert_eq!(bench.phase("train"), Phase::Draining);
}

/// An arbiter started anew with other queues, while `ghost` runs in one that is gone.
fn with_other_queues(queues: Queues) -> Bench {
    let mut before = Bench::new(&["a", "b"], 4);
    before.submit(&Bench::spec("ghost", 10, 1, 2), &["a"]);
    before.start("ghost");
    let workloads = before.arbiter.workloads().values().cloned().collect();
    let config = Config { queues, recovery_ms: 0, ..Config::default() };
    let mut bench = Bench::with(config.clone(), &[]);
    bench.now = before.now + 500;
    bench.arbiter = Arbiter::new(Time(bench.now), config, workloads, Vec::new(), None);
    bench.arbiter.nodes.clone_from(&before.arbiter.nodes);
    bench.arbiter.nodes.values_mut().for_each(|node| node.connected = false);
    bench.connect("a");
    bench.connect("b");
    bench
}

#[test]
fn what_runs_in_a_queue_that_is_gone_keeps_its_devices_and_blocks_nobody() {
    for (queue, flavor) in [("other", "default"), ("default", "renamed"), ("other", "renamed")] {
        let mut queues = Queues::single(queue, &[("nvidia.com/gpu", 4)]);
        queues.setup.flavors[0].name = flavor.into();
        queues.setup.queues[0].groups[0].flavors[0].flavor = flavor.into();
        let mut bench = with_other_queues(queues);
        let spec = WorkloadSpec { queue: queue.parse().unwrap(), ..Bench::spec("new", 0, 1, 2) };
        bench.submit(&spec, &["a", "b"]);
        assert_eq!(bench.phase("new"), Phase::Admitted, "queue {queue}, flavor {flavor}");
        let assignment = bench.workload("new").members[&0].assignment.clone();
        assert_eq!(assignment.map(|a| a.node.to_string()), Some("b".to_owned()));
        assert_eq!(bench.workload("ghost").device_count(), 2);
    }
}

#[test]
fn nobody_is_drained_for_a_device_that_is_out_of_order() {
    let mut bench = Bench::new(&["a"], 2);
    bench.submit(&Bench::spec("train", 10, 1, 2), &["a"]);
    bench.start("train");
    let node: NodeName = "a".parse().unwrap();
    let mut device = bench.arbiter.nodes()[&node].devices.values().next().unwrap().clone();
    device.health = Health::Unhealthy;
    let devices = [("a-0".parse().unwrap(), device)].into();
    bench.give(Input::NodeReport { node, report: NodeReport { devices, ..NodeReport::default() } });
    bench.now += 60_000;
    bench.submit(&Bench::spec("serve", 30, 1, 2), &["a"]);
    assert_eq!(bench.phase("train"), Phase::Running);
    assert_eq!(bench.phase("serve"), Phase::Pending);
    assert_eq!(bench.workload("serve").reason.code(), "waiting-for-devices");
}
