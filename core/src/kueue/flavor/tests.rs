use super::*;
use crate::kueue::fixture::{cluster, gpu_group, gpus_of, nominal, pending, queue, running};
use crate::kueue::matching::{Taint, TaintEffect};
use crate::kueue::model::{FlavorPreference, FlavorSearch, Fungibility, Quota};
use crate::kueue::snapshot::{Setup, Snapshot};

/// Assigns a workload of queue `a`; every preemption is said to be `possibility`.
fn assign(snapshot: &Snapshot, workload: &Workload, possibility: Possibility) -> Assignment {
    let request = FlavorRequest {
        workload,
        queue: snapshot.queue(&"a".into()).unwrap(),
        counts: None,
        progress: None,
        nominated: None,
        is_fair_sharing: false,
    };
    let mut oracle = |_: &mut WhatIf<'_>, _: &FlavorResource, _: i64| (possibility, 0);
    assign_flavors(&mut WhatIf::new(snapshot), &request, &mut oracle)
}

fn chosen(assignment: &Assignment) -> Option<(String, Mode, u32)> {
    let choice = assignment.pod_sets[0].flavors.get(&"gpu".into())?;
    Some((choice.flavor.to_string(), choice.mode, choice.borrow_height))
}

/// Queue `a` with 4 GPUs of flavor a3 (full) and 4 of a4, in a cohort with 8 free GPUs of a3.
fn two_flavors(fungibility: Fungibility) -> Snapshot {
    let mut a = queue("a", Some("team"), 4);
    a.groups = vec![gpu_group(&[("a3", nominal(4)), ("a4", nominal(4))])];
    a.fungibility = fungibility;
    let mut snapshot = cluster(vec![a, queue("b", Some("team"), 8)]);
    snapshot.insert(running("w", "a", 0, 4));
    snapshot
}

#[test]
fn borrowing_ends_the_search_unless_the_queue_wants_the_next_flavor() {
    let want = pending("new", "a", 0, 4);
    let stop = assign(&two_flavors(Fungibility::DEFAULT), &want, Possibility::NoCandidates);
    assert_eq!(chosen(&stop), Some(("a3".to_owned(), Mode::Fit, 1)));
    let fungibility =
        Fungibility { when_can_borrow: FlavorSearch::TryNextFlavor, ..Fungibility::DEFAULT };
    let next = assign(&two_flavors(fungibility), &want, Possibility::NoCandidates);
    assert_eq!(chosen(&next), Some(("a4".to_owned(), Mode::Fit, 0)));
}

#[test]
fn the_preference_decides_between_borrowing_and_preemption() {
    let search = FlavorSearch::TryNextFlavor;
    for (preference, expected) in [
        (FlavorPreference::BorrowingOverPreemption, ("a3", Mode::Fit, 1)),
        (FlavorPreference::PreemptionOverBorrowing, ("a4", Mode::Preempt, 0)),
    ] {
        let fungibility =
            Fungibility { when_can_borrow: search, when_can_preempt: search, preference };
        let mut snapshot = two_flavors(fungibility);
        let mut full = (*running("v", "a", 0, 4).workload).clone();
        let held = full.reservation.as_mut().unwrap();
        held.admission.pod_sets[0].flavors = [("gpu".into(), "a4".into())].into();
        snapshot.insert(crate::kueue::snapshot::Running::new(std::sync::Arc::new(full)));
        let found = assign(&snapshot, &pending("new", "a", 0, 4), Possibility::Preempt);
        let (flavor, mode, height) = expected;
        assert_eq!(chosen(&found), Some((flavor.to_owned(), mode, height)));
    }
}

#[test]
fn a_request_beyond_all_limits_says_so() {
    let mut a = queue("a", Some("team"), 4);
    let quota = Quota { nominal: 4, borrowing_limit: Some(2), lending_limit: None };
    a.groups = vec![gpu_group(&[("a3", quota)])];
    let snapshot = cluster(vec![a, queue("b", Some("team"), 8)]);
    let found = assign(&snapshot, &pending("new", "a", 0, 7), Possibility::NoCandidates);
    assert_eq!(
        (found.mode(), found.no_fit_reason),
        (Mode::NoFit, Some(PendingReason::ExceedsMaxQuota))
    );
    let reason = FlavorReason::ExceedsMaxQuota { fr: gpus_of("a3"), requested: 7, max: 6 };
    assert_eq!(found.pod_sets[0].reasons, [reason]);
}

