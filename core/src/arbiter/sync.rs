//! Keeps the scheduler's picture of workloads and nodes in step with the arbiter's.
//!
//! The arbiter's own state is the truth: whatever changed since the last decision is told to the scheduler before the
//! next one. So a scheduler built anew from stored state decides as the old one would have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Arbiter;
use super::engine::{key_of, name_of, waiting};
use super::schedule::not_ready;
use crate::drain::DrainState;
use crate::id::{DeviceId, NodeName, WorkloadName};
use crate::kueue::workload::EvictionReason;
use crate::reason::Reason;
use crate::scheduler::{Hold, Place};
use crate::unit::Time;
use crate::workload::{Phase, Workload};

impl Arbiter {
    /// Tells the scheduler everything: after a restart.
    pub(super) fn sync_all(&mut self) {
        self.touched.extend(self.workloads.keys().cloned());
        self.touched_nodes.extend(self.nodes.keys().cloned());
        self.sync();
    }

    /// Tells the scheduler what has changed.
    pub(super) fn sync(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        for name in &touched {
            self.watch(name);
            self.note_devices(name);
        }
        for name in std::mem::take(&mut self.touched_nodes) {
            self.take_stock(&name);
            match self.nodes.get(&name) {
                Some(node) => {
                    let place = self.place_of(&name, node);
                    self.scheduler.set_node(place);
                }
                None => self.scheduler.remove_node(name.as_str()),
            }
        }
        for name in touched {
            self.sync_workload(&name);
        }
    }

    /// Notes which devices `name` holds or has reserved.
    pub(super) fn note_devices(&mut self, name: &WorkloadName) {
        let devices = self.workloads.get(name).map(devices_of).unwrap_or_default();
        self.touched_nodes.extend(self.holders.set(name, devices));
    }

    fn sync_workload(&mut self, name: &WorkloadName) {
        let key = key_of(name);
        let Some(workload) = self.workloads.get(name) else { return self.scheduler.forget(&key) };
        if workload.phase.holds_devices() && self.cannot_leave(workload).is_some() {
            self.watchlist.set_bound(name, true);
        }
        let now = self.scheduler.place(&key);
        match place_of(workload, self.now) {
            None => self.scheduler.forget(&key),
            Some(Place::Waiting) => {
                let pinned = self.pinned(workload);
                let waiting = waiting(workload, pinned.as_ref());
                let was_drained = self.was_drained(workload);
                let is_news = self.scheduler.waiting(&key).is_none_or(|known| **known != waiting);
                if is_news && !self.scheduler.submit(Arc::new(waiting)) {
                    return self.tell_queue_unknown(name);
                }
                if was_drained && !self.scheduler.hold_offs().contains_key(&key) {
                    self.scheduler.restore_hold_off(key, None);
                }
            }
            Some(Place::Holding) => self.tell_hold(name),
            Some(Place::Running) if now == Some(Place::Leaving) => self.scheduler.stays(&key),
            Some(place @ (Place::Running | Place::Leaving))
                if now != Some(place) || self.is_outdated(workload) =>
            {
                self.scheduler.resume(self.holding(workload));
            }
            Some(Place::Running | Place::Leaving) => {}
        }
    }

    /// Whether it has been drained and has not run again since.
    fn was_drained(&self, workload: &Workload) -> bool {
        let last = workload.last_drain.as_ref().and_then(|id| self.drains.get(id));
        last.is_some_and(|d| matches!(d.state, DrainState::Freed | DrainState::HandedOver))
    }

    /// Whether the scheduler knows something else of what `workload`, which has not left, holds or why it goes: some of
    /// its ranks have gone, or what it runs on was held for it.
    fn is_outdated(&self, workload: &Workload) -> bool {
        let Some(known) = self.scheduler.snapshot().running(&key_of(&workload.spec.name)) else {
            return false;
        };
        let ranks = workload.members.values().filter(|m| m.assignment.is_some()).count();
        let reservation = known.workload.reservation.as_ref();
        let is_current = reservation.is_some_and(|known| {
            let pods = known.admission.pod_sets.iter().map(|p| u64::from(p.count));
            known.at_ms == workload.admitted_at.map_or(0, |at| at.0)
                && pods.sum::<u64>() == ranks as u64
        });
        let is_told = known.workload.eviction.as_ref().is_none_or(|eviction| {
            (eviction.reason == EvictionReason::Preempted) == (workload.phase == Phase::Draining)
        });
        !is_current || !is_told
    }

