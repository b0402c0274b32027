//! Queues from a YAML file in Kueue's own format (`kueue.x-k8s.io/v1beta1` and `v1beta2`).
//!
//! Read are ClusterQueue, LocalQueue, ResourceFlavor, Cohort and WorkloadPriorityClass. A field that
//! could change a decision and is not followed here is an error, never silently ignored.

mod cluster_queue;
mod field;
mod quantity;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;
use sluice_core::id::QueueName;
use sluice_core::queue::{Queue, Quota};
use tracing::warn;

use field::{Field, FieldError, Object};

/// Quota that nobody will ever use up, and that can still be added and multiplied without care:
/// 2^53, the largest whole number that JSON readers agree on.
pub(crate) const NO_LIMIT: u64 = 1 << 53;

/// Largest queues file. A queue takes about 1 kB.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Most ClusterQueues. Kueue's own large-scale test has 1,000.
const QUEUES_MAX: usize = 10_000;
/// Resources that the queue has that is there without a file. Other resources need a file.
const DEFAULT_RESOURCES: [&str; 5] =
    ["nvidia.com/gpu", "google.com/tpu", "amd.com/gpu", "cpu", "memory"];

/// Which version of Kueue's API a document is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1Beta1,
    V1Beta2,
}

/// The queue that there is without a file: no limits, higher priority preempts lower.
pub(crate) fn default_queue() -> Queue {
    let quota = Quota { nominal: NO_LIMIT, borrowing_limit: None };
    let resource = |name: &str| (name.parse().expect("a literal that is a name"), quota);
    Queue {
        name: "default".parse().expect("a literal that is a name"),
        aliases: Vec::new(),
        cohort: None,
        quotas: DEFAULT_RESOURCES.iter().map(|name| resource(name)).collect(),
        preempts_lower_priority: true,
        reclaims_within_cohort: false,
    }
}

/// Reads the queues of `path` and logs what was taken otherwise than written.
///
/// # Errors
/// The file cannot be read, or something in it cannot be used.
pub(crate) fn load(path: &Path) -> anyhow::Result<Vec<Queue>> {
    let shown = path.display();
    let size = std::fs::metadata(path)
        .with_context(|| format!("could not read queues file \"{shown}\""))?
        .len();
    if size > FILE_BYTES_MAX {
        bail!("queues file \"{shown}\" has {size} bytes; the limit is {FILE_BYTES_MAX}");
    }
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("could not read queues file \"{shown}\""))?;
    let parsed = parse(&text).with_context(|| format!("bad queues file \"{shown}\""))?;
    for warning in &parsed.warnings {
        warn!(file = %shown, "{warning}");
    }
    Ok(parsed.queues)
}

/// What a file says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parsed {
    queues: Vec<Queue>,
    warnings: Vec<String>,
}

fn parse(text: &str) -> anyhow::Result<Parsed> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| anyhow::anyhow!("{}", one_line(&error)))?;
    let mut file = File::default();
    for (i, document) in documents.iter().enumerate() {
        file.document(document)
            .with_context(|| format!("document {}{}", i + 1, describe(document)))?;
    }
    file.finish()
}

/// The YAML error without its picture of the source.
fn one_line(error: &serde_saphyr::Error) -> String {
    error.without_snippet().to_string().replace('\n', " ")
}

/// ` (ClusterQueue "research")`, as far as the document says so.
fn describe(document: &Value) -> String {
    let kind = document.get("kind").and_then(Value::as_str);
    let name = document.get("metadata").and_then(|m| m.get("name")).and_then(Value::as_str);
    match (kind, name) {
        (Some(kind), Some(name)) => format!(" ({kind} {name:?})"),
        (Some(kind), None) => format!(" ({kind} without a name)"),
        (None, _) => String::new(),
    }
}

/// The file as read so far.
#[derive(Default)]
struct File {
    queues: BTreeMap<QueueName, cluster_queue::Parsed>,
    /// LocalQueues by name, with the ClusterQueue that each names.
    aliases: BTreeMap<QueueName, QueueName>,
    flavors: BTreeSet<String>,
}

impl File {
    fn document(&mut self, document: &Value) -> anyhow::Result<()> {
        let mut object = Field::root(document).object().map_err(anyhow::Error::msg)?;
        self.object(&mut object).map_err(anyhow::Error::msg)?;
        object.finish().map_err(anyhow::Error::msg)
    }

