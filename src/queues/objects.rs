//! The smaller objects: ResourceFlavor, Topology, AdmissionCheck, Cohort, LocalQueue.

use std::collections::BTreeSet;

use sluice_core::kueue::model::{AdmissionCheck, Cohort, ResourceFlavor, Topology};
use sluice_core::kueue::name::{
    CheckName, CohortName, FlavorName, LocalQueueName, QueueName, TopologyName,
};

use super::LocalQueue;
use super::cluster_queue::{object_name_or_none, stop_policy};
use super::document::Version;
use super::field::Field;
use super::findings::Kind;
use super::groups::{Owner, fair_weight, groups};
use super::matching::{labels, taints, tolerations};
use super::name::{qualified_name, required_object_name};
use super::node::is_condition_true;
use super::problem::{NoteKind, ProblemKind};

/// Most labels, taints and tolerations of a flavor: Kueue's limit.
const FLAVOR_ENTRIES_MAX: usize = 8;
/// Most levels of a topology: Kueue's limit.
const LEVELS_MAX: usize = 16;
/// The label that names a node.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

/// Reads the spec of a ResourceFlavor.
pub(super) fn resource_flavor(name: &str, spec_field: &Field<'_>) -> ResourceFlavor {
    let mut spec = spec_field.object();
    let labels_field = spec.take("nodeLabels");
    let node_labels = labels(&labels_field, FLAVOR_ENTRIES_MAX);
    let taints = taints(&spec.take("nodeTaints"), FLAVOR_ENTRIES_MAX);
    let tolerations = tolerations(&spec.take("tolerations"), FLAVOR_ENTRIES_MAX);
    let topology_field = spec.take("topologyName");
    let topology = object_name_or_none(&topology_field);
    spec.finish();
    if let Some(topology) = topology {
        topology_field.refers_to(Kind::Topology, topology);
        if labels_field.entries().is_empty() {
            labels_field.problem(ProblemKind::MissingField, || {
                "must have at least one label, because topologyName is set: they say which nodes the topology is made of".to_owned()
            });
        }
    }
    ResourceFlavor {
        name: FlavorName::from(name),
        node_labels,
        taints,
        tolerations,
        topology: topology.map(TopologyName::from),
    }
}

/// Reads the spec of a Topology.
pub(super) fn topology(name: &str, spec_field: &Field<'_>) -> Topology {
    let mut spec = spec_field.object();
    let levels_field = spec.take("levels");
    spec.finish();
    if levels_field.is_empty() {
        levels_field.must_be(ProblemKind::MissingField, "a list of at least one level");
    }
    let fields = levels_field.list(LEVELS_MAX);
    let (mut levels, mut seen) = (Vec::new(), BTreeSet::new());
    for (i, field) in fields.iter().enumerate() {
        let mut level = field.object();
        let label_field = level.take("nodeLabel");
        level.finish();
        let Some(label) = qualified_name(&label_field) else { continue };
        if !seen.insert(label) {
            label_field.problem(ProblemKind::DuplicateEntry, || {
                format!("is {label:?} again; each level needs a label of its own")
            });
        }
        if label == HOSTNAME && i + 1 < fields.len() {
            label_field.problem(ProblemKind::HostnameNotLast, || {
                format!(
                    "is {label:?}, which can only be the last level: nothing is smaller than a node"
                )
            });
        }
        levels.push(label.to_owned());
    }
    Topology { name: TopologyName::from(name), levels }
}

/// Reads the spec and status of an AdmissionCheck.
pub(super) fn admission_check(
    name: &str,
    version: Version,
    spec_field: &Field<'_>,
    status_field: &Field<'_>,
) -> AdmissionCheck {
    let mut spec = spec_field.object();
    let controller_field = spec.take("controllerName");
    let controller = controller_field.required_text().unwrap_or_default();
    if controller.is_empty() && !controller_field.is_absent() {
        controller_field.must_be(ProblemKind::BadValue, "the name of a controller");
    }
    // What the controller is told; it decides nothing here.
    spec.pass_over(&["parameters"]);
    if version == Version::V1Beta1 {
        spec.pass_over(&["retryDelayMinutes"]);
    }
    spec.finish();
    let is_active = is_condition_true(status_field, "Active");
    if !is_active {
        let message = "says that its controller is not active: queues with it admit nothing";
        status_field.note(NoteKind::InactiveCheck, message);
    }
    AdmissionCheck { name: CheckName::from(name), controller: controller.to_owned(), is_active }
}

/// Reads the spec of a Cohort.
pub(super) fn cohort(name: &str, version: Version, spec_field: &Field<'_>) -> Cohort {
    let mut spec = spec_field.object();
    let parent_field = spec.take("parentName");
    let mut parent = object_name_or_none(&parent_field);
    if matches!(version, Version::V1Alpha1 | Version::V1Beta1) {
        let old_field = spec.take("parent");
        let old = object_name_or_none(&old_field);
        if old.is_some() && parent.is_some() && old != parent {
            old_field.problem(ProblemKind::ConflictingFields, || {
                "is set, and parentName, too; keep one of them".to_owned()
            });
        }
        parent = parent.or(old);
    }
    let owner = Owner { has_cohort: parent.is_some(), cohort_field: "parentName", passes_on: true };
    let groups = groups(&spec.take("resourceGroups"), owner);
    let fair_weight = fair_weight(&spec.take("fairSharing"));
    spec.finish();
    Cohort {
        name: CohortName::from(name),
        parent: parent.map(CohortName::from),
        groups,
        fair_weight,
    }
}

/// Reads the spec of a LocalQueue.
pub(super) fn local_queue(
    namespace: &str,
    name: &str,
    spec_field: &Field<'_>,
) -> Option<LocalQueue> {
    let mut spec = spec_field.object();
    let queue_field = spec.take("clusterQueue");
    let queue = required_object_name(&queue_field);
    let stop = stop_policy(&spec.take("stopPolicy"));
    let fair_weight = fair_weight(&spec.take("fairSharing"));
    spec.finish();
    if let Some(queue) = queue {
        queue_field.refers_to(Kind::ClusterQueue, queue);
    }
    Some(LocalQueue {
        namespace: namespace.to_owned(),
        name: LocalQueueName::from(name),
        queue: QueueName::from(queue?),
        stop,
        fair_weight,
    })
}
