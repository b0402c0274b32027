//! Workloads as Kueue sees them: what they ask for, what they have been given, what state they are in.

use std::collections::BTreeMap;

use super::matching::{LabelRequirement, Labels, Toleration};
use super::name::{
    CheckName, FlavorName, FlavorResource, LocalQueueName, PodSetName, QueueName, ResourceName,
    WorkloadKey,
};

/// Amounts per resource. Unit: milli-CPU for `cpu`, bytes for memory and storage, whole units otherwise.
pub type Requests = BTreeMap<ResourceName, i64>;

/// Amounts per flavor and resource, in the same units as [`Requests`].
pub type Usage = BTreeMap<FlavorResource, i64>;

/// A gang of pods that is admitted as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Namespace and name.
    pub key: WorkloadKey,
    /// The object's UID; the last tie-break of every order. Empty where none is known.
    pub uid: String,
    /// The cluster queue its local queue leads to.
    pub queue: QueueName,
    /// The local queue it was submitted to; empty where there is none.
    pub local_queue: LocalQueueName,
    /// Base priority; higher goes first.
    pub priority: i32,
    /// What the priority-boost annotation adds to `priority`; 0 where it is absent, invalid or switched off.
    pub priority_boost: i32,
    /// When it was created, in milliseconds of the arbiter's clock. 0 is older than everything.
    pub created_at_ms: u64,
    /// What it asks for; at least one pod set.
    pub pod_sets: Vec<PodSet>,
    /// Pods per pod set that have finished for good and need no quota any more.
    pub reclaimable: BTreeMap<PodSetName, u32>,
    /// The flavors its admission may use; empty means all (annotation of concurrent admission).
    pub allowed_flavors: Vec<FlavorName>,
    /// What it holds now, if quota is reserved.
    pub reservation: Option<Reservation>,
    /// A running or past eviction that has not been undone by a new reservation.
    pub eviction: Option<Eviction>,
    /// Nodes its pods sit on that are known to be broken.
    pub unhealthy_nodes: Vec<String>,
    /// State of each admission check that applies to it.
    pub checks: BTreeMap<CheckName, CheckState>,
}

impl Workload {
    /// The priority that every decision uses: base plus boost.
    #[must_use]
    pub fn effective_priority(&self) -> i64 {
        i64::from(self.priority) + i64::from(self.priority_boost)
    }

    /// The moment its place in the queue counts from, in milliseconds of the arbiter's clock.
    ///
    /// Creation, or the eviction when it was evicted for not getting ready or by an admission check.
    #[must_use]
    pub fn queued_at_ms(&self) -> u64 {
        match &self.eviction {
            Some(eviction) if eviction.reason.moves_to_the_back() => eviction.at_ms,
            Some(_) | None => self.created_at_ms,
        }
    }

    /// The quota its reservation takes; pods that have finished for good take none.
    #[must_use]
    pub fn reserved_usage(&self) -> Usage {
        let mut usage = Usage::new();
        let Some(reservation) = &self.reservation else { return usage };
        for admitted in &reservation.admission.pod_sets {
            let left = self.count_after_reclaim(&admitted.name).min(admitted.count);
            for (resource, flavor) in &admitted.flavors {
                let amount = admitted.usage.get(resource).copied().unwrap_or(0).max(0);
                let amount = scale(amount, admitted.count, left);
                let total = usage.entry(FlavorResource::new(flavor, resource)).or_insert(0);
                *total = total.saturating_add(amount);
            }
        }
        usage
    }

    /// Pods of the pod set `name` that have not finished for good.
    #[must_use]
    pub fn count_after_reclaim(&self, name: &PodSetName) -> u32 {
        let count = self.pod_sets.iter().find(|pod_set| pod_set.name == *name).map(|p| p.count);
        let finished = self.reclaimable.get(name).copied().unwrap_or(0);
        count.unwrap_or(u32::MAX).saturating_sub(finished)
    }

    /// Whether an eviction is under way.
    #[must_use]
    pub fn is_being_evicted(&self) -> bool {
        self.eviction.is_some()
    }

