use super::*;

fn seed<'a>(refused: &'a BTreeMap<Mode, String>) -> Situation<'a> {
    // The tutorial's numbers: 4 devices, 3.517 s a step, a checkpoint every 10 steps.
    Situation {
        devices: 4,
        unsaved_ms: 17_600,
        checkpoint_seen: true,
        has_checkpoint_dir: true,
        step_ms: Some(3_517),
        save_ms: Some(5_000),
        save_interval_ms: Some(35_170),
        has_client: false,
        client_unproven: false,
        save_signal: None,
        signal_proven: true,
        grace_ms: None,
        signal_unproven: false,
        refused,
        deadline_ms: 60_000,
        checkpoint_drain: true,
    }
}

fn reasons(plan: &Plan) -> Vec<(Mode, &'static str)> {
    plan.alternatives.iter().map(|a| (a.mode, a.reason.code())).collect()
}

#[test]
fn the_next_periodic_checkpoint_is_awaited_when_it_fits_the_deadline() {
    let none = BTreeMap::new();
    let plan = plan(&seed(&none));
    assert_eq!(plan.mode, Mode::Boundary);
    assert_eq!(plan.delay_ms, Some(35_170 - 17_600 + REACTION_MS));
    assert_eq!(plan.loss_device_ms, 4 * 3_517);
    assert_eq!(
        reasons(&plan),
        [
            (Mode::KillFresh, "not-fresh"),
            (Mode::Boundary, "least-loss"),
            (Mode::Client, "no-client"),
            (Mode::Signal, "no-save-signal"),
            (Mode::Kill, "more-loss"),
        ]
    );
}

#[test]
fn a_short_deadline_forces_the_kill_and_says_so() {
    let none = BTreeMap::new();
    let plan = plan(&Situation { deadline_ms: 2_000, ..seed(&none) });
    assert_eq!(plan.mode, Mode::Kill);
    assert_eq!(plan.loss_device_ms, 4 * (17_600 + REACTION_MS));
    assert_eq!(reasons(&plan)[1], (Mode::Boundary, "too-slow"));
    assert_eq!(reasons(&plan)[4], (Mode::Kill, "deadline-forced"));
}

#[test]
fn a_signal_is_used_when_the_boundary_is_too_far_and_never_when_unproven() {
    let none = BTreeMap::new();
    let signal = Some(SaveSignal { number: 10, exits_after_save: false });
    let far = Situation { save_interval_ms: Some(1_800_000), save_signal: signal, ..seed(&none) };
    let chosen = plan(&far);
    assert_eq!((chosen.mode, chosen.save_signal), (Mode::Signal, signal));
    assert_eq!(chosen.delay_ms, Some(3_517 + 5_000));

    let unproven = plan(&Situation { signal_unproven: true, ..far });
    assert_eq!((unproven.mode, unproven.save_signal), (Mode::Kill, None));
    assert_eq!(reasons(&unproven)[3], (Mode::Signal, "signal-unproven"));
}

#[test]
fn a_fresh_checkpoint_makes_the_kill_the_cheapest() {
    let none = BTreeMap::new();
    let plan = plan(&Situation { unsaved_ms: 1_000, ..seed(&none) });
    assert_eq!(plan.mode, Mode::KillFresh);
    assert_eq!(plan.loss_device_ms, 4 * (1_000 + REACTION_MS));
}

#[test]
fn a_mode_that_an_agent_refused_is_not_chosen_again() {
    let refused = BTreeMap::from([(Mode::Boundary, "no-checkpoint-dir".to_owned())]);
    let plan = plan(&seed(&refused));
    assert_eq!(plan.mode, Mode::Kill);
    assert_eq!(reasons(&plan)[1], (Mode::Boundary, "mode-refused"));
}

#[test]
fn unknown_checkpointing_is_watched_for_rather_than_killed() {
    let none = BTreeMap::new();
    let blind = Situation {
        checkpoint_seen: false,
        step_ms: None,
        save_ms: None,
        save_interval_ms: None,
        ..seed(&none)
    };
    let plan = plan(&blind);
    assert_eq!((plan.mode, plan.delay_ms), (Mode::Boundary, None));
}

#[test]
fn without_checkpoint_drain_only_the_kill_is_considered() {
    let none = BTreeMap::new();
    let plan = plan(&Situation { checkpoint_drain: false, ..seed(&none) });
    assert_eq!(plan.mode, Mode::Kill);
    assert_eq!(reasons(&plan), [(Mode::Kill, "drain-switched-off")]);
}

