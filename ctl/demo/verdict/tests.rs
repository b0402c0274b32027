use expect_test::expect;
use jiff::Timestamp;
use sluice::wire::pb;

use super::*;

/// The arbiter's record of a drain that went through `states`, one every 100 ms.
fn drain(states: &[&str], saved: u64, lost_device_ms: u64) -> DrainView {
    let transition = |(number, state): (usize, &&str)| pb::DrainTransition {
        at: Some(prost_types::Timestamp {
            seconds: 10,
            nanos: 100_000_000 * i32::try_from(number).unwrap(),
        }),
        state: pb::DrainState::from_str_name(&format!("DRAIN_STATE_{state}")).unwrap().into(),
        reason: None,
    };
    let drain = pb::Drain {
        history: states.iter().enumerate().map(transition).collect(),
        mode: pb::DrainMode::Boundary.into(),
        saved: Some(pb::Checkpoint { step: saved, ..Default::default() }),
        account: Some(pb::DrainAccount { lost_device_ms, ..Default::default() }),
        ..Default::default()
    };
    DrainView::of(&drain, Timestamp::UNIX_EPOCH)
}

const FINISH: Finish = Finish { step: 100, loss: 2.5, loss_bits: 2.5_f32.to_bits() };

fn act(policy: &'static str, last: u64, resumed: u64, drain: DrainView) -> ActRecord {
    ActRecord {
        policy,
        devices: 4,
        asked_at_step: 34,
        last_step: Some(Point { step: last, unix_ms: 9_000 + last * 100 }),
        resumed_from_step: Some(resumed),
        resumed_from: Some(Point { step: resumed, unix_ms: 9_050 + resumed * 100 }),
        first_new_step: Some(Point { step: resumed + 1, unix_ms: 11_900 }),
        serving_wait_ms: 1_500,
        serving_answer: "main".to_owned(),
        finish: FINISH,
        samples: 700,
        held_twice: Vec::new(),
        left_running: Vec::new(),
        drain,
    }
}

fn evidence() -> Evidence {
    Evidence {
        undisturbed: FINISH,
        drained: act("checkpoint-drain", 40, 40, drain(&STATES_DRAINED, 40, 200)),
        killed: act("kill", 36, 30, drain(&STATES_KILLED, 30, 2_400)),
        elapsed_ms: 51_900,
    }
}

/// What `change` breaks, with what was observed.
fn broken(change: impl FnOnce(&mut Evidence)) -> Vec<String> {
    let mut evidence = evidence();
    change(&mut evidence);
    let broken = promises(&evidence).into_iter().filter(|p| !p.kept);
    broken.map(|p| format!("{}: {}", p.promise, p.observed)).collect()
}

