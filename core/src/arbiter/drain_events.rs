//! What agents say about drains. Anything late, repeated or of another drain is ignored.

use super::{Arbiter, Output};
use crate::checkpoint::Checkpoint;
use crate::drain::{Drain, DrainMember, DrainState, Mode, REPLANS_MAX};
use crate::id::{DrainId, NodeName, WorkerId};
use crate::protocol::{DrainEvent, EventKind, Order, Refusal, Verb};
use crate::reason::Reason;
use crate::workload::{Exit, Phase};

impl Arbiter {
    pub(super) fn drain_event(&mut self, node: &NodeName, event: DrainEvent) {
        let DrainEvent { drain: id, epoch: _, worker, kind } = event;
        if self.drains.get(&id).is_none_or(|d| !d.state.is_open()) {
            return self.let_go(node, id, worker, &kind);
        }
        let Some(drain) = self.drains.get(&id) else { return };
        let is_member = drain.members.get(&worker.rank).is_some_and(|m| m.node == *node);
        let is_current = drain.victim == worker.workload && drain.attempt == worker.attempt;
        if !is_member || !is_current || !drain.state.is_open() {
            return;
        }
        let rank = worker.rank;
        match kind {
            EventKind::Armed { step, .. } => self.armed(&id, rank, step),
            EventKind::Refused { refusal, detail } => self.refused(&id, rank, refusal, detail),
            EventKind::Signalled => self.update_member(&id, rank, |m| m.signalled = true),
            EventKind::Durable { checkpoint, age_ms } => {
                self.durable(&id, rank, &checkpoint, age_ms);
            }
            EventKind::NoProgress { waited_ms } => self.no_progress(&id, waited_ms),
            EventKind::SaveFailed { code, detail } => self.save_failed(&id, code, detail),
            EventKind::Exited(exit) => self.worker_exited(&id, rank, exit),
            EventKind::Freed { killed, parked, .. } => {
                if killed && !parked {
                    self.note_kill(&id, rank);
                }
                self.member_freed(&id, rank, killed);
            }
            // The agent obeys a later arbiter than this one, or has let go as it was told: nothing to do.
            EventKind::Aborted | EventKind::StaleEpoch { .. } => {}
        }
    }

    /// An agent still works on a drain that is over here: it was taken back while the agent was away.
    fn let_go(&mut self, node: &NodeName, drain: DrainId, worker: WorkerId, kind: &EventKind) {
        let is_at_work = match kind {
            EventKind::Armed { .. } | EventKind::Durable { .. } | EventKind::SaveFailed { .. } => {
                true
            }
            EventKind::Signalled
            | EventKind::NoProgress { .. }
            | EventKind::Refused { .. }
            | EventKind::Exited(_)
            | EventKind::Freed { .. }
            | EventKind::Aborted
            | EventKind::StaleEpoch { .. } => false,
        };
        if is_at_work {
            let order = Order { drain, epoch: self.epoch(), worker, verb: Verb::Abort };
            self.outputs.push(Output::Send { node: node.clone(), order });
        }
    }

    fn update_member(&mut self, id: &DrainId, rank: u32, change: impl FnOnce(&mut DrainMember)) {
        let Some(member) = self.drains.get_mut(id).and_then(|d| d.members.get_mut(&rank)) else {
            return;
        };
        let before = member.clone();
        change(member);
        if *member != before {
            self.save_drain(id);
        }
    }

    fn armed(&mut self, id: &DrainId, rank: u32, step: Option<u64>) {
        self.update_member(id, rank, |m| m.armed = true);
        let Some(drain) = self.drains.get_mut(id) else { return };
        if drain.state != DrainState::Ordered {
            return;
        }
        drain.baseline_step = drain.baseline_step.max(step);
        if drain.members.values().all(|m| m.armed) {
            self.commit(id);
        }
    }

