//! Drains: how a gang was made to end with its work saved, and what that cost.

use jiff::Timestamp;
use serde::Serialize;
use sluice::wire::pb;

use super::workload::non_empty;
use super::{CheckpointView, ReasonView, When, mode_word};

/// One drain of one gang.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DrainView {
    /// Unique id.
    pub(crate) id: String,
    /// Who is drained.
    pub(crate) victim: String,
    /// Which start of it.
    pub(crate) attempt: u32,
    /// For whom; `null` if for nobody in particular.
    pub(crate) beneficiary: Option<String>,
    /// Why.
    pub(crate) cause: ReasonView,
    /// Where it stands: `PLANNED`, `ORDERED`, ..., `RESUMED` or a side exit.
    pub(crate) state: String,
    /// How it is done: `KILL-FRESH`, `BOUNDARY`, `SIGNAL` or `KILL`.
    pub(crate) mode: &'static str,
    /// Whether no mode that saves the work fitted the deadline.
    pub(crate) forced: bool,
    /// All modes with their numbers.
    pub(crate) alternatives: Vec<AlternativeView>,
    /// The ranks.
    pub(crate) ranks: Vec<DrainRankView>,
    /// The checkpoint to resume from.
    pub(crate) saved: Option<CheckpointView>,
    /// Newest complete step when it was ordered.
    pub(crate) baseline_step: Option<u64>,
    /// What it cost; `null` while that is not known.
    pub(crate) account: Option<AccountView>,
    /// When it was planned.
    pub(crate) planned_at: Option<When>,
    /// When the worker is ended without a checkpoint.
    pub(crate) deadline_at: Option<When>,
    /// How long that was from the plan.
    pub(crate) deadline_ms: u64,
    /// How often it was planned anew because agents refused.
    pub(crate) replans: u32,
    /// Epoch of the arbiter that last sent an order for it.
    pub(crate) epoch: u64,
    /// Every change of state, oldest first.
    pub(crate) history: Vec<TransitionView>,
}

/// A mode that was considered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct AlternativeView {
    /// The mode.
    pub(crate) mode: &'static str,
    /// Expected time until the devices are free; `null` if it cannot be told.
    pub(crate) delay_ms: Option<u64>,
    /// Expected loss, all devices together.
    pub(crate) loss_device_ms: u64,
    /// Whether it was chosen.
    pub(crate) chosen: bool,
    /// Why, or why not.
    pub(crate) reason: ReasonView,
}

/// One rank in a drain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is an independent fact of the schema")]
pub(crate) struct DrainRankView {
    /// Which.
    pub(crate) rank: u32,
    /// Its node.
    pub(crate) node: String,
    /// Devices that become free.
    pub(crate) devices: Vec<String>,
    /// Its agent has accepted and journalled the order.
    pub(crate) armed: bool,
    /// The save signal was sent.
    pub(crate) signalled: bool,
    /// Step of the checkpoint that was found complete.
    pub(crate) durable_step: Option<u64>,
    /// Its process is gone.
    pub(crate) exited: bool,
    /// Its devices are idle.
    pub(crate) freed: bool,
    /// SIGKILL was needed.
    pub(crate) killed: bool,
}

/// A change of state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct TransitionView {
    /// When.
    pub(crate) at: Option<When>,
    /// Into which state.
    pub(crate) state: String,
    /// Why.
    pub(crate) reason: ReasonView,
}

/// What a drain cost. Unit: device-milliseconds, all devices of the gang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct AccountView {
    /// Work in no checkpoint when the drain was planned.
    pub(crate) at_risk_device_ms: u64,
    /// Work lost when the worker ended.
    pub(crate) lost_device_ms: u64,
    /// At risk and not lost.
    pub(crate) saved_device_ms: u64,
    /// Devices held from the checkpoint until they were free.
    pub(crate) idle_device_ms: u64,
    /// From the new start to the first step beyond the saved one; `null` until then.
    pub(crate) restart_ms: Option<u64>,
}

impl DrainView {
    /// As the arbiter says it, looked at at `now`.
    pub(crate) fn of(drain: &pb::Drain, now: Timestamp) -> Self {
        Self {
            id: drain.id.clone(),
            victim: drain.victim.clone(),
            attempt: drain.attempt,
            beneficiary: non_empty(&drain.beneficiary),
            cause: ReasonView::of(drain.cause.as_ref()),
            state: state_word(drain.state()),
            mode: mode_word(drain.mode()),
            forced: drain.forced,
            alternatives: drain.alternatives.iter().map(AlternativeView::of).collect(),
            ranks: drain.members.iter().map(DrainRankView::of).collect(),
            saved: drain.saved.as_ref().map(CheckpointView::of),
            baseline_step: drain.baseline_step,
            account: drain.account.as_ref().map(AccountView::of),
            planned_at: When::of(drain.planned_at.as_ref(), now),
            deadline_at: When::of(drain.deadline_at.as_ref(), now),
            deadline_ms: drain.deadline_ms,
            replans: drain.replans,
            epoch: drain.epoch,
            history: drain.history.iter().map(|t| TransitionView::of(t, now)).collect(),
        }
    }
}

impl AlternativeView {
    fn of(alternative: &pb::Alternative) -> Self {
        Self {
            mode: mode_word(alternative.mode()),
            delay_ms: alternative.delay_ms,
            loss_device_ms: alternative.loss_device_ms,
            chosen: alternative.chosen,
            reason: ReasonView::of(alternative.reason.as_ref()),
        }
    }
}

impl DrainRankView {
    fn of(member: &pb::DrainMember) -> Self {
        Self {
            rank: member.rank,
            node: member.node.clone(),
            devices: member.devices.clone(),
            armed: member.armed,
            signalled: member.signalled,
            durable_step: member.durable_step,
            exited: member.exited,
            freed: member.freed,
            killed: member.killed,
        }
    }
}

impl TransitionView {
    fn of(transition: &pb::DrainTransition, now: Timestamp) -> Self {
        Self {
            at: When::of(transition.at.as_ref(), now),
            state: state_word(transition.state()),
            reason: ReasonView::of(transition.reason.as_ref()),
        }
    }
}

impl AccountView {
    fn of(account: &pb::DrainAccount) -> Self {
        Self {
            at_risk_device_ms: account.at_risk_device_ms,
            lost_device_ms: account.lost_device_ms,
            saved_device_ms: account.saved_device_ms,
            idle_device_ms: account.idle_device_ms,
            restart_ms: account.restart_ms,
        }
    }
}

/// The word for a drain's state, from its name in the contract.
fn state_word(state: pb::DrainState) -> String {
    match state.as_str_name().strip_prefix("DRAIN_STATE_") {
        None | Some("UNSPECIFIED") => "UNKNOWN".to_owned(),
        Some(word) => word.to_owned(),
    }
}
