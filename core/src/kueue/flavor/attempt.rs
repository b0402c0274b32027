//! What came of every flavor that was tried, and the one reason that sums it up.

use std::collections::BTreeMap;

use super::super::name::FlavorName;
use super::super::reason::{FlavorReason, PendingReason};
use super::super::snapshot::QueueState;
use super::{Assignment, Mode};

/// A flavor that was tried for a pod set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The flavor.
    pub flavor: FlavorName,
    /// How it could be had, over all resources.
    pub mode: Mode,
    /// Why it could not be had at all or at once.
    pub reason: Option<PendingReason>,
    /// The same in detail.
    pub details: Vec<FlavorReason>,
}

/// Adds attempts of one resource group to those of others; a flavor may be in several groups.
pub(super) fn merge(attempts: &mut Vec<Attempt>, new: Vec<Attempt>) {
    for attempt in new {
        match attempts.iter_mut().find(|known| known.flavor == attempt.flavor) {
            Some(known) => {
                known.mode = known.mode.min(attempt.mode);
                known.reason = known.reason.max(attempt.reason);
                known.details.extend(attempt.details);
            }
            None => attempts.push(attempt),
        }
    }
}

/// Sets the reason of an assignment that does not fit.
///
/// Flavors of one resource group are alternatives: the mildest reason counts. Groups and pod sets are all needed:
/// the most severe one counts.
pub(in crate::kueue) fn explain_no_fit(assignment: &mut Assignment, queue: &QueueState) {
    if assignment.mode() != Mode::NoFit {
        assignment.no_fit_reason = None;
        return;
    }
    let mut worst = None;
    for pod_set in assignment.pod_sets.iter().filter(|pod_set| pod_set.mode() == Mode::NoFit) {
        let offers_all = !pod_set
            .reasons
            .iter()
            .any(|reason| matches!(reason, FlavorReason::ResourceNotOffered(_)));
        if pod_set.attempts.is_empty() || !offers_all {
            worst = worst.max(Some(PendingReason::NoMatchingFlavor));
        }
        let mut mildest: BTreeMap<Option<usize>, Option<PendingReason>> = BTreeMap::new();
        for attempt in pod_set.attempts.iter().filter(|attempt| attempt.mode == Mode::NoFit) {
            for group in groups_of(queue, &attempt.flavor) {
                let reason = mildest.entry(group).or_insert(attempt.reason);
                *reason = (*reason).min(attempt.reason);
            }
        }
        worst = worst.max(mildest.into_values().max().flatten());
    }
    assignment.no_fit_reason = worst;
}

/// Positions of the resource groups that offer `flavor`; `None` if it is in none any more.
fn groups_of(queue: &QueueState, flavor: &FlavorName) -> Vec<Option<usize>> {
    let offers = |group: &super::super::model::ResourceGroup| {
        group.flavors.iter().any(|offered| offered.flavor == *flavor)
    };
    let groups = queue.spec.groups.iter().enumerate();
    let found: Vec<_> =
        groups.filter(|(_, group)| offers(group)).map(|(position, _)| Some(position)).collect();
    if found.is_empty() { vec![None] } else { found }
}
