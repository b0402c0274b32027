//! One worker in one drain, as its node journals it: the write-ahead record of what may have been signalled.

use crate::checkpoint::Checkpoint;
use crate::drain::Mode;
use crate::id::{DrainId, WorkerId};
use crate::unit::Time;
use crate::workload::{Exit, SaveSignal};

/// How far the node is with a worker.
///
/// ```text
/// Prepared → Watching | Signalled → Durable | Failed | Expired → Releasing → Freed
///     └──────────┴────────────┴────────┴──────────┴────────▶ Aborted (not from Releasing)
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The order is accepted; nothing has been done.
    Prepared,
    /// The next checkpoint is awaited without a signal.
    Watching,
    /// The worker was asked to save, by its signal or its file, or must be taken as asked.
    Signalled,
    /// The checkpoint is complete.
    Durable,
    /// No checkpoint will come.
    Failed,
    /// The deadline passed; the worker goes on until the arbiter says otherwise.
    Expired,
    /// The worker is being ended.
    Releasing,
    /// The worker is gone and its devices are idle.
    Freed,
    /// The drain was given up.
    Aborted,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 9] = [
        Self::Prepared,
        Self::Watching,
        Self::Signalled,
        Self::Durable,
        Self::Failed,
        Self::Expired,
        Self::Releasing,
        Self::Freed,
        Self::Aborted,
    ];

    /// Stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prepared => "prepared",
            Self::Watching => "watching",
            Self::Signalled => "signalled",
            Self::Durable => "durable",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Releasing => "releasing",
            Self::Freed => "freed",
            Self::Aborted => "aborted",
        }
    }

    /// True while something is still to be done or watched.
    #[must_use]
    pub fn is_open(self) -> bool {
        !matches!(self, Self::Freed | Self::Aborted)
    }

    /// True while a new checkpoint would count.
    #[must_use]
    pub fn awaits_checkpoint(self) -> bool {
        matches!(self, Self::Watching | Self::Signalled | Self::Expired)
    }
}

/// The record. Journalled before anything it says has been done is done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "intents and facts that come true one by one")]
pub struct Hand {
    /// The drain.
    pub drain: DrainId,
    /// The worker.
    pub worker: WorkerId,
    /// Epoch of the last order obeyed for it.
    pub epoch: u64,
    /// How the gang is drained.
    pub mode: Mode,
    /// The signal that asks for a save, if the mode has one.
    pub save_signal: Option<SaveSignal>,
    /// Only a checkpoint with a higher step counts.
    pub baseline_step: Option<u64>,
    /// When waiting ends, on this node's clock (which goes on over restarts of the agent, not of the node).
    pub deadline_at: Time,
    /// How far it is.
    pub stage: Stage,
    /// The save signal was or may have been sent: never again. (What is asked through a file may be repeated.)
    pub save_intent: bool,
    /// A sign of the save that was asked for has been seen.
    pub progress_seen: bool,
    /// The arbiter was told that there is no such sign.
    pub stall_told: bool,
    /// SIGTERM was or may have been sent: never again.
    pub term_intent: bool,
    /// SIGKILL was or may have been sent. It may be repeated: it cannot be misunderstood.
    pub kill_intent: bool,
    /// The checkpoint that counts.
    pub durable: Option<Checkpoint>,
    /// Why there is none: stable code and details.
    pub failure: Option<(String, String)>,
    /// How the worker ended.
    pub exit: Option<Exit>,
    /// When the stage began.
    pub stage_since: Time,
    /// When the release order came.
    pub released_at: Option<Time>,
    /// Time between SIGTERM and SIGKILL. Unit: ms.
    pub grace_ms: u64,
    /// Time from the release order until the devices were idle. Unit: ms.
    pub release_ms: u64,
}

impl Hand {
    /// Enters a stage.
    pub(super) fn enter(&mut self, now: Time, stage: Stage) {
        self.stage = stage;
        self.stage_since = now;
    }

    /// True if the worker was asked to save by SIGTERM: it must not get a second one, which would kill it.
    pub(super) fn was_saved_by_term(&self) -> bool {
        self.save_intent && self.save_signal.is_some_and(|s| s.number == SIGTERM)
    }
}

/// Signal number of SIGTERM on Linux.
pub(super) const SIGTERM: i32 = 15;
/// Signal number of SIGKILL on Linux.
pub(super) const SIGKILL: i32 = 9;
