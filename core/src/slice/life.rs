//! One slice of a gang, from its creation until its nodes can be used again.
//!
//! ```text
//!            ┌── stale · failed · refused ──┐
//! ABSENT ─▶ CREATED ─▶ ACTIVATING ─▶ ACTIVE ⇄ ACTIVE_DEGRADED     FAILED (pods end)
//!   ▲          └──────────┴──────────┬─┴──────────┬─────────────────┘
//!   │                                │ drain: signal → checkpoint → pods end
//!   └───── nodes reusable ◀── DEACTIVATING ◀── slice deleted
//! ```
//!
//! A slice can only be deleted once all pods on it have ended, and occupies its nodes until its object is gone: so the
//! order is always signal, checkpoint, pods end, slice gone, nodes reusable. It cannot be changed or mended: if a node
//! fails, all of it moves. Waiting is done by the caller: [`Output::WakeAt`] asks for an [`Input::Tick`].
//!
//! Input may be late, twice or out of order: what does not suit the state changes nothing.

mod steps;
#[cfg(test)]
mod tests;
mod timers;

use crate::unit::Time;

/// Times and limits. The default is what the cloud's own controller does, where it does it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// After so long without being ready a new slice is given up. The controller's own limit. Unit: ms.
    pub activation_timeout_ms: u64,
    /// Between the end of a slice and the next try. The controller's own delay. Unit: ms.
    pub retry_delay_ms: u64,
    /// Tries on the same partitions, after which others are asked for. A place that failed three times is not likely to
    /// work the fourth; with more a broken cube holds a gang up for longer.
    pub tries_per_place_max: u32,
    /// After so long in deactivation a person is told; the cloud's manual says 10 to 15 minutes. Unit: ms.
    pub deactivation_alert_ms: u64,
    /// So long a slice has to be degraded before it moves, and so far apart moves are: health that flaps three times a
    /// minute must not move anybody each time. Unit: ms.
    pub hold_down_ms: u64,
    /// How long a checkpoint takes. Unit: ms.
    pub save_ms: u64,
    /// How long pods have to end before they are ended by force. Unit: ms.
    pub end_ms: u64,
    /// To spare before maintenance, for the slice itself to go. Unit: ms.
    pub margin_ms: u64,
    /// Whether a degraded slice will not do.
    pub is_healthy_only: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            activation_timeout_ms: 180_000,
            retry_delay_ms: 10_000,
            tries_per_place_max: 3,
            deactivation_alert_ms: 900_000,
            hold_down_ms: 300_000,
            save_ms: 300_000,
            end_ms: 30_000,
            margin_ms: 120_000,
            is_healthy_only: false,
        }
    }
}

/// What pods of a preemptible machine get of its 30 s of notice: the kubelet keeps the other half. Unit: ms.
pub const SPOT_NOTICE_MS_MAX: u64 = 15_000;

/// The partition ids of the slice, as its object names them.
pub type Place = Vec<String>;

/// Where a slice is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// There is no object.
    Absent,
    /// The object has no condition yet.
    Created,
    /// It is being formed.
    Activating,
    /// Pods can run.
    Active,
    /// Pods can run, more slowly.
    ActiveDegraded,
    /// It cannot be used any more; its pods are being ended.
    Failed,
    /// It was deleted and still occupies its nodes.
    Deactivating,
}

/// What is read from the slice's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// It is there, without a condition or with an unknown one.
    None,
    /// `SliceCreationFailed`: a node is used by another slice, or is missing.
    CreationFailed,
    /// `ACTIVATING`.
    Activating,
    /// `ACTIVE`.
    Active,
    /// `ACTIVE_DEGRADED`.
    ActiveDegraded,
    /// `FAILED`.
    Failed,
    /// `DEACTIVATING` or `INCOMPLETE`, or it has a deletion timestamp.
    Deactivating,
    /// There is no object.
    Gone,
}

impl Condition {
    /// What the reason of the condition `Ready` means.
    #[must_use]
    pub fn of_reason(reason: &str) -> Self {
        match reason {
            "SliceCreationFailed" => Self::CreationFailed,
            "ACTIVATING" => Self::Activating,
            "ACTIVE" => Self::Active,
            "ACTIVE_DEGRADED" => Self::ActiveDegraded,
            "FAILED" => Self::Failed,
            "DEACTIVATING" | "INCOMPLETE" => Self::Deactivating,
            _ => Self::None,
        }
    }
}

/// Why a slice ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It did not become ready in time.
    Stale,
    /// It failed.
    Failed,
    /// Its nodes are not free.
    Refused,
    /// A node of it failed.
    NodeFailed,
    /// It is degraded.
    Degraded,
    /// Maintenance comes.
    Maintenance,
    /// The machine is about to be taken away.
    MachineEnds,
    /// Somebody more important needs the place.
    Preempted,
    /// Somebody deleted it.
    DeletedByHand,
    /// The gang is done.
    Finished,
}

