//! Choosing a flavor for every resource of a workload.
//!
//! Pod sets (or groups of them) are looked at one after the other; for each of the queue's resource groups the
//! flavors are tried in order. How a flavor would be had is a [`Mode`]; which of two is better, and whether the
//! search goes on, is the queue's fungibility. Whether victims could be found is asked of an oracle, for one
//! flavor-resource at a time: [`preemption_oracle`] runs a real victim search.

mod attempt;
mod oracle;
mod partial;
mod preference;
mod search;
mod suitable;

use std::collections::BTreeMap;

use super::demand::{Demand, PODS, demands_of};
use super::name::{FlavorName, FlavorResource, PodSetName, ResourceName};
use super::reason::{FlavorReason, PendingReason};
use super::snapshot::QueueState;
use super::whatif::WhatIf;
use super::workload::{
    Admission, DelayedPlacement, Placement, PodSetAdmission, Requests, Usage, Workload,
};

pub use attempt::Attempt;
pub(super) use attempt::explain_no_fit;
pub use oracle::{Possibility, preemption_oracle};
pub use partial::find_largest_fit;

/// How a flavor, a pod set or a whole workload could be had. Later variants are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Not at all, as things are.
    NoFit,
    /// If others give way.
    Preempt,
    /// At once, perhaps by borrowing.
    Fit,
}

impl Mode {
    /// Kueue's name of the mode.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::NoFit => "NoFit",
            Self::Preempt => "Preempt",
            Self::Fit => "Fit",
        }
    }
}

/// The flavor chosen for one resource of one pod set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlavorChoice {
    /// The flavor.
    pub flavor: FlavorName,
    /// How it can be had.
    pub mode: Mode,
    /// Where quota would come from: 0 the queue itself, else the height of the subtree that has it.
    pub borrow_height: u32,
    /// Position of the last flavor tried; `None` when all have been, so that the next search starts anew.
    pub last_tried: Option<usize>,
}

/// What one pod set would be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSetAssignment {
    /// The pod set.
    pub name: PodSetName,
    /// Pods.
    pub count: u32,
    /// What they request together.
    pub requests: Requests,
    /// The flavor per resource; empty if none could be found.
    pub flavors: BTreeMap<ResourceName, FlavorChoice>,
    /// Where its pods would go, if its flavor has a topology.
    pub placement: Option<Placement>,
    /// Whether its placement is put off.
    pub delayed_placement: Option<DelayedPlacement>,
    /// Why it cannot be had at once; empty if it can.
    pub reasons: Vec<FlavorReason>,
    /// Every flavor that was tried.
    pub attempts: Vec<Attempt>,
}

impl PodSetAssignment {
    /// The worst of its flavors' modes.
    #[must_use]
    pub fn mode(&self) -> Mode {
        if self.reasons.is_empty() {
            return Mode::Fit;
        }
        if self.reasons.contains(&FlavorReason::NoSingleTopology) {
            return Mode::NoFit;
        }
        self.flavors.values().map(|choice| choice.mode).min().unwrap_or(Mode::NoFit)
    }

    pub(super) fn set_mode(&mut self, mode: Mode) {
        for choice in self.flavors.values_mut() {
            choice.mode = mode;
        }
    }
}

/// What a workload would be given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// One entry per pod set looked at. After the first pod set without a flavor no more are looked at.
    pub pod_sets: Vec<PodSetAssignment>,
    /// From how far quota would have to be borrowed; 0 if not at all.
    pub borrow_height: u32,
    /// The quota it would take.
    pub usage: Usage,
    /// Set when placement, not quota, decides.
    pub(super) placement_mode: Option<Mode>,
    /// The most severe reason if the mode is [`Mode::NoFit`].
    pub no_fit_reason: Option<PendingReason>,
}

impl Assignment {
    /// The worst of the pod sets' modes.
    #[must_use]
    pub fn mode(&self) -> Mode {
        if let Some(mode) = self.placement_mode {
            return mode;
        }
        self.pod_sets.iter().map(PodSetAssignment::mode).min().unwrap_or(Mode::NoFit)
    }

