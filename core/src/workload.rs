//! Workloads: what was asked for, by whom, and where it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::checkpoint::{Checkpoint, CheckpointFormat, CheckpointRules};
use crate::id::{DeviceId, DrainId, LauncherId, NodeName, QueueName, ResourceName, WorkloadName};
use crate::kueue::workload::TopologyMode;
use crate::reason::Reason;
use crate::unit::Time;

/// Most ranks in one gang.
pub const RANKS_MAX: u32 = 4_096;
/// Most different resources one rank may ask for.
pub const RESOURCES_MAX: usize = 16;
/// Most names of nodes in the different sets of nodes that the ranks of one gang reach, together. Enough for 65,536 nodes
/// that all ranks reach, or for 32 nodes for each of 4,096 ranks; each set is placed by itself.
pub const REACH_MAX: usize = 131_072;

/// True for resources that are devices on a node, such as `nvidia.com/gpu`; others (`cpu`, `memory`) count against
/// quota only.
#[must_use]
pub fn is_device(resource: &str) -> bool {
    resource.contains('/')
}

/// Where a workload's checkpoints are and how they look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointSpec {
    /// Directory, as the worker sees it.
    pub dir: String,
    /// Layout.
    pub format: CheckpointFormat,
    /// What else was said about them.
    pub rules: CheckpointRules,
}

/// A signal that makes the worker save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaveSignal {
    /// Signal number on Linux, 1..=64.
    pub number: i32,
    /// True if the worker ends by itself after the save.
    pub exits_after_save: bool,
}

/// Slices of TPUs that a gang asks for: all of them, or it does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceSpec {
    /// A generation of TPUs: its name, or the value of the node label. Empty: that of the nodes, if it is the only one.
    pub generation: String,
    /// The shape as it was written, such as `4x4x8`: the arbiter says what is wrong with it.
    pub shape: String,
    /// How many slices of this shape; ranks are spread evenly over them, the first ranks on the first.
    pub count: u32,
    /// Whether degraded partitions will not do.
    pub is_healthy_only: bool,
    /// Workloads of one group (prefill and decode of one server, say) go to one block if there is a choice.
    pub group: Option<String>,
}

/// One slice of a gang: where it is or is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlicePlace {
    /// The ids of its partitions, as the nodes' labels have them.
    pub partitions: Vec<String>,
    /// The node of each rank that runs on it.
    pub nodes: BTreeMap<u32, NodeName>,
}

/// What was asked for. The same for all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadSpec {
    /// Unique name.
    pub name: WorkloadName,
    /// Queue it is charged to.
    pub queue: QueueName,
    /// Higher goes first and may preempt lower.
    pub priority: i32,
    /// Ranks of the gang, 1..=[`RANKS_MAX`]; all start or none.
    pub nnodes: u32,
    /// Quantity of each resource, per rank.
    pub resources: BTreeMap<ResourceName, u64>,
    /// How the ranks must lie to each other; `None`: anyhow. Levels are node label keys.
    pub topology: Option<TopologyMode>,
    /// Slices of TPUs that it runs on; `None`: on any devices.
    pub slice: Option<Box<SliceSpec>>,
    /// Where to look for checkpoints.
    pub checkpoint: Option<CheckpointSpec>,
    /// How to ask for one.
    pub save_signal: Option<SaveSignal>,
    /// Somebody vouches for it: it need not be tried first.
    pub is_signal_vouched: bool,
    /// Time after which the worker is killed from within once it was told to end, if somebody has said. Unit: ms.
    pub grace_ms: Option<u64>,
    /// How long this workload, as a preemptor, waits for a victim's checkpoint. 0: the arbiter's default.
    pub drain_deadline_ms: u64,
    /// The command, for people to see.
    pub command: Vec<String>,
}

impl WorkloadSpec {
    /// Quantity of `resource` for the whole gang (saturating).
    #[must_use]
    pub fn total(&self, resource: &ResourceName) -> u64 {
        self.resources.get(resource).copied().unwrap_or(0).saturating_mul(u64::from(self.nnodes))
    }
}

/// Where a rank runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The node.
    pub node: NodeName,
    /// The devices on it.
    pub devices: BTreeSet<DeviceId>,
    /// The flavor whose quota each resource is charged to, by resource.
    pub flavors: BTreeMap<String, String>,
}

/// Capacity that is being made for a workload, or has been and waits for it. Nobody else gets it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reservation {
    /// Where each rank will run.
    pub placement: BTreeMap<u32, Assignment>,
    /// Drains that make the room.
    pub drains: BTreeSet<DrainId>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// With an exit status.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// It is gone and nobody saw how.
    Unknown,
}

impl Exit {
    /// True for exit status 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit status {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("an unknown exit"),
        }
    }
}

impl FromStr for Exit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |prefix| text.strip_prefix(prefix).and_then(|n: &str| n.parse().ok());
        number("exit status ")
            .map(Self::Code)
            .or_else(|| number("signal ").map(Self::Signal))
            .or_else(|| (text == "an unknown exit").then_some(Self::Unknown))
            .ok_or_else(|| format!("{text:?} is not an exit"))
    }
}

/// One rank of the gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The `sluice run` process that starts this rank.
    pub launcher: LauncherId,
    /// Nodes on which it can start a worker. Ranks of one gang that reach the same share the set.
    pub nodes: Arc<BTreeSet<NodeName>>,
    /// When the launcher's watch ended; `None` while it watches.
    pub detached_at: Option<Time>,
    /// Where the rank runs or is to run.
    pub assignment: Option<Assignment>,
    /// True once the worker process of the current attempt has been seen.
    pub started: bool,
    /// How the worker of the current attempt ended.
    pub exit: Option<Exit>,
    /// When its agent said that the worker is gone though no launcher has told how.
    pub vanished_at: Option<Time>,
}

