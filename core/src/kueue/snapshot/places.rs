//! The topologies of the flavors, and what running workloads take in them.
//!
//! Trees follow the nodes: what changes a tree's shape marks it, and it is planted anew when somebody next asks, with
//! everything that runs counted again. Everything else is changed in place.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::name::FlavorName;
use super::super::tas::{FlavorNodes, HOSTNAME, LeafUsage, Node, Renewal, TasSnapshot};
use super::super::workload::{Placement, Requests, Workload};
use super::{Running, Setup, Snapshot};

/// What a workload takes in topologies.
#[derive(Clone, Debug, Default)]
pub(in crate::kueue) struct TopologyUsage {
    /// In those of its own flavors.
    pub own: Vec<(FlavorName, LeafUsage)>,
    /// In those of other flavors, which may share nodes with its own.
    pub others: Vec<(FlavorName, LeafUsage)>,
}

impl TopologyUsage {
    /// Every flavor that sees it, with what it sees.
    pub(in crate::kueue) fn all(&self) -> impl Iterator<Item = &(FlavorName, LeafUsage)> {
        self.own.iter().chain(&self.others)
    }
}

/// The topologies and what is in use in them.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    topologies: BTreeMap<FlavorName, TasSnapshot>,
    /// What each running workload takes, by its slot.
    placed: Arc<Vec<Option<Arc<TopologyUsage>>>>,
    /// Slots that nobody has.
    vacant: Vec<usize>,
    /// Flavors whose tree is out of date.
    outdated: BTreeSet<FlavorName>,
}

impl Places {
    /// Nothing yet: all trees are planted at the first question.
    pub(super) fn unplanted(flavors: &BTreeMap<FlavorName, FlavorNodes>) -> Self {
        Self { outdated: flavors.keys().cloned().collect(), ..Self::default() }
    }

    /// The trees of `flavors` have to be planted anew.
    pub(super) fn outdate(&mut self, flavors: BTreeSet<FlavorName>) {
        self.outdated.extend(flavors);
    }

    fn add(&mut self, usage: &TopologyUsage, only: Option<&BTreeSet<FlavorName>>) {
        self.change(usage, only, TasSnapshot::add);
    }

    fn change(
        &mut self,
        usage: &TopologyUsage,
        only: Option<&BTreeSet<FlavorName>>,
        apply: fn(&mut TasSnapshot, &LeafUsage),
    ) {
        for (flavor, usage) in usage.all() {
            if only.is_none_or(|only| only.contains(flavor))
                && let Some(topology) = self.topologies.get_mut(flavor)
            {
                apply(topology, usage);
            }
        }
    }

    fn keep(&mut self, usage: TopologyUsage) -> usize {
        let placed = Arc::make_mut(&mut self.placed);
        let slot = self.vacant.pop().unwrap_or_else(|| {
            placed.push(None);
            placed.len() - 1
        });
        placed[slot] = Some(Arc::new(usage));
        slot
    }

    fn usage_of(&self, workload: &Workload, snapshot: &Snapshot) -> TopologyUsage {
        let held = workload.reservation.iter().flat_map(|held| &held.admission.pod_sets);
        let mut usage = TopologyUsage::default();
        for admitted in held {
            let Some(placement) = &admitted.placement else { continue };
            let pod_set = workload.pod_sets.iter().find(|pod_set| pod_set.name == admitted.name);
            let flavors = self.flavors_that_place(admitted.flavors.values(), snapshot);
            let Some(flavor) = flavors.first() else { continue };
            if let Some(pod_set) = pod_set {
                self.add_usage(&mut usage, flavor, placement, &pod_set.requests);
            }
        }
        usage
    }

