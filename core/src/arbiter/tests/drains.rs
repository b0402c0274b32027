use super::*;
use crate::drain::Mode;
use crate::protocol::Refusal;

#[test]
fn a_gang_is_drained_at_its_boundary_and_resumes_from_the_saved_step() {
    let mut bench = Bench::preempting();
    assert_eq!(bench.phase("train"), Phase::Draining);
    assert_eq!(bench.workload("serve").reason.code(), "waiting-for-drain");
    assert_eq!(bench.sent(), ["a:prepare BOUNDARY", "b:prepare BOUNDARY"]);

    bench.event("drain-1", "train", 0, ARMED);
    assert_eq!(bench.sent(), [""; 0], "nothing is done before all are armed");
    bench.event("drain-1", "train", 1, ARMED);
    assert_eq!(bench.sent(), ["a:commit", "b:commit"]);

    bench.now += 7_000;
    bench.event("drain-1", "train", 0, durable(checkpoint(50)));
    assert_eq!(bench.drain("drain-1").state, DrainState::Saving, "one rank is not the gang");
    bench.event("drain-1", "train", 1, durable(checkpoint(50)));
    assert_eq!(bench.sent(), ["a:release", "b:release"]);

    bench.now += 40;
    assert_eq!(bench.exit("train", 1, 0, Exit::Signal(15)), (true, "preempted-for"));
    let (node, worker) = bench.worker("train", 1);
    bench.event("drain-1", "train", 0, freed());
    assert_eq!(bench.phase("serve"), Phase::Pending, "half of the gang's devices are not enough");
    bench.event_from(&node, "drain-1", worker, freed());
    assert_eq!(bench.phase("train"), Phase::Pending);
    assert_eq!(bench.workload("train").reason.code(), "resume-pending");
    assert_eq!(bench.workload("train").resume_step, Some(50));
    assert_eq!(bench.phase("serve"), Phase::Admitted);
    assert_eq!(bench.workload("serve").reason.code(), "admitted-held");

    bench.start("serve");
    assert_eq!(bench.drain("drain-1").state, DrainState::HandedOver);
    assert_eq!(bench.exit("serve", 1, 0, Exit::Code(0)), (false, "succeeded"));
    assert_eq!(bench.phase("train"), Phase::Pending, "its agent has not said that serve is gone");
    let (node, worker) = bench.worker("serve", 0);
    let removed_workers = BTreeSet::from([worker]);
    let report = NodeReport { removed_workers, ..NodeReport::default() };
    bench.give(Input::NodeReport { node, report });
    assert_eq!(bench.phase("train"), Phase::Admitted);
    bench.start("train");
    bench.now += 5_000;
    bench.report("train", 0, Some(60), None);
    assert_eq!(
        states(bench.drain("drain-1")),
        [
            DrainState::Planned,
            DrainState::Ordered,
            DrainState::Armed,
            DrainState::Saving,
            DrainState::Durable,
            DrainState::Releasing,
            DrainState::Freed,
            DrainState::HandedOver,
            DrainState::ResumePending,
            DrainState::Resumed,
        ]
    );
    let account = &bench.drain("drain-1").account;
    assert_eq!(account.at_risk_device_ms, 4 * 3_000);
    assert_eq!((account.lost_device_ms, account.saved_device_ms), (0, 4 * 3_000));
    assert_eq!(account.idle_device_ms, 4 * 40);
}

#[test]
fn s4_a_refused_signal_is_planned_again_as_boundary_and_the_worker_lives() {
    let mut bench = Bench::new(&["a"], 2);
    let signal = Some(SaveSignal { number: 10, exits_after_save: false });
    bench.submit(&WorkloadSpec { save_signal: signal, ..Bench::spec("train", 10, 1, 2) }, &["a"]);
    bench.start("train");
    bench.now += 60_000;
    bench.submit(&Bench::spec("serve", 30, 1, 2), &["a"]);
    assert_eq!(bench.sent(), ["a:prepare SIGNAL"]);
    let refused =
        EventKind::Refused { refusal: Refusal::NoHandler, detail: "would die".to_owned() };
    bench.event("drain-1", "train", 0, refused);
    assert_eq!(bench.sent(), ["a:prepare BOUNDARY"]);
    assert_eq!(bench.drain("drain-1").refused_modes[&Mode::Signal], "no-handler");
    assert_eq!(bench.phase("train"), Phase::Draining);
}