    fn object(&mut self, object: &mut Object<'_>) -> Result<(), FieldError> {
        let version = version(&object.take("apiVersion"))?;
        let kind = object.take("kind");
        let metadata = object.take("metadata");
        // Written by Kueue, not by people; `kubectl get -o yaml` shows it.
        object.take("status");
        // What else is in the metadata (labels, annotations, uid) decides nothing.
        let name_field = metadata.object()?.take("name");
        let name: QueueName = name_field
            .required_text()?
            .parse()
            .map_err(|_| name_field.must_be("a name of letters, digits, '-' and '.'"))?;
        match kind.required_text()? {
            "ClusterQueue" => {
                let spec = object.take("spec").object()?;
                let parsed = cluster_queue::parse(name.clone(), version, spec)?;
                let full = self.queues.len() == QUEUES_MAX;
                if full || self.queues.insert(name, parsed).is_some() {
                    let limit =
                        format!("at most {QUEUES_MAX} ClusterQueues, each with its own name");
                    return Err(name_field.must_be(&limit));
                }
            }
            "LocalQueue" => {
                let target = local_queue(object.take("spec").object()?)?;
                if self.aliases.insert(name, target).is_some() {
                    return Err(name_field.must_be(
                        "unique among LocalQueues: namespaces do not tell them apart here",
                    ));
                }
            }
            "ResourceFlavor" => {
                resource_flavor(object.take("spec").object()?)?;
                self.flavors.insert(name.to_string());
            }
            "Cohort" => cohort(object.take("spec").object()?)?,
            "WorkloadPriorityClass" => {
                // Workloads name their priority as a number here: classes are only checked.
                object.take("value").required_integer()?;
                object.take("description");
            }
            _ => {
                return Err(kind.must_be(
                    "one of ClusterQueue, LocalQueue, ResourceFlavor, Cohort, WorkloadPriorityClass",
                ));
            }
        }
        Ok(())
    }

    fn finish(self) -> anyhow::Result<Parsed> {
        let Self { mut queues, aliases, flavors } = self;
        for (alias, target) in aliases {
            if queues.contains_key(&alias) && alias != target {
                bail!(
                    "LocalQueue \"{alias}\" has the name of a ClusterQueue that it does not point to; rename it"
                );
            }
            let Some(queue) = queues.get_mut(&target) else {
                bail!(
                    "LocalQueue \"{alias}\": spec.clusterQueue is \"{target}\", but no ClusterQueue has that name"
                );
            };
            if alias != target {
                queue.queue.aliases.push(alias);
            }
        }
        if queues.is_empty() {
            bail!("there is no ClusterQueue in it; add one, or leave --queues out");
        }
        let mut parsed = Parsed::default();
        for (name, queue) in queues {
            parsed.warnings.extend(queue.warnings.iter().map(|w| format!("queue \"{name}\": {w}")));
            for flavor in queue.flavors.difference(&flavors) {
                parsed.warnings.push(format!(
                    "queue \"{name}\": flavor \"{flavor}\" has no ResourceFlavor; Kueue would not use the queue"
                ));
            }
            parsed.queues.push(queue.queue);
        }
        Ok(parsed)
    }
}

fn version(field: &Field<'_>) -> Result<Version, FieldError> {
    let known = ["kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"];
    match field.required_text()? {
        text if text == known[0] => Ok(Version::V1Beta1),
        text if text == known[1] => Ok(Version::V1Beta2),
        _ => Err(field.must_be(&known.join(" or "))),
    }
}

fn local_queue(mut spec: Object<'_>) -> Result<QueueName, FieldError> {
    let target = spec.take("clusterQueue");
    let name = target.required_text()?.parse();
    let name = name.map_err(|_| target.must_be("the name of a ClusterQueue"))?;
    refuse_stop(&spec.take("stopPolicy"))?;
    // Counts only under admission fair sharing, which is not done here.
    spec.take("fairSharing");
    spec.finish()?;
    Ok(name)
}

fn resource_flavor(mut spec: Object<'_>) -> Result<(), FieldError> {
    for name in ["nodeLabels", "nodeTaints", "topologyName"] {
        let field = spec.take(name);
        if !field.is_empty() {
            return Err(field.error(
                "is set, but flavors are not told apart here and nodes have no labels or taints; \
                 remove it",
            ));
        }
    }
    // Given to pods, of which there are none here.
    spec.take("tolerations");
    spec.finish()
}

fn cohort(mut spec: Object<'_>) -> Result<(), FieldError> {
    for name in ["parent", "parentName", "resourceGroups"] {
        let field = spec.take(name);
        if !field.is_empty() {
            return Err(
                field.error("is set, but cohorts are flat here and own no quota; remove it")
            );
        }
    }
    spec.take("fairSharing");
    spec.finish()
}

/// `stopPolicy` other than `None` would change what is admitted.
fn refuse_stop(field: &Field<'_>) -> Result<(), FieldError> {
    if field.word(&["None", "Hold", "HoldAndDrain"], "None")? == "None" {
        return Ok(());
    }
    Err(field.must_be("None: queues are not stopped one by one here; \"sluice freeze\" stops all"))
}