#[test]
fn a_declared_signal_goes_before_a_boundary_of_unknown_distance() {
    let none = BTreeMap::new();
    let signal = Some(SaveSignal { number: 10, exits_after_save: false });
    let blind = Situation { save_interval_ms: None, save_signal: signal, ..seed(&none) };
    assert_eq!(plan(&blind).mode, Mode::Signal);
    let refused = BTreeMap::from([(Mode::Signal, "no-handler".to_owned())]);
    assert_eq!(plan(&Situation { refused: &refused, ..blind }).mode, Mode::Boundary);
}

#[test]
fn an_assumed_save_time_does_not_make_a_kill_cheaper_than_a_declared_signal() {
    let none = BTreeMap::new();
    let signal = Some(SaveSignal { number: 10, exits_after_save: false });
    let young = Situation {
        unsaved_ms: 14_000,
        checkpoint_seen: false,
        step_ms: None,
        save_ms: None,
        save_interval_ms: None,
        save_signal: signal,
        deadline_ms: 20_000,
        ..seed(&none)
    };
    assert_eq!(plan(&young).mode, Mode::Signal);
    let measured = Situation { step_ms: Some(5_000), save_ms: Some(10_000), ..young };
    assert_eq!(plan(&measured).mode, Mode::Kill, "what is known to cost more is not done");
}

#[test]
fn an_unknown_boundary_does_not_pass_a_deadline_that_is_too_short_for_any_save() {
    let none = BTreeMap::new();
    let blind = Situation { save_interval_ms: None, deadline_ms: 2_000, ..seed(&none) };
    assert_eq!(plan(&blind).mode, Mode::Kill);
}

#[test]
fn a_worker_with_a_client_is_asked_through_its_files_rather_than_by_a_signal() {
    let none = BTreeMap::new();
    let signal = Some(SaveSignal { number: 10, exits_after_save: false });
    let far = Situation {
        save_interval_ms: Some(1_800_000),
        save_signal: signal,
        has_client: true,
        ..seed(&none)
    };
    let chosen = plan(&far);
    assert_eq!((chosen.mode, chosen.save_signal), (Mode::Client, None));
    let without = plan(&Situation { client_unproven: true, ..far });
    assert_eq!(without.mode, Mode::Signal);
    assert_eq!(reasons(&without)[2], (Mode::Client, "client-unproven"));
}

#[test]
fn a_signal_that_was_only_declared_is_not_planned() {
    let none = BTreeMap::new();
    let signal = Some(SaveSignal { number: 10, exits_after_save: false });
    let untried = Situation {
        save_interval_ms: Some(1_800_000),
        save_signal: signal,
        signal_proven: false,
        ..seed(&none)
    };
    let chosen = plan(&untried);
    assert_eq!(chosen.mode, Mode::Kill);
    assert_eq!(reasons(&chosen)[3], (Mode::Signal, "signal-untried"));
}

/// S9: the launcher kills its processes 30 s after SIGTERM, whatever the deadline allows.
#[test]
fn s9_a_save_that_a_launcher_would_cut_off_is_not_asked_for_by_that_signal() {
    let none = BTreeMap::new();
    let by = |number| Situation {
        save_ms: Some(60_000),
        save_interval_ms: Some(1_800_000),
        save_signal: Some(SaveSignal { number, exits_after_save: true }),
        grace_ms: Some(30_000),
        unsaved_ms: 600_000,
        deadline_ms: 120_000,
        ..seed(&none)
    };
    let chosen = plan(&by(15));
    assert_eq!(chosen.mode, Mode::Kill);
    assert_eq!(reasons(&chosen)[3], (Mode::Signal, "grace-too-short"));
    assert_eq!(plan(&by(10)).mode, Mode::Signal, "the launcher has no part in USR1");
    assert_eq!(plan(&Situation { has_client: true, ..by(15) }).mode, Mode::Client);
    let near = Situation { save_interval_ms: Some(610_000), ..by(15) };
    assert_eq!(plan(&near).mode, Mode::Boundary);
}

#[test]
fn a_save_of_unknown_length_is_asked_for_before_work_is_thrown_away() {
    let none = BTreeMap::new();
    let unknown = Situation {
        step_ms: None,
        save_ms: None,
        save_interval_ms: None,
        has_client: true,
        deadline_ms: 6_000,
        ..seed(&none)
    };
    assert_eq!(plan(&unknown).mode, Mode::Client);
    // What was measured and does not fit is not tried, nor is what nothing fits.
    assert_eq!(plan(&Situation { save_ms: Some(10_000), ..unknown.clone() }).mode, Mode::Kill);
    assert_eq!(plan(&Situation { deadline_ms: 2_999, ..unknown.clone() }).mode, Mode::Kill);
    assert_eq!(plan(&Situation { client_unproven: true, ..unknown }).mode, Mode::Kill);
}
