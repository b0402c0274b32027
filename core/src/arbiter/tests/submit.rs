use super::*;
use crate::kueue::model::Topology;
use crate::kueue::workload::TopologyMode;

fn refused(bench: &mut Bench, spec: &WorkloadSpec, rank: u32, nodes: &[&str]) -> &'static str {
    bench.submit_rank(spec, rank, nodes).map_or_else(|reason| reason.code(), |()| "accepted")
}

#[test]
fn what_can_never_be_is_refused_at_once_with_the_reason() {
    let mut bench = Bench::new(&["a"], 4);
    let spec = Bench::spec("train", 10, 2, 2);
    let cases = [
        (WorkloadSpec { nnodes: 3, ..spec.clone() }, 0, "exceeds-quota"),
        (WorkloadSpec { queue: "nowhere".parse().unwrap(), ..spec.clone() }, 0, "queue-unknown"),
        (WorkloadSpec { nnodes: 0, ..spec.clone() }, 0, "bad-spec"),
        (spec.clone(), 2, "rank-out-of-range"),
        (
            WorkloadSpec {
                resources: BTreeMap::from([("google.com/tpu".parse().unwrap(), 1)]),
                ..spec.clone()
            },
            0,
            "resource-unknown",
        ),
    ];
    for (spec, rank, code) in cases {
        assert_eq!(refused(&mut bench, &spec, rank, &["a"]), code);
    }
    assert_eq!(refused(&mut bench, &spec, 0, &[]), "no-nodes");
    assert!(bench.arbiter.workloads().is_empty());
}

#[test]
fn a_gang_waits_for_its_ranks_and_starts_whole() {
    let mut bench = Bench::new(&["a", "b"], 4);
    let spec = Bench::spec("train", 10, 2, 2);
    bench.submit_rank(&spec, 0, &["a", "b"]).unwrap();
    assert_eq!(bench.workload("train").reason.code(), "gang-incomplete");
    bench.submit_rank(&spec, 1, &["a", "b"]).unwrap();
    assert_eq!(bench.phase("train"), Phase::Admitted);
}

#[test]
fn ranks_of_one_gang_must_agree_and_a_rank_has_one_launcher() {
    let mut bench = Bench::new(&["a", "b"], 4);
    let spec = Bench::spec("train", 10, 2, 2);
    bench.submit_rank(&spec, 0, &["a"]).unwrap();
    let other = WorkloadSpec { priority: 11, ..spec.clone() };
    assert_eq!(refused(&mut bench, &other, 1, &["a"]), "spec-conflict");
    let stranger = Input::Submit {
        spec: spec.clone(),
        rank: 0,
        launcher: "stranger".parse().unwrap(),
        nodes: BTreeSet::from(["a".parse().unwrap()]),
    };
    let reply = bench.give(stranger);
    assert_eq!(reply, Some(Reply::Submitted(Err(Reason::RankTaken { rank: 0 }))));
    assert_eq!(refused(&mut bench, &spec, 0, &["a"]), "accepted", "the same launcher may repeat");
}

#[test]
fn a_local_queue_stands_for_its_queue() {
    let mut bench = Bench::new(&["a"], 2);
    let spec = WorkloadSpec { queue: "team/local".parse().unwrap(), ..Bench::spec("x", 0, 1, 2) };
    bench.submit(&spec, &["a"]);
    assert_eq!(bench.workload("x").spec.queue.as_str(), "default");
}

#[test]
fn a_workload_whose_launcher_is_gone_does_not_wait_for_ever() {
    let mut bench = Bench::new(&[], 2);
    bench.submit(&Bench::spec("train", 10, 1, 2), &["a"]);
    let launcher = Bench::launcher("train", 0);
    bench.give(Input::Detach { workload: name("train"), rank: 0, launcher: launcher.clone() });
    bench.wait(29_000);
    assert_eq!(bench.phase("train"), Phase::Pending);
    bench.give(Input::Attach { workload: name("train"), rank: 0, launcher: launcher.clone() });
    bench.wait(60_000);
    assert_eq!(bench.phase("train"), Phase::Pending, "it came back in time");
    bench.give(Input::Detach { workload: name("train"), rank: 0, launcher });
    bench.wait(30_000);
    assert_eq!(bench.phase("train"), Phase::Cancelled);
    assert_eq!(bench.workload("train").reason.code(), "launcher-gone");
}

