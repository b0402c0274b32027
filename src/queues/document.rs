//! One document: what kind of object it is, and who reads it.

use std::sync::Arc;

use serde_json::Value;

use super::cluster_queue::cluster_queue;
use super::field::{Field, Object, Reader};
use super::findings::{Findings, Kind};
use super::gathered::{Found, Gathered};
use super::matching::labels;
use super::name::{namespace, required_object_name};
use super::node::node;
use super::objects::{admission_check, cohort, local_queue, resource_flavor, topology};
use super::priority::priority_class;
use super::problem::{NoteKind, Place, ProblemKind, shorten};
use super::spelling::did_you_mean;

/// Most objects of one list.
const ITEMS_MAX: usize = 100_000;

/// Which version of Kueue's API a document is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    V1Alpha1,
    V1Beta1,
    V1Beta2,
}

const VERSIONS: [(&str, Version); 3] =
    [("v1alpha1", Version::V1Alpha1), ("v1beta1", Version::V1Beta1), ("v1beta2", Version::V1Beta2)];

/// Kinds of Kueue that are read, and the oldest version of each.
const KUEUE_KINDS: [(&str, Kind, Version); 7] = [
    ("AdmissionCheck", Kind::AdmissionCheck, Version::V1Beta1),
    ("ClusterQueue", Kind::ClusterQueue, Version::V1Beta1),
    ("Cohort", Kind::Cohort, Version::V1Alpha1),
    ("LocalQueue", Kind::LocalQueue, Version::V1Beta1),
    ("ResourceFlavor", Kind::ResourceFlavor, Version::V1Beta1),
    ("Topology", Kind::Topology, Version::V1Alpha1),
    ("WorkloadPriorityClass", Kind::WorkloadPriorityClass, Version::V1Beta1),
];

/// Kinds of Kueue that define no queues.
const KUEUE_KINDS_SKIPPED: [&str; 4] =
    ["MultiKueueCluster", "MultiKueueConfig", "ProvisioningRequestConfig", "Workload"];

/// What to do with a document.
#[derive(Debug, Clone, Copy)]
enum Task {
    Read(Kind, Version),
    List,
    /// Only to take down that it exists.
    Declare(Kind),
    Skip(&'static str),
}

/// Reads a document into `gathered`.
pub(super) fn document(
    gathered: &mut Gathered,
    findings: &Findings,
    place: &Arc<Place>,
    value: &Value,
) {
    let field = Field::root(Reader { place, findings }, "", value);
    let Some(mut object) = field.required_object() else { return };
    match task(&mut object) {
        Some(Task::List) => list(gathered, &mut object),
        Some(other) => perform(gathered, other, object),
        None => {}
    }
}

/// Everything but lists.
fn perform(gathered: &mut Gathered, task: Task, mut object: Object<'_>) {
    let Reader { place, findings } = object.reader();
    match task {
        Task::Read(kind, version) => read(gathered, kind, version, object),
        Task::Declare(kind) => {
            if let Some(metadata) = metadata(&object.take("metadata")) {
                findings.declare(kind, &metadata.unique_name(kind), place);
            }
        }
        Task::Skip(why) => {
            findings.note(NoteKind::SkippedKind, Some(place), format!("was skipped: {why}"));
        }
        Task::List => object.missing().problem(ProblemKind::UnknownKind, || {
            "is a list within a list; write its objects as documents".to_owned()
        }),
    }
}

/// Each object of a list as if it were a document of its own.
fn list(gathered: &mut Gathered, object: &mut Object<'_>) {
    object.pass_over(&["metadata"]);
    for item in object.take("items").list(ITEMS_MAX) {
        let Reader { place, findings } = item.reader();
        let place = Arc::new(item.named_place(place));
        let reader = Reader { place: &place, findings };
        let item = item.in_reader(reader);
        let Some(mut object) = item.required_object() else { continue };
        if let Some(task) = task(&mut object) {
            perform(gathered, task, object);
        }
    }
}

/// What to do with a document, by its `apiVersion` and `kind`; `None` once a problem is told.
fn task(object: &mut Object<'_>) -> Option<Task> {
    let (version_field, kind_field) = (object.take("apiVersion"), object.take("kind"));
    let (api_version, kind) = (version_field.required_text(), kind_field.required_text());
    let (api_version, kind) = (api_version?, kind?);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    match (group, kind) {
        ("kueue.x-k8s.io", _) => kueue_task(&version_field, &kind_field, version, kind),
        ("config.kueue.x-k8s.io", "Configuration") => {
            Some(Task::Skip("how the engine decides is not read from a file of queues"))
        }
        (group, _) if group.ends_with(".kueue.x-k8s.io") => {
            kind_field.problem(ProblemKind::UnknownKind, || {
                let (kind, group) = (kind_field.shown(), shorten(group));
                format!("is {kind}, which is not a kind of {group} known here; take it out")
            });
            None
        }
        ("scheduling.k8s.io", "PriorityClass") if version == "v1" => {
            Some(Task::Read(Kind::PriorityClass, Version::V1Beta2))
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            version_field.must_be(ProblemKind::UnknownVersion, "scheduling.k8s.io/v1");
            None
        }
        ("", "Node") => Some(Task::Read(Kind::Node, Version::V1Beta2)),
        ("", "Namespace") => Some(Task::Read(Kind::Namespace, Version::V1Beta2)),
        ("", "List") => Some(Task::List),
        _ => Some(Task::Skip("it defines no queues")),
    }
}

fn kueue_task(
    version_field: &Field<'_>,
    kind_field: &Field<'_>,
    version: &str,
    kind: &str,
) -> Option<Task> {
    if KUEUE_KINDS_SKIPPED.contains(&kind) {
        return Some(Task::Skip("it defines no queues"));
    }
    let Some((_, known, oldest)) = KUEUE_KINDS.iter().find(|(word, ..)| *word == kind) else {
        kind_field.problem(ProblemKind::UnknownKind, || {
            let words: Vec<&str> = KUEUE_KINDS.iter().map(|(word, ..)| *word).collect();
            let meant = did_you_mean(kind, words.iter().copied());
            let known = words.join(", ");
            let mend = if meant.is_empty() { format!("; known are {known}") } else { meant };
            format!("is {}, which Kueue does not have{mend}", kind_field.shown())
        });
        return None;
    };
    let possible = VERSIONS.iter().filter(|(_, possible)| possible >= oldest);
    if let Some((_, version)) = possible.clone().find(|(word, _)| *word == version) {
        return Some(Task::Read(*known, *version));
    }
    let words: Vec<String> = possible.map(|(word, _)| format!("kueue.x-k8s.io/{word}")).collect();
    version_field.must_be(ProblemKind::UnknownVersion, &words.join(" or "));
    Some(Task::Declare(*known))
}

/// What every object says of itself.
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
    labels: Field<'a>,
}