    /// An agent cannot do it: plan again without that mode, or leave the victim alone.
    fn refused(&mut self, id: &DrainId, rank: u32, refusal: Refusal, detail: String) {
        let Some(drain) = self.drains.get_mut(id) else { return };
        let code = refusal.code().to_owned();
        let reason = Reason::AgentRefused { rank, code: code.clone(), detail };
        let modes: &[Mode] = match refusal {
            Refusal::NoHandler => &[Mode::Signal],
            Refusal::NoClient => &[Mode::Client],
            Refusal::NoCheckpointDir => &[Mode::Boundary, Mode::Client, Mode::Signal],
            Refusal::StaleTarget | Refusal::NoWorker | Refusal::NoSpace | Refusal::OtherDrain => {
                &[]
            }
        };
        if drain.state == DrainState::Releasing && refusal == Refusal::NoWorker {
            // It has told what it has, and this worker is not of it: there is nothing left to end.
            return self.member_freed(id, rank, false);
        }
        if !modes.is_empty() && !modes.contains(&drain.plan.mode) {
            // An answer to an order that has been replaced since.
            return;
        }
        let may_replan = !drain.is_rehearsal
            && drain.state == DrainState::Ordered
            && drain.refused_modes.len() < REPLANS_MAX;
        if modes.is_empty() || !may_replan {
            let state =
                if drain.state == DrainState::Ordered { DrainState::Refused } else { return };
            return self.stop_drain(id, state, reason);
        }
        drain.refused_modes.extend(modes.iter().map(|mode| (*mode, code.clone())));
        for member in drain.members.values_mut() {
            member.armed = false;
        }
        let (victim, refused) = (drain.victim.clone(), drain.refused_modes.clone());
        let deadline_ms = drain.deadline_at.ms_since(self.now);
        let Some(workload) = self.workloads.get(&victim) else { return };
        let plan = self.plan_for(workload, deadline_ms, &refused);
        self.enter(id, DrainState::Planned, reason);
        if let Some(drain) = self.drains.get_mut(id) {
            drain.plan = plan;
        }
        self.send_prepare(id);
    }

    /// A rank's checkpoint is complete; the gang's is when all are, at the step that all have.
    fn durable(&mut self, id: &DrainId, rank: u32, checkpoint: &Checkpoint, age_ms: u64) {
        self.update_member(id, rank, |m| m.durable_step = Some(checkpoint.step));
        let now = self.now;
        let Some(drain) = self.drains.get_mut(id) else { return };
        let Some(step) = gang_step(drain) else { return };
        let is_awaited = matches!(drain.state, DrainState::Saving | DrainState::Releasing);
        if !is_awaited || drain.saved.as_ref().is_some_and(|saved| saved.step >= step) {
            return;
        }
        let grade = checkpoint.grade.of_gang();
        let saved = Checkpoint { step, grade, ..checkpoint.clone() };
        let bytes = saved.bytes;
        drain.saved = Some(saved);
        drain.saved_at = Some(now.minus_ms(age_ms).max(drain.planned_at));
        if drain.state == DrainState::Saving {
            let is_rehearsal = drain.is_rehearsal;
            self.enter(id, DrainState::Durable, Reason::CheckpointDurable { step, bytes });
            self.note_saved(id);
            if is_rehearsal {
                return self.check_rehearsal(id);
            }
            self.release(id);
        } else {
            self.save_drain(id);
        }
    }

    /// No checkpoint will come from a rank. A signal that did not save is never used again.
    pub(super) fn save_failed(&mut self, id: &DrainId, code: String, detail: String) {
        let Some(drain) = self.drains.get(id).filter(|d| d.state == DrainState::Saving) else {
            return;
        };
        if self.has_ended_by_itself(drain) {
            return self.finished_while_asked(id);
        }
        if drain.is_rehearsal {
            return self.rehearsal_failed(id, code, detail);
        }
        if code == "deadline-passed" {
            return self.deadline_passed(id);
        }
        let anyone_ended = self.is_past_return(drain);
        self.note_unproven(id);
        self.enter(id, DrainState::SaveFailed, Reason::SaveFailed { code: code.clone(), detail });
        if anyone_ended {
            self.keep_checkpoint_before(id);
            self.release(id);
        } else {
            let reason = Reason::ModeRefused { code };
            self.abort_drain(id, reason);
        }
    }

    pub(super) fn keep_checkpoint_before(&mut self, id: &DrainId) {
        let Some(drain) = self.drains.get_mut(id) else { return };
        let Some(workload) = self.workloads.get(&drain.victim) else { return };
        drain.saved = workload.checkpoint.clone();
        drain.saved_at = workload.checkpoint_at;
        self.save_drain(id);
    }

    fn worker_exited(&mut self, id: &DrainId, rank: u32, exit: Exit) {
        self.update_member(id, rank, |m| m.exited = true);
        let Some(victim) = self.drains.get(id).map(|d| d.victim.clone()) else { return };
        if self.exit_belongs_to_drain(&victim) {
            return;
        }
        // It ended by itself. Its launcher knows how; an agent that is no parent usually does not.
        if exit != Exit::Unknown {
            if let Some(member) =
                self.workloads.get_mut(&victim).and_then(|w| w.members.get_mut(&rank))
            {
                member.exit = Some(exit);
            }
            self.rank_ended(&victim, rank, exit);
        }
    }

