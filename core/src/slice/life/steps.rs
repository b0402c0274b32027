//! What each input does in each state.

use crate::unit::Time;

use super::{Cause, Condition, Drain, Life, Next, Output, Place, SPOT_NOTICE_MS_MAX, State};

impl Life {
    pub(super) fn observed(&mut self, condition: Condition) {
        match self.state {
            State::Absent => self.observed_absent(condition),
            State::Created | State::Activating => self.observed_forming(condition),
            State::Active | State::ActiveDegraded => self.observed_running(condition),
            State::Failed => match condition {
                Condition::Gone => self.gone_by_hand(),
                Condition::None
                | Condition::CreationFailed
                | Condition::Activating
                | Condition::Active
                | Condition::ActiveDegraded
                | Condition::Failed
                | Condition::Deactivating => {}
            },
            State::Deactivating => match condition {
                Condition::Gone => self.gone(),
                Condition::None
                | Condition::CreationFailed
                | Condition::Activating
                | Condition::Active
                | Condition::ActiveDegraded
                | Condition::Failed
                | Condition::Deactivating => {}
            },
        }
    }

    /// An object where there should be none: the last one, seen late, or made by a predecessor. It occupies the nodes,
    /// so nothing is created beside it. What was to happen next happens once it is gone.
    fn observed_absent(&mut self, condition: Condition) {
        match condition {
            Condition::Gone => return,
            Condition::None
            | Condition::CreationFailed
            | Condition::Activating
            | Condition::Active
            | Condition::ActiveDegraded
            | Condition::Failed => {
                let cause = self.cause.unwrap_or(Cause::Stale);
                if self.pods_left == Some(0) {
                    self.outputs.push(Output::Delete(cause));
                    self.enter(State::Deactivating);
                } else {
                    self.cause = Some(cause);
                    self.end(cause, None);
                    self.enter(State::Failed);
                }
            }
            Condition::Deactivating => self.enter(State::Deactivating),
        }
        self.is_leftover = !self.is_owed;
    }

    fn observed_forming(&mut self, condition: Condition) {
        self.is_seen |= condition != Condition::Gone;
        match condition {
            Condition::None => {}
            Condition::Activating => self.state = State::Activating,
            Condition::Active => self.ready(State::Active),
            Condition::ActiveDegraded if self.policy.is_healthy_only => {
                self.end(Cause::Degraded, None);
            }
            Condition::ActiveDegraded => self.ready(State::ActiveDegraded),
            Condition::Failed => self.end(Cause::Failed, None),
            Condition::CreationFailed => self.end(Cause::Refused, None),
            Condition::Deactivating => self.deleted_by_hand(State::Deactivating),
            Condition::Gone if self.is_seen => self.gone_by_hand(),
            // Not there yet, as far as can be seen: the time-out decides.
            Condition::Gone => {}
        }
    }

    fn observed_running(&mut self, condition: Condition) {
        match condition {
            Condition::Active => {
                self.state = State::Active;
                self.degraded_since = None;
            }
            Condition::ActiveDegraded => {
                self.state = State::ActiveDegraded;
                self.degraded_since.get_or_insert(self.now);
            }
            Condition::Failed => {
                // Pods on a slice that failed cannot save together any more.
                self.end(Cause::Failed, None);
                if self.state != State::Deactivating {
                    self.state = State::Failed;
                }
            }
            Condition::Deactivating => self.deleted_by_hand(State::Deactivating),
            Condition::Gone => self.gone_by_hand(),
            Condition::None | Condition::Activating | Condition::CreationFailed => {}
        }
    }

    pub(super) fn enter(&mut self, state: State) {
        self.state = state;
        self.since = self.now;
        self.is_alerted = false;
    }

    fn ready(&mut self, state: State) {
        self.enter(state);
        self.tries = 0;
        self.degraded_since = (state == State::ActiveDegraded).then_some(self.now);
        // From now on pods may start at any time.
        self.pods_left = None;
        self.outputs.push(Output::Ready { is_resume: self.has_run });
        self.has_run = true;
    }

