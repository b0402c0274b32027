//! Queues files: what is read, and what people are told when it cannot be.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use sluice_core::queue::{Queue, Quota};

use super::quantity::Quantity;
use super::{NO_LIMIT, Parsed, default_queue, parse};

const RESEARCH: &str = r#"
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: l4}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: research
  labels: {team: a}
spec:
  cohortName: all
  namespaceSelector: {}
  preemption:
    withinClusterQueue: LowerPriority
    reclaimWithinCohort: LowerPriority
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu", "memory"]
    flavors:
    - name: l4
      resources:
      - {name: nvidia.com/gpu, nominalQuota: 4, borrowingLimit: "2"}
      - {name: memory, nominalQuota: 16Gi}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: team-a, namespace: ml}
spec: {clusterQueue: research}
"#;

fn research() -> Queue {
    let gpu = Quota { nominal: 4, borrowing_limit: Some(2) };
    let memory = Quota { nominal: 16 << 30, borrowing_limit: None };
    Queue {
        name: "research".parse().unwrap(),
        aliases: vec!["team-a".parse().unwrap()],
        cohort: Some("all".to_owned()),
        quotas: BTreeMap::from([
            ("nvidia.com/gpu".parse().unwrap(), gpu),
            ("memory".parse().unwrap(), memory),
        ]),
        preempts_lower_priority: true,
        reclaims_within_cohort: true,
    }
}

fn check_error(from: &str, to: &str, expected: &Expect) {
    assert!(RESEARCH.contains(from), "the sample lacks {from:?}");
    let error = parse(&RESEARCH.replace(from, to)).unwrap_err();
    expected.assert_eq(&format!("{error:#}"));
}

fn check_warning(from: &str, to: &str, expected: &Expect) {
    assert!(RESEARCH.contains(from), "the sample lacks {from:?}");
    let parsed = parse(&RESEARCH.replace(from, to)).unwrap();
    expected.assert_eq(&parsed.warnings.join("\n"));
}

#[test]
fn a_queue_with_its_alias_is_read() {
    let parsed = parse(RESEARCH).unwrap();
    assert_eq!(parsed, Parsed { queues: vec![research()], warnings: Vec::new() });
}

#[test]
fn both_versions_name_the_cohort_in_their_own_way() {
    let old = RESEARCH.replace("v1beta2", "v1beta1").replace("cohortName", "cohort");
    assert_eq!(parse(&old).unwrap().queues, [research()]);
    check_error(
        "cohortName: all",
        "cohort: all",
        &expect![[
            r#"document 2 (ClusterQueue "research"): spec.cohort is not a field known here; known are admissionChecks, admissionChecksStrategy, admissionScope, cohortName, concurrentAdmissionPolicy, fairSharing, flavorFungibility, namespaceSelector, preemption, queueingStrategy, resourceGroups, stopPolicy"#
        ]],
    );
}

#[test]
fn without_preemption_nobody_is_preempted() {
    let text = RESEARCH
        .replace("withinClusterQueue: LowerPriority", "withinClusterQueue: Never")
        .replace("    reclaimWithinCohort: LowerPriority\n", "");
    let expected =
        Queue { preempts_lower_priority: false, reclaims_within_cohort: false, ..research() };
    assert_eq!(parse(&text).unwrap().queues, [expected]);
}

