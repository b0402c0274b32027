//! Admission and preemption: who of those who wait gets devices, and who is drained for them.
//!
//! Wanted properties: a gang starts whole or not at all; nobody gets devices that another holds or that
//! are held for another; quota is never exceeded; a victim's priority is always lower; deciding again
//! without a change decides nothing new.

use std::collections::{BTreeMap, BTreeSet};

use super::weigh::{Verdict, Weighed};
use super::{Arbiter, DecisionKind, Output};
use crate::drain::DrainState;
use crate::id::{DrainId, WorkloadName};
use crate::place::{Free, RankDemand, is_device, place};
use crate::reason::Reason;
use crate::unit::Time;
use crate::victims;
use crate::workload::{Assignment, Member, Phase, Reservation, Workload};

type Placement = BTreeMap<u32, Assignment>;

impl Arbiter {
    /// Everything that time alone brings about.
    pub(super) fn check_timers(&mut self) {
        let now = self.now;
        let avoided = self.avoid_until.len();
        self.avoid_until.retain(|_, until| *until > now);
        self.dirty |= self.avoid_until.len() != avoided;
        self.check_drains();
        self.check_launchers();
        self.check_vanished();
        if !self.awaited.is_empty() && !self.is_recovering() {
            self.awaited.clear();
            self.dirty = true;
        }
        if self.retry_at.is_some_and(|at| now >= at) {
            self.retry_at = None;
            self.dirty = true;
        }
    }

    pub(super) fn schedule(&mut self) {
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        if let Some(reason) = self.frozen() {
            self.tell_pending_of_freeze(&reason);
            return;
        }
        for name in self.pending_in_order() {
            self.consider(&name);
        }
    }

    /// Higher priority first, then who was submitted first, then by name.
    pub(super) fn pending_in_order(&self) -> Vec<WorkloadName> {
        let mut pending: Vec<&Workload> =
            self.workloads.values().filter(|w| w.phase == Phase::Pending).collect();
        pending.sort_by(|a, b| {
            let (x, y) = (&a.spec, &b.spec);
            y.priority
                .cmp(&x.priority)
                .then(a.submitted_at.cmp(&b.submitted_at))
                .then(x.name.cmp(&y.name))
        });
        pending.into_iter().map(|w| w.spec.name.clone()).collect()
    }

    fn consider(&mut self, name: &WorkloadName) {
        let Some(workload) = self.workloads.get(name) else { return };
        if let Some(reason) = not_ready(workload, self.now) {
            return self.wait(name, reason);
        }
        if self.consider_reservation(name) {
            return;
        }
        let blocked = match self.try_free(name) {
            Ok(placement) => return self.admit(name, placement, None),
            Err(reason) => reason,
        };
        match self.try_preempt(name) {
            Ok(()) => {}
            Err(Some(reason)) => self.wait(name, reason),
            Err(None) if self.waits_for_its_preemptor(name) => {}
            Err(None) => self.wait(name, blocked),
        }
    }

    /// As long as the workload for which it was drained has not ended, that is what it waits for.
    fn waits_for_its_preemptor(&self, name: &WorkloadName) -> bool {
        let beneficiary = match self.workloads.get(name).map(|w| &w.reason) {
            Some(
                Reason::ResumePending { beneficiary, .. }
                | Reason::RestartPending { beneficiary, .. },
            ) => beneficiary,
            Some(_) | None => return false,
        };
        beneficiary != name
            && self.workloads.get(beneficiary).is_some_and(|w| !w.phase.is_finished())
    }

    /// Room that is being made: taken when it is there. True if there is nothing else to decide.
    fn consider_reservation(&mut self, name: &WorkloadName) -> bool {
        let Some(reservation) = self.workloads.get(name).and_then(|w| w.reservation.clone()) else {
            return false;
        };
        let open = reservation
            .drains
            .iter()
            .find(|id| self.drains.get(*id).is_some_and(|d| d.state.is_open()));
        let Some(open) = open.cloned() else {
            let drain = reservation.drains.first().cloned();
            if self.is_available(name, &reservation.placement) {
                self.admit(name, reservation.placement, drain);
                return true;
            }
            if let Some(workload) = self.workloads.get_mut(name) {
                workload.reservation = None;
            }
            self.save_workload(name);
            return false;
        };
        // Others have made room in the meantime: nobody need be drained.
        if let Ok(placement) = self.try_free(name) {
            self.admit(name, placement, None);
            self.drop_demand_of(name);
            return true;
        }
        let victim = self.drains.get(&open).map(|d| d.victim.clone());
        if let Some(victim) = victim {
            self.wait(name, Reason::WaitingForDrain { drain: open, victim });
        }
        true
    }

