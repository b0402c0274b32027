//! The versions of Kueue's API: other words, same meaning.

use super::{SAMPLE, changed, told};
use crate::queues::parse;

#[track_caller]
fn assert_same(one: &str, other: &str) {
    let [one, other] =
        [one, other].map(|text| parse(text).unwrap_or_else(|error| panic!("{error}")));
    assert_eq!(format!("{:#?}", one.setup), format!("{:#?}", other.setup));
    assert_eq!(one.local_queues, other.local_queues);
    assert_eq!(one.priority_classes, other.priority_classes);
}

#[test]
fn both_versions_give_the_same() {
    let old = SAMPLE
        .replace("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
        .replace("cohortName", "cohort")
        .replace("whenCanPreempt: MayStopSearch", "whenCanPreempt: Preempt");
    assert_same(SAMPLE, &old);
    assert_same(SAMPLE, &old.replace("parentName", "parent"));
}

#[test]
fn topologies_and_cohorts_of_the_first_version_are_read() {
    let mut old = SAMPLE.to_owned();
    for kind in ["Topology", "Cohort"] {
        let to = format!("kueue.x-k8s.io/v1alpha1\nkind: {kind}\n");
        old = old.replace(&format!("kueue.x-k8s.io/v1beta2\nkind: {kind}\n"), &to);
    }
    assert_same(SAMPLE, &old);
    assert_same(SAMPLE, &old.replace("parentName", "parent"));
}

#[test]
fn a_plain_list_of_checks_is_one_for_all_flavors() {
    let new = changed("\n      onFlavors: [l4]", "");
    let old = new
        .replace("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
        .replace("cohortName", "cohort")
        .replace(
            "  admissionChecksStrategy:\n    admissionChecks:\n    - name: quota\n",
            "  admissionChecks: [quota]\n",
        );
    assert_same(&new, &old);
    let both = old.replace("  admissionChecks: [quota]\n", "  admissionChecks: [quota]\n  admissionChecksStrategy: {admissionChecks: [{name: quota}]}\n");
    expect_test::expect![[r#"
        [conflicting-fields] -: document 3, line 17 (ClusterQueue "research"): spec.admissionChecks is set, and admissionChecksStrategy, too; keep one of them
        [duplicate-entry] -: document 3, line 17 (ClusterQueue "research"): spec.admissionChecks[0] names the admission check "quota" again"#]].assert_eq(&told(&both));
}

#[test]
fn what_is_left_out_is_what_kueue_takes_for_it() {
    let short = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: a}\nspec: {namespaceSelector: {}, cohortName: c}\n";
    let long = format!(
        "{short}  # as Kueue would store it\n---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {{name: c}}\nspec: {{fairSharing: {{weight: 1}}, resourceGroups: []}}\n"
    )
    .replace(
        "cohortName: c}",
        "cohortName: c, queueingStrategy: BestEffortFIFO, stopPolicy: None, fairSharing: {weight: \"1\"}, flavorFungibility: {whenCanBorrow: MayStopSearch, whenCanPreempt: TryNextFlavor}, preemption: {withinClusterQueue: Never, reclaimWithinCohort: Never, borrowWithinCohort: {policy: Never}}}",
    );
    let [short, long] = [short, &long].map(|text| parse(text).unwrap().setup.queues);
    assert_eq!(short, long);
}
