//! Rehearsals, askings that nobody heeds, and what is learned from both.

use super::*;
use crate::drain::Mode;
use crate::protocol::Refusal;
use crate::reason::Ms;
use crate::workload::SaveSignal;

fn by_signal(exits_after_save: bool) -> WorkloadSpec {
    WorkloadSpec {
        save_signal: Some(SaveSignal { number: 15, exits_after_save }),
        is_signal_vouched: false,
        command: vec!["python".to_owned(), "train.py".to_owned()],
        ..Bench::spec("train", 10, 1, 2)
    }
}

/// A trainer that saves every ten minutes, the last time five minutes ago.
fn training(spec: &WorkloadSpec) -> Bench {
    let mut bench = Bench::new(&["a"], 2);
    start(&mut bench, spec);
    bench
}

fn start(bench: &mut Bench, spec: &WorkloadSpec) {
    bench.submit(spec, &["a"]);
    bench.start(spec.name.as_str());
    bench.now += 600_000;
    bench.report(spec.name.as_str(), 0, Some(40), Some((1_000, 500, 600_000)));
    bench.now += 300_000;
}

fn rehearse(bench: &mut Bench, workload: &str) -> Result<DrainId, &'static str> {
    let input = Input::Rehearse { workload: name(workload), deadline_ms: 0 };
    match bench.give(input) {
        Some(Reply::Rehearsing(result)) => result.map_err(|reason| reason.code()),
        other => panic!("answered {other:?}"),
    }
}

fn serve(bench: &mut Bench) -> Vec<String> {
    bench.sent();
    bench.submit(&Bench::spec("serve", 30, 1, 2), &["a"]);
    bench.sent()
}

#[test]
fn a_rehearsal_that_succeeds_leaves_the_worker_running_and_its_signal_proven() {
    let mut bench = training(&by_signal(false));
    assert_eq!(rehearse(&mut bench, "train"), Ok("drain-1".parse().unwrap()));
    assert_eq!(bench.sent(), ["a:prepare SIGNAL"]);
    assert_eq!(rehearse(&mut bench, "train"), Err("drain-open"));
    bench.event("drain-1", "train", 0, ARMED);
    bench.event("drain-1", "train", 0, EventKind::Signalled);
    bench.now += 1_200;
    bench.event("drain-1", "train", 0, durable(checkpoint(41)));
    assert_eq!(bench.sent(), ["a:commit"]);
    assert_eq!(bench.drain("drain-1").state, DrainState::Durable);
    bench.wait(5_000);
    assert_eq!(bench.sent(), ["a:abort"]);
    let drain = bench.drain("drain-1");
    let reason = drain.history.last().map(|t| t.reason.clone());
    assert_eq!(reason, Some(Reason::Rehearsed { step: 41, took_ms: Ms(1_200) }));
    assert_eq!(bench.phase("train"), Phase::Running);
    let profile = &bench.workload("train").profile;
    assert_eq!((profile.signal_proven, profile.exits_after_save), (true, Some(false)));
    assert_eq!(profile.drained_at, [], "a trial counts against no budget");
    assert_eq!(serve(&mut bench), ["a:prepare SIGNAL"]);
}

#[test]
fn a_declared_signal_is_not_used_before_it_was_tried() {
    let mut bench = training(&by_signal(false));
    assert_eq!(serve(&mut bench), ["a:prepare KILL"]);
    let mut bench = training(&WorkloadSpec { is_signal_vouched: true, ..by_signal(false) });
    assert_eq!(serve(&mut bench), ["a:prepare SIGNAL"]);
}

/// S5: the seed's handler logs and exits with status 0.
#[test]
fn s5_a_rehearsal_finds_a_handler_that_only_exits_and_starts_the_worker_again() {
    let mut bench = training(&by_signal(true));
    rehearse(&mut bench, "train").unwrap();
    bench.event("drain-1", "train", 0, ARMED);
    bench.event("drain-1", "train", 0, EventKind::Signalled);
    assert!(bench.exit("train", 1, 0, Exit::Code(0)).0, "it is told to wait for its next start");
    bench.event("drain-1", "train", 0, EventKind::Exited(Exit::Code(0)));
    let failed =
        EventKind::SaveFailed { code: "ended-without-save".to_owned(), detail: String::new() };
    bench.sent();
    bench.event("drain-1", "train", 0, failed);
    assert_eq!(bench.sent(), ["a:release"]);
    bench.event("drain-1", "train", 0, freed());
    assert_eq!((bench.phase("train"), bench.workload("train").attempt), (Phase::Admitted, 2));
    let profile = &bench.workload("train").profile;
    assert!(profile.signal_unproven && !profile.signal_proven);
    assert_eq!(profile.exits_after_save, Some(true));
}

