//! Orders from the arbiter, each safe to repeat: what has been done is told again, not done again.

use super::watch::WATCH_PERIOD_MS;
use super::{Agent, Audience, HANDS_MAX, Hand, Output, Stage, TargetFacts};
use crate::client::ClientOrder;
use crate::drain::Mode;
use crate::id::{DrainId, WorkerId};
use crate::protocol::{DrainEvent, EventKind, Order, Refusal, Verb};
use crate::workload::SaveSignal;

pub(super) type Key = (DrainId, WorkerId);

/// The parts of a prepare order.
#[derive(Clone, Copy)]
struct Prepare {
    mode: Mode,
    save_signal: Option<SaveSignal>,
    baseline_step: Option<u64>,
    hard_ms: u64,
}

impl Agent {
    pub(super) fn order(&mut self, order: Order, facts: &TargetFacts) {
        let Order { drain, epoch, worker, verb } = order;
        let key = (drain, worker);
        if epoch < self.epoch {
            self.tell(&key, epoch, EventKind::StaleEpoch { seen: self.epoch });
            return;
        }
        self.epoch = epoch;
        if let Some(hand) = self.hands.get_mut(&key) {
            hand.epoch = epoch;
        }
        match verb {
            Verb::Prepare { mode, save_signal, baseline_step, hard_ms } => {
                let prepare = Prepare { mode, save_signal, baseline_step, hard_ms };
                self.prepare(&key, epoch, prepare, facts);
            }
            Verb::Commit => self.commit(&key, epoch),
            Verb::Extend { hard_ms } => self.extend(&key, epoch, hard_ms),
            Verb::Abort => self.abort(&key, epoch),
            Verb::Release { grace_ms } => self.release(&key, epoch, grace_ms),
            Verb::Restate => self.restate(&key, epoch),
        }
    }

    fn prepare(&mut self, key: &Key, epoch: u64, prepare: Prepare, facts: &TargetFacts) {
        if let Some(hand) = self.hands.get(key) {
            let same = hand.mode == prepare.mode && hand.save_signal == prepare.save_signal;
            let may_replace = match hand.stage {
                Stage::Prepared => !same,
                Stage::Aborted => true,
                Stage::Watching
                | Stage::Signalled
                | Stage::Durable
                | Stage::Failed
                | Stage::Expired
                | Stage::Releasing
                | Stage::Freed => false,
            };
            if !may_replace {
                let deadline_at = self.now.plus_ms(prepare.hard_ms);
                if hand.stage == Stage::Prepared && deadline_at < hand.deadline_at {
                    self.journal(Hand { deadline_at, ..hand.clone() });
                }
                self.restate(key, epoch);
                return;
            }
        }
        if let Err((refusal, detail)) = self.preflight(key, &prepare, facts) {
            self.tell(key, epoch, EventKind::Refused { refusal, detail });
            return;
        }
        self.supersede(key);
        let newest = self.newest_step(&key.1);
        let hand = Hand {
            drain: key.0.clone(),
            worker: key.1.clone(),
            epoch,
            mode: prepare.mode,
            save_signal: prepare.save_signal.filter(|_| prepare.mode == Mode::Signal),
            baseline_step: prepare.baseline_step.max(newest),
            deadline_at: self.now.plus_ms(prepare.hard_ms),
            stage: Stage::Prepared,
            save_intent: false,
            progress_seen: false,
            stall_told: false,
            term_intent: false,
            kill_intent: false,
            durable: None,
            failure: None,
            exit: None,
            stage_since: self.now,
            released_at: None,
            grace_ms: 0,
            release_ms: 0,
        };
        self.forget_oldest_hand();
        self.journal(hand);
        self.restate(key, epoch);
    }

    /// The arbiter has one drain of a gang at a time: an older one that is still open here was taken back
    /// while nobody could tell this node.
    fn supersede(&mut self, key: &Key) {
        let older = |h: &&Hand| h.worker == key.1 && h.drain != key.0 && h.stage.is_open();
        let older: Vec<Hand> = self.hands.values().filter(older).cloned().collect();
        for mut hand in older {
            let key = (hand.drain.clone(), hand.worker.clone());
            hand.enter(self.now, Stage::Aborted);
            self.journal(hand);
            self.unpark(&key);
        }
    }

