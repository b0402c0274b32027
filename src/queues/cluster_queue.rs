//! A ClusterQueue's spec.

use std::collections::BTreeSet;

use sluice_core::kueue::model::{
    BorrowWithinCohort, CheckRule, ClusterQueue, FlavorPreference, FlavorSearch, Fungibility,
    NamespaceSelector, Preemption, PreemptionPolicy, QueueingStrategy, ResourceGroup, StopPolicy,
};
use sluice_core::kueue::name::{CheckName, CohortName, FlavorName, QueueName};

use super::document::Version;
use super::field::{Field, Object};
use super::findings::Kind;
use super::groups::{Owner, fair_weight, groups};
use super::matching::namespace_selector;
use super::name::{object_name, required_object_name};
use super::problem::{NoteKind, ProblemKind};

/// Most admission checks of a queue, and most flavors of a rule: Kueue's limit.
const CHECKS_MAX: usize = 64;

/// Reads `spec`.
pub(super) fn cluster_queue(name: &str, version: Version, spec_field: &Field<'_>) -> ClusterQueue {
    let mut spec = spec_field.object();
    let cohort_field = match version {
        Version::V1Alpha1 | Version::V1Beta1 => "cohort",
        Version::V1Beta2 => "cohortName",
    };
    let cohort = object_name_or_none(&spec.take(cohort_field));
    let groups_field = spec.take("resourceGroups");
    let owner = Owner { has_cohort: cohort.is_some(), cohort_field, passes_on: false };
    let groups = groups(&groups_field, owner);
    if groups.is_empty() {
        groups_field.note(NoteKind::NoQuota, "are empty: the queue admits nothing");
    }
    let selector_field = spec.take("namespaceSelector");
    let namespaces = namespace_selector(&selector_field);
    if namespaces == NamespaceSelector::Nobody {
        let message = "is absent: nobody may use the queue; write {} to let everybody";
        selector_field.note(NoteKind::AdmitsNobody, message);
    }
    let stop_field = spec.take("stopPolicy");
    let stop = stop_policy(&stop_field);
    if stop != StopPolicy::None {
        let message = format!("is {}: the queue admits nothing", stop_field.shown());
        stop_field.note(NoteKind::StoppedQueue, &message);
    }
    let strategies = [
        ("BestEffortFIFO", QueueingStrategy::BestEffortFifo),
        ("StrictFIFO", QueueingStrategy::StrictFifo),
    ];
    let strategy = spec.take("queueingStrategy").word(&strategies);
    let queue = ClusterQueue {
        name: QueueName::from(name),
        cohort: cohort.map(CohortName::from),
        strategy: strategy.unwrap_or(QueueingStrategy::BestEffortFifo),
        preemption: preemption(&spec.take("preemption")),
        fungibility: fungibility(&spec.take("flavorFungibility"), version),
        fair_weight: fair_weight(&spec.take("fairSharing")),
        namespaces,
        checks: checks(&mut spec, version, &groups),
        stop,
        groups,
    };
    not_followed(&mut spec, version);
    spec.finish();
    queue
}

/// An empty name is as good as none.
pub(super) fn object_name_or_none<'a>(field: &Field<'a>) -> Option<&'a str> {
    if field.is_empty_text() { None } else { object_name(field) }
}

/// `stopPolicy`.
pub(super) fn stop_policy(field: &Field<'_>) -> StopPolicy {
    let policies = [
        ("None", StopPolicy::None),
        ("Hold", StopPolicy::Hold),
        ("HoldAndDrain", StopPolicy::HoldAndDrain),
    ];
    field.word(&policies).unwrap_or(StopPolicy::None)
}

fn preemption(field: &Field<'_>) -> Preemption {
    let never = ("Never", PreemptionPolicy::Never);
    let lower = ("LowerPriority", PreemptionPolicy::LowerPriority);
    let newer = ("LowerOrNewerEqualPriority", PreemptionPolicy::LowerOrNewerEqualPriority);
    let mut preemption = field.object();
    let within = preemption.take("withinClusterQueue").word(&[never, lower, newer]);
    let reclaim = preemption.take("reclaimWithinCohort");
    let reclaim = reclaim.word(&[never, lower, ("Any", PreemptionPolicy::Any)]);
    let reclaim_within_cohort = reclaim.unwrap_or(PreemptionPolicy::Never);
    let mut borrowing = preemption.take("borrowWithinCohort").object();
    let policy_field = borrowing.take("policy");
    let may_borrow = policy_field.word(&[("Never", false), ("LowerPriority", true)]);
    let threshold = borrowing.take("maxPriorityThreshold").priority();
    borrowing.finish();
    preemption.finish();
    let may_borrow = may_borrow.unwrap_or(false);
    if may_borrow && reclaim_within_cohort == PreemptionPolicy::Never {
        policy_field.problem(ProblemKind::ConflictingFields, || {
            "is LowerPriority, but reclaimWithinCohort is Never: set that to LowerPriority or Any, or this to Never".to_owned()
        });
    }
    Preemption {
        within_queue: within.unwrap_or(PreemptionPolicy::Never),
        reclaim_within_cohort,
        borrow_within_cohort: if may_borrow {
            BorrowWithinCohort::LowerPriority { max_priority: threshold }
        } else {
            BorrowWithinCohort::Never
        },
    }
}

