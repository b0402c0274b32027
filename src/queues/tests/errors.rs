//! What is wrong with fields and values.

use expect_test::expect;

use super::check;

#[test]
fn a_misspelt_field_is_told_with_what_was_meant() {
    check(
        "borrowingLimit: \"2\"",
        "borowingLimit: \"2\"",
        &expect![[
            r#"[unknown-field] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[0].borowingLimit is not a field known here; did you mean "borrowingLimit"?"#
        ]],
    );
    check(
        "namespaceSelector: {}",
        "selector: {}",
        &expect![[
            r#"[unknown-field] -: document 3, line 17 (ClusterQueue "research"): spec.selector is not a field known here; known are admissionChecksStrategy, admissionScope, cohortName, concurrentAdmissionPolicy, fairSharing, flavorFungibility, namespaceSelector, preemption, queueingStrategy, resourceGroups, stopPolicy"#
        ]],
    );
    check(
        "  queueingStrategy: StrictFIFO",
        "  QueueingStrategy: StrictFIFO",
        &expect![[
            r#"[unknown-field] -: document 4, line 44 (ClusterQueue "serving"): spec.QueueingStrategy is not a field known here; did you mean "queueingStrategy"?"#
        ]],
    );
    check(
        "metadata: {name: high}\nvalue: 1000",
        "metadata: {name: high}\nvalue: 1000\nglobalDefault: true",
        &expect![[
            r#"[unknown-field] -: document 8, line 78 (WorkloadPriorityClass "high"): globalDefault is not a field known here; known are apiVersion, description, kind, metadata, status, value"#
        ]],
    );
    check(
        "  labels: {accelerator: l4, example.com/rack: r1}\nspec:",
        "  labels: {accelerator: l4, example.com/rack: r1}\nspec:\n  unschedulabel: true",
        &expect![[
            r#"[unknown-field] -: document 10, line 89 (Node "n1"): spec.unschedulabel is not a field known here; did you mean "unschedulable"?"#
        ]],
    );
}

#[test]
fn a_wrong_type_is_told() {
    check(
        "clusterQueue: research",
        "clusterQueue: 7",
        &expect![[
            r#"[wrong-type] -: document 7, line 73 (LocalQueue "team-a"): spec.clusterQueue is 7 but must be a text; put it in quotes"#
        ]],
    );
    check(
        "clusterQueue: research",
        "clusterQueue: {name: research}",
        &expect![[
            r#"[wrong-type] -: document 7, line 73 (LocalQueue "team-a"): spec.clusterQueue is {"name":"research"} but must be a text"#
        ]],
    );
    check(
        "borrowingLimit: \"2\"",
        "borrowingLimit: [2]",
        &expect![[
            r#"[wrong-type] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit is [2] but must be a number or a text"#
        ]],
    );
    check(
        "value: 1000",
        "value: \"1000\"",
        &expect![[
            r#"[wrong-type] -: document 8, line 78 (WorkloadPriorityClass "high"): value is "1000" but must be a whole number from -2147483648 to 2147483647"#
        ]],
    );
    check(
        "globalDefault: true",
        "globalDefault: 1",
        &expect![[
            r#"[wrong-type] -: document 9, line 83 (PriorityClass "usual"): globalDefault is 1 but must be true or false"#
        ]],
    );
    check(
        "[\"nvidia.com/gpu\", \"cpu\", \"memory\"]",
        "nvidia.com/gpu",
        &expect![[
            r#"[wrong-type] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].coveredResources is "nvidia.com/gpu" but must be a list"#
        ]],
    );
    check(
        "fairSharing: {weight: 2}",
        "fairSharing: 2",
        &expect![[
            r#"[wrong-type] -: document 5, line 61 (Cohort "all"): spec.fairSharing is 2 but must be an object"#
        ]],
    );
    check(
        "{team: serving}",
        "{team: true}",
        &expect![[
            r#"[wrong-type] -: document 4, line 44 (ClusterQueue "serving"): spec.namespaceSelector.matchLabels.team is true but must be a text; put it in quotes"#
        ]],
    );
}

