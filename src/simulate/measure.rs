//! What utilisation and lost work are counted in, and how much of it there is.

use std::collections::BTreeSet;

use sluice_core::kueue::model::{Quota, ResourceGroup};
use sluice_core::kueue::name::{FlavorName, ResourceName};

use super::row::Bad;
use super::scenario::{Measured, Scenario};

/// Accelerators, the likeliest first.
const ACCELERATORS: [&str; 3] = ["nvidia.com/gpu", "google.com/tpu", "amd.com/gpu"];

/// A stand-in until the workloads are known.
pub(super) fn nothing() -> Measured {
    Measured { resource: "".into(), capacity: 0 }
}

/// An accelerator that some workload requests; else `cpu` if one does; else the first by name.
pub(super) fn default_resource(scenario: &Scenario) -> ResourceName {
    let requested: BTreeSet<&ResourceName> =
        scenario.jobs.iter().flat_map(|job| job.requests.keys()).collect();
    let candidates = ACCELERATORS.into_iter().chain(["cpu"]).map(ResourceName::from);
    let found = candidates.into_iter().find(|name| requested.contains(name));
    found.or_else(|| requested.first().map(|name| (*name).clone())).unwrap_or_else(|| "cpu".into())
}

/// `resource` as what is measured.
pub(super) fn of(scenario: &Scenario, resource: ResourceName) -> Result<Measured, Bad> {
    let is_requested = scenario.jobs.iter().any(|job| job.total(&resource) > 0);
    if !is_requested {
        let problem = format!("is {:?}, which no workload requests", resource.as_str());
        return Err(Bad::new("measure", problem));
    }
    let capacity = capacity(scenario, &resource);
    if capacity <= 0 {
        let problem = format!("is {:?}, of which no queue has any quota", resource.as_str());
        return Err(Bad::new("measure", problem));
    }
    Ok(Measured { resource, capacity })
}

fn capacity(scenario: &Scenario, resource: &ResourceName) -> i64 {
    let setup = &scenario.setup;
    let groups = setup.queues.iter().flat_map(|queue| &queue.groups);
    let groups: Vec<&ResourceGroup> =
        groups.chain(setup.cohorts.iter().flat_map(|cohort| &cohort.groups)).collect();
    let mut quota = 0_i64;
    let mut flavors = BTreeSet::<&FlavorName>::new();
    for flavor in groups.iter().flat_map(|group| &group.flavors) {
        if let Some(Quota { nominal, .. }) = flavor.quotas.get(resource) {
            quota = quota.saturating_add(*nominal);
            flavors.insert(&flavor.flavor);
        }
    }
    let is_placed = setup
        .flavors
        .iter()
        .filter(|flavor| flavors.contains(&flavor.name))
        .all(|flavor| flavor.topology.is_some());
    if !is_placed || setup.nodes.is_empty() {
        return quota;
    }
    let on_nodes = setup.nodes.iter().filter_map(|node| node.allocatable.get(resource));
    quota.min(on_nodes.fold(0, |sum: i64, amount| sum.saturating_add(*amount)))
}
