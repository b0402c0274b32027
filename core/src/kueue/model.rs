//! Queues, cohorts and flavors as Kueue's objects define them. Integers only; how they act is in the other modules.

use std::collections::BTreeMap;

use super::matching::{LabelRequirement, Labels, Taint, Toleration};
use super::name::{CheckName, CohortName, FlavorName, QueueName, ResourceName, TopologyName};
use super::weight::FairWeight;

/// One kind of hardware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceFlavor {
    /// Unique in the cluster.
    pub name: FlavorName,
    /// Labels its nodes carry; workloads that insist on other values do not fit.
    pub node_labels: Labels,
    /// Taints its nodes carry; workloads that do not tolerate them do not fit.
    pub taints: Vec<Taint>,
    /// Tolerations that every admitted pod is given.
    pub tolerations: Vec<Toleration>,
    /// The topology of its nodes; `Some` makes placement topology-aware.
    pub topology: Option<TopologyName>,
}

impl ResourceFlavor {
    /// A flavor of all nodes.
    #[must_use]
    pub fn new(name: FlavorName) -> Self {
        Self {
            name,
            node_labels: Labels::new(),
            taints: Vec::new(),
            tolerations: Vec::new(),
            topology: None,
        }
    }
}

/// How the nodes of a flavor hang together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Unique in the cluster.
    pub name: TopologyName,
    /// Node label keys, topmost level first.
    pub levels: Vec<String>,
}

/// How much of one resource of one flavor a queue or cohort has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Its own share. Unit: as in `Requests`. Range: 0 or more.
    pub nominal: i64,
    /// How much more it may take from its cohort; `None` means no limit.
    pub borrowing_limit: Option<i64>,
    /// How much of its own share the cohort may take while it is unused; `None` means all of it.
    pub lending_limit: Option<i64>,
}

/// Resources that are always assigned the same flavor, and the flavors to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceGroup {
    /// The resources covered.
    pub resources: Vec<ResourceName>,
    /// The flavors, in order of preference.
    pub flavors: Vec<FlavorQuotas>,
}

/// The quotas of one flavor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlavorQuotas {
    /// The flavor.
    pub flavor: FlavorName,
    /// Quota per resource of the group.
    pub quotas: BTreeMap<ResourceName, Quota>,
}

/// A queue with quota of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterQueue {
    /// Unique in the cluster.
    pub name: QueueName,
    /// The cohort it shares unused quota with.
    pub cohort: Option<CohortName>,
    /// What happens when its head does not fit.
    pub strategy: QueueingStrategy,
    /// What it offers.
    pub groups: Vec<ResourceGroup>,
    /// Whom its workloads may preempt.
    pub preemption: Preemption,
    /// When it looks at the next flavor.
    pub fungibility: Fungibility,
    /// Its weight under fair sharing.
    pub fair_weight: FairWeight,
    /// Which namespaces may use it.
    pub namespaces: NamespaceSelector,
    /// Admission checks of its workloads.
    pub checks: Vec<CheckRule>,
    /// Whether it takes new workloads.
    pub stop: StopPolicy,
}

impl ClusterQueue {
    /// A queue with Kueue's defaults that offers nothing yet and is open to everybody.
    #[must_use]
    pub fn new(name: QueueName) -> Self {
        Self {
            name,
            cohort: None,
            strategy: QueueingStrategy::BestEffortFifo,
            groups: Vec::new(),
            preemption: Preemption::NEVER,
            fungibility: Fungibility::DEFAULT,
            fair_weight: FairWeight::ONE,
            namespaces: NamespaceSelector::Matching(Vec::new()),
            checks: Vec::new(),
            stop: StopPolicy::None,
        }
    }

    /// The group that covers `resource`.
    #[must_use]
    pub fn group_of(&self, resource: &ResourceName) -> Option<&ResourceGroup> {
        self.groups.iter().find(|group| group.resources.contains(resource))
    }
}

/// A set of queues and cohorts that share unused quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cohort {
    /// Unique in the cluster.
    pub name: CohortName,
    /// The cohort above it.
    pub parent: Option<CohortName>,
    /// Quota shared by all members.
    pub groups: Vec<ResourceGroup>,
    /// Its weight under fair sharing.
    pub fair_weight: FairWeight,
}

