//! Admission and preemption: asks the scheduler, and carries out what it decides.
//!
//! Wanted properties: a gang starts whole or not at all; nobody gets devices that another holds or that
//! are held for another; quota is never exceeded; nobody is drained whom Kueue's rules spare; deciding again
//! without a change decides nothing new.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::devices::Placement;
use super::engine::{key_of, name_of};
use super::{Arbiter, DecisionKind, Output};
use crate::drain::DrainState;
use crate::id::{DrainId, WorkloadName};
use crate::kueue::name::WorkloadKey;
use crate::kueue::preempt::Victim;
use crate::kueue::reason::PendingReason;
use crate::kueue::workload::Admission;
use crate::reason::Reason;
use crate::scheduler::{Standing, Verdict};
use crate::unit::Time;
use crate::workload::{Member, Phase, Reservation, Workload, is_device};

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
        self.sync();
        let is_change = std::mem::take(&mut self.dirty);
        if !is_change && self.review.due().is_none_or(|due| due > self.now) {
            return;
        }
        if let Some(reason) = self.frozen() {
            self.tell_pending_of_freeze(&reason);
            return;
        }
        self.tell_those_not_ready();
        self.free_the_bound();
        let mut refused = BTreeSet::new();
        for round in 0..ROUNDS_MAX {
            if !self.decide(is_change && round == 0, &mut refused) {
                break;
            }
        }
    }

    /// One round of decisions; whether anybody got something. Whoever did may be a victim that was missing before.
    ///
    /// `refused`: who has a place for its slices and cannot have it for another reason. Others need not keep off it.
    fn decide(&mut self, is_change: bool, refused: &mut BTreeSet<WorkloadName>) -> bool {
        self.place_slices(refused);
        self.review(is_change);
        let mut scheduler = std::mem::replace(&mut self.scheduler, super::no_scheduler());
        let verdicts = scheduler.decide(self.now.0, &|preemptor, victim| {
            self.standing_of(&name_of(&preemptor.key), &name_of(&victim.key))
        });
        self.scheduler = scheduler;
        self.retry_at = self.scheduler.retry_at_ms().map(Time);
        let gives = |verdict: &Verdict| !matches!(verdict, Verdict::Wait { .. });
        let has_given = verdicts.iter().any(gives) | self.note_refused(&verdicts, refused);
        let mut relieved = Vec::new();
        for verdict in verdicts {
            relieved.extend(self.carry_out(verdict));
        }
        // Only now, since others may count on their drains from this decision on.
        for name in relieved {
            self.drop_demand_of(&name);
        }
        self.drop_lost_reservations();
        self.sync();
        has_given
    }

    /// Higher priority first, then who was submitted first, then by name.
    pub(super) fn pending_in_order(&self) -> Vec<WorkloadName> {
        let mut pending: Vec<&Workload> = self.pending().collect();
        pending.sort_by_key(|workload| turn_of(workload));
        pending.into_iter().map(|w| w.spec.name.clone()).collect()
    }

    fn tell_those_not_ready(&mut self) {
        let pending = self.watched().filter(|w| w.phase == Phase::Pending);
        let not_ready =
            pending.filter_map(|w| Some((w.spec.name.clone(), not_ready(w, self.now)?)));
        for (name, reason) in not_ready.collect::<Vec<_>>() {
            self.wait(&name, reason);
        }
    }

    /// Returns a workload that needs no victims any more.
    fn carry_out(&mut self, verdict: Verdict) -> Option<WorkloadName> {
        match verdict {
            Verdict::Admit { workload, admission, was_held } => {
                let name = name_of(&workload);
                return self.admitted(&name, &admission, was_held).then_some(name);
            }
            Verdict::Preempt { workload, victims, held, considered } => {
                let name = name_of(&workload);
                self.preempt(&name, &victims, held.as_ref(), &considered);
            }
            Verdict::Evict { workload, reason } => self.evict(&name_of(&workload), reason.code()),
            Verdict::Wait { workload, reason, assignment, protected } => {
                let alike = self.scheduler.alike(&workload);
                let name = name_of(&workload);
                let why = self.why_no_slice(&name).unwrap_or_else(|| {
                    self.why_waiting(&name, reason, assignment.as_deref(), protected)
                });
                for name in std::iter::once(name).chain(alike.iter().map(name_of)) {
                    let why = self.why_no_slice(&name).unwrap_or_else(|| why.clone());
                    if !self.waits_for_its_preemptor(&name) || self.is_telling(&why) {
                        self.wait(&name, why);
                    }
                }
            }
        }
        None
    }

    /// A reason that says more than that somebody else runs.
    fn is_telling(&self, reason: &Reason) -> bool {
        matches!(
            reason,
            Reason::HeldOff { .. }
                | Reason::WaitingForDrain { .. }
                | Reason::WaitingForFloor { .. }
        )
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

    /// The scheduler gave it quota and nodes; here it gets devices. If that cannot be, it waits again. Whether it got
    /// them while others are drained for it, who then need not be.
    fn admitted(&mut self, name: &WorkloadName, admission: &Admission, was_held: bool) -> bool {
        self.touched.insert(name.clone());
        let Some(workload) = self.workloads.get(name) else { return false };
        let reservation = workload.reservation.clone().filter(|_| was_held);
        let held = reservation.filter(|r| self.is_available(name, &r.placement));
        let (placement, drain) = match held {
            Some(held) => (Some(held.placement), held.drains.first().cloned()),
            None => (self.devices_for(workload, admission, &BTreeSet::new()), None),
        };
        if let Some(placement) = placement {
            let had_reservation = workload.reservation.is_some();
            self.take_slices(name);
            self.admit(name, placement, drain);
            return had_reservation && !was_held;
        }
        let wanted = workload.spec.resources.iter().find(|(r, _)| is_device(r.as_str()));
        if let Some((resource, requested)) = wanted.map(|(r, count)| (r.clone(), *count)) {
            let (ranks, free) = (workload.spec.nnodes, self.stock.free(&resource));
            self.wait(name, Reason::WaitingForDevices { resource, requested, ranks, free });
        }
        let had = self.workloads.get_mut(name).and_then(|w| w.reservation.take()).is_some();
        if had {
            self.save_workload(name);
            self.dirty = true;
        }
        false
    }

    /// Drains `victims` for `name`, and reserves for it what was held.
    fn preempt(
        &mut self,
        name: &WorkloadName,
        victims: &[Victim],
        held: Option<&Admission>,
        considered: &[(WorkloadKey, Standing)],
    ) {
        let Some(workload) = self.workloads.get(name) else { return };
        let all: BTreeSet<WorkloadName> = victims.iter().map(|v| name_of(&v.workload)).collect();
        let placement = held.and_then(|held| self.devices_for(workload, held, &all));
        let (deadline_ms, priority) = (self.deadline_of(workload), workload.spec.priority);
        self.record_choice(name, considered, &all);
        let mut drains = BTreeSet::new();
        for victim in &all {
            if let Some(open) = self.open_drain_of(victim) {
                drains.insert(open.id.clone());
                continue;
            }
            let running = self.workloads.get(victim).filter(|w| w.phase == Phase::Running);
            // One that has ended leaves without being told to.
            let Some(victim_priority) = running.map(|w| w.spec.priority) else { continue };
            let cost_device_ms = cost_of(considered, victim);
            let beneficiary = name.clone();
            let cause =
                Reason::PreemptedFor { beneficiary, priority, victim_priority, cost_device_ms };
            drains.extend(self.start_drain(victim, Some(name), deadline_ms, cause));
        }
        self.touched.extend(all.iter().cloned());
        self.touched.insert(name.clone());
        let first = drains.first().cloned().zip(all.first().cloned());
        if let Some(placement) = placement {
            self.take_slices(name);
            self.reserve(name, placement, drains);
        }
        let why = match first {
            Some((drain, victim)) => Reason::WaitingForDrain { drain, victim },
            // Those that go have ended: it waits for their workers to be gone.
            None => self.why_waiting(name, PendingReason::WaitingForPreemptedWorkloads, None, None),
        };
        self.wait(name, why);
    }

    fn reserve(&mut self, name: &WorkloadName, placement: Placement, drains: BTreeSet<DrainId>) {
        if let Some(workload) = self.workloads.get_mut(name) {
            workload.reservation = Some(Reservation { placement, drains });
        }
        self.note_devices(name);
        self.save_workload(name);
    }

    /// What it runs on is broken: it is drained for nobody, while it still can save.
    fn evict(&mut self, name: &WorkloadName, why: &str) {
        let Some(workload) = self.workloads.get(name) else { return };
        let deadline_ms = self.deadline_of(workload);
        let cause = Reason::Evicted { why: why.to_owned() };
        self.start_drain(name, None, deadline_ms, cause);
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
        workload.admitted_at = Some(now);
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
        self.note_devices(name);
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
        due.extend(self.review.due());
        due.extend(self.wave_due());
        due.extend(self.next_move_at());
        if self.dirty {
            due.push(self.now.plus_ms(1));
        }
        due.extend(self.avoid_until.values());
        if !self.awaited.is_empty() {
            due.push(self.started_at.plus_ms(config.recovery_ms));
        }
        due.extend(self.drains.values().filter_map(|drain| match drain.state {
            DrainState::Ordered => Some(drain.state_since.plus_ms(config.arm_timeout_ms)),
            DrainState::Saving => Some(drain.deadline_at),
            DrainState::Durable if drain.is_rehearsal => {
                Some(drain.state_since.plus_ms(super::rehearse::REHEARSAL_WATCH_MS))
            }
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
        for workload in self.watched().filter(|w| !w.phase.is_finished()) {
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

/// When it is the turn of a workload: less is earlier.
pub(super) fn turn_of(workload: &Workload) -> (Reverse<i32>, Time, &WorkloadName) {
    let spec = &workload.spec;
    (Reverse(spec.priority), workload.submitted_at, &spec.name)
}

fn cost_of(considered: &[(WorkloadKey, Standing)], victim: &WorkloadName) -> u64 {
    let key = key_of(victim);
    let found = considered.iter().find(|(considered, _)| *considered == key);
    found.map_or(0, |(_, standing)| standing.cost_device_ms)
}

/// Most rounds of decisions in one step. Two do nearly always; the next step goes on where this one ends.
const ROUNDS_MAX: usize = 8;

/// How long after a submission its launcher's watch is expected.
const LAUNCHER_EXPECTED_MS: u64 = 2_000;

/// Why a workload cannot be considered at all yet.
pub(super) fn not_ready(workload: &Workload, now: Time) -> Option<Reason> {
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
