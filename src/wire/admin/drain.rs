//! Records of drains.

use sluice_core::drain::{
    Account, Alternative, Drain, DrainMember, DrainState, Mode, Plan, Transition,
};
use sluice_core::reason::Reason;

use crate::wire::drain::{mode, save_signal, save_signal_fields};
use crate::wire::{WireError, field, pb, reason};

impl From<DrainState> for pb::DrainState {
    fn from(state: DrainState) -> Self {
        match state {
            DrainState::Planned => Self::Planned,
            DrainState::Ordered => Self::Ordered,
            DrainState::Armed => Self::Armed,
            DrainState::Saving => Self::Saving,
            DrainState::Durable => Self::Durable,
            DrainState::Releasing => Self::Releasing,
            DrainState::Freed => Self::Freed,
            DrainState::HandedOver => Self::HandedOver,
            DrainState::ResumePending => Self::ResumePending,
            DrainState::Resumed => Self::Resumed,
            DrainState::Aborted => Self::Aborted,
            DrainState::Refused => Self::Refused,
            DrainState::SaveFailed => Self::SaveFailed,
            DrainState::Expired => Self::Expired,
            DrainState::Lost => Self::Lost,
            DrainState::CompletedMeanwhile => Self::CompletedMeanwhile,
        }
    }
}

/// A drain's state from its number.
///
/// # Errors
/// Where the number names no state.
pub fn drain_state(value: i32) -> Result<DrainState, WireError> {
    let named = |state: &DrainState| i32::from(pb::DrainState::from(*state)) == value;
    let expected = "PLANNED (1) to COMPLETED_MEANWHILE (16)";
    let found = DrainState::ALL.into_iter().find(named);
    found.ok_or_else(|| WireError::new("state", value, expected))
}

fn mode_number(mode: Mode) -> i32 {
    pb::DrainMode::from(mode).into()
}

fn alternative_out(alternative: &Alternative) -> pb::Alternative {
    pb::Alternative {
        mode: mode_number(alternative.mode),
        delay_ms: alternative.delay_ms,
        loss_device_ms: alternative.loss_device_ms,
        chosen: alternative.chosen,
        reason: Some((&alternative.reason).into()),
    }
}

fn alternative_in(alternative: &pb::Alternative) -> Result<Alternative, WireError> {
    Ok(Alternative {
        mode: mode("mode", alternative.mode)?,
        delay_ms: alternative.delay_ms,
        loss_device_ms: alternative.loss_device_ms,
        chosen: alternative.chosen,
        reason: reason::required("reason", alternative.reason.as_ref())?,
    })
}

fn member_out(rank: u32, member: &DrainMember) -> pb::DrainMember {
    pb::DrainMember {
        rank,
        node: member.node.to_string(),
        devices: field::texts(&member.devices),
        armed: member.armed,
        durable_step: member.durable_step,
        exited: member.exited,
        freed: member.freed,
        signalled: member.signalled,
        killed: member.killed,
    }
}

fn member_in(member: &pb::DrainMember) -> Result<(u32, DrainMember), WireError> {
    let value = DrainMember {
        node: field::name("node", &member.node)?,
        devices: field::names("devices", &member.devices)?,
        armed: member.armed,
        signalled: member.signalled,
        durable_step: member.durable_step,
        exited: member.exited,
        freed: member.freed,
        killed: member.killed,
    };
    Ok((member.rank, value))
}

fn transition_out(transition: &Transition) -> pb::DrainTransition {
    pb::DrainTransition {
        at: Some(field::timestamp(transition.at)),
        state: pb::DrainState::from(transition.state).into(),
        reason: Some((&transition.reason).into()),
    }
}

fn transition_in(transition: &pb::DrainTransition) -> Result<Transition, WireError> {
    Ok(Transition {
        at: field::required_time("at", transition.at.as_ref())?,
        state: drain_state(transition.state)?,
        reason: reason::required("reason", transition.reason.as_ref())?,
    })
}

impl From<&Account> for pb::DrainAccount {
    fn from(account: &Account) -> Self {
        Self {
            at_risk_device_ms: account.at_risk_device_ms,
            lost_device_ms: account.lost_device_ms,
            idle_device_ms: account.idle_device_ms,
            saved_device_ms: account.saved_device_ms,
            restart_ms: account.restart_ms,
        }
    }
}

impl From<&pb::DrainAccount> for Account {
    fn from(account: &pb::DrainAccount) -> Self {
        Self {
            at_risk_device_ms: account.at_risk_device_ms,
            lost_device_ms: account.lost_device_ms,
            idle_device_ms: account.idle_device_ms,
            saved_device_ms: account.saved_device_ms,
            restart_ms: account.restart_ms,
        }
    }
}

