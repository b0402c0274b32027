//! What time alone does, and when it will do it next.

use crate::unit::Time;

use super::{Cause, Drain, Life, Next, Output, State};

impl Life {
    pub(super) fn timers(&mut self) {
        self.drain_timer();
        match self.state {
            State::Absent => self.create_timer(),
            State::Created | State::Activating => {
                self.maintenance_timer();
                let is_forming = matches!(self.state, State::Created | State::Activating);
                if is_forming && self.stale_at().is_some_and(|at| self.now >= at) {
                    self.end(Cause::Stale, None);
                }
            }
            State::Active | State::ActiveDegraded => {
                self.maintenance_timer();
                self.degraded_timer();
            }
            State::Failed => {}
            State::Deactivating => {
                if !self.is_alerted && self.now >= self.stuck_at() {
                    self.is_alerted = true;
                    self.outputs.push(Output::AlertStuck);
                }
            }
        }
    }

    fn drain_timer(&mut self) {
        match self.drain {
            Some(Drain::Saving { until }) if self.now >= until => self.end_pods(),
            Some(Drain::Ending { until }) if self.now >= until => {
                self.outputs.push(Output::KillPods);
                let until = self.now.plus_ms(self.policy.end_ms.max(1));
                self.drain = Some(Drain::Ending { until });
            }
            Some(Drain::Saving { .. } | Drain::Ending { .. }) | None => {}
        }
    }

    fn create_timer(&mut self) {
        if let Next::Create { at } = self.next
            && self.now >= at
            && self.pods_left == Some(0)
        {
            if self.needs_to_leave_by().is_some_and(|leave| self.now >= leave) {
                self.plan_anew(Cause::Maintenance);
                return;
            }
            self.next = Next::Nothing;
            self.cause = None;
            self.outputs.push(Output::Create(self.place.clone()));
            self.enter(State::Created);
        }
    }

    fn stale_at(&self) -> Option<Time> {
        let at = self.since.plus_ms(self.policy.activation_timeout_ms);
        self.cause.is_none().then_some(at)
    }

    fn stuck_at(&self) -> Time {
        self.since.plus_ms(self.policy.deactivation_alert_ms)
    }

    /// When a drain has to begin so that all is gone before maintenance.
    fn needs_to_leave_by(&self) -> Option<Time> {
        let policy = &self.policy;
        let needed = policy.save_ms.saturating_add(policy.end_ms).saturating_add(policy.margin_ms);
        self.maintenance.map(|from| from.minus_ms(needed))
    }

    fn leave_at(&self) -> Option<Time> {
        self.needs_to_leave_by().filter(|_| self.cause.is_none())
    }

    fn maintenance_timer(&mut self) {
        let (Some(from), Some(leave)) = (self.maintenance, self.leave_at()) else { return };
        if self.now < leave {
            return;
        }
        let rest = self.policy.end_ms.saturating_add(self.policy.margin_ms);
        let save_by = self.now.plus_ms(self.policy.save_ms).min(from.minus_ms(rest));
        let can_save = save_by.ms_since(self.now) >= self.policy.save_ms;
        // What comes too late for a checkpoint with all its margin may still be in time without it.
        let hurried = self.now.plus_ms(self.policy.save_ms);
        let save_by = if can_save { Some(save_by) } else { (hurried < from).then_some(hurried) };
        self.end(Cause::Maintenance, save_by);
    }

    /// When a degraded slice is to be moved.
    fn move_at(&self) -> Option<Time> {
        if self.state != State::ActiveDegraded || self.cause.is_some() || self.is_asking {
            return None;
        }
        let quiet = self.moved_at.map(|at| at.plus_ms(self.policy.hold_down_ms));
        let ripe = self.degraded_since.map(|at| at.plus_ms(self.policy.hold_down_ms));
        // Who does not stand a degraded slice does not wait and see either, but moves no more often for that.
        if self.policy.is_healthy_only { quiet.or(self.degraded_since) } else { quiet.max(ripe) }
    }

    fn degraded_timer(&mut self) {
        if self.move_at().is_none_or(|at| self.now < at) {
            return;
        }
        if self.policy.is_healthy_only {
            self.moved_at = Some(self.now);
            self.end(Cause::Degraded, Some(self.now.plus_ms(self.policy.save_ms)));
        } else {
            self.is_asking = true;
            let avoid = self.place.clone();
            self.outputs.push(Output::Replan { cause: Cause::Degraded, avoid });
        }
    }

    pub(super) fn ask_to_be_woken(&mut self) {
        let create = match self.next {
            Next::Create { at } if self.state == State::Absent && self.pods_left == Some(0) => {
                Some(at)
            }
            Next::Create { .. } | Next::Nothing | Next::Replan => None,
        };
        let drain = self.drain.map(|drain| match drain {
            Drain::Saving { until } | Drain::Ending { until } => until,
        });
        let of_state = match self.state {
            State::Absent | State::Failed => [None, None],
            State::Created | State::Activating => [self.stale_at(), self.leave_at()],
            State::Active | State::ActiveDegraded => [self.leave_at(), self.move_at()],
            State::Deactivating => [(!self.is_alerted).then(|| self.stuck_at()), None],
        };
        let wake = [create, drain].into_iter().chain(of_state).flatten().min();
        if let Some(at) = wake
            && self.wakes_at != wake
        {
            self.outputs.push(Output::WakeAt(at));
        }
        self.wakes_at = wake;
    }
}
