mod nodes;

use super::*;
use crate::kueue::fixture::{cohort, queue as queue_of_gpus};
use crate::kueue::model::CheckRule;

fn queue(name: &str, cohort: Option<&str>) -> ClusterQueue {
    ClusterQueue { groups: Vec::new(), ..queue_of_gpus(name, cohort, 0) }
}

fn inactive(setup: Setup) -> Vec<(String, Option<InactiveReason>)> {
    let snapshot = Snapshot::new(setup);
    snapshot.queues().map(|queue| (queue.spec.name.to_string(), queue.inactive.clone())).collect()
}

#[test]
fn cohorts_that_are_only_named_exist() {
    let snapshot = Snapshot::new(Setup {
        cohorts: vec![cohort("team", Some("company"))],
        queues: vec![queue("a", Some("team")), queue("b", Some("other"))],
        ..Setup::default()
    });
    let ancestors =
        |name: &str| snapshot.tree().ancestors(snapshot.queue(&name.into()).unwrap().node).count();
    assert_eq!((ancestors("a"), ancestors("b")), (2, 1));
}

#[test]
fn a_circle_of_cohorts_disables_its_queues_only() {
    let setup = Setup {
        cohorts: vec![cohort("x", Some("y")), cohort("y", Some("x")), cohort("z", None)],
        queues: vec![queue("a", Some("x")), queue("b", Some("z"))],
        ..Setup::default()
    };
    let unusable = InactiveReason::CohortsUnusable("x".into());
    assert_eq!(inactive(setup), [("a".to_owned(), Some(unusable)), ("b".to_owned(), None)]);
}

#[test]
fn cohorts_nested_too_deep_are_disabled() {
    let names: Vec<String> = (0..=COHORT_DEPTH_MAX).map(|level| format!("c{level}")).collect();
    let cohorts = names.windows(2).map(|pair| cohort(&pair[0], Some(&pair[1]))).collect();
    let queues = vec![queue("a", Some("c0")), queue("b", Some("c1"))];
    let setup = Setup { cohorts, queues, ..Setup::default() };
    let unusable = InactiveReason::CohortsUnusable("c0".into());
    assert_eq!(inactive(setup), [("a".to_owned(), Some(unusable)), ("b".to_owned(), None)]);
}

#[test]
fn a_queue_with_a_missing_check_is_inactive() {
    let mut with_check = queue("a", None);
    with_check.checks = vec![CheckRule { check: "slice".into(), on_flavors: Vec::new() }];
    let setup = Setup { queues: vec![with_check], ..Setup::default() };
    let missing = InactiveReason::CheckNotFound("slice".into());
    assert_eq!(inactive(setup), [("a".to_owned(), Some(missing))]);
}
