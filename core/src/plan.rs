//! How to drain a gang: picks a mode, with its numbers and those of the modes not taken.
//!
//! Wanted properties: the mode chosen loses least among those that fit the deadline; of equal ones
//! the faster is taken, and of those CLIENT before SIGNAL; a mode that cannot be done is never chosen; a signal that
//! was not shown to save is never planned; every mode is listed with the reason why it was or was not taken.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::drain::{Alternative, Mode, Plan};
use crate::reason::{Ms, Reason};
use crate::workload::SaveSignal;

/// Step time taken where none was measured. Large models take seconds; a wrong value only shifts
/// the choice between modes that both save.
pub const STEP_ASSUMED_MS: u64 = 5_000;
/// Save time taken where none was measured.
pub const SAVE_ASSUMED_MS: u64 = 10_000;
/// Shortest deadline within which a save of unknown length is asked for: order, step and save are not over sooner.
const ASK_MS_MIN: u64 = 3_000;
/// From a checkpoint's last write to the worker's end: notice, verify, order, signal.
pub const REACTION_MS: u64 = 100;

/// What is known of a gang when a drain is planned.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not a state in disguise")]
#[derive(Debug, Clone)]
pub struct Situation<'a> {
    /// Devices of the gang.
    pub devices: u64,
    /// Time worked since the last complete checkpoint, or since the start. Unit: ms.
    pub unsaved_ms: u64,
    /// Whether a complete checkpoint of this attempt has been seen.
    pub checkpoint_seen: bool,
    /// Whether there is a directory to watch.
    pub has_checkpoint_dir: bool,
    /// Measured step time. Unit: ms.
    pub step_ms: Option<u64>,
    /// Measured save time. Unit: ms.
    pub save_ms: Option<u64>,
    /// Measured time from one checkpoint to the next. Unit: ms.
    pub save_interval_ms: Option<u64>,
    /// Whether every rank can be asked through its files.
    pub has_client: bool,
    /// Whether the worker was seen not to save when it was asked through its files.
    pub client_unproven: bool,
    /// The declared save signal.
    pub save_signal: Option<SaveSignal>,
    /// Whether that signal was seen to save, or somebody vouches for it.
    pub signal_proven: bool,
    /// Whether that signal was seen not to save.
    pub signal_unproven: bool,
    /// Time after which a worker that was told to end is killed from within, if it is. Unit: ms.
    pub grace_ms: Option<u64>,
    /// Modes that agents refused, with the refusal's code.
    pub refused: &'a BTreeMap<Mode, String>,
    /// Time the beneficiary is willing to wait. Unit: ms.
    pub deadline_ms: u64,
    /// If false only KILL is allowed.
    pub checkpoint_drain: bool,
}

/// A mode's numbers, or why it cannot be done.
type Estimate = Result<(Option<u64>, u64), Reason>;