    /// Everything that must be true before a worker is touched.
    fn preflight(
        &self,
        key: &Key,
        prepare: &Prepare,
        facts: &TargetFacts,
    ) -> Result<(), (Refusal, String)> {
        let Some(worker) = self.workers.get(&key.1) else {
            return Err((
                Refusal::NoWorker,
                format!("worker {} is not registered on node {}", key.1, self.node),
            ));
        };
        if worker.exit.is_some() || !facts.alive {
            let pid = worker.registration.pid;
            return Err((
                Refusal::StaleTarget,
                format!("process {pid} of worker {} has ended", key.1),
            ));
        }
        let releasing =
            |h: &&Hand| h.worker == key.1 && h.drain != key.0 && h.stage == Stage::Releasing;
        if let Some(other) = self.hands.values().find(releasing) {
            let detail = format!("{} of the same worker is being released", other.drain);
            return Err((Refusal::OtherDrain, detail));
        }
        if !prepare.mode.waits_for_checkpoint() {
            return Ok(());
        }
        if worker.registration.checkpoint_dir.is_empty() {
            return Err((
                Refusal::NoCheckpointDir,
                format!("worker {} declared no checkpoint directory", key.1),
            ));
        }
        self.check_space(&key.1, facts)?;
        if prepare.mode == Mode::Client && !worker.client.is_there() {
            let detail = format!("no process of worker {} has said hello in its files", key.1);
            return Err((Refusal::NoClient, detail));
        }
        match prepare.save_signal.filter(|_| prepare.mode == Mode::Signal) {
            None => Ok(()),
            Some(signal) if catches(facts.caught_signals, signal.number) => Ok(()),
            Some(signal) => {
                let (pid, number) = (worker.registration.pid, signal.number);
                let detail = format!(
                    "neither process {pid} nor a rank that it started catches signal {number}: they would die of it"
                );
                Err((Refusal::NoHandler, detail))
            }
        }
    }

    /// A save that runs into a full disk loses more than it saves: 1.2 × the last checkpoint must fit.
    fn check_space(&self, worker: &WorkerId, facts: &TargetFacts) -> Result<(), (Refusal, String)> {
        let checkpoint = self.workers.get(worker).and_then(|w| w.measured.checkpoint.as_ref());
        let (Some(checkpoint), Some(free_bytes)) = (checkpoint, facts.free_bytes) else {
            return Ok(());
        };
        let needed_bytes = checkpoint.bytes.saturating_add(checkpoint.bytes / 5);
        if needed_bytes <= free_bytes {
            return Ok(());
        }
        let detail = format!(
            "{free_bytes} bytes are free, {needed_bytes} are needed for another checkpoint"
        );
        Err((Refusal::NoSpace, detail))
    }

    fn commit(&mut self, key: &Key, epoch: u64) {
        let now = self.now;
        let is_saving =
            self.workers.get(&key.1).and_then(|w| w.scan.as_ref()).is_some_and(|s| s.saving);
        let Some(hand) = self.hands.get(key) else { return self.no_hand(key, epoch) };
        if hand.stage != Stage::Prepared {
            return self.restate(key, epoch);
        }
        let mut hand = hand.clone();
        // A save that is under way is as good as one that is asked for.
        let signal = hand.save_signal.filter(|_| !is_saving);
        if let Some(signal) = signal {
            hand.save_intent = true;
            hand.enter(now, Stage::Signalled);
            self.journal(hand);
            let worker = key.1.clone();
            self.outputs.push(Output::Signal {
                worker,
                signal: signal.number,
                audience: Audience::Main,
            });
        } else if hand.mode == Mode::Client && !is_saving {
            hand.save_intent = true;
            hand.enter(now, Stage::Signalled);
            self.journal(hand);
            self.tell_client(key, ClientOrder::Save);
        } else {
            hand.enter(now, Stage::Watching);
            self.journal(hand);
        }
        let worker = key.1.clone();
        self.outputs.push(Output::WatchEvery { worker, period_ms: WATCH_PERIOD_MS });
        self.restate(key, epoch);
    }

    fn extend(&mut self, key: &Key, epoch: u64, hard_ms: u64) {
        let Some(hand) = self.hands.get(key) else { return self.no_hand(key, epoch) };
        if matches!(hand.stage, Stage::Prepared | Stage::Watching | Stage::Signalled) {
            let deadline_at = self.now.plus_ms(hard_ms);
            self.journal(Hand { deadline_at, ..hand.clone() });
        }
    }

    fn abort(&mut self, key: &Key, epoch: u64) {
        let Some(hand) = self.hands.get(key) else {
            // Nothing was done and nothing will be: as good as aborted.
            return self.tell(key, epoch, EventKind::Aborted);
        };
        if matches!(hand.stage, Stage::Releasing | Stage::Freed) {
            // It cannot be taken back. No answer: an answer to which the arbiter says abort again would go on for ever.
            return;
        }
        if hand.stage != Stage::Aborted {
            let mut hand = hand.clone();
            hand.enter(self.now, Stage::Aborted);
            self.journal(hand);
            self.unpark(key);
            self.outputs.push(Output::WatchEvery { worker: key.1.clone(), period_ms: 0 });
        }
        self.restate(key, epoch);
    }