#[test]
fn quotas_of_several_flavors_are_summed_with_a_warning() {
    let more = "    - name: l4\n";
    let two = "    - name: a100\n      resources:\n      - {name: nvidia.com/gpu, nominalQuota: 8, borrowingLimit: 1}\n      - {name: memory, nominalQuota: 1Gi}\n    - name: l4\n";
    let parsed = parse(&RESEARCH.replace(more, two)).unwrap();
    let gpu = parsed.queues[0].quotas[&"nvidia.com/gpu".parse().unwrap()];
    assert_eq!(gpu, Quota { nominal: 12, borrowing_limit: Some(3) });
    check_warning(
        more,
        two,
        &expect![[r#"
        queue "research": the quotas of the 2 flavors of memory, nvidia.com/gpu are summed: the flavors are not told apart
        queue "research": flavor "a100" has no ResourceFlavor; Kueue would not use the queue"#]],
    );
}

#[test]
fn a_policy_that_is_followed_in_part_is_told() {
    let from = "withinClusterQueue: LowerPriority";
    check_warning(
        from,
        "withinClusterQueue: LowerOrNewerEqualPriority",
        &expect![[
            r#"queue "research": withinClusterQueue LowerOrNewerEqualPriority is taken as LowerPriority: a newer workload of equal priority is left alone"#
        ]],
    );
    let from = "reclaimWithinCohort: LowerPriority";
    check_warning(
        from,
        "reclaimWithinCohort: Any",
        &expect![[
            r#"queue "research": reclaimWithinCohort Any is taken as LowerPriority: a borrower of equal or higher priority is left alone"#
        ]],
    );
}

#[test]
fn a_misspelt_field_is_told_with_those_known() {
    check_error(
        "borrowingLimit",
        "borowingLimit",
        &expect![[
            r#"document 2 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[0].borowingLimit is not a field known here; known are borrowingLimit, lendingLimit, name, nominalQuota"#
        ]],
    );
    check_error(
        "namespaceSelector: {}",
        "nameSpaceSelector: {}",
        &expect![[
            r#"document 2 (ClusterQueue "research"): spec.nameSpaceSelector is not a field known here; known are admissionChecks, admissionChecksStrategy, admissionScope, cohortName, concurrentAdmissionPolicy, fairSharing, flavorFungibility, namespaceSelector, preemption, queueingStrategy, resourceGroups, stopPolicy"#
        ]],
    );
}

#[test]
fn a_bad_quantity_is_told_with_its_path() {
    check_error(
        "nominalQuota: 4,",
        "nominalQuota: four,",
        &expect![[
            r#"document 2 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[0].nominalQuota is "four" but must be a quantity of whole units, such as 4, "16Gi" or "2k""#
        ]],
    );
    check_error(
        "nominalQuota: 4,",
        "nominalQuota: 500m,",
        &expect![[
            r#"document 2 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[0].nominalQuota is "500m", which is not a whole number of units"#
        ]],
    );
    check_error(
        "nominalQuota: 4,",
        "nominalQuota: -4,",
        &expect![[
            r#"document 2 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[0].nominalQuota is -4 but must be a quantity of whole units, such as 4, "16Gi" or "2k""#
        ]],
    );
    check_error(
        "nominalQuota: 4,",
        "nominalQuota: [4],",
        &expect![[
            r#"document 2 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[0].nominalQuota is [4] but must be a number or a text"#
        ]],
    );
}

#[test]
fn what_would_change_a_decision_is_refused() {
    check_error(
        "namespaceSelector: {}",
        "queueingStrategy: StrictFIFO",
        &expect![[
            r#"document 2 (ClusterQueue "research"): spec.queueingStrategy is StrictFIFO, which is not done here: a workload that does not fit lets others pass; use BestEffortFIFO"#
        ]],
    );
    check_error(
        "namespaceSelector: {}",
        "stopPolicy: Hold",
        &expect![[
            r#"document 2 (ClusterQueue "research"): spec.stopPolicy is "Hold" but must be None: queues are not stopped one by one here; "sluice freeze" stops all"#
        ]],
    );
    check_error(
        "namespaceSelector: {}",
        "namespaceSelector: {matchLabels: {a: b}}",
        &expect![[
            r#"document 2 (ClusterQueue "research"): spec.namespaceSelector is set, but there are no namespaces here; write {}, which means all"#
        ]],
    );
    check_error(
        "namespaceSelector: {}",
        "admissionChecks: [dws]",
        &expect![[
            r#"document 2 (ClusterQueue "research"): spec.admissionChecks is set, but there are no admission checks here; remove it"#
        ]],
    );
    check_error(
        "borrowingLimit: \"2\"",
        "lendingLimit: 1",
        &expect![[
            r#"document 2 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[0].lendingLimit is below nominalQuota, which is not done here: all that is unused is lent; remove it"#
        ]],
    );
    check_error(
        "metadata: {name: l4}",
        "metadata: {name: l4}\nspec: {nodeLabels: {a: b}}",
        &expect![[
            r#"document 1 (ResourceFlavor "l4"): spec.nodeLabels is set, but flavors are not told apart here and nodes have no labels or taints; remove it"#
        ]],
    );
    check_error(
        "reclaimWithinCohort: LowerPriority",
        "borrowWithinCohort: {policy: LowerPriority}",
        &expect![[
            r#"document 2 (ClusterQueue "research"): spec.preemption.borrowWithinCohort.policy is LowerPriority, which is not done here: a queue that borrows preempts nobody outside of itself; use Never"#
        ]],
    );
}

#[test]
fn documents_that_do_not_belong_together_are_told() {
    check_error(
        "clusterQueue: research",
        "clusterQueue: reserch",
        &expect![[
            r#"LocalQueue "team-a": spec.clusterQueue is "reserch", but no ClusterQueue has that name"#
        ]],
    );
    check_error(
        "kind: LocalQueue",
        "kind: Deployment",
        &expect![[
            r#"document 3 (Deployment "team-a"): kind is "Deployment" but must be one of ClusterQueue, LocalQueue, ResourceFlavor, Cohort, WorkloadPriorityClass"#
        ]],
    );
    check_error(
        "kueue.x-k8s.io/v1beta1",
        "kueue.x-k8s.io/v1alpha1",
        &expect![[
            r#"document 3 (LocalQueue "team-a"): apiVersion is "kueue.x-k8s.io/v1alpha1" but must be kueue.x-k8s.io/v1beta1 or kueue.x-k8s.io/v1beta2"#
        ]],
    );
    check_error(
        "\"memory\"",
        "\"memory\", \"cpu\"",
        &expect![[
            r#"document 2 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources has no quota for "cpu", which is covered"#
        ]],
    );
    check_error(
        "\"memory\"",
        "\"memory\", \"memory\"",
        &expect![[
            r#"document 2 (ClusterQueue "research"): spec.resourceGroups[0].coveredResources[2] is covered twice; a resource belongs to one group"#
        ]],
    );
    check_error(
        "metadata: {name: team-a, namespace: ml}",
        "metadata: {}",
        &expect![
            "document 3 (LocalQueue without a name): metadata.name is absent but must be a text"
        ],
    );
}

#[test]
fn a_file_without_queues_is_refused() {
    expect!["there is no ClusterQueue in it; add one, or leave --queues out"]
        .assert_eq(&format!("{:#}", parse("").unwrap_err()));
    expect![[r#"document 1: it is ["a","b"] but must be an object"#]]
        .assert_eq(&format!("{:#}", parse("- a\n- b\n").unwrap_err()));
    expect!["unclosed bracket '[' at line 1, column 4"]
        .assert_eq(&format!("{:#}", parse("a: [unclosed").unwrap_err()));
}

#[test]
fn the_default_queue_has_no_limits() {
    let queue = default_queue();
    assert!(queue.quotas.values().all(|q| q.nominal == NO_LIMIT && q.borrowing_limit.is_none()));
    assert!(queue.preempts_lower_priority);
}

#[test]
fn quantities_are_exact() {
    let whole = |text| Quantity::parse(text).and_then(Quantity::whole);
    for (text, expected) in [
        ("0", 0),
        ("4", 4),
        ("1.5k", 1_500),
        ("0.5Ki", 512),
        ("16Gi", 17_179_869_184),
        ("4000m", 4),
        ("2e3", 2_000),
        ("2E3", 2_000),
        ("2E", 2_000_000_000_000_000_000),
        ("20e-1", 2),
        ("1000000000n", 1),
    ] {
        assert_eq!(whole(text), Some(expected), "{text}");
    }
    for text in ["500m", "1.5", "100E", "0.1Ki"] {
        assert_eq!(whole(text), None, "{text}");
        assert!(Quantity::parse(text).is_some(), "{text}");
    }
    for text in ["", ".", "-1", "+1", "1.2.3", "1 Gi", "1gi", "e3", "1e99", "1e", "Gi", "١"] {
        assert_eq!(Quantity::parse(text), None, "{text}");
    }
}
