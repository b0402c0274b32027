//! Nodes and Slices as Kubernetes prints them. Fields that do not matter here are passed over.

use sluice_core::slice::PartitionState;
use sluice_core::topology::Shape;

use super::declared::{Declared, NodeDeclared, SliceDeclared, Written};
use super::field::Field;

const BLOCK: &str = "cloud.google.com/gce-topology-block";
const ACCELERATOR: &str = "cloud.google.com/gke-tpu-accelerator";
/// Between the prefix and the end stands the shape. Generations before tpu7x have the second prefix.
const PARTITION_PREFIXES: [&str; 2] =
    ["cloud.google.com/gke-tpu-partition-", "cloud.google.com/gke-tpu-slice-"];
const MAINTENANCE_AT: &str = "cloud.google.com/scheduled-maintenance-time";
const MAINTENANCE_NOW: &str = "cloud.google.com/active-node-maintenance";
/// Taints of a node on which nothing should start any more.
const CLOSING_TAINTS: [&str; 4] = [
    "cloud.google.com/impending-node-termination",
    "cloud.google.com/maintenance-window-started",
    "node.kubernetes.io/out-of-service",
    "node.kubernetes.io/unschedulable",
];
/// Conditions that tell of an error and clear themselves after half an hour: a reason to avoid a host, not to give it up.
const WARNINGS: [&str; 2] = ["SliceErrorDetected", "MegascaleHangDetected"];
const OWNER_NAMESPACE: &str = "accelerator.gke.io/owner-workload-namespace";
const OWNER_NAME: &str = "accelerator.gke.io/owner-workload-name";

/// Reads a List, a Node or a Slice; what else there is in a list is passed over with a note.
pub(super) fn read(declared: &mut Declared, root: &Field<'_>) {
    match root.get("kind").text() {
        Some(kind) if kind.ends_with("List") => {
            for item in root.get("items").items() {
                // Items of a NodeList have no kind of their own.
                match item.get("kind").text().unwrap_or(kind.trim_end_matches("List")) {
                    "Node" => node(declared, &item),
                    "Slice" => slice(declared, &item),
                    other => declared.notes.push(format!("a {other} in a list was passed over")),
                }
            }
        }
        Some("Node") => node(declared, root),
        Some("Slice") => slice(declared, root),
        Some(_) => {
            root.get("kind").problem("must be List, Node or Slice; an inventory has no kind");
        }
        None => {}
    }
}

/// Reads a Node.
pub(super) fn node(declared: &mut Declared, field: &Field<'_>) {
    let metadata = field.get("metadata");
    let Some(name) = metadata.get("name").required_text() else { return };
    let labels: Vec<(String, Field<'_>)> = metadata.get("labels").entries();
    let label = |key: &str| labels.iter().find(|(k, _)| k == key).and_then(|(_, v)| v.text());
    let Some(accelerator) = label(ACCELERATOR) else {
        declared.notes.push(format!("node {name} has no TPU (no label {ACCELERATOR})"));
        return;
    };
    let (mut ids, mut states) = (Vec::new(), Vec::new());
    for (key, value) in &labels {
        let Some((shape, is_id)) = partition_label(key) else { continue };
        match value.text() {
            Some(id) if is_id => ids.push((shape, id.to_owned())),
            Some(state) => states.push((shape, PartitionState::of_label(state))),
            None => {}
        }
    }
    let conditions: Vec<(String, bool)> = conditions(field);
    let is = |kind: &str, status: bool| conditions.iter().any(|(k, s)| k == kind && *s == status);
    let taints = field.get("spec").get("taints").items();
    let is_closing = taints
        .iter()
        .any(|taint| taint.get("key").text().is_some_and(|key| CLOSING_TAINTS.contains(&key)));
    let is_closed = is_closing
        || is("Ready", false)
        || field.get("spec").get("unschedulable").flag()
        || label(MAINTENANCE_NOW) == Some("ONGOING");
    let chips = field.get("status").get("allocatable").get("google.com/tpu");
    let maintenance_at_ms = label(MAINTENANCE_AT).and_then(|at| at.parse::<u64>().ok());
    declared.nodes.push(NodeDeclared {
        written: Written::at(field),
        name: name.to_owned(),
        accelerator: accelerator.to_owned(),
        block: label(BLOCK).unwrap_or_default().to_owned(),
        ids,
        states,
        is_open: !is_closed,
        is_degraded: WARNINGS.iter().any(|kind| is(kind, true)),
        chips: if chips.is_there() { chips.parsed() } else { None },
        maintenance_at_ms: maintenance_at_ms.map(|seconds| seconds.saturating_mul(1_000)),
    });
}

/// Conditions and whether they are true; an unknown one is not.
fn conditions(field: &Field<'_>) -> Vec<(String, bool)> {
    let conditions = field.get("status").get("conditions").items();
    let read = |condition: &Field<'_>| {
        let kind = condition.get("type").text()?.to_owned();
        Some((kind, condition.get("status").text() == Some("True")))
    };
    conditions.iter().filter_map(read).collect()
}

/// The shape of a partition label, and whether it is the one with the id.
fn partition_label(key: &str) -> Option<(Shape, bool)> {
    let rest = PARTITION_PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix))?;
    let (shape, is_id) = match rest.strip_suffix("-id") {
        Some(shape) => (shape, true),
        None => (rest.strip_suffix("-state")?, false),
    };
    Some((shape.parse().ok()?, is_id))
}

/// Reads a Slice.
pub(super) fn slice(declared: &mut Declared, field: &Field<'_>) {
    let metadata = field.get("metadata");
    let Some(name) = metadata.get("name").required_text() else { return };
    let spec = field.get("spec");
    let Some(kind) = spec.get("type").required_text() else { return };
    let ids = spec.get("partitionIds").items();
    if ids.is_empty() {
        spec.get("partitionIds").problem("names no partition");
    }
    let id = |id: &Field<'_>| Some((id.required_text()?.to_owned(), Written::at(id)));
    let annotations = metadata.get("annotations").entries();
    let annotation =
        |key: &str| annotations.iter().find(|(k, _)| k == key).and_then(|(_, v)| v.text());
    let owner = annotation(OWNER_NAMESPACE).zip(annotation(OWNER_NAME));
    let ready = field.get("status").get("conditions").items();
    let mut ready = ready.iter().filter(|condition| condition.get("type").text() == Some("Ready"));
    let reason =
        ready.next().and_then(|condition| condition.get("reason").text().map(str::to_owned));
    let is_ending = matches!(reason.as_deref(), Some("DEACTIVATING" | "INCOMPLETE"));
    declared.slices.push(SliceDeclared {
        name: name.to_owned(),
        kind: kind.to_owned(),
        partitions: ids.iter().filter_map(id).collect(),
        owner: owner.map(|(namespace, name)| format!("{namespace}/{name}")),
        is_leaving: is_ending || metadata.get("deletionTimestamp").is_there(),
    });
}