    /// Begins to end the slice: with a checkpoint by `save_by`, or without one. Whoever is ending already goes on, but
    /// not to another slice if the gang is not to go on.
    pub(super) fn end(&mut self, cause: Cause, save_by: Option<Time>) {
        if self.state == State::Absent {
            return;
        }
        let is_ending = self.cause.is_some();
        if !is_ending || !cause.goes_on() {
            self.cause = Some(cause);
        }
        match (self.drain, save_by) {
            (Some(Drain::Ending { .. }), _) => {}
            (Some(Drain::Saving { until }), Some(by)) => {
                self.drain = Some(Drain::Saving { until: until.min(by) });
            }
            (Some(Drain::Saving { .. }), None) => self.end_pods(),
            (None, _) if is_ending => {}
            (None, _) if self.pods_left == Some(0) => self.delete(cause),
            (None, Some(deadline)) => {
                self.outputs.push(Output::Signal { deadline });
                self.drain = Some(Drain::Saving { until: deadline });
            }
            (None, None) => self.end_pods(),
        }
    }

    pub(super) fn end_pods(&mut self) {
        self.outputs.push(Output::EndPods);
        self.drain = Some(Drain::Ending { until: self.now.plus_ms(self.policy.end_ms) });
    }

    fn delete(&mut self, cause: Cause) {
        self.outputs.push(Output::Delete(cause));
        self.enter(State::Deactivating);
    }

    pub(super) fn pods(&mut self, left: u32) {
        self.pods_left = Some(left);
        if left > 0 {
            return;
        }
        let was_draining = self.drain.take().is_some();
        match (self.state, self.cause) {
            (State::Absent, _) if self.is_owed => self.after_gone(),
            (State::Absent | State::Deactivating, _) | (_, None) => {}
            (_, Some(cause)) if was_draining => self.delete(cause),
            (_, Some(_)) => {}
        }
    }

    pub(super) fn saved(&mut self) {
        if matches!(self.drain, Some(Drain::Saving { .. })) {
            self.end_pods();
        }
    }

    /// The object is gone; its nodes are free as soon as its pods are gone, too.
    fn gone(&mut self) {
        self.enter(State::Absent);
        self.is_seen = false;
        self.is_owed = true;
        if self.pods_left == Some(0) {
            self.after_gone();
        } else if self.drain.is_none() {
            self.end_pods();
        }
    }

    fn gone_by_hand(&mut self) {
        self.deleted_by_hand(State::Absent);
        self.gone();
    }

    /// Somebody else ended the slice. Nothing is created under pods that still run: they end first, and the gang goes
    /// back to its queue.
    fn deleted_by_hand(&mut self, state: State) {
        self.cause = Some(Cause::DeletedByHand);
        if self.pods_left != Some(0) && !matches!(self.drain, Some(Drain::Ending { .. })) {
            self.end_pods();
        }
        self.enter(state);
    }

    /// Slice and pods are gone.
    fn after_gone(&mut self) {
        self.outputs.push(Output::Reusable(self.place.clone()));
        self.is_owed = false;
        if std::mem::take(&mut self.is_leftover) {
            return;
        }
        let cause = self.cause.unwrap_or(Cause::Stale);
        self.degraded_since = None;
        self.maintenance = None;
        self.is_asking = false;
        self.next = match cause {
            Cause::Stale | Cause::Failed if self.may_try_again() => {
                Next::Create { at: self.now.plus_ms(self.policy.retry_delay_ms) }
            }
            Cause::Degraded | Cause::Maintenance if self.other_place.is_some() => {
                self.place = self.other_place.take().unwrap_or_default();
                self.tries = 0;
                Next::Create { at: self.now }
            }
            Cause::Preempted | Cause::DeletedByHand => {
                self.outputs.push(Output::Requeue(cause));
                Next::Nothing
            }
            Cause::Finished => Next::Nothing,
            Cause::Stale
            | Cause::Failed
            | Cause::Refused
            | Cause::NodeFailed
            | Cause::Degraded
            | Cause::Maintenance
            | Cause::MachineEnds => {
                self.outputs.push(Output::Replan { cause, avoid: self.place.clone() });
                Next::Replan
            }
        };
        self.other_place = None;
    }

