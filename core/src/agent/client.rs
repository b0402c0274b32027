//! Workers that are asked through their files, and askings that nobody seems to heed.

use std::collections::BTreeMap;

use super::{Agent, Hand, Output, Stage};
use crate::client::{ClientOrder, ClientSeen};
use crate::drain::Mode;
use crate::id::{DrainId, WorkerId};
use crate::protocol::EventKind;
use crate::unit::Time;

/// Shortest time without any sign of a save after which an asking counts as not heeded. Evaluation and compilation
/// keep a trainer from its step boundary for longer; then its next periodic checkpoint is awaited instead.
pub(super) const STALL_MS_MIN: u64 = 15_000;
/// Steps within which a trainer that heeds has begun to save.
const STALL_STEPS: u64 = 3;
/// How long a checkpoint that the worker claims may stay unseen: file systems show what was closed within seconds.
const CLAIM_MS: u64 = 15_000;
/// How long the end of a worker that has saved waits until all its processes have parked: a process that is ended in
/// a collective can take its device down.
/// At most half of the grace of the release: the other half is for the worker to end in.
const PARK_MS: u64 = 2_000;
/// How long a worker stays parked when the wait is over and the arbiter does not say what comes next: it says so within
/// moments, or after the five seconds of a rehearsal. Devices are not kept idle while it is away.
const UNPARK_MS: u64 = 10_000;

type Key = (DrainId, WorkerId);

