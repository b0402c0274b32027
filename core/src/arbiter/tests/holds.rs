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