    /// Declared topologies, in the order given; without any, the best of those that were only added to place all
    /// pods.
    fn flavors_that_place<'f>(
        &self,
        flavors: impl Iterator<Item = &'f FlavorName>,
        snapshot: &Snapshot,
    ) -> Vec<&'f FlavorName> {
        let mut planted: Vec<&FlavorName> = Vec::new();
        for flavor in flavors.filter(|flavor| snapshot.planted.contains_key(*flavor)) {
            if !planted.contains(&flavor) {
                planted.push(flavor);
            }
        }
        let (declared, added): (Vec<_>, Vec<_>) =
            planted.into_iter().partition(|flavor| snapshot.declares_topology(flavor));
        if !declared.is_empty() {
            return declared;
        }
        // A flavor without nodes is quota alone; of several with nodes, more labels say more about where.
        let best = added.into_iter().max_by_key(|&flavor| {
            let has_nodes = self.topologies.get(flavor).is_some_and(|t| t.leaf_count() > 0);
            let labels = snapshot.planted.get(flavor).map_or(0, |nodes| nodes.node_labels.len());
            (has_nodes, labels, Reverse(flavor))
        });
        best.into_iter().collect()
    }

    fn add_usage(
        &self,
        usage: &mut TopologyUsage,
        flavor: &FlavorName,
        placement: &Placement,
        per_pod: &Requests,
    ) {
        let Some(own) = self.topologies.get(flavor) else { return };
        usage.own.push((flavor.clone(), own.usage_of(placement, per_pod)));
        for (name, other) in &self.topologies {
            if name != flavor && own.is_node_level() && other.is_node_level() {
                usage.others.push((name.clone(), other.usage_of(placement, per_pod)));
            }
        }
    }
}

impl Snapshot {
    /// The topologies, with trees that are up to date.
    fn places(&self) -> &Places {
        if self.places.outdated.is_empty() {
            return &self.places;
        }
        self.renewed.get_or_init(|| self.renew())
    }

    /// The same, to be changed. Outdated trees stay so: they are counted anew anyway.
    pub(super) fn places_mut(&mut self) -> &mut Places {
        if let Some(renewed) = self.renewed.take() {
            self.places = renewed;
        }
        &mut self.places
    }

    /// Plants the outdated trees anew and counts what runs in them.
    fn renew(&self) -> Places {
        let mut places = self.places.clone();
        let outdated = std::mem::take(&mut places.outdated);
        for name in &outdated {
            if let Some(flavor) = self.planted.get(name) {
                let topology = TasSnapshot::of_book(flavor, self.switches, &self.nodes);
                places.topologies.insert(name.clone(), topology);
            }
        }
        let mut placed = vec![None; places.placed.len()];
        for running in self.running.values() {
            let usage = places.usage_of(&running.workload, self);
            places.add(&usage, Some(&outdated));
            if let Some(kept) = running.slot.and_then(|slot| placed.get_mut(slot)) {
                *kept = Some(Arc::new(usage));
            }
        }
        places.placed = Arc::new(placed);
        places
    }

    /// Counts what the placements in `workload`'s reservation take. Returns the slot in which that is kept.
    pub(super) fn occupy(&mut self, workload: &Workload) -> usize {
        self.places_mut();
        let usage = self.places.usage_of(workload, self);
        self.places.add(&usage, None);
        self.places.keep(usage)
    }

    /// Counts what is kept in `slot` as free again; nobody has the slot then.
    pub(super) fn vacate(&mut self, slot: usize) {
        let places = self.places_mut();
        if let Some(usage) = Arc::make_mut(&mut places.placed).get_mut(slot).and_then(Option::take)
        {
            places.change(&usage, None, TasSnapshot::remove);
            places.vacant.push(slot);
        }
    }

    /// Inserts a node, or replaces the one with its name.
    ///
    /// A change of readiness, cordon or amounts costs little. A new node, other labels, taints or resources make the
    /// trees of its flavors outdated; they are planted anew at the next question, once for many such changes.
    pub fn set_node(&mut self, mut node: Node) {
        if self.places_all {
            name_host(&mut node);
        }
        let name = node.name.clone();
        let before = Arc::make_mut(&mut self.nodes).set(node);
        self.renew_node(before.as_ref(), &name);
    }

