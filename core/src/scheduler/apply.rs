//! Carries the engine's verdicts out on the scheduler's own state.

use std::sync::Arc;

use crate::kueue::cycle::{self, Decision};
use crate::kueue::flavor::Assignment;
use crate::kueue::name::WorkloadKey;
use crate::kueue::order::{Pending, RequeueReason};
use crate::kueue::preempt::{Claim, Victim, find_candidates};
use crate::kueue::reason::PendingReason;
use crate::kueue::snapshot::{Running, Snapshot};
use crate::kueue::whatif::WhatIf;
use crate::kueue::workload::{Admission, EvictionReason, Workload};

use super::{Hold, Place, Policy, Protection, Rule, Scheduler, Standing, Verdict, admitted};

impl Scheduler {
    /// Carries out one verdict of the engine about `head`; whether it gave anything to anybody.
    pub(super) fn apply(
        &mut self,
        head: Pending,
        verdict: cycle::Verdict,
        now_ms: u64,
        standing: &dyn Fn(&Workload, &Workload) -> Standing,
        verdicts: &mut Vec<Verdict>,
    ) -> bool {
        let workload = Arc::clone(&head.workload);
        let key = workload.key.clone();
        self.due_ms.remove(&key);
        match verdict.decision.clone() {
            Decision::Admit(admission) => {
                if let Some(wait) = self.hold_off(&workload, now_ms, standing) {
                    // It steps aside: those behind it need not wait for that.
                    self.requeue(head, &verdict, RequeueReason::NotNominated);
                    verdicts.push(wait);
                    return false;
                }
                if !self.is_free(&workload, &admission, now_ms) {
                    self.requeue(head, &verdict, RequeueReason::LostToAnother);
                    verdicts.push(wait(key, PendingReason::WaitingForPreemptedWorkloads, None));
                    return false;
                }
                self.run(&workload, admission.clone(), now_ms);
                verdicts.push(Verdict::Admit { workload: key, admission, was_held: false });
                true
            }
            Decision::Preempt(victims) => {
                self.demand_is_high(&key);
                let verdict = self.preempt(head, &verdict, victims, now_ms, standing);
                let is_new = matches!(&verdict, Verdict::Preempt { .. });
                verdicts.push(verdict);
                is_new
            }
            Decision::Evict(reason) => {
                self.leaves(&key, reason, now_ms);
                verdicts.push(Verdict::Evict { workload: key, reason });
                true
            }
            Decision::AwaitVictims | Decision::Wait => {
                self.demand_is_high(&key);
                let reason = verdict.reason.unwrap_or(PendingReason::PendingEvaluation);
                let protected = self.protected_victim(&workload, &verdict, now_ms, standing);
                if let Some((_, protection)) = &protected {
                    self.due_ms.insert(key.clone(), protection.until_ms);
                }
                if let Some(requeue) = verdict.requeue {
                    self.requeue(head, &verdict, requeue);
                }
                let assignment = verdict.assignment.map(Box::new);
                verdicts.push(Verdict::Wait { workload: key, reason, assignment, protected });
                false
            }
        }
    }

    /// Whether what `workload` would get is free now. Within one cycle Kueue counts with what victims chosen in it will
    /// leave over; here nobody starts on that before they have left.
    fn is_free(&self, workload: &Workload, admission: &Admission, now_ms: u64) -> bool {
        let Some(queue) = self.snapshot.queue(&workload.queue) else { return false };
        let running = Running::new(admitted(workload, admission.clone(), now_ms));
        WhatIf::new(&self.snapshot).has_room(queue.node, &running.usage)
    }

    /// `workload` runs.
    pub(super) fn run(&mut self, workload: &Workload, admission: Admission, now_ms: u64) {
        let key = workload.key.clone();
        self.preempted.remove(&key);
        self.waiting.remove(&key);
        self.snapshot.insert(Running::new(admitted(workload, admission, now_ms)));
        self.places.insert(key, Place::Running);
    }

    fn requeue(&mut self, mut head: Pending, verdict: &cycle::Verdict, reason: RequeueReason) {
        head.progress.clone_from(&verdict.progress);
        if let Some(queue) = self.queues.get_mut(&head.workload.queue) {
            let usage = verdict.assignment.as_ref().map(|assignment| &assignment.usage);
            queue.requeue_with(head, reason, usage.filter(|usage| !usage.is_empty()));
        }
    }