#[test]
fn the_mildest_reason_of_alternative_flavors_counts() {
    let mut tainted = crate::kueue::fixture::flavor("a3");
    let (key, value) = ("spot".to_owned(), "true".to_owned());
    tainted.taints = vec![Taint { key, value, effect: TaintEffect::NoSchedule }];
    let mut a = queue("a", None, 4);
    a.groups = vec![gpu_group(&[("a3", nominal(8)), ("a4", nominal(4))])];
    let snapshot = Snapshot::new(Setup {
        flavors: vec![tainted, crate::kueue::fixture::flavor("a4")],
        queues: vec![a],
        ..Setup::default()
    });
    let found = assign(&snapshot, &pending("new", "a", 0, 5), Possibility::NoCandidates);
    assert_eq!(found.no_fit_reason, Some(PendingReason::ExceedsMaxQuota));
    let codes: Vec<_> = found.pod_sets[0].reasons.iter().map(FlavorReason::code).collect();
    assert_eq!(codes, ["UntoleratedTaint", "ExceedsMaxQuota"]);
}

#[test]
fn a_resource_the_queue_does_not_know_matches_no_flavor() {
    let snapshot = cluster(vec![queue("a", None, 4)]);
    let mut workload = pending("new", "a", 0, 1);
    workload.pod_sets[0].requests.insert("tpu".into(), 1);
    let found = assign(&snapshot, &workload, Possibility::NoCandidates);
    assert_eq!(found.no_fit_reason, Some(PendingReason::NoMatchingFlavor));
}

#[test]
fn pod_sets_count_what_earlier_ones_take() {
    let snapshot = cluster(vec![queue("a", None, 4)]);
    let mut workload = pending("new", "a", 0, 3);
    let mut second = workload.pod_sets[0].clone();
    second.name = "second".into();
    workload.pod_sets.push(second);
    let found = assign(&snapshot, &workload, Possibility::NoCandidates);
    assert_eq!(
        found.pod_sets.iter().map(PodSetAssignment::mode).collect::<Vec<_>>(),
        [Mode::Fit, Mode::NoFit]
    );
}

#[test]
fn the_search_goes_on_where_it_ended() {
    let fungibility =
        Fungibility { when_can_preempt: FlavorSearch::MayStopSearch, ..Fungibility::DEFAULT };
    let mut a = queue("a", None, 4);
    a.groups = vec![gpu_group(&[("a3", nominal(4)), ("a4", nominal(4))])];
    a.fungibility = fungibility;
    let mut snapshot = cluster(vec![a]);
    snapshot.insert(running("w", "a", 0, 4));
    let workload = pending("new", "a", 0, 4);
    let first = assign(&snapshot, &workload, Possibility::Preempt);
    assert_eq!(chosen(&first), Some(("a3".to_owned(), Mode::Preempt, 0)));
    assert!(first.progress().is_unfinished());
    let progress = first.progress();
    let request = FlavorRequest {
        workload: &workload,
        queue: snapshot.queue(&"a".into()).unwrap(),
        counts: None,
        progress: Some(&progress),
        nominated: None,
        is_fair_sharing: false,
    };
    let mut oracle = |_: &mut WhatIf<'_>, _: &FlavorResource, _: i64| (Possibility::Preempt, 0);
    let second = assign_flavors(&mut WhatIf::new(&snapshot), &request, &mut oracle);
    assert_eq!(chosen(&second), Some(("a4".to_owned(), Mode::Fit, 0)));
    assert!(!second.progress().is_unfinished());
}

#[test]
fn a_workload_shrinks_no_further_than_it_must() {
    let mut pod_set = pending("new", "a", 0, 1).pod_sets.remove(0);
    (pod_set.count, pod_set.min_count) = (10, Some(2));
    let sets = [pod_set];
    let up_to = |limit: u32| {
        find_largest_fit(&sets, |counts| (counts[0] <= limit).then(|| counts.to_vec()))
    };
    assert_eq!(up_to(7), Some(vec![7]));
    assert_eq!(up_to(2), Some(vec![2]));
    assert_eq!(up_to(1), None);
}