#[test]
fn a_failed_rank_fails_the_gang_and_frees_devices_only_when_all_are_gone() {
    let mut bench = Bench::new(&["a", "b"], 4);
    bench.submit(&Bench::spec("train", 10, 2, 2), &["a", "b"]);
    bench.start("train");
    assert_eq!(bench.exit("train", 1, 1, Exit::Code(3)), (false, "worker-failed"));
    assert_eq!(bench.phase("train"), Phase::Failed);
    assert_eq!(bench.workload("train").device_count(), 4, "rank 0 may still run");
    for node in ["a", "b"] {
        let report = NodeReport { full: true, ..NodeReport::default() };
        bench.give(Input::NodeReport { node: node.parse().unwrap(), report });
    }
    assert_eq!(bench.workload("train").device_count(), 0);
}

#[test]
fn an_ended_name_can_be_used_again() {
    let mut bench = Bench::new(&["a"], 2);
    let spec = Bench::spec("train", 10, 1, 2);
    bench.submit(&spec, &["a"]);
    bench.give(Input::Cancel { workload: name("train") });
    assert_eq!(refused(&mut bench, &spec, 0, &["a"]), "already-finished");
    let launcher = Bench::launcher("train", 0);
    bench.give(Input::Detach { workload: name("train"), rank: 0, launcher });
    let again = Input::Submit {
        spec,
        rank: 0,
        launcher: "another".parse().unwrap(),
        nodes: BTreeSet::from(["a".parse().unwrap()]),
    };
    assert_eq!(bench.give(again), Some(Reply::Submitted(Ok(()))));
    assert_eq!(bench.phase("train"), Phase::Pending);
}

#[test]
fn a_cancelled_worker_whose_launcher_is_gone_is_ended_by_its_agent() {
    let mut bench = Bench::new(&["a"], 2);
    bench.submit(&Bench::spec("train", 10, 1, 2), &["a"]);
    bench.start("train");
    let launcher = Bench::launcher("train", 0);
    bench.give(Input::Detach { workload: name("train"), rank: 0, launcher });
    assert_eq!(bench.phase("train"), Phase::Running, "a worker outlives its launcher");
    bench.give(Input::Cancel { workload: name("train") });
    assert_eq!(bench.sent(), ["a:prepare KILL", "a:release"]);
    assert_eq!(bench.workload("train").device_count(), 2, "until it is seen to be gone");
}

#[test]
fn devices_of_a_worker_nobody_could_hear_of_stay_taken_until_its_node_has_told_what_it_has() {
    let mut bench = Bench::new(&["a"], 2);
    bench.submit(&Bench::spec("train", 10, 1, 2), &["a"]);
    let (node, _) = bench.worker("train", 0);
    let launcher = Bench::launcher("train", 0);
    bench.give(Input::AgentDisconnected { node: node.clone() });
    bench.give(Input::Detach { workload: name("train"), rank: 0, launcher });
    bench.wait(30_000);
    assert_eq!(bench.phase("train"), Phase::Cancelled);
    assert_eq!(bench.workload("train").device_count(), 2);
    bench.give(Input::AgentConnected { node: node.clone() });
    bench.submit(&Bench::spec("other", 10, 1, 2), &["a"]);
    assert_eq!(bench.phase("other"), Phase::Pending, "its agent has not spoken yet");
    bench.connect("a");
    assert_eq!(bench.workload("train").device_count(), 0, "it has nothing of it");
    assert_eq!(bench.phase("other"), Phase::Admitted);
}