#[test]
fn what_has_to_be_there_is_told() {
    check(
        "metadata: {name: team-a, namespace: ml}",
        "metadata: {namespace: ml}",
        &expect![
            "[missing-field] -: document 7, line 73 (LocalQueue without a name): metadata.name is absent but must be a name of at most 253 lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
        ],
    );
    check(
        "spec: {clusterQueue: research}",
        "",
        &expect![[
            r#"[missing-field] -: document 7, line 73 (LocalQueue "team-a"): spec.clusterQueue is absent but must be a name of at most 253 lower-case letters, digits, '-' and '.', with a letter or digit at both ends"#
        ]],
    );
    check(
        "spec: {controllerName: example.com/quota}",
        "spec: {}",
        &expect![[
            r#"[missing-field] -: document 6, line 68 (AdmissionCheck "quota"): spec.controllerName is absent but must be a text"#
        ]],
    );
    check(
        "metadata: {name: high}\nvalue: 1000",
        "metadata: {name: high}",
        &expect![[
            r#"[missing-field] -: document 8, line 78 (WorkloadPriorityClass "high"): value is absent but must be a whole number"#
        ]],
    );
    check(
        "- {name: cpu, nominalQuota: 1500m}",
        "- {name: cpu}",
        &expect![[
            r#"[missing-field] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[1].nominalQuota is absent but must be a quantity; 0 is possible"#
        ]],
    );
    check(
        "  - nodeLabel: example.com/rack\n  - nodeLabel: kubernetes.io/hostname",
        "  []",
        &expect![
            "[bad-yaml] -: is not YAML that can be read: simple key expected ':' at line 14, column 3"
        ],
    );
    check(
        "  nodeLabels: {accelerator: l4}\n",
        "",
        &expect![[
            r#"[missing-field] -: document 1, line 2 (ResourceFlavor "l4"): spec.nodeLabels must have at least one label, because topologyName is set: they say which nodes the topology is made of"#
        ]],
    );
    check(
        "{key: gpu, effect: NoSchedule}",
        "{key: gpu}",
        &expect![[
            r#"[missing-field] -: document 10, line 89 (Node "n1"): spec.taints[0].effect is absent but must be one of NoSchedule, PreferNoSchedule, NoExecute"#
        ]],
    );
    check(
        "kind: LocalQueue",
        "",
        &expect!["[missing-field] -: document 7, line 73: kind is absent but must be a text"],
    );
}