    fn is_available(&self, name: &WorkloadName, placement: &Placement) -> bool {
        let free = self.free_for(name, &[]);
        placement.values().all(|a| {
            self.nodes.get(&a.node).is_some_and(|n| n.connected)
                && a.devices.iter().all(|d| free.contains(&a.node, d))
        })
    }

    /// A placement on devices that are free, within quota; else why not.
    fn try_free(&self, name: &WorkloadName) -> Result<Placement, Reason> {
        let Some(workload) = self.workloads.get(name) else { return Err(Reason::Submitted) };
        self.fits_quota(workload, &[])?;
        let free = self.free_for(name, &[]);
        place(&demands(workload), &free).ok_or_else(|| self.why_not_placed(workload, &free))
    }

    fn why_not_placed(&self, workload: &Workload, free: &Free) -> Reason {
        let wanted = workload.spec.resources.iter().find(|(resource, _)| is_device(resource));
        let Some((resource, requested)) = wanted.map(|(r, count)| (r.clone(), *count)) else {
            let nodes = workload.members.values().flat_map(|m| &m.nodes);
            let first = nodes.min().cloned();
            return first.map_or(Reason::NoNodes, |node| Reason::NodesNotConnected { node });
        };
        let count = |n: &super::Node| n.devices.values().filter(|d| d.resource == resource).count();
        let largest = self.nodes.values().map(count).max().unwrap_or(0) as u64;
        if requested > largest {
            return Reason::NoNodeLargeEnough { resource, requested, largest };
        }
        let free = free.count(&resource);
        Reason::WaitingForDevices { resource, requested, ranks: workload.spec.nnodes, free }
    }

    /// Chooses whom to drain and starts it. `Err(None)`: nobody can make room.
    fn try_preempt(&mut self, name: &WorkloadName) -> Result<(), Option<Reason>> {
        let Some(workload) = self.workloads.get(name) else { return Err(None) };
        let candidates = self.candidates_with_verdict(workload);
        let eligible: Vec<&Weighed> =
            candidates.iter().filter(|c| matches!(c.verdict, Verdict::Eligible)).collect();
        let costs: Vec<victims::Cost> = eligible.iter().map(|c| c.cost).collect();
        let names = |set: &[usize]| -> Vec<WorkloadName> {
            set.iter().map(|i| eligible[*i].workload.clone()).collect()
        };
        let placement_with = |set: &[usize]| {
            let victims = names(set);
            self.fits_quota(workload, &victims).ok()?;
            place(&demands(workload), &self.free_for(name, &victims))
        };
        let Some(chosen) = victims::choose(&costs, |set| placement_with(set).is_some()) else {
            return Err(self.protected_victim(&candidates));
        };
        let Some(placement) = placement_with(&chosen) else { return Err(None) };
        let victims = names(&chosen);
        let deadline_ms = self.deadline_of(workload);
        let priority = workload.spec.priority;
        let record = self.record_of_choice(name, &candidates, &victims);
        self.outputs.extend(record);
        let mut drains = BTreeSet::new();
        for (victim, index) in victims.iter().zip(&chosen) {
            let victim_priority = self.workloads.get(victim).map_or(0, |w| w.spec.priority);
            let cost_device_ms = costs[*index].cost_device_ms;
            let beneficiary = name.clone();
            let cause =
                Reason::PreemptedFor { beneficiary, priority, victim_priority, cost_device_ms };
            drains.extend(self.start_drain(victim, Some(name), deadline_ms, cause));
        }
        self.reserve(name, placement, drains, &victims);
        Ok(())
    }

    fn reserve(
        &mut self,
        name: &WorkloadName,
        placement: Placement,
        drains: BTreeSet<DrainId>,
        victims: &[WorkloadName],
    ) {
        let first = drains.first().cloned();
        if let Some(workload) = self.workloads.get_mut(name) {
            workload.reservation = Some(Reservation { placement, drains });
        }
        self.save_workload(name);
        if let (Some(drain), Some(victim)) = (first, victims.first().cloned()) {
            self.wait(name, Reason::WaitingForDrain { drain, victim });
        }
    }

    /// If only protection keeps a victim from making room: until when.
    fn protected_victim(&mut self, candidates: &[Weighed]) -> Option<Reason> {
        let protected = candidates.iter().filter_map(|c| match c.verdict {
            Verdict::Protected { wait_ms, .. } => Some((wait_ms, c.workload.clone())),
            Verdict::Eligible | Verdict::No(_) => None,
        });
        let (wait_ms, victim) = protected.min()?;
        let at = self.now.plus_ms(wait_ms);
        self.retry_at = Some(self.retry_at.map_or(at, |before| before.min(at)));
        Some(Reason::WaitingForFloor { victim, wait_ms: crate::reason::Ms(wait_ms) })
    }

