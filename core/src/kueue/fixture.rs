//! Small clusters for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::model::{
    ClusterQueue, Cohort, FlavorQuotas, Fungibility, NamespaceSelector, Preemption,
    QueueingStrategy, Quota, ResourceFlavor, ResourceGroup, StopPolicy,
};
use super::name::{FlavorResource, QueueName, WorkloadKey};
use super::snapshot::{Running, Setup, Snapshot};
use super::weight::FairWeight;
use super::workload::{Admission, PodSet, PodSetAdmission, Reservation, Workload};

/// The moment of all tests, in milliseconds.
pub(crate) const NOW_MS: u64 = 1_000_000;

pub(crate) fn gpus_of(flavor: &str) -> FlavorResource {
    FlavorResource::new(&flavor.into(), &"gpu".into())
}

pub(crate) fn flavor(name: &str) -> ResourceFlavor {
    ResourceFlavor {
        name: name.into(),
        node_labels: BTreeMap::new(),
        taints: Vec::new(),
        tolerations: Vec::new(),
        topology: None,
    }
}

/// One group of GPUs, with a flavor and its quota each.
pub(crate) fn gpu_group(flavors: &[(&str, Quota)]) -> ResourceGroup {
    let quotas = |(name, quota): &(&str, Quota)| FlavorQuotas {
        flavor: (*name).into(),
        quotas: [("gpu".into(), *quota)].into(),
    };
    ResourceGroup { resources: vec!["gpu".into()], flavors: flavors.iter().map(quotas).collect() }
}

pub(crate) fn nominal(nominal: i64) -> Quota {
    Quota { nominal, ..Quota::default() }
}

/// A queue of GPUs of one flavor.
pub(crate) fn queue(name: &str, cohort: Option<&str>, gpus: i64) -> ClusterQueue {
    ClusterQueue {
        name: name.into(),
        cohort: cohort.map(Into::into),
        strategy: QueueingStrategy::BestEffortFifo,
        groups: vec![gpu_group(&[("a3", nominal(gpus))])],
        preemption: Preemption::NEVER,
        fungibility: Fungibility::DEFAULT,
        fair_weight: FairWeight::ONE,
        namespaces: NamespaceSelector::Matching(Vec::new()),
        checks: Vec::new(),
        stop: StopPolicy::None,
    }
}

pub(crate) fn cohort(name: &str, parent: Option<&str>) -> Cohort {
    Cohort {
        name: name.into(),
        parent: parent.map(Into::into),
        groups: Vec::new(),
        fair_weight: FairWeight::ONE,
    }
}

/// A cluster of these queues with two flavors and nothing running.
pub(crate) fn cluster(queues: Vec<ClusterQueue>) -> Snapshot {
    let flavors = vec![flavor("a3"), flavor("a4")];
    Snapshot::new(Setup { flavors, queues, ..Setup::default() })
}

/// A pending workload of one pod that wants `gpus`.
pub(crate) fn pending(name: &str, queue: &str, priority: i32, gpus: i64) -> Workload {
    Workload {
        key: WorkloadKey::new("", name),
        uid: name.to_owned(),
        queue: queue.into(),
        local_queue: queue.into(),
        priority,
        priority_boost: 0,
        created_at_ms: 0,
        pod_sets: vec![PodSet {
            name: "main".into(),
            count: 1,
            min_count: None,
            requests: [("gpu".into(), gpus)].into(),
            topology: None,
            tolerations: Vec::new(),
            node_selector: BTreeMap::new(),
            affinity_terms: Vec::new(),
        }],
        reclaimable: BTreeMap::new(),
        allowed_flavors: Vec::new(),
        reservation: None,
        eviction: None,
        unhealthy_nodes: Vec::new(),
        checks: BTreeMap::new(),
    }
}

/// A workload of one pod that has `gpus` of flavor `a3`.
pub(crate) fn running(name: &str, queue: &str, priority: i32, gpus: i64) -> Running {
    let mut workload = pending(name, queue, priority, gpus);
    let admission = Admission {
        queue: QueueName::from(queue),
        pod_sets: vec![PodSetAdmission {
            name: "main".into(),
            count: 1,
            flavors: [("gpu".into(), "a3".into())].into(),
            usage: [("gpu".into(), gpus)].into(),
            placement: None,
            delayed_placement: None,
        }],
    };
    workload.reservation = Some(Reservation { at_ms: 0, is_admitted: true, admission });
    Running::new(Arc::new(workload))
}
