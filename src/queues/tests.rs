//! Files of queues: what is read, and what people are told when it cannot be.

mod errors;
mod fixtures;
mod hostile;
mod notes;
mod quantities;
mod references;
mod rules;
mod versions;

use std::sync::Arc;

use expect_test::Expect;

use super::{Problems, Queues, Source, parse, parse_all};

/// Something that is right: two queues in a cohort below another, one of them with a local queue.
const SAMPLE: &str = r#"
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: l4}
spec:
  nodeLabels: {accelerator: l4}
  topologyName: racks
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec:
  levels:
  - nodeLabel: example.com/rack
  - nodeLabel: kubernetes.io/hostname
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: research
  labels: {team: a}
spec:
  cohortName: all
  namespaceSelector: {}
  flavorFungibility: {whenCanBorrow: TryNextFlavor, whenCanPreempt: MayStopSearch}
  fairSharing: {weight: 500m}
  preemption:
    withinClusterQueue: LowerPriority
    reclaimWithinCohort: Any
    borrowWithinCohort: {policy: LowerPriority, maxPriorityThreshold: 100}
  admissionChecksStrategy:
    admissionChecks:
    - name: quota
      onFlavors: [l4]
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu", "cpu", "memory"]
    flavors:
    - name: l4
      resources:
      - {name: nvidia.com/gpu, nominalQuota: 4, borrowingLimit: "2", lendingLimit: 1}
      - {name: cpu, nominalQuota: 1500m}
      - {name: memory, nominalQuota: 16Gi}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: serving}
spec:
  cohortName: all
  namespaceSelector:
    matchLabels: {team: serving}
    matchExpressions:
    - {key: stage, operator: NotIn, values: [test]}
  queueingStrategy: StrictFIFO
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu"]
    flavors:
    - name: l4
      resources:
      - {name: nvidia.com/gpu, nominalQuota: 2}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: all}
spec:
  parentName: top
  fairSharing: {weight: 2}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: quota}
spec: {controllerName: example.com/quota}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team-a, namespace: ml}
spec: {clusterQueue: research}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: usual}
value: 7
globalDefault: true
---
apiVersion: v1
kind: Node
metadata:
  name: n1
  labels: {accelerator: l4, example.com/rack: r1}
spec:
  taints:
  - {key: gpu, effect: NoSchedule}
status:
  allocatable: {cpu: "8", memory: 64Gi, nvidia.com/gpu: "4", pods: "20"}
"#;

/// The sample with `from` replaced by `to`.
#[track_caller]
fn changed(from: &str, to: &str) -> String {
    assert_eq!(SAMPLE.matches(from).count(), 1, "the sample has {from:?} not just once");
    SAMPLE.replace(from, to)
}

/// What is told about `text`, one a line, without the place where all have the same.
#[track_caller]
fn told(text: &str) -> String {
    match parse(text) {
        Ok(_) => "nothing is wrong".to_owned(),
        Err(problems) => with_codes(&problems),
    }
}

fn with_codes(problems: &Problems) -> String {
    let line = |problem: &super::Problem| format!("[{}] {problem}", problem.kind.code());
    let mut lines: Vec<String> = problems.problems.iter().map(line).collect();
    if problems.left_out > 0 {
        lines.push(format!("and {} more", problems.left_out));
    }
    lines.join("\n")
}

/// What is told about the sample once `from` is replaced by `to`.
#[track_caller]
fn check(from: &str, to: &str, expected: &Expect) {
    expected.assert_eq(&told(&changed(from, to)));
}

/// The notes on the sample once `from` is replaced by `to`; those of the sample itself are left out.
#[track_caller]
fn check_notes(from: &str, to: &str, expected: &Expect) {
    let before = notes(&parse(SAMPLE).unwrap());
    let after = notes(&parse(&changed(from, to)).unwrap());
    let new: Vec<String> = after.into_iter().filter(|note| !before.contains(note)).collect();
    expected.assert_eq(&new.join("\n"));
}

fn notes(queues: &Queues) -> Vec<String> {
    queues.notes.iter().map(|note| format!("[{}] {note}", note.kind.code())).collect()
}

/// Texts as files of these names.
fn files(texts: &[(&str, &str)]) -> Vec<Source> {
    let source =
        |(name, text): &(&str, &str)| Source { name: Arc::from(*name), text: (*text).to_owned() };
    texts.iter().map(source).collect()
}

#[test]
fn the_sample_is_right() {
    assert_eq!(told(SAMPLE), "nothing is wrong");
    assert_eq!(
        notes(&parse(SAMPLE).unwrap()),
        [
            "[lone-cohort] cohort \"top\" has a single member and no quota of its own: there is nobody to borrow from; is the name misspelt?"
        ]
    );
}

#[test]
fn documents_may_lie_in_any_order_and_in_several_files() {
    let documents: Vec<&str> = SAMPLE.split("---\n").collect();
    let backwards: Vec<&str> = documents.iter().rev().copied().collect();
    let one = parse(SAMPLE).unwrap();
    for texts in [
        files(&[("a.yaml", &backwards.join("---\n"))]),
        files(&documents.iter().map(|text| ("part.yaml", *text)).collect::<Vec<_>>()),
    ] {
        let other = parse_all(&texts).unwrap();
        assert_eq!(format!("{:?}", other.setup), format!("{:?}", one.setup));
        assert_eq!(other.local_queues, one.local_queues);
        assert_eq!(other.priority_classes, one.priority_classes);
        assert_eq!(other.namespaces, one.namespaces);
    }
}
