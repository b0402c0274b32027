//! What a workload asks for now: its pod sets with their totals, and what it already holds of them.

use super::name::PodSetName;
use super::workload::{PodSetAdmission, Requests, Workload, scale};

/// The resource of which every pod takes one unit, where a queue counts it.
pub(super) const PODS: &str = "pods";

/// What one pod set asks for now.
#[derive(Clone, Debug)]
pub(super) struct Demand<'a> {
    /// Position of the pod set in the workload.
    pub index: usize,
    pub name: PodSetName,
    /// Pods asked for.
    pub count: u32,
    /// What they request together.
    pub requests: Requests,
    /// What the pod set was given before; `Some` in a second pass.
    pub held: Option<&'a PodSetAdmission>,
    /// Pod sets of one group get the same flavors.
    pub group: Option<&'a str>,
}

/// What `workload` asks for: what it holds if it holds quota, else `counts` pods per pod set, else all of them.
pub(super) fn demands_of<'a>(
    workload: &'a Workload,
    counts: Option<&[u32]>,
    counts_pods: bool,
) -> Vec<Demand<'a>> {
    let mut demands: Vec<Demand<'_>> = workload
        .pod_sets
        .iter()
        .enumerate()
        .map(|(index, pod_set)| {
            let left = workload.count_after_reclaim(&pod_set.name);
            let count =
                counts.and_then(|counts| counts.get(index)).map_or(left, |&count| count.min(left));
            let per_pod = pod_set.requests.iter();
            Demand {
                index,
                name: pod_set.name.clone(),
                count,
                requests: per_pod
                    .map(|(name, &amount)| {
                        (name.clone(), amount.max(0).saturating_mul(i64::from(count)))
                    })
                    .collect(),
                held: None,
                group: pod_set.topology.as_ref().and_then(|topology| topology.group.as_deref()),
            }
        })
        .collect();
    let held = workload.reservation.iter().flat_map(|held| &held.admission.pod_sets);
    for held in held {
        if let Some(demand) = demands.iter_mut().find(|demand| demand.name == held.name) {
            let left = workload.count_after_reclaim(&held.name).min(held.count);
            demand.count = left;
            demand.requests = held
                .usage
                .iter()
                .map(|(name, &amount)| (name.clone(), scale(amount.max(0), held.count, left)))
                .collect();
            demand.held = Some(held);
        }
    }
    if counts_pods {
        for demand in &mut demands {
            demand.requests.insert(PODS.into(), i64::from(demand.count));
        }
    }
    demands
}
