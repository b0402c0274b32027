//! Files of real installations, to exact values.

use std::collections::BTreeMap;
use std::path::Path;

use sluice_core::kueue::matching::{LabelOperator, LabelRequirement, Labels, Taint, TaintEffect};
use sluice_core::kueue::model::{
    AdmissionCheck, BorrowWithinCohort, CheckRule, ClusterQueue, Cohort, FlavorPreference,
    FlavorQuotas, FlavorSearch, Fungibility, NamespaceSelector, Preemption, PreemptionPolicy,
    QueueingStrategy, Quota, ResourceFlavor, ResourceGroup, StopPolicy, Topology,
};
use sluice_core::kueue::name::ResourceName;
use sluice_core::kueue::snapshot::Snapshot;
use sluice_core::kueue::tas::Node;
use sluice_core::kueue::weight::FairWeight;

use super::{SAMPLE, notes};
use crate::queues::{LocalQueue, PriorityClass, PrioritySource, Queues, load, parse};

fn fixture(name: &str) -> Queues {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/queues").join(name);
    load(&[path]).unwrap_or_else(|problems| panic!("{problems}"))
}

/// One group with one flavor.
fn group(flavor: &str, quotas: &[(&str, Quota)]) -> ResourceGroup {
    ResourceGroup {
        resources: quotas.iter().map(|(name, _)| ResourceName::from(*name)).collect(),
        flavors: vec![FlavorQuotas {
            flavor: flavor.into(),
            quotas: quotas
                .iter()
                .map(|(name, quota)| (ResourceName::from(*name), *quota))
                .collect(),
        }],
    }
}

