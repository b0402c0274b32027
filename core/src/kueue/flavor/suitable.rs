//! Whether a flavor's nodes suit a pod set: taints, labels, topology.

use super::super::matching::{
    LabelRequirement, Labels, affinity_matches, find_untolerated, selector_matches,
};
use super::super::model::{ResourceFlavor, ResourceGroup};
use super::super::reason::FlavorReason;
use super::super::snapshot::{QueueState, Snapshot};
use super::super::workload::PodSet;

/// Why `flavor` does not suit `pod_set`; `None` if it does.
pub(super) fn find_obstacle(
    snapshot: &Snapshot,
    queue: &QueueState,
    group: &ResourceGroup,
    flavor: &ResourceFlavor,
    pod_set: &PodSet,
) -> Option<FlavorReason> {
    if let Some(obstacle) = find_topology_obstacle(snapshot, queue, group, flavor, pod_set) {
        return Some(obstacle);
    }
    if let Some(taint) =
        find_untolerated(&flavor.taints, &[&pod_set.tolerations, &flavor.tolerations])
    {
        let (flavor, taint) = (flavor.name.clone(), taint.clone());
        return Some(FlavorReason::UntoleratedTaint { flavor, taint });
    }
    let is_match = matches_labels(pod_set, &flavor.node_labels);
    (!is_match).then(|| FlavorReason::AffinityMismatch(flavor.name.clone()))
}

fn find_topology_obstacle(
    snapshot: &Snapshot,
    queue: &QueueState,
    group: &ResourceGroup,
    flavor: &ResourceFlavor,
    pod_set: &PodSet,
) -> Option<FlavorReason> {
    if !pod_set.requests_topology() {
        let must_ask = flavor.topology.is_some() && !queue.is_topology_only;
        return must_ask.then(|| FlavorReason::TopologyOnly(flavor.name.clone()));
    }
    if flavor.topology.is_none() {
        // Quota-only resources may come from a flavor without topology, but not those the pods run on.
        let is_needed = group.resources.iter().any(|name| pod_set.requests.contains_key(name));
        return is_needed.then(|| FlavorReason::TopologyNotOffered(flavor.name.clone()));
    }
    let has_levels = snapshot.topology(&flavor.name).is_some_and(|topology| {
        let request = pod_set.topology.as_ref();
        request.is_some_and(|request| topology.has_levels_of(request, false))
    });
    (!has_levels).then(|| FlavorReason::TopologyNotOffered(flavor.name.clone()))
}

/// Only keys that the flavor itself declares count; everything else is up to the scheduler of pods.
fn matches_labels(pod_set: &PodSet, flavor_labels: &Labels) -> bool {
    let selector: Labels = pod_set
        .node_selector
        .iter()
        .filter(|(key, _)| flavor_labels.contains_key(*key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let terms: Vec<Vec<LabelRequirement>> = pod_set
        .affinity_terms
        .iter()
        .map(|term| {
            let known = term.iter().filter(|term| flavor_labels.contains_key(&term.key));
            known.cloned().collect()
        })
        .collect();
    // A term with nothing left to check holds, and one term that holds is enough.
    let any_term = terms.iter().any(Vec::is_empty) || affinity_matches(&terms, flavor_labels);
    selector_matches(&selector, flavor_labels) && any_term
}