impl Agent {
    pub(super) fn looked(&mut self, id: &WorkerId, client: ClientSeen, grace_ms: Option<u64>) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        let changed = worker.client != client || worker.launcher_grace_ms != grace_ms;
        worker.client = client;
        worker.launcher_grace_ms = grace_ms;
        if !changed {
            return;
        }
        self.outputs.push(Output::WorkerChanged(id.clone()));
        for key in self.keys_of(id, |_| true) {
            self.note_parked(&key);
        }
        for key in self.keys_of(id, |stage| stage == Stage::Signalled) {
            self.heard(&key);
        }
    }

    /// The worker has said something while it is being asked.
    fn heard(&mut self, key: &Key) {
        let Some(hand) = self.hands.get(key).filter(|h| h.mode == Mode::Client).cloned() else {
            return;
        };
        let Some(worker) = self.workers.get_mut(&key.1) else { return };
        if let Some((rank, ack)) = worker.client.failed(&key.0) {
            let detail = format!("rank {rank} could not save: {}", ack.detail);
            return self.fail(key, hand, "client-failed", detail);
        }
        let has_begun = worker.client.has_begun(&key.0);
        if has_begun {
            self.note_progress(key);
        }
    }

    /// Kept when the worker and its files are gone.
    fn note_parked(&mut self, key: &Key) {
        let Some(worker) = self.workers.get_mut(&key.1) else { return };
        if worker.client.is_parked(&key.0) && worker.claimed_at(&key.0).is_none() {
            worker.claimed = Some((key.0.clone(), self.now));
        }
    }

    /// There is a sign of the save that was asked for.
    pub(super) fn note_progress(&mut self, key: &Key) {
        let Some(hand) = self.hands.get(key) else { return };
        if hand.stage == Stage::Signalled && !hand.progress_seen {
            self.journal(Hand { progress_seen: true, ..hand.clone() });
        }
    }

    /// Nothing of an asking has come about in time, or what was claimed is not there.
    pub(super) fn check_asked(&mut self, key: &Key, hand: &Hand) {
        let Some(worker) = self.workers.get(&key.1) else { return };
        let is_saving = worker.scan.as_ref().is_some_and(|s| s.saving);
        let claimed_at = worker.claimed_at(&key.0);
        if let Some(at) = claimed_at
            && hand.mode == Mode::Client
            && self.now.ms_since(at) >= CLAIM_MS
            && !is_saving
        {
            let detail = format!(
                "worker {} says that it has saved, and no complete checkpoint newer than before is there",
                key.1
            );
            return self.fail(key, hand.clone(), "claim-not-confirmed", detail);
        }
        let waited_ms = self.now.ms_since(hand.stage_since);
        if self.stall_at(hand).is_some_and(|at| self.now >= at) {
            self.journal(Hand { stall_told: true, ..hand.clone() });
            self.tell(key, hand.epoch, EventKind::NoProgress { waited_ms });
        }
    }

    /// When an asking counts as not heeded; `None` if it was, or that has been said.
    fn stall_at(&self, hand: &Hand) -> Option<Time> {
        if hand.progress_seen || hand.stall_told || hand.exit.is_some() {
            return None;
        }
        let step_ms = self.workers.get(&hand.worker).and_then(|w| w.measured.step_ms).unwrap_or(0);
        let limit_ms = step_ms.saturating_mul(STALL_STEPS).max(STALL_MS_MIN);
        Some(hand.stage_since.plus_ms(limit_ms))
    }

    /// When an asking has to be looked at again.
    pub(super) fn asked_wakes(&self, hand: &Hand) -> impl Iterator<Item = Time> {
        let claimed = self.workers.get(&hand.worker).and_then(|w| w.claimed_at(&hand.drain));
        let claimed = claimed.map(|at| at.plus_ms(CLAIM_MS)).filter(|at| *at > self.now);
        self.stall_at(hand).into_iter().chain(claimed)
    }

    fn fail(&mut self, key: &Key, mut hand: Hand, code: &str, detail: String) {
        hand.failure = Some((code.to_owned(), detail));
        hand.enter(self.now, Stage::Failed);
        let epoch = hand.epoch;
        self.journal(hand.clone());
        self.outputs.push(Output::WatchEvery { worker: key.1.clone(), period_ms: 0 });
        self.tell_outcome(key, epoch, &hand);
    }

    /// Writes what the worker is to do, unless that is what it was told last.
    pub(super) fn tell_client(&mut self, key: &Key, order: ClientOrder) {
        let Some(worker) = self.workers.get_mut(&key.1) else { return };
        let told = Some((key.0.clone(), order));
        if worker.told != told {
            worker.told = told;
            let (drain, worker) = key.clone();
            self.outputs.push(Output::TellClient { worker, drain, order });
        }
    }

    /// A worker that was asked through its files and is not to be ended goes on.
    pub(super) fn unpark(&mut self, key: &Key) {
        let was_asked = |h: &Hand| h.mode == Mode::Client && h.save_intent;
        if self.hands.get(key).is_some_and(was_asked) {
            self.tell_client(key, ClientOrder::Continue);
        }
    }

    /// Nobody says what comes after the save.
    pub(super) fn unpark_if_left(&mut self, key: &Key, hand: &Hand) {
        if self.now.ms_since(hand.stage_since) >= UNPARK_MS {
            self.unpark(key);
        }
    }

    /// When that is.
    pub(super) fn unpark_at(hand: &Hand, now: Time) -> Option<Time> {
        let at = hand.stage_since.plus_ms(UNPARK_MS);
        (hand.mode == Mode::Client && hand.save_intent && at > now).then_some(at)
    }

    /// After a restart: what each worker was told last is told again, which changes nothing if it had heard. An order
    /// that is over is not written anew: a worker that reads it would park for nobody.
    pub(super) fn retell(&mut self) {
        let mut last: BTreeMap<WorkerId, (bool, Time, Key, ClientOrder)> = BTreeMap::new();
        for (key, hand) in &self.hands {
            let Some(order) = Self::last_word(hand, self.now) else { continue };
            // The open one has the last word over those that were taken back.
            let word = (hand.stage.is_open(), hand.stage_since, key.clone(), order);
            if last.get(&key.1).is_none_or(|known| (known.0, known.1) <= (word.0, word.1)) {
                last.insert(key.1.clone(), word);
            }
        }
        for (_, _, key, order) in last.into_values() {
            self.tell_client(&key, order);
        }
    }

    /// What the worker is to do by this hand; `None` if it was never asked, or is gone with its files.
    fn last_word(hand: &Hand, now: Time) -> Option<ClientOrder> {
        let is_left = now.ms_since(hand.stage_since) >= UNPARK_MS;
        match hand.stage {
            _ if hand.mode != Mode::Client || !hand.save_intent => None,
            Stage::Durable | Stage::Failed | Stage::Expired if is_left => {
                Some(ClientOrder::Continue)
            }
            Stage::Prepared
            | Stage::Watching
            | Stage::Signalled
            | Stage::Durable
            | Stage::Failed
            | Stage::Expired
            | Stage::Releasing => Some(ClientOrder::Save),
            Stage::Aborted => Some(ClientOrder::Continue),
            Stage::Freed => None,
        }
    }

    /// True if the worker may be told to end now as far as its collectives go.
    pub(super) fn may_end(&self, key: &Key, hand: &Hand) -> bool {
        let waited_ms = hand.released_at.map_or(0, |at| self.now.ms_since(at));
        let asked = hand.mode == Mode::Client && hand.save_intent && hand.durable.is_some();
        !asked || self.is_parked(key) || waited_ms >= PARK_MS.min(hand.grace_ms / 2)
    }

    /// True if it parks for this drain, or did before it ended: its files go with it.
    pub(super) fn has_parked(&self, key: &Key) -> bool {
        let has_claimed = |w: &super::Worker| w.claimed_at(&key.0).is_some();
        self.is_parked(key) || self.workers.get(&key.1).is_some_and(has_claimed)
    }

    /// True if every process of the worker has said that it parks for this drain.
    pub(super) fn is_parked(&self, key: &Key) -> bool {
        self.workers.get(&key.1).is_some_and(|w| w.client.is_parked(&key.0))
    }
}

impl super::Worker {
    fn claimed_at(&self, drain: &DrainId) -> Option<Time> {
        self.claimed.as_ref().filter(|(claimed, _)| claimed == drain).map(|(_, at)| *at)
    }
}