fn nominal(nominal: i64) -> Quota {
    Quota { nominal, borrowing_limit: None, lending_limit: None }
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn queue(name: &str, groups: Vec<ResourceGroup>) -> ClusterQueue {
    ClusterQueue {
        name: name.into(),
        cohort: None,
        strategy: QueueingStrategy::BestEffortFifo,
        groups,
        preemption: Preemption::NEVER,
        fungibility: Fungibility::DEFAULT,
        fair_weight: FairWeight::ONE,
        namespaces: NamespaceSelector::Matching(Vec::new()),
        checks: Vec::new(),
        stop: StopPolicy::None,
    }
}

fn flavor(name: &str) -> ResourceFlavor {
    ResourceFlavor {
        name: name.into(),
        node_labels: Labels::new(),
        taints: Vec::new(),
        tolerations: Vec::new(),
        topology: None,
    }
}

fn local_queue(namespace: &str, name: &str, queue: &str) -> LocalQueue {
    LocalQueue {
        namespace: namespace.to_owned(),
        name: name.into(),
        queue: queue.into(),
        stop: StopPolicy::None,
        fair_weight: FairWeight::ONE,
    }
}

fn class(name: &str, value: i32, source: PrioritySource) -> PriorityClass {
    PriorityClass { name: name.to_owned(), value, source, is_default: false }
}

/// Every queue is one that the engine admits to.
fn assert_active(queues: &Queues) {
    let snapshot = Snapshot::new(queues.setup.clone());
    let inactive: Vec<_> = snapshot.queues().filter_map(|queue| queue.inactive.clone()).collect();
    assert_eq!(inactive, []);
}

#[test]
fn serving_and_training_on_six_gpus_is_read() {
    let queues = fixture("serving-and-training.yaml");
    let group = group(
        "default-flavor",
        &[
            ("cpu", nominal(72_000)),
            ("memory", nominal(288 << 30)),
            ("nvidia.com/gpu", nominal(6)),
            ("ephemeral-storage", nominal(200 << 30)),
        ],
    );
    let preemption = Preemption {
        within_queue: PreemptionPolicy::LowerPriority,
        reclaim_within_cohort: PreemptionPolicy::LowerPriority,
        borrow_within_cohort: BorrowWithinCohort::Never,
    };
    assert_eq!(
        queues.setup.queues,
        [ClusterQueue { preemption, ..queue("cluster-queue", vec![group]) }]
    );
    assert_eq!(queues.setup.flavors, [flavor("default-flavor")]);
    assert_eq!(queues.local_queues, [local_queue("llm", "lq", "cluster-queue")]);
    let default = class("default-priority-nonpreempting", 10, PrioritySource::Pod);
    assert_eq!(
        queues.priority_classes,
        [
            PriorityClass { is_default: true, ..default },
            class("high-priority-preempting", 30, PrioritySource::Pod),
            class("low-priority-preempting", 20, PrioritySource::Pod),
        ]
    );
    assert_eq!(queues.default_priority(), 10);
    assert_eq!(queues.priority(PrioritySource::Pod, "high-priority-preempting"), Some(30));
    assert_eq!(queues.priority(PrioritySource::Workload, "high-priority-preempting"), None);
    assert_eq!(queues.priority(PrioritySource::Pod, "system-node-critical"), Some(2_000_001_000));
    let skipped: Vec<String> = notes(&queues)
        .iter()
        .filter(|note| note.starts_with("[skipped-kind]"))
        .filter_map(|note| Some(note.split_once('(')?.1.split_once(')')?.0.to_owned()))
        .collect();
    assert_eq!(
        skipped,
        [
            "Kustomization without a name",
            "ConfigMap \"kueue-manager-config\"",
            "Deployment \"tgi-gemma-deployment\"",
            "Service \"llm-service\"",
            "Service \"headless-svc-l4\"",
            "Job \"finetune-gemma-l4\"",
        ]
    );
    assert_active(&queues);
}

#[test]
fn dynamic_slicing_of_two_cubes_is_read() {
    let queues = fixture("dynamic-slicing.yaml");
    let part = |size: &str| format!("cloud.google.com/gke-tpu-partition-{size}-id");
    let levels = [
        "cloud.google.com/gce-topology-block".to_owned(),
        part("4x4x4"),
        part("2x4x4"),
        part("2x2x4"),
        part("2x2x2"),
        part("2x2x1"),
        "kubernetes.io/hostname".to_owned(),
    ];
    assert_eq!(
        queues.setup.topologies,
        [Topology { name: "slice-topology".into(), levels: levels.into() }]
    );
    let node_labels = labels(&[("cloud.google.com/gke-tpu-accelerator", "tpu7x")]);
    let topology = Some("slice-topology".into());
    assert_eq!(
        queues.setup.flavors,
        [ResourceFlavor { node_labels, topology, ..flavor("slice-rf") }]
    );
    let check = AdmissionCheck {
        name: "ac".into(),
        controller: "accelerator.gke.io/slice".to_owned(),
        is_active: true,
    };
    assert_eq!(queues.setup.checks, [check]);
    let group = group(
        "slice-rf",
        &[
            ("google.com/tpu", nominal(999_999)),
            ("cpu", nominal(999_999_000)),
            ("memory", nominal(999_999 << 30)),
        ],
    );
    let preemption =
        Preemption { within_queue: PreemptionPolicy::LowerPriority, ..Preemption::NEVER };
    let checks = vec![CheckRule { check: "ac".into(), on_flavors: Vec::new() }];
    assert_eq!(
        queues.setup.queues,
        [ClusterQueue { preemption, checks, ..queue("cq", vec![group]) }]
    );
    assert_eq!(queues.local_queues, [local_queue("llm-d-pd-disaggregation", "lq", "cq")]);
    assert_eq!(
        queues.priority_classes,
        [
            class("high-priority-3000", 3000, PrioritySource::Workload),
            class("low-priority-1000", 1000, PrioritySource::Workload),
            class("medium-priority-2000", 2000, PrioritySource::Workload),
        ]
    );
    assert_eq!(queues.default_priority(), 0);
    let namespace =
        labels(&[("kubernetes.io/metadata.name", "llm-d-pd-disaggregation"), ("purpose", "demo")]);
    assert_eq!(
        queues.namespaces,
        BTreeMap::from([("llm-d-pd-disaggregation".to_owned(), namespace)])
    );
    assert_active(&queues);
}

#[test]
fn every_field_of_the_sample_is_read() {
    let Queues { setup, namespaces, .. } = parse(SAMPLE).unwrap();
    let gpu = Quota { nominal: 4, borrowing_limit: Some(2), lending_limit: Some(1) };
    let research = ClusterQueue {
        cohort: Some("all".into()),
        preemption: Preemption {
            within_queue: PreemptionPolicy::LowerPriority,
            reclaim_within_cohort: PreemptionPolicy::Any,
            borrow_within_cohort: BorrowWithinCohort::LowerPriority { max_priority: Some(100) },
        },
        fungibility: Fungibility {
            when_can_borrow: FlavorSearch::TryNextFlavor,
            when_can_preempt: FlavorSearch::MayStopSearch,
            preference: FlavorPreference::BorrowingOverPreemption,
        },
        fair_weight: FairWeight::from_nano_units(500_000_000),
        checks: vec![CheckRule { check: "quota".into(), on_flavors: vec!["l4".into()] }],
        ..queue(
            "research",
            vec![group(
                "l4",
                &[("nvidia.com/gpu", gpu), ("cpu", nominal(1_500)), ("memory", nominal(16 << 30))],
            )],
        )
    };
    let requirement = |key: &str, operator, value: &str| LabelRequirement {
        key: key.to_owned(),
        operator,
        values: vec![value.to_owned()],
    };
    let serving = ClusterQueue {
        cohort: Some("all".into()),
        strategy: QueueingStrategy::StrictFifo,
        namespaces: NamespaceSelector::Matching(vec![
            requirement("team", LabelOperator::In, "serving"),
            requirement("stage", LabelOperator::NotIn, "test"),
        ]),
        ..queue("serving", vec![group("l4", &[("nvidia.com/gpu", nominal(2))])])
    };
    assert_eq!(setup.queues, [research, serving]);
    let fair_weight = FairWeight::from_nano_units(2_000_000_000);
    let parent = Some("top".into());
    assert_eq!(
        setup.cohorts,
        [Cohort { name: "all".into(), parent, groups: Vec::new(), fair_weight }]
    );
    let node = Node {
        name: "n1".to_owned(),
        labels: labels(&[
            ("accelerator", "l4"),
            ("example.com/rack", "r1"),
            ("kubernetes.io/hostname", "n1"),
        ]),
        allocatable: [("cpu", 8_000), ("memory", 64 << 30), ("nvidia.com/gpu", 4), ("pods", 20)]
            .map(|(name, amount)| (ResourceName::from(name), amount))
            .into(),
        taints: vec![Taint {
            key: "gpu".to_owned(),
            value: String::new(),
            effect: TaintEffect::NoSchedule,
        }],
        is_ready: true,
        degraded: BTreeMap::new(),
        is_unschedulable: false,
    };
    assert_eq!(setup.nodes, [node]);
    let ml = labels(&[("kubernetes.io/metadata.name", "ml")]);
    assert_eq!(namespaces, BTreeMap::from([("ml".to_owned(), ml)]));
}

#[test]
fn nodes_are_read_as_kubectl_shows_them() {
    let node = "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: n2\n  uid: 1-2\n  annotations: {a: b}\n  labels: {kubernetes.io/hostname: other}\nspec:\n  podCIDR: 10.0.0.0/24\n  providerID: gce://x\n  unschedulable: true\nstatus:\n  addresses: [{type: Hostname, address: n2}]\n  capacity: {cpu: 4}\n  allocatable: {cpu: 3920m, memory: 2917556Ki}\n  conditions:\n  - {type: MemoryPressure, status: \"False\"}\n  - {type: Ready, status: Unknown, reason: NodeStatusUnknown}\n  images: []\n";
    let queues = parse(&format!("{SAMPLE}{node}")).unwrap();
    let read = queues.setup.nodes.into_iter().find(|node| node.name == "n2");
    let expected = Node {
        name: "n2".to_owned(),
        labels: labels(&[("kubernetes.io/hostname", "other")]),
        allocatable: [("cpu", 3_920), ("memory", 2_987_577_344), ("pods", 110)]
            .map(|(name, amount)| (ResourceName::from(name), amount))
            .into(),
        taints: Vec::new(),
        is_ready: false,
        degraded: BTreeMap::new(),
        is_unschedulable: true,
    };
    assert_eq!(read, Some(expected));
}
