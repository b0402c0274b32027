//! Who is looked at again though nothing that concerns them is known to have changed.
//!
//! The scheduler wakes whom a change may help, at once. Beyond that everybody is looked at again soon after any change:
//! then why they wait is told with the figures of now, and a change of which nobody knew that it matters is found. Where
//! few queues wait that is done with each decision; where many do, a few queues at a time, so that no decision takes
//! long.

use super::Arbiter;
use crate::kueue::name::QueueName;
use crate::unit::Time;

/// Queues that are looked at with each decision, and at once if there are more.
const QUEUES_AT_ONCE: usize = 16;
/// Time between two such looks, if nothing else happens. Unit: ms.
const PAUSE_MS: u64 = 20;

/// How far the round is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Review {
    /// [`QUEUES_AT_ONCE`], but for tests.
    pub(super) at_once: usize,
    /// Everybody is to be looked at with the next decision.
    is_of_all: bool,
    /// Queues that have not been looked at since the last change.
    left: usize,
    /// The last that was.
    after: Option<QueueName>,
    /// When the next are due, if some are left.
    due: Time,
}

impl Review {
    /// Everybody is due.
    pub(super) fn of_all() -> Self {
        Self { at_once: QUEUES_AT_ONCE, is_of_all: true, left: 0, after: None, due: Time(0) }
    }

    /// When somebody is to be looked at, though nothing happens; `None` if nobody is.
    pub(super) fn due(&self) -> Option<Time> {
        (self.left > 0).then_some(self.due)
    }
}

impl Arbiter {
    /// Everybody is looked at with the next decision. With it an arbiter decides as one does that was restored at this
    /// moment: that one does not know whom it has looked at.
    pub fn look_at_all(&mut self) {
        self.review.is_of_all = true;
    }

    /// Wakes who is due; `is_change` if something has changed since the last decision.
    pub(super) fn review(&mut self, is_change: bool) {
        let waiting = self.scheduler.waiting_queues();
        if self.review.is_of_all || waiting <= self.review.at_once {
            self.scheduler.wake_all();
            self.review = Review { is_of_all: false, left: 0, ..self.review.clone() };
            return;
        }
        if is_change {
            self.review.left = waiting;
        }
        if self.review.left == 0 || self.now < self.review.due {
            return;
        }
        let at_once = self.review.at_once;
        self.review.after = self.scheduler.wake_next(self.review.after.as_ref(), at_once);
        self.review.left = self.review.left.saturating_sub(at_once);
        self.review.due = self.now.plus_ms(PAUSE_MS);
    }

    /// Notes who can be drained now and could not before: whoever waits for that is looked at.
    pub(super) fn free_the_bound(&mut self) {
        let bound = self.watchlist.bound().iter();
        let is_free = |name: &&_| {
            self.workloads.get(*name).is_none_or(|workload| self.cannot_leave(workload).is_none())
        };
        for name in bound.filter(is_free).cloned().collect::<Vec<_>>() {
            self.watchlist.set_bound(&name, false);
            self.scheduler.may_leave(&super::engine::key_of(&name));
        }
    }
}