    fn member_freed(&mut self, id: &DrainId, rank: u32, killed: bool) {
        self.update_member(id, rank, |m| {
            m.freed = true;
            m.exited = true;
            m.killed |= killed;
        });
        let Some(drain) = self.drains.get(id).filter(|d| d.state == DrainState::Releasing) else {
            return;
        };
        if !drain.members.values().all(|m| m.freed) {
            return;
        }
        let devices = u32::try_from(drain.device_count()).unwrap_or(u32::MAX);
        self.close_account(id);
        self.enter(id, DrainState::Freed, Reason::DevicesIdle { devices });
        self.requeue_victim(id);
    }

    /// What it cost, now that the workers are gone.
    fn close_account(&mut self, id: &DrainId) {
        let now = self.now;
        let Some(drain) = self.drains.get_mut(id) else { return };
        let Some(workload) = self.workloads.get(&drain.victim) else { return };
        let devices = drain.device_count();
        let released_at =
            drain.history.iter().find(|t| t.state == DrainState::Releasing).map_or(now, |t| t.at);
        let running_since = workload.running_since.unwrap_or(drain.planned_at);
        let is_new = drain.saved_at.is_some_and(|at| at >= drain.planned_at);
        // Whoever parks or ends after its save has not trained since.
        let stops = drain.plan.mode == Mode::Client
            || drain.plan.save_signal.is_some_and(|s| s.exits_after_save);
        let stopped_at = drain.saved_at.filter(|_| stops && is_new).unwrap_or(released_at);
        let unsaved_since = drain.saved_at.unwrap_or(running_since).max(running_since);
        let lost_ms = stopped_at.ms_since(unsaved_since);
        let asked_save_ms = asked_save_ms(drain, workload.profile.save_ms);
        let idle_ms = now.ms_since(stopped_at).saturating_add(asked_save_ms);
        let account = &mut drain.account;
        account.lost_device_ms = devices.saturating_mul(lost_ms);
        account.idle_device_ms = devices.saturating_mul(idle_ms);
        account.saved_device_ms = if is_new {
            account.at_risk_device_ms
        } else {
            account.at_risk_device_ms.saturating_sub(account.lost_device_ms)
        };
    }

    /// The victim is back in the queue, with its place by age, and its devices are nobody's but the beneficiary's.
    fn requeue_victim(&mut self, id: &DrainId) {
        let now = self.now;
        let Some(drain) = self.drains.get(id) else { return };
        let beneficiary = drain.beneficiary.clone().unwrap_or_else(|| drain.victim.clone());
        let step = drain.saved.as_ref().map(|c| c.step);
        let victim = drain.victim.clone();
        let is_fault = matches!(drain.cause, Reason::DeviceFault { .. });
        let reason = match step {
            Some(step) if is_fault => Reason::ResumeElsewhere { drain: id.clone(), step },
            None if is_fault => Reason::RestartElsewhere { drain: id.clone() },
            Some(step) => Reason::ResumePending { drain: id.clone(), beneficiary, step },
            None => Reason::RestartPending { drain: id.clone(), beneficiary },
        };
        let Some(workload) = self.workloads.get_mut(&victim) else { return };
        workload.phase = Phase::Pending;
        workload.phase_since = now;
        workload.running_since = None;
        workload.resume_step = step;
        workload.reason = reason.clone();
        for member in workload.members.values_mut() {
            member.assignment = None;
            member.started = false;
            member.exit = None;
            member.vanished_at = None;
        }
        self.decided(super::DecisionKind::Workload, Some(&victim), reason);
        self.save_workload(&victim);
        self.dirty = true;
    }
}

/// Time in which the devices were held for the save that this drain asked for; 0 if it asked for none, as a periodic
/// save would have come anyway. The steps before it began were work: no more than `save_ms` counts where that is known.
fn asked_save_ms(drain: &Drain, save_ms: Option<u64>) -> u64 {
    let asked = drain.was_asked() && drain.members.values().any(|m| m.signalled);
    let asked_at = drain.history.iter().rfind(|t| t.state == DrainState::Saving).map(|t| t.at);
    let waited_ms = drain.saved_at.zip(asked_at).map_or(0, |(saved, at)| saved.ms_since(at));
    if asked { waited_ms.min(save_ms.unwrap_or(waited_ms)) } else { 0 }
}

/// The step of which every rank has a complete checkpoint: the lowest of their newest.
fn gang_step(drain: &Drain) -> Option<u64> {
    drain.members.values().map(|m| m.durable_step).min().flatten()
}