    /// What is lacking: flavor-resources that only preemption could free.
    pub fn contested(&self) -> impl Iterator<Item = FlavorResource> + '_ {
        self.pod_sets
            .iter()
            .flat_map(|pod_set| &pod_set.flavors)
            .filter(|(_, choice)| choice.mode == Mode::Preempt)
            .map(|(resource, choice)| FlavorResource::new(&choice.flavor, resource))
    }

    /// Where the next search goes on.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let last_tried = |pod_set: &PodSetAssignment| {
            let choices = pod_set.flavors.iter();
            choices.map(|(resource, choice)| (resource.clone(), choice.last_tried)).collect()
        };
        Progress(self.pod_sets.iter().map(last_tried).collect())
    }

    /// The flavors chosen, to stay with them when the assignment is computed again.
    #[must_use]
    pub fn nominated(&self) -> Nominated {
        let flavors = |pod_set: &PodSetAssignment| {
            let choices = pod_set.flavors.iter();
            choices.map(|(resource, choice)| (resource.clone(), choice.flavor.clone())).collect()
        };
        self.pod_sets.iter().map(|pod_set| (pod_set.name.clone(), flavors(pod_set))).collect()
    }

    /// What the workload is given if the assignment is carried out in `queue`.
    #[must_use]
    pub fn to_admission(&self, queue: &QueueState) -> Admission {
        let pod_set = |pod_set: &PodSetAssignment| PodSetAdmission {
            name: pod_set.name.clone(),
            count: pod_set.count,
            flavors: pod_set
                .flavors
                .iter()
                .map(|(resource, choice)| (resource.clone(), choice.flavor.clone()))
                .collect(),
            usage: pod_set
                .flavors
                .keys()
                .map(|resource| {
                    (resource.clone(), pod_set.requests.get(resource).copied().unwrap_or(0))
                })
                .collect(),
            placement: pod_set.placement.clone(),
            delayed_placement: pod_set.delayed_placement,
        };
        Admission {
            queue: queue.spec.name.clone(),
            pod_sets: self.pod_sets.iter().map(pod_set).collect(),
        }
    }
}

/// How far the search for flavors has come, per pod set and resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress(Vec<BTreeMap<ResourceName, Option<usize>>>);

impl Progress {
    /// Whether some flavors have not been tried yet.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.0.iter().flat_map(BTreeMap::values).any(Option::is_some)
    }

    /// Progress in which one resource of one pod set has come to `last_tried`.
    #[cfg(test)]
    pub(super) fn at(pod_set: usize, resource: &ResourceName, last_tried: Option<usize>) -> Self {
        let mut progress = vec![BTreeMap::new(); pod_set + 1];
        progress[pod_set].insert(resource.clone(), last_tried);
        Self(progress)
    }

    /// Position of the flavor to start from.
    fn start(&self, pod_set: usize, resource: &ResourceName) -> usize {
        let last = self.0.get(pod_set).and_then(|resources| resources.get(resource));
        last.copied().flatten().map_or(0, |last| last.saturating_add(1))
    }
}

/// The flavors a workload was nominated with, per pod set and resource.
pub type Nominated = BTreeMap<PodSetName, BTreeMap<ResourceName, FlavorName>>;

/// A search for flavors.
#[derive(Clone, Copy, Debug)]
pub struct FlavorRequest<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// Its queue.
    pub queue: &'a QueueState,
    /// Pods per pod set, if it is not to be admitted in full.
    pub counts: Option<&'a [u32]>,
    /// Where the search goes on; `None` starts with the first flavor.
    pub progress: Option<&'a Progress>,
    /// The only flavors to look at, if the workload was nominated before.
    pub nominated: Option<&'a Nominated>,
    /// Whether victims are chosen by fair shares.
    pub is_fair_sharing: bool,
}

/// Answers whether and how `amount` of a flavor-resource could be freed, and from how far it would then come.
pub type Oracle<'o, 'a> =
    dyn FnMut(&mut WhatIf<'a>, &FlavorResource, i64) -> (Possibility, u32) + 'o;

/// Chooses flavors by quota alone; [`super::topology`] adds placement.
#[must_use]
pub fn assign_flavors<'a>(
    whatif: &mut WhatIf<'a>,
    request: &FlavorRequest<'_>,
    oracle: &mut Oracle<'_, 'a>,
) -> Assignment {
    let counts_pods = request.queue.spec.group_of(&PODS.into()).is_some();
    let demands = demands_of(request.workload, request.counts, counts_pods);
    let mut assignment = Assignment::default();
    for group in group_demands(&demands) {
        let found = search::find_for_group(whatif, request, &group, &assignment.usage, oracle);
        let mut is_lacking = false;
        for demand in &group {
            let pod_set = found.to_pod_set(demand);
            is_lacking |= !demand.requests.is_empty() && pod_set.flavors.is_empty();
            record(&mut assignment, demand, pod_set);
        }
        if is_lacking {
            break;
        }
    }
    attempt::explain_no_fit(&mut assignment, request.queue);
    assignment
}

fn record(assignment: &mut Assignment, demand: &Demand<'_>, pod_set: PodSetAssignment) {
    for (resource, choice) in &pod_set.flavors {
        assignment.borrow_height = assignment.borrow_height.max(choice.borrow_height);
        let amount = demand.requests.get(resource).copied().unwrap_or(0);
        let fr = FlavorResource::new(&choice.flavor, resource);
        let total = assignment.usage.entry(fr).or_insert(0);
        *total = total.saturating_add(amount);
    }
    assignment.pod_sets.push(pod_set);
}

/// Pod sets of one group together, in the order in which groups first appear.
fn group_demands<'d, 'a>(demands: &'d [Demand<'a>]) -> Vec<Vec<&'d Demand<'a>>> {
    let mut groups: Vec<Vec<&Demand<'_>>> = Vec::new();
    for demand in demands {
        let same = groups
            .iter_mut()
            .find(|group| demand.group.is_some() && group[0].group == demand.group);
        match same {
            Some(group) => group.push(demand),
            None => groups.push(vec![demand]),
        }
    }
    groups
}

#[cfg(test)]
mod tests;
