//! One drain of one gang: its record, its states, and which state may follow which.
//!
//! ```text
//! PLANNED → ORDERED → ARMED → SAVING → DURABLE → RELEASING → FREED → HANDED_OVER → RESUME_PENDING → RESUMED
//!    │         │        │       │  ├─▶ SAVE_FAILED ─┐  ▲
//!    │         │        │       │  └─▶ EXPIRED ─────┴──┘
//!    ├─────────┴────────┴───────┴──▶ ABORTED · REFUSED · COMPLETED_MEANWHILE · LOST
//! ```
//! KILL and KILL-FRESH go from ARMED to RELEASING; there is nothing to wait for.

mod mode;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::checkpoint::Checkpoint;
use crate::id::{DeviceId, DrainId, NodeName, WorkloadName};
use crate::reason::Reason;
use crate::unit::Time;
use crate::workload::SaveSignal;

pub use mode::Mode;

/// A mode that was considered, with its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alternative {
    /// The mode.
    pub mode: Mode,
    /// Expected time until the devices are free. Unit: ms. `None`: cannot be told.
    pub delay_ms: Option<u64>,
    /// Expected loss, all devices of the gang together. Unit: device-milliseconds.
    pub loss_device_ms: u64,
    /// Whether it was chosen.
    pub chosen: bool,
    /// Why, or why not.
    pub reason: Reason,
}

/// How a drain is to be done, and what else was possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The mode chosen.
    pub mode: Mode,
    /// The signal, if the mode is [`Mode::Signal`], or was until nobody heeded it.
    pub save_signal: Option<SaveSignal>,
    /// Expected time until the devices are free. Unit: ms.
    pub delay_ms: Option<u64>,
    /// Expected loss. Unit: device-milliseconds.
    pub loss_device_ms: u64,
    /// Time allowed until the worker is ended without a checkpoint. Unit: ms.
    pub deadline_ms: u64,
    /// All modes with their numbers, the chosen one among them.
    pub alternatives: Vec<Alternative>,
}

/// Where a drain stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainState {
    /// Decided and recorded.
    Planned,
    /// Agents were told to prepare.
    Ordered,
    /// Every agent has accepted and journalled the order.
    Armed,
    /// Agents may act; a checkpoint is awaited.
    Saving,
    /// The checkpoint was found complete on every rank.
    Durable,
    /// Workers are told to end.
    Releasing,
    /// No process holds any of the devices.
    Freed,
    /// The beneficiary runs on them.
    HandedOver,
    /// The victim waits to start again.
    ResumePending,
    /// The victim has passed the step that it had saved.
    Resumed,
    /// Given up before the point of no return; the workers go on.
    Aborted,
    /// An agent could not do it and no other mode was left.
    Refused,
    /// No complete checkpoint came about.
    SaveFailed,
    /// The deadline passed first.
    Expired,
    /// A node of the gang is gone.
    Lost,
    /// The workload ended by itself.
    CompletedMeanwhile,
}

impl DrainState {
    /// All states, in order.
    pub const ALL: [Self; 16] = [
        Self::Planned,
        Self::Ordered,
        Self::Armed,
        Self::Saving,
        Self::Durable,
        Self::Releasing,
        Self::Freed,
        Self::HandedOver,
        Self::ResumePending,
        Self::Resumed,
        Self::Aborted,
        Self::Refused,
        Self::SaveFailed,
        Self::Expired,
        Self::Lost,
        Self::CompletedMeanwhile,
    ];

    /// True while agents have something to do or devices are still in the victim's hands.
    #[must_use]
    pub fn is_open(self) -> bool {
        match self {
            Self::Planned
            | Self::Ordered
            | Self::Armed
            | Self::Saving
            | Self::Durable
            | Self::Releasing
            | Self::SaveFailed
            | Self::Expired => true,
            Self::Freed
            | Self::HandedOver
            | Self::ResumePending
            | Self::Resumed
            | Self::Aborted
            | Self::Refused
            | Self::Lost
            | Self::CompletedMeanwhile => false,
        }
    }

    /// True once nothing more is expected of this record.
    #[must_use]
    pub fn is_closed(self) -> bool {
        matches!(
            self,
            Self::Resumed | Self::Aborted | Self::Refused | Self::Lost | Self::CompletedMeanwhile
        )
    }

    /// Whether `next` may follow.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        use DrainState as S;
        match self {
            S::Planned => matches!(next, S::Ordered | S::Aborted | S::CompletedMeanwhile | S::Lost),
            S::Ordered => matches!(
                next,
                S::Planned | S::Armed | S::Aborted | S::Refused | S::CompletedMeanwhile | S::Lost
            ),
            S::Armed => matches!(
                next,
                S::Saving | S::Releasing | S::Aborted | S::CompletedMeanwhile | S::Lost
            ),
            S::Saving => matches!(
                next,
                S::Durable
                    | S::SaveFailed
                    | S::Expired
                    | S::Aborted
                    | S::CompletedMeanwhile
                    | S::Lost
            ),
            S::Durable | S::SaveFailed | S::Expired => {
                matches!(next, S::Releasing | S::Aborted | S::CompletedMeanwhile)
            }
            S::Releasing => matches!(next, S::Freed | S::CompletedMeanwhile),
            S::Freed => matches!(next, S::HandedOver | S::ResumePending | S::CompletedMeanwhile),
            S::HandedOver => matches!(next, S::ResumePending | S::CompletedMeanwhile),
            S::ResumePending => matches!(next, S::Resumed | S::CompletedMeanwhile),
            S::Resumed | S::Aborted | S::Refused | S::Lost | S::CompletedMeanwhile => false,
        }
    }
}

