//! What people are told about files that can be used.

use expect_test::expect;

use super::check_notes;

#[test]
fn parts_of_a_device_count_as_a_whole_one() {
    check_notes(
        "nominalQuota: 2}",
        "nominalQuota: 1500m}",
        &expect![[
            r#"[rounded-up] -: document 4, line 44 (ClusterQueue "serving"): spec.resourceGroups[0].flavors[0].resources[0].nominalQuota is "1500m", which counts as 2: nvidia.com/gpu has no parts"#
        ]],
    );
}

#[test]
fn a_queue_that_admits_nothing_is_told() {
    check_notes(
        "  namespaceSelector: {}\n",
        "",
        &expect![[
            r#"[admits-nobody] -: document 3, line 17 (ClusterQueue "research"): spec.namespaceSelector is absent: nobody may use the queue; write {} to let everybody"#
        ]],
    );
    check_notes(
        "  queueingStrategy: StrictFIFO",
        "  stopPolicy: Hold",
        &expect![[
            r#"[stopped-queue] -: document 4, line 44 (ClusterQueue "serving"): spec.stopPolicy is "Hold": the queue admits nothing"#
        ]],
    );
    check_notes(
        "  resourceGroups:\n  - coveredResources: [\"nvidia.com/gpu\"]\n    flavors:\n    - name: l4\n      resources:\n      - {name: nvidia.com/gpu, nominalQuota: 2}\n",
        "",
        &expect![[
            r#"[no-quota] -: document 4, line 44 (ClusterQueue "serving"): spec.resourceGroups are empty: the queue admits nothing"#
        ]],
    );
}

#[test]
fn a_local_queue_in_a_namespace_that_is_not_let_in_is_told() {
    let to = "clusterQueue: serving";
    check_notes(
        "clusterQueue: research",
        to,
        &expect![[
            r#"[namespace-not-admitted] -: document 7, line 73 (LocalQueue "team-a"): leads to ClusterQueue "serving", whose namespaceSelector does not let the namespace "ml" in; its labels are not known: add the Namespace, or mend the selector"#
        ]],
    );
    let namespace = |labels: &str| {
        format!(
            "{to}}}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: ml, labels: {{{labels}}}}}\nspec: {{finalizers: [kubernetes]"
        )
    };
    check_notes("clusterQueue: research", &namespace("team: serving"), &expect![[""]]);
    check_notes(
        "clusterQueue: research",
        &namespace("team: serving, stage: test"),
        &expect![[
            r#"[namespace-not-admitted] -: document 7, line 73 (LocalQueue "team-a"): leads to ClusterQueue "serving", whose namespaceSelector does not let the namespace "ml" in; mend one of the two"#
        ]],
    );
}

#[test]
fn a_check_that_is_not_active_is_told() {
    check_notes(
        "spec: {controllerName: example.com/quota}",
        "spec: {controllerName: example.com/quota}\nstatus: {conditions: [{type: Active, status: \"False\"}]}",
        &expect![[
            r#"[inactive-check] -: document 6, line 68 (AdmissionCheck "quota"): status says that its controller is not active: queues with it admit nothing"#
        ]],
    );
}

#[test]
fn what_kueue_would_refuse_and_decides_nothing_is_told() {
    check_notes(
        "[\"nvidia.com/gpu\", \"cpu\", \"memory\"]",
        "[\"nvidia.com/gpu\", \"memory\", \"cpu\"]",
        &expect![[
            r#"[resource-order] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources are not in the order of coveredResources: Kueue would refuse that"#
        ]],
    );
    check_notes(
        "globalDefault: true",
        "globalDefault: true\npreemptionPolicy: Never",
        &expect![[
            r#"[preemption-policy-ignored] -: document 9, line 83 (PriorityClass "usual"): preemptionPolicy is Never, at which Kueue does not look: whom a workload preempts is said by its ClusterQueue"#
        ]],
    );
}

#[test]
fn a_node_without_pods_is_told() {
    check_notes(
        ", pods: \"20\"}",
        "}",
        &expect![
            "[pods-assumed] 1 of 1 nodes do not say how many pods they take (status.allocatable.pods); 110 are assumed, as the kubelet does"
        ],
    );
}

#[test]
fn a_cohort_with_one_member_is_told() {
    check_notes(
        "metadata: {name: serving}\nspec:\n  cohortName: all",
        "metadata: {name: serving}\nspec:\n  cohortName: al",
        &expect![[
            r#"[lone-cohort] cohort "al" has a single member and no quota of its own: there is nobody to borrow from; is the name misspelt?"#
        ]],
    );
}

#[test]
fn other_kinds_are_skipped_by_name() {
    check_notes(
        "metadata: {name: high}\nvalue: 1000",
        "metadata: {name: high}\nvalue: 1000\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n---\napiVersion: my-kueue.x-k8s.io/v1\nkind: Thing\n---\napiVersion: kueue.x-k8s.io/v1beta1\nkind: Workload\nmetadata: {name: w}\n---\napiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration",
        &expect![[r#"
            [skipped-kind] -: document 9, line 83 (Deployment "web"): was skipped: it defines no queues
            [skipped-kind] -: document 10, line 87 (Thing without a name): was skipped: it defines no queues
            [skipped-kind] -: document 11, line 90 (Workload "w"): was skipped: it defines no queues
            [skipped-kind] -: document 12, line 94 (Configuration without a name): was skipped: how the engine decides is not read from a file of queues"#]],
    );
}
