//! What must hold whatever comes in, in whatever order.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

fn inputs() -> impl Strategy<Value = Vec<(u64, u8, u32)>> {
    let pause_ms = prop_oneof![Just(0), Just(1_000), Just(60_000), Just(400_000)];
    proptest::collection::vec((pause_ms, 0_u8..19, 0_u32..3), 1..50)
}

fn made(kind: u8, number: u32, now: Time) -> Input {
    let soon = now.plus_ms(u64::from(number) * MINUTE_MS);
    match kind {
        0 => Input::Observed(Condition::None),
        1 => Input::Observed(Condition::CreationFailed),
        2 => Input::Observed(Condition::Activating),
        3 | 4 => Input::Observed(Condition::Active),
        5 => Input::Observed(Condition::ActiveDegraded),
        6 => Input::Observed(Condition::Failed),
        7 => Input::Observed(Condition::Deactivating),
        8 | 9 => Input::Observed(Condition::Gone),
        10 => Input::PodsLeft(number),
        11 => Input::Saved,
        12 => Input::NodeFailed,
        13 => Input::Maintenance { from: soon },
        14 => Input::MachineEnds { at: soon },
        15 => Input::Evict { deadline: soon },
        16 => Input::Place(place("b")),
        17 => Input::NoPlace,
        _ => Input::Finished,
    }
}

/// The same cases in every run; more of them were tried once with other seeds.
const SEED: RngSeed = RngSeed::Fixed(20_261_130);

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, rng_seed: SEED, ..ProptestConfig::default() })]

    #[test]
    fn slices_go_after_pods_and_nodes_are_reusable_after_slices(
        inputs in inputs(), is_healthy_only in any::<bool>(),
    ) {
        let mut story = Story::new(Policy { is_healthy_only, ..Policy::default() });
        // What is known outside: whether the object may exist, and whether pods may run.
        let (mut object, mut pods) = (false, false);
        for (ms, kind, number) in inputs {
            story.now = story.now.plus_ms(ms);
            let input = made(kind, number, story.now);
            match input {
                Input::Observed(Condition::Gone) => object = false,
                Input::Observed(_) => object = true,
                Input::PodsLeft(left) => pods = left > 0,
                _ => {}
            }
            for output in story.does(input) {
                match output {
                    Output::Create(_) => {
                        prop_assert!(!object && !pods, "created beside another, or under pods");
                        object = true;
                    }
                    Output::Ready { .. } => pods = true,
                    Output::Delete(_) => prop_assert!(!pods, "deleted under pods"),
                    Output::Reusable(_) => prop_assert!(!object && !pods, "given away too early"),
                    Output::Signal { deadline } => prop_assert!(deadline >= story.now),
                    Output::EndPods
                    | Output::KillPods
                    | Output::Replan { .. }
                    | Output::Requeue(_)
                    | Output::AlertStuck
                    | Output::WakeAt(_) => {}
                }
            }
        }
    }

    #[test]
    fn what_is_said_twice_is_done_once(inputs in inputs()) {
        let mut story = Story::new(Policy::default());
        for (ms, kind, number) in inputs {
            story.now = story.now.plus_ms(ms);
            let input = made(kind, number, story.now);
            let first = story.does(input.clone());
            let again = story.does(input);
            prop_assert!(again.iter().all(|output| !first.contains(output)), "{first:?}, {again:?}");
        }
    }

    #[test]
    fn what_time_decides_has_asked_for_a_tick(inputs in inputs()) {
        let mut story = Story::running(Policy::default());
        for (ms, kind, number) in inputs {
            story.now = story.now.plus_ms(ms);
            let input = made(kind, number, story.now);
            story.is(input);
            if story.life.drain.is_some() {
                prop_assert!(story.life.wakes_at.is_some_and(|at| at > story.now));
            }
            let waits = matches!(story.life.state(), State::Created | State::Activating);
            prop_assert!(!waits || story.life.wakes_at.is_some());
        }
    }
}