/// What happens when a queue's head does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueingStrategy {
    /// It blocks the queue.
    StrictFifo,
    /// It steps aside until something changes.
    BestEffortFifo,
}

/// Whom a queue's workloads may preempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// In the queue itself.
    pub within_queue: PreemptionPolicy,
    /// In other queues of the cohort that borrow.
    pub reclaim_within_cohort: PreemptionPolicy,
    /// Whether it may take from other queues of the cohort even when it borrows itself.
    pub borrow_within_cohort: BorrowWithinCohort,
}

impl Preemption {
    /// Nobody at all: the default.
    pub const NEVER: Self = Self {
        within_queue: PreemptionPolicy::Never,
        reclaim_within_cohort: PreemptionPolicy::Never,
        borrow_within_cohort: BorrowWithinCohort::Never,
    };
}

/// Which workloads may be preempted, by priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreemptionPolicy {
    /// None.
    Never,
    /// Those of lower priority.
    LowerPriority,
    /// Those of lower priority, and those of equal priority that queued up later.
    LowerOrNewerEqualPriority,
    /// All.
    Any,
}

/// Whether a queue may preempt in other queues while it borrows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BorrowWithinCohort {
    /// It may not.
    Never,
    /// Workloads of lower priority, and at most this one if it is set.
    LowerPriority {
        /// Workloads above this priority are spared.
        max_priority: Option<i32>,
    },
}

/// When a queue looks at the next flavor although it found a possible one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fungibility {
    /// When the flavor would need borrowing.
    pub when_can_borrow: FlavorSearch,
    /// When the flavor would need preemption.
    pub when_can_preempt: FlavorSearch,
    /// Which of two possible flavors is better.
    pub preference: FlavorPreference,
}

impl Fungibility {
    /// Kueue's default.
    pub const DEFAULT: Self = Self {
        when_can_borrow: FlavorSearch::MayStopSearch,
        when_can_preempt: FlavorSearch::TryNextFlavor,
        preference: FlavorPreference::BorrowingOverPreemption,
    };
}

/// Whether the search for a flavor ends at a possible one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlavorSearch {
    /// It ends there.
    MayStopSearch,
    /// It goes on; the best one seen is taken.
    TryNextFlavor,
}

/// Which of two possible flavors is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlavorPreference {
    /// The one without preemption, then the one that borrows from nearer by.
    BorrowingOverPreemption,
    /// The one that borrows from nearer by, then the one without preemption.
    PreemptionOverBorrowing,
}

/// Which namespaces may use a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceSelector {
    /// None.
    Nobody,
    /// Those whose labels meet all of these; an empty list means everybody.
    Matching(Vec<LabelRequirement>),
}

impl NamespaceSelector {
    /// Whether a namespace with these labels may use the queue.
    #[must_use]
    pub fn admits(&self, labels: &Labels) -> bool {
        match self {
            Self::Nobody => false,
            Self::Matching(requirements) => {
                requirements.iter().all(|requirement| requirement.is_met_by(labels))
            }
        }
    }
}

/// An admission check that a queue's workloads must pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRule {
    /// The check.
    pub check: CheckName,
    /// The flavors it applies to; empty means all.
    pub on_flavors: Vec<FlavorName>,
}

/// Whether a queue takes new workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopPolicy {
    /// It does.
    None,
    /// It does not; what runs goes on.
    Hold,
    /// It does not, and what runs is evicted.
    HoldAndDrain,
}

/// An admission check: who answers it, and whether that controller is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionCheck {
    /// Unique in the cluster.
    pub name: CheckName,
    /// The controller that answers it.
    pub controller: String,
    /// Whether the controller says it is ready to answer.
    pub is_active: bool,
}

impl AdmissionCheck {
    /// Whether it provisions the nodes: the placement then has to wait until they exist.
    #[must_use]
    pub fn provisions_nodes(&self) -> bool {
        self.controller == "kueue.x-k8s.io/provisioning-request"
    }

    /// Whether the workload runs in another cluster, which then places it.
    #[must_use]
    pub fn dispatches_elsewhere(&self) -> bool {
        self.controller == "kueue.x-k8s.io/multikueue"
    }
}
