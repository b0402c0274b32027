//! What arbiter and agents say to each other about drains, and what an agent reports of a node.
//!
//! The wire form is in `proto/`; this is the form in which both sides of core speak.

use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoint::Checkpoint;
use crate::drain::Mode;
use crate::health::Action;
use crate::id::{DeviceId, DrainId, ResourceName, WorkerId};
use crate::reason::Reason;
use crate::workload::{Exit, SaveSignal};

/// An order to the agent of one worker. Safe to repeat; a lower epoch is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The drain.
    pub drain: DrainId,
    /// Epoch of the arbiter.
    pub epoch: u64,
    /// The worker.
    pub worker: WorkerId,
    /// What to do.
    pub verb: Verb,
}

/// What an order asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verb {
    /// Check that the plan can be done, journal it, do nothing yet.
    Prepare {
        /// How.
        mode: Mode,
        /// The signal, for [`Mode::Signal`].
        save_signal: Option<SaveSignal>,
        /// A checkpoint counts only if its step is above this.
        baseline_step: Option<u64>,
        /// Time until the hard deadline, on the receiver's clock. Unit: ms.
        hard_ms: u64,
    },
    /// Act: send the signal, or watch for the boundary.
    Commit,
    /// Move the hard deadline. Unit: ms from receipt.
    Extend {
        /// Time until the new deadline.
        hard_ms: u64,
    },
    /// Stop watching; the worker goes on.
    Abort,
    /// End the worker: SIGTERM, after the grace SIGKILL; then check that the devices are idle.
    Release {
        /// Time between the two. Unit: ms.
        grace_ms: u64,
    },
    /// Say again where this drain stands.
    Restate,
}

/// What an agent says about one worker of a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainEvent {
    /// The drain.
    pub drain: DrainId,
    /// Epoch of the order that this answers.
    pub epoch: u64,
    /// The worker.
    pub worker: WorkerId,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// The order is accepted and journalled.
    Armed {
        /// Newest complete step now.
        step: Option<u64>,
        /// Time since that checkpoint was complete. Unit: ms.
        checkpoint_age_ms: Option<u64>,
    },
    /// The order cannot be done.
    Refused {
        /// Why.
        refusal: Refusal,
        /// Details for people.
        detail: String,
    },
    /// The save signal was sent (or, after a restart, must be taken as sent).
    Signalled,
    /// A complete checkpoint, newer than the baseline.
    Durable {
        /// The checkpoint.
        checkpoint: Checkpoint,
        /// Time since the last look that did not find it: it has been complete for no longer. Unit: ms.
        age_ms: u64,
    },
    /// The worker was asked to save and there is no sign that it does. It is watched on.
    NoProgress {
        /// Time since it was asked. Unit: ms.
        waited_ms: u64,
    },
    /// No checkpoint will come.
    SaveFailed {
        /// Stable code.
        code: String,
        /// Details for people.
        detail: String,
    },
    /// The worker process is gone.
    Exited(Exit),
    /// No process holds the worker's devices any more.
    Freed {
        /// The devices.
        devices: BTreeSet<DeviceId>,
        /// SIGKILL was needed.
        killed: bool,
        /// Every process of it had said that it parked.
        parked: bool,
        /// Time from the release order. Unit: ms.
        release_ms: u64,
    },
    /// The drain was given up as ordered; the worker goes on.
    Aborted,
    /// The order's epoch is lower than one already obeyed.
    StaleEpoch {
        /// The higher epoch.
        seen: u64,
    },
}

/// Why an agent does not arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The worker does not catch the save signal: it would die of it.
    NoHandler,
    /// The process is not the one that was registered.
    StaleTarget,
    /// No such worker here.
    NoWorker,
    /// There is no checkpoint directory to watch.
    NoCheckpointDir,
    /// Too little space for another checkpoint.
    NoSpace,
    /// The worker is being ended by another drain.
    OtherDrain,
    /// No process of the worker can be asked through files.
    NoClient,
}

impl Refusal {
    /// All refusals.
    pub const ALL: [Self; 7] = [
        Self::NoHandler,
        Self::StaleTarget,
        Self::NoWorker,
        Self::NoCheckpointDir,
        Self::NoSpace,
        Self::OtherDrain,
        Self::NoClient,
    ];

    /// Stable code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::NoHandler => "no-handler",
            Self::StaleTarget => "stale-target",
            Self::NoWorker => "no-worker",
            Self::NoCheckpointDir => "no-checkpoint-dir",
            Self::NoSpace => "no-space",
            Self::OtherDrain => "other-drain",
            Self::NoClient => "no-client",
        }
    }
}

/// Health of a device. `Unknown` is never to be read as healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Usable.
    Healthy,
    /// Usable, avoided.
    Degraded,
    /// Nothing is known.
    Unknown,
    /// Not to be used.
    Unhealthy,
}

/// A device as the arbiter sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// What it is requested as.
    pub resource: ResourceName,
    /// Its index on the node.
    pub index: u32,
    /// Such as `nvidia-l4`.
    pub kind: String,
    /// True if it is not real.
    pub simulated: bool,
    /// Its health.
    pub health: Health,
    /// What is wrong with it, or worth knowing; `None`: nothing.
    pub fault: Option<DeviceFault>,
}

/// What is wrong with a device, and what follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFault {
    /// Why.
    pub reason: Reason,
    /// What is to be done with it.
    pub action: Action,
    /// Whether those who work on it have to leave.
    pub drain: DrainNeed,
}

/// Whether, and how fast, those who work on a device have to leave it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainNeed {
    /// They may stay.
    #[default]
    None,
    /// They save and leave.
    Save,
    /// The same before the others of the gang give up: a link is down, or the device is gone.
    Hurry,
}

/// A worker as its agent sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerReport {
    /// False once the process is gone.
    pub running: bool,
    /// Newest complete checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Time since it was seen complete. Unit: ms.
    pub checkpoint_age_ms: Option<u64>,
    /// True if this attempt wrote it.
    pub checkpoint_is_of_this_attempt: bool,
    /// Measured step time. Unit: ms.
    pub step_ms: Option<u64>,
    /// Measured time between periodic checkpoints. Unit: ms.
    pub save_interval_ms: Option<u64>,
    /// Measured time of a save: of 20 saves 19 take no longer (p95). Unit: ms.
    pub save_ms: Option<u64>,
    /// From how many saves that was measured.
    pub saves: u32,
    /// Time since the process started, as far as the agent knows. Unit: ms.
    pub running_ms: u64,
    /// The newest error of a device that was its program's own; `None`: none.
    pub device_fault: Option<Reason>,
    /// True if it can be asked to save through its files.
    pub has_client: bool,
    /// Time after which a launcher within it, such as torchrun, kills its processes once told to end. Unit: ms.
    pub launcher_grace_ms: Option<u64>,
}

/// Changes of a node since the last report, or everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// If true what is not named is gone.
    pub full: bool,
    /// The node's labels; they count only in a full report.
    pub labels: BTreeMap<String, String>,
    /// Devices that are new or changed.
    pub devices: BTreeMap<DeviceId, Device>,
    /// Workers that are new or changed.
    pub workers: BTreeMap<WorkerId, WorkerReport>,
    /// Devices that are gone.
    pub removed_devices: BTreeSet<DeviceId>,
    /// Workers that are gone.
    pub removed_workers: BTreeSet<WorkerId>,
}
