//! Placement as part of choosing flavors: which pod sets must be placed, in whose nodes, and what that takes.
//!
//! How pods are placed is [`super::tas`]'s business; this module asks it for whole workloads.

mod ways;

use std::collections::BTreeMap;

use super::flavor::{Assignment, FlavorRequest, Mode, Oracle, assign_flavors, explain_no_fit};
use super::name::{FlavorName, PodSetName};
use super::reason::{FlavorReason, PendingReason};
use super::snapshot::{QueueState, Snapshot, TopologyUsage};
use super::tas::{Assumed, Capacity, Failure, PodSetRequest, ReplaceRequest, TasSnapshot};
use super::whatif::WhatIf;
use super::workload::{DelayedPlacement, PlacedDomain, Placement, PodSet, Workload};

/// The pod sets of a workload that must be placed, per flavor.
#[derive(Clone, Debug, Default)]
pub struct TopologyDemand<'a> {
    by_flavor: BTreeMap<FlavorName, Vec<Wanted<'a>>>,
}

/// One pod set to be placed.
#[derive(Clone, Debug)]
struct Wanted<'a> {
    request: PodSetRequest<'a>,
    /// Where it is now and what broke under it, if only that is to be replaced.
    replace: Option<(Placement, Broken<'a>)>,
}

/// Which nodes are to be replaced.
#[derive(Clone, Debug)]
enum Broken<'a> {
    /// The one that broke first, as with Kueue. If more broke, no replacement is found.
    First(&'a str),
    /// All of them, by name.
    All(Vec<&'a str>),
}

impl Wanted<'_> {
    fn name(&self) -> &PodSetName {
        &self.request.pod_set.name
    }
}

impl<'a> Broken<'a> {
    /// What is to be replaced under `placement`, if anything broke there.
    fn under(placement: &Placement, workload: &'a Workload, all: bool) -> Option<Self> {
        if !placement.domains.iter().any(|domain| workload.is_unhealthy(domain)) {
            return None;
        }
        if !all {
            return workload.unhealthy_nodes.first().map(|node| Self::First(node));
        }
        let mut nodes: Vec<&str> = workload.unhealthy_nodes.iter().map(String::as_str).collect();
        nodes.sort_unstable();
        nodes.dedup();
        Some(Self::All(nodes))
    }
}

/// What came of placing a workload.
#[derive(Clone, Debug, Default)]
struct Placed {
    placements: Vec<(PodSetName, Placement)>,
    failure: Option<(PodSetName, FlavorName, Failure)>,
}

impl<'a> TopologyDemand<'a> {
    /// Whether nothing has to be placed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_flavor.is_empty()
    }

    /// Whether all of it could be placed now.
    #[must_use]
    pub fn fits(&self, whatif: &WhatIf<'_>) -> bool {
        self.place(whatif, Capacity::Free).failure.is_none()
    }

    /// What of `assignment` must be placed. Marks in it what cannot be, and what is put off.
    pub fn of(
        assignment: &mut Assignment,
        workload: &'a Workload,
        queue: &QueueState,
        snapshot: &Snapshot,
    ) -> Self {
        let mut demand = Self::default();
        for pod_set in &workload.pod_sets {
            let is_implied = !pod_set.requests_topology() && places_unasked(queue, snapshot);
            if is_implied || pod_set.requests_topology() {
                demand.add(assignment, workload, pod_set, is_implied, queue, snapshot);
            }
        }
        demand
    }

    fn add(
        &mut self,
        assignment: &mut Assignment,
        workload: &'a Workload,
        pod_set: &'a PodSet,
        is_implied: bool,
        queue: &QueueState,
        snapshot: &Snapshot,
    ) {
        let Some(assigned) = assignment.pod_sets.iter_mut().find(|set| set.name == pod_set.name)
        else {
            return;
        };
        let broken = assigned.placement.as_ref().and_then(|placement| {
            Broken::under(placement, workload, snapshot.replaces_several_nodes())
        });
        let is_done = assigned.placement.is_some() && broken.is_none();
        if assigned.count == 0 || is_done {
            return;
        }
        let flavors = assigned.flavors.values().map(|choice| &choice.flavor);
        let [flavor] = snapshot.flavors_that_place(flavors)[..] else {
            assigned.reasons.push(FlavorReason::NoSingleTopology);
            return;
        };
        let flavor = flavor.clone();
        if is_put_off(workload, &flavor, queue, snapshot) {
            assigned.delayed_placement = Some(DelayedPlacement::Pending);
            return;
        }
        let mut request = PodSetRequest::new(pod_set);
        request.count = assigned.count;
        request.is_implied = is_implied;
        let replace = broken.and_then(|broken| Some((assigned.placement.clone()?, broken)));
        self.by_flavor.entry(flavor).or_default().push(Wanted { request, replace });
    }

    fn place(&self, whatif: &WhatIf<'_>, capacity: Capacity) -> Placed {
        let mut placed = Placed::default();
        // Flavors whose leaves are nodes may share them, so they must see what each other takes.
        let mut by_node = Assumed::default();
        for (flavor, wanted) in &self.by_flavor {
            let Some(topology) = whatif.topology(flavor) else { continue };
            let mut alone = Assumed::default();
            let assumed = if topology.is_node_level() { &mut by_node } else { &mut alone };
            let failure = if wanted.iter().any(|wanted| wanted.replace.is_some()) {
                replace_all(topology, wanted, assumed, &mut placed.placements)
            } else {
                place_all(topology, wanted, capacity, assumed, &mut placed.placements)
            };
            if let (None, Some((name, failure))) = (&placed.failure, failure) {
                placed.failure = Some((name, flavor.clone(), failure));
            }
        }
        placed
    }

    /// Leaves of the largest topology in which something must be placed; 0 if nothing must.
    pub(super) fn leaf_count(&self, whatif: &WhatIf<'_>) -> usize {
        let topologies = self.by_flavor.keys().filter_map(|flavor| whatif.topology(flavor));
        topologies.map(TasSnapshot::leaf_count).max().unwrap_or(0)
    }

    fn names(&self) -> impl Iterator<Item = &PodSetName> {
        self.by_flavor.values().flatten().map(Wanted::name)
    }
}