    /// Removes a node. Whether it was known.
    pub fn remove_node(&mut self, name: &str) -> bool {
        let before = Arc::make_mut(&mut self.nodes).remove(name);
        self.renew_node(before.as_ref(), name);
        before.is_some()
    }

    /// The node called `name`.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    fn renew_node(&mut self, before: Option<&Node>, name: &str) {
        self.places_mut();
        let Places { topologies, outdated, .. } = &mut self.places;
        for (flavor, topology) in topologies {
            if !outdated.contains(flavor)
                && topology.renew_node(before, name, &self.nodes) == Renewal::NeedsNewTree
            {
                outdated.insert(flavor.clone());
            }
        }
    }

    /// Adds what `placement` takes in the topology of `flavor`, and in those of flavors that may share its nodes.
    pub(in crate::kueue) fn add_topology_usage(
        &self,
        usage: &mut TopologyUsage,
        flavor: &FlavorName,
        placement: &Placement,
        per_pod: &Requests,
    ) {
        self.places().add_usage(usage, flavor, placement, per_pod);
    }

    /// What `running`, which is of this snapshot, takes in topologies.
    pub(in crate::kueue) fn placed(&self, running: &Running) -> Option<&TopologyUsage> {
        self.places().placed.get(running.slot?)?.as_deref()
    }

    /// The nodes of `flavor`, if it has a topology.
    #[must_use]
    pub fn topology(&self, flavor: &FlavorName) -> Option<&TasSnapshot> {
        self.places().topologies.get(flavor)
    }

    /// Whether every pod gets a node, also where no topology is declared.
    #[must_use]
    pub fn places_all(&self) -> bool {
        self.places_all
    }

    /// Whether all broken nodes of a placement are replaced.
    pub(in crate::kueue) fn replaces_several_nodes(&self) -> bool {
        self.switches.replaces_several_nodes
    }

    /// Of the flavors that one pod set was given, those whose topology decides where its pods go.
    pub(in crate::kueue) fn flavors_that_place<'f>(
        &self,
        flavors: impl Iterator<Item = &'f FlavorName>,
    ) -> Vec<&'f FlavorName> {
        self.places().flavors_that_place(flavors, self)
    }

    fn declares_topology(&self, flavor: &FlavorName) -> bool {
        self.planted.get(flavor).is_some_and(|nodes| !nodes.is_first_level_added())
    }
}

/// The nodes of every flavor that has a topology, or of every flavor if all pods are placed.
pub(super) fn flavor_nodes(setup: &Setup) -> BTreeMap<FlavorName, FlavorNodes> {
    let levels: BTreeMap<_, _> =
        setup.topologies.iter().map(|topology| (&topology.name, &topology.levels)).collect();
    let mut planted = BTreeMap::new();
    for flavor in &setup.flavors {
        let declared = match &flavor.topology {
            Some(topology) => levels.get(topology).map(|levels| (*levels).clone()),
            None => setup.places_all.then(Vec::new),
        };
        let Some(mut levels) = declared else { continue };
        let is_last_level_added =
            setup.places_all && levels.last().is_none_or(|level| level != HOSTNAME);
        if is_last_level_added {
            levels.push(HOSTNAME.to_owned());
        }
        let nodes = FlavorNodes {
            levels,
            node_labels: flavor.node_labels.clone(),
            tolerations: flavor.tolerations.clone(),
            is_last_level_added,
        };
        planted.insert(flavor.name.clone(), nodes);
    }
    planted
}

/// Gives a node that does not say its host name its own name as that.
pub(super) fn name_host(node: &mut Node) {
    if !node.labels.contains_key(HOSTNAME) {
        node.labels.insert(HOSTNAME.to_owned(), node.name.clone());
    }
}
