//! How much more quota would do.

use std::collections::BTreeMap;

use crate::kueue::name::{FlavorName, FlavorResource, ResourceName};
use crate::kueue::quota::Ledger;
use crate::kueue::snapshot::QueueState;
use crate::kueue::workload::{Requests, Workload};

use super::super::trial::{Asking, Trial};
use super::super::{Change, Remedy};
use super::tried;

/// Most flavors for which more quota is tried.
const TRIES_MAX: usize = 8;

/// The resource of which every pod takes one unit, where a queue counts it.
const PODS: &str = "pods";

/// One flavor, and how much more quota the workload would need there so that all of it fits.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    missing: Vec<(FlavorResource, i64)>,
}

/// More quota for its queue: one remedy for each flavor with which that helps.
pub(super) fn more_quota(trial: &Trial<'_>, asking: &Asking<'_>) -> Vec<Remedy> {
    let snapshot = trial.snapshot();
    let Some(queue) = snapshot.queue(&trial.workload().queue) else { return Vec::new() };
    let ledger = Ledger::new(snapshot.tree());
    let groups = choices(&ledger, queue, trial.workload());
    let changes = combinations(&groups).into_iter().take(TRIES_MAX).map(|missing| {
        let more = |(fr, more): (FlavorResource, i64)| Change::Quota {
            queue: queue.spec.name.clone(),
            fr,
            more,
        };
        missing.into_iter().map(more).collect()
    });
    changes.filter_map(|changes| tried(trial, changes, asking)).collect()
}

/// For each group of resources that the workload needs: its flavors, with what each lacks.
pub(super) fn choices(
    ledger: &Ledger<'_>,
    queue: &QueueState,
    workload: &Workload,
) -> Vec<Vec<Choice>> {
    let wanted = wanted(queue, workload);
    let choice = |flavor: &FlavorName, resources: &[ResourceName]| {
        let missing = resources.iter().filter_map(|resource| {
            let amount = *wanted.get(resource)?;
            let fr = FlavorResource::new(flavor, resource);
            let missing = ledger.shortage(queue.node, &fr, amount);
            (missing > 0).then_some((fr, missing))
        });
        Choice { missing: missing.collect() }
    };
    let groups = queue.spec.groups.iter();
    let needed = groups.filter(|group| group.resources.iter().any(|r| wanted.contains_key(r)));
    needed
        .map(|group| group.flavors.iter().map(|f| choice(&f.flavor, &group.resources)).collect())
        .collect()
}

/// Whether every group has a flavor that lacks nothing.
pub(super) fn has_quota(groups: &[Vec<Choice>]) -> bool {
    groups.iter().all(|choices| choices.iter().any(|choice| choice.missing.is_empty()))
}

/// What all its pods ask for together.
fn wanted(queue: &QueueState, workload: &Workload) -> Requests {
    let mut wanted: Requests = BTreeMap::new();
    let counts_pods = queue.spec.group_of(&PODS.into()).is_some();
    for pod_set in &workload.pod_sets {
        let pods = i64::from(workload.count_after_reclaim(&pod_set.name));
        let one_each = counts_pods.then_some((PODS.into(), 1));
        let others =
            pod_set.requests.iter().filter(|(name, _)| name.as_str() != PODS || !counts_pods);
        let requests = others.map(|(name, amount)| (name.clone(), *amount)).chain(one_each);
        for (name, amount) in requests.filter(|(_, amount)| *amount > 0) {
            let total = wanted.entry(name).or_insert(0_i64);
            *total = total.saturating_add(amount.saturating_mul(pods));
        }
    }
    wanted
}

/// One flavor after the other of each group that lacks something, with the first that will do of the other groups.
fn combinations(groups: &[Vec<Choice>]) -> Vec<Vec<(FlavorResource, i64)>> {
    let easiest = |choices: &[Choice]| {
        let easiest = choices.iter().min_by_key(|choice| choice.missing.len());
        easiest.map(|choice| choice.missing.clone()).unwrap_or_default()
    };
    let base: Vec<_> = groups.iter().map(|choices| easiest(choices)).collect();
    let mut combinations: Vec<Vec<(FlavorResource, i64)>> = Vec::new();
    for (position, choices) in groups.iter().enumerate() {
        if base[position].is_empty() {
            continue;
        }
        for choice in choices {
            let mut combination = base.clone();
            combination[position].clone_from(&choice.missing);
            let combination = combination.concat();
            if !combinations.contains(&combination) {
                combinations.push(combination);
            }
        }
    }
    combinations
}