#[test]
fn s13_a_withdrawn_demand_leaves_the_victim_untouched() {
    let mut bench = Bench::preempting();
    bench.sent();
    bench.event("drain-1", "train", 0, ARMED);
    bench.event("drain-1", "train", 1, ARMED);
    bench.sent();
    bench.give(Input::Cancel { workload: name("serve") });
    assert_eq!(bench.sent(), ["a:abort", "b:abort"]);
    assert_eq!(bench.drain("drain-1").state, DrainState::Aborted);
    assert_eq!((bench.phase("train"), bench.workload("train").attempt), (Phase::Running, 1));
}

#[test]
fn s13_a_demand_withdrawn_after_the_point_of_no_return_puts_the_victim_first_again() {
    let mut bench = Bench::preempting();
    for rank in 0..2 {
        bench.event("drain-1", "train", rank, ARMED);
    }
    for rank in 0..2 {
        bench.event("drain-1", "train", rank, durable(checkpoint(50)));
    }
    bench.give(Input::Cancel { workload: name("serve") });
    assert_eq!(bench.drain("drain-1").state, DrainState::Releasing);
    let members = [bench.worker("train", 0), bench.worker("train", 1)];
    for (node, worker) in members {
        bench.event_from(&node, "drain-1", worker, freed());
    }
    assert_eq!(bench.phase("train"), Phase::Admitted);
    assert_eq!(bench.workload("train").attempt, 2);
}

#[test]
fn s15_an_exit_with_status_0_after_a_save_signal_is_no_success() {
    let mut bench = Bench::new(&["a"], 2);
    let signal = Some(SaveSignal { number: 15, exits_after_save: true });
    bench.submit(&WorkloadSpec { save_signal: signal, ..Bench::spec("train", 10, 1, 2) }, &["a"]);
    bench.start("train");
    bench.now += 700_000;
    bench.report("train", 0, Some(40), Some((1_000, 500, 600_000)));
    bench.now += 300_000;
    bench.submit(&Bench::spec("serve", 30, 1, 2), &["a"]);
    assert_eq!(bench.sent(), ["a:prepare SIGNAL"]);
    bench.event("drain-1", "train", 0, ARMED);
    bench.event("drain-1", "train", 0, EventKind::Signalled);
    assert!(bench.exit("train", 1, 0, Exit::Code(0)).0, "it is told to wait for its next start");
    bench.event("drain-1", "train", 0, durable(checkpoint(41)));
    bench.event("drain-1", "train", 0, freed());
    assert_eq!(bench.phase("train"), Phase::Pending);
    assert_eq!(bench.workload("train").resume_step, Some(41));
    assert_eq!(bench.drain("drain-1").account.lost_device_ms, 0);
}

#[test]
fn s5_a_signal_that_saves_nothing_is_never_planned_again() {
    let mut bench = Bench::new(&["a"], 2);
    let signal = Some(SaveSignal { number: 15, exits_after_save: true });
    bench.submit(&WorkloadSpec { save_signal: signal, ..Bench::spec("train", 10, 1, 2) }, &["a"]);
    bench.start("train");
    bench.report("train", 0, Some(40), Some((1_000, 500, 600_000)));
    bench.now += 300_000;
    bench.submit(&Bench::spec("serve", 30, 1, 2), &["a"]);
    bench.event("drain-1", "train", 0, ARMED);
    bench.event("drain-1", "train", 0, EventKind::Exited(Exit::Code(0)));
    let failed =
        EventKind::SaveFailed { code: "ended-without-save".to_owned(), detail: String::new() };
    bench.event("drain-1", "train", 0, failed);
    assert!(states(bench.drain("drain-1")).contains(&DrainState::SaveFailed));
    assert!(bench.workload("train").profile.signal_unproven);
    bench.event("drain-1", "train", 0, freed());
    assert_eq!(bench.workload("train").resume_step, Some(40), "the checkpoint before is kept");
}