impl Metadata<'_> {
    /// What tells it from other objects of its kind.
    fn unique_name(&self, kind: Kind) -> String {
        match kind {
            Kind::LocalQueue => format!("{}/{}", self.namespace, self.name),
            Kind::AdmissionCheck
            | Kind::ClusterQueue
            | Kind::Cohort
            | Kind::Namespace
            | Kind::Node
            | Kind::PriorityClass
            | Kind::ResourceFlavor
            | Kind::Topology
            | Kind::WorkloadPriorityClass => self.name.to_owned(),
        }
    }
}

fn metadata<'a>(field: &Field<'a>) -> Option<Metadata<'a>> {
    // What else is in it (annotations, uid) decides nothing.
    let mut metadata = field.object();
    let name = required_object_name(&metadata.take("name"));
    let namespace_field = metadata.take("namespace");
    let namespace = namespace(&namespace_field);
    if namespace.is_none() && !namespace_field.is_absent() {
        return None;
    }
    let labels = metadata.take("labels");
    Some(Metadata { name: name?, namespace: namespace.unwrap_or("default"), labels })
}

/// Reads an object. Its spec is read also where its name is bad, so that all problems are told.
fn read(gathered: &mut Gathered, kind: Kind, version: Version, mut object: Object<'_>) {
    let metadata = metadata(&object.take("metadata"));
    let name = metadata.as_ref().map_or("", |metadata| metadata.name);
    let namespace = metadata.as_ref().map_or("", |metadata| metadata.namespace);
    let Reader { place, findings } = object.reader();
    let is_new =
        metadata.as_ref().is_some_and(|m| findings.declare(kind, &m.unique_name(kind), place));
    let is_class = matches!(kind, Kind::PriorityClass | Kind::WorkloadPriorityClass);
    let spec = if is_class { object.missing() } else { object.take("spec") };
    // Written by controllers, not by people, except for nodes; `kubectl get -o yaml` shows it.
    let status = object.take("status");
    let found = match kind {
        Kind::ClusterQueue => Found::Queue(cluster_queue(name, version, &spec)),
        Kind::ResourceFlavor => Found::Flavor(resource_flavor(name, &spec)),
        Kind::Cohort => Found::Cohort(cohort(name, version, &spec)),
        Kind::Topology => Found::Topology(topology(name, &spec)),
        Kind::AdmissionCheck => Found::Check(admission_check(name, version, &spec, &status)),
        Kind::LocalQueue => Found::LocalQueue(local_queue(namespace, name, &spec)),
        Kind::PriorityClass | Kind::WorkloadPriorityClass => {
            Found::Class(priority_class(name, kind, &mut object))
        }
        Kind::Node => {
            let labels = metadata.as_ref().map_or(object.missing(), |m| m.labels.clone());
            Found::Node(node(name, &labels, &spec, &status))
        }
        Kind::Namespace => {
            let labels_field = metadata.as_ref().map_or(object.missing(), |m| m.labels.clone());
            Found::Namespace(name.to_owned(), labels(&labels_field, usize::MAX))
        }
    };
    object.finish();
    if is_new {
        gathered.add(found, place);
    }
}