#[test]
fn a_worker_that_saves_and_then_ends_is_started_again_after_its_rehearsal() {
    let mut bench = training(&by_signal(false));
    rehearse(&mut bench, "train").unwrap();
    bench.event("drain-1", "train", 0, ARMED);
    bench.event("drain-1", "train", 0, EventKind::Signalled);
    bench.event("drain-1", "train", 0, durable(checkpoint(41)));
    bench.event("drain-1", "train", 0, EventKind::Exited(Exit::Unknown));
    assert!(bench.exit("train", 1, 0, Exit::Code(0)).0);
    bench.wait(1);
    bench.event("drain-1", "train", 0, freed());
    let workload = bench.workload("train");
    assert_eq!((workload.phase, workload.resume_step), (Phase::Admitted, Some(41)));
    assert!(workload.profile.signal_proven);
    assert_eq!(workload.profile.exits_after_save, Some(true));
    let ends = bench.decided.iter().any(|d| d.reason.code() == "rehearsed-ends");
    assert!(ends, "{:?}", bench.decided);
}

#[test]
fn a_worker_without_a_handler_is_never_sent_the_signal() {
    let mut bench = training(&by_signal(false));
    rehearse(&mut bench, "train").unwrap();
    bench.sent();
    let refused =
        EventKind::Refused { refusal: Refusal::NoHandler, detail: "would die".to_owned() };
    bench.event("drain-1", "train", 0, refused);
    assert_eq!(bench.sent(), ["a:abort"], "nothing else is tried");
    assert_eq!(bench.drain("drain-1").state, DrainState::Refused);
    assert_eq!(bench.phase("train"), Phase::Running);
}

#[test]
fn a_rehearsal_without_an_outcome_ends_no_worker() {
    let mut bench = training(&by_signal(false));
    rehearse(&mut bench, "train").unwrap();
    bench.event("drain-1", "train", 0, ARMED);
    bench.sent();
    bench.wait(60_000);
    assert_eq!(bench.sent(), ["a:abort"]);
    assert_eq!(bench.phase("train"), Phase::Running);
    assert!(bench.workload("train").profile.signal_unproven);
}

#[test]
fn what_cannot_be_rehearsed_is_refused_with_the_reason() {
    let mut bench = training(&Bench::spec("train", 10, 1, 2));
    assert_eq!(rehearse(&mut bench, "train"), Err("nothing-to-rehearse"));
    assert_eq!(rehearse(&mut bench, "nobody"), Err("no-such-workload"));
    bench.submit(&WorkloadSpec { priority: 0, ..Bench::spec("waits", 0, 1, 2) }, &["a"]);
    assert_eq!(rehearse(&mut bench, "waits"), Err("not-running"));
    bench.give(Input::Freeze { why: "test".to_owned() });
    assert_eq!(rehearse(&mut bench, "train"), Err("frozen"));
}

#[test]
fn what_one_run_has_taught_is_known_of_the_next_run_of_the_same_program() {
    let mut bench = training(&by_signal(true));
    rehearse(&mut bench, "train").unwrap();
    bench.event("drain-1", "train", 0, ARMED);
    let failed =
        EventKind::SaveFailed { code: "no-such-process".to_owned(), detail: String::new() };
    bench.event("drain-1", "train", 0, failed);
    bench.give(Input::Cancel { workload: name("train") });
    let other = WorkloadSpec { name: name("again"), ..by_signal(true) };
    bench.submit_rank(&other, 0, &["a"]).unwrap();
    assert!(bench.workload("again").profile.signal_unproven);
    assert_eq!(bench.workload("again").profile.save_ms, Some(500));
    let different = WorkloadSpec {
        name: name("different"),
        command: vec!["python".to_owned(), "other.py".to_owned()],
        ..by_signal(true)
    };
    bench.submit_rank(&different, 0, &["a"]).unwrap();
    assert_eq!(bench.workload("different").profile, Default::default());
}