    fn admit(&mut self, name: &WorkloadName, placement: Placement, held_by: Option<DrainId>) {
        let now = self.now;
        let nodes: BTreeSet<&str> = placement.values().map(|a| a.node.as_str()).collect();
        let nodes = nodes.into_iter().collect::<Vec<_>>().join(", ");
        let reason = match held_by {
            Some(drain) => Reason::AdmittedHeld { nodes, drain },
            None => Reason::AdmittedFree { nodes },
        };
        let Some(workload) = self.workloads.get_mut(name) else { return };
        workload.phase = Phase::Admitted;
        workload.phase_since = now;
        workload.attempt += 1;
        workload.reservation = None;
        workload.reason = reason.clone();
        for (rank, assignment) in placement {
            if let Some(member) = workload.members.get_mut(&rank) {
                member.assignment = Some(assignment);
                member.started = false;
                member.exit = None;
                member.vanished_at = None;
            }
        }
        self.decided(DecisionKind::Admit, Some(name), reason);
        self.save_workload(name);
        self.await_resume(name);
    }

    /// Notes why a workload waits; recorded as a decision when the kind of reason is new.
    pub(super) fn wait(&mut self, name: &WorkloadName, reason: Reason) {
        let Some(workload) = self.workloads.get_mut(name) else { return };
        if workload.reason == reason {
            return;
        }
        let is_new = workload.reason.code() != reason.code();
        workload.reason = reason.clone();
        self.save_workload(name);
        if is_new {
            self.decided(DecisionKind::Wait, Some(name), reason);
        }
    }

    /// The next time at which something is due without any input.
    pub(super) fn ask_for_wake(&mut self) {
        let config = &self.config;
        let mut due: Vec<Time> = Vec::new();
        due.extend(self.retry_at);
        due.extend(self.avoid_until.values());
        if !self.awaited.is_empty() {
            due.push(self.started_at.plus_ms(config.recovery_ms));
        }
        due.extend(self.drains.values().filter_map(|drain| match drain.state {
            DrainState::Ordered => Some(drain.state_since.plus_ms(config.arm_timeout_ms)),
            DrainState::Saving => Some(drain.deadline_at),
            // Everything else moves on with an event, or has moved on already.
            DrainState::Planned
            | DrainState::Armed
            | DrainState::Durable
            | DrainState::Releasing
            | DrainState::Freed
            | DrainState::HandedOver
            | DrainState::ResumePending
            | DrainState::Resumed
            | DrainState::Aborted
            | DrainState::Refused
            | DrainState::SaveFailed
            | DrainState::Expired
            | DrainState::Lost
            | DrainState::CompletedMeanwhile => None,
        }));
        for workload in self.workloads.values().filter(|w| !w.phase.is_finished()) {
            if workload.phase == Phase::Admitted {
                due.push(workload.phase_since.plus_ms(config.start_timeout_ms));
            }
            for member in workload.members.values().filter(|m| !m.started) {
                due.extend(member.detached_at.map(|at| at.plus_ms(config.launcher_gone_ms)));
            }
            for member in workload.members.values() {
                due.extend(member.vanished_at.map(|at| at.plus_ms(super::nodes::EXIT_REPORT_MS)));
            }
        }
        let now = self.now;
        if let Some(at) = due.into_iter().filter(|at| *at > now).min() {
            self.outputs.push(Output::WakeAt(at));
        }
    }
}

/// How long after a submission its launcher's watch is expected.
const LAUNCHER_EXPECTED_MS: u64 = 2_000;

/// Why a workload cannot be considered at all yet.
fn not_ready(workload: &Workload, now: Time) -> Option<Reason> {
    if !workload.is_complete() {
        let have = u32::try_from(workload.members.len()).unwrap_or(u32::MAX);
        return Some(Reason::GangIncomplete { have, want: workload.spec.nnodes });
    }
    let away = |m: &Member| m.detached_at.map(|at| now.ms_since(at));
    let (rank, away_ms) = workload.members.iter().find_map(|(rank, m)| Some((*rank, away(m)?)))?;
    // It has just been submitted; its watch is on the way.
    let is_new = workload.reason == Reason::Submitted && away_ms < LAUNCHER_EXPECTED_MS;
    Some(if is_new { Reason::Submitted } else { Reason::WaitingForLauncher { rank } })
}

fn demands(workload: &Workload) -> Vec<RankDemand<'_>> {
    workload
        .members
        .iter()
        .map(|(rank, member)| RankDemand {
            rank: *rank,
            nodes: &member.nodes,
            resources: &workload.spec.resources,
        })
        .collect()
}