#[test]
fn ranks_that_reach_the_same_share_the_set_also_after_a_restart() {
    let mut bench = Bench::new(&["a", "b"], 6);
    let spec = Bench::spec("train", 10, 3, 2);
    for (rank, nodes) in [(0, &["a", "b"][..]), (1, &["a"]), (2, &["a", "b"])] {
        bench.submit_rank(&spec, rank, nodes).unwrap();
    }
    let share = |arbiter: &Arbiter| {
        let members = &arbiter.workload(&name("train")).unwrap().members;
        let same = |a: u32, b: u32| Arc::ptr_eq(&members[&a].nodes, &members[&b].nodes);
        (same(0, 1), same(0, 2))
    };
    assert_eq!(share(&bench.arbiter), (false, true));
    let mut stored = bench.workload("train").clone();
    stored.members.get_mut(&2).unwrap().nodes = Arc::new(stored.members[&2].nodes.as_ref().clone());
    let config = bench.arbiter.config.clone();
    let arbiter = Arbiter::new(Time(2_000_000), config, vec![stored], Vec::new(), None);
    assert_eq!(share(&arbiter), (false, true));
}

#[test]
fn ranks_that_reach_very_many_different_nodes_are_refused() {
    let mut bench = Bench::new(&["a"], 4);
    let spec = Bench::spec("train", 10, 4, 1);
    let names: Vec<String> = (0..50_000).map(|index| format!("node-{index}")).collect();
    let reach = |without: usize| {
        let names = names.iter().enumerate().filter(|(index, _)| *index != without);
        names.map(|(_, name)| name.as_str()).collect::<Vec<_>>()
    };
    bench.submit_rank(&spec, 0, &reach(0)).unwrap();
    bench.submit_rank(&spec, 1, &reach(1)).unwrap();
    bench.submit_rank(&spec, 2, &reach(0)).unwrap();
    let refused = bench.submit_rank(&spec, 3, &reach(2)).unwrap_err();
    assert_eq!(refused.code(), "bad-spec");
    assert!(refused.to_string().contains("149997"), "{refused}");
    bench.submit_rank(&spec, 1, &reach(0)).unwrap();
    bench.submit_rank(&spec, 3, &reach(2)).unwrap();
}

#[test]
fn a_local_queues_name_that_several_namespaces_use_is_refused_with_all_of_them() {
    let mut queues = Queues::single("default", &[("nvidia.com/gpu", 4)]);
    let local = ["team/lq", "other/lq", "team/alone"];
    let local = local.map(|text| (text.parse().unwrap(), "default".parse().unwrap()));
    queues.local.extend(local);
    let mut bench = Bench::with(Config { queues, ..Config::default() }, &["a"]);
    let spec = WorkloadSpec { queue: "lq".parse().unwrap(), ..Bench::spec("x", 0, 1, 2) };
    let reason = bench.submit_rank(&spec, 0, &["a"]).unwrap_err();
    let candidates = "other/lq, team/lq".to_owned();
    assert_eq!(reason, Reason::QueueAmbiguous { queue: "lq".parse().unwrap(), candidates });
    let spec = WorkloadSpec { queue: "nowhere".parse().unwrap(), ..spec };
    assert_eq!(refused(&mut bench, &spec, 0, &["a"]), "queue-unknown");
}

#[test]
fn a_topology_that_no_flavor_of_the_queue_has_is_refused() {
    let refusal = |queues: Queues, topology: TopologyMode| {
        let mut bench = Bench::with(Config { queues, ..Config::default() }, &["a"]);
        let spec = WorkloadSpec { topology: Some(topology), ..Bench::spec("x", 0, 1, 2) };
        bench.submit_rank(&spec, 0, &["a"]).map_err(|reason| reason.to_string())
    };
    let without = Queues::single("default", &[("nvidia.com/gpu", 4)]);
    let mut with = without.clone();
    with.setup.flavors[0].topology = Some("racks".into());
    let levels = vec!["rack".to_owned(), "kubernetes.io/hostname".to_owned()];
    with.setup.topologies = vec![Topology { name: "racks".into(), levels }];
    assert_eq!(
        refusal(without, TopologyMode::Unconstrained).unwrap_err(),
        "topology is unconstrained; expected none: no flavor of queue default has a topology; leave --topology out"
    );
    assert_eq!(
        refusal(with.clone(), TopologyMode::Required("zone".to_owned())).unwrap_err(),
        "topology is required=zone; expected a level of the queue's flavors: kubernetes.io/hostname, rack"
    );
    assert_eq!(refusal(with.clone(), TopologyMode::Preferred("rack".to_owned())), Ok(()));
    assert_eq!(refusal(with, TopologyMode::Unconstrained), Ok(()));
}