    /// The stream is up again: what was said while it was down may be lost, so all that is open is said again.
    pub(super) fn welcomed(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
        let open = self.hands.iter().filter(|(_, hand)| hand.stage.is_open());
        let keys: Vec<Key> = open.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.restate(&key, self.epoch);
        }
    }

    /// Says where a drain stands.
    pub(super) fn restate(&mut self, key: &Key, epoch: u64) {
        let Some(hand) = self.hands.get(key).cloned() else { return self.no_hand(key, epoch) };
        if hand.save_intent {
            self.tell(key, epoch, EventKind::Signalled);
        }
        if let Some(exit) = hand.exit {
            self.tell(key, epoch, EventKind::Exited(exit));
        }
        match hand.stage {
            Stage::Prepared | Stage::Watching | Stage::Signalled => {
                let kind = self.armed(&key.1);
                self.tell(key, epoch, kind);
                if hand.stall_told && !hand.progress_seen {
                    let waited_ms = self.now.ms_since(hand.stage_since);
                    self.tell(key, epoch, EventKind::NoProgress { waited_ms });
                }
            }
            Stage::Durable | Stage::Failed | Stage::Expired | Stage::Releasing => {
                self.tell_outcome(key, epoch, &hand);
            }
            Stage::Freed => {
                self.tell_outcome(key, epoch, &hand);
                self.tell_freed(key, epoch, &hand);
            }
            Stage::Aborted => self.tell(key, epoch, EventKind::Aborted),
        }
    }

    pub(super) fn tell_outcome(&mut self, key: &Key, epoch: u64, hand: &Hand) {
        if let Some(checkpoint) = hand.durable.clone() {
            let measured = self.workers.get(&key.1).map(|w| &w.measured);
            let seen_at = measured.filter(|m| m.checkpoint.as_ref() == Some(&checkpoint));
            let seen_at = seen_at.and_then(|m| m.checkpoint_at).unwrap_or(hand.stage_since);
            let age_ms = self.now.ms_since(seen_at);
            self.tell(key, epoch, EventKind::Durable { checkpoint, age_ms });
        } else if let Some((code, detail)) = hand.failure.clone() {
            self.tell(key, epoch, EventKind::SaveFailed { code, detail });
        }
    }

    pub(super) fn tell_freed(&mut self, key: &Key, epoch: u64, hand: &Hand) {
        let devices = self.workers.get(&key.1).map(|w| w.registration.devices.clone());
        let kind = EventKind::Freed {
            devices: devices.unwrap_or_default(),
            killed: hand.kill_intent,
            parked: self.has_parked(key),
            release_ms: hand.release_ms,
        };
        self.tell(key, epoch, kind);
    }

    fn armed(&self, worker: &WorkerId) -> EventKind {
        let measured = self.workers.get(worker).map(|w| &w.measured);
        let checkpoint = measured.and_then(|m| m.checkpoint.as_ref());
        let checkpoint_at = measured.and_then(|m| m.checkpoint_at);
        EventKind::Armed {
            step: checkpoint.map(|c| c.step),
            checkpoint_age_ms: checkpoint_at.map(|at| self.now.ms_since(at)),
        }
    }

    pub(super) fn no_hand(&mut self, key: &Key, epoch: u64) {
        let detail = format!("node {} has no record of {} for worker {}", self.node, key.0, key.1);
        self.tell(key, epoch, EventKind::Refused { refusal: Refusal::NoWorker, detail });
    }

    pub(super) fn tell(&mut self, key: &Key, epoch: u64, kind: EventKind) {
        let (drain, worker) = key.clone();
        self.outputs.push(Output::Send(DrainEvent { drain, epoch, worker, kind }));
    }

    /// Puts the hand into the journal and into the state.
    pub(super) fn journal(&mut self, hand: Hand) {
        self.outputs.push(Output::Journal(hand.clone()));
        self.hands.insert((hand.drain.clone(), hand.worker.clone()), hand);
    }

    fn newest_step(&self, worker: &WorkerId) -> Option<u64> {
        self.workers.get(worker)?.scan.as_ref()?.newest().map(|c| c.step)
    }

    fn forget_oldest_hand(&mut self) {
        if self.hands.len() < HANDS_MAX {
            return;
        }
        let closed = self.hands.iter().filter(|(_, h)| !h.stage.is_open());
        let oldest = closed.min_by_key(|(_, h)| h.stage_since).map(|(key, _)| key.clone());
        if let Some((drain, worker)) = oldest {
            self.hands.remove(&(drain.clone(), worker.clone()));
            self.outputs.push(Output::Unjournal { drain, worker });
        }
    }
}

fn catches(mask: u64, signal: i32) -> bool {
    (1..=64).contains(&signal) && mask & (1u64 << (signal - 1)) != 0
}
