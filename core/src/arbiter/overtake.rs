//! A device begins to fail while a drain is open: of a gang that works on it, or for a gang that was to get it.
//!
//! Wanted properties: what is left of a deadline only ever becomes shorter; whoever has been asked to save is not asked
//! again; a save that was tried on a failing device is worth keeping; nobody waits for a device that nobody may be given.

use super::faults::Failing;
use super::{Arbiter, DecisionKind};
use crate::drain::{Drain, DrainState, Mode};
use crate::id::{DeviceId, DrainId, NodeName, WorkloadName};
use crate::protocol::{Health, Verb};
use crate::reason::Reason;
use crate::workload::Reservation;

impl Arbiter {
    /// The gang of this open drain has to leave within `within_ms`, because of `fault`.
    pub(super) fn overtake(&mut self, id: &DrainId, within_ms: u64, fault: Failing) {
        let Some(drain) = self.drains.get(id) else { return };
        let is_ending = match drain.state {
            DrainState::Planned | DrainState::Ordered | DrainState::Armed | DrainState::Saving => {
                false
            }
            DrainState::Durable => !drain.is_rehearsal,
            // Told to end, which is all there is to do; or over.
            DrainState::SaveFailed
            | DrainState::Expired
            | DrainState::Releasing
            | DrainState::Freed
            | DrainState::HandedOver
            | DrainState::ResumePending
            | DrainState::Resumed
            | DrainState::Aborted
            | DrainState::Refused
            | DrainState::Lost
            | DrainState::CompletedMeanwhile => true,
        };
        let left_ms = drain.deadline_at.ms_since(self.now);
        if is_ending || !drain.is_rehearsal && within_ms >= left_ms {
            return;
        }
        if self.is_to_be_planned_anew(drain, within_ms) {
            return self.replace_drain(id, within_ms, fault);
        }
        if drain.is_rehearsal {
            return self.make_real(id, within_ms, fault);
        }
        self.shorten(id, within_ms);
        let Some(victim) = self.drains.get(id).map(|d| d.victim.clone()) else { return };
        self.drain_decided(id, &victim, fault.hurries(within_ms));
    }

    /// Nobody has been asked for anything, and in so little time another way is better.
    fn is_to_be_planned_anew(&self, drain: &Drain, within_ms: u64) -> bool {
        let is_idle = !drain.is_committed()
            || drain.state == DrainState::Saving && drain.plan.mode == Mode::Boundary;
        if !is_idle || drain.was_asked() || self.is_past_return(drain) {
            return false;
        }
        let Some(workload) = self.workloads.get(&drain.victim) else { return false };
        let plan = self.plan_for(workload, within_ms, &drain.refused_modes);
        drain.is_rehearsal || plan.mode != drain.plan.mode
    }

    /// Takes the drain back and starts one for the fault.
    fn replace_drain(&mut self, id: &DrainId, within_ms: u64, fault: Failing) {
        let Some(victim) = self.drains.get(id).map(|d| d.victim.clone()) else { return };
        self.abort_drain(id, fault.overtakes());
        self.start_drain(&victim, None, within_ms, fault.cause());
    }

    /// A trial whose worker has been asked to save: the same save serves, and then the worker leaves.
    fn make_real(&mut self, id: &DrainId, within_ms: u64, fault: Failing) {
        self.shorten(id, within_ms);
        let cause = fault.cause();
        let Some(drain) = self.drains.get_mut(id) else { return };
        drain.is_rehearsal = false;
        drain.cause = cause.clone();
        let (victim, is_saved) = (drain.victim.clone(), drain.state == DrainState::Durable);
        if let Some(workload) = self.workloads.get_mut(&victim) {
            workload.reason = cause.clone();
        }
        self.save_workload(&victim);
        self.save_drain(id);
        self.drain_decided(id, &victim, cause);
        if is_saved {
            self.release(id);
        }
    }

    /// Moves the deadline forward; never back.
    fn shorten(&mut self, id: &DrainId, within_ms: u64) {
        let deadline_at = self.now.plus_ms(within_ms);
        let Some(drain) = self.drains.get_mut(id).filter(|d| deadline_at < d.deadline_at) else {
            return;
        };
        drain.deadline_at = deadline_at;
        drain.plan.deadline_ms = deadline_at.ms_since(drain.planned_at);
        let state = drain.state;
        self.save_drain(id);
        if state == DrainState::Ordered {
            self.send_to_all(id, Self::prepare_verb);
        } else {
            self.send_to_all(id, |_, _| Verb::Extend { hard_ms: within_ms });
        }
    }

    /// Whoever waits for a device that has begun to fail is placed anew, and drains that were for that alone are taken
    /// back, unless their gangs have to leave in any case.
    pub(super) fn drop_failing_reservations(&mut self) {
        if !self.dirty || self.frozen().is_some() {
            return;
        }
        let reserved = self.reserved().filter_map(|workload| {
            let (node, device) = self.failing_in(workload.reservation.as_ref()?)?;
            Some((workload.spec.name.clone(), node, device))
        });
        for (name, node, device) in reserved.collect::<Vec<_>>() {
            self.decided(
                DecisionKind::Workload,
                Some(&name),
                Reason::ReservationFailing { node, device },
            );
            self.keep_drains_of_failing(&name);
            self.drop_reservation(&name);
        }
    }

    fn failing_in(&self, reservation: &Reservation) -> Option<(NodeName, DeviceId)> {
        reservation.placement.values().find_map(|assignment| {
            let node = self.nodes.get(&assignment.node)?;
            let fails = |id: &&DeviceId| {
                node.devices.get(*id).is_some_and(|device| device.health == Health::Unhealthy)
            };
            Some((assignment.node.clone(), assignment.devices.iter().find(fails)?.clone()))
        })
    }

    /// Drains for `name` of gangs that work on a device that fails go on for nobody.
    fn keep_drains_of_failing(&mut self, name: &WorkloadName) {
        let for_it = |d: &&Drain| d.state.is_open() && d.beneficiary.as_ref() == Some(name);
        let kept: Vec<DrainId> = self
            .drains
            .values()
            .filter(for_it)
            .filter(|drain| self.works_on_failing(drain))
            .map(|drain| drain.id.clone())
            .collect();
        for id in kept {
            if let Some(drain) = self.drains.get_mut(&id) {
                drain.beneficiary = None;
            }
            if let Some(reservation) =
                self.workloads.get_mut(name).and_then(|w| w.reservation.as_mut())
            {
                reservation.drains.remove(&id);
            }
            self.save_drain(&id);
        }
    }

    fn works_on_failing(&self, drain: &Drain) -> bool {
        drain.members.values().any(|member| {
            let failing = self.failing_on(&member.node);
            member.devices.iter().any(|id| failing.contains(id))
        })
    }
}
