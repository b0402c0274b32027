//! The end of a worker that is drained: told to end once it has saved and parked, killed after the grace.

use super::hand::{SIGKILL, SIGTERM};
use super::orders::Key;
use super::watch::WATCH_PERIOD_MS;
use super::{Agent, Audience, Hand, Output, Stage};
use crate::id::WorkerId;

impl Agent {
    pub(super) fn release(&mut self, key: &Key, epoch: u64, grace_ms: u64) {
        let Some(hand) = self.hands.get(key) else { return self.no_hand(key, epoch) };
        if matches!(hand.stage, Stage::Releasing | Stage::Freed) {
            return self.restate(key, epoch);
        }
        let mut hand = hand.clone();
        hand.released_at = Some(self.now);
        hand.grace_ms = grace_ms;
        hand.enter(self.now, Stage::Releasing);
        let is_put_off = self.awaits_term(&hand) && !self.is_term_due(&hand);
        if is_put_off {
            self.journal(hand);
        } else {
            self.term(hand);
        }
        // Only a save puts the end off: its own is looked for.
        let period_ms = if is_put_off { WATCH_PERIOD_MS } else { 0 };
        self.outputs.push(Output::WatchEvery { worker: key.1.clone(), period_ms });
        self.outputs.push(Output::CheckHolders(key.1.clone()));
    }

    /// The worker lives and was not told to end. One that was asked to save by SIGTERM was.
    fn awaits_term(&self, hand: &Hand) -> bool {
        let alive = self.workers.get(&hand.worker).is_some_and(|w| w.exit.is_none());
        alive && !hand.term_intent && !hand.was_saved_by_term() && self.is_ended_here(&hand.worker)
    }

    /// False for a pod that kubelet ends: there is at most one sender for each process.
    pub(super) fn is_ended_here(&self, worker: &WorkerId) -> bool {
        let pod = self.workers.get(worker).and_then(|w| w.registration.pod.as_ref());
        !pod.is_some_and(|pod| pod.is_ended_by_kubelet)
    }

    /// Whether a worker that is being released is to be told so now.
    ///
    /// A trainer that is ended while it saves leaves a torn checkpoint, from which many then try to resume. So a save
    /// that goes on may end, for half of the grace: the other half is for the worker to end in.
    fn is_term_due(&self, hand: &Hand) -> bool {
        let scan = self.workers.get(&hand.worker).and_then(|w| w.scan.as_ref());
        let waited_ms = hand.released_at.map_or(0, |at| self.now.ms_since(at));
        let has_saved = !scan.is_some_and(|scan| scan.saving) || waited_ms >= hand.grace_ms / 2;
        has_saved && self.may_end(&(hand.drain.clone(), hand.worker.clone()), hand)
    }

    /// Journals the hand and tells its worker to end, once.
    fn term(&mut self, mut hand: Hand) {
        let is_awaited = self.awaits_term(&hand);
        let worker = hand.worker.clone();
        hand.term_intent |= is_awaited;
        self.journal(hand);
        if is_awaited {
            self.signal(&worker, SIGTERM, Audience::Main);
        }
    }

    /// Tells a worker to end whose end was put off because it was saving.
    pub(super) fn term_if_due(&mut self, key: &Key) {
        let Some(hand) = self.hands.get(key).cloned() else { return };
        if self.awaits_term(&hand) && self.is_term_due(&hand) {
            self.term(hand);
            self.outputs.push(Output::WatchEvery { worker: key.1.clone(), period_ms: 0 });
        }
    }

    pub(super) fn kill(&mut self, key: &Key) {
        let Some(hand) = self.hands.get(key) else { return };
        if !hand.kill_intent {
            self.journal(Hand { kill_intent: true, ..hand.clone() });
        }
        self.signal(&key.1, SIGKILL, Audience::All);
    }

    pub(super) fn signal(&mut self, worker: &WorkerId, signal: i32, audience: Audience) {
        self.outputs.push(Output::Signal { worker: worker.clone(), signal, audience });
    }
}
