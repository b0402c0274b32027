use super::*;

/// 100 of work after a start of 10, saved every 30 in 5, with steps of 4.
fn training() -> Work {
    let saves = Saves { interval_ms: 30, duration_ms: 5, is_background: false };
    Work { duration_ms: 100, start_cost_ms: 10, step_ms: 4, saves: Some(saves) }
}

fn in_background(work: Work) -> Work {
    let saves = work.saves.map(|saves| Saves { is_background: true, ..saves });
    Work { saves, ..work }
}

const FIRST: Attempt = Attempt { started_at_ms: 1_000, resumed_ms: 0 };

fn at(elapsed_ms: u64) -> u64 {
    FIRST.started_at_ms + elapsed_ms
}

fn progress(work: Work, elapsed_ms: u64) -> (u64, u64) {
    let progress = work.progress(FIRST, at(elapsed_ms));
    (progress.done_ms, progress.saved_ms)
}

#[test]
fn work_begins_after_the_start_cost_and_stops_for_saves() {
    let work = training();
    let seen: Vec<_> = [0, 10, 11, 40, 44, 45, 46, 75, 80].map(|ms| progress(work, ms)).into();
    assert_eq!(
        seen,
        [(0, 0), (0, 0), (1, 0), (30, 0), (30, 0), (30, 30), (31, 30), (60, 30), (60, 60)]
    );
}

#[test]
fn an_attempt_lasts_as_long_as_its_start_its_work_and_its_saves() {
    // Three saves of 5, at 30, 60 and 90; the last 10 are not saved.
    assert_eq!(training().ends_at_ms(FIRST), at(10 + 100 + 15));
    assert_eq!(progress(training(), 125), (100, 90));
    // 90 are three pieces: the end comes where the third save would begin.
    let short = Work { duration_ms: 90, ..training() };
    assert_eq!(short.ends_at_ms(FIRST), at(10 + 90 + 10));
    assert_eq!(short.drain(FIRST, at(110)).unwrap().leaves_at_ms, at(110));
    let resumed = Attempt { started_at_ms: 1_000, resumed_ms: 60 };
    assert_eq!(training().ends_at_ms(resumed), at(10 + 40 + 5));
    assert_eq!(in_background(training()).ends_at_ms(FIRST), at(110));
}

#[test]
fn a_save_in_the_background_is_complete_later_and_stops_nothing() {
    let work = in_background(training());
    let seen: Vec<_> = [40, 44, 45, 75, 110].map(|ms| progress(work, ms)).into();
    assert_eq!(seen, [(30, 0), (34, 0), (35, 30), (65, 60), (100, 90)]);
}

#[test]
fn a_kill_loses_what_is_in_no_complete_save() {
    let exit = training().kill(FIRST, at(44), 7);
    assert_eq!(exit, Exit { leaves_at_ms: at(51), done_ms: 30, saved_ms: 0 });
    let exit = training().kill(FIRST, at(50), 0);
    assert_eq!(exit, Exit { leaves_at_ms: at(50), done_ms: 35, saved_ms: 30 });
}

#[test]
fn a_drain_finishes_the_step_and_saves() {
    // At 21 of work the step ends at 24, and the save 5 later.
    let exit = training().drain(FIRST, at(31));
    assert_eq!(exit, Some(Exit { leaves_at_ms: at(31 + 3 + 5), done_ms: 24, saved_ms: 24 }));
    // Without steps it saves at once.
    let unstepped = Work { step_ms: 0, ..training() };
    let exit = unstepped.drain(FIRST, at(31));
    assert_eq!(exit, Some(Exit { leaves_at_ms: at(36), done_ms: 21, saved_ms: 21 }));
}

#[test]
fn a_drain_with_nothing_to_save_is_over_at_once() {
    for elapsed_ms in [0, 9, 10, 45] {
        let exit = training().drain(FIRST, at(elapsed_ms)).unwrap();
        assert_eq!(exit.leaves_at_ms, at(elapsed_ms), "after {elapsed_ms} ms");
        assert_eq!(exit.done_ms, exit.saved_ms);
    }
}

#[test]
fn a_drain_during_a_save_waits_for_it() {
    let exit = training().drain(FIRST, at(42));
    assert_eq!(exit, Some(Exit { leaves_at_ms: at(45), done_ms: 30, saved_ms: 30 }));
}

#[test]
fn a_drain_of_the_last_step_is_the_end() {
    // 98 of work are done at 10 + 98 + 15; the last step has 2 left.
    let exit = training().drain(FIRST, at(123));
    assert_eq!(exit, Some(Exit { leaves_at_ms: at(125), done_ms: 100, saved_ms: 100 }));
}

#[test]
fn who_cannot_save_cannot_be_drained() {
    let serving = Work { saves: None, ..training() };
    assert_eq!(serving.drain(FIRST, at(50)), None);
    assert_eq!(progress(serving, 50), (40, 0));
    assert_eq!(serving.ends_at_ms(FIRST), at(110));
}

/// Whatever the moment: a drain keeps all work, is at most a step and a save later than a kill, and what runs on from
/// there does the rest.
#[test]
fn a_drain_never_loses_work() {
    for work in [training(), in_background(training()), Work { step_ms: 0, ..training() }] {
        for elapsed_ms in 0..(work.ends_at_ms(FIRST) - FIRST.started_at_ms) {
            let killed = work.kill(FIRST, at(elapsed_ms), 0);
            let drained = work.drain(FIRST, at(elapsed_ms)).unwrap();
            assert_eq!(drained.done_ms, drained.saved_ms);
            assert!(drained.saved_ms >= killed.done_ms && killed.done_ms >= killed.saved_ms);
            let bound_ms = work.step_ms + work.saves.unwrap().duration_ms;
            assert!(drained.leaves_at_ms - killed.leaves_at_ms <= bound_ms, "{elapsed_ms}");
            let rest = Attempt { started_at_ms: 5_000, resumed_ms: drained.saved_ms };
            let end = work.progress(rest, work.ends_at_ms(rest));
            assert_eq!(end.done_ms, work.duration_ms);
        }
    }
}