    /// What the scheduler no longer holds is not reserved any more either.
    pub(super) fn drop_lost_reservations(&mut self) {
        let is_lost = |w: &&Workload| {
            let place = self.scheduler.place(&key_of(&w.spec.name));
            w.reservation.is_some() && place == Some(Place::Waiting)
        };
        let lost = self.reserved().filter(is_lost).map(|w| w.spec.name.clone());
        for name in lost.collect::<Vec<_>>() {
            self.drop_reservation(&name);
        }
    }

    /// It was submitted to a queue that the queues file had once.
    fn tell_queue_unknown(&mut self, name: &WorkloadName) {
        let Some(queue) = self.workloads.get(name).map(|w| w.spec.queue.clone()) else { return };
        let known = self.known_queues();
        self.wait(name, Reason::QueueUnknown { queue, known });
    }

    /// What is reserved for `name` is held, until those who are drained for it have left.
    fn tell_hold(&mut self, name: &WorkloadName) {
        let Some(workload) = self.workloads.get(name) else { return };
        let Some(reservation) = &workload.reservation else { return };
        let open = reservation.drains.iter().filter_map(|id| self.drains.get(id));
        let open = open.filter(|drain| drain.state.is_open()).map(|drain| &drain.victim);
        // Ended workloads are drained by nobody and hold their devices until their workers are gone.
        let devices =
            reservation.placement.values().flat_map(|a| a.devices.iter().map(|d| (&a.node, d)));
        let ended = devices.flat_map(|(node, device)| self.holders.of(node, device));
        let victims: BTreeSet<_> = open.chain(ended.filter(|n| *n != name)).map(key_of).collect();
        let key = key_of(name);
        let waiting = waiting(workload, self.pinned(workload).as_ref());
        // With a launcher away nobody could start it: it keeps what it has, and gets it once all are back.
        let is_kept = not_ready(workload, self.now).is_some();
        let known = self.scheduler.hold_of(&key).zip(self.scheduler.snapshot().running(&key));
        if known.is_some_and(|(hold, running)| {
            hold.victims == victims
                && hold.is_kept == is_kept
                && running.workload.pod_sets == waiting.pod_sets
        }) {
            return;
        }
        let admission = self.admission_of(workload, &reservation.placement);
        let hold = Hold { admission, victims, is_kept };
        self.scheduler.hold(&Arc::new(waiting), hold, self.now.0);
    }

    /// Since when those who were preempted could have come back, for those who wait for demand to stay low.
    #[must_use]
    pub fn hold_offs(&self) -> BTreeMap<WorkloadName, Option<Time>> {
        let hold_offs = self.scheduler.hold_offs().iter();
        hold_offs.map(|(key, since)| (name_of(key), since.map(Time))).collect()
    }
}

/// Where a workload stands in the scheduler's words; `None` if nothing is to be decided about it.
fn place_of(workload: &Workload, now: Time) -> Option<Place> {
    let is_leaving = workload.members.values().any(|member| member.assignment.is_some());
    match workload.phase {
        Phase::Pending if workload.reservation.is_some() => Some(Place::Holding),
        Phase::Pending => not_ready(workload, now).is_none().then_some(Place::Waiting),
        Phase::Admitted | Phase::Running => Some(Place::Running),
        Phase::Draining => Some(Place::Leaving),
        Phase::Succeeded | Phase::Failed | Phase::Cancelled => is_leaving.then_some(Place::Leaving),
    }
}

/// What a workload holds or has reserved.
fn devices_of(workload: &Workload) -> BTreeSet<(NodeName, DeviceId)> {
    let held = workload.members.values().filter_map(|member| member.assignment.as_ref());
    let reserved = workload.reservation.iter().flat_map(|r| r.placement.values());
    let assignments = held.chain(reserved);
    let devices = assignments.flat_map(|a| a.devices.iter().map(|d| (a.node.clone(), d.clone())));
    devices.collect()
}
