//! Nodes, as `kubectl get nodes -o yaml` shows them or as people write them by hand.

use sluice_core::kueue::name::ResourceName;
use sluice_core::kueue::tas::Node;
use sluice_core::kueue::workload::Requests;

use super::field::Field;
use super::groups::amount;
use super::matching::{labels, taints};
use super::name::is_label_key;
use super::objects::HOSTNAME;

/// Pods that a node takes if it does not say so: the kubelet's default (`maxPods`).
pub(super) const PODS_DEFAULT: i64 = 110;

/// Fields of a node's spec that decide nothing.
const SPEC_PASSED_OVER: [&str; 5] =
    ["configSource", "externalID", "podCIDR", "podCIDRs", "providerID"];

/// Reads a node; also whether it does not say how many pods it takes.
pub(super) fn node(
    name: &str,
    labels_field: &Field<'_>,
    spec_field: &Field<'_>,
    status_field: &Field<'_>,
) -> (Node, bool) {
    let mut labels = labels(labels_field, usize::MAX);
    // The kubelet sets it on every node.
    labels.entry(HOSTNAME.to_owned()).or_insert_with(|| name.to_owned());
    let mut spec = spec_field.object();
    let taints = taints(&spec.take("taints"), usize::MAX);
    let is_unschedulable = spec.take("unschedulable").flag();
    spec.pass_over(&SPEC_PASSED_OVER);
    spec.finish();
    let mut allocatable = Requests::new();
    // Most of a status (addresses, images, capacity) decides nothing: it is not looked at.
    for (key, field) in status_field.object().take("allocatable").entries() {
        if !is_label_key(&field, key) {
            continue;
        }
        let resource = ResourceName::from(key);
        if let Some(amount) = amount(&field, &resource) {
            allocatable.insert(resource, amount);
        }
    }
    let pods = ResourceName::from("pods");
    let lacks_pods = !allocatable.contains_key(&pods);
    allocatable.entry(pods).or_insert(PODS_DEFAULT);
    let is_ready = is_condition_true(status_field, "Ready");
    let name = name.to_owned();
    let degraded = Requests::default();
    (Node { name, labels, allocatable, degraded, taints, is_ready, is_unschedulable }, lacks_pods)
}

/// Whether the condition `kind` in `status` is true. One that is absent counts as true: files that people write have
/// no status.
pub(super) fn is_condition_true(status_field: &Field<'_>, kind: &str) -> bool {
    for field in status_field.object().take("conditions").list(usize::MAX) {
        let mut condition = field.object();
        if condition.take("type").text() == Some(kind) {
            return condition.take("status").text() == Some("True");
        }
    }
    true
}
