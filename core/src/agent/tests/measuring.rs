use super::*;

#[test]
fn step_and_save_times_are_measured_from_what_is_seen() {
    let mut bench = Bench::new();
    for step in [50, 60, 70] {
        bench.now += 9_000;
        bench.scan(&[40], Some(step));
        bench.now += 1_000;
        bench.scan(&[40, step], None);
    }
    let report = bench.agent.report(&worker()).unwrap();
    assert_eq!(report.checkpoint.map(|c| c.step), Some(70));
    assert_eq!(report.checkpoint_age_ms, Some(1_000), "not yet complete a second ago");
    assert!(report.checkpoint_is_of_this_attempt);
    assert_eq!(report.save_interval_ms, Some(10_000));
    assert_eq!((report.save_ms, report.step_ms), (Some(1_000), Some(900)));
}

#[test]
fn a_checkpoint_found_at_the_first_look_is_not_this_attempts() {
    let bench = Bench::new();
    let report = bench.agent.report(&worker()).unwrap();
    assert_eq!(report.checkpoint.map(|c| c.step), Some(40));
    assert!(!report.checkpoint_is_of_this_attempt);
}

#[test]
fn a_worker_is_running_until_the_last_of_its_processes_is_gone_and_then_forgotten() {
    let mut bench = Bench::new();
    bench.give(Input::Exited { worker: worker(), exit: Exit::Code(0) });
    bench.holders(1, &[]);
    assert!(bench.agent.report(&worker()).unwrap().running);
    bench.holders(0, &[]);
    assert!(!bench.agent.report(&worker()).unwrap().running);
    bench.wait(60_000);
    assert_eq!(bench.log(), ["forget"]);
}

#[test]
fn a_closed_drain_is_told_again_for_a_while_and_then_forgotten() {
    let mut bench = Bench::new();
    bench.order(boundary());
    bench.order(RELEASE);
    bench.give(Input::Exited { worker: worker(), exit: Exit::Code(0) });
    bench.holders(0, &[]);
    bench.log();
    bench.order(RELEASE);
    assert_eq!(bench.log(), ["exited exit status 0", "freed killed=false"]);
    bench.wait(600_000);
    assert!(bench.log().contains(&"unjournal".to_owned()));
    assert!(bench.agent.hands().is_empty());
}

#[test]
fn refusal_codes_are_distinct() {
    let codes: BTreeSet<&str> = Refusal::ALL.into_iter().map(Refusal::code).collect();
    assert_eq!(codes.len(), Refusal::ALL.len());
}

#[test]
fn a_checkpoint_written_on_the_way_out_counts() {
    let mut bench = Bench::new();
    bench.order(boundary());
    bench.order(Verb::Commit);
    bench.wait(60_000);
    bench.order(RELEASE);
    bench.log();
    bench.scan(&[40, 47], None);
    assert_eq!(bench.log(), ["journal releasing", "durable 47"]);
    bench.scan(&[40, 47], None);
    assert_eq!(bench.log(), [""; 0], "once");
}

#[test]
fn an_abort_that_comes_too_late_is_not_answered() {
    let mut bench = Bench::new();
    bench.order(boundary());
    bench.order(Verb::Commit);
    bench.scan(&[40, 50], None);
    bench.order(RELEASE);
    bench.log();
    bench.order(Verb::Abort);
    bench.order(Verb::Abort);
    assert_eq!(bench.log(), [""; 0]);
}