fn plan_in(drain: &pb::Drain) -> Result<Plan, WireError> {
    let alternative =
        |(i, a)| alternative_in(a).map_err(|e: WireError| e.within(&format!("alternatives[{i}]")));
    let alternatives = drain.alternatives.iter().enumerate().map(alternative);
    Ok(Plan {
        mode: mode("mode", drain.mode)?,
        save_signal: save_signal(drain.save_signal, drain.exits_after_save)?,
        delay_ms: drain.delay_ms,
        loss_device_ms: drain.loss_device_ms,
        deadline_ms: drain.deadline_ms,
        alternatives: alternatives.collect::<Result<_, _>>()?,
    })
}

/// True if the mode was taken because nothing that saves the work fits the deadline.
fn is_forced(plan: &Plan) -> bool {
    let forced = |a: &Alternative| a.chosen && matches!(a.reason, Reason::DeadlineForced { .. });
    plan.alternatives.iter().any(forced)
}

impl From<&Drain> for pb::Drain {
    fn from(drain: &Drain) -> Self {
        let (save_signal, exits_after_save) = save_signal_fields(drain.plan.save_signal);
        let refused = drain.refused_modes.iter();
        Self {
            id: drain.id.to_string(),
            victim: drain.victim.to_string(),
            attempt: drain.attempt,
            beneficiary: field::optional_text(drain.beneficiary.as_ref()),
            cause: Some((&drain.cause).into()),
            epoch: drain.epoch,
            state: pb::DrainState::from(drain.state).into(),
            mode: mode_number(drain.plan.mode),
            alternatives: drain.plan.alternatives.iter().map(alternative_out).collect(),
            members: drain.members.iter().map(|(rank, m)| member_out(*rank, m)).collect(),
            saved: drain.saved.as_ref().map(Into::into),
            history: drain.history.iter().map(transition_out).collect(),
            account: Some((&drain.account).into()),
            planned_at: Some(field::timestamp(drain.planned_at)),
            deadline_at: Some(field::timestamp(drain.deadline_at)),
            baseline_step: drain.baseline_step,
            replans: u32::try_from(drain.refused_modes.len()).unwrap_or(u32::MAX),
            forced: is_forced(&drain.plan),
            deadline_ms: drain.plan.deadline_ms,
            save_signal,
            exits_after_save,
            committed: drain.is_committed(),
            loss_device_ms: drain.plan.loss_device_ms,
            delay_ms: drain.plan.delay_ms,
            abort_requested: drain.state == DrainState::Aborted,
            state_since: Some(field::timestamp(drain.state_since)),
            saved_at: drain.saved_at.map(field::timestamp),
            refused_modes: refused
                .map(|(mode, code)| pb::RefusedMode {
                    mode: mode_number(*mode),
                    code: code.clone(),
                })
                .collect(),
            rehearsal: drain.is_rehearsal,
        }
    }
}

impl TryFrom<&pb::Drain> for Drain {
    type Error = WireError;

    fn try_from(drain: &pb::Drain) -> Result<Self, WireError> {
        let member = |(i, m)| member_in(m).map_err(|e| e.within(&format!("members[{i}]")));
        let transition = |(i, t)| transition_in(t).map_err(|e| e.within(&format!("history[{i}]")));
        let refused = |r: &pb::RefusedMode| Ok((mode("refused_modes", r.mode)?, r.code.clone()));
        Ok(Self {
            id: field::name("id", &drain.id)?,
            victim: field::name("victim", &drain.victim)?,
            attempt: drain.attempt,
            beneficiary: field::optional_name("beneficiary", &drain.beneficiary)?,
            cause: reason::required("cause", drain.cause.as_ref())?,
            epoch: drain.epoch,
            state: drain_state(drain.state)?,
            plan: plan_in(drain)?,
            planned_at: field::required_time("planned_at", drain.planned_at.as_ref())?,
            state_since: field::required_time("state_since", drain.state_since.as_ref())?,
            deadline_at: field::required_time("deadline_at", drain.deadline_at.as_ref())?,
            members: drain.members.iter().enumerate().map(member).collect::<Result<_, _>>()?,
            baseline_step: drain.baseline_step,
            saved: drain.saved.as_ref().map(Into::into),
            saved_at: field::optional_time("saved_at", drain.saved_at.as_ref())?,
            refused_modes: drain.refused_modes.iter().map(refused).collect::<Result<_, _>>()?,
            history: drain.history.iter().enumerate().map(transition).collect::<Result<_, _>>()?,
            account: drain.account.as_ref().map(Into::into).unwrap_or_default(),
            is_rehearsal: drain.rehearsal,
        })
    }
}