#[test]
fn a_worker_with_a_client_is_asked_through_its_files_and_can_be_taken_back() {
    let mut bench = Bench::new(&["a"], 2);
    bench.has_client = true;
    start(&mut bench, &Bench::spec("train", 10, 1, 2));
    assert_eq!(serve(&mut bench), ["a:prepare CLIENT"]);
    bench.event("drain-1", "train", 0, ARMED);
    bench.event("drain-1", "train", 0, EventKind::Signalled);
    bench.give(Input::Cancel { workload: name("serve") });
    assert_eq!(bench.sent(), ["a:commit", "a:abort"]);
    assert_eq!((bench.phase("train"), bench.workload("train").attempt), (Phase::Running, 1));
}

#[test]
fn a_client_that_claims_what_is_not_there_is_not_asked_so_again() {
    let mut bench = Bench::new(&["a"], 2);
    bench.has_client = true;
    start(&mut bench, &Bench::spec("train", 10, 1, 2));
    serve(&mut bench);
    bench.event("drain-1", "train", 0, ARMED);
    let failed =
        EventKind::SaveFailed { code: "claim-not-confirmed".to_owned(), detail: String::new() };
    bench.event("drain-1", "train", 0, failed);
    assert_eq!(bench.drain("drain-1").state, DrainState::Aborted);
    assert!(bench.workload("train").profile.client_unproven);
    bench.sent();
    bench.wait(10_000);
    assert_eq!(bench.sent(), ["a:prepare KILL"]);
}

/// S17: a worker in evaluation for longer than anybody waits for a sign.
#[test]
fn s17_an_asking_that_nobody_heeds_ends_the_worker_if_no_boundary_is_in_time() {
    let mut bench = Bench::new(&["a"], 2);
    bench.has_client = true;
    start(&mut bench, &Bench::spec("train", 10, 1, 2));
    assert_eq!(serve(&mut bench), ["a:prepare CLIENT"]);
    bench.event("drain-1", "train", 0, ARMED);
    bench.now += 15_000;
    bench.sent();
    bench.event("drain-1", "train", 0, EventKind::NoProgress { waited_ms: 15_000 });
    assert_eq!(bench.sent(), ["a:release"]);
    assert!(bench.workload("train").profile.client_unproven);
    let drain = bench.drain("drain-1");
    assert!(!states(drain).contains(&DrainState::Durable));
    assert!(states(drain).contains(&DrainState::SaveFailed));
    assert_eq!(drain.saved.as_ref().map(|c| c.step), Some(40), "the checkpoint before is kept");
}

#[test]
fn s17_the_boundary_that_is_awaited_instead_counts_and_proves_nothing() {
    let mut bench = training(&WorkloadSpec { is_signal_vouched: true, ..by_signal(true) });
    // Its boundary is due in no known time: the signal is best, and the boundary what is left.
    bench.report("train", 0, Some(40), Some((10_000, 500, 600_000)));
    serve(&mut bench);
    assert_eq!(bench.drain("drain-1").plan.mode, Mode::Signal);
    bench.event("drain-1", "train", 0, ARMED);
    bench.event("drain-1", "train", 0, EventKind::Signalled);
    bench.now += 15_000;
    bench.report("train", 0, Some(40), Some((10_000, 500, 320_000)));
    bench.event("drain-1", "train", 0, EventKind::NoProgress { waited_ms: 15_000 });
    let drain = bench.drain("drain-1");
    assert_eq!((drain.state, drain.plan.mode), (DrainState::Saving, Mode::Boundary));
    assert!(drain.is_past_return(), "the worker may still end after its save");
    assert!(bench.exit("train", 1, 0, Exit::Code(0)).0, "and that is no success");
    bench.event("drain-1", "train", 0, durable(checkpoint(42)));
    assert!(states(bench.drain("drain-1")).contains(&DrainState::Durable));
    let profile = &bench.workload("train").profile;
    assert_eq!((profile.signal_unproven, profile.signal_proven), (true, false));
}

