//! How drains end other than by their own course, and what follows a release: taken back, lost, overtaken by
//! events, handed over, resumed, forgotten.

use super::drain_steps::AVOID_MS;
use super::{Arbiter, CLOSED_DRAINS_MAX, Output};
use crate::drain::{Drain, DrainState, Mode};
use crate::id::{DrainId, WorkloadName};
use crate::kueue::reason::PendingReason;
use crate::protocol::Verb;
use crate::reason::Reason;
use crate::workload::{Exit, Phase, Workload};

impl Arbiter {
    /// Takes a drain back; the workers go on. Only before a worker was told to end.
    pub(super) fn abort_drain(&mut self, id: &DrainId, reason: Reason) {
        self.stop_drain(id, DrainState::Aborted, reason);
    }

    /// Ends a drain without release, in `state`.
    pub(super) fn stop_drain(&mut self, id: &DrainId, state: DrainState, reason: Reason) {
        let now = self.now;
        let Some(drain) = self.drains.get(id).filter(|d| d.state.is_open()) else { return };
        let victim = drain.victim.clone();
        self.enter(id, state, reason);
        self.send_to_all(id, |_, _| Verb::Abort);
        if let Some(workload) =
            self.workloads.get_mut(&victim).filter(|w| w.phase == Phase::Draining)
        {
            workload.phase = Phase::Running;
            workload.phase_since = now;
            workload.reason = Reason::Started { attempt: workload.attempt };
            // A drain that was taken back cost nothing: it does not count.
            workload.profile.drained_at.pop();
        }
        if !self.drains.get(id).is_some_and(|d| d.is_rehearsal) {
            self.avoid_until.insert(victim.clone(), now.plus_ms(AVOID_MS));
        }
        self.save_workload(&victim);
        self.dissolve_reservations_on(id);
        self.dirty = true;
    }

    /// Whoever counted on this drain decides anew.
    fn dissolve_reservations_on(&mut self, id: &DrainId) {
        let mut dissolved = Vec::new();
        for (name, workload) in &mut self.workloads {
            if workload.reservation.as_ref().is_some_and(|r| r.drains.contains(id)) {
                let reservation = workload.reservation.take();
                dissolved.push((name.clone(), reservation.map(|r| r.drains).unwrap_or_default()));
            }
        }
        for (name, drains) in dissolved {
            self.save_workload(&name);
            for other in drains.into_iter().filter(|other| other != id) {
                self.give_up_for(&other, &name);
            }
        }
    }

    /// The victim of this drain has ended: whoever counted on it keeps what is held, and waits for the others, and for
    /// the victim's workers to be gone. If no more drains are needed, the scheduler finds that out.
    fn go_on_without(&mut self, id: &DrainId) {
        let mut concerned = Vec::new();
        let reserved: Vec<WorkloadName> = self.reserved().map(|w| w.spec.name.clone()).collect();
        for name in reserved {
            let reservation = self.workloads.get_mut(&name).and_then(|w| w.reservation.as_mut());
            if reservation.is_some_and(|r| r.drains.remove(id)) {
                concerned.push(name);
            }
        }
        for name in concerned {
            self.save_workload(&name);
            let why =
                self.why_waiting(&name, PendingReason::WaitingForPreemptedWorkloads, None, None);
            self.wait(&name, why);
        }
    }

    /// The beneficiary no longer needs this drain: taken back if that can be, else carried through for nobody.
    fn give_up_for(&mut self, id: &DrainId, beneficiary: &WorkloadName) {
        let Some(drain) = self.drains.get(id).filter(|d| d.state.is_open()) else { return };
        let counts_on =
            |w: &&Workload| w.reservation.as_ref().is_some_and(|r| r.drains.contains(id));
        let others = self.reserved().filter(counts_on).map(|w| &w.spec.name);
        let other = others.into_iter().find(|other| *other != beneficiary).cloned();
        if let Some(other) = other {
            if let Some(drain) = self.drains.get_mut(id) {
                drain.beneficiary = Some(other);
                self.save_drain(id);
            }
            return;
        }
        if !self.is_past_return(drain) {
            let beneficiary = beneficiary.clone();
            return self.abort_drain(id, Reason::DemandGone { beneficiary });
        }
        if let Some(drain) = self.drains.get_mut(id) {
            drain.beneficiary = None;
            self.save_drain(id);
        }
    }

    /// Nothing is reserved for `name` any more, and drains for it alone are taken back. It decides anew.
    pub(super) fn drop_reservation(&mut self, name: &WorkloadName) {
        let Some(workload) = self.workloads.get_mut(name) else { return };
        if workload.reservation.take().is_some() {
            self.save_workload(name);
            self.drop_demand_of(name);
            self.dirty = true;
        }
    }

