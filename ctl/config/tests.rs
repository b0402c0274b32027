//! What people and programs are shown of a configuration.

use expect_test::expect;
use sluice::queues::parse;

use super::{failure, show, view};
use crate::failure::EXIT_USAGE;
use crate::output::{Document, Format, encode};
use crate::paint;

const SAMPLE: &str = "\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: l4}
spec: {nodeLabels: {accelerator: l4}, nodeTaints: [{key: gpu, value: l4, effect: NoSchedule}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  cohortName: all
  namespaceSelector: {}
  fairSharing: {weight: 500m}
  preemption:
    reclaimWithinCohort: Any
    borrowWithinCohort: {policy: LowerPriority, maxPriorityThreshold: 100}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu, cpu]
    flavors:
    - name: l4
      resources:
      - {name: nvidia.com/gpu, nominalQuota: 4, borrowingLimit: 2}
      - {name: cpu, nominalQuota: 1500m, lendingLimit: 0}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: alone}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [memory]
    flavors: [{name: l4, resources: [{name: memory, nominalQuota: 16Gi}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: all}
spec:
  parentName: top
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: l4, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {accelerator: l4}}
status: {allocatable: {pods: 9}}
";

#[test]
fn the_tree_of_cohorts_is_shown_with_its_quotas() {
    let text = show::text(&parse(SAMPLE).unwrap());
    expect![[r#"
        Cohorts and quota
          NAME           FLAVOR   RESOURCE         NOMINAL   BORROWS AT MOST   LENDS AT MOST
          cohort top
            cohort all   l4       nvidia.com/gpu   8         no limit          all
              research   l4       nvidia.com/gpu   4         2                 all
                         l4       cpu              1500m     no limit          0
          alone          l4       memory           16Gi      -                 -

        Cluster queues
          NAME       STRATEGY         PREEMPTS WITHIN   RECLAIMS   WHILE BORROWING           WEIGHT   CHECKS   STOPPED
          alone      BestEffortFIFO   Never             Never      Never                     1        -        None
          research   BestEffortFIFO   Never             Any        LowerPriority up to 100   0.5      -        None

        Local queues
          none

        Flavors
          NAME   NODE LABELS      TAINTS   TOPOLOGY   NODES
          l4     accelerator=l4   gpu=l4   -          1

        Priority classes
          none

        Notes
          cohort "top" has a single member and no quota of its own: there is nobody to borrow from; is the name misspelt? [lone-cohort]

        the configuration can be used: 2 cluster queues, 0 local queues, 1 flavor, 1 node
    "#]].assert_eq(&paint::resolve(&text, false));
}

#[test]
fn programs_get_amounts_in_units_that_are_named() {
    let queues = parse(SAMPLE).unwrap();
    let view = view::CheckView::of(&queues);
    let text = encode(Format::Json, &Document::new("ConfigCheck", &view)).unwrap().unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let keys: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
    expect!["apiVersion cohorts flavors kind local_queues nodes notes notes_left_out priority_classes problems problems_left_out queues usable"].assert_eq(&keys.join(" "));
    expect![[r#"
        admission_checks: []
        borrow_within_cohort: LowerPriority
        cohort: all
        flavor_preference: BorrowingOverPreemption
        max_priority_threshold: 100
        name: research
        open_to_namespaces: true
        queueing_strategy: BestEffortFIFO
        quotas:
        - borrowing_limit: 2
          flavor: l4
          lending_limit: null
          nominal: 4
          resource: nvidia.com/gpu
          unit: units
        - borrowing_limit: null
          flavor: l4
          lending_limit: 0
          nominal: 1500
          resource: cpu
          unit: milli-cpu
        reclaim_within_cohort: Any
        stop_policy: None
        weight_nano: 500000000
        when_can_borrow: MayStopSearch
        when_can_preempt: TryNextFlavor
        within_cluster_queue: Never
    "#]]
    .assert_eq(&serde_saphyr::to_string(&document["queues"][1]).unwrap());
}

#[test]
fn problems_are_one_a_line_with_their_codes() {
    let text = SAMPLE
        .replace("nominalQuota: 4", "nominalQuota: four")
        .replace("kind: Cohort", "kind: \"Cohort\\e[2J\"");
    let problems = parse(&text).unwrap_err();
    let failure = failure(&problems);
    assert_eq!(failure.exit, EXIT_USAGE);
    expect![[r#"
        the configuration cannot be used: 2 problems
          -: document 2, line 6 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].resources[0].nominalQuota is "four" but must be a quantity, such as 4, "1.5", "500m" or "16Gi" [bad-quantity]
          -: document 4, line 33 ("Cohort\u{1b}[2J" "all"): kind is "Cohort\u001b[2J", which Kueue does not have; known are AdmissionCheck, ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Topology, WorkloadPriorityClass [unknown-kind]"#]].assert_eq(&failure.message);
    let view = view::CheckView::of_problems(&problems);
    let text = encode(Format::Yaml, &Document::new("ConfigCheck", &view)).unwrap().unwrap();
    expect![[r#"
        apiVersion: sluice.dev/v1
        kind: ConfigCheck
        usable: false
        problems:
        - code: bad-quantity
          file: '-'
          document: 2
          line: 6
          object_kind: ClusterQueue
          object_name: research
          path: spec.resourceGroups[0].flavors[0].resources[0].nominalQuota
          message: is "four" but must be a quantity, such as 4, "1.5", "500m" or "16Gi"
        - code: unknown-kind
          file: '-'
          document: 4
          line: 33
          object_kind: "Cohort\e[2J"
          object_name: all
          path: kind
          message: >-
            is "Cohort\u001b[2J", which Kueue does not have; known are AdmissionCheck,
            ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Topology, WorkloadPriorityClass
        problems_left_out: 0
        notes: []
        notes_left_out: 0
        cohorts: []
        queues: []
        local_queues: []
        flavors: []
        priority_classes: []
        nodes: 0
    "#]]
    .assert_eq(&text);
}
