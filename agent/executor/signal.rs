//! What a worker is asked: by which signal, which of its processes, or through its files; and what has to be known of it
//! before.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use nix::sys::signal::Signal;
use sluice_core::agent::{Agent, Audience, Input, Stage, TargetFacts};
use sluice_core::client::ClientOrder;
use sluice_core::id::{DrainId, WorkerId};
use sluice_core::protocol::{Order, Verb};
use tracing::{info, warn};

use super::scan::free_bytes;
use super::send::{SendError, send};
use super::{Executor, Held, is_in_stage, ranks};
use crate::report::count;
use crate::signals::{Disposition, SignalError, Target};

impl Executor {
    /// What an order has to know about its worker now.
    pub(crate) async fn facts(&self, order: &Order) -> TargetFacts {
        let Some(held) = self.workers.get(&order.worker) else { return TargetFacts::default() };
        // A file system may hang: it is asked only where the answer decides.
        let needs_space =
            matches!(order.verb, Verb::Prepare { mode, .. } if mode.waits_for_checkpoint());
        let masks = held.target.as_ref().and_then(|target| target.masks().ok());
        let caught = masks.map_or(0, |masks| masks.caught);
        TargetFacts {
            alive: masks.is_some(),
            caught_signals: caught | self.caught_by_ranks(held, order, caught),
            free_bytes: if needs_space { free_bytes(&held.registration).await } else { None },
        }
    }

    /// The save signal of `order`, as a mask, if the registered process does not catch it and ranks below it do.
    fn caught_by_ranks(&self, held: &Held, order: &Order, caught: u64) -> u64 {
        let Verb::Prepare { save_signal: Some(signal), .. } = order.verb else { return 0 };
        let Ok(number) = u32::try_from(signal.number) else { return 0 };
        let bit = number.checked_sub(1).and_then(|shift| 1_u64.checked_shl(shift)).unwrap_or(0);
        if caught & bit != 0 || self.ranks(held, number).is_empty() { 0 } else { bit }
    }

    fn ranks(&self, held: &Held, signal: u32) -> Vec<Target> {
        let reading = self.asking.processes.borrow();
        let registration = &held.registration;
        let worker = &registration.worker;
        let mut ranks = ranks::catching(reading.value.as_ref(), worker, registration.pid, signal);
        // The table may be older than a container's end.
        let is_of =
            |rank: &Target| registration.pod.as_ref().is_none_or(|pod| rank.check_pod(pod).is_ok());
        ranks.retain(is_of);
        ranks
    }

    pub(super) fn signal(
        &mut self,
        agent: &Agent,
        worker: &WorkerId,
        number: i32,
        audience: Audience,
    ) {
        let is_release = is_in_stage(agent, worker, |hand| hand.stage == Stage::Releasing);
        if audience == Audience::All && is_release {
            self.check_holders(agent, worker);
        }
        let held = self.workers.get(worker);
        let target = held.and_then(|held| held.target.as_ref());
        let ranks = match held {
            Some(held) if !is_release && !catches(target, number) => {
                u32::try_from(number).map(|n| self.ranks(held, n)).unwrap_or_default()
            }
            Some(_) | None => Vec::new(),
        };
        let pod = held.and_then(|held| held.registration.pod.as_ref());
        let is_meant = match pod.zip(target) {
            Some((pod, target)) => target.check_pod(pod).map_err(SendError::from),
            None => Ok(()),
        };
        match is_meant.and_then(|()| send(target, &ranks, worker, number, is_release)) {
            Ok(()) => {
                info!(%worker, signal = number, is_release, "signal sent");
                count(self.sent_counter(number, is_release));
            }
            // Being gone is what a release is for.
            Err(SendError::Refused(SignalError::NoSuchProcess { .. })) if is_release => {}
            Err(why) => {
                warn!(%worker, signal = number, "signal was not sent: {why}");
                count(&self.counters.signals_failed);
                let code = why.code();
                self.follow_ups.push_back(Input::SignalFailed { worker: worker.clone(), code });
            }
        }
    }

    pub(super) async fn tell_client(
        &mut self,
        worker: &WorkerId,
        drain: &DrainId,
        order: ClientOrder,
    ) {
        let Some(held) = self.workers.get(worker) else { return };
        match held.ask.tell(drain.clone(), order).await {
            Ok(()) => {
                info!(%worker, %drain, order = order.as_str(), "worker is told through its files");
                count(&self.counters.client_orders);
            }
            Err(why) => {
                let dir = &held.registration.drain_dir;
                warn!(%worker, %drain, dir, "the worker could not be told: {why}");
                let code = "client-unreachable".to_owned();
                if order == ClientOrder::Save {
                    self.follow_ups.push_back(Input::SignalFailed { worker: worker.clone(), code });
                }
            }
        }
    }

    fn sent_counter(&self, number: i32, is_release: bool) -> &AtomicU64 {
        match (is_release, number == Signal::SIGKILL as i32) {
            (false, _) => &self.counters.save_signals_sent,
            (true, false) => &self.counters.term_signals_sent,
            (true, true) => &self.counters.kill_signals_sent,
        }
    }
}

/// Whether the registered process has a handler for `number` now.
fn catches(target: Option<&Arc<Target>>, number: i32) -> bool {
    let Ok(signal) = Signal::try_from(number) else { return false };
    let masks = target.and_then(|target| target.masks().ok());
    masks.is_some_and(|masks| masks.disposition(signal) == Disposition::Caught)
}
