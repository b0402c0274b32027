//! Everything one decision may look at: queues, cohorts, flavors and what runs, at one moment.

mod change;
mod cohorts;
mod inactive;
mod names;
mod places;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use super::model::{AdmissionCheck, ClusterQueue, Cohort, ResourceFlavor, StopPolicy, Topology};
use super::name::{CheckName, CohortName, FlavorName, FlavorResource, QueueName, WorkloadKey};
use super::quota::{Ledger, NodeId, QuotaTree};
use super::tas::{FlavorNodes, Node, NodeBook, OtherPod, Switches};
use super::workload::{Usage, Workload};
use cohorts::CohortPlan;
use names::Names;
use places::Places;

pub use cohorts::COHORT_DEPTH_MAX;
pub use inactive::InactiveReason;
pub(super) use places::TopologyUsage;

/// The objects that define queues. Names are unique per list; of duplicates the last one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Hardware kinds.
    pub flavors: Vec<ResourceFlavor>,
    /// Cohorts; those only named by queues or other cohorts exist without quota of their own.
    pub cohorts: Vec<Cohort>,
    /// Cluster queues.
    pub queues: Vec<ClusterQueue>,
    /// Admission checks.
    pub checks: Vec<AdmissionCheck>,
    /// Topologies.
    pub topologies: Vec<Topology>,
    /// Nodes that topologies are made of.
    pub nodes: Vec<Node>,
    /// Pods on these nodes that are not placed here.
    pub other_pods: Vec<OtherPod>,
    /// Optional rules of placement.
    pub placement: Switches,
    /// Whether every pod gets a node (Kueue leaves pods without a topology to others; off).
    ///
    /// Flavors without a topology then get one whose only level is the host name, other topologies end at the host
    /// name, and pods that do not ask for a topology go anywhere. A node without that label has its name for it.
    /// Which flavors suit a pod set still depends on declared topologies alone.
    pub places_all: bool,
}

/// A workload that holds quota.
#[derive(Clone, Debug)]
pub struct Running {
    /// The workload.
    pub workload: Arc<Workload>,
    /// The queue whose quota it uses.
    pub queue: QueueName,
    /// The quota it uses.
    pub usage: Usage,
    /// What its local queue used in the past, in billionths, where admission is shared by usage.
    pub local_queue_usage_nano: Option<u128>,
    /// Where its snapshot keeps what it takes in topologies.
    slot: Option<usize>,
}

impl Running {
    /// `workload` with what its reservation holds; without a reservation it holds nothing.
    #[must_use]
    pub fn new(workload: Arc<Workload>) -> Self {
        let queue = match &workload.reservation {
            Some(reservation) => reservation.admission.queue.clone(),
            None => workload.queue.clone(),
        };
        let usage = workload.reserved_usage();
        Self { workload, queue, usage, local_queue_usage_nano: None, slot: None }
    }

    /// Whether it uses any of `frs`.
    #[must_use]
    pub fn uses_any(&self, frs: &BTreeSet<FlavorResource>) -> bool {
        self.usage.keys().any(|fr| frs.contains(fr))
    }
}

/// A queue and what runs in it.
#[derive(Clone, Debug)]
pub struct QueueState {
    /// How it is defined.
    pub spec: ClusterQueue,
    /// Its place in the quota tree.
    pub node: NodeId,
    /// Why it admits nothing, if it does not.
    pub inactive: Option<InactiveReason>,
    /// Whether all its flavors have a topology, so that pods are placed even if they do not ask for it.
    pub is_topology_only: bool,
    /// The workloads that hold its quota.
    running: BTreeMap<WorkloadKey, Arc<Running>>,
    /// How many of them have which priority.
    priorities: Priorities,
}

impl QueueState {
    /// The lowest priority of what runs in it; `None` if nothing does.
    #[must_use]
    pub fn lowest_priority(&self) -> Option<i64> {
        self.priorities.lowest()
    }

    fn insert(&mut self, key: WorkloadKey, running: Arc<Running>) {
        self.priorities.add(running.workload.effective_priority());
        self.running.insert(key, running);
    }

    fn remove(&mut self, key: &WorkloadKey) {
        let Some(running) = self.running.remove(key) else { return };
        self.priorities.remove(running.workload.effective_priority());
    }
}

/// How many workloads have which priority.
#[derive(Clone, Debug, Default)]
struct Priorities(BTreeMap<i64, usize>);

impl Priorities {
    fn lowest(&self) -> Option<i64> {
        self.0.first_key_value().map(|(priority, _)| *priority)
    }

