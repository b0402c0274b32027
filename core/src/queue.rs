//! The queues that an arbiter serves, and the names by which workloads ask for them.

use std::collections::BTreeMap;

use crate::id::QueueName;
use crate::kueue::model::{
    ClusterQueue, FlavorQuotas, PreemptionPolicy, Quota, ResourceFlavor, ResourceGroup,
};
use crate::kueue::name::FlavorName;
use crate::kueue::snapshot::Setup;

/// Kueue's objects, and what they were read from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queues {
    /// The text that the objects were read from: with it a record can begin. Opaque here.
    pub source: String,
    /// The objects.
    pub setup: Setup,
    /// LocalQueues by the names that workloads use, `namespace/name` or `name`, each with its ClusterQueue.
    pub local: BTreeMap<QueueName, QueueName>,
}

/// Whole units of quota that nobody will ever use up: 2^53, the largest whole number that JSON readers agree on.
pub const NO_LIMIT: i64 = 1 << 53;

/// What the queue that is there without a file has. Other resources need a file.
const DEFAULT_RESOURCES: [&str; 5] =
    ["nvidia.com/gpu", "google.com/tpu", "amd.com/gpu", "cpu", "memory"];

impl Queues {
    /// The queue that there is without a file: "default", without limits; higher priority preempts lower.
    #[must_use]
    pub fn without_file() -> Self {
        let in_units = |resource| if resource == "cpu" { NO_LIMIT * 1_000 } else { NO_LIMIT };
        Self::single("default", &DEFAULT_RESOURCES.map(|resource| (resource, in_units(resource))))
    }

    /// One queue of one flavor, in which higher priority preempts lower, with these nominal quotas in the engine's
    /// units (milli-CPU for `cpu`).
    #[must_use]
    pub fn single(name: &str, nominal: &[(&str, i64)]) -> Self {
        let flavor = FlavorName::from("default");
        let quota = |nominal| Quota { nominal, ..Quota::default() };
        let quotas = nominal.iter().map(|(resource, n)| ((*resource).into(), quota(*n)));
        let quotas = FlavorQuotas { flavor: flavor.clone(), quotas: quotas.collect() };
        let resources = nominal.iter().map(|(resource, _)| (*resource).into()).collect();
        let mut queue = ClusterQueue::new(name.into());
        queue.groups = vec![ResourceGroup { resources, flavors: vec![quotas] }];
        queue.preemption.within_queue = PreemptionPolicy::LowerPriority;
        let setup = Setup {
            flavors: vec![ResourceFlavor::new(flavor)],
            queues: vec![queue],
            ..Setup::default()
        };
        Self { setup, ..Self::default() }
    }

    /// The queue that `name` stands for: a ClusterQueue's own name goes before a LocalQueue's.
    #[must_use]
    pub fn find(&self, name: &QueueName) -> Option<&ClusterQueue> {
        self.named(name).or_else(|| self.local.get(name).and_then(|target| self.named(target)))
    }

    /// The LocalQueues that `name`, which is no queue's whole name, may stand for, if they are several.
    #[must_use]
    pub fn ambiguous(&self, name: &QueueName) -> Vec<&QueueName> {
        let is_meant = |local: &&QueueName| {
            local.as_str().split_once('/').is_some_and(|(_, bare)| bare == name.as_str())
        };
        self.local.keys().filter(is_meant).collect()
    }

    fn named(&self, name: &QueueName) -> Option<&ClusterQueue> {
        self.setup.queues.iter().find(|queue| queue.name.as_str() == name.as_str())
    }

    /// The LocalQueues that lead to `queue`.
    pub fn local_to<'a>(&'a self, queue: &'a ClusterQueue) -> impl Iterator<Item = &'a QueueName> {
        let leads = |(_, target): &(&QueueName, &QueueName)| target.as_str() == queue.name.as_str();
        self.local.iter().filter(leads).map(|(name, _)| name)
    }
}
