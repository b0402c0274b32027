//! A device begins to fail while a drain is open.

use super::faults::settled;
use super::*;
use crate::drain::Mode;
use crate::protocol::DrainNeed;
use crate::workload::SaveSignal;

/// "train" works on all of "a" and saved 50 s ago, as it does each 100 s, or each ten minutes if it can be asked.
fn training(nodes: &[&str], save_signal: Option<SaveSignal>) -> Bench {
    let mut bench = settled(nodes);
    let spec = WorkloadSpec { save_signal, ..Bench::spec("train", 10, 1, 2) };
    bench.submit(&spec, &["a"]);
    bench.start("train");
    bench.now += 100_000;
    let interval_ms = if save_signal.is_some() { 600_000 } else { 100_000 };
    bench.report("train", 0, Some(40), Some((1_000, 500, interval_ms)));
    bench.now += 50_000;
    bench
}

/// The same, drained for "serve", which takes at most 60 s.
fn draining(save_signal: Option<SaveSignal>) -> Bench {
    let mut bench = training(&["a", "b"], save_signal);
    bench.submit(&Bench::spec("serve", 30, 1, 2), &["a"]);
    bench.sent();
    bench
}

const BY_SIGNAL: Option<SaveSignal> = Some(SaveSignal { number: 10, exits_after_save: false });

impl Bench {
    fn left_ms(&self, drain: &str) -> u64 {
        self.drain(drain).deadline_at.ms_since(Time(self.now))
    }

    fn link_dies(&mut self, node: &str, index: u32) {
        self.device_is(node, index, Health::Unhealthy, DrainNeed::Hurry);
    }

    fn codes(&self) -> Vec<&'static str> {
        self.decided.iter().map(|d| d.reason.code()).collect()
    }
}

fn hard_ms(bench: &Bench) -> Vec<(String, u64)> {
    let told = bench.sent.iter().filter_map(|(_, order)| match order.verb {
        Verb::Prepare { hard_ms, .. } => Some(("prepare".to_owned(), hard_ms)),
        Verb::Extend { hard_ms } => Some(("extend".to_owned(), hard_ms)),
        Verb::Commit | Verb::Abort | Verb::Release { .. } | Verb::Restate => None,
    });
    told.collect()
}

#[test]
fn worker_that_saves_has_only_the_time_that_the_fault_leaves() {
    let mut bench = draining(BY_SIGNAL);
    assert_eq!(bench.drain("drain-1").plan.mode, Mode::Signal);
    bench.event("drain-1", "train", 0, ARMED);
    assert_eq!((bench.sent(), bench.left_ms("drain-1")), (vec!["a:commit".to_owned()], 60_000));
    bench.link_dies("a", 1);
    assert_eq!(bench.left_ms("drain-1"), 6_000);
    assert_eq!(hard_ms(&bench), [("extend".to_owned(), 6_000)]);
    assert!(bench.codes().contains(&"drain-hurried"));
    // What is said again is no new fault, and nothing makes the time longer.
    bench.now += 2_000;
    bench.sent();
    bench.link_dies("a", 1);
    bench.link_dies("a", 0);
    bench.fails("a", 0);
    assert_eq!((bench.left_ms("drain-1"), bench.sent()), (4_000, vec![]));
    bench.wait(4_000);
    assert!(states(bench.drain("drain-1")).contains(&DrainState::Expired));
    assert_eq!(bench.arbiter.drains().len(), 1);
}

#[test]
fn drain_that_nobody_has_been_told_of_is_planned_anew() {
    // The next periodic checkpoint would be there in 50 s: in time for the preemptor, and not for the fault.
    let mut bench = draining(None);
    bench.event("drain-1", "train", 0, ARMED);
    assert_eq!(bench.drain("drain-1").plan.mode, Mode::Boundary);
    assert_eq!(bench.drain("drain-1").state, DrainState::Saving);
    bench.sent();
    bench.link_dies("a", 0);
    assert_eq!(bench.drain("drain-1").state, DrainState::Aborted);
    assert_eq!(bench.drain("drain-1").history.last().unwrap().reason.code(), "overtaken-by-fault");
    let drain = bench.drain("drain-2");
    assert_eq!((drain.plan.mode, &drain.beneficiary), (Mode::Kill, &None));
    assert_eq!(drain.cause.code(), "device-fault");
    assert_eq!(bench.left_ms("drain-2"), 6_000);
    assert_eq!(bench.sent(), ["a:abort", "a:prepare KILL"]);
}

#[test]
fn drain_whose_way_is_still_the_best_keeps_it_and_hurries() {
    let mut bench = draining(BY_SIGNAL);
    bench.link_dies("a", 0);
    assert_eq!(bench.arbiter.drains().len(), 1);
    assert_eq!(hard_ms(&bench), [("prepare".to_owned(), 6_000)]);
    bench.event("drain-1", "train", 0, ARMED);
    assert_eq!(bench.left_ms("drain-1"), 6_000);
}