    fn add(&mut self, priority: i64) {
        *self.0.entry(priority).or_insert(0) += 1;
    }

    fn remove(&mut self, priority: i64) {
        let Some(count) = self.0.get_mut(&priority) else { return };
        *count -= 1;
        if *count == 0 {
            self.0.remove(&priority);
        }
    }
}

/// Queues, cohorts, flavors and what runs, at one moment.
///
/// A clone shares what is large (nodes, what runs, and where) until one of both changes it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    flavors: BTreeMap<FlavorName, ResourceFlavor>,
    checks: BTreeMap<CheckName, AdmissionCheck>,
    queues: BTreeMap<QueueName, Arc<QueueState>>,
    queue_of_node: BTreeMap<NodeId, QueueName>,
    tree: QuotaTree,
    running: Arc<BTreeMap<WorkloadKey, Arc<Running>>>,
    /// Names of what is counted, so that all use the same text.
    names: Names,
    /// Per root of the quota tree, how many of those below have which priority.
    priorities: BTreeMap<NodeId, Priorities>,
    nodes: Arc<NodeBook>,
    /// The levels and labels of the flavors with a topology.
    planted: BTreeMap<FlavorName, FlavorNodes>,
    switches: Switches,
    places_all: bool,
    places: Places,
    /// `places` with all trees up to date, once somebody has asked while some were not.
    renewed: OnceLock<Places>,
}

impl Snapshot {
    /// A snapshot with nothing running.
    #[must_use]
    pub fn new(mut setup: Setup) -> Self {
        if setup.places_all {
            setup.nodes.iter_mut().for_each(places::name_host);
        }
        let names = Names::share_in(&mut setup);
        let planted = places::flavor_nodes(&setup);
        let flavors: BTreeMap<_, _> =
            setup.flavors.into_iter().map(|flavor| (flavor.name.clone(), flavor)).collect();
        let checks: BTreeMap<_, _> =
            setup.checks.into_iter().map(|check| (check.name.clone(), check)).collect();
        let specs: BTreeMap<_, _> =
            setup.queues.into_iter().map(|queue| (queue.name.clone(), queue)).collect();
        let mut snapshot = Self {
            flavors,
            checks,
            queues: BTreeMap::new(),
            queue_of_node: BTreeMap::new(),
            tree: QuotaTree::default(),
            running: Arc::default(),
            names,
            priorities: BTreeMap::new(),
            nodes: Arc::new(NodeBook::new(setup.nodes, &setup.other_pods)),
            places: Places::unplanted(&planted),
            planted,
            switches: setup.placement,
            places_all: setup.places_all,
            renewed: OnceLock::new(),
        };
        let cohorts = CohortPlan::new(setup.cohorts, &specs);
        let nodes = cohorts.plant(&mut snapshot.tree);
        for spec in specs.into_values() {
            snapshot.add_queue(spec, &nodes);
        }
        snapshot.tree.seal();
        snapshot
    }

    fn add_queue(&mut self, spec: ClusterQueue, nodes: &BTreeMap<CohortName, NodeId>) {
        let parent = spec.cohort.as_ref().and_then(|cohort| nodes.get(cohort).copied());
        let node = self.tree.add_queue(parent, &spec.groups, spec.fair_weight);
        let inactive = self.find_inactive_reason(&spec, parent);
        let has_topology = |flavor| self.flavors.get(flavor).is_some_and(|f| f.topology.is_some());
        let mut offered = spec.groups.iter().flat_map(|group| &group.flavors).peekable();
        let is_topology_only =
            offered.peek().is_some() && offered.all(|quotas| has_topology(&quotas.flavor));
        self.queue_of_node.insert(node, spec.name.clone());
        let (running, priorities) = (BTreeMap::new(), Priorities::default());
        let state = QueueState { node, inactive, is_topology_only, running, priorities, spec };
        self.queues.insert(state.spec.name.clone(), Arc::new(state));
    }

