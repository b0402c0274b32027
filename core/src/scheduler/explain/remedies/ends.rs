//! Which running workload's end alone would do.

use std::collections::BTreeSet;

use crate::kueue::name::{FlavorResource, WorkloadKey};
use crate::kueue::quota::Ledger;
use crate::kueue::snapshot::{QueueState, Running};

use super::super::trial::{Asking, Trial};
use super::super::{Change, Remedy, Waiting};
use super::{quota, tried};

/// Most workloads that are tried.
const TRIES_MAX: usize = 64;
/// Most workloads of which it is looked up what their end would cost and free: those that share the tree of cohorts
/// first. A look takes some µs, so that all take some ten ms.
const LOOKS_MAX: usize = 8_192;

/// The first whose end alone gives the workload room: those that leave anyway, then those whose loss costs least.
pub(super) fn workload_ends(
    trial: &mut Trial<'_>,
    waiting: &Waiting,
    asking: &Asking<'_>,
) -> Option<Remedy> {
    if let Waiting::Behind(first) = waiting {
        return tried(trial, vec![Change::Without(first.clone())], asking);
    }
    let mut promising = promising(trial, asking);
    promising.sort();
    promising.truncate(TRIES_MAX);
    promising.into_iter().find_map(|(_, _, key)| {
        let running = trial.take_away(&key)?;
        let fits = trial.fits(asking.now_ms);
        trial.put_back(running);
        if fits { tried(trial, vec![Change::Without(key)], asking) } else { None }
    })
}

/// Those without which there is quota: whether they stay, what they would lose, who.
fn promising(trial: &Trial<'_>, asking: &Asking<'_>) -> Vec<(bool, u64, WorkloadKey)> {
    let (snapshot, workload) = (trial.snapshot(), trial.workload());
    let Some(queue) = snapshot.queue(&workload.queue) else { return Vec::new() };
    let offered = queue.spec.groups.iter().flat_map(|group| &group.flavors);
    let frs: BTreeSet<FlavorResource> = offered
        .flat_map(|f| f.quotas.keys().map(|resource| FlavorResource::new(&f.flavor, resource)))
        .collect();
    let would_do = |running: &&Running| {
        let Some(other) = snapshot.queue(&running.queue) else { return false };
        let mut ledger = Ledger::new(snapshot.tree());
        ledger.remove_all(other.node, &running.usage);
        quota::has_quota(&quota::choices(&ledger, queue, workload))
    };
    let tree = snapshot.tree();
    let is_near = |other: &&QueueState| tree.root(other.node) == tree.root(queue.node);
    let near = snapshot.queues().filter(is_near);
    let queues = near.chain(snapshot.queues().filter(|other| !is_near(other)));
    let others = queues.flat_map(|other| snapshot.running_in(other));
    let others = others.filter(|running| running.uses_any(&frs));
    let others = others.filter(|running| !trial.is_holder(&running.workload.key)).take(LOOKS_MAX);
    let ranked = others.filter(would_do).map(|running| {
        let stays = !running.workload.is_being_evicted();
        let cost_device_ms = (asking.standing)(workload, &running.workload).cost_device_ms;
        (stays, cost_device_ms, running.workload.key.clone())
    });
    ranked.collect()
}
