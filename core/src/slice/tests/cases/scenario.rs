//! Two cubes of 16 nodes: six small slices, then a large one, then serving. S1 to S7 of the facts.

use crate::slice::tests::fixture::*;
use crate::slice::{Budget, Defrag, Fleet, Outcome, Reason, Request, Running, defrag, solve};
use crate::unit::Time;

const PLENTY: Budget = Budget { moves_max: 100, cost_device_ms_max: u64::MAX };

/// Four replicas of prefill and four of decode, each a gang of its own.
fn serving() -> Vec<Request> {
    let replica = |kind: &str, n: u32| Request {
        group: Some("serving".to_owned()),
        ..want(&format!("{kind}-{n}"), HIGH, "2x2x2", 1)
    };
    let prefill = (0..4).map(|n| replica("prefill", n));
    prefill.chain((0..4).map(|n| replica("decode", n))).collect()
}

#[test]
fn s1_six_pairs_go_into_one_cube_and_leave_a_column() {
    let fleet = fleet("AB", Vec::new());
    let answer = one(&fleet, &want("sub", LOW, "2x2x2", 6));
    let expected: Vec<String> = (0..6).map(|n| format!("A/2x2x2/{n}")).collect();
    assert_eq!(places(&fleet, &answer), Ok(expected));
    assert_eq!(answer.reason.code(), "slice-placed-breaking");
    let packed = Fleet::new(
        tiling(),
        cubes("AB"),
        carried_out(&fleet, &[want("sub", LOW, "2x2x2", 6)], &[answer]),
    );
    assert_eq!(place(&packed, "2x2x4", 1), Ok(vec!["A/2x2x4/3".to_owned()]));
    assert_eq!(place(&packed, "4x4x4", 1), Ok(vec!["B".to_owned()]));
}

#[test]
fn s2_the_large_slice_evicts_the_whole_gang_of_small_ones() {
    let pairs = ["A/2x2x2/0", "A/2x2x2/1", "A/2x2x2/2", "A/2x2x2/3", "A/2x2x2/4", "A/2x2x2/5"];
    let fleet = fleet("AB", vec![running("sub", LOW, &pairs)]);
    let request = want("super", MEDIUM, "4x4x8", 1);
    let answer = one(&fleet, &request);
    assert_eq!(victims(&answer), ["sub"]);
    assert_eq!(places(&fleet, &answer), Ok(vec!["A".to_owned(), "B".to_owned()]));
    let patient = Request { may_preempt: false, ..request };
    let reason = Reason::NoFreeCubes { wanted: 2, free: 1 };
    assert_eq!(one(&fleet, &patient).reason, reason);
}

#[test]
fn s2b_nobody_of_equal_priority_is_evicted() {
    let fleet = fleet("AB", vec![running("sub", MEDIUM, &["A/2x2x2/0"])]);
    let answer = one(&fleet, &want("super", MEDIUM, "4x4x8", 1));
    assert_eq!(answer.outcome, Outcome::Waits);
    assert_eq!(answer.reason.to_string(), "2 free cubes of one block are needed, 1 free");
}

#[test]
fn s3_the_first_serving_replica_evicts_the_large_job_and_the_others_nobody() {
    let fleet = fleet("AB", vec![large("super", MEDIUM, &["A", "B"])]);
    let answers = solve(&fleet, &serving(), Time(0));
    let evictions: Vec<Vec<&str>> = answers.iter().map(victims).collect();
    let expected: Vec<Vec<&str>> =
        std::iter::once(vec!["super"]).chain(vec![Vec::new(); 7]).collect();
    assert_eq!(evictions, expected);
    assert!(answers[1..].iter().all(|answer| awaited(answer) == ["super"]));
    let mut taken: Vec<String> =
        answers.iter().flat_map(|answer| places(&fleet, answer).expect("all are placed")).collect();
    taken.sort_unstable();
    let cube: Vec<String> = (0..8).map(|n| format!("A/2x2x2/{n}")).collect();
    assert_eq!(taken, cube, "all eight share one cube, the other is free");
}

/// The same, one after the other: the large job is being drained for the first replica when the others come.
#[test]
fn s3_later_replicas_reuse_the_drain_that_goes_on() {
    let mut draining = large("super", MEDIUM, &["A", "B"]);
    draining.is_leaving = true;
    draining.beneficiary = Some(("prefill-0".to_owned(), HIGH));
    let fleet = fleet("AB", vec![draining.clone()]);
    let first = one(&fleet, &serving()[0]);
    assert_eq!((victims(&first), awaited(&first)), (vec![], vec!["super"]));
    let other = one(&fleet, &serving()[1]);
    assert_eq!(other.outcome, Outcome::Waits, "the place is held for whom it is made");
    draining.beneficiary = None;
    let fleet = Fleet::new(tiling(), cubes("AB"), vec![draining]);
    let answers = solve(&fleet, &serving(), Time(0));
    assert!(answers.iter().all(|answer| victims(answer).is_empty()));
    assert!(answers.iter().all(|answer| awaited(answer) == ["super"]));
}