    /// Whether some pod set may be admitted with fewer pods than it asks for.
    #[must_use]
    pub fn can_be_partial(&self) -> bool {
        self.pod_sets.iter().any(|pod_set| pod_set.min_count.is_some_and(|min| min < pod_set.count))
    }

    /// Whether some pod set asks for a topology in so many words.
    #[must_use]
    pub fn requests_topology(&self) -> bool {
        self.pod_sets.iter().any(PodSet::requests_topology)
    }

    /// Whether its reservation has pods on a node known to be broken.
    #[must_use]
    pub fn has_unhealthy_placement(&self) -> bool {
        let Some(reservation) = &self.reservation else { return false };
        reservation.is_admitted
            && reservation.admission.pod_sets.iter().any(|pod_set| {
                pod_set.placement.as_ref().is_some_and(|placement| {
                    placement.domains.iter().any(|domain| self.is_unhealthy(domain))
                })
            })
    }

    /// Whether `domain` ends at a node known to be broken.
    #[must_use]
    pub fn is_unhealthy(&self, domain: &PlacedDomain) -> bool {
        domain.values.last().is_some_and(|node| self.unhealthy_nodes.contains(node))
    }

    /// Whether the scheduler must look at it again although it holds quota: its placement was put off until
    /// its checks were ready, or a node under it broke.
    #[must_use]
    pub fn needs_second_pass(&self) -> bool {
        let Some(reservation) = &self.reservation else { return false };
        if self.is_being_evicted() {
            return false;
        }
        let placement_is_due = !self.checks.is_empty()
            && self.checks.values().all(|state| *state == CheckState::Ready)
            && !reservation.is_admitted
            && reservation.admission.pod_sets.iter().any(|pod_set| {
                pod_set.placement.is_none()
                    && pod_set.delayed_placement == Some(DelayedPlacement::Pending)
            });
        placement_is_due || self.has_unhealthy_placement()
    }
}

/// What `amount` for `count` pods becomes for `left` of them.
pub(super) fn scale(amount: i64, count: u32, left: u32) -> i64 {
    if count == 0 || count == left {
        return amount;
    }
    (amount / i64::from(count)).saturating_mul(i64::from(left))
}

/// Pods of a workload that are all alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSet {
    /// Unique within the workload.
    pub name: PodSetName,
    /// Pods wanted.
    pub count: u32,
    /// Fewest pods it can run with, if fewer than `count` will do.
    pub min_count: Option<u32>,
    /// What one pod requests.
    pub requests: Requests,
    /// How the pods must lie to each other.
    pub topology: Option<TopologyRequest>,
    /// Taints the pods tolerate.
    pub tolerations: Vec<Toleration>,
    /// Node labels the pods insist on.
    pub node_selector: Labels,
    /// Required node affinity: any term, and all of its expressions.
    pub affinity_terms: Vec<Vec<LabelRequirement>>,
}

impl PodSet {
    /// Whether it asks for a topology in so many words; a mere group name does not count.
    #[must_use]
    pub fn requests_topology(&self) -> bool {
        self.topology.as_ref().is_some_and(TopologyRequest::is_explicit)
    }
}

/// How a pod set's pods must lie to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopologyRequest {
    /// Where the pods must lie; `None` for a request that only cuts slices or only names a group.
    pub mode: Option<TopologyMode>,
    /// Pod sets with the same group are placed together.
    pub group: Option<String>,
    /// Slices of the pod set must each lie within one domain of this level (a node label key).
    pub slice_level: Option<String>,
    /// Pods per slice.
    pub slice_size: Option<u32>,
    /// Slices within slices, outermost first.
    pub slice_layers: Vec<SliceLayer>,
}

impl TopologyRequest {
    /// Whether it asks for anything beyond a group.
    #[must_use]
    pub fn is_explicit(&self) -> bool {
        self.mode.is_some() || self.slice_level.is_some() || !self.slice_layers.is_empty()
    }
}

