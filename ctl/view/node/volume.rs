//! Block devices.

use std::collections::BTreeMap;

use serde::Serialize;
use sluice::wire::pb;
use sluice_core::volume::claim::DiskHandle;

use super::super::workload::non_empty;

/// The label by which Kubernetes tells a node's zone.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// The driver whose handles name Google's disks.
const DRIVER: &str = "pd.csi.storage.gke.io";

/// A block device of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct VolumeView {
    /// Its node.
    pub(crate) node: String,
    /// Its name in the kernel, such as `nvme0n1`.
    pub(crate) device: String,
    /// Device number, `major:minor`.
    pub(crate) number: String,
    /// Tells a reused name from the old one; `null` before Linux 5.15.
    pub(crate) diskseq: Option<u64>,
    /// `disk`, `partition`, `loop`, ...
    #[serde(rename = "volume_kind")]
    pub(crate) kind: String,
    /// Name of the Hyperdisk or Persistent Disk; `null` if it is none.
    pub(crate) cloud_disk: Option<String>,
    /// As the disk tells.
    pub(crate) model: Option<String>,
    /// As the disk tells.
    pub(crate) serial: Option<String>,
    /// Its size.
    pub(crate) size_bytes: u64,
    /// Logical sector.
    pub(crate) logical_sector_bytes: u32,
    /// Physical sector.
    pub(crate) physical_sector_bytes: u32,
    /// Whether the kernel refuses writes.
    pub(crate) read_only: bool,
    /// Whether it spins.
    pub(crate) rotational: bool,
    /// How far the kernel reads ahead.
    pub(crate) read_ahead_bytes: Option<u64>,
    /// The I/O scheduler.
    pub(crate) scheduler: Option<String>,
    /// Rates over the last sampling interval; `null` before the second sample.
    pub(crate) rates: Option<RatesView>,
    /// Requests in flight.
    pub(crate) in_flight: Option<u64>,
    /// Where it is mounted.
    pub(crate) mounts: Vec<MountView>,
    /// Devices below it.
    pub(crate) below: Vec<String>,
    /// Where the facts come from.
    pub(crate) source: String,
    /// How old they are; `null` if that is not known.
    pub(crate) age_ms: Option<u64>,
    /// Read-ahead that was asked for; `null` where nothing was.
    pub(crate) read_ahead_wanted_bytes: Option<u64>,
    /// `unknown`, `unasked`, `as-asked` or `drifted`; `null` where it is not judged.
    pub(crate) read_ahead_state: Option<String>,
    /// Who holds its throughput up; `null` where it is not judged.
    pub(crate) bottleneck: Option<String>,
    /// What is made of it.
    pub(crate) findings: Vec<FindingView>,
    /// `project/zone/disk`, by which volumes of different nodes are known to be one; `null` where that is not known.
    pub(crate) shared_key: Option<String>,
    /// Who else reads it, on any node; `null` where nobody else has it, or the arbiter was not asked.
    pub(crate) shared: Option<SharedView>,
}

/// A volume that several nodes have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SharedView {
    /// All nodes together.
    pub(crate) bytes_per_second: u64,
    /// Nodes that read anything worth mentioning.
    pub(crate) active_readers: u64,
    /// Every node that has it, who takes most first.
    pub(crate) readers: Vec<ReaderView>,
}

/// One node's part of a shared volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ReaderView {
    /// The node.
    pub(crate) node: String,
    /// What it takes.
    pub(crate) bytes_per_second: u64,
    /// Who holds it up there.
    pub(crate) bottleneck: Option<String>,
}

/// What is made of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FindingView {
    /// Stable code.
    pub(crate) code: String,
    /// `note`, `warning` or `error`.
    pub(crate) severity: String,
    /// What and why.
    pub(crate) message: String,
    /// What to do; may be empty.
    pub(crate) hint: String,
}

/// Rates over one sampling interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RatesView {
    /// The interval.
    pub(crate) interval_ms: u64,
    /// Bytes read.
    pub(crate) read_bytes_per_second: u64,
    /// Bytes written.
    pub(crate) write_bytes_per_second: u64,
    /// Thousandths of requests.
    pub(crate) reads_per_second_milli: u64,
    /// Thousandths of requests.
    pub(crate) writes_per_second_milli: u64,
    /// Mean time of a read, queueing included; `null` if there was none.
    pub(crate) read_await_us: Option<u64>,
    /// Mean time of a write; `null` if there was none.
    pub(crate) write_await_us: Option<u64>,
    /// Mean length of the queue, in thousandths.
    pub(crate) queue_length_milli: u64,
    /// Share of the time in which it was busy.
    pub(crate) busy_permille: u32,
}

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct MountView {
    /// Where.
    pub(crate) mount_point: String,
    /// File system.
    pub(crate) fs_type: String,
    /// Whether this mount is read-only.
    pub(crate) read_only: bool,
    /// Its options.
    pub(crate) options: String,
    /// What kubelet uses it for: `staged`, `pod`, `subpath`, `block`; `null`: it is not kubelet's.
    pub(crate) role: Option<String>,
    /// The pod that has it.
    pub(crate) pod_uid: Option<String>,
    /// The PersistentVolume, or the volume's name in the pod.
    pub(crate) volume: Option<String>,
    /// The container, for a part of a volume.
    pub(crate) container: Option<String>,
    /// The CSI driver.
    pub(crate) driver: Option<String>,
    /// The volume in the driver's words.
    pub(crate) volume_handle: Option<String>,
    /// Why the handle is not known; `null` if it is, or if there is none.
    pub(crate) problem: Option<String>,
}