impl Situation<'_> {
    fn step(&self) -> u64 {
        self.step_ms.unwrap_or(STEP_ASSUMED_MS)
    }

    fn save(&self) -> u64 {
        self.save_ms.unwrap_or(SAVE_ASSUMED_MS)
    }

    fn device_ms(&self, ms: u64) -> u64 {
        self.devices.saturating_mul(ms)
    }

    fn estimate(&self, mode: Mode) -> Estimate {
        if let Some(code) = self.refused.get(&mode) {
            return Err(Reason::ModeRefused { code: code.clone() });
        }
        match mode {
            Mode::KillFresh => self.kill_fresh(),
            Mode::Boundary => self.boundary(),
            Mode::Client => self.client(),
            Mode::Signal => self.signal(),
            Mode::Kill => {
                Ok((Some(REACTION_MS), self.device_ms(self.unsaved_ms.saturating_add(REACTION_MS))))
            }
        }
    }

    /// Right when no more is lost than by asking for a save and waiting for it.
    fn kill_fresh(&self) -> Estimate {
        if !self.checkpoint_seen {
            return Err(Reason::NoCheckpointYet);
        }
        let limit_ms = self.step().saturating_add(self.save());
        if self.unsaved_ms > limit_ms {
            return Err(Reason::NotFresh { age_ms: Ms(self.unsaved_ms), limit_ms: Ms(limit_ms) });
        }
        Ok((Some(REACTION_MS), self.device_ms(self.unsaved_ms.saturating_add(REACTION_MS))))
    }

    /// The work until the boundary is productive; what is lost is at most the step then begun.
    fn boundary(&self) -> Estimate {
        if !self.has_checkpoint_dir {
            return Err(Reason::NoCheckpointDir);
        }
        let until_next = self.save_interval_ms.map(|interval| {
            // A late boundary is due any moment; a whole further interval is the bound to plan with.
            let left_ms = interval.checked_sub(self.unsaved_ms).unwrap_or(interval);
            left_ms.saturating_add(REACTION_MS)
        });
        // Of unknown distance it may not come in time: then all that is at risk is lost.
        let lost_ms = if until_next.is_some() { self.step() } else { self.unsaved_ms };
        Ok((until_next, self.device_ms(lost_ms)))
    }

    /// As a signal, and better: the worker parks, so it can be taken back, and no collective is cut off.
    fn client(&self) -> Estimate {
        if !self.has_client {
            return Err(Reason::NoClient);
        }
        if self.client_unproven {
            return Err(Reason::ClientUnproven);
        }
        if !self.has_checkpoint_dir {
            return Err(Reason::NoCheckpointDir);
        }
        let delay = self.step().saturating_add(self.save());
        Ok((Some(delay), self.device_ms(delay)))
    }

    /// The step in progress ends, the save keeps the devices idle.
    fn signal(&self) -> Estimate {
        let Some(signal) = self.save_signal else { return Err(Reason::NoSaveSignal) };
        if self.signal_unproven {
            return Err(Reason::SignalUnproven);
        }
        if !self.signal_proven {
            return Err(Reason::SignalUntried);
        }
        if !self.has_checkpoint_dir {
            return Err(Reason::NoCheckpointDir);
        }
        let delay = self.step().saturating_add(self.save());
        let grace_ms = self.grace_ms.filter(|_| ends_launchers(signal.number));
        if let Some(grace_ms) = grace_ms.filter(|grace_ms| delay > *grace_ms) {
            return Err(Reason::GraceTooShort { delay_ms: Ms(delay), grace_ms: Ms(grace_ms) });
        }
        Ok((Some(delay), self.device_ms(delay)))
    }
}

/// Signals on which launchers such as torchrun end their processes: HUP, INT, QUIT, TERM. With any other the grace of a
/// launcher has nothing to do.
fn ends_launchers(signal: i32) -> bool {
    matches!(signal, 1 | 2 | 3 | 15)
}

/// Order of preference among modes that fit: compared field by field, top to bottom.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    /// 1. Lose least.
    loss_device_ms: u64,
    /// 2. Be quick.
    delay_ms: u64,
    /// 3. Ties: in the order of the modes.
    mode: Mode,
}

/// Picks a mode.
#[must_use]
pub fn plan(situation: &Situation<'_>) -> Plan {
    let allowed = |mode: &Mode| situation.checkpoint_drain || *mode == Mode::Kill;
    let estimates: Vec<(Mode, Estimate)> = Mode::ALL
        .into_iter()
        .filter(allowed)
        .map(|mode| (mode, situation.estimate(mode)))
        .collect();
    let chosen = choose(situation, &estimates);
    let (delay_ms, loss_device_ms) = match estimates.iter().find(|(mode, _)| *mode == chosen) {
        Some((_, Ok(numbers))) => *numbers,
        Some((_, Err(_))) | None => (Some(REACTION_MS), situation.device_ms(situation.unsaved_ms)),
    };
    let alternatives = estimates
        .into_iter()
        .map(|(mode, estimate)| {
            describe(situation, chosen, (delay_ms, loss_device_ms), mode, estimate)
        })
        .collect();
    Plan {
        mode: chosen,
        save_signal: situation.save_signal.filter(|_| chosen == Mode::Signal),
        delay_ms,
        loss_device_ms,
        deadline_ms: situation.deadline_ms,
        alternatives,
    }
}

