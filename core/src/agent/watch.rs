//! What the node sees of its workers, and what time does to them.

use super::{Agent, Hand, Measured, Output, Registration, Stage, WORKERS_MAX, Worker};
use std::collections::BTreeSet;

use crate::checkpoint::CheckpointScan;
use crate::client::ClientSeen;
use crate::id::{DeviceId, DrainId, WorkerId};
use crate::protocol::{EventKind, WorkerReport};
use crate::unit::Time;
use crate::workload::Exit;

/// How often a directory is looked into while its next checkpoint is awaited. Half of it is lost work on
/// average; each look costs less than a millisecond.
pub(super) const WATCH_PERIOD_MS: u64 = 100;
/// How often holders are looked for while a worker is being ended.
const HOLDERS_PERIOD_MS: u64 = 100;
/// How long after a worker's exit its checkpoint may still become complete (write-back, rename).
const SETTLE_MS: u64 = 3_000;
/// How long a worker that is gone is still reported, so that the arbiter surely learns of it.
const GONE_MS: u64 = 60_000;
/// How long a closed drain is remembered, so that it can be told again.
const CLOSED_MS: u64 = 600_000;

impl Worker {
    pub(super) fn new(now: Time, registration: Registration) -> Self {
        Self {
            registration,
            since: now,
            exit: None,
            scan: None,
            measured: Measured::default(),
            client: ClientSeen::default(),
            launcher_grace_ms: None,
            told: None,
            claimed: None,
            processes: 1,
            gone_at: None,
        }
    }

    /// True once nothing of it lives any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.exit.is_some() && self.processes == 0
    }

    pub(super) fn report(&self, now: Time) -> WorkerReport {
        let measured = &self.measured;
        WorkerReport {
            device_fault: None,
            running: !self.is_gone(),
            checkpoint: measured.checkpoint.clone(),
            checkpoint_age_ms: measured.checkpoint_at.map(|at| now.ms_since(at)),
            checkpoint_is_of_this_attempt: measured.is_of_this_attempt,
            step_ms: measured.step_ms,
            save_interval_ms: measured.save_interval_ms,
            save_ms: measured.save_ms,
            saves: measured.saves(),
            running_ms: now.ms_since(self.since),
            has_client: self.client.is_there(),
            launcher_grace_ms: self.launcher_grace_ms,
        }
    }
}

impl Agent {
    pub(super) fn register(&mut self, registration: Registration) {
        let id = registration.worker.clone();
        if self.workers.get(&id).is_some_and(|w| w.registration == registration) {
            return;
        }
        if self.workers.len() >= WORKERS_MAX && !self.workers.contains_key(&id) {
            return;
        }
        self.outputs.push(Output::SaveWorker(registration.clone()));
        self.workers.insert(id.clone(), Worker::new(self.now, registration));
        self.outputs.push(Output::WorkerChanged(id));
    }

    /// Takes up journalled hands: an intent to signal counts as a signal sent.
    pub(super) fn recover(&mut self, hands: Vec<Hand>) {
        for hand in hands {
            let key = (hand.drain.clone(), hand.worker.clone());
            if hand.stage.awaits_checkpoint() {
                let worker = hand.worker.clone();
                self.outputs.push(Output::WatchEvery { worker, period_ms: WATCH_PERIOD_MS });
            }
            if hand.stage == Stage::Releasing {
                self.outputs.push(Output::CheckHolders(hand.worker.clone()));
            }
            self.hands.insert(key, hand);
        }
        self.retell();
        for worker in self.workers.keys() {
            self.outputs.push(Output::WorkerChanged(worker.clone()));
        }
    }

    pub(super) fn scanned(&mut self, id: &WorkerId, scan: CheckpointScan) {
        let now = self.now;
        let Some(worker) = self.workers.get_mut(id) else { return };
        let before = worker.measured.clone();
        worker.measured.observe(now, &scan);
        let changed = worker.measured != before
            || worker.scan.as_ref().map(|s| s.saving) != Some(scan.saving);
        let is_saving = scan.saving;
        worker.scan = Some(scan);
        if changed {
            self.outputs.push(Output::WorkerChanged(id.clone()));
        }
        for key in self.keys_of(id, Stage::awaits_checkpoint) {
            if is_saving {
                self.note_progress(&key);
            }
            self.look_for_checkpoint(&key);
        }
        for key in self.keys_of(id, |stage| stage == Stage::Releasing) {
            self.look_for_parting_checkpoint(&key);
            self.term_if_due(&key);
        }
    }