impl fmt::Display for DrainState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Planned => "PLANNED",
            Self::Ordered => "ORDERED",
            Self::Armed => "ARMED",
            Self::Saving => "SAVING",
            Self::Durable => "DURABLE",
            Self::Releasing => "RELEASING",
            Self::Freed => "FREED",
            Self::HandedOver => "HANDED_OVER",
            Self::ResumePending => "RESUME_PENDING",
            Self::Resumed => "RESUMED",
            Self::Aborted => "ABORTED",
            Self::Refused => "REFUSED",
            Self::SaveFailed => "SAVE_FAILED",
            Self::Expired => "EXPIRED",
            Self::Lost => "LOST",
            Self::CompletedMeanwhile => "COMPLETED_MEANWHILE",
        })
    }
}

/// One rank in a drain.
#[expect(clippy::struct_excessive_bools, reason = "facts about one rank that come true one by one")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainMember {
    /// Node of the rank.
    pub node: NodeName,
    /// Devices that will become free.
    pub devices: BTreeSet<DeviceId>,
    /// Its agent has accepted and journalled the order.
    pub armed: bool,
    /// The save signal was sent.
    pub signalled: bool,
    /// Step of the checkpoint that its agent found complete.
    pub durable_step: Option<u64>,
    /// The worker process is gone.
    pub exited: bool,
    /// Its devices are idle.
    pub freed: bool,
    /// SIGKILL was needed.
    pub killed: bool,
}

/// A step in the life of a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// When.
    pub at: Time,
    /// Into which state.
    pub state: DrainState,
    /// Why.
    pub reason: Reason,
}

/// What a drain cost. Unit: device-milliseconds (number of devices × ms).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Work in no checkpoint when the drain was planned.
    pub at_risk_device_ms: u64,
    /// Work lost when the worker ended.
    pub lost_device_ms: u64,
    /// Devices held from the checkpoint until they were free.
    pub idle_device_ms: u64,
    /// At risk and, in the end, not lost.
    pub saved_device_ms: u64,
    /// From the new start to the first checkpoint, less the steps in between. Unit: ms.
    pub restart_ms: Option<u64>,
}

/// The record of one drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drain {
    /// Unique id.
    pub id: DrainId,
    /// Who is drained.
    pub victim: WorkloadName,
    /// Which start of the victim.
    pub attempt: u32,
    /// For whom; `None` if for nobody in particular.
    pub beneficiary: Option<WorkloadName>,
    /// Why.
    pub cause: Reason,
    /// Epoch of the arbiter that last sent an order for it.
    pub epoch: u64,
    /// Where it stands.
    pub state: DrainState,
    /// How it is done.
    pub plan: Plan,
    /// When it was planned.
    pub planned_at: Time,
    /// When the current state began.
    pub state_since: Time,
    /// When the worker is ended without a checkpoint.
    pub deadline_at: Time,
    /// Its ranks.
    pub members: BTreeMap<u32, DrainMember>,
    /// Newest complete step when it was ordered: only a newer one counts.
    pub baseline_step: Option<u64>,
    /// The checkpoint to resume from.
    pub saved: Option<Checkpoint>,
    /// When that checkpoint was seen.
    pub saved_at: Option<Time>,
    /// Modes that agents refused, with the code.
    pub refused_modes: BTreeMap<Mode, String>,
    /// All transitions, oldest first; at most [`HISTORY_MAX`].
    pub history: Vec<Transition>,
    /// Its cost.
    pub account: Account,
    /// A trial: the worker is asked to save and is not ended unless it ends by itself.
    pub is_rehearsal: bool,
}

/// Most transitions kept of one drain. A drain has some ten; replans add three each.
pub const HISTORY_MAX: usize = 64;
/// Most times a drain is planned anew because agents refused.
pub const REPLANS_MAX: usize = Mode::ALL.len();

impl Drain {
    /// True once an order was sent after which a worker may be signalled.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        self.history.iter().any(|t| {
            matches!(t.state, DrainState::Saving | DrainState::Releasing | DrainState::Durable)
        })
    }

    /// True if the workers may not be left running any more: a signal that ends them was or may have been sent.
    #[must_use]
    pub fn is_past_return(&self) -> bool {
        let exits = self.plan.save_signal.is_some_and(|s| s.exits_after_save);
        self.history
            .iter()
            .any(|t| t.state == DrainState::Releasing || (exits && t.state == DrainState::Saving))
    }

    /// True if the workers were or may have been asked to save: one that ends now may have been told to.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        let asks = self.plan.save_signal.is_some() || self.plan.mode == Mode::Client;
        asks && self.history.iter().any(|t| t.state == DrainState::Saving)
    }

    /// Number of devices of the gang.
    #[must_use]
    pub fn device_count(&self) -> u64 {
        self.members.values().map(|m| m.devices.len()).sum::<usize>() as u64
    }

    /// Enters `state`.
    ///
    /// # Panics
    /// If the state may not follow: a bug of ours, never of input.
    pub fn enter(&mut self, now: Time, state: DrainState, reason: Reason) {
        assert!(
            self.state.may_become(state),
            "drain {} may not go from {} to {state}",
            self.id,
            self.state
        );
        self.state = state;
        self.state_since = now;
        if self.history.len() >= HISTORY_MAX {
            // The beginning says why; what went to and fro after it may go.
            self.history.remove(1);
        }
        self.history.push(Transition { at: now, state, reason });
    }
}