/// The least loss within the deadline.
///
/// A kill is weighed against a save only where step and save were measured: an assumption must not cost
/// work that could be saved. Where no save is known to fit, a boundary of unknown distance is waited for
/// before anything is thrown away, if the deadline leaves room for any save at all; and if it is only assumed how long
/// a save takes, one is asked for.
fn choose(situation: &Situation<'_>, estimates: &[(Mode, Estimate)]) -> Mode {
    let known = |(mode, estimate): &(Mode, Estimate)| {
        let (delay, loss_device_ms) = *estimate.as_ref().ok()?;
        let delay_ms = delay.filter(|delay_ms| *delay_ms <= situation.deadline_ms)?;
        Some(Score { loss_device_ms, delay_ms, mode: *mode })
    };
    let saving = estimates.iter().filter(|(mode, _)| *mode != Mode::Kill).filter_map(known).min();
    let Some(saving) = saving else {
        let is_blind = |(_, estimate): &&(Mode, Estimate)| matches!(estimate, Ok((None, _)));
        let has_room = situation.step().saturating_add(situation.save()) <= situation.deadline_ms;
        let blind = estimates.iter().find(is_blind).filter(|_| has_room);
        // How long a save takes was only assumed: asking for one loses nothing but the wait that was granted.
        let is_asking = |(mode, estimate): &&(Mode, Estimate)| {
            matches!(mode, Mode::Client | Mode::Signal) && estimate.is_ok()
        };
        let is_assumed = situation.save_ms.is_none() && situation.deadline_ms >= ASK_MS_MIN;
        let asking = estimates.iter().find(is_asking).filter(|_| is_assumed);
        return blind.or(asking).map_or(Mode::Kill, |(mode, _)| *mode);
    };
    let is_measured = situation.step_ms.is_some() && situation.save_ms.is_some();
    let kill = estimates.iter().find(|(mode, _)| *mode == Mode::Kill).and_then(known);
    kill.filter(|kill| is_measured && *kill < saving).map_or(saving.mode, |kill| kill.mode)
}

/// True if some mode that saves is possible in itself and was left out only for its delay.
fn was_forced(situation: &Situation<'_>, mode: Mode) -> bool {
    mode == Mode::Kill
        && situation.checkpoint_drain
        && [Mode::Boundary, Mode::Client, Mode::Signal].into_iter().any(|saving| {
            match situation.estimate(saving) {
                Ok((Some(delay), _)) => delay > situation.deadline_ms,
                Ok((None, _)) | Err(_) => false,
            }
        })
}

fn describe(
    situation: &Situation<'_>,
    chosen: Mode,
    (chosen_delay, chosen_loss): (Option<u64>, u64),
    mode: Mode,
    estimate: Estimate,
) -> Alternative {
    let deadline_ms = Ms(situation.deadline_ms);
    let (delay_ms, loss_device_ms, reason) = match estimate {
        Err(reason) => (None, situation.device_ms(situation.unsaved_ms), reason),
        Ok((delay, loss)) if mode == chosen => {
            let reason = if !situation.checkpoint_drain {
                Reason::DrainSwitchedOff { mode }
            } else if was_forced(situation, mode) {
                Reason::DeadlineForced { mode, deadline_ms }
            } else {
                Reason::LeastLoss { mode, loss_device_ms: loss }
            };
            (delay, loss, reason)
        }
        Ok((delay, loss)) => {
            let delay_value = delay.unwrap_or(situation.deadline_ms);
            let reason = if delay_value > situation.deadline_ms {
                Reason::TooSlow { delay_ms: Ms(delay_value), deadline_ms }
            } else if loss > chosen_loss {
                Reason::MoreLoss { loss_device_ms: loss, chosen_device_ms: chosen_loss }
            } else {
                let chosen_ms = Ms(chosen_delay.unwrap_or(situation.deadline_ms));
                Reason::Slower { delay_ms: Ms(delay_value), chosen_ms }
            };
            (delay, loss, reason)
        }
    };
    Alternative { mode, delay_ms, loss_device_ms, chosen: mode == chosen, reason }
}
