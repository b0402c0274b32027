//! What the arbiter does in a drain: plan, order, commit, release, give up, hand over; and when time is up.

use std::collections::BTreeMap;

use super::{Arbiter, Decision, DecisionKind, Output};
use crate::drain::{Account, Drain, DrainMember, DrainState, HISTORY_MAX, Plan, Transition};
use crate::id::{DrainId, NodeName, WorkerId, WorkloadName};
use crate::protocol::{Order, Verb};
use crate::reason::{Ms, Reason};
use crate::workload::Phase;

/// How long a victim is left alone after a drain of it could not be done.
pub(super) const AVOID_MS: u64 = 10_000;

impl Arbiter {
    pub(super) fn open_drain_of(&self, victim: &WorkloadName) -> Option<&Drain> {
        let id = self.workloads.get(victim)?.last_drain.as_ref()?;
        self.drains.get(id).filter(|drain| drain.state.is_open())
    }

    pub(super) fn last_drain_in(
        &self,
        victim: &WorkloadName,
        state: DrainState,
    ) -> Option<DrainId> {
        let id = self.workloads.get(victim)?.last_drain.as_ref()?;
        self.drains.get(id).filter(|drain| drain.state == state).map(|drain| drain.id.clone())
    }

    /// Moves a drain on, stores it and says why.
    pub(super) fn enter(&mut self, id: &DrainId, state: DrainState, reason: Reason) {
        let now = self.now;
        let Some(drain) = self.drains.get_mut(id) else { return };
        drain.enter(now, state, reason.clone());
        let victim = drain.victim.clone();
        self.save_drain(id);
        self.drain_decided(id, &victim, reason);
    }

    pub(super) fn drain_decided(&mut self, id: &DrainId, victim: &WorkloadName, reason: Reason) {
        self.outputs.push(Output::Decided(Decision {
            kind: DecisionKind::Drain,
            workload: Some(victim.clone()),
            drain: Some(id.clone()),
            node: None,
            reason,
        }));
    }

    /// Plans a drain of a running gang and orders it.
    pub(super) fn start_drain(
        &mut self,
        victim: &WorkloadName,
        beneficiary: Option<&WorkloadName>,
        deadline_ms: u64,
        cause: Reason,
    ) -> Option<DrainId> {
        let workload = self.workloads.get(victim)?;
        let plan = self.plan_for(workload, deadline_ms, &self.refused_before(workload));
        self.open_drain(victim, beneficiary, plan, cause, false)
    }

    /// Opens the record of a drain and orders it.
    pub(super) fn open_drain(
        &mut self,
        victim: &WorkloadName,
        beneficiary: Option<&WorkloadName>,
        plan: Plan,
        cause: Reason,
        is_rehearsal: bool,
    ) -> Option<DrainId> {
        let workload = self.workloads.get(victim)?;
        let deadline_ms = plan.deadline_ms;
        let id: DrainId = format!("drain-{}", self.next_drain).parse().ok()?;
        let account = Account {
            at_risk_device_ms: workload.device_count().saturating_mul(self.unsaved_ms(workload)),
            ..Account::default()
        };
        let drain = Drain {
            id: id.clone(),
            victim: victim.clone(),
            attempt: workload.attempt,
            beneficiary: beneficiary.cloned(),
            cause: cause.clone(),
            epoch: self.config.epoch,
            state: DrainState::Planned,
            plan,
            planned_at: self.now,
            state_since: self.now,
            deadline_at: self.now.plus_ms(deadline_ms),
            members: workload.members.iter().filter_map(drain_member).collect(),
            baseline_step: workload.checkpoint.as_ref().map(|c| c.step),
            saved: None,
            saved_at: None,
            refused_modes: BTreeMap::new(),
            history: vec![Transition {
                at: self.now,
                state: DrainState::Planned,
                reason: cause.clone(),
            }],
            account,
            is_rehearsal,
        };
        self.next_drain += 1;
        if let Some(before) = self.last_drain_in(victim, DrainState::ResumePending) {
            self.enter(&before, DrainState::CompletedMeanwhile, Reason::DrainedAgain);
        }
        self.forget_closed_drains();
        self.drains.insert(id.clone(), drain);
        self.save_drain(&id);
        self.drain_decided(&id, victim, cause.clone());
        let now = self.now;
        if let Some(workload) = self.workloads.get_mut(victim) {
            workload.last_drain = Some(id.clone());
            workload.phase = Phase::Draining;
            workload.reason = cause;
            workload.phase_since = now;
            workload.profile.drained_at.retain(|at| now.ms_since(*at) < HOUR_MS);
            workload.profile.drained_at.truncate(DRAINS_REMEMBERED_MAX - 1);
            workload.profile.drained_at.push(now);
        }
        self.save_workload(victim);
        self.send_prepare(&id);
        Some(id)
    }

