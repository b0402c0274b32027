//! What a running workload has done, saved and would lose at a moment: the model of execution.
//!
//! An attempt starts, pays the start cost, then works. Every `interval_ms` of work it saves; a save that blocks stops
//! the work for `duration_ms`, one in the background is complete `duration_ms` after the work it holds was done. The
//! last piece of work is not saved: the workload ends instead. All is arithmetic on one attempt; nothing is stepped.

/// What a workload does when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Work until it ends. Unit: milliseconds on all its devices together. Range: 1 or more.
    pub duration_ms: u64,
    /// Time at the beginning of every attempt in which no work is done.
    pub start_cost_ms: u64,
    /// Length of a step: a save that is ordered waits for the end of the step. 0: it need not wait.
    pub step_ms: u64,
    /// How it saves; `None` means that it cannot.
    pub saves: Option<Saves>,
}

/// How a workload saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saves {
    /// Work between two saves. Range: 1 or more.
    pub interval_ms: u64,
    /// How long a save takes.
    pub duration_ms: u64,
    /// Whether work goes on during a periodic save; `duration_ms` is at most `interval_ms` then.
    pub is_background: bool,
}

/// One run of a workload, from a start to its end or to its leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// When it was admitted, in virtual milliseconds.
    pub started_at_ms: u64,
    /// Work that was saved before it. Unit: milliseconds.
    pub resumed_ms: u64,
}

/// What has been worked off at a moment. Unit: milliseconds of work since the very beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Work done.
    pub done_ms: u64,
    /// The part of it that is in a complete save.
    pub saved_ms: u64,
}

impl Progress {
    /// Work that is in no save.
    #[must_use]
    pub fn at_risk_ms(self) -> u64 {
        self.done_ms - self.saved_ms
    }
}

/// How an attempt that must give way ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// When its devices are free.
    pub leaves_at_ms: u64,
    /// Work done until then.
    pub done_ms: u64,
    /// Work that the next attempt can start from; all of it if the workload ended meanwhile.
    pub saved_ms: u64,
}

/// Where an attempt is in its saving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    /// Work done since the attempt began.
    worked_ms: u64,
    /// The part of it that is saved.
    saved_ms: u64,
    /// What is left of a save that blocks; 0 while it works.
    saving_left_ms: u64,
}

impl Work {
    /// When the attempt ends if nobody disturbs it.
    #[must_use]
    pub fn ends_at_ms(&self, attempt: Attempt) -> u64 {
        let left_ms = self.duration_ms - attempt.resumed_ms;
        let blocked_ms = match self.blocking_saves() {
            // The last piece is not saved.
            Some(saves) => {
                let pieces = left_ms.div_ceil(saves.interval_ms).max(1);
                (pieces - 1).saturating_mul(saves.duration_ms)
            }
            None => 0,
        };
        let spent_ms = self.start_cost_ms.saturating_add(left_ms).saturating_add(blocked_ms);
        attempt.started_at_ms.saturating_add(spent_ms)
    }

    /// What is done and saved at `at_ms`, which lies within the attempt.
    #[must_use]
    pub fn progress(&self, attempt: Attempt, at_ms: u64) -> Progress {
        let position = self.position(attempt, at_ms);
        Progress {
            done_ms: attempt.resumed_ms + position.worked_ms,
            saved_ms: attempt.resumed_ms + position.saved_ms,
        }
    }

    /// How the attempt ends if its workers are killed at `at_ms` and its devices are free `grace_ms` later.
    #[must_use]
    pub fn kill(&self, attempt: Attempt, at_ms: u64, grace_ms: u64) -> Exit {
        let Progress { done_ms, saved_ms } = self.progress(attempt, at_ms);
        Exit { leaves_at_ms: at_ms + grace_ms, done_ms, saved_ms }
    }

    /// How the attempt ends if it is asked at `at_ms` to save and leave; `None` if it cannot save.
    ///
    /// It finishes its step, saves and leaves. With nothing to save it leaves at once; a save under way is waited for;
    /// if its work ends with the step, it ends instead.
    #[must_use]
    pub fn drain(&self, attempt: Attempt, at_ms: u64) -> Option<Exit> {
        let saves = self.saves?;
        let position = self.position(attempt, at_ms);
        let left = |worked_ms: u64, leaves_at_ms: u64| {
            let done_ms = attempt.resumed_ms + worked_ms;
            Some(Exit { leaves_at_ms, done_ms, saved_ms: done_ms })
        };
        if position.saving_left_ms > 0 {
            return left(position.worked_ms, at_ms + position.saving_left_ms);
        }
        if position.worked_ms == position.saved_ms {
            return left(position.worked_ms, at_ms);
        }
        let all_ms = self.duration_ms - attempt.resumed_ms;
        let step_end_ms = match self.step_ms {
            0 => position.worked_ms,
            step_ms => position.worked_ms.div_ceil(step_ms).saturating_mul(step_ms),
        };
        let worked_ms = step_end_ms.min(all_ms);
        let stepped_at_ms = at_ms + (worked_ms - position.worked_ms);
        if worked_ms == all_ms {
            return left(all_ms, stepped_at_ms);
        }
        left(worked_ms, stepped_at_ms + saves.duration_ms)
    }

    fn blocking_saves(&self) -> Option<Saves> {
        self.saves.filter(|saves| !saves.is_background)
    }

    fn position(&self, attempt: Attempt, at_ms: u64) -> Position {
        let all_ms = self.duration_ms - attempt.resumed_ms;
        let elapsed_ms =
            at_ms.saturating_sub(attempt.started_at_ms).saturating_sub(self.start_cost_ms);
        let Some(saves) = self.saves else {
            let worked_ms = elapsed_ms.min(all_ms);
            return Position { worked_ms, saved_ms: 0, saving_left_ms: 0 };
        };
        if saves.is_background {
            let worked_ms = elapsed_ms.min(all_ms);
            let saved_ms = worked_ms.saturating_sub(saves.duration_ms) / saves.interval_ms;
            return Position {
                worked_ms,
                saved_ms: saved_ms * saves.interval_ms,
                saving_left_ms: 0,
            };
        }
        let round_ms = saves.interval_ms + saves.duration_ms;
        let (rounds, into_ms) = (elapsed_ms / round_ms, elapsed_ms % round_ms);
        let saved_ms = rounds * saves.interval_ms;
        let worked_ms = (saved_ms + into_ms.min(saves.interval_ms)).min(all_ms);
        let is_saving = into_ms >= saves.interval_ms && worked_ms < all_ms;
        let saving_left_ms = if is_saving { round_ms - into_ms } else { 0 };
        Position { worked_ms, saved_ms: saved_ms.min(worked_ms), saving_left_ms }
    }
}

#[cfg(test)]
mod tests;