fn place_all(
    topology: &TasSnapshot,
    wanted: &[Wanted<'_>],
    capacity: Capacity,
    assumed: &mut Assumed,
    placements: &mut Vec<(PodSetName, Placement)>,
) -> Option<(PodSetName, Failure)> {
    let requests: Vec<PodSetRequest<'_>> = wanted.iter().map(|wanted| wanted.request).collect();
    let mut first_failure = None;
    for outcome in topology.place(&requests, capacity, assumed).pod_sets {
        let name = wanted[outcome.index].name().clone();
        match outcome.result {
            Ok(placement) => placements.push((name, placement)),
            Err(failure) => first_failure = first_failure.or(Some((name, failure))),
        }
    }
    first_failure
}

fn replace_all(
    topology: &TasSnapshot,
    wanted: &[Wanted<'_>],
    assumed: &mut Assumed,
    placements: &mut Vec<(PodSetName, Placement)>,
) -> Option<(PodSetName, Failure)> {
    for wanted in wanted {
        let Some((placement, broken)) = &wanted.replace else { continue };
        let request = wanted.request;
        let replace = ReplaceRequest { request, placement, is_owned_by_single_pod: false };
        let replaced = match broken {
            Broken::First(node) => topology.replace(&replace, node, assumed),
            Broken::All(nodes) => topology.replace_several(&replace, nodes, assumed),
        };
        match replaced {
            Ok(replacement) => placements.push((wanted.name().clone(), replacement.placement)),
            Err(failure) => return Some((wanted.name().clone(), failure)),
        }
    }
    None
}

/// Whether pods that ask for no topology are placed too.
fn places_unasked(queue: &QueueState, snapshot: &Snapshot) -> bool {
    queue.is_topology_only || snapshot.places_all()
}

/// Whether the placement is left for later: until a check has provisioned the nodes, or to another cluster.
fn is_put_off(
    workload: &Workload,
    flavor: &FlavorName,
    queue: &QueueState,
    snapshot: &Snapshot,
) -> bool {
    queue.spec.checks.iter().any(|rule| {
        let Some(check) = snapshot.check(&rule.check) else { return false };
        let applies = rule.on_flavors.is_empty() || rule.on_flavors.contains(flavor);
        check.dispatches_elsewhere()
            || (check.provisions_nodes() && applies && workload.reservation.is_none())
    })
}

/// Chooses flavors and places the pods. A workload whose quota fits but whose pods do not needs preemption; one
/// whose pods would not fit into empty nodes does not fit at all.
#[must_use]
pub fn assign<'a>(
    whatif: &mut WhatIf<'a>,
    request: &FlavorRequest<'_>,
    oracle: &mut Oracle<'_, 'a>,
) -> Assignment {
    let mut assignment = assign_flavors(whatif, request, oracle);
    if assignment.mode() == Mode::NoFit {
        return assignment;
    }
    let snapshot = whatif.snapshot();
    let demand = TopologyDemand::of(&mut assignment, request.workload, request.queue, snapshot);
    if assignment.mode() == Mode::Fit {
        let placed = demand.place(whatif, Capacity::Free);
        match placed.failure {
            Some((name, _, failure)) => {
                mark(&mut assignment, &name, Mode::Preempt, Some(failure));
            }
            None => record(&mut assignment, placed),
        }
    }
    // A broken node is replaced or it is not; nobody is preempted for it.
    if assignment.mode() == Mode::Preempt && request.workload.unhealthy_nodes.is_empty() {
        match demand.place(whatif, Capacity::Empty).failure {
            Some((name, flavor, failure)) => {
                mark(&mut assignment, &name, Mode::NoFit, Some(failure));
                blame_placement(&mut assignment, &name, &flavor);
            }
            // Quota that is free may be in pieces, so all that is placed counts as contested.
            None => {
                for name in demand.names() {
                    mark(&mut assignment, name, Mode::Preempt, None);
                }
            }
        }
    }
    explain_no_fit(&mut assignment, request.queue);
    assignment
}

/// Sets the mode of a pod set and, because placement decides, of the whole assignment.
fn mark(assignment: &mut Assignment, name: &PodSetName, mode: Mode, failure: Option<Failure>) {
    if let Some(pod_set) = assignment.pod_sets.iter_mut().find(|pod_set| pod_set.name == *name) {
        pod_set.set_mode(mode);
        pod_set.reasons.extend(failure.map(FlavorReason::Placement));
        assignment.placement_mode = Some(mode);
    }
}

fn blame_placement(assignment: &mut Assignment, name: &PodSetName, flavor: &FlavorName) {
    let pod_set = assignment.pod_sets.iter_mut().find(|pod_set| pod_set.name == *name);
    let attempts = pod_set.into_iter().flat_map(|pod_set| &mut pod_set.attempts);
    if let Some(attempt) = { attempts }.find(|attempt| attempt.flavor == *flavor) {
        attempt.mode = Mode::NoFit;
        attempt.reason = Some(PendingReason::TopologyPlacementFailed);
    }
}

fn record(assignment: &mut Assignment, placed: Placed) {
    for (name, placement) in placed.placements {
        let pod_set = assignment.pod_sets.iter_mut().find(|pod_set| pod_set.name == name);
        if let Some(pod_set) = pod_set {
            pod_set.placement = Some(placement);
            if pod_set.delayed_placement.is_some() {
                pod_set.delayed_placement = Some(DelayedPlacement::Ready);
            }
        }
    }
}

/// Reserves places for an assignment that must wait: where its pods would go once the victims (already taken away
/// in `whatif`) are gone, or, with `capacity` empty, once everybody is.
pub(super) fn reserve_places(
    whatif: &WhatIf<'_>,
    assignment: &mut Assignment,
    workload: &Workload,
    queue: &QueueState,
    capacity: Capacity,
) {
    let may_place = workload.requests_topology() || places_unasked(queue, whatif.snapshot());
    if assignment.mode() != Mode::Preempt || !may_place || workload.has_unhealthy_placement() {
        return;
    }
    let demand = TopologyDemand::of(assignment, workload, queue, whatif.snapshot());
    record(assignment, demand.place(whatif, capacity));
}

/// What the placements of `assignment` take beyond what the workload already holds.
pub(super) fn new_usage(
    assignment: &Assignment,
    workload: &Workload,
    snapshot: &Snapshot,
) -> TopologyUsage {
    let mut usage = TopologyUsage::default();
    for assigned in &assignment.pod_sets {
        let Some(placement) = &assigned.placement else { continue };
        let pod_set = workload.pod_sets.iter().find(|pod_set| pod_set.name == assigned.name);
        let flavors = assigned.flavors.values().map(|choice| &choice.flavor);
        let flavors = snapshot.flavors_that_place(flavors);
        if let (Some(pod_set), Some(flavor)) = (pod_set, flavors.first()) {
            let beyond = without_held(placement, workload, &assigned.name);
            snapshot.add_topology_usage(&mut usage, flavor, &beyond, &pod_set.requests);
        }
    }
    usage
}

/// `placement` less the pods that the workload's reservation has in the same domains.
fn without_held(placement: &Placement, workload: &Workload, name: &PodSetName) -> Placement {
    let held = workload.reservation.iter().flat_map(|held| &held.admission.pod_sets);
    let held: BTreeMap<&[String], u32> = held
        .filter(|held| held.name == *name)
        .flat_map(|held| held.placement.iter().flat_map(|placement| &placement.domains))
        .map(|domain| (domain.values.as_slice(), domain.pods))
        .collect();
    let domains = placement.domains.iter().filter_map(|domain| {
        let known = held.get(domain.values.as_slice()).copied().unwrap_or(0);
        let pods = domain.pods.saturating_sub(known);
        (pods > 0).then(|| PlacedDomain { values: domain.values.clone(), pods })
    });
    Placement { levels: placement.levels.clone(), domains: domains.collect() }
}

#[cfg(test)]
mod tests;