    /// Orders the agents of all ranks to prepare.
    pub(super) fn send_prepare(&mut self, id: &DrainId) {
        let Some(drain) = self.drains.get(id) else { return };
        let mode = drain.plan.mode;
        if let Some(reason) =
            drain.plan.alternatives.iter().find(|a| a.chosen).map(|a| a.reason.clone())
        {
            let victim = drain.victim.clone();
            self.drain_decided(id, &victim, reason);
        }
        self.enter(id, DrainState::Ordered, Reason::OrderSent { mode });
        self.send_to_all(id, Self::prepare_verb);
    }

    pub(super) fn prepare_verb(&self, drain: &Drain) -> Verb {
        Verb::Prepare {
            mode: drain.plan.mode,
            save_signal: drain.plan.save_signal,
            baseline_step: drain.baseline_step,
            hard_ms: drain.deadline_at.ms_since(self.now),
        }
    }

    fn release_verb(&self, _: &Drain) -> Verb {
        Verb::Release { grace_ms: self.config.release_grace_ms }
    }

    pub(super) fn send_to_all(&mut self, id: &DrainId, verb: impl Fn(&Self, &Drain) -> Verb) {
        let epoch = self.config.epoch;
        let Some(drain) = self.drains.get_mut(id) else { return };
        drain.epoch = epoch;
        let Some(drain) = self.drains.get(id) else { return };
        let mut sends = Vec::new();
        for (rank, member) in &drain.members {
            sends.push(self.order_to(drain, *rank, &member.node, verb(self, drain)));
        }
        self.outputs.extend(sends);
    }

    fn order_to(&self, drain: &Drain, rank: u32, node: &NodeName, verb: Verb) -> Output {
        let worker = WorkerId { workload: drain.victim.clone(), attempt: drain.attempt, rank };
        let order = Order { drain: drain.id.clone(), epoch: self.config.epoch, worker, verb };
        Output::Send { node: node.clone(), order }
    }

    /// All agents are armed: act.
    pub(super) fn commit(&mut self, id: &DrainId) {
        let Some(drain) = self.drains.get(id) else { return };
        let (mode, ranks) =
            (drain.plan.mode, u32::try_from(drain.members.len()).unwrap_or(u32::MAX));
        self.enter(id, DrainState::Armed, Reason::AllArmed { ranks });
        if mode.waits_for_checkpoint() {
            self.enter(id, DrainState::Saving, Reason::CommitSent { mode });
            self.send_to_all(id, |_, _| Verb::Commit);
            return;
        }
        self.keep_last_checkpoint(id);
        self.release(id);
    }

    /// Nothing is waited for: the last checkpoint, if there is one, is the point to resume from.
    pub(super) fn keep_last_checkpoint(&mut self, id: &DrainId) {
        let Some(drain) = self.drains.get_mut(id) else { return };
        let Some(workload) = self.workloads.get(&drain.victim) else { return };
        drain.saved = workload.checkpoint.clone();
        drain.saved_at = workload.checkpoint_at;
        let (victim, at_risk_device_ms) = (drain.victim.clone(), drain.account.at_risk_device_ms);
        let reason = match &drain.saved {
            Some(checkpoint) => Reason::CheckpointKept { step: checkpoint.step },
            None => Reason::WorkGivenUp { at_risk_device_ms },
        };
        self.drain_decided(id, &victim, reason);
    }

    /// Tells the workers to end. From here on the gang is on its way back into the queue.
    pub(super) fn release(&mut self, id: &DrainId) {
        let grace_ms = Ms(self.config.release_grace_ms);
        self.enter(id, DrainState::Releasing, Reason::ReleaseSent { grace_ms });
        self.send_to_all(id, Self::release_verb);
    }

    /// An agent is (back) on its stream: say again what it has to do. Orders are safe to repeat.
    pub(super) fn resend_orders(&mut self, node: &NodeName) {
        let mut sends = Vec::new();
        for drain in self.drains.values().filter(|d| d.state.is_open()) {
            for (rank, member) in drain.members.iter().filter(|(_, m)| m.node == *node && !m.freed)
            {
                for verb in self.verbs_to_repeat(drain) {
                    sends.push(self.order_to(drain, *rank, &member.node, verb));
                }
            }
        }
        self.outputs.extend(sends);
    }