/// Where a pod set's pods must lie. Levels are node label keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyMode {
    /// All in one domain of this level, or nowhere.
    Required(String),
    /// In one domain of this level if possible, else of a higher one, else spread.
    Preferred(String),
    /// Anywhere, as long as there is room.
    Unconstrained,
}

/// One layer of slices within slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceLayer {
    /// Each slice of this layer must lie within one domain of this level (a node label key).
    pub level: String,
    /// Pods per slice of this layer.
    pub size: u32,
}

/// What a workload holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// When quota was reserved, in milliseconds of the arbiter's clock.
    pub at_ms: u64,
    /// Whether the workload was also allowed to start.
    pub is_admitted: bool,
    /// What it was given.
    pub admission: Admission,
}

/// What a workload was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The cluster queue whose quota it uses.
    pub queue: QueueName,
    /// One entry per pod set, in the workload's order.
    pub pod_sets: Vec<PodSetAdmission>,
}

/// What one pod set was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSetAdmission {
    /// The pod set.
    pub name: PodSetName,
    /// Pods admitted.
    pub count: u32,
    /// The flavor chosen for each resource.
    pub flavors: BTreeMap<ResourceName, FlavorName>,
    /// Quota taken by all its pods together.
    pub usage: Requests,
    /// Where its pods go, if its flavor has a topology.
    pub placement: Option<Placement>,
    /// Whether its placement is put off until its admission checks are ready.
    pub delayed_placement: Option<DelayedPlacement>,
}

/// State of a placement that was put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayedPlacement {
    /// Still to be computed.
    Pending,
    /// Computed.
    Ready,
}

/// Which topology domains hold how many pods of a pod set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The node label keys that `PlacedDomain::values` belong to, topmost first.
    pub levels: Vec<String>,
    /// The domains used, ordered by their full path.
    pub domains: Vec<PlacedDomain>,
}

/// One domain of a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedDomain {
    /// The label values that name the domain, one per level of the placement.
    pub values: Vec<String>,
    /// Pods in it.
    pub pods: u32,
}

/// An eviction of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Why.
    pub reason: EvictionReason,
    /// When it was ordered, in milliseconds of the arbiter's clock.
    pub at_ms: u64,
}

/// Why a workload is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionReason {
    /// For a workload with a better claim.
    Preempted,
    /// Its pods did not get ready in time.
    PodsReadyTimeout,
    /// An admission check asked for it.
    AdmissionCheck,
    /// Its cluster queue was stopped.
    ClusterQueueStopped,
    /// Its local queue was stopped.
    LocalQueueStopped,
    /// Nodes under it broke and there was no replacement.
    NodeFailures,
    /// It was switched off.
    Deactivated,
}

impl EvictionReason {
    /// Kueue's stable name of the reason, as in the condition `Evicted`.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Preempted => "Preempted",
            Self::PodsReadyTimeout => "PodsReadyTimeout",
            Self::AdmissionCheck => "AdmissionCheck",
            Self::ClusterQueueStopped => "ClusterQueueStopped",
            Self::LocalQueueStopped => "LocalQueueStopped",
            Self::NodeFailures => "NodeFailures",
            Self::Deactivated => "Deactivated",
        }
    }

    /// Whether the workload queues up anew from the moment of its eviction.
    fn moves_to_the_back(self) -> bool {
        match self {
            Self::PodsReadyTimeout | Self::AdmissionCheck => true,
            Self::Preempted
            | Self::ClusterQueueStopped
            | Self::LocalQueueStopped
            | Self::NodeFailures
            | Self::Deactivated => false,
        }
    }
}

/// State of an admission check of one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckState {
    /// Not answered yet.
    Pending,
    /// Passed.
    Ready,
    /// Failed for now: release the quota and come back.
    Retry,
    /// Failed for good.
    Rejected,
}

/// Reads the value of the priority-boost annotation; anything but a 32-bit integer counts as no boost.
#[must_use]
pub fn parse_priority_boost(text: &str) -> i32 {
    text.parse().unwrap_or(0)
}