/// S10: another victim; the full one only if there is nobody else, and then with the checkpoint that it has.
#[test]
fn s10_a_victim_without_space_is_passed_over_and_keeps_its_checkpoint() {
    let mut bench = training(&Bench::spec("train", 10, 1, 2));
    bench.report("train", 0, Some(41), Some((1_000, 500, 30_000)));
    bench.now += 10_000;
    assert_eq!(serve(&mut bench), ["a:prepare BOUNDARY"]);
    let refused = EventKind::Refused { refusal: Refusal::NoSpace, detail: "full".to_owned() };
    bench.event("drain-1", "train", 0, refused);
    assert_eq!(bench.drain("drain-1").state, DrainState::Refused);
    assert_eq!(bench.phase("train"), Phase::Running);
    bench.sent();
    bench.wait(10_000);
    assert_eq!(bench.sent(), ["a:prepare KILL"], "there is nobody else");
    let boundary = &bench.drain("drain-2").plan.alternatives[1];
    assert_eq!(boundary.reason, Reason::ModeRefused { code: "no-space".to_owned() });
    bench.event("drain-2", "train", 0, ARMED);
    assert_eq!(bench.drain("drain-2").saved.as_ref().map(|c| c.step), Some(41));
}

/// S18: a process that was killed in the middle of its work may have taken its device's links down.
#[test]
fn s18_a_kill_without_parking_is_told_as_an_event_of_its_node() {
    let mut bench = Bench::preempting();
    for rank in 0..2 {
        bench.event("drain-1", "train", rank, ARMED);
        bench.event("drain-1", "train", rank, durable(checkpoint(50)));
    }
    let freed = |killed, parked| EventKind::Freed {
        devices: BTreeSet::new(),
        killed,
        parked,
        release_ms: 5,
    };
    for rank in 0..2 {
        bench.event("drain-1", "train", rank, durable(checkpoint(50)));
    }
    bench.event("drain-1", "train", 0, freed(true, true));
    bench.event("drain-1", "train", 1, freed(true, false));
    let unclean: Vec<_> =
        bench.decided.iter().filter(|d| d.reason.code() == "unclean-kill").collect();
    assert_eq!(unclean.len(), 1);
    assert_eq!(unclean[0].reason, Reason::UncleanKill { workload: name("train"), rank: 1 });
    assert!(unclean[0].node.is_some());
}

#[test]
fn a_preemptors_priority_sets_how_long_it_waits() {
    let config = Config {
        queues: Queues::single("default", &[("nvidia.com/gpu", 2)]),
        drain_deadlines_ms: BTreeMap::from([(30, 45_000)]),
        ..Config::default()
    };
    let mut bench = Bench::with(config, &["a"]);
    start(&mut bench, &Bench::spec("train", 10, 1, 2));
    serve(&mut bench);
    assert_eq!(bench.drain("drain-1").plan.deadline_ms, 45_000);
}

#[test]
fn a_checkpoint_that_nobody_asked_for_proves_nothing() {
    let mut bench = training(&by_signal(false));
    rehearse(&mut bench, "train").unwrap();
    bench.event("drain-1", "train", 0, ARMED);
    bench.event("drain-1", "train", 0, durable(checkpoint(41)));
    bench.wait(60_000);
    let profile = &bench.workload("train").profile;
    assert!(!profile.signal_proven && !profile.signal_unproven);
    assert_eq!(profile.exits_after_save, None);
    assert_eq!(bench.drain("drain-1").state, DrainState::Aborted);
}

/// Who was asked in one way is not asked in the other: two askings at once could save twice, or end it.
#[test]
fn s17_an_asking_that_nobody_heeds_is_followed_by_the_boundary_and_by_no_other_asking() {
    let mut bench = Bench::new(&["a"], 2);
    bench.has_client = true;
    start(&mut bench, &WorkloadSpec { is_signal_vouched: true, ..by_signal(false) });
    assert_eq!(serve(&mut bench), ["a:prepare CLIENT"]);
    bench.event("drain-1", "train", 0, ARMED);
    bench.event("drain-1", "train", 0, EventKind::Signalled);
    bench.now += 15_000;
    bench.report("train", 0, Some(40), Some((10_000, 500, 320_000)));
    bench.sent();
    bench.event("drain-1", "train", 0, EventKind::NoProgress { waited_ms: 15_000 });
    let drain = bench.drain("drain-1");
    assert_eq!((drain.state, drain.plan.mode), (DrainState::Saving, Mode::Boundary));
    assert_eq!(bench.sent(), Vec::<String>::new());
}
