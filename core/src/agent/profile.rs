//! What can be measured of a worker by looking at its checkpoint directory.
//!
//! The order in which things are seen counts; file times do not. A checkpoint that was there at the
//! first look is not taken as written by this attempt.

use std::collections::BTreeSet;

use crate::checkpoint::{Checkpoint, CheckpointScan};
use crate::unit::Time;

/// Saves of which the times are kept. With 20 the p95 leaves out one outlier; an hour of a trainer that saves every three
/// minutes.
const SAVES_MAX: usize = 20;

/// Measurements. See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured {
    /// The complete checkpoint that appeared last (or, before any did, the newest at the first look).
    pub checkpoint: Option<Checkpoint>,
    /// Since when it may have been complete: the last look that did not find it.
    pub checkpoint_at: Option<Time>,
    /// Whether it appeared while this agent watched this attempt.
    pub is_of_this_attempt: bool,
    /// Time of a step. Unit: ms.
    pub step_ms: Option<u64>,
    /// Time from one checkpoint to the next. Unit: ms.
    pub save_interval_ms: Option<u64>,
    /// Time a save takes: the p95 of the last twenty. Unit: ms.
    pub save_ms: Option<u64>,
    /// Times of the last saves, oldest first. Unit: ms.
    saves_ms: Vec<u64>,
    known_steps: BTreeSet<u64>,
    saving_since: Option<Time>,
    looked_at: Option<Time>,
}

impl Measured {
    /// Takes in a look. Returns true if a checkpoint has appeared.
    pub(super) fn observe(&mut self, now: Time, scan: &CheckpointScan) -> bool {
        let steps: BTreeSet<u64> = scan.complete.iter().map(|c| c.step).collect();
        let appeared = scan.complete.iter().find(|c| !self.known_steps.contains(&c.step)).cloned();
        if self.looked_at.is_none() {
            self.checkpoint = scan.newest().cloned();
            self.checkpoint_at = self.checkpoint.as_ref().map(|_| now);
        } else if let Some(checkpoint) = appeared.clone() {
            self.appeared(now, checkpoint);
        }
        let is_first = self.known_steps.is_empty() && !self.is_of_this_attempt;
        self.known_steps = steps;
        self.looked_at = Some(now);
        self.note_saving(now, scan);
        appeared.is_some() && !is_first
    }

    fn appeared(&mut self, now: Time, checkpoint: Checkpoint) {
        if let Some(since) = self.saving_since.take() {
            // Rather too long than too short: a deadline is planned with it.
            self.note_save(now.ms_since(since));
        }
        if let (true, Some(before), Some(at)) =
            (self.is_of_this_attempt, &self.checkpoint, self.checkpoint_at)
        {
            let interval = self.looked_at.unwrap_or(now).ms_since(at);
            if checkpoint.step > before.step && interval > 0 {
                self.save_interval_ms =
                    Some(self.save_interval_ms.map_or(interval, |b| mean(b, interval)));
                let working = interval.saturating_sub(self.save_ms.unwrap_or(0));
                let step = (working / (checkpoint.step - before.step)).max(1);
                self.step_ms = Some(self.step_ms.map_or(step, |b| mean(b, step)));
            }
        }
        self.is_of_this_attempt = true;
        self.checkpoint = Some(checkpoint);
        // What was lost since then is rather told too high than too low.
        self.checkpoint_at = Some(self.looked_at.unwrap_or(now));
    }

    fn note_save(&mut self, took_ms: u64) {
        if self.saves_ms.len() >= SAVES_MAX {
            self.saves_ms.remove(0);
        }
        self.saves_ms.push(took_ms);
        self.save_ms = p95(&self.saves_ms);
    }

    /// Number of saves that [`Self::save_ms`] rests on.
    pub(super) fn saves(&self) -> u32 {
        u32::try_from(self.saves_ms.len()).unwrap_or(u32::MAX)
    }

    fn note_saving(&mut self, now: Time, scan: &CheckpointScan) {
        if !scan.saving {
            self.saving_since = None;
        } else if self.saving_since.is_none() {
            self.saving_since = Some(now);
        }
    }
}

/// The value at the 95th percentile by nearest rank: of 20 values the second largest, of fewer the largest.
fn p95(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * 95).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

/// Three parts what was known, one part what is new: follows a change within a few saves, shrugs off an outlier.
fn mean(before: u64, new: u64) -> u64 {
    (before.saturating_mul(3).saturating_add(new)) / 4
}
