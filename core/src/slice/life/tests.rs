mod order;
mod transitions;

use super::*;

pub(super) const SECOND_MS: u64 = 1_000;
pub(super) const MINUTE_MS: u64 = 60 * SECOND_MS;

pub(super) fn place(id: &str) -> Place {
    vec![id.to_owned()]
}

/// A slice and the time, so that tests read as a story.
#[derive(Debug, Clone)]
pub(super) struct Story {
    pub(super) life: Life,
    pub(super) now: Time,
}

impl Story {
    pub(super) fn new(policy: Policy) -> Self {
        let now = Time(1_000_000);
        Self { life: Life::new(place("a"), policy, now), now }
    }

    pub(super) fn is(&mut self, input: Input) -> Vec<Output> {
        self.life.step(self.now, input)
    }

    /// What is put out, without requests to be woken.
    pub(super) fn does(&mut self, input: Input) -> Vec<Output> {
        let outputs = self.is(input);
        outputs.into_iter().filter(|output| !matches!(output, Output::WakeAt(_))).collect()
    }

    pub(super) fn sees(&mut self, condition: Condition) -> Vec<Output> {
        self.does(Input::Observed(condition))
    }

    pub(super) fn after(&mut self, ms: u64) -> Vec<Output> {
        self.now = self.now.plus_ms(ms);
        self.does(Input::Tick)
    }

    /// An active slice with four pods.
    pub(super) fn running(policy: Policy) -> Self {
        let mut story = Self::new(policy);
        assert_eq!(story.does(Input::Tick), [Output::Create(place("a"))]);
        story.sees(Condition::None);
        story.sees(Condition::Activating);
        assert_eq!(story.sees(Condition::Active), [Output::Ready { is_resume: false }]);
        assert_eq!(story.does(Input::PodsLeft(4)), []);
        story
    }
}

fn replan(cause: Cause) -> Output {
    Output::Replan { cause, avoid: place("a") }
}

/// S2, and the order of every drain: signal, checkpoint, pods end, slice gone, nodes reusable.
#[test]
fn an_evicted_slice_leaves_in_order_and_its_gang_goes_back_to_the_queue() {
    let mut story = Story::running(Policy::default());
    let deadline = story.now.plus_ms(5 * MINUTE_MS);
    assert_eq!(story.does(Input::Evict { deadline }), [Output::Signal { deadline }]);
    assert_eq!(story.does(Input::Saved), [Output::EndPods]);
    assert_eq!(story.does(Input::PodsLeft(1)), []);
    assert_eq!(story.does(Input::PodsLeft(0)), [Output::Delete(Cause::Preempted)]);
    assert_eq!(story.sees(Condition::Deactivating), []);
    let left = [Output::Reusable(place("a")), Output::Requeue(Cause::Preempted)];
    assert_eq!(story.sees(Condition::Gone), left);
    assert_eq!(story.life.state(), State::Absent);
    assert_eq!(story.after(60 * MINUTE_MS), []);
}

/// S2c and E7.
#[test]
fn pods_that_do_not_end_are_ended_by_force_and_the_slice_waits_for_the_last() {
    let mut story = Story::running(Policy::default());
    let deadline = story.now.plus_ms(MINUTE_MS);
    story.does(Input::Evict { deadline });
    assert_eq!(story.after(MINUTE_MS), [Output::EndPods], "without a checkpoint");
    story.does(Input::PodsLeft(1));
    assert_eq!(story.after(30 * SECOND_MS), [Output::KillPods]);
    assert_eq!(story.life.state(), State::Active, "its object stays as long as a pod is left");
    assert_eq!(story.does(Input::PodsLeft(0)), [Output::Delete(Cause::Preempted)]);
}

/// S7.
#[test]
fn a_slice_that_is_being_formed_goes_at_once_for_somebody_more_important() {
    let mut story = Story::new(Policy::default());
    story.does(Input::Tick);
    story.sees(Condition::Activating);
    let deadline = story.now.plus_ms(MINUTE_MS);
    assert_eq!(story.does(Input::Evict { deadline }), [Output::Delete(Cause::Preempted)]);
}

