//! What is wrong although each field is possible: Kueue's rules of validation, and what is not done here.

use expect_test::expect;
use sluice_core::kueue::model::Quota;

use super::{changed, check, told};
use crate::queues::parse;

#[test]
fn limits_need_a_cohort_and_lending_has_its_own() {
    check(
        "metadata:\n  name: research\n  labels: {team: a}\nspec:\n  cohortName: all",
        "metadata:\n  name: research\nspec:",
        &expect![[r#"
            [limit-without-cohort] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit is set, but there is no cohort to share with; set spec.cohortName or take this out
            [limit-without-cohort] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[0].lendingLimit is set, but there is no cohort to share with; set spec.cohortName or take this out"#]],
    );
    check(
        "lendingLimit: 1}",
        "lendingLimit: 5}",
        &expect![[
            r#"[lending-above-nominal] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[0].lendingLimit is 5, but nominalQuota is 4; a queue lends at most what it has"#
        ]],
    );
}

#[test]
fn groups_must_fit_their_flavors() {
    check(
        "[\"nvidia.com/gpu\", \"cpu\", \"memory\"]",
        "[\"nvidia.com/gpu\", \"cpu\"]",
        &expect![[
            r#"[resources-differ] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[2].name is "memory", which the group does not cover; coveredResources are nvidia.com/gpu, cpu"#
        ]],
    );
    check(
        "[\"nvidia.com/gpu\", \"cpu\", \"memory\"]",
        "[\"nvidia.com/gpu\", \"cpu\", \"memory\", \"pods\"]",
        &expect![[
            r#"[resources-differ] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources lack a quota for pods, which the group covers; add one (0 is possible)"#
        ]],
    );
    check(
        "[\"nvidia.com/gpu\", \"cpu\", \"memory\"]",
        "[\"nvidia.com/gpu\", \"cpu\", \"memory\", \"cpu\"]",
        &expect![[
            r#"[duplicate-entry] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].coveredResources[3] is "cpu" again; a resource belongs to one group, and there once"#
        ]],
    );
    check(
        "- {name: cpu, nominalQuota: 1500m}",
        "- {name: cpu, nominalQuota: 1500m}\n      - {name: cpu, nominalQuota: 1}",
        &expect![[
            r#"[duplicate-entry] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[2].name is "cpu" again; a flavor has one quota of a resource"#
        ]],
    );
    check(
        "      - {name: memory, nominalQuota: 16Gi}",
        "      - {name: memory, nominalQuota: 16Gi}\n  - coveredResources: [cpu]\n    flavors:\n    - {name: l4, resources: [{name: cpu, nominalQuota: 1}]}",
        &expect![[r#"
            [duplicate-entry] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[1].coveredResources[0] is "cpu" again; a resource belongs to one group, and there once
            [duplicate-entry] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[1].flavors[0].name is "l4" again; a flavor belongs to one group, and there once"#]],
    );
    check(
        "      - {name: memory, nominalQuota: 16Gi}",
        "      - {name: memory, nominalQuota: 16Gi}\n  - coveredResources: []\n    flavors: []",
        &expect![[r#"
            [missing-field] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[1].coveredResources is [] but must be a list of at least one resource
            [missing-field] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[1].flavors is [] but must be a list of at least one flavor"#]],
    );
}

#[test]
fn fields_that_exclude_each_other_are_told() {
    check(
        "reclaimWithinCohort: Any",
        "reclaimWithinCohort: Never",
        &expect![[
            r#"[conflicting-fields] -: document 3, line 17 (ClusterQueue "research"): spec.preemption.borrowWithinCohort.policy is LowerPriority, but reclaimWithinCohort is Never: set that to LowerPriority or Any, or this to Never"#
        ]],
    );
    check(
        "whenCanPreempt: MayStopSearch}",
        "whenCanPreempt: MayStopSearch, preference: PreemptionOverBorrowing}",
        &expect![[
            r#"[conflicting-fields] -: document 3, line 17 (ClusterQueue "research"): spec.flavorFungibility.preference is set, but a search that stops at the first possible flavor compares nothing; set whenCanBorrow and whenCanPreempt to TryNextFlavor"#
        ]],
    );
    check(
        "  nodeLabels: {accelerator: l4}",
        "  nodeLabels: {accelerator: l4}\n  tolerations:\n  - {operator: Equal}\n  - {key: a, operator: Exists, value: b}\n  - {key: a, tolerationSeconds: 3}",
        &expect![[r#"
            [conflicting-fields] -: document 1, line 2 (ResourceFlavor "l4"): spec.tolerations[0].operator is "Equal" but must be Exists where there is no key: that tolerates every taint
            [conflicting-fields] -: document 1, line 2 (ResourceFlavor "l4"): spec.tolerations[1].value is set, but operator Exists looks at no value; take it out or use Equal
            [conflicting-fields] -: document 1, line 2 (ResourceFlavor "l4"): spec.tolerations[2].tolerationSeconds is set, but only effect NoExecute ends running pods; take it out or set that effect"#]],
    );
    check(
        "{key: stage, operator: NotIn, values: [test]}",
        "{key: stage, operator: Exists, values: [test]}",
        &expect![[
            r#"[conflicting-fields] -: document 4, line 44 (ClusterQueue "serving"): spec.namespaceSelector.matchExpressions[0].values is set, but the operator looks at no value; take it out"#
        ]],
    );
    check(
        "value: 1000",
        "value: 1000\n---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: other}\nvalue: 8\nglobalDefault: true",
        &expect![[
            r#"[conflicting-fields] -: document 10, line 89 (PriorityClass "usual"): globalDefault is true, but there can be one default, and -: document 9, line 83 (PriorityClass "other") is it"#
        ]],
    );
}

#[test]
fn topologies_end_at_the_host_and_repeat_nothing() {
    check(
        "  - nodeLabel: example.com/rack\n  - nodeLabel: kubernetes.io/hostname",
        "  - nodeLabel: kubernetes.io/hostname\n  - nodeLabel: example.com/rack",
        &expect![[
            r#"[hostname-not-last] -: document 2, line 9 (Topology "racks"): spec.levels[0].nodeLabel is "kubernetes.io/hostname", which can only be the last level: nothing is smaller than a node"#
        ]],
    );
    check(
        "  - nodeLabel: example.com/rack\n",
        "  - nodeLabel: example.com/rack\n  - nodeLabel: example.com/rack\n",
        &expect![[
            r#"[duplicate-entry] -: document 2, line 9 (Topology "racks"): spec.levels[1].nodeLabel is "example.com/rack" again; each level needs a label of its own"#
        ]],
    );
}

#[test]
fn what_would_change_decisions_and_is_not_done_is_told() {
    check(
        "  queueingStrategy: StrictFIFO",
        "  admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}",
        &expect![[
            r#"[not-followed] -: document 4, line 44 (ClusterQueue "serving"): spec.admissionScope.admissionMode is UsageBasedAdmissionFairSharing, which is not done here: past usage of LocalQueues decides nothing; use NoAdmissionFairSharing"#
        ]],
    );
    check(
        "  queueingStrategy: StrictFIFO",
        "  concurrentAdmissionPolicy: {migration: {mode: RetainFirstAdmission}}",
        &expect![[
            r#"[not-followed] -: document 4, line 44 (ClusterQueue "serving"): spec.concurrentAdmissionPolicy is set, but a workload is admitted once here and never moves to a better flavor; take it out"#
        ]],
    );
}

#[test]
fn unknown_kinds_and_versions_are_told() {
    check(
        "kind: LocalQueue",
        "kind: Localqueue",
        &expect![[
            r#"[unknown-kind] -: document 7, line 73 (Localqueue "team-a"): kind is "Localqueue", which Kueue does not have; did you mean "LocalQueue"?"#
        ]],
    );
    check(
        "kind: LocalQueue",
        "kind: Dispatcher",
        &expect![[
            r#"[unknown-kind] -: document 7, line 73 (Dispatcher "team-a"): kind is "Dispatcher", which Kueue does not have; known are AdmissionCheck, ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Topology, WorkloadPriorityClass"#
        ]],
    );
    check(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue",
        "apiVersion: kueue.x-k8s.io/v1alpha1\nkind: LocalQueue",
        &expect![[
            r#"[unknown-version] -: document 7, line 73 (LocalQueue "team-a"): apiVersion is "kueue.x-k8s.io/v1alpha1" but must be kueue.x-k8s.io/v1beta1 or kueue.x-k8s.io/v1beta2"#
        ]],
    );
    check(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Topology",
        "apiVersion: kueue.x-k8s.io/v2\nkind: Topology",
        &expect![[
            r#"[unknown-version] -: document 2, line 9 (Topology "racks"): apiVersion is "kueue.x-k8s.io/v2" but must be kueue.x-k8s.io/v1alpha1 or kueue.x-k8s.io/v1beta1 or kueue.x-k8s.io/v1beta2"#
        ]],
    );
    check(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue",
        "apiVersion: visibility.kueue.x-k8s.io/v1beta2\nkind: PendingWorkloadsSummary",
        &expect![[
            r#"[unknown-kind] -: document 7, line 73 (PendingWorkloadsSummary "team-a"): kind is "PendingWorkloadsSummary", which is not a kind of visibility.kueue.x-k8s.io known here; take it out"#
        ]],
    );
    check(
        "apiVersion: scheduling.k8s.io/v1\n",
        "apiVersion: scheduling.k8s.io/v1beta1\n",
        &expect![[
            r#"[unknown-version] -: document 9, line 83 (PriorityClass "usual"): apiVersion is "scheduling.k8s.io/v1beta1" but must be scheduling.k8s.io/v1"#
        ]],
    );
}

#[test]
fn a_cohort_may_lend_what_those_below_it_lend() {
    let groups = "resourceGroups: [{coveredResources: [cpu], flavors: [{name: l4, resources: [{name: cpu, nominalQuota: 1, lendingLimit: 5}]}]}]";
    let text = changed("  fairSharing: {weight: 2}", &format!("  {groups}"));
    let cohorts = parse(&text).unwrap().setup.cohorts;
    let quotas: Vec<_> = cohorts[0].groups[0].flavors[0].quotas.values().collect();
    let quota = Quota { nominal: 1_000, borrowing_limit: None, lending_limit: Some(5_000) };
    assert_eq!(quotas, [&quota]);
    // Without a cohort above it there is nobody to lend to.
    expect![[r#"[limit-without-cohort] -: document 5, line 61 (Cohort "all"): spec.resourceGroups[0].flavors[0].resources[0].lendingLimit is set, but there is no cohort to share with; set spec.parentName or take this out"#]].assert_eq(&told(&text.replace("  parentName: top\n", "")));
}