/// Where a workload stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// In the queue.
    Pending,
    /// Devices are assigned; not all ranks have started.
    Admitted,
    /// All ranks have started.
    Running,
    /// A drain of it is open.
    Draining,
    /// Every rank ended with status 0.
    Succeeded,
    /// A rank failed.
    Failed,
    /// Given up on request.
    Cancelled,
}

impl Phase {
    /// True once nothing more happens to it.
    #[must_use]
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    /// True while it holds devices.
    #[must_use]
    pub fn holds_devices(self) -> bool {
        matches!(self, Self::Admitted | Self::Running | Self::Draining)
    }
}

/// What was measured about a workload, from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Time of one step. Unit: ms.
    pub step_ms: Option<u64>,
    /// Time from one periodic checkpoint to the next. Unit: ms.
    pub save_interval_ms: Option<u64>,
    /// Time a save takes. Unit: ms.
    pub save_ms: Option<u64>,
    /// Time from a start to the first step. Unit: ms.
    pub restart_ms: Option<u64>,
    /// True once a save signal produced no checkpoint: it is not planned again unless a rehearsal succeeds.
    pub signal_unproven: bool,
    /// True once a save signal was seen to produce a checkpoint.
    pub signal_proven: bool,
    /// True once the worker did not save when it was asked through its files.
    pub client_unproven: bool,
    /// Whether the worker was seen to end after such a save.
    pub exits_after_save: Option<bool>,
    /// When each drain of the last hour was planned; at most 64.
    pub drained_at: Vec<Time>,
}

/// A workload and all that is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// What was asked for.
    pub spec: WorkloadSpec,
    /// Where it stands.
    pub phase: Phase,
    /// Why it stands there.
    pub reason: Reason,
    /// Number of the current or last start; 0 before the first.
    pub attempt: u32,
    /// The ranks that have been submitted.
    pub members: BTreeMap<u32, Member>,
    /// When the first rank was submitted.
    pub submitted_at: Time,
    /// When the phase began.
    pub phase_since: Time,
    /// When it last got devices.
    pub admitted_at: Option<Time>,
    /// When the current attempt began to run (all ranks started).
    pub running_since: Option<Time>,
    /// Newest checkpoint seen complete on every rank that has one.
    pub checkpoint: Option<Checkpoint>,
    /// When it was completed, on the arbiter's clock.
    pub checkpoint_at: Option<Time>,
    /// Measurements.
    pub profile: Profile,
    /// The drain that is open or was the last.
    pub last_drain: Option<DrainId>,
    /// Step from which the next start should resume.
    pub resume_step: Option<u64>,
    /// Capacity that is being made for it, or has been and waits for it.
    pub reservation: Option<Reservation>,
    /// Its slices while it has devices or some are held for it, by index. Of one that waits: those that it had last.
    pub slices: Vec<SlicePlace>,
}

impl Workload {
    /// True if every rank has been submitted.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.members.len() == self.spec.nnodes as usize
    }

    /// The different sets of nodes that its ranks reach, except `rank`.
    fn reaches(&self, rank: Option<u32>) -> impl Iterator<Item = &Arc<BTreeSet<NodeName>>> {
        let others = self.members.iter().filter(move |(other, _)| Some(**other) != rank);
        let mut known = BTreeSet::new();
        others
            .map(|(_, member)| &member.nodes)
            .filter(move |nodes| known.insert(Arc::as_ptr(nodes)))
    }

    /// `nodes` as the set that another rank than `rank` reaches, if it is the same.
    #[must_use]
    pub fn share_reach(&self, rank: u32, nodes: BTreeSet<NodeName>) -> Arc<BTreeSet<NodeName>> {
        let same = self.reaches(Some(rank)).find(|known| ***known == nodes);
        same.map_or_else(|| Arc::new(nodes), Arc::clone)
    }

    /// Names in the different sets of nodes that its ranks reach, if `rank` reaches `nodes`.
    #[must_use]
    pub fn reach_size(&self, rank: u32, nodes: &Arc<BTreeSet<NodeName>>) -> usize {
        let others = self.reaches(Some(rank)).filter(|known| !Arc::ptr_eq(known, nodes));
        others.map(|known| known.len()).sum::<usize>() + nodes.len()
    }

    /// Makes ranks that reach the same share the set.
    pub(crate) fn share_reaches(&mut self) {
        let mut known: BTreeSet<Arc<BTreeSet<NodeName>>> = BTreeSet::new();
        for member in self.members.values_mut() {
            match known.get(&member.nodes) {
                Some(same) => member.nodes = Arc::clone(same),
                None => drop(known.insert(Arc::clone(&member.nodes))),
            }
        }
    }

    /// Number of devices the gang holds now.
    #[must_use]
    pub fn device_count(&self) -> u64 {
        let count = |m: &Member| m.assignment.as_ref().map_or(0, |a| a.devices.len());
        self.members.values().map(count).sum::<usize>() as u64
    }

    /// Its slices, if it has devices or some are held for it: until the workers are gone nobody else gets their hosts.
    #[must_use]
    pub fn slices_held(&self) -> &[SlicePlace] {
        let is_held = self.reservation.is_some() || self.device_count() > 0;
        if is_held { &self.slices } else { &[] }
    }

    /// Time since which work is in no checkpoint: the last checkpoint of this attempt, or its start.
    ///
    /// `None` while it does not run.
    #[must_use]
    pub fn unsaved_since(&self) -> Option<Time> {
        let running = self.running_since?;
        Some(self.checkpoint_at.map_or(running, |at| at.max(running)))
    }
}
