//! Volumes that several nodes have: what all of them together take, and who takes most.

use std::collections::BTreeMap;

use sluice_core::volume::shared::{Reader, share};

use crate::view::node::{ReaderView, SharedView, VolumeView};

/// Tells each volume who else has it.
pub(super) fn join(volumes: &mut [VolumeView]) {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, volume) in volumes.iter().enumerate() {
        if let Some(key) = &volume.shared_key {
            groups.entry(key.clone()).or_default().push(index);
        }
    }
    for members in groups.into_values().filter(|members| members.len() > 1) {
        let readers: Vec<Reader> = members.iter().map(|index| reader(&volumes[*index])).collect();
        let share = share(&readers);
        let mut told: Vec<ReaderView> =
            members.iter().map(|index| reader_view(&volumes[*index])).collect();
        told.sort_by(|a, b| {
            b.bytes_per_second.cmp(&a.bytes_per_second).then_with(|| a.node.cmp(&b.node))
        });
        for index in members {
            let volume = &mut volumes[index];
            volume.findings.extend(share.finding.as_ref().map(Into::into));
            volume.shared = Some(SharedView {
                bytes_per_second: share.bytes_per_second,
                active_readers: share.active_readers,
                readers: told.clone(),
            });
        }
    }
}

fn reader(volume: &VolumeView) -> Reader {
    Reader {
        node: volume.node.clone(),
        bytes_per_second: volume.bytes_per_second(),
        is_at_volume_limit: volume.bottleneck.as_deref() == Some("volume"),
    }
}

fn reader_view(volume: &VolumeView) -> ReaderView {
    ReaderView {
        node: volume.node.clone(),
        bytes_per_second: volume.bytes_per_second(),
        bottleneck: volume.bottleneck.clone(),
    }
}

#[cfg(test)]
mod tests {
    use sluice::wire::pb;

    use super::join;
    use crate::view::node::{NodeView, VolumeView};

    fn volume(node: &str, zone: &str, handle: &str, mib: u64) -> VolumeView {
        let (driver, handle) = handle.split_once(' ').unwrap_or(("pd.csi.storage.gke.io", handle));
        let mount = pb::Mount {
            driver: driver.to_owned(),
            volume_handle: handle.to_owned(),
            ..pb::Mount::default()
        };
        let rates =
            pb::VolumeRates { read_bytes_per_second: mib << 20, ..pb::VolumeRates::default() };
        let volume = pb::Volume {
            device: "nvme0n2".to_owned(),
            bottleneck: "volume".to_owned(),
            rates: Some(rates),
            mounts: vec![mount],
            ..pb::Volume::default()
        };
        let labels = [("topology.kubernetes.io/zone".to_owned(), zone.to_owned())].into();
        let report = pb::NodeReport {
            node: node.to_owned(),
            volumes: vec![volume],
            labels,
            ..pb::NodeReport::default()
        };
        NodeView::of_report(&report).volumes.remove(0)
    }

    #[test]
    fn one_disk_on_several_nodes_is_summed_and_others_are_not() {
        let model = "projects/p/zones/z/disks/model1";
        let mut volumes = [
            volume("a", "z", model, 100),
            volume("b", "z", model, 300),
            volume("c", "z", "projects/p/zones/z/disks/other", 500),
        ];
        join(&mut volumes);
        let shared = volumes[0].shared.clone().unwrap();
        assert_eq!((shared.bytes_per_second, shared.active_readers), (400 << 20, 2));
        let order: Vec<&str> = shared.readers.iter().map(|reader| reader.node.as_str()).collect();
        assert_eq!(order, ["b", "a"]);
        assert_eq!(volumes[1].shared, volumes[0].shared);
        let codes: Vec<&str> = volumes[0].findings.iter().map(|f| f.code.as_str()).collect();
        assert_eq!(codes, ["volume-shared-out"]);
        assert!(volumes[0].findings[0].message.contains("b takes 75 %"));
        assert_eq!((volumes[2].shared.as_ref(), volumes[2].findings.len()), (None, 0));
    }

    #[test]
    fn disk_of_several_zones_is_one_disk_in_each() {
        let handle = "projects/p/zones/multi-zone/disks/model1";
        let mut volumes = [
            volume("a", "z1", handle, 1),
            volume("b", "z2", handle, 1),
            volume("c", "z2", handle, 1),
        ];
        join(&mut volumes);
        let readers = |index: usize| volumes[index].shared.as_ref().map(|s| s.readers.len());
        assert_eq!([readers(0), readers(1), readers(2)], [None, Some(2), Some(2)]);
        assert_eq!(volumes[1].shared_key.as_deref(), Some("p/z2/model1"));
    }

    #[test]
    fn handle_of_another_driver_is_no_disk() {
        let handle = "gcsfuse.csi.storage.gke.io projects/p/zones/z/disks/model1";
        assert_eq!(volume("a", "z", handle, 1).shared_key, None);
    }
}
