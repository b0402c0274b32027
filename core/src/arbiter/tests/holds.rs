//! What is reserved while victims leave, when plans change in between.

use super::*;

/// "train" of four GPUs on "a" and "b" is drained for "one" and then counted on by "two", of two GPUs each.
fn shared_victim() -> Bench {
    let mut bench = Bench::preempting();
    bench.submit(&Bench::spec("two", 30, 1, 2), &["a", "b"]);
    let drains = |workload: &str| {
        let reservation = bench.workload(workload).reservation.as_ref().unwrap();
        reservation.drains.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!((drains("serve"), drains("two")), (vec!["drain-1".into()], vec!["drain-1".into()]));
    bench
}

#[test]
fn a_drain_that_another_counts_on_goes_on_when_the_first_is_cancelled() {
    let mut bench = shared_victim();
    bench.give(Input::Cancel { workload: name("serve") });
    assert_eq!(bench.drain("drain-1").beneficiary, Some(name("two")));
    assert_eq!(bench.drain("drain-1").state, DrainState::Ordered);
    assert!(bench.workload("two").reservation.is_some());
    bench.give(Input::Cancel { workload: name("two") });
    assert_eq!(bench.drain("drain-1").state, DrainState::Aborted, "nobody needs it any more");
}

#[test]
fn what_is_held_where_a_launcher_no_longer_reaches_is_given_up() {
    let mut bench = Bench::preempting();
    let spec = Bench::spec("serve", 30, 1, 2);
    let held = bench.workload("serve").reservation.clone().unwrap().placement[&0].node.to_string();
    let other = if held == "a" { "b" } else { "a" };
    bench.submit_rank(&spec, 0, &[other]).unwrap();
    let reservation = bench.workload("serve").reservation.clone();
    let node = reservation.map(|r| r.placement[&0].node.to_string());
    assert!(node.as_deref().is_none_or(|node| node == other), "reserved on {node:?}");
}

#[test]
fn a_workload_that_was_drained_twice_is_held_off() {
    let mut bench = Bench::new(&["a"], 2);
    bench.submit(&Bench::spec("train", 10, 1, 2), &["a"]);
    bench.start("train");
    bench.now += 600_000;
    let profile = &mut bench.arbiter.workloads.get_mut(&name("train")).unwrap().profile;
    profile.drained_at = vec![Time(bench.now - 300_000)];
    profile.restart_ms = Some(20_000);
    bench.submit(&Bench::spec("serve", 30, 1, 2), &["a"]);
    bench.event("drain-1", "train", 0, ARMED);
    bench.event("drain-1", "train", 0, durable(checkpoint(50)));
    let (node, worker) = bench.worker("train", 0);
    bench.event_from(&node, "drain-1", worker, freed());
    assert_eq!((bench.phase("serve"), bench.phase("train")), (Phase::Admitted, Phase::Pending));
    bench.give(Input::Cancel { workload: name("serve") });
    let launcher = Bench::launcher("serve", 0);
    bench.give(Input::Detach { workload: name("serve"), rank: 0, launcher });
    assert_eq!(bench.workload("train").reason.code(), "held-off");
    bench.submit(&Bench::spec("late", 10, 1, 1), &["a"]);
    assert_eq!(bench.phase("late"), Phase::Admitted, "others need not wait for that");
}

#[test]
fn what_is_held_on_a_node_that_has_gone_is_given_up() {
    let mut bench = Bench::preempting();
    for rank in 0..2 {
        bench.event("drain-1", "train", rank, ARMED);
    }
    for rank in 0..2 {
        bench.event("drain-1", "train", rank, durable(checkpoint(50)));
    }
    let spec = Bench::spec("serve", 30, 1, 2);
    let held = bench.workload("serve").reservation.clone().unwrap().placement[&0].node.clone();
    bench.submit_rank(&spec, 0, &[held.as_str()]).unwrap();
    let members = [bench.worker("train", 0), bench.worker("train", 1)];
    bench.give(Input::AgentDisconnected { node: held.clone() });
    for (node, worker) in members {
        bench.event_from(&node, "drain-1", worker, freed());
    }
    assert_eq!(bench.phase("train"), Phase::Pending);
    assert_eq!(bench.workload("serve").reservation, None, "there is nothing to hold");
}

/// "one" on "a" and "two" on "b" are drained for "serve", which needs both nodes.
fn two_victims() -> Bench {
    let mut bench = Bench::new(&["a", "b"], 4);
    for (victim, node) in [("one", "a"), ("two", "b")] {
        bench.submit(&Bench::spec(victim, 10, 1, 2), &[node]);
        bench.start(victim);
    }
    bench.submit(&Bench::spec("serve", 30, 2, 2), &["a", "b"]);
    assert_eq!((bench.phase("one"), bench.phase("two")), (Phase::Draining, Phase::Draining));
    bench
}

#[test]
fn what_is_held_stays_held_when_one_of_two_victims_ends_by_itself() {
    let mut bench = two_victims();
    let held = bench.workload("serve").reservation.clone().unwrap();
    let one = bench.workload("one").last_drain.clone().unwrap().to_string();
    let two = bench.workload("two").last_drain.clone().unwrap();
    bench.sent();
    bench.give(Input::Cancel { workload: name("one") });
    assert_eq!(bench.drain(&one).state, DrainState::CompletedMeanwhile);
    assert_eq!(bench.drain(two.as_str()).state, DrainState::Ordered, "the other goes on");
    assert_eq!(bench.sent(), ["a:abort"]);
    let kept = bench.workload("serve").reservation.clone().unwrap();
    assert_eq!((kept.placement, kept.drains), (held.placement, BTreeSet::from([two.clone()])));
    let reason = Reason::WaitingForDrain { drain: two, victim: name("two") };
    assert_eq!(bench.workload("serve").reason, reason);
}

#[test]
fn once_all_have_gone_one_by_itself_the_beneficiary_gets_what_was_held() {
    let mut bench = two_victims();
    let held = bench.workload("serve").reservation.clone().unwrap().placement;
    let two = bench.workload("two").last_drain.clone().unwrap().to_string();
    let (node, worker) = bench.worker("two", 0);
    assert_eq!(bench.exit("one", 1, 0, Exit::Code(0)).1, "succeeded");
    bench.event(&two, "two", 0, ARMED);
    bench.event(&two, "two", 0, durable(checkpoint(50)));
    bench.event_from(&node, &two, worker, freed());
    assert_eq!(bench.phase("serve"), Phase::Pending, "the worker of the other is still there");
    let (node, worker) = bench.worker("one", 0);
    let report = NodeReport { removed_workers: BTreeSet::from([worker]), ..NodeReport::default() };
    bench.give(Input::NodeReport { node, report });
    assert_eq!(bench.phase("serve"), Phase::Admitted);
    let members = &bench.workload("serve").members;
    let placement = members.iter().map(|(rank, m)| (*rank, m.assignment.clone().unwrap()));
    assert_eq!(placement.collect::<BTreeMap<_, _>>(), held);
}

#[test]
fn a_drain_that_becomes_needless_is_not_taken_back_if_another_counts_on_it_from_the_same_decision()
{
    let mut bench = Bench::new(&["a"], 4);
    bench.submit(&Bench::spec("train", 10, 1, 2), &["a"]);
    bench.start("train");
    bench.submit(&Bench::spec("first", 20, 1, 2), &["a", "b"]);
    bench.submit(&Bench::spec("second", 30, 1, 2), &["a"]);
    let waits = |bench: &Bench| {
        let of = |workload: &str| bench.workload(workload).reservation.is_some();
        (of("first"), of("second"))
    };
    assert_eq!(waits(&bench), (true, false));
    bench.sent();
    bench.connect("b");
    assert_eq!((bench.phase("first"), waits(&bench)), (Phase::Admitted, (false, true)));
    let drain = bench.drain("drain-1");
    assert_eq!(drain.beneficiary, Some(name("second")));
    assert_eq!(drain.state, DrainState::Ordered, "it goes on");
    assert_eq!(bench.sent(), Vec::<String>::new());
}

#[test]
fn what_is_held_is_given_only_once_the_launcher_is_there() {
    let mut bench = Bench::new(&["a"], 2);
    bench.submit(&Bench::spec("train", 10, 1, 2), &["a"]);
    bench.start("train");
    bench.submit(&Bench::spec("serve", 30, 1, 2), &["a"]);
    let launcher = Bench::launcher("serve", 0);
    bench.give(Input::Detach { workload: name("serve"), rank: 0, launcher: launcher.clone() });
    let (node, worker) = bench.worker("train", 0);
    bench.event("drain-1", "train", 0, ARMED);
    bench.event("drain-1", "train", 0, durable(checkpoint(50)));
    bench.event_from(&node, "drain-1", worker, freed());
    let serve = bench.workload("serve");
    assert_eq!((serve.phase, serve.reason.code()), (Phase::Pending, "waiting-for-launcher"));
    assert!(serve.reservation.is_some(), "it keeps what was made for it");
    assert_eq!(bench.phase("train"), Phase::Pending);
    bench.give(Input::Attach { workload: name("serve"), rank: 0, launcher });
    assert_eq!(bench.phase("serve"), Phase::Admitted);
}