/// C2.
#[test]
fn a_stale_slice_is_tried_again_and_then_elsewhere() {
    let mut story = Story::new(Policy::default());
    assert_eq!(story.does(Input::Tick), [Output::Create(place("a"))]);
    for attempt in 1..=3 {
        story.sees(Condition::Activating);
        assert_eq!(story.after(3 * MINUTE_MS - 1), []);
        assert_eq!(story.after(1), [Output::Delete(Cause::Stale)]);
        let left = story.sees(Condition::Gone);
        if attempt == 3 {
            assert_eq!(left, [Output::Reusable(place("a")), replan(Cause::Stale)]);
            break;
        }
        assert_eq!(left, [Output::Reusable(place("a"))]);
        assert_eq!(story.after(10 * SECOND_MS - 1), []);
        assert_eq!(story.after(1), [Output::Create(place("a"))]);
    }
    assert_eq!(story.does(Input::Place(place("b"))), [Output::Create(place("b"))]);
}

/// C7.
#[test]
fn a_refused_slice_is_planned_anew_and_not_tried_on_the_same_partitions() {
    let mut story = Story::new(Policy::default());
    story.does(Input::Tick);
    assert_eq!(story.sees(Condition::CreationFailed), [Output::Delete(Cause::Refused)]);
    let left = [Output::Reusable(place("a")), replan(Cause::Refused)];
    assert_eq!(story.sees(Condition::Gone), left);
    assert_eq!(story.does(Input::NoPlace), [Output::Requeue(Cause::Refused)]);
}

/// C3.
#[test]
fn a_slice_that_does_not_go_is_told_once_and_its_nodes_stay_occupied() {
    let mut story = Story::running(Policy::default());
    story.does(Input::Finished);
    assert_eq!(story.does(Input::PodsLeft(0)), [Output::Delete(Cause::Finished)]);
    assert_eq!(story.after(15 * MINUTE_MS), [Output::AlertStuck]);
    assert_eq!(story.after(60 * MINUTE_MS), []);
    assert_eq!(story.life.state(), State::Deactivating);
    assert_eq!(story.sees(Condition::Gone), [Output::Reusable(place("a"))]);
}

/// C5.
#[test]
fn a_slice_deleted_by_hand_is_not_made_again_under_running_pods() {
    let mut story = Story::running(Policy::default());
    assert_eq!(story.sees(Condition::Gone), [Output::EndPods]);
    assert_eq!(story.after(10 * SECOND_MS), []);
    let left = [Output::Reusable(place("a")), Output::Requeue(Cause::DeletedByHand)];
    assert_eq!(story.does(Input::PodsLeft(0)), left);
    assert_eq!(story.after(60 * MINUTE_MS), []);
}

/// H4.
#[test]
fn a_failed_node_moves_the_whole_slice_and_the_gang_resumes() {
    let mut story = Story::running(Policy::default());
    assert_eq!(story.does(Input::NodeFailed), [Output::EndPods]);
    assert_eq!(story.does(Input::NodeFailed), [], "said twice, done once");
    assert_eq!(story.does(Input::PodsLeft(0)), [Output::Delete(Cause::NodeFailed)]);
    let left = [Output::Reusable(place("a")), replan(Cause::NodeFailed)];
    assert_eq!(story.sees(Condition::Gone), left);
    assert_eq!(story.does(Input::Place(place("b"))), [Output::Create(place("b"))]);
    story.sees(Condition::Activating);
    assert_eq!(story.sees(Condition::Active), [Output::Ready { is_resume: true }]);
}

#[test]
fn a_failed_slice_ends_its_pods_and_is_made_again() {
    let mut story = Story::running(Policy::default());
    assert_eq!(story.sees(Condition::Failed), [Output::EndPods]);
    assert_eq!(story.life.state(), State::Failed);
    assert_eq!(story.does(Input::PodsLeft(0)), [Output::Delete(Cause::Failed)]);
    assert_eq!(story.sees(Condition::Gone), [Output::Reusable(place("a"))]);
    assert_eq!(story.after(10 * SECOND_MS), [Output::Create(place("a"))]);
}

/// H8 and H7.
#[test]
fn a_degraded_slice_moves_when_it_has_been_so_for_long_and_there_is_a_place() {
    let mut story = Story::running(Policy::default());
    for _ in 0..9 {
        assert_eq!(story.sees(Condition::ActiveDegraded), []);
        assert_eq!(story.after(10 * SECOND_MS), []);
        assert_eq!(story.sees(Condition::Active), [], "health that flaps moves nobody");
        assert_eq!(story.after(10 * SECOND_MS), []);
    }
    story.sees(Condition::ActiveDegraded);
    assert_eq!(story.after(5 * MINUTE_MS), [replan(Cause::Degraded)]);
    assert_eq!(story.does(Input::NoPlace), []);
    assert_eq!(story.after(5 * MINUTE_MS), [replan(Cause::Degraded)], "asked again later");
    let deadline = story.now.plus_ms(5 * MINUTE_MS);
    assert_eq!(story.does(Input::Place(place("b"))), [Output::Signal { deadline }]);
    assert_eq!(story.does(Input::Saved), [Output::EndPods]);
    assert_eq!(story.does(Input::PodsLeft(0)), [Output::Delete(Cause::Degraded)]);
    let next = [Output::Reusable(place("a")), Output::Create(place("b"))];
    assert_eq!(story.sees(Condition::Gone), next);
}

