//! The walk over a resource group's flavors for one group of pod sets.

use std::collections::BTreeMap;

use super::super::demand::Demand;
use super::super::model::{BorrowWithinCohort, FlavorQuotas, PreemptionPolicy, ResourceGroup};
use super::super::name::{FlavorResource, ResourceName};
use super::super::reason::{FlavorReason, PendingReason};
use super::super::whatif::WhatIf;
use super::super::workload::{Requests, Usage};
use super::attempt::{Attempt, merge};
use super::preference::{Grade, Way};
use super::suitable::find_obstacle;
use super::{FlavorChoice, FlavorRequest, Mode, Oracle, PodSetAssignment};

/// What was found for a group of pod sets.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Empty if some resource has no flavor.
    flavors: BTreeMap<ResourceName, FlavorChoice>,
    reasons: Vec<FlavorReason>,
    attempts: Vec<Attempt>,
}

impl Found {
    /// The part of it that concerns one pod set.
    pub(super) fn to_pod_set(&self, demand: &Demand<'_>) -> PodSetAssignment {
        let flavors = self.flavors.iter();
        PodSetAssignment {
            name: demand.name.clone(),
            count: demand.count,
            requests: demand.requests.clone(),
            // A pod set without requests of its own (a leader, say) goes where its group goes.
            flavors: flavors
                .filter(|(resource, _)| {
                    demand.requests.is_empty() || demand.requests.contains_key(*resource)
                })
                .map(|(resource, choice)| (resource.clone(), choice.clone()))
                .collect(),
            placement: demand.held.and_then(|held| held.placement.clone()),
            delayed_placement: demand.held.and_then(|held| held.delayed_placement),
            reasons: self.reasons.clone(),
            attempts: self.attempts.clone(),
        }
    }
}

/// Finds flavors for pod sets that must share them; `taken` is what earlier pod sets of the workload take.
pub(super) fn find_for_group<'a>(
    whatif: &mut WhatIf<'a>,
    request: &FlavorRequest<'_>,
    demands: &[&Demand<'_>],
    taken: &Usage,
    oracle: &mut Oracle<'_, 'a>,
) -> Found {
    let mut found = Found::default();
    let mut requests = Requests::new();
    for demand in demands {
        for (resource, &amount) in &demand.requests {
            let total = requests.entry(resource.clone()).or_insert(0);
            *total = total.saturating_add(amount);
        }
        for (resource, flavor) in demand.held.iter().flat_map(|held| &held.flavors) {
            let choice = FlavorChoice {
                flavor: flavor.clone(),
                mode: Mode::Fit,
                borrow_height: 0,
                last_tried: None,
            };
            found.flavors.insert(resource.clone(), choice);
        }
    }
    for (resource, &amount) in &requests {
        let group = request.queue.spec.group_of(resource);
        // Zero of a resource that the queue does not know is no request.
        if found.flavors.contains_key(resource) || (group.is_none() && amount == 0) {
            continue;
        }
        let Some(group) = group else {
            found.flavors.clear();
            found.reasons = vec![FlavorReason::ResourceNotOffered(resource.clone())];
            return found;
        };
        let mut walk = Walk { request, demands, group, taken, requests: BTreeMap::new() };
        walk.requests = requests
            .iter()
            .filter(|(name, _)| group.resources.contains(name))
            .map(|(name, &amount)| (name.clone(), amount))
            .collect();
        let (flavors, reasons, attempts) = walk.run(whatif, resource, oracle);
        merge(&mut found.attempts, attempts);
        if flavors.is_empty() {
            found.flavors.clear();
            found.reasons = reasons;
            return found;
        }
        found.flavors.extend(flavors);
        found.reasons.extend(reasons);
    }
    found
}

/// One resource group's flavors tried for one group of pod sets.
struct Walk<'w, 'r> {
    request: &'w FlavorRequest<'r>,
    demands: &'w [&'w Demand<'w>],
    group: &'w ResourceGroup,
    taken: &'w Usage,
    /// What is asked for of this group's resources.
    requests: Requests,
}