impl VolumeView {
    pub(super) fn of(volume: &pb::Volume, node: &str) -> Self {
        Self {
            node: node.to_owned(),
            device: volume.device.clone(),
            number: format!("{}:{}", volume.major, volume.minor),
            diskseq: volume.diskseq,
            kind: volume.kind.clone(),
            cloud_disk: non_empty(&volume.cloud_disk),
            model: non_empty(&volume.model),
            serial: non_empty(&volume.serial),
            size_bytes: volume.size_bytes,
            logical_sector_bytes: volume.logical_sector_bytes,
            physical_sector_bytes: volume.physical_sector_bytes,
            read_only: volume.read_only,
            rotational: volume.rotational,
            read_ahead_bytes: volume.read_ahead_bytes,
            scheduler: non_empty(&volume.scheduler),
            rates: volume.rates.as_ref().map(RatesView::of),
            in_flight: volume.counters.as_ref().map(|c| c.in_flight),
            mounts: volume.mounts.iter().map(MountView::of).collect(),
            below: volume.below.clone(),
            source: volume.source.clone(),
            age_ms: volume.age_ms,
            read_ahead_wanted_bytes: volume.read_ahead_wanted_bytes,
            read_ahead_state: non_empty(&volume.read_ahead_state),
            bottleneck: non_empty(&volume.bottleneck),
            findings: volume.findings.iter().map(FindingView::of).collect(),
            shared_key: None,
            shared: None,
        }
    }
}

impl VolumeView {
    /// The same, known by project, zone and disk where its mounts tell.
    pub(super) fn on_node(mut self, labels: &BTreeMap<String, String>) -> Self {
        let zone = labels.get(ZONE_LABEL).map(String::as_str);
        let of_driver = self.mounts.iter().filter(|m| m.driver.as_deref() == Some(DRIVER));
        let mut handles = of_driver.filter_map(|mount| mount.volume_handle.as_deref());
        self.shared_key = handles.find_map(|handle| DiskHandle::parse(handle)?.key(zone));
        self
    }

    /// What passes through it. Unit: bytes a second.
    pub(crate) fn bytes_per_second(&self) -> u64 {
        let both = |r: &RatesView| r.read_bytes_per_second.saturating_add(r.write_bytes_per_second);
        self.rates.as_ref().map_or(0, both)
    }

    /// Pods that have it mounted, each once.
    pub(crate) fn pods(&self) -> Vec<&str> {
        once(self.mounts.iter().filter_map(|mount| mount.pod_uid.as_deref()))
    }

    /// PersistentVolumes that it is, each once. Usually one. A part of a volume has the volume's name in its pod instead,
    /// and is left out.
    pub(crate) fn persistent_volumes(&self) -> Vec<&str> {
        let named = self.mounts.iter().filter(|m| m.role.as_deref() != Some("subpath"));
        once(named.filter_map(|mount| mount.volume.as_deref()))
    }
}

fn once<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

impl From<&sluice_core::volume::Finding> for FindingView {
    fn from(finding: &sluice_core::volume::Finding) -> Self {
        Self {
            code: finding.code().to_owned(),
            severity: finding.severity().as_str().to_owned(),
            message: finding.to_string(),
            hint: finding.hint(),
        }
    }
}

impl FindingView {
    fn of(finding: &pb::VolumeFinding) -> Self {
        let reason = finding.reason.clone().unwrap_or_default();
        Self {
            code: reason.code,
            severity: finding.severity.clone(),
            message: reason.message,
            hint: reason.hint,
        }
    }
}

impl RatesView {
    fn of(rates: &pb::VolumeRates) -> Self {
        Self {
            interval_ms: rates.interval_ms,
            read_bytes_per_second: rates.read_bytes_per_second,
            write_bytes_per_second: rates.write_bytes_per_second,
            reads_per_second_milli: rates.reads_per_second_milli,
            writes_per_second_milli: rates.writes_per_second_milli,
            read_await_us: rates.read_await_us,
            write_await_us: rates.write_await_us,
            queue_length_milli: rates.queue_length_milli,
            busy_permille: rates.busy_permille,
        }
    }
}

impl MountView {
    fn of(mount: &pb::Mount) -> Self {
        Self {
            mount_point: mount.mount_point.clone(),
            fs_type: mount.fs_type.clone(),
            read_only: mount.read_only,
            options: mount.options.clone(),
            role: non_empty(&mount.role),
            pod_uid: non_empty(&mount.pod_uid),
            volume: non_empty(&mount.volume),
            container: non_empty(&mount.container),
            driver: non_empty(&mount.driver),
            volume_handle: non_empty(&mount.volume_handle),
            problem: mount.problem.as_ref().map(|problem| problem.message.clone()),
        }
    }
}
