//! What goes into the arbiter, and what comes out of it.

use std::collections::BTreeSet;

use crate::id::{DrainId, LauncherId, NodeName, WorkerId, WorkloadName};
use crate::protocol::{DrainEvent, NodeReport, Order};
use crate::reason::Reason;
use crate::unit::Time;
use crate::workload::{Exit, WorkloadSpec};

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A launcher submits a rank. Answered by [`Reply::Submitted`].
    Submit {
        /// What it asks for.
        spec: WorkloadSpec,
        /// Which rank it will start.
        rank: u32,
        /// Who it is.
        launcher: LauncherId,
        /// Nodes on which it can start the worker.
        nodes: BTreeSet<NodeName>,
    },
    /// A launcher watches its workload.
    Attach {
        /// The workload.
        workload: WorkloadName,
        /// The rank.
        rank: u32,
        /// The launcher.
        launcher: LauncherId,
    },
    /// Its watch has ended.
    Detach {
        /// The workload.
        workload: WorkloadName,
        /// The rank.
        rank: u32,
        /// The launcher.
        launcher: LauncherId,
    },
    /// A launcher tells how its worker ended. Answered by [`Reply::Exit`].
    ReportExit {
        /// The worker.
        worker: WorkerId,
        /// Who says so.
        launcher: LauncherId,
        /// How.
        exit: Exit,
    },
    /// Answered by [`Reply::Cancelled`].
    Cancel {
        /// The workload.
        workload: WorkloadName,
    },
    /// Make no new decisions. Answered by [`Reply::Frozen`].
    Freeze {
        /// Why, for people.
        why: String,
    },
    /// Decide again.
    Unfreeze,
    /// Try a save on a live workload. Answered by [`Reply::Rehearsing`].
    Rehearse {
        /// The workload.
        workload: WorkloadName,
        /// How long to wait for the save. Unit: ms. 0: the arbiter's default.
        deadline_ms: u64,
    },
    /// An agent's stream is up.
    AgentConnected {
        /// Its node.
        node: NodeName,
    },
    /// An agent's stream has ended or been silent for too long.
    AgentDisconnected {
        /// Its node.
        node: NodeName,
    },
    /// What changed on a node.
    NodeReport {
        /// The node.
        node: NodeName,
        /// The changes.
        report: NodeReport,
    },
    /// An agent on a drain.
    DrainEvent {
        /// The node it came from.
        node: NodeName,
        /// What it says.
        event: DrainEvent,
    },
    /// Time has passed.
    Tick,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Store this workload as it is now ([`super::Arbiter::workload`]) and tell its watchers.
    SaveWorkload(WorkloadName),
    /// Store this drain as it is now ([`super::Arbiter::drain`]).
    SaveDrain(DrainId),
    /// Remove the workload from the store.
    ForgetWorkload(WorkloadName),
    /// Remove the drain from the store.
    ForgetDrain(DrainId),
    /// Store what is known of the node's faults ([`super::Arbiter::node_faults`]), or remove it if that is nothing.
    SaveNodeFaults(NodeName),
    /// Store whether the breaker for waves of faults is open ([`super::Arbiter::is_wave_open`]), and how many nodes are
    /// known ([`super::Arbiter::known_nodes`]).
    SaveWave,
    /// Store, log and count a decision.
    Decided(Decision),
    /// Send an order. Whatever must be stored before it stands before it.
    Send {
        /// To the agent of this node.
        node: NodeName,
        /// The order.
        order: Order,
    },
    /// Answer to the input.
    Reply(Reply),
    /// Give an [`Input::Tick`] at this time, or before.
    WakeAt(Time),
}

/// Answer to an input that has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Accepted, or why not.
    Submitted(Result<(), Reason>),
    /// What the launcher does next: true to wait for re-admission, false to leave.
    Exit {
        /// Wait for the next admission?
        wait: bool,
        /// Why.
        reason: Reason,
    },
    /// Cancelled, or why not.
    Cancelled(Result<(), Reason>),
    /// The save is tried as this drain, or why it is not.
    Rehearsing(Result<DrainId, Reason>),
    /// Frozen; so many drains were taken back.
    Frozen {
        /// Drains aborted.
        aborted_drains: u32,
    },
}

/// What kind of thing was decided. The metric label and the `kind` of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecisionKind {
    /// A workload was accepted or refused.
    Submit,
    /// It got devices.
    Admit,
    /// It waits, for a reason that is new.
    Wait,
    /// It changed phase for another reason.
    Workload,
    /// A victim was chosen.
    Preempt,
    /// Slices were found for a workload.
    Slice,
    /// A drain changed state.
    Drain,
    /// A node came, went or changed.
    Node,
    /// Decisions were frozen or go on.
    Freeze,
}

impl DecisionKind {
    /// Stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Admit => "admit",
            Self::Wait => "wait",
            Self::Workload => "workload",
            Self::Preempt => "preempt",
            Self::Slice => "slice",
            Self::Drain => "drain",
            Self::Node => "node",
            Self::Freeze => "freeze",
        }
    }
}

/// A decision with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What kind.
    pub kind: DecisionKind,
    /// About whom.
    pub workload: Option<WorkloadName>,
    /// In which drain.
    pub drain: Option<DrainId>,
    /// On which node.
    pub node: Option<NodeName>,
    /// Why.
    pub reason: Reason,
}