#[test]
fn gang_that_is_placed_on_a_device_that_fails_is_placed_anew_and_its_victim_goes_on() {
    let mut bench = draining(BY_SIGNAL);
    // Two victims for one gang of two ranks: "train" on "a", "other" on "b".
    bench.give(Input::Cancel { workload: name("serve") });
    bench.wait(20_000);
    bench.trains("other", "b");
    bench.submit(&Bench::spec("pair", 40, 2, 2), &["a", "b"]);
    let open: Vec<(String, Option<WorkloadName>)> = bench
        .arbiter
        .drains()
        .values()
        .filter(|d| d.state.is_open())
        .map(|d| (d.victim.to_string(), d.beneficiary.clone()))
        .collect();
    let pair = Some(name("pair"));
    assert_eq!(open, [("other".to_owned(), pair.clone()), ("train".to_owned(), pair)]);
    bench.link_dies("a", 1);
    // "other" was to leave for nothing.
    assert_eq!((bench.phase("other"), bench.phase("train")), (Phase::Running, Phase::Draining));
    assert_eq!(bench.workload("pair").reservation, None);
    let drain = bench.arbiter.open_drain_of(&name("train")).unwrap();
    assert_eq!(drain.beneficiary, None);
    assert!(bench.codes().contains(&"reservation-failing"));
}

#[test]
fn what_is_kept_for_somebody_is_kept_while_only_another_device_fails() {
    let mut bench = training(&["a"], BY_SIGNAL);
    bench.submit(&Bench::spec("serve", 30, 1, 1), &["a"]);
    let kept = bench.workload("serve").reservation.clone().unwrap();
    let other = if kept.placement[&0].devices.contains(&"a-0".parse().unwrap()) { 1 } else { 0 };
    bench.link_dies("a", other);
    assert_eq!(bench.workload("serve").reservation, Some(kept.clone()));
    bench.saves_and_leaves("drain-1", "train");
    let given = bench.workload("serve").members[&0].assignment.clone().unwrap();
    assert_eq!(given, kept.placement[&0]);
}

#[test]
fn device_that_fails_while_it_is_kept_is_not_given() {
    let mut bench = draining(BY_SIGNAL);
    bench.event("drain-1", "train", 0, ARMED);
    bench.event("drain-1", "train", 0, durable(checkpoint(50)));
    bench.fails("a", 0);
    let (node, worker) = bench.worker("train", 0);
    bench.event_from(&node, "drain-1", worker, freed());
    assert_eq!((bench.phase("serve"), bench.phase("train")), (Phase::Pending, Phase::Pending));
    bench.device_is("a", 0, Health::Healthy, DrainNeed::None);
    assert_eq!(bench.phase("serve"), Phase::Admitted);
}

fn rehearsing() -> Bench {
    let mut bench = training(&["a"], BY_SIGNAL);
    bench.give(Input::Rehearse { workload: name("train"), deadline_ms: 0 });
    bench.sent();
    bench
}

#[test]
fn rehearsal_that_has_asked_for_nothing_gives_way() {
    let mut bench = rehearsing();
    bench.link_dies("a", 0);
    assert_eq!(bench.drain("drain-1").state, DrainState::Aborted);
    assert_eq!(bench.sent(), ["a:abort", "a:prepare SIGNAL"]);
    let drain = bench.drain("drain-2");
    assert!(!drain.is_rehearsal);
    assert_eq!((drain.cause.code(), bench.left_ms("drain-2")), ("device-fault", 6_000));
}

#[test]
fn save_that_was_rehearsed_serves_when_the_device_begins_to_fail() {
    for is_saved in [false, true] {
        let mut bench = rehearsing();
        bench.event("drain-1", "train", 0, ARMED);
        bench.event("drain-1", "train", 0, EventKind::Signalled);
        if is_saved {
            bench.event("drain-1", "train", 0, durable(checkpoint(90)));
        }
        bench.link_dies("a", 0);
        if !is_saved {
            assert_eq!(bench.left_ms("drain-1"), 6_000);
            bench.event("drain-1", "train", 0, durable(checkpoint(90)));
        }
        let drain = bench.drain("drain-1");
        assert!(!drain.is_rehearsal);
        assert_eq!((drain.state, drain.cause.code()), (DrainState::Releasing, "device-fault"));
        bench.event("drain-1", "train", 0, freed());
        assert_eq!(bench.workload("train").resume_step, Some(90), "saved before: {is_saved}");
        assert!(bench.codes().contains(&"resume-elsewhere"));
        let commits = bench.sent().iter().filter(|order| order.ends_with(":commit")).count();
        assert_eq!(commits, 1, "it is asked once");
        assert_eq!(bench.arbiter.drains().len(), 1);
    }
}

#[test]
fn frozen_arbiter_leaves_open_drains_as_they_are() {
    let mut bench = draining(BY_SIGNAL);
    bench.event("drain-1", "train", 0, ARMED);
    bench.give(Input::Freeze { why: "a look".to_owned() });
    bench.link_dies("a", 0);
    assert_eq!(bench.left_ms("drain-1"), 60_000);
    bench.give(Input::Unfreeze);
    assert_eq!(bench.left_ms("drain-1"), 6_000);
}
