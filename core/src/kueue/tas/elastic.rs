//! Resizes a workload that takes over from a smaller or larger one: pods that run stay where they are.

use crate::kueue::workload::{PlacedDomain, Placement};

use super::assumed::Assumed;
use super::descend::Placed;
use super::model::{Capacity, PodSetOutcome};
use super::place::{Gang, all_fail};
use super::snapshot::TasSnapshot;

impl TasSnapshot {
    /// Places only the pods that are new, or drops the surplus ones. `None` if there is nothing to take over, or it
    /// uses a domain that is gone: then everything has to be placed afresh.
    pub(super) fn place_elastic(
        &self,
        gang: &Gang<'_>,
        capacity: Capacity,
        assumed: &mut Assumed,
    ) -> Option<Vec<PodSetOutcome>> {
        let workers = &gang.workers.1;
        let previous =
            workers.previous.filter(|placement| self.stale_domain(placement).is_none())?;
        let leader = gang.leader.as_ref().map(|(_, leader)| leader);
        let previous_leader = leader.and_then(|leader| leader.previous);
        if previous_leader.is_some_and(|placement| self.stale_domain(placement).is_some()) {
            return None;
        }
        let running = pods_in(previous);
        if u64::from(workers.count) > running {
            return Some(self.grow(gang, previous, running, capacity, assumed));
        }
        let nowhere = Placement { levels: previous.levels.clone(), domains: Vec::new() };
        let kept = Placed {
            workers: truncated(previous, workers.count),
            leader: match leader {
                Some(_) => previous_leader?.clone(),
                None => nowhere,
            },
        };
        assumed.add(&kept.workers, &workers.pod_set.requests);
        if let Some(leader) = leader {
            assumed.add(&kept.leader, &leader.pod_set.requests);
        }
        Some(gang.outcomes(kept))
    }

    /// Places the pods beyond the `running` ones, with those in the way.
    fn grow(
        &self,
        gang: &Gang<'_>,
        previous: &Placement,
        running: u64,
        capacity: Capacity,
        assumed: &mut Assumed,
    ) -> Vec<PodSetOutcome> {
        let (index, workers) = gang.workers;
        let running = u32::try_from(running).expect("fewer pods run than are wanted");
        assumed.add(previous, &workers.pod_set.requests);
        let mut grown = Gang { workers: gang.workers, leader: gang.leader };
        grown.workers.1.count = workers.count - running;
        let mut previous_leader = None;
        if let Some((_, leader)) = gang.leader
            && let Some(placement) = leader.previous
        {
            assumed.add(placement, &leader.pod_set.requests);
            previous_leader = Some(placement.clone());
            grown.leader = None;
        }
        match self.place_afresh(&grown, capacity, assumed) {
            Ok(added) => gang.outcomes(Placed {
                workers: self.merged(&added.workers, previous),
                leader: previous_leader.unwrap_or(added.leader),
            }),
            Err(failure) => all_fail(&[index], &failure),
        }
    }

    /// Both placements as one, ordered by path. Domains that are not in the snapshot go last.
    pub(super) fn merged(&self, a: &Placement, b: &Placement) -> Placement {
        let mut domains: Vec<PlacedDomain> = a.domains.iter().chain(&b.domains).cloned().collect();
        domains.sort_by_cached_key(|domain| {
            let leaf = self.find_leaf(&domain.values);
            (leaf.is_none(), leaf)
        });
        let mut merged: Vec<PlacedDomain> = Vec::with_capacity(domains.len());
        for domain in domains {
            match merged.last_mut() {
                Some(last) if last.values == domain.values => {
                    last.pods = last.pods.saturating_add(domain.pods);
                }
                Some(_) | None => merged.push(domain),
            }
        }
        Placement { levels: a.levels.clone(), domains: merged }
    }
}

pub(super) fn pods_in(placement: &Placement) -> u64 {
    placement.domains.iter().map(|domain| u64::from(domain.pods)).sum()
}

/// The first `pods` pods of `placement`.
fn truncated(placement: &Placement, pods: u32) -> Placement {
    let mut left = pods;
    let mut kept = Placement { levels: placement.levels.clone(), domains: Vec::new() };
    for domain in &placement.domains {
        let pods = domain.pods.min(left);
        if pods > 0 {
            kept.domains.push(PlacedDomain { values: domain.values.clone(), pods });
        }
        left -= pods;
    }
    kept
}