    /// Makes the victims leave, and holds for the preemptor what they free if that rule is on.
    fn preempt(
        &mut self,
        head: Pending,
        verdict: &cycle::Verdict,
        victims: Vec<Victim>,
        now_ms: u64,
        standing: &dyn Fn(&Workload, &Workload) -> Standing,
    ) -> Verdict {
        let workload = Arc::clone(&head.workload);
        let key = workload.key.clone();
        let assignment = verdict.assignment.as_ref();
        let considered = assignment.map(|a| self.candidates(&workload, a, now_ms, standing));
        let has_new = victims.iter().any(|victim| !victim.is_leaving);
        for victim in victims.iter().filter(|victim| !victim.is_leaving) {
            self.leaves(&victim.workload, EvictionReason::Preempted, now_ms);
        }
        let admission = verdict.assignment.as_ref().zip(self.snapshot.queue(&verdict.queue));
        let admission = admission.map(|(assignment, queue)| assignment.to_admission(queue));
        let held = admission.filter(|_| self.policy.rules.is_on(Rule::HeldCapacity));
        if let Some(admission) = held.clone() {
            let victims = victims.iter().map(|victim| victim.workload.clone()).collect();
            self.hold(&workload, Hold { admission, victims, is_kept: false }, now_ms);
        } else {
            self.requeue(head, verdict, RequeueReason::PendingPreemption);
            if !has_new {
                let reason = PendingReason::WaitingForPreemptedWorkloads;
                return wait(key, reason, None);
            }
        }
        Verdict::Preempt {
            workload: key,
            victims,
            held,
            considered: considered.unwrap_or_default(),
        }
    }

    /// What a workload that was preempted needs is not free: the time for which it was begins anew.
    fn demand_is_high(&mut self, key: &WorkloadKey) {
        if let Some(free_since_ms) = self.preempted.get_mut(key) {
            *free_since_ms = None;
        }
    }

    /// A workload that was preempted, and could come back, waits until what it needs has been free for long enough.
    fn hold_off(
        &mut self,
        workload: &Workload,
        now_ms: u64,
        standing: &dyn Fn(&Workload, &Workload) -> Standing,
    ) -> Option<Verdict> {
        let key = &workload.key;
        let hold_off_ms = standing(workload, workload).hold_off_ms;
        if hold_off_ms == 0 || !self.policy.rules.is_on(Rule::Hysteresis) {
            return None;
        }
        let free_since_ms = *self.preempted.get_mut(key)?.get_or_insert(now_ms);
        let until_ms = free_since_ms.saturating_add(hold_off_ms);
        if now_ms >= until_ms {
            return None;
        }
        self.due_ms.insert(key.clone(), until_ms);
        let protection = Protection { until_ms, rule: Rule::Hysteresis };
        let protected = Some((key.clone(), protection));
        Some(wait(key.clone(), PendingReason::PendingEvaluation, protected))
    }

    /// If nobody could be chosen for a workload that needs preemption because of protection: whose ends first.
    fn protected_victim(
        &self,
        workload: &Workload,
        verdict: &cycle::Verdict,
        now_ms: u64,
        standing: &dyn Fn(&Workload, &Workload) -> Standing,
    ) -> Option<(WorkloadKey, Protection)> {
        let assignment = verdict.assignment.as_ref()?;
        if verdict.requeue != Some(RequeueReason::NoCandidates) {
            return None;
        }
        let candidates = self.candidates(workload, assignment, now_ms, standing);
        let protected = candidates
            .into_iter()
            .filter_map(|(key, standing)| Some((self.protection(&standing, now_ms)?, key)));
        protected.min().map(|(protection, key)| (key, protection))
    }
}

impl Scheduler {
    /// Whom Kueue's rules allow to be taken so that `workload` gets `assignment`, with what that would cost, in
    /// Kueue's order; also those that are protected now.
    #[must_use]
    pub fn candidates(
        &self,
        workload: &Workload,
        assignment: &Assignment,
        now_ms: u64,
        standing: &dyn Fn(&Workload, &Workload) -> Standing,
    ) -> Vec<(WorkloadKey, Standing)> {
        candidates_on(&self.snapshot, &self.policy, workload, assignment, now_ms, standing)
    }
}

/// [`Scheduler::candidates`] in any snapshot.
pub(super) fn candidates_on(
    snapshot: &Snapshot,
    policy: &Policy,
    workload: &Workload,
    assignment: &Assignment,
    now_ms: u64,
    standing: &dyn Fn(&Workload, &Workload) -> Standing,
) -> Vec<(WorkloadKey, Standing)> {
    let Some(queue) = snapshot.queue(&workload.queue) else { return Vec::new() };
    let claim = Claim::of_quota(workload, queue, assignment);
    let rule = &policy.victims;
    let candidates = find_candidates(&WhatIf::new(snapshot), &claim, rule, now_ms);
    let weigh =
        |running: &Running| (running.workload.key.clone(), standing(workload, &running.workload));
    candidates.into_iter().map(weigh).collect()
}

fn wait(
    workload: WorkloadKey,
    reason: PendingReason,
    protected: Option<(WorkloadKey, Protection)>,
) -> Verdict {
    Verdict::Wait { workload, reason, assignment: None, protected }
}