/// The old version's words for ending the search are told from each other.
fn fungibility(field: &Field<'_>, version: Version) -> Fungibility {
    let mut fungibility = field.object();
    let mut search = |name, old_word, default| {
        let stop = ("MayStopSearch", FlavorSearch::MayStopSearch);
        let next = ("TryNextFlavor", FlavorSearch::TryNextFlavor);
        let words = [stop, next, (old_word, FlavorSearch::MayStopSearch)];
        let known = match version {
            Version::V1Alpha1 | Version::V1Beta1 => words.as_slice(),
            Version::V1Beta2 => &words[..2],
        };
        fungibility.take(name).word(known).unwrap_or(default)
    };
    let default = Fungibility::DEFAULT;
    let when_can_borrow = search("whenCanBorrow", "Borrow", default.when_can_borrow);
    let when_can_preempt = search("whenCanPreempt", "Preempt", default.when_can_preempt);
    let preference_field = fungibility.take("preference");
    let preference = preference_field.word(&[
        ("BorrowingOverPreemption", FlavorPreference::BorrowingOverPreemption),
        ("PreemptionOverBorrowing", FlavorPreference::PreemptionOverBorrowing),
    ]);
    fungibility.finish();
    let all_are_tried = [when_can_borrow, when_can_preempt] == [FlavorSearch::TryNextFlavor; 2];
    if preference.is_some() && !all_are_tried {
        preference_field.problem(ProblemKind::ConflictingFields, || {
            "is set, but a search that stops at the first possible flavor compares nothing; set whenCanBorrow and whenCanPreempt to TryNextFlavor".to_owned()
        });
    }
    let preference = preference.unwrap_or(default.preference);
    Fungibility { when_can_borrow, when_can_preempt, preference }
}

fn checks(spec: &mut Object<'_>, version: Version, groups: &[ResourceGroup]) -> Vec<CheckRule> {
    let mut strategy = spec.take("admissionChecksStrategy").object();
    let rules = strategy.take("admissionChecks").list(CHECKS_MAX);
    strategy.finish();
    let mut checks: Vec<_> = rules.iter().filter_map(|rule| check_rule(rule, groups)).collect();
    if matches!(version, Version::V1Alpha1 | Version::V1Beta1) {
        let names_field = spec.take("admissionChecks");
        let names = names_field.list(CHECKS_MAX);
        if !names.is_empty() && !rules.is_empty() {
            names_field.problem(ProblemKind::ConflictingFields, || {
                "is set, and admissionChecksStrategy, too; keep one of them".to_owned()
            });
        }
        checks.extend(names.iter().filter_map(plain_rule));
    }
    let mut seen = BTreeSet::new();
    for (field, rule) in &checks {
        if !seen.insert(&rule.check) {
            field.problem(ProblemKind::DuplicateEntry, || {
                format!("names the admission check {:?} again", rule.check)
            });
        }
    }
    checks.iter().map(|(_, rule)| rule.clone()).collect()
}

fn check_name(field: &Field<'_>) -> Option<CheckName> {
    let name = required_object_name(field)?;
    field.refers_to(Kind::AdmissionCheck, name);
    Some(CheckName::from(name))
}

/// A check for all flavors, as the old version writes it.
fn plain_rule<'a>(field: &Field<'a>) -> Option<(Field<'a>, CheckRule)> {
    let check = check_name(field)?;
    Some((field.clone(), CheckRule { check, on_flavors: Vec::new() }))
}

fn check_rule<'a>(field: &Field<'a>, groups: &[ResourceGroup]) -> Option<(Field<'a>, CheckRule)> {
    let mut rule = field.object();
    let check = check_name(&rule.take("name"));
    let flavor_fields = rule.take("onFlavors").list(CHECKS_MAX);
    rule.finish();
    let offers = |flavor: &FlavorName| {
        groups.iter().flat_map(|group| &group.flavors).any(|offered| offered.flavor == *flavor)
    };
    let mut on_flavors = Vec::new();
    for flavor_field in flavor_fields {
        let Some(name) = required_object_name(&flavor_field) else { continue };
        flavor_field.refers_to(Kind::ResourceFlavor, name);
        let flavor = FlavorName::from(name);
        if !offers(&flavor) {
            let message = format!("is {name:?}, which the queue does not offer");
            flavor_field.note(NoteKind::FlavorNotOffered, &message);
        }
        on_flavors.push(flavor);
    }
    Some((field.clone(), CheckRule { check: check?, on_flavors }))
}

/// Features of Kueue that would change decisions and are not done here.
fn not_followed(spec: &mut Object<'_>, version: Version) {
    let mut scope = spec.take("admissionScope").object();
    let mode_field = scope.take("admissionMode");
    let modes = [("UsageBasedAdmissionFairSharing", true), ("NoAdmissionFairSharing", false)];
    if mode_field.word(&modes) == Some(true) {
        mode_field.problem(ProblemKind::NotFollowed, || {
            "is UsageBasedAdmissionFairSharing, which is not done here: past usage of LocalQueues decides nothing; use NoAdmissionFairSharing".to_owned()
        });
    }
    scope.finish();
    if version == Version::V1Beta2 {
        let policy = spec.take("concurrentAdmissionPolicy");
        if !policy.is_absent() {
            policy.problem(ProblemKind::NotFollowed, || {
                "is set, but a workload is admitted once here and never moves to a better flavor; take it out".to_owned()
            });
        }
    }
}