#[test]
fn the_table_shows_what_was_observed() {
    let evidence = evidence();
    let shown = paint::resolve(&text(&evidence, &promises(&evidence)), false);
    expect![[r#"

                                                checkpoint-drain   kill
        serving scaled up after step            34                 34
        how the gang was ended                  BOUNDARY           BOUNDARY
        last step before it ended               40                 36
        resumed from step                       40                 30
        steps lost                              0                  6
        work lost, by the trainer's log         0.0 GPU-s          2.2 GPU-s
        work lost, by the arbiter's record      0.2 GPU-s          2.4 GPU-s
        serving waited, asked to first answer   1.5 s              1.5 s
        restart, GPUs back to first new step    1.1 s              1.3 s
        final loss                              2.500000           2.500000
        same bits as undisturbed                yes                yes

        Draining saved 6 steps (2.2 GPU-s); serving waited no longer for it.

        kept    the drained gang loses at most one step: 0 lost
        kept    ending a gang at once loses more: 6 steps lost
        kept    training goes on from the saved step: 40 of 40; 30 of 30
        kept    the final loss has the bits of the undisturbed run: 0x40200000
        kept    serving gets its devices and answers: after 1.5 s
        kept    no accelerator is held by two at once: 1400 looks
        kept    a drain goes through its states in order: 10 states to RESUMED; 8 states to RESUMED
        kept    everything ends when it is asked to: nothing left

        51 s, every promise was kept"#]]
    .assert_eq(&shown);
}

#[test]
fn the_price_of_draining_is_told() {
    let mut evidence = evidence();
    evidence.drained.serving_wait_ms = 2_700;
    evidence.killed.last_step = Some(Point { step: 31, unix_ms: 12_100 });
    let expected = "Draining saved 1 step (0.2 GPU-s); serving waited 1.2 s longer for it.";
    assert_eq!(comparison(&evidence), expected);
}

#[test]
fn each_promise_is_broken_by_what_it_is_about() {
    let none: Vec<String> = Vec::new();
    assert_eq!(broken(|_| {}), none);
    assert_eq!(
        broken(|e| e.drained.last_step = Some(Point { step: 42, unix_ms: 0 })),
        ["the drained gang loses at most one step: 2 lost"]
    );
    assert_eq!(
        broken(|e| e.killed.last_step = Some(Point { step: 30, unix_ms: 0 })),
        ["ending a gang at once loses more: 0 steps lost"]
    );
    assert_eq!(
        broken(|e| e.drained.finish.loss_bits ^= 1),
        ["the final loss has the bits of the undisturbed run: 0x40200001; 0x40200000"]
    );
    assert_eq!(
        broken(|e| e.killed.serving_answer.clear()),
        ["serving gets its devices and answers: after 1.5 s"]
    );
    assert_eq!(
        broken(|e| e.drained.held_twice.push("sim-a-0 by x/1/0 and y/1/0".to_owned())),
        ["no accelerator is held by two at once: sim-a-0 by x/1/0 and y/1/0"]
    );
    assert_eq!(
        broken(|e| e.killed.left_running.push("demo-a".to_owned())),
        ["everything ends when it is asked to: demo-a"]
    );
}

#[test]
fn training_that_goes_on_from_another_step_breaks_a_promise() {
    let regressed = broken(|e| e.drained.resumed_from_step = Some(39));
    assert_eq!(regressed, ["training goes on from the saved step: 39 of 40; 30 of 30"]);
    let restarted = broken(|e| {
        e.killed.resumed_from_step = None;
        e.killed.drain.saved = None;
    });
    assert_eq!(restarted, ["training goes on from the saved step: 40 of 40; none of none"]);
}

#[test]
fn states_that_are_missing_or_out_of_order_break_a_promise() {
    let count = |change: &dyn Fn(&mut DrainView)| broken(|e| change(&mut e.drained.drain)).len();
    assert_eq!(count(&|d| drop(d.history.remove(4))), 1);
    assert_eq!(count(&|d| d.history.swap(3, 4)), 1);
    assert_eq!(count(&|d| d.history[4].at = d.history[0].at), 1);
    assert_eq!(count(&|d| d.history[4].at = None), 1);
}

#[test]
fn work_and_restart_are_read_from_the_trainers_log() {
    let Evidence { drained, killed, .. } = evidence();
    assert_eq!((drained.steps_lost(), drained.lost_device_ms()), (0, Some(0)));
    // Six steps of 100 ms less the 50 ms after step 30 that the checkpoint took, on 4 devices.
    assert_eq!((killed.steps_lost(), killed.lost_device_ms()), (6, Some(2_200)));
    // RESUME_PENDING was entered at 10.8 s and 10.6 s.
    assert_eq!((drained.restart_ms(), killed.restart_ms()), (Some(1_100), Some(1_300)));
}

#[test]
fn the_result_for_programs_has_units_in_its_names() {
    let evidence = evidence();
    let result = Result::new(&evidence, promises(&evidence));
    let value = serde_json::to_value(&result).unwrap();
    assert_eq!(value["is_kept"], true);
    assert_eq!(value["acts"][1]["steps_lost"], 6);
    assert_eq!(value["acts"][1]["lost_device_ms"], 2_200);
    assert_eq!(value["acts"][0]["final"]["loss_bits"], 2.5_f32.to_bits());
    assert_eq!(value["acts"][0]["drain"]["history"][4]["state"], "DURABLE");
}
