//! Queues from YAML files in Kueue's own format, as the decision engine takes them.
//!
//! Read are Kueue's ClusterQueue, LocalQueue, ResourceFlavor, Cohort, Topology, AdmissionCheck and
//! WorkloadPriorityClass (`v1beta1` and `v1beta2`; Topology and Cohort also `v1alpha1`), PriorityClass
//! (`scheduling.k8s.io/v1`), and of Kubernetes itself Node, Namespace and List. Documents of other kinds are skipped
//! with a note; an unknown kind of Kueue is a problem.
//!
//! **Stricter than a cluster.** In a cluster objects come and go, so the engine lives with what is missing: a queue
//! with a flavor that does not exist is inactive until it does. A file is complete, and what is missing in it is
//! missing for good. So these are problems here, although the engine would carry on: a missing flavor, topology,
//! admission check or ClusterQueue of a LocalQueue; cohorts in a circle; names twice; fields and kinds of Kueue that
//! are not known; features that would change decisions and are not done (usage-based admission, concurrent admission).
//! Cohorts need no document of their own, as in Kueue.
//!
//! **More lenient than a cluster.** What only controllers write may be absent: an AdmissionCheck without an `Active`
//! condition counts as active, a node without a `Ready` condition as ready, one without a `kubernetes.io/hostname`
//! label gets its name as that, one without `pods` takes 110. Quotas may stand in another order than
//! `coveredResources`, with a note. Parts of a unit count as a whole one, as in Kubernetes.
//!
//! Everything that is wrong is told at once, up to [`PROBLEMS_MAX`]. The order of documents and files decides nothing.

mod cluster_queue;
mod document;
mod field;
mod findings;
mod gathered;
mod groups;
mod matching;
mod name;
mod node;
mod objects;
mod priority;
mod problem;
mod quantity;
mod served;
mod source;
mod spelling;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sluice_core::kueue::matching::Labels;
use sluice_core::kueue::model::StopPolicy;
use sluice_core::kueue::name::{LocalQueueName, QueueName};
use sluice_core::kueue::snapshot::Setup;
use sluice_core::kueue::weight::FairWeight;

use findings::Findings;
use gathered::Gathered;

pub use findings::{NOTES_MAX, PROBLEMS_MAX};
pub use gathered::QUEUES_MAX;
pub use problem::{Note, NoteKind, Place, Problem, ProblemKind, Problems};
pub use quantity::{Amount, Quantity, QuantityError, Unit, amount_of};
pub use served::{Unserved, priorities, served, unserved};
pub use source::{FILE_BYTES_MAX, Source};

/// A configuration.
#[derive(Debug, Clone)]
pub struct Queues {
    /// What the engine works on. Each list is ordered by name; all references in it lead somewhere.
    pub setup: Setup,
    /// By namespace and name.
    pub local_queues: Vec<LocalQueue>,
    /// By name.
    pub priority_classes: Vec<PriorityClass>,
    /// Labels of the namespaces that are known: those of Namespace documents and those with a LocalQueue. Each has the
    /// label `kubernetes.io/metadata.name`.
    pub namespaces: BTreeMap<String, Labels>,
    /// What people should know, at most [`NOTES_MAX`].
    pub notes: Vec<Note>,
    /// How many more notes there are.
    pub notes_left_out: usize,
}

/// Through which workloads of a namespace get to a cluster queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalQueue {
    /// Its namespace; `default` where the document names none.
    pub namespace: String,
    /// Unique in the namespace.
    pub name: LocalQueueName,
    /// Where it leads to.
    pub queue: QueueName,
    /// Whether it takes new workloads.
    pub stop: StopPolicy,
    /// Its weight where past usage counts, which it does not here.
    pub fair_weight: FairWeight,
}

/// Who looks at a priority class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PrioritySource {
    /// Kueue's WorkloadPriorityClass, named by the label `kueue.x-k8s.io/priority-class` of a job. It goes first.
    Workload,
    /// PriorityClass of `scheduling.k8s.io`, named by `priorityClassName` of the pods.
    Pod,
}

/// A name for a priority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriorityClass {
    /// Unique among those of its source.
    pub name: String,
    /// Higher goes first.
    pub value: i32,
    /// Who looks at it.
    pub source: PrioritySource,
    /// Whether it is taken for pods that name none; at most one class of pods is.
    pub is_default: bool,
}

impl Queues {
    /// The local queue `name` of `namespace`.
    #[must_use]
    pub fn local_queue(&self, namespace: &str, name: &str) -> Option<&LocalQueue> {
        let key = |queue: &LocalQueue| {
            (queue.namespace.as_str(), queue.name.as_str()).cmp(&(namespace, name))
        };
        let found = self.local_queues.binary_search_by(key).ok()?;
        self.local_queues.get(found)
    }

    /// The priority that the class `name` stands for. The classes of Kubernetes itself are always there.
    #[must_use]
    pub fn priority(&self, source: PrioritySource, name: &str) -> Option<i32> {
        let mut classes = self.priority_classes.iter();
        let class = classes.find(|class| class.source == source && class.name == name);
        let built_in = priority::BUILT_IN.iter().find(|(built_in, _)| *built_in == name);
        let built_in = built_in.filter(|_| source == PrioritySource::Pod).map(|(_, value)| *value);
        class.map(|class| class.value).or(built_in)
    }

    /// The priority of pods that name no class: that of the default class, or 0.
    #[must_use]
    pub fn default_priority(&self) -> i32 {
        let default = self.priority_classes.iter().find(|class| class.is_default);
        default.map_or(0, |class| class.value)
    }
}

/// Reads files that make up one configuration; `-` is standard input.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load<P: AsRef<Path>>(paths: &[P]) -> Result<Queues, Problems> {
    let findings = Findings::default();
    let sources: Vec<Source> =
        paths.iter().filter_map(|path| source::open(path.as_ref(), &findings)).collect();
    read(&sources, findings)
}

/// Reads one text, which places name `-`.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(text: &str) -> Result<Queues, Problems> {
    parse_all(&[Source { name: Arc::from("-"), text: text.to_owned() }])
}

/// Reads texts that make up one configuration.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse_all(sources: &[Source]) -> Result<Queues, Problems> {
    read(sources, Findings::default())
}

fn read(sources: &[Source], findings: Findings) -> Result<Queues, Problems> {
    let mut gathered = Gathered::default();
    for source in sources {
        for (place, value) in source::documents(source, &findings) {
            document::document(&mut gathered, &findings, &place, &value);
        }
    }
    gathered.finish(findings)
}