impl Cause {
    /// A stable code, for programs.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Stale => "slice-stale",
            Self::Failed => "slice-failed",
            Self::Refused => "slice-refused",
            Self::NodeFailed => "slice-node-failed",
            Self::Degraded => "slice-degraded",
            Self::Maintenance => "slice-maintenance",
            Self::MachineEnds => "slice-machine-ends",
            Self::Preempted => "slice-preempted",
            Self::DeletedByHand => "slice-deleted-by-hand",
            Self::Finished => "slice-finished",
        }
    }

    /// Whether the gang goes on in another slice, rather than back to its queue or to its end.
    pub(super) fn goes_on(self) -> bool {
        match self {
            Self::Stale
            | Self::Failed
            | Self::Refused
            | Self::NodeFailed
            | Self::Degraded
            | Self::Maintenance
            | Self::MachineEnds => true,
            Self::Preempted | Self::DeletedByHand | Self::Finished => false,
        }
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The object was looked at.
    Observed(Condition),
    /// So many pods of the gang have not ended.
    PodsLeft(u32),
    /// The checkpoint of the drain is durable.
    Saved,
    /// A node of the slice failed.
    NodeFailed,
    /// Maintenance is announced.
    Maintenance {
        /// When it begins.
        from: Time,
    },
    /// The machine is about to be taken away: a preemptible one, say.
    MachineEnds {
        /// When.
        at: Time,
    },
    /// Somebody more important needs the place.
    Evict {
        /// By when the pods have to have ended.
        deadline: Time,
    },
    /// Others were found: the answer to [`Output::Replan`].
    Place(Place),
    /// There are no others.
    NoPlace,
    /// The gang is done.
    Finished,
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Create the object.
    Create(Place),
    /// Pods may start; from their checkpoint, if they ran before.
    Ready {
        /// Whether they ran before.
        is_resume: bool,
    },
    /// Ask the pods for a checkpoint.
    Signal {
        /// By when it has to be durable.
        deadline: Time,
    },
    /// End the pods, with the usual grace.
    EndPods,
    /// End by force those pods that have not ended.
    KillPods,
    /// Delete the object.
    Delete(Cause),
    /// The nodes can be given to others, or to the next slice of this gang.
    Reusable(Place),
    /// Find other partitions and answer with [`Input::Place`] or [`Input::NoPlace`].
    Replan {
        /// Why.
        cause: Cause,
        /// Not these.
        avoid: Place,
    },
    /// The gang goes back to its queue.
    Requeue(Cause),
    /// A person has to look: it has been deactivating for too long. Its finalizer is not removed, ever.
    AlertStuck,
    /// Send a tick at this time; replaces the last one.
    WakeAt(Time),
}

/// How far a drain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Drain {
    /// A checkpoint is being made.
    Saving { until: Time },
    /// Pods are ending.
    Ending { until: Time },
}

/// What happens once the object is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing: it is over, or the gang is in its queue.
    Nothing,
    /// It is created, in the place that it has.
    Create { at: Time },
    /// Another place was asked for.
    Replan,
}

/// One slice. See the module.
#[expect(clippy::struct_excessive_bools, reason = "facts that are independent of each other")]
#[derive(Debug, Clone)]
pub struct Life {
    policy: Policy,
    now: Time,
    state: State,
    place: Place,
    /// When it entered its state; of a slice that is being formed, when it was created.
    since: Time,
    /// Whether the object has been seen, so that its absence means something.
    is_seen: bool,
    /// Whether the nodes of a slice that is gone have not been given back, because pods are left.
    is_owed: bool,
    /// Whether the object is one that should not be there.
    is_leftover: bool,
    next: Next,
    drain: Option<Drain>,
    /// Why it is ending.
    cause: Option<Cause>,
    /// Where it goes, if that was found while it still ran.
    other_place: Option<Place>,
    /// Whether another place was asked for while it runs.
    is_asking: bool,
    maintenance: Option<Time>,
    degraded_since: Option<Time>,
    moved_at: Option<Time>,
    tries: u32,
    /// `None` from the moment at which pods may start until they have been counted.
    pods_left: Option<u32>,
    has_run: bool,
    is_alerted: bool,
    wakes_at: Option<Time>,
    outputs: Vec<Output>,
}

impl Life {
    /// A slice that is to be created in `place`, once it is stepped.
    #[must_use]
    pub fn new(place: Place, policy: Policy, now: Time) -> Self {
        Self {
            policy,
            now,
            state: State::Absent,
            place,
            since: now,
            is_seen: false,
            is_owed: false,
            is_leftover: false,
            next: Next::Create { at: now },
            drain: None,
            cause: None,
            other_place: None,
            is_asking: false,
            maintenance: None,
            degraded_since: None,
            moved_at: None,
            tries: 0,
            pods_left: Some(0),
            has_run: false,
            is_alerted: false,
            wakes_at: None,
            outputs: Vec::new(),
        }
    }

    /// Where it is in its life.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Why it is ending, or ended last.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// Its partitions. They are occupied in every state but [`State::Absent`].
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Takes in what happened; what is to be done about it, in this order.
    pub fn step(&mut self, now: Time, input: Input) -> Vec<Output> {
        self.now = self.now.max(now);
        match input {
            Input::Observed(condition) => self.observed(condition),
            Input::PodsLeft(left) => self.pods(left),
            Input::Saved => self.saved(),
            Input::NodeFailed => self.node_failed(),
            Input::Maintenance { from } => self.maintenance(from),
            Input::MachineEnds { at } => self.machine_ends(at),
            Input::Evict { deadline } => self.evict(deadline),
            Input::Place(place) => self.found(place),
            Input::NoPlace => self.not_found(),
            Input::Finished => self.finished(),
            Input::Tick => {}
        }
        self.timers();
        self.ask_to_be_woken();
        std::mem::take(&mut self.outputs)
    }
}