#[test]
fn s3b_one_replica_of_each_kind_shares_a_column() {
    let fleet = fleet("AB", vec![large("super", MEDIUM, &["A", "B"])]);
    let pair = [serving()[0].clone(), serving()[4].clone()];
    let answers = solve(&fleet, &pair, Time(0));
    let taken: Vec<String> = answers
        .iter()
        .flat_map(|answer| places(&fleet, answer).expect("both are placed"))
        .collect();
    assert_eq!(taken, ["A/2x2x2/0", "A/2x2x2/1"]);
}

#[test]
fn s4_the_large_job_waits_and_the_small_ones_run_beside_serving() {
    let pairs: Vec<String> = (0..8).map(|n| format!("A/2x2x2/{n}")).collect();
    let serving = pairs.iter().map(|id| running(&format!("s-{id}"), HIGH, &[id]));
    let fleet = fleet("AB", serving.collect());
    let queue = [want("super", MEDIUM, "4x4x8", 1), want("sub", LOW, "2x2x2", 6)];
    let answers = solve(&fleet, &queue, Time(0));
    assert_eq!(answers[0].reason, Reason::NoFreeCubes { wanted: 2, free: 1 });
    let expected: Vec<String> = (0..6).map(|n| format!("B/2x2x2/{n}")).collect();
    assert_eq!(places(&fleet, &answers[1]), Ok(expected));
    assert!(answers.iter().all(|answer| victims(answer).is_empty()));
}

/// Ping-pong guard: evictions of the small job are no more than arrivals of higher priority.
#[test]
fn s4_nobody_is_evicted_more_often_than_somebody_more_important_arrives() {
    let sub = want("sub", LOW, "2x2x2", 6);
    let steps: Vec<Vec<Request>> = vec![
        vec![sub.clone()],
        vec![sub.clone(), want("super", MEDIUM, "4x4x8", 1)],
        vec![sub.clone()],
        vec![sub.clone(), want("serve-0", HIGH, "2x2x2", 1)],
        vec![sub.clone(), want("super", MEDIUM, "4x4x8", 1), want("serve-1", HIGH, "2x2x2", 1)],
        vec![sub.clone(), want("super", MEDIUM, "4x4x8", 1)],
        vec![sub.clone(), want("serve-2", HIGH, "2x2x2", 1)],
        vec![sub.clone(), want("super", MEDIUM, "4x4x8", 1)],
        vec![sub.clone()],
        vec![sub, want("super", MEDIUM, "4x4x8", 1)],
    ];
    let (mut run, mut evictions, mut arrivals): (Vec<Running>, usize, usize) = (Vec::new(), 0, 0);
    for waiting in steps {
        let fleet = fleet("AB", run.clone());
        let is_new = |request: &&Request| !run.iter().any(|running| running.name == request.name);
        let waiting: Vec<Request> = waiting.iter().filter(is_new).cloned().collect();
        let answers = solve(&fleet, &waiting, Time(0));
        let placed = answers.iter().filter(|answer| answer.outcome != Outcome::Waits);
        arrivals += placed.filter(|answer| answer.request != "sub").count();
        evictions += answers.iter().filter(|answer| victims(answer).contains(&"sub")).count();
        run = carried_out(&fleet, &waiting, &answers);
    }
    assert!(evictions <= arrivals, "{evictions} evictions for {arrivals} arrivals");
    assert!(evictions >= 1, "the script evicts somebody");
}

#[test]
fn s5_spread_serving_leaves_places_for_pairs_and_none_for_a_cube() {
    let spread =
        |cube: &str| (0..4).map(move |n| format!("{cube}/2x2x2/{}", 2 * n)).collect::<Vec<_>>();
    let pairs = [spread("A"), spread("B")].concat();
    let serving = pairs.iter().map(|id| running(&format!("s-{id}"), HIGH, &[id]));
    let fleet = fleet("AB", serving.collect());
    let six = want("sub", LOW, "2x2x2", 6);
    assert!(places(&fleet, &one(&fleet, &six)).is_ok());
    let cube = want("cube", HIGH, "4x4x4", 1);
    let reason = Reason::Fragmented { wanted_hosts: 16, free_hosts: 16 };
    assert_eq!(one(&fleet, &cube).reason, reason);
    let Defrag::Moves { moves, is_cheapest, .. } = defrag(&fleet, &cube, Time(0), PLENTY) else {
        panic!("moves make room");
    };
    assert_eq!(moves.len(), 4);
    assert!(is_cheapest);
}

#[test]
fn s6_all_at_once_ends_as_one_after_the_other() {
    let fleet = fleet("AB", Vec::new());
    let mut all = serving();
    all.push(want("super", MEDIUM, "4x4x8", 1));
    all.push(want("sub", LOW, "2x2x2", 6));
    let answers = solve(&fleet, &all, Time(0));
    all.reverse();
    assert_eq!(solve(&fleet, &all, Time(0)), answers);
    let waiting: Vec<&str> = answers
        .iter()
        .filter(|answer| answer.outcome == Outcome::Waits)
        .map(|answer| answer.request.as_str())
        .collect();
    assert_eq!(waiting, ["super"]);
    assert!(answers.iter().all(|answer| victims(answer).is_empty()));
}