#[test]
fn who_wants_healthy_slices_only_leaves_a_degraded_one_at_most_once_per_hold_down() {
    let policy = Policy { is_healthy_only: true, ..Policy::default() };
    let mut story = Story::running(policy);
    let deadline = story.now.plus_ms(5 * MINUTE_MS);
    assert_eq!(story.sees(Condition::ActiveDegraded), [Output::Signal { deadline }]);
    story.does(Input::Saved);
    story.does(Input::PodsLeft(0));
    let left = [Output::Reusable(place("a")), replan(Cause::Degraded)];
    assert_eq!(story.sees(Condition::Gone), left);
    story.does(Input::Place(place("b")));
    story.sees(Condition::Active);
    story.does(Input::PodsLeft(4));
    assert_eq!(story.sees(Condition::ActiveDegraded), [], "it moved a moment ago");
    assert_eq!(story.after(5 * MINUTE_MS - 1), []);
    let deadline = story.now.plus_ms(5 * MINUTE_MS + 1);
    assert_eq!(story.after(1), [Output::Signal { deadline }]);
}

#[test]
fn before_maintenance_everything_has_been_drained() {
    let mut story = Story::running(Policy::default());
    let from = story.now.plus_ms(60 * MINUTE_MS);
    let needed = 5 * MINUTE_MS + 30 * SECOND_MS + 2 * MINUTE_MS;
    let wake = Output::WakeAt(from.minus_ms(needed));
    assert_eq!(story.is(Input::Maintenance { from }), [wake]);
    assert_eq!(story.is(Input::Maintenance { from: from.plus_ms(1) }), [], "the earliest counts");
    story.now = from.minus_ms(needed + 1);
    assert_eq!(story.does(Input::Tick), []);
    let deadline = from.minus_ms(needed - 5 * MINUTE_MS);
    assert_eq!(story.after(1), [Output::Signal { deadline }]);
    assert_eq!(story.after(5 * MINUTE_MS), [Output::EndPods]);
    assert_eq!(story.does(Input::PodsLeft(0)), [Output::Delete(Cause::Maintenance)]);
    let left = [Output::Reusable(place("a")), replan(Cause::Maintenance)];
    assert_eq!(story.sees(Condition::Gone), left);
    assert!(story.now < from);
}

#[test]
fn maintenance_that_comes_too_soon_for_a_checkpoint_only_ends_the_pods() {
    let mut story = Story::running(Policy::default());
    let from = story.now.plus_ms(4 * MINUTE_MS);
    assert_eq!(story.does(Input::Maintenance { from }), [Output::EndPods]);
    let mut story = Story::running(Policy::default());
    let from = story.now.plus_ms(6 * MINUTE_MS);
    let deadline = story.now.plus_ms(5 * MINUTE_MS);
    assert_eq!(story.does(Input::Maintenance { from }), [Output::Signal { deadline }]);
}

/// H12.
#[test]
fn a_machine_that_is_taken_away_gets_a_checkpoint_only_if_one_fits_into_its_notice() {
    let mut story = Story::running(Policy::default());
    let at = story.now.plus_ms(30 * SECOND_MS);
    assert_eq!(story.does(Input::MachineEnds { at }), [Output::EndPods]);
    let quick = Policy { save_ms: 10 * SECOND_MS, ..Policy::default() };
    let mut story = Story::running(quick);
    let deadline = story.now.plus_ms(SPOT_NOTICE_MS_MAX);
    assert_eq!(story.does(Input::MachineEnds { at }), [Output::Signal { deadline }]);
}

/// xpk 1009: partitions are not used again while the old slice is there.
#[test]
fn nothing_is_created_beside_an_object_that_is_still_there() {
    let mut story = Story::new(Policy::default());
    story.does(Input::Tick);
    story.sees(Condition::Failed);
    story.sees(Condition::Gone);
    assert_eq!(story.sees(Condition::Deactivating), [], "an older look");
    assert_eq!(story.after(10 * SECOND_MS), []);
    let next = [Output::Reusable(place("a")), Output::Create(place("a"))];
    assert_eq!(story.sees(Condition::Gone), next);
}