    fn verbs_to_repeat(&self, drain: &Drain) -> Vec<Verb> {
        match drain.state {
            DrainState::Planned | DrainState::Ordered | DrainState::Armed => {
                vec![self.prepare_verb(drain)]
            }
            DrainState::Saving => {
                let hard_ms = drain.deadline_at.ms_since(self.now);
                vec![Verb::Commit, Verb::Extend { hard_ms }, Verb::Restate]
            }
            DrainState::Durable if drain.is_rehearsal => vec![Verb::Commit, Verb::Restate],
            DrainState::Durable
            | DrainState::SaveFailed
            | DrainState::Expired
            | DrainState::Releasing => {
                vec![self.release_verb(drain)]
            }
            DrainState::Freed
            | DrainState::HandedOver
            | DrainState::ResumePending
            | DrainState::Resumed
            | DrainState::Aborted
            | DrainState::Refused
            | DrainState::Lost
            | DrainState::CompletedMeanwhile => Vec::new(),
        }
    }

    /// Orders not accepted in time, and deadlines.
    pub(super) fn check_drains(&mut self) {
        let open: Vec<DrainId> =
            self.drains.values().filter(|d| d.state.is_open()).map(|d| d.id.clone()).collect();
        for id in open {
            self.check_drain(&id);
        }
    }

    fn check_drain(&mut self, id: &DrainId) {
        let Some(drain) = self.drains.get(id) else { return };
        let waited_ms = self.now.ms_since(drain.state_since);
        let is_due = self.now >= drain.deadline_at;
        match drain.state {
            DrainState::Planned if !self.is_recovering() => self.send_prepare(id),
            DrainState::Ordered
                if waited_ms >= self.config.arm_timeout_ms && !self.is_recovering() =>
            {
                let missing = drain.members.values().filter(|m| !m.armed).count();
                let missing = u32::try_from(missing).unwrap_or(u32::MAX);
                self.abort_drain(id, Reason::ArmTimedOut { waited_ms: Ms(waited_ms), missing });
            }
            DrainState::Saving if is_due && !self.is_recovering() && drain.is_rehearsal => {
                let detail = "no complete checkpoint before the deadline".to_owned();
                self.save_failed(id, "deadline-passed".to_owned(), detail);
            }
            DrainState::Saving if is_due && !self.is_recovering() => self.deadline_passed(id),
            DrainState::Durable if drain.is_rehearsal => self.check_rehearsal(id),
            DrainState::Durable | DrainState::SaveFailed | DrainState::Expired => self.release(id),
            DrainState::Planned
            | DrainState::Ordered
            | DrainState::Armed
            | DrainState::Saving
            | DrainState::Releasing
            | DrainState::Freed
            | DrainState::HandedOver
            | DrainState::ResumePending
            | DrainState::Resumed
            | DrainState::Aborted
            | DrainState::Refused
            | DrainState::Lost
            | DrainState::CompletedMeanwhile => {}
        }
    }

    /// A silent node's devices cannot be handed over: its gang is left alone, unless it was told to end.
    pub(super) fn deadline_passed(&mut self, id: &DrainId) {
        let Some(drain) = self.drains.get(id) else { return };
        if self.has_ended_by_itself(drain) {
            return self.finished_while_asked(id);
        }
        if self.has_succeeded_rank(&drain.victim) && !self.is_past_return(drain) {
            // A gang that is about to be done is not started anew.
            return self.abort_drain(id, Reason::FinishedMeanwhile);
        }
        let silent = drain.members.values().map(|m| &m.node).find_map(|name| {
            let node = self.nodes.get(name);
            let silent_ms =
                node.map_or(self.now.ms_since(self.started_at), |n| self.now.ms_since(n.since));
            (!node.is_some_and(|n| n.connected)).then(|| (name.clone(), silent_ms))
        });
        if let Some((node, silent_ms)) = silent.filter(|_| !self.is_past_return(drain)) {
            let reason = Reason::DrainNodeSilent { node, silent_ms: Ms(silent_ms) };
            self.stop_drain(id, DrainState::Lost, reason);
            return;
        }
        let deadline_ms = Ms(drain.plan.deadline_ms);
        self.enter(id, DrainState::Expired, Reason::DeadlinePassed { deadline_ms });
        self.keep_last_checkpoint(id);
        self.release(id);
    }
}

const HOUR_MS: u64 = 3_600_000;
/// Drains of one workload remembered for the budget.
const DRAINS_REMEMBERED_MAX: usize = 64;

fn drain_member((rank, member): (&u32, &crate::workload::Member)) -> Option<(u32, DrainMember)> {
    let assignment = member.assignment.as_ref()?;
    let member = DrainMember {
        node: assignment.node.clone(),
        devices: assignment.devices.clone(),
        armed: false,
        signalled: false,
        durable_step: None,
        exited: false,
        freed: false,
        killed: false,
    };
    Some((*rank, member))
}

// A drain's history is bounded: ten transitions and three for each new plan.
const _: () = assert!(HISTORY_MAX >= 10 + 3 * crate::drain::REPLANS_MAX);
