//! What to apply to a cluster, as YAML.

use sluice_core::volume::plan::{Ask, Plan};

/// A StorageClass for the plan, and where read-ahead goes for a volume that is there already.
///
/// Disk types come from the table of limits and were found in it, so nothing in here needs quoting beyond what is quoted.
pub(super) fn manifest(ask: &Ask, plan: &Plan) -> String {
    let disk = &ask.disk;
    let throughput = plan.advised.throughput.0;
    let read_ahead = plan.advised.read_ahead_kib;
    let expands = if ask.readers > 1 { "false" } else { "true" };
    let mut text = format!(
        "apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: {disk}-{throughput}
provisioner: pd.csi.storage.gke.io
parameters:
  type: {disk}
"
    );
    if plan.is_throughput_settable {
        text.push_str(&format!("  provisioned-throughput-on-create: \"{throughput}Mi\"\n"));
    }
    text.push_str(&format!(
        "volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: {expands}
reclaimPolicy: Retain
mountOptions:
  - read_ahead_kb={read_ahead}
"
    ));
    text
}