#[test]
fn the_deadline_ends_the_wait_and_says_what_was_lost() {
    let mut bench = Bench::preempting();
    for rank in 0..2 {
        bench.event("drain-1", "train", rank, ARMED);
    }
    bench.sent();
    bench.wait(60_000);
    assert_eq!(bench.sent(), ["a:release", "b:release"]);
    assert!(states(bench.drain("drain-1")).contains(&DrainState::Expired));
    let members = [bench.worker("train", 0), bench.worker("train", 1)];
    for (node, worker) in members {
        bench.event_from(&node, "drain-1", worker, freed());
    }
    assert_eq!(bench.drain("drain-1").account.lost_device_ms, 4 * 63_000);
    assert_eq!(bench.workload("train").resume_step, Some(40));
}

#[test]
fn agents_that_do_not_arm_in_time_leave_the_gang_unharmed() {
    let mut bench = Bench::preempting();
    bench.event("drain-1", "train", 0, ARMED);
    bench.sent();
    bench.wait(2_000);
    assert_eq!(bench.sent(), ["a:abort", "b:abort"]);
    assert_eq!(bench.phase("train"), Phase::Running);
    assert_eq!(bench.workload("serve").reason.code(), "waiting-for-productive-floor");
    bench.wait(10_000);
    assert_eq!(bench.sent(), ["a:prepare BOUNDARY", "b:prepare BOUNDARY"], "tried again later");
}

#[test]
fn a_gang_that_ends_by_itself_during_the_drain_has_succeeded() {
    let mut bench = Bench::preempting();
    for rank in 0..2 {
        bench.event("drain-1", "train", rank, ARMED);
    }
    assert_eq!(bench.exit("train", 1, 0, Exit::Code(0)), (false, "preempted-for"));
    assert_eq!(bench.exit("train", 1, 1, Exit::Code(0)), (false, "succeeded"));
    assert_eq!(bench.drain("drain-1").state, DrainState::CompletedMeanwhile);
    assert_eq!(bench.phase("train"), Phase::Succeeded);
}

#[test]
fn a_restarted_arbiter_repeats_its_orders_and_finishes_the_drain() {
    let mut before = Bench::preempting();
    for rank in 0..2 {
        before.event("drain-1", "train", rank, ARMED);
    }
    let workloads = before.arbiter.workloads().values().cloned().collect();
    let drains = before.arbiter.drains().values().cloned().collect();
    let config = Config { epoch: 2, ..before.arbiter.config.clone() };
    let mut bench = Bench::with(config.clone(), &[]);
    bench.now = before.now + 500;
    bench.arbiter = Arbiter::new(Time(bench.now), config, workloads, drains, None);
    assert_eq!(bench.arbiter.frozen().map(|r| r.code()), Some("recovering"));
    bench.connect("a");
    assert_eq!(bench.sent(), ["a:commit", "a:extend", "a:restate"]);
    bench.connect("b");
    bench.sent();
    assert_eq!(bench.arbiter.frozen(), None);
    for rank in 0..2 {
        bench.event("drain-1", "train", rank, durable(checkpoint(50)));
    }
    assert_eq!(bench.sent(), ["a:release", "b:release"]);
}

#[test]
fn events_of_others_and_of_the_past_change_nothing() {
    let mut bench = Bench::preempting();
    let before = bench.drain("drain-1").clone();
    let (node, worker) = bench.worker("train", 0);
    let stale = WorkerId { attempt: 7, ..worker.clone() };
    bench.event_from(&node, "drain-1", stale, freed());
    bench.event_from(&"elsewhere".parse().unwrap(), "drain-1", worker.clone(), freed());
    bench.event_from(&node, "drain-99", worker, freed());
    assert_eq!(*bench.drain("drain-1"), before);
}