    /// True if the gang cannot go on as if nothing had been: it was told to end, or a rank has ended after a signal.
    pub(super) fn is_past_return(&self, drain: &Drain) -> bool {
        let gone =
            drain.members.values().any(|m| m.exited) || self.has_reported_exit(&drain.victim);
        drain.is_past_return() || (drain.was_asked() && gone)
    }

    pub(super) fn has_succeeded_rank(&self, workload: &WorkloadName) -> bool {
        let members = self.workloads.get(workload).into_iter().flat_map(|w| w.members.values());
        members.into_iter().any(|m| m.exit.is_some_and(Exit::is_success))
    }

    /// True if what was asked through its files has ended well, and left no checkpoint for this drain: nothing that was
    /// asked makes a worker end, so it was done. A signal may: what its handler's exit means is not known.
    pub(super) fn has_ended_by_itself(&self, drain: &Drain) -> bool {
        let Some(workload) = self.workloads.get(&drain.victim) else { return false };
        let mut exits = workload.members.iter().filter_map(|(rank, m)| Some((*rank, m.exit?)));
        drain.plan.mode == Mode::Client
            && drain.was_asked()
            && workload.members.values().any(|m| m.exit.is_some())
            && exits.all(|(rank, exit)| {
                let saved = drain.members.get(&rank).is_some_and(|m| m.durable_step.is_some());
                exit.is_success() && !saved
            })
    }

    /// The gang is done, or about to be: what is left of it goes on to its end.
    pub(super) fn finished_while_asked(&mut self, id: &DrainId) {
        let Some(victim) = self.drains.get(id).map(|d| d.victim.clone()) else { return };
        self.abort_drain(id, Reason::FinishedMeanwhile);
        let done = self
            .workloads
            .get(&victim)
            .and_then(|w| w.members.iter().find_map(|(rank, m)| Some((*rank, m.exit?))));
        if let Some((rank, exit)) = done {
            self.rank_ended(&victim, rank, exit);
        }
    }

    fn has_reported_exit(&self, workload: &WorkloadName) -> bool {
        let members = self.workloads.get(workload).into_iter().flat_map(|w| w.members.values());
        members.into_iter().any(|m| m.exit.is_some())
    }

    /// A workload needs no room any more: drains for it are taken back.
    pub(super) fn drop_demand_of(&mut self, name: &WorkloadName) {
        let for_it = |d: &&Drain| d.state.is_open() && d.beneficiary.as_ref() == Some(name);
        let ids: Vec<DrainId> = self.drains.values().filter(for_it).map(|d| d.id.clone()).collect();
        for id in ids {
            self.give_up_for(&id, name);
        }
    }

    /// The victim ended: nothing is left to drain or to resume.
    pub(super) fn end_drains_of_ended(&mut self, victim: &WorkloadName) {
        let Some(id) = self.workloads.get(victim).and_then(|w| w.last_drain.clone()) else {
            return;
        };
        let Some(state) = self.drains.get(&id).map(|d| d.state) else { return };
        if state.is_open() {
            self.enter(&id, DrainState::CompletedMeanwhile, Reason::FinishedMeanwhile);
            self.send_to_all(&id, |_, _| Verb::Abort);
            self.go_on_without(&id);
        } else if !state.is_closed() {
            self.enter(&id, DrainState::CompletedMeanwhile, Reason::EndedBeforeResume);
        }
    }

    /// The beneficiary runs: drains made for it have handed over.
    pub(super) fn hand_over_to(&mut self, beneficiary: &WorkloadName) {
        let freed = |d: &&Drain| {
            d.state == DrainState::Freed && d.beneficiary.as_ref() == Some(beneficiary)
        };
        let ids: Vec<DrainId> = self.drains.values().filter(freed).map(|d| d.id.clone()).collect();
        for id in ids {
            self.enter(
                &id,
                DrainState::HandedOver,
                Reason::HandedOver { beneficiary: beneficiary.clone() },
            );
        }
    }

    /// The victim has devices again: the first new checkpoint will tell where it resumed.
    pub(super) fn await_resume(&mut self, victim: &WorkloadName) {
        let Some(id) = self.workloads.get(victim).and_then(|w| w.last_drain.clone()) else {
            return;
        };
        let Some(drain) = self.drains.get(&id) else { return };
        if matches!(drain.state, DrainState::Freed | DrainState::HandedOver) {
            let reason = match &drain.saved {
                Some(checkpoint) => Reason::WaitsToResume { step: checkpoint.step },
                None => Reason::WaitsToRestart,
            };
            self.enter(&id, DrainState::ResumePending, reason);
        }
    }

    pub(super) fn forget_closed_drains(&mut self) {
        let closed = || self.drains.values().filter(|d| d.state.is_closed());
        if closed().count() < CLOSED_DRAINS_MAX {
            return;
        }
        if let Some(oldest) = closed().min_by_key(|d| d.state_since).map(|d| d.id.clone()) {
            self.drains.remove(&oldest);
            self.outputs.push(Output::ForgetDrain(oldest));
        }
    }
}