    fn may_try_again(&mut self) -> bool {
        self.tries += 1;
        self.tries < self.policy.tries_per_place_max
    }

    /// All of the slice moves: no pod of it can go on, and none can save together with the others.
    pub(super) fn node_failed(&mut self) {
        self.leave(Cause::NodeFailed, None);
    }

    pub(super) fn machine_ends(&mut self, at: Time) {
        let left_ms = at.ms_since(self.now).min(SPOT_NOTICE_MS_MAX);
        let save_by = self.now.plus_ms(left_ms);
        // A checkpoint that cannot be finished is not begun: it would only keep pods from ending in order.
        let save_by = (self.policy.save_ms <= left_ms).then_some(save_by);
        self.leave(Cause::MachineEnds, save_by);
    }

    /// The place is of no use any more.
    fn leave(&mut self, cause: Cause, save_by: Option<Time>) {
        match self.state {
            State::Absent => self.plan_anew(cause),
            State::Created | State::Activating | State::Active | State::ActiveDegraded => {
                self.end(cause, save_by);
            }
            // It was to be made again in the same place.
            State::Failed | State::Deactivating => {
                if matches!(self.cause, Some(Cause::Stale | Cause::Failed)) {
                    self.cause = Some(cause);
                }
            }
        }
    }

    /// Asks for another place instead of creating the slice in the one it has.
    pub(super) fn plan_anew(&mut self, cause: Cause) {
        if matches!(self.next, Next::Create { .. }) {
            self.next = Next::Replan;
            self.cause = Some(cause);
            self.maintenance = None;
            self.outputs.push(Output::Replan { cause, avoid: self.place.clone() });
        }
    }

    pub(super) fn maintenance(&mut self, from: Time) {
        self.maintenance = Some(self.maintenance.map_or(from, |known| known.min(from)));
        if let Some(Drain::Saving { until }) = self.drain {
            let until = until.min(from.minus_ms(self.policy.end_ms));
            self.drain = Some(Drain::Saving { until });
        }
    }

    /// A slice that is still being formed has no pods: it goes at once. The same is true of a gang that is about to be
    /// placed elsewhere: it goes back to its queue.
    pub(super) fn evict(&mut self, deadline: Time) {
        self.stop(Cause::Preempted, Some(deadline));
    }

    pub(super) fn finished(&mut self) {
        self.stop(Cause::Finished, None);
    }

    fn stop(&mut self, cause: Cause, save_by: Option<Time>) {
        if self.state != State::Absent || self.drain.is_some() {
            self.end(cause, save_by);
            return;
        }
        if self.next != Next::Nothing {
            self.next = Next::Nothing;
            self.cause = Some(cause);
            if cause != Cause::Finished {
                self.outputs.push(Output::Requeue(cause));
            }
        }
    }

    pub(super) fn found(&mut self, place: Place) {
        match (&self.state, &self.next) {
            (State::Absent, Next::Replan) => {
                self.place = place;
                self.tries = 0;
                self.next = Next::Create { at: self.now };
            }
            (State::Active | State::ActiveDegraded, _)
                if self.is_asking && self.cause.is_none() =>
            {
                self.is_asking = false;
                self.other_place = Some(place);
                let cause =
                    if self.maintenance.is_some() { Cause::Maintenance } else { Cause::Degraded };
                self.moved_at = Some(self.now);
                self.end(cause, Some(self.now.plus_ms(self.policy.save_ms)));
            }
            _ => {}
        }
    }

    pub(super) fn not_found(&mut self) {
        match (&self.state, &self.next) {
            (State::Absent, Next::Replan) => {
                self.next = Next::Nothing;
                self.outputs.push(Output::Requeue(self.cause.unwrap_or(Cause::Stale)));
            }
            _ if self.is_asking => {
                self.is_asking = false;
                // Asked again after another hold-down, if it is still degraded then.
                self.degraded_since = self.degraded_since.map(|_| self.now);
            }
            _ => {}
        }
    }
}
