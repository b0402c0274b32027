//! The quota that a workload could use: its queue's, and that of every cohort above it.

use std::collections::{BTreeMap, BTreeSet};

use crate::kueue::name::{CohortName, FlavorResource, ResourceName};

use super::trial::Trial;
use super::{QuotaRow, flavors_of};

/// Per flavor and resource that the workload requests: the queue, then the cohorts up to the root.
pub(super) fn quota_path(trial: &Trial<'_>) -> Vec<QuotaRow> {
    let snapshot = trial.snapshot();
    let Some(queue) = snapshot.queue(&trial.workload().queue) else { return Vec::new() };
    // What is held for somebody and still used by whoever leaves for it counts once.
    let settled = trial.scheduler().settled();
    let (ledger, tree) = (settled.ledger(), snapshot.tree());
    let nodes: Vec<_> = std::iter::once(queue.node).chain(tree.ancestors(queue.node)).collect();
    let cohorts = cohorts_above(trial, queue.spec.cohort.as_ref());
    let names = std::iter::once(None).chain(cohorts.into_iter().map(Some));
    let path: Vec<_> = nodes.into_iter().zip(names).collect();
    let mut rows = Vec::new();
    for resource in resources_of(trial) {
        for flavor in flavors_of(&queue.spec, &resource) {
            let fr = FlavorResource::new(flavor, &resource);
            rows.extend(path.iter().map(|(node, cohort)| QuotaRow {
                fr: fr.clone(),
                cohort: cohort.clone(),
                quota: tree.quota(*node, &fr),
                subtree: tree.subtree_quota(*node, &fr),
                usage: ledger.usage(*node, &fr),
                available: ledger.available(*node, &fr),
            }));
        }
    }
    rows
}

fn resources_of(trial: &Trial<'_>) -> BTreeSet<ResourceName> {
    let pod_sets = trial.workload().pod_sets.iter();
    let requests = pod_sets.flat_map(|pod_set| &pod_set.requests);
    requests.filter(|(_, amount)| **amount > 0).map(|(resource, _)| resource.clone()).collect()
}

/// The cohorts above a queue, nearest first. There are no more of them than the tree has, and that has no circles.
fn cohorts_above(trial: &Trial<'_>, nearest: Option<&CohortName>) -> Vec<CohortName> {
    let cohorts = trial.scheduler().setup().cohorts.iter();
    let parents: BTreeMap<&CohortName, Option<&CohortName>> =
        cohorts.map(|cohort| (&cohort.name, cohort.parent.as_ref())).collect();
    let parent = |name: &&CohortName| parents.get(*name).copied().flatten();
    std::iter::successors(nearest, parent)
        .take(crate::kueue::snapshot::COHORT_DEPTH_MAX)
        .cloned()
        .collect()
}
