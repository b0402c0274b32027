//! What would help a workload that waits: the smallest single change of each kind.
//!
//! Where the engine does not tell the amount, it is searched for with cheap questions (does it fit at once? would
//! anybody do as a victim?). Whatever is found is then decided about in full, and dropped if that does not help. All
//! searches are bounded, so that an explanation stays cheap in a large cluster.

mod ends;
mod quota;

use std::collections::BTreeSet;

use crate::kueue::cycle::Decision;
use crate::kueue::model::Topology;
use crate::kueue::reason::FlavorReason;
use crate::kueue::workload::{TopologyMode, Workload};

use super::super::{Outlook, Protection, Rule};
use super::trial::{Asking, Trial};
use super::{Change, Outcome, Remedy, Waiting};

/// All remedies for the workload of `trial`, of which `outcome` says that it waits.
pub(super) fn find(
    mut trial: Trial<'_>,
    outlook: &Outlook,
    outcome: &Outcome,
    asking: &Asking<'_>,
) -> Vec<Remedy> {
    let Outcome::Waits(waiting) = outcome else { return Vec::new() };
    let mut remedies = Vec::new();
    remedies.extend(protection_ends(&trial, waiting, asking));
    remedies.extend(priority(&mut trial, asking));
    remedies.extend(ends::workload_ends(&mut trial, waiting, asking));
    remedies.extend(quota::more_quota(&trial, asking));
    // Wishes about its pods play no part where only its turn is waited for.
    if !matches!(outlook.verdict.decision, Decision::Admit(_)) {
        remedies.extend(topology(&mut trial, asking));
        remedies.extend(topology_for(&mut trial, outlook, asking));
        remedies.extend(ranks(&mut trial, asking));
    }
    remedies
}

/// The change and what comes of it; `None` if the workload would still wait.
fn tried(trial: &Trial<'_>, changes: Vec<Change>, asking: &Asking<'_>) -> Option<Remedy> {
    let mut trial = trial.clone();
    for change in &changes {
        trial.apply(change).ok()?;
    }
    let outcome = trial.decide(asking)?;
    Some(Remedy::Change { changes, outcome })
}

/// The same for a change of the workload itself.
fn tried_as(trial: &mut Trial<'_>, change: Change, asking: &Asking<'_>) -> Option<Remedy> {
    let outcome = trial.decide_as(&change, asking)?;
    Some(Remedy::Change { changes: vec![change], outcome })
}

fn protection_ends(trial: &Trial<'_>, waiting: &Waiting, asking: &Asking<'_>) -> Option<Remedy> {
    let own = trial.workload().key.clone();
    let (workload, protection) = match waiting {
        Waiting::Protected(workload, protection) => (workload.clone(), *protection),
        Waiting::HeldOff { until_ms } => {
            (own, Protection { until_ms: *until_ms, rule: Rule::Hysteresis })
        }
        Waiting::Lacks(_) | Waiting::Behind(_) => return None,
    };
    let mut then = trial.clone();
    then.assume_free_since(asking.now_ms);
    let outcome = then.decide(&Asking { now_ms: protection.until_ms, ..*asking })?;
    Some(Remedy::ProtectionEnds { workload, protection, outcome })
}

/// The lowest priority with which it gets room. Only the priorities of others, and one more, can make a difference.
fn priority(trial: &mut Trial<'_>, asking: &Asking<'_>) -> Option<Remedy> {
    let own = trial.workload();
    let (priority, boost) = (own.priority, i64::from(own.priority_boost));
    let others: Vec<i64> = {
        let snapshot = trial.snapshot();
        let running = snapshot.queues().flat_map(|queue| snapshot.running_in(queue));
        let running = running.map(|running| &running.workload).chain(trial.goes_first());
        running.map(|workload| workload.effective_priority()).collect()
    };
    let values = others.into_iter().flat_map(|other| [other - boost, other - boost + 1]);
    let values: BTreeSet<i32> = values.filter_map(|value| i32::try_from(value).ok()).collect();
    let values: Vec<i32> = values.into_iter().filter(|value| *value > priority).collect();
    // Any victims will do here, not only the cheapest.
    let mut probe = trial.clone();
    probe.apply(&Change::RuleOff(Rule::LostWork)).ok()?;
    let mut helps = |value: i32| probe.decide_as(&Change::Priority(value), asking).is_some();
    // With a higher priority there are never fewer who must give way.
    let last = *values.last()?;
    if !helps(last) {
        return None;
    }
    let lowest = values.partition_point(|value| !helps(*value));
    let value = values.get(lowest).copied().unwrap_or(last);
    tried_as(trial, Change::Priority(value), asking)
}