#[test]
fn a_word_that_is_not_possible_is_told_with_those_that_are() {
    check(
        "withinClusterQueue: LowerPriority",
        "withinClusterQueue: LowestPriority",
        &expect![[
            r#"[bad-value] -: document 3, line 17 (ClusterQueue "research"): spec.preemption.withinClusterQueue is "LowestPriority" but must be one of Never, LowerPriority, LowerOrNewerEqualPriority; did you mean "LowerPriority"?"#
        ]],
    );
    check(
        "reclaimWithinCohort: Any",
        "reclaimWithinCohort: LowerOrNewerEqualPriority",
        &expect![[r#"
            [bad-value] -: document 3, line 17 (ClusterQueue "research"): spec.preemption.reclaimWithinCohort is "LowerOrNewerEqualPriority" but must be one of Never, LowerPriority, Any
            [conflicting-fields] -: document 3, line 17 (ClusterQueue "research"): spec.preemption.borrowWithinCohort.policy is LowerPriority, but reclaimWithinCohort is Never: set that to LowerPriority or Any, or this to Never"#]],
    );
    check(
        "StrictFIFO",
        "FIFO",
        &expect![[
            r#"[bad-value] -: document 4, line 44 (ClusterQueue "serving"): spec.queueingStrategy is "FIFO" but must be one of BestEffortFIFO, StrictFIFO"#
        ]],
    );
    check(
        "whenCanBorrow: TryNextFlavor",
        "whenCanBorrow: Borrow",
        &expect![[
            r#"[bad-value] -: document 3, line 17 (ClusterQueue "research"): spec.flavorFungibility.whenCanBorrow is "Borrow" but must be one of MayStopSearch, TryNextFlavor"#
        ]],
    );
    check(
        "{key: stage, operator: NotIn, values: [test]}",
        "{key: stage, operator: Gt, values: [\"1\"]}",
        &expect![[
            r#"[bad-value] -: document 4, line 44 (ClusterQueue "serving"): spec.namespaceSelector.matchExpressions[0].operator is "Gt" but must be one of In, NotIn, Exists, DoesNotExist"#
        ]],
    );
    check(
        "spec: {clusterQueue: research}",
        "spec: {clusterQueue: research, stopPolicy: Stop}",
        &expect![[
            r#"[bad-value] -: document 7, line 73 (LocalQueue "team-a"): spec.stopPolicy is "Stop" but must be one of None, Hold, HoldAndDrain"#
        ]],
    );
    check(
        "globalDefault: true",
        "globalDefault: true\npreemptionPolicy: Always",
        &expect![[
            r#"[bad-value] -: document 9, line 83 (PriorityClass "usual"): preemptionPolicy is "Always" but must be one of PreemptLowerPriority, Never"#
        ]],
    );
}

#[test]
fn numbers_out_of_range_are_told() {
    check(
        "value: 1000",
        "value: 3000000000",
        &expect![[
            r#"[bad-value] -: document 8, line 78 (WorkloadPriorityClass "high"): value is 3000000000 but must be from -2147483648 to 2147483647"#
        ]],
    );
    check(
        "value: 7",
        "value: 1000000001",
        &expect![[
            r#"[bad-value] -: document 9, line 83 (PriorityClass "usual"): value is 1000000001 but must be at most 1000000000: what is above is kept for the system"#
        ]],
    );
    check(
        "maxPriorityThreshold: 100",
        "maxPriorityThreshold: 1.5",
        &expect![[
            r#"[wrong-type] -: document 3, line 17 (ClusterQueue "research"): spec.preemption.borrowWithinCohort.maxPriorityThreshold is 1.5 but must be a whole number from -2147483648 to 2147483647"#
        ]],
    );
}

#[test]
fn bad_quantities_are_told() {
    check(
        "nominalQuota: 1500m",
        "nominalQuota: four",
        &expect![[
            r#"[bad-quantity] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[1].nominalQuota is "four" but must be a quantity, such as 4, "1.5", "500m" or "16Gi""#
        ]],
    );
    check(
        "nominalQuota: 1500m",
        "nominalQuota: -4",
        &expect![[
            r#"[negative-quantity] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[1].nominalQuota is -4 but must be 0 or more"#
        ]],
    );
    check(
        "nominalQuota: 1500m",
        "nominalQuota: \"12345678901234567890\"",
        &expect![[
            r#"[bad-quantity] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[1].nominalQuota is "12345678901234567890" but must have at most 19 digits and an exponent of at most 18"#
        ]],
    );
    check(
        "nominalQuota: 16Gi",
        "nominalQuota: 8Ei",
        &expect![[
            r#"[quantity-too-large] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[2].nominalQuota is "8Ei" but must be below 2^63 (9223372036854775807) in its unit"#
        ]],
    );
    check(
        "nominalQuota: 1500m",
        "nominalQuota: 9223372036854776",
        &expect![[
            r#"[quantity-too-large] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[1].nominalQuota is 9223372036854776 but must be below 2^63 (9223372036854775807) in its unit"#
        ]],
    );
    check(
        "lendingLimit: 1}",
        "lendingLimit: 16gi}",
        &expect![[
            r#"[bad-quantity] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[0].lendingLimit is "16gi" but must be a quantity, such as 4, "1.5", "500m" or "16Gi""#
        ]],
    );
    check(
        "weight: 500m",
        "weight: -1",
        &expect![[
            r#"[negative-quantity] -: document 3, line 17 (ClusterQueue "research"): spec.fairSharing.weight is -1 but must be 0 or more"#
        ]],
    );
    check(
        "weight: 500m",
        "weight: 1n",
        &expect![[
            r#"[bad-value] -: document 3, line 17 (ClusterQueue "research"): spec.fairSharing.weight is "1n" but must be 0 or more than a billionth"#
        ]],
    );
    check(
        "memory: 64Gi",
        "memory: lots",
        &expect![[
            r#"[bad-quantity] -: document 10, line 89 (Node "n1"): status.allocatable.memory is "lots" but must be a quantity, such as 4, "1.5", "500m" or "16Gi""#
        ]],
    );
}

#[test]
fn bad_names_are_told() {
    check(
        "name: team-a,",
        "name: Team_A,",
        &expect![[
            r#"[bad-name] -: document 7, line 73 (LocalQueue "Team_A"): metadata.name is "Team_A" but must be a name of at most 253 lower-case letters, digits, '-' and '.', with a letter or digit at both ends"#
        ]],
    );
    check(
        "namespace: ml",
        "namespace: m.l",
        &expect![[
            r#"[bad-name] -: document 7, line 73 (LocalQueue "team-a"): metadata.namespace is "m.l" but must be a name of at most 63 lower-case letters, digits and '-', with a letter or digit at both ends"#
        ]],
    );
    check(
        "- nodeLabel: example.com/rack",
        "- nodeLabel: a/b/c",
        &expect![[
            r#"[bad-name] -: document 2, line 9 (Topology "racks"): spec.levels[0].nodeLabel is "a/b/c" but must be a name such as "cpu" or "nvidia.com/gpu": letters, digits, '-', '_' and '.', at most 63, after at most one prefix and '/'"#
        ]],
    );
    check(
        "{accelerator: l4}",
        "{\"accelerator!\": l4}",
        &expect![[
            r#"[bad-name] -: document 1, line 2 (ResourceFlavor "l4"): spec.nodeLabels has the key "accelerator!", which must be a name such as "cpu" or "nvidia.com/gpu": letters, digits, '-', '_' and '.', at most 63, after at most one prefix and '/'"#
        ]],
    );
    check(
        "{accelerator: l4}",
        "{accelerator: \"l 4\"}",
        &expect![[
            r#"[bad-name] -: document 1, line 2 (ResourceFlavor "l4"): spec.nodeLabels.accelerator is "l 4" but must be a label value: at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"#
        ]],
    );
    check(
        "coveredResources: [\"nvidia.com/gpu\", \"cpu\"",
        "coveredResources: [\"nvidia.com/gpu\", \"c p u\"",
        &expect![[
            r#"[bad-name] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].coveredResources[1] is "c p u" but must be a name such as "cpu" or "nvidia.com/gpu": letters, digits, '-', '_' and '.', at most 63, after at most one prefix and '/'"#
        ]],
    );
}