type Choices = BTreeMap<ResourceName, FlavorChoice>;

/// One flavor tried.
struct Trial {
    choices: Choices,
    grade: Grade,
    reasons: Vec<FlavorReason>,
    /// The most severe of the reasons, while it is one that could rule the flavor out.
    reason: Option<PendingReason>,
}

impl Walk<'_, '_> {
    fn run<'a>(
        &self,
        whatif: &mut WhatIf<'a>,
        resource: &ResourceName,
        oracle: &mut Oracle<'_, 'a>,
    ) -> (Choices, Vec<FlavorReason>, Vec<Attempt>) {
        let fungibility = &self.request.queue.spec.fungibility;
        let start = self
            .request
            .progress
            .map_or(0, |progress| progress.start(self.demands[0].index, resource));
        let (mut best, mut best_grade) = (Choices::new(), Grade::WORST);
        let (mut reasons, mut attempts) = (Vec::new(), Vec::new());
        let mut last_tried = None;
        for (position, offered) in self.group.flavors.iter().enumerate().skip(start) {
            last_tried = Some(position);
            if let Some(reason) = self.find_skip_reason(offered, resource) {
                reasons.push(reason);
                continue;
            }
            if let Some(reason) = self.find_obstacle(whatif, offered) {
                reasons.push(reason.clone());
                attempts.push(Attempt {
                    flavor: offered.flavor.clone(),
                    mode: Mode::NoFit,
                    reason: Some(PendingReason::NoMatchingFlavor),
                    details: vec![reason],
                });
                continue;
            }
            let trial = self.try_flavor(whatif, offered, oracle);
            reasons.extend(trial.reasons.iter().cloned());
            attempts.push(Attempt {
                flavor: offered.flavor.clone(),
                mode: trial.grade.way.mode(),
                reason: trial.reason,
                details: trial.reasons,
            });
            let is_enough = !trial.grade.asks_for_more(fungibility);
            if is_enough || trial.grade.is_preferred_to(best_grade, fungibility) {
                (best, best_grade) = (trial.choices, trial.grade);
            }
            if is_enough {
                break;
            }
        }
        let was_last = last_tried == self.group.flavors.len().checked_sub(1);
        for choice in best.values_mut() {
            choice.last_tried = last_tried.filter(|_| !was_last);
        }
        if best_grade.way == Way::Fit {
            reasons.clear();
        }
        (best, reasons, attempts)
    }

    /// Why the flavor is not even looked at.
    fn find_skip_reason(
        &self,
        offered: &FlavorQuotas,
        resource: &ResourceName,
    ) -> Option<FlavorReason> {
        if let Some(nominated) = self.request.nominated
            && !self.demands.iter().any(|demand| {
                let flavors = nominated.get(&demand.name);
                flavors.and_then(|flavors| flavors.get(resource)) == Some(&offered.flavor)
            })
        {
            return Some(FlavorReason::NotNominated(offered.flavor.clone()));
        }
        let allowed = &self.request.workload.allowed_flavors;
        (!allowed.is_empty() && !allowed.contains(&offered.flavor))
            .then(|| FlavorReason::NotAllowed(offered.flavor.clone()))
    }

    /// Why the flavor's nodes do not suit the pods.
    fn find_obstacle(&self, whatif: &WhatIf<'_>, offered: &FlavorQuotas) -> Option<FlavorReason> {
        let snapshot = whatif.snapshot();
        let Some(flavor) = snapshot.flavor(&offered.flavor) else {
            return Some(FlavorReason::FlavorNotFound(offered.flavor.clone()));
        };
        self.demands.iter().find_map(|demand| {
            let pod_set = &self.request.workload.pod_sets[demand.index];
            find_obstacle(snapshot, self.request.queue, self.group, flavor, pod_set)
        })
    }

    fn try_flavor<'a>(
        &self,
        whatif: &mut WhatIf<'a>,
        offered: &FlavorQuotas,
        oracle: &mut Oracle<'_, 'a>,
    ) -> Trial {
        let fungibility = &self.request.queue.spec.fungibility;
        let mut trial = Trial {
            choices: Choices::new(),
            grade: Grade::BEST,
            reasons: Vec::new(),
            reason: None,
        };
        for (resource, &amount) in &self.requests {
            let fr = FlavorResource::new(&offered.flavor, resource);
            let (grade, reason) = self.grade(whatif, &fr, amount, oracle);
            if let Some(reason) = reason {
                trial.reason = trial.reason.max(severity(&reason, grade.way));
                trial.reasons.push(reason);
            }
            if trial.grade.is_preferred_to(grade, fungibility) {
                trial.grade = grade;
            }
            if trial.grade.way == Way::NoFit {
                break;
            }
            let choice = FlavorChoice {
                flavor: offered.flavor.clone(),
                mode: grade.way.mode(),
                borrow_height: grade.borrow_height,
                last_tried: None,
            };
            trial.choices.insert(resource.clone(), choice);
        }
        trial
    }

    /// How `amount` of `fr` could be had on top of what earlier pod sets take.
    fn grade<'a>(
        &self,
        whatif: &mut WhatIf<'a>,
        fr: &FlavorResource,
        amount: i64,
        oracle: &mut Oracle<'_, 'a>,
    ) -> (Grade, Option<FlavorReason>) {
        let node = self.request.queue.node;
        let ledger = whatif.ledger();
        let amount = self.taken.get(fr).copied().unwrap_or(0).saturating_add(amount);
        let max = ledger.tree().potential_available(node, fr);
        if amount > max {
            let reason = FlavorReason::ExceedsMaxQuota { fr: fr.clone(), requested: amount, max };
            return (Grade { way: Way::NoFit, borrow_height: 0 }, Some(reason));
        }
        let (borrow_height, may_reclaim) = ledger.lowest_fitting_subtree(node, fr, amount);
        let available = ledger.available(node, fr);
        if amount <= available {
            return (Grade { way: Way::Fit, borrow_height }, None);
        }
        let missing = amount.saturating_sub(available);
        let reason = FlavorReason::InsufficientQuota { fr: fr.clone(), missing };
        let is_within_nominal = amount <= ledger.tree().quota(node, fr).nominal;
        if is_within_nominal || may_reclaim || self.may_preempt_above_nominal() {
            let (possibility, borrow_height) = oracle(whatif, fr, amount);
            return (Grade { way: possibility.into(), borrow_height }, Some(reason));
        }
        (Grade { way: Way::NoFit, borrow_height }, Some(reason))
    }

    /// Whether victims are looked for although the request is above the queue's own quota.
    fn may_preempt_above_nominal(&self) -> bool {
        let policies = &self.request.queue.spec.preemption;
        let may_preempt = policies.within_queue != PreemptionPolicy::Never
            || policies.reclaim_within_cohort != PreemptionPolicy::Never;
        policies.borrow_within_cohort != BorrowWithinCohort::Never
            || (self.request.is_fair_sharing && may_preempt)
    }
}

/// What a reason means for the workload; waiting is only a reason where preemption is out of the question.
fn severity(reason: &FlavorReason, way: Way) -> Option<PendingReason> {
    match reason {
        FlavorReason::ExceedsMaxQuota { .. } => Some(PendingReason::ExceedsMaxQuota),
        FlavorReason::InsufficientQuota { .. } => {
            (way == Way::NoFit).then_some(PendingReason::WaitingForQuota)
        }
        FlavorReason::ResourceNotOffered(_)
        | FlavorReason::FlavorNotFound(_)
        | FlavorReason::NotAllowed(_)
        | FlavorReason::NotNominated(_)
        | FlavorReason::UntoleratedTaint { .. }
        | FlavorReason::AffinityMismatch(_)
        | FlavorReason::TopologyNotOffered(_)
        | FlavorReason::TopologyOnly(_)
        | FlavorReason::Placement(_)
        | FlavorReason::NoSingleTopology => Some(PendingReason::NoMatchingFlavor),
    }
}