    /// The durable predicate of one rank: a complete checkpoint newer than the baseline.
    fn look_for_checkpoint(&mut self, key: &(DrainId, WorkerId)) {
        let Some(hand) = self.hands.get(key) else { return };
        let Some(worker) = self.workers.get(&key.1) else { return };
        let Some(scan) = &worker.scan else { return };
        let newer = |step: u64| hand.baseline_step.is_none_or(|baseline| step > baseline);
        let found = scan.newest().filter(|c| newer(c.step)).cloned();
        let settled = worker.exit.is_some()
            && self.now.ms_since(hand.stage_since) >= SETTLE_MS
            && !scan.saving;
        let mut hand = hand.clone();
        if let Some(checkpoint) = found {
            hand.durable = Some(checkpoint);
            hand.enter(self.now, Stage::Durable);
        } else if settled && hand.stage == Stage::Signalled {
            let detail =
                format!("worker {} ended and left no complete checkpoint newer than before", key.1);
            hand.failure = Some(("ended-without-save".to_owned(), detail));
            hand.enter(self.now, Stage::Failed);
        } else {
            return;
        }
        let epoch = hand.epoch;
        self.journal(hand.clone());
        self.outputs.push(Output::WatchEvery { worker: key.1.clone(), period_ms: 0 });
        self.tell_outcome(key, epoch, &hand);
    }

    /// A worker that saves when it is told to end has lost nothing.
    fn look_for_parting_checkpoint(&mut self, key: &(DrainId, WorkerId)) {
        let Some(hand) = self.hands.get(key) else { return };
        let scan = self.workers.get(&key.1).and_then(|w| w.scan.as_ref());
        let known = hand.durable.as_ref().map(|c| c.step).max(hand.baseline_step);
        let found = scan.and_then(CheckpointScan::newest).filter(|c| Some(c.step) > known).cloned();
        let Some(checkpoint) = found else { return };
        let hand = Hand { durable: Some(checkpoint), ..hand.clone() };
        self.journal(hand.clone());
        self.tell_outcome(key, hand.epoch, &hand);
    }