/// The smallest step away from the topology that it requires.
fn topology(trial: &mut Trial<'_>, asking: &Asking<'_>) -> Option<Remedy> {
    let modes = trial.workload().pod_sets.iter().filter_map(|pod_set| pod_set.topology.as_ref());
    let mode = modes.filter_map(|topology| topology.mode.clone()).next()?;
    let TopologyMode::Required(level) = mode else { return None };
    let higher = levels_above(trial, &level).into_iter().map(TopologyMode::Required);
    let mut softer: Vec<TopologyMode> = higher.collect();
    softer.extend([TopologyMode::Preferred(level), TopologyMode::Unconstrained]);
    let mut softer = softer.into_iter();
    softer.find_map(|mode| tried_as(trial, Change::Topology(Some(mode)), asking))
}

/// Pods that ask for no topology may not use flavors that have one: whether they would get room there.
fn topology_for(trial: &mut Trial<'_>, outlook: &Outlook, asking: &Asking<'_>) -> Option<Remedy> {
    let tried = outlook.verdict.assignment.iter().flat_map(|assignment| &assignment.pod_sets);
    let mut details = tried.flat_map(|pod_set| &pod_set.attempts).flat_map(|a| &a.details);
    let is_spared = details.any(|reason| matches!(reason, FlavorReason::TopologyOnly(_)));
    let change = Change::Topology(Some(TopologyMode::Unconstrained));
    is_spared.then(|| tried_as(trial, change, asking)).flatten()
}

/// The levels above `level` in the topology of the first of the queue's flavors that has it, nearest first.
fn levels_above(trial: &Trial<'_>, level: &str) -> Vec<String> {
    let snapshot = trial.snapshot();
    let queue = snapshot.queue(&trial.workload().queue);
    let offered = queue.into_iter().flat_map(|queue| &queue.spec.groups).flat_map(|g| &g.flavors);
    let flavors = offered.filter_map(|offered| snapshot.flavor(&offered.flavor));
    let topologies = &trial.scheduler().setup().topologies;
    let of_flavor = |flavor: &crate::kueue::model::ResourceFlavor| {
        let name = flavor.topology.as_ref()?;
        topologies.iter().find(|topology| topology.name == *name)
    };
    let position = |topology: &Topology| topology.levels.iter().position(|known| known == level);
    let mut found = flavors.filter_map(of_flavor).filter_map(|t| Some((t, position(t)?)));
    let above = found.next().map(|(topology, at)| topology.levels[..at].iter().rev().cloned());
    above.into_iter().flatten().collect()
}

/// The most pods with which it fits at once.
fn ranks(trial: &mut Trial<'_>, asking: &Asking<'_>) -> Option<Remedy> {
    let (mut fits, mut too_many) = (0, pods_of(trial.workload()));
    while too_many.saturating_sub(fits) > 1 {
        let middle = fits + (too_many - fits) / 2;
        if trial.fits_as(&Change::Ranks(middle), asking.now_ms) {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    if fits == 0 {
        return None;
    }
    tried_as(trial, Change::Ranks(fits), asking)
}

fn pods_of(workload: &Workload) -> u32 {
    workload.pod_sets.iter().map(|pod_set| pod_set.count).fold(0, u32::saturating_add)
}