    fn find_inactive_reason(
        &self,
        spec: &ClusterQueue,
        parent: Option<NodeId>,
    ) -> Option<InactiveReason> {
        if spec.stop != StopPolicy::None {
            return Some(InactiveReason::Stopped);
        }
        if let (Some(cohort), None) = (&spec.cohort, parent) {
            return Some(InactiveReason::CohortsUnusable(cohort.clone()));
        }
        let offered = spec.groups.iter().flat_map(|group| &group.flavors);
        for flavor in offered.map(|flavor| &flavor.flavor) {
            let Some(found) = self.flavors.get(flavor) else {
                return Some(InactiveReason::FlavorNotFound(flavor.clone()));
            };
            if found.topology.is_some() && !self.planted.contains_key(flavor) {
                return Some(InactiveReason::TopologyNotFound(flavor.clone()));
            }
        }
        for rule in &spec.checks {
            match self.checks.get(&rule.check) {
                None => return Some(InactiveReason::CheckNotFound(rule.check.clone())),
                Some(check) if !check.is_active => {
                    return Some(InactiveReason::CheckInactive(rule.check.clone()));
                }
                Some(_) => {}
            }
        }
        None
    }

    /// Records that `running` holds quota. Replaces what the same workload held before.
    ///
    /// Returns whether its queue is known; quota of an unknown queue is not counted.
    pub fn insert(&mut self, mut running: Running) -> bool {
        let key = running.workload.key.clone();
        self.remove(&key);
        if !self.queues.contains_key(&running.queue) {
            return false;
        }
        running.usage = self.names.share(running.usage);
        running.slot = Some(self.occupy(&running.workload));
        let queue = self.queues.get_mut(&running.queue).map(Arc::make_mut);
        let Some(queue) = queue else { return false };
        let running = Arc::new(running);
        queue.insert(key.clone(), Arc::clone(&running));
        let node = queue.node;
        let priority = running.workload.effective_priority();
        self.priorities.entry(self.tree.root(node)).or_default().add(priority);
        self.change(|ledger| ledger.add_all(node, &running.usage));
        Arc::make_mut(&mut self.running).insert(key, running);
        true
    }

    /// Forgets a workload and frees its quota.
    pub fn remove(&mut self, key: &WorkloadKey) -> Option<Running> {
        if !self.running.contains_key(key) {
            return None;
        }
        let running = Arc::make_mut(&mut self.running).remove(key)?;
        if let Some(queue) = self.queues.get_mut(&running.queue).map(Arc::make_mut) {
            queue.remove(key);
            let node = queue.node;
            if let Some(priorities) = self.priorities.get_mut(&self.tree.root(node)) {
                priorities.remove(running.workload.effective_priority());
            }
            self.change(|ledger| ledger.remove_all(node, &running.usage));
        }
        let mut running = Arc::unwrap_or_clone(running);
        running.slot.take().into_iter().for_each(|slot| self.vacate(slot));
        Some(running)
    }

    fn change(&mut self, apply: impl FnOnce(&mut Ledger<'_>)) {
        let mut ledger = Ledger::new(&self.tree);
        apply(&mut ledger);
        let changes = ledger.into_changes();
        self.tree.commit(changes);
    }

    /// The flavor called `name`.
    #[must_use]
    pub fn flavor(&self, name: &FlavorName) -> Option<&ResourceFlavor> {
        self.flavors.get(name)
    }

    /// The admission check called `name`.
    #[must_use]
    pub fn check(&self, name: &CheckName) -> Option<&AdmissionCheck> {
        self.checks.get(name)
    }

    /// The queue called `name`.
    #[must_use]
    pub fn queue(&self, name: &QueueName) -> Option<&QueueState> {
        self.queues.get(name).map(Arc::as_ref)
    }

    /// All queues, by name.
    pub fn queues(&self) -> impl Iterator<Item = &QueueState> {
        self.queues.values().map(Arc::as_ref)
    }

    /// The queue at `node` of the quota tree; `None` for a cohort.
    #[must_use]
    pub fn queue_at(&self, node: NodeId) -> Option<&QueueState> {
        self.queue_of_node.get(&node).and_then(|name| self.queue(name))
    }

    /// The quota tree.
    #[must_use]
    pub fn tree(&self) -> &QuotaTree {
        &self.tree
    }

    /// The lowest priority of what runs in the whole tree of which the queue at `node` is part.
    #[must_use]
    pub fn lowest_priority_around(&self, node: NodeId) -> Option<i64> {
        self.priorities.get(&self.tree.root(node)).and_then(Priorities::lowest)
    }

    /// What the workload `key` holds.
    #[must_use]
    pub fn running(&self, key: &WorkloadKey) -> Option<&Running> {
        self.running.get(key).map(Arc::as_ref)
    }

    /// What runs in `queue`, by workload key.
    pub fn running_in<'a>(&'a self, queue: &'a QueueState) -> impl Iterator<Item = &'a Running> {
        queue.running.values().map(Arc::as_ref)
    }
}

#[cfg(test)]
mod tests;