    pub(super) fn exited(&mut self, id: &WorkerId, exit: Exit) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        if worker.exit.is_some() {
            return;
        }
        worker.exit = Some(exit);
        self.outputs.push(Output::WorkerChanged(id.clone()));
        self.outputs.push(Output::CheckHolders(id.clone()));
        for key in self.keys_of(id, Stage::is_open) {
            let Some(hand) = self.hands.get(&key) else { continue };
            let mut hand = Hand { exit: Some(exit), ..hand.clone() };
            if hand.stage == Stage::Signalled {
                // The time to settle counts from the exit.
                hand.enter(self.now, Stage::Signalled);
            }
            let epoch = hand.epoch;
            self.journal(hand);
            self.tell(&key, epoch, EventKind::Exited(exit));
        }
    }

    pub(super) fn holders(
        &mut self,
        id: &WorkerId,
        processes: u32,
        busy_devices: &BTreeSet<DeviceId>,
    ) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        let was_gone = worker.is_gone();
        worker.processes = processes;
        let gone = worker.is_gone();
        let idle = gone && busy_devices.is_disjoint(&worker.registration.devices);
        if gone && !was_gone {
            worker.gone_at = Some(self.now);
            self.outputs.push(Output::WorkerChanged(id.clone()));
        }
        for key in self.keys_of(id, |stage| stage == Stage::Releasing) {
            if idle {
                self.freed(&key);
            }
        }
    }

    fn freed(&mut self, key: &(DrainId, WorkerId)) {
        let Some(hand) = self.hands.get(key) else { return };
        let mut hand = hand.clone();
        hand.release_ms = hand.released_at.map_or(0, |at| self.now.ms_since(at));
        hand.enter(self.now, Stage::Freed);
        let epoch = hand.epoch;
        self.journal(hand.clone());
        self.tell_freed(key, epoch, &hand);
    }

    pub(super) fn signal_failed(&mut self, id: &WorkerId, code: &str) {
        for key in self.keys_of(id, |stage| stage == Stage::Signalled) {
            let Some(hand) = self.hands.get(&key) else { continue };
            let mut hand = hand.clone();
            let detail = format!("worker {id} could not be asked to save");
            hand.failure = Some((code.to_owned(), detail));
            hand.enter(self.now, Stage::Failed);
            let epoch = hand.epoch;
            self.journal(hand.clone());
            self.tell_outcome(&key, epoch, &hand);
        }
    }

    pub(super) fn check_timers(&mut self) {
        let keys: Vec<(DrainId, WorkerId)> = self.hands.keys().cloned().collect();
        for key in keys {
            self.check_hand(&key);
        }
        self.forget_gone_workers();
        self.ask_for_wake();
    }

    fn check_hand(&mut self, key: &(DrainId, WorkerId)) {
        let Some(hand) = self.hands.get(key).cloned() else { return };
        match hand.stage {
            Stage::Watching | Stage::Signalled if self.now >= hand.deadline_at => {
                let mut hand = hand;
                let detail =
                    format!("no complete checkpoint of worker {} before the deadline", key.1);
                hand.failure = Some(("deadline-passed".to_owned(), detail));
                hand.enter(self.now, Stage::Expired);
                self.journal(hand.clone());
                self.tell_outcome(key, hand.epoch, &hand);
            }
            Stage::Signalled if hand.exit.is_some() => self.look_for_checkpoint(key),
            Stage::Signalled => self.check_asked(key, &hand),
            Stage::Durable | Stage::Failed | Stage::Expired => self.unpark_if_left(key, &hand),
            Stage::Releasing => self.check_release(key, &hand),
            Stage::Freed | Stage::Aborted if self.now.ms_since(hand.stage_since) >= CLOSED_MS => {
                self.hands.remove(key);
                let (drain, worker) = key.clone();
                self.outputs.push(Output::Unjournal { drain, worker });
            }
            Stage::Prepared | Stage::Watching | Stage::Freed | Stage::Aborted => {}
        }
    }

    fn check_release(&mut self, key: &(DrainId, WorkerId), hand: &Hand) {
        let Some(released_at) = hand.released_at else { return };
        if !self.workers.contains_key(&key.1) {
            // Not registered any more: nothing of it is left to end.
            return self.freed(key);
        }
        self.term_if_due(key);
        let is_gone = self.workers.get(&key.1).is_none_or(Worker::is_gone);
        let grace_is_over = self.now.ms_since(released_at) >= hand.grace_ms;
        if grace_is_over && !is_gone && !hand.kill_intent && self.is_ended_here(&key.1) {
            self.kill(key);
        }
    }

    fn forget_gone_workers(&mut self) {
        let now = self.now;
        let in_use: BTreeSet<WorkerId> =
            self.hands.values().filter(|h| h.stage.is_open()).map(|h| h.worker.clone()).collect();
        let gone: Vec<WorkerId> = self
            .workers
            .iter()
            .filter(|(id, w)| {
                !in_use.contains(id) && w.gone_at.is_some_and(|at| now.ms_since(at) >= GONE_MS)
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in gone {
            self.workers.remove(&id);
            self.outputs.push(Output::ForgetWorker(id));
        }
    }

    /// Looks again soon where something is awaited that no event announces.
    fn ask_for_wake(&mut self) {
        let mut wake: Option<Time> = None;
        let mut at = |time: Time| wake = Some(wake.map_or(time, |w| w.min(time)));
        let mut look = BTreeSet::new();
        for hand in self.hands.values() {
            match hand.stage {
                Stage::Watching | Stage::Signalled => {
                    at(hand.deadline_at);
                    if hand.exit.is_some() {
                        at(hand.stage_since.plus_ms(SETTLE_MS));
                    } else if hand.stage == Stage::Signalled {
                        self.asked_wakes(hand).for_each(&mut at);
                    }
                }
                Stage::Releasing => {
                    look.insert(hand.worker.clone());
                }
                Stage::Freed | Stage::Aborted => at(hand.stage_since.plus_ms(CLOSED_MS)),
                Stage::Durable | Stage::Failed | Stage::Expired => {
                    Self::unpark_at(hand, self.now).into_iter().for_each(&mut at);
                }
                Stage::Prepared => {}
            }
        }
        for (id, worker) in &self.workers {
            if worker.exit.is_some() && !worker.is_gone() {
                look.insert(id.clone());
            }
        }
        self.look_for_holders(look, wake);
    }

    fn look_for_holders(&mut self, look: BTreeSet<WorkerId>, mut wake: Option<Time>) {
        if look.is_empty() {
            self.next_look = None;
        } else if self.next_look.is_none_or(|next| self.now >= next) {
            let next = self.now.plus_ms(HOLDERS_PERIOD_MS);
            self.next_look = Some(next);
            self.outputs.extend(look.into_iter().map(Output::CheckHolders));
        }
        if let Some(next) = self.next_look {
            wake = Some(wake.map_or(next, |w| w.min(next)));
        }
        self.outputs.extend(wake.map(Output::WakeAt));
    }

    pub(super) fn keys_of(
        &self,
        id: &WorkerId,
        stage: impl Fn(Stage) -> bool,
    ) -> Vec<(DrainId, WorkerId)> {
        let matching =
            self.hands.iter().filter(|((_, worker), hand)| worker == id && stage(hand.stage));
        matching.map(|(key, _)| key.clone()).collect()
    }
}