#[test]
fn a_gang_of_which_a_rank_ended_after_a_signal_cannot_be_left_alone_any_more() {
    let mut bench = Bench::new(&["a"], 2);
    let signal = Some(SaveSignal { number: 10, exits_after_save: false });
    bench.submit(&WorkloadSpec { save_signal: signal, ..Bench::spec("train", 10, 1, 2) }, &["a"]);
    bench.start("train");
    bench.now += 60_000;
    bench.submit(&Bench::spec("serve", 30, 1, 2), &["a"]);
    bench.event("drain-1", "train", 0, ARMED);
    assert!(bench.exit("train", 1, 0, Exit::Code(0)).0, "its launcher was told to wait");
    bench.give(Input::Cancel { workload: name("serve") });
    assert_eq!(bench.drain("drain-1").state, DrainState::Saving, "nobody is left to go on");
    let failed =
        EventKind::SaveFailed { code: "ended-without-save".to_owned(), detail: String::new() };
    bench.event("drain-1", "train", 0, failed);
    bench.event("drain-1", "train", 0, freed());
    assert_eq!((bench.phase("train"), bench.workload("train").attempt), (Phase::Admitted, 2));
}

#[test]
fn waiting_for_a_drain_asks_for_no_more_wakes_than_its_timers_need() {
    let mut bench = Bench::preempting();
    for rank in 0..2 {
        bench.event("drain-1", "train", rank, ARMED);
    }
    bench.now += 2_500;
    let outputs = bench.arbiter.step(Time(bench.now), Input::Tick);
    let deadline_at = bench.drain("drain-1").deadline_at;
    assert_eq!(outputs, [Output::WakeAt(deadline_at)]);
}

#[test]
fn many_refusals_of_one_order_are_one_refusal_and_break_nothing() {
    let ranks: Vec<String> = (0..40).map(|i| format!("n{i:02}")).collect();
    let nodes: Vec<&str> = ranks.iter().map(String::as_str).collect();
    let mut bench = Bench::new(&nodes, 80);
    let signal = Some(SaveSignal { number: 10, exits_after_save: false });
    let spec = WorkloadSpec { save_signal: signal, ..Bench::spec("train", 10, 40, 2) };
    bench.submit(&spec, &nodes);
    bench.start("train");
    bench.now += 60_000;
    bench.submit(&Bench::spec("serve", 30, 1, 2), &nodes);
    bench.sent();
    for rank in 0..40 {
        let refusal = Refusal::NoHandler;
        bench.event(
            "drain-1",
            "train",
            rank,
            EventKind::Refused { refusal, detail: String::new() },
        );
    }
    assert_eq!(bench.sent().len(), 40, "planned again once");
    for rank in 0..40 {
        bench.event("drain-1", "train", rank, ARMED);
    }
    for rank in 0..40 {
        bench.event("drain-1", "train", rank, durable(checkpoint(50)));
    }
    assert_eq!(bench.drain("drain-1").state, DrainState::Releasing);
    let reply = bench.give(Input::Freeze { why: "test".to_owned() });
    assert_eq!(reply, Some(Reply::Frozen { aborted_drains: 0 }));
}

#[test]
fn an_agent_that_still_works_on_a_drain_that_is_over_is_told_to_let_go() {
    let mut bench = Bench::preempting();
    bench.give(Input::Cancel { workload: name("serve") });
    bench.sent();
    bench.event("drain-1", "train", 0, ARMED);
    assert_eq!(bench.sent(), ["a:abort"]);
    bench.event("drain-1", "train", 0, EventKind::Aborted);
    assert_eq!(bench.sent(), [""; 0]);
}

#[test]
fn a_release_on_a_node_that_lost_its_records_ends_when_it_has_nothing_of_the_worker() {
    let mut bench = Bench::preempting();
    for rank in 0..2 {
        bench.event("drain-1", "train", rank, ARMED);
    }
    for rank in 0..2 {
        bench.event("drain-1", "train", rank, durable(checkpoint(50)));
    }
    let members = [bench.worker("train", 0), bench.worker("train", 1)];
    for (node, worker) in members {
        let refusal = Refusal::NoWorker;
        bench.event_from(
            &node,
            "drain-1",
            worker,
            EventKind::Refused { refusal, detail: String::new() },
        );
    }
    assert_eq!(bench.phase("train"), Phase::Pending);
}
