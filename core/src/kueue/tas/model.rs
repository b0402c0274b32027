//! What placement is asked about: nodes, pods of others, pod sets; and how its answer is handed back.

use crate::kueue::matching::{LabelRequirement, Labels, Taint, Toleration};
use crate::kueue::workload::{Placement, PodSet, Requests};

use super::failure::Failure;

/// The label that names a node. A topology whose lowest level is this one is placed node by node, and only then
/// do taints, node selectors and node affinity count.
pub(in crate::kueue) const HOSTNAME: &str = "kubernetes.io/hostname";

/// The resource of which every pod takes one unit, whatever else it requests.
pub(super) const PODS: &str = "pods";

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique in the cluster; of two nodes with one name only the first counts.
    pub name: String,
    /// Its labels. A node that lacks the label of any level takes no part in placement.
    pub labels: Labels,
    /// What its pods may take together, in the units of [`Requests`]. A resource that is missing here is 0,
    /// `pods` too.
    pub allocatable: Requests,
    /// Its taints, in the node's order; the first untolerated one is the one reported.
    pub taints: Vec<Taint>,
    /// Whether the kubelet says it is ready. A node that is not ready takes no part in placement.
    pub is_ready: bool,
    /// Whether it is cordoned. A cordoned node takes no part in placement.
    pub is_unschedulable: bool,
    /// The part of `allocatable` that is degraded: it works, but should be used last. Range: 0 to `allocatable`.
    /// It counts only with [`Switches::avoids_degraded`].
    pub degraded: Requests,
}

impl Node {
    pub(super) fn is_usable(&self) -> bool {
        self.is_ready && !self.is_unschedulable
    }
}

/// A pod that is not managed here but takes room: a daemon, a static pod, somebody else's deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherPod {
    /// The node it runs on; a pod on an unknown node is ignored.
    pub node: String,
    /// What it requests; one unit of `pods` is added here.
    pub requests: Requests,
    /// Whether it has succeeded or failed and so takes nothing any more.
    pub has_ended: bool,
}

/// Which nodes belong to a flavor, and how they hang together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlavorNodes {
    /// Node label keys, topmost level first; Kueue allows 1 to 16, each at most once.
    pub levels: Vec<String>,
    /// Labels that a node of this flavor carries.
    pub node_labels: Labels,
    /// Tolerations that the flavor gives to every pod.
    pub tolerations: Vec<Toleration>,
    /// Whether the last level was added so that pods get a node each; pods cannot ask for it.
    pub is_last_level_added: bool,
}

impl FlavorNodes {
    /// Whether no level was declared at all.
    pub(in crate::kueue) fn is_first_level_added(&self) -> bool {
        self.is_last_level_added && self.levels.len() == 1
    }
}

/// Which of Kueue's optional rules are on. The default is Kueue's own default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "rules are switched one by one")]
pub struct Switches {
    /// How pods without any wish are placed (`TASProfileMixed`).
    pub unconstrained: UnconstrainedOrder,
    /// Spread evenly over as few domains as possible where the topology is only preferred
    /// (`TASBalancedPlacement`, off).
    pub is_balanced: bool,
    /// Let preferred node affinity outrank tightness (`TASRespectNodeAffinityPreferred`, off).
    pub respects_preferred_affinity: bool,
    /// Keep the pods of the workload's predecessor where they are (`ElasticJobsViaWorkloadSlicesWithTAS`, off).
    pub is_elastic: bool,
    /// Place on degraded devices only what finds no place without them (Kueue does not know them; off).
    pub avoids_degraded: bool,
    /// Replace all broken nodes of a placement, not only a single one (Kueue replaces one; off).
    pub replaces_several_nodes: bool,
}

/// How pods without any wish are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnconstrainedOrder {
    /// The domain with the least free capacity first, which fills up remnants (`TASProfileMixed` on, the default).
    #[default]
    LeastFree,
    /// As for all other pods: the fewest domains, the last one as tight as possible.
    BestFit,
}

/// A preferred node affinity term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreferredTerm {
    /// Added to a node's score when the term holds. Range: 1 to 100 in Kubernetes.
    pub weight: i64,
    /// All of these must hold; an empty list never holds.
    pub requirements: Vec<LabelRequirement>,
}

/// How many pods of which pod set are to be placed.
#[derive(Clone, Copy, Debug)]
pub struct PodSetRequest<'a> {
    /// Requests per pod, topology wishes, node selector and affinity, tolerations.
    pub pod_set: &'a PodSet,
    /// Pods to place; below `pod_set.count` when only a part is admitted.
    pub count: u32,
    /// Whether the queue places pods by topology although this pod set does not ask for it.
    pub is_implied: bool,
    /// Preferred node affinity; it counts only with [`Switches::respects_preferred_affinity`].
    pub preferred: &'a [PreferredTerm],
    /// Where the pods of the workload that this one takes over from are; it counts only with
    /// [`Switches::is_elastic`].
    pub previous: Option<&'a Placement>,
}

impl<'a> PodSetRequest<'a> {
    /// All pods of `pod_set`, with nothing implied, preferred or taken over.
    #[must_use]
    pub fn new(pod_set: &'a PodSet) -> Self {
        Self { pod_set, count: pod_set.count, is_implied: false, preferred: &[], previous: None }
    }

    /// Pod sets of one group are placed together.
    pub(super) fn group(&self) -> Option<&'a str> {
        self.pod_set.topology.as_ref()?.group.as_deref()
    }
}

/// What a placement may count on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capacity {
    /// What is free now.
    #[default]
    Free,
    /// What would be free if no placed workload were there; pods of others still count.
    Empty,
}

/// The answer for all pod sets that were asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// One entry per pod set looked at, group by group. The search ends with the first pod set, or group, that
    /// cannot be placed; those after it are missing.
    pub pod_sets: Vec<PodSetOutcome>,
}

/// The answer for one pod set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSetOutcome {
    /// Position of the pod set in the list of requests.
    pub index: usize,
    /// Where it goes, or why it cannot.
    pub result: Result<Placement, Failure>,
}

impl Outcome {
    /// The first failure with the position of its pod set, if there is any.
    #[must_use]
    pub fn failure(&self) -> Option<(usize, &Failure)> {
        self.pod_sets
            .iter()
            .find_map(|outcome| Some((outcome.index, outcome.result.as_ref().err()?)))
    }

    /// The placement of the pod set at `index` of the list of requests.
    #[must_use]
    pub fn placement(&self, index: usize) -> Option<&Placement> {
        self.pod_sets.iter().find(|outcome| outcome.index == index)?.result.as_ref().ok()
    }
}
