//! Block devices and mounts as the kernel of the node shows them.

use std::collections::BTreeMap;
use std::fmt;

use crate::volume::bottleneck::Bottleneck;
use crate::volume::claim::MountRole;
use crate::volume::{Finding, read_ahead};

/// A kernel device number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceNumber {
    /// The driver. 0: no block device behind it (network, overlay, btrfs).
    pub major: u32,
    /// The device of that driver.
    pub minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// What sort of block device it is, from its place in sysfs and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeKind {
    /// A whole disk of any driver not named below.
    Disk,
    /// An NVMe namespace.
    Nvme,
    /// One path of a multipath NVMe namespace (`nvme0c0n1`): hidden, carries no I/O of its own.
    NvmePath,
    /// A partition.
    Partition {
        /// The whole disk it lies on, which also owns its queue.
        parent: String,
        /// Its number in the partition table, from 1.
        number: u32,
    },
    /// A file or device in the role of a disk.
    Loop {
        /// What is behind it, as the kernel shows it; bytes, as file names are. `None`: not bound.
        backing_file: Option<Vec<u8>>,
    },
    /// A device mapper target (LVM, dm-cache, dm-crypt).
    DeviceMapper {
        /// The name the administrator knows, `vg-lv`. `None` where sysfs has none.
        name: Option<String>,
    },
    /// Software RAID.
    Raid,
    /// Memory in the role of a disk (`ram0`, `zram0`).
    Memory,
    /// A CD or DVD drive.
    Optical,
}

/// Whose disk this is at Google.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskClass {
    /// Persistent Disk or Hyperdisk; a guest cannot tell which.
    Persistent,
    /// Local SSD: gone with the VM.
    LocalSsd,
}

/// Where a Google disk's name was learned, most trustworthy first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentitySource {
    /// The device's own identifier in sysfs (SCSI `wwid`).
    Wwid,
    /// udev's database, filled from the device when it appeared.
    UdevData,
    /// A link in `/dev/disk/by-id`, which may be stale.
    ById,
    /// The NVMe model alone: the class is known and the name is not.
    NvmeModel,
}

/// Which Google disk a block device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoogleDisk {
    /// The device name given when the disk was attached; usually the disk's name, with `_regional`
    /// for regional disks. Characters: `[.a-zA-Z0-9_-]`, at most 128. `None` where only the class
    /// is known.
    pub device_name: Option<String>,
    /// What it is.
    pub class: DiskClass,
    /// Where the name (or, without one, the class) comes from.
    pub source: IdentitySource,
    /// A link in `/dev/disk/by-id` gives this device another name than the device itself does.
    pub has_by_id_mismatch: bool,
}

/// What does not change while a device stays attached. Read when a device is new and every minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeIdentity {
    /// The kernel's name: `nvme0n2`, `sda1`, `dm-0`, `cciss/c0d0`.
    pub name: String,
    /// Its number. `None` where sysfs does not tell.
    pub number: Option<DeviceNumber>,
    /// Rises with every disk that appears, so a reused name is a new disk. Partitions carry their
    /// disk's. `None` before kernel 5.15.
    pub diskseq: Option<u64>,
    /// What sort of device it is.
    pub kind: VolumeKind,
    /// Devices it is made of, ordered. Source: `slaves/`.
    pub slaves: Vec<String>,
    /// Devices made of it, ordered. Source: `holders/`. Bytes must not be summed over both layers.
    pub holders: Vec<String>,
    /// Capacity. Unit: bytes. Source: `size`, in sectors of 512 bytes whatever the device's own
    /// sector is.
    pub size_bytes: Option<u64>,
    /// Smallest unit it addresses. Unit: bytes. Source: `queue/logical_block_size`.
    pub logical_sector_bytes: Option<u32>,
    /// Smallest unit it writes without a read. Unit: bytes. Source: `queue/physical_block_size`.
    pub physical_sector_bytes: Option<u32>,
    /// Spins, as far as the kernel was told. Source: `queue/rotational`.
    pub is_rotational: Option<bool>,
    /// Cannot be written to. Source: `ro`.
    pub is_read_only: Option<bool>,
    /// The maker's text, trimmed: `nvme_card-pd`, `PersistentDisk`.
    pub model: Option<String>,
    /// The maker's number, trimmed. Not unique on Google's NVMe disks.
    pub serial: Option<String>,
    /// A name for the medium that is unique where the maker is careful.
    pub wwid: Option<String>,
    /// Names of the links `google-*` in `/dev/disk/by-id` that point here, ordered, at most 16.
    pub by_id: Vec<String>,
    /// Which Google disk it is. `None`: not one, or not to be told from the node.
    pub google: Option<GoogleDisk>,
    /// The device whose queue this one uses: itself, or the whole disk of a partition.
    pub queue_owner: String,
    /// The I/O scheduler in force. Source: the bracketed word of `queue/scheduler`.
    pub scheduler: Option<String>,
    /// Requests the block layer may queue. Source: `queue/nr_requests`.
    pub nr_requests: Option<u32>,
}

/// Discards since the device appeared (kernel 4.18 and later).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiscardCounters {
    /// Completed discards.
    pub ios: u64,
    /// Discards merged into others.
    pub merges: u64,
    /// Discarded. Unit: bytes.
    pub bytes: u64,
    /// Spent. Unit: milliseconds; wraps at 2^32.
    pub time_ms: u32,
}

/// Flushes since the device appeared (kernel 5.5 and later; whole disks only).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushCounters {
    /// Completed flushes.
    pub ios: u64,
    /// Spent. Unit: milliseconds; wraps at 2^32.
    pub time_ms: u32,
}

/// Counters since the device appeared.
///
/// Source: `/proc/diskstats`. Times are 32-bit in the kernel and wrap: at 114 requests in flight
/// after 10.5 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeCounters {
    /// Completed reads.
    pub read_ios: u64,
    /// Reads merged into others before they were issued.
    pub read_merges: u64,
    /// Read. Unit: bytes.
    pub read_bytes: u64,
    /// Spent reading, summed over requests. Unit: milliseconds; wraps at 2^32.
    pub read_time_ms: u32,
    /// Completed writes.
    pub write_ios: u64,
    /// Writes merged into others before they were issued.
    pub write_merges: u64,
    /// Written. Unit: bytes.
    pub write_bytes: u64,
    /// Spent writing, summed over requests. Unit: milliseconds; wraps at 2^32.
    pub write_time_ms: u32,
    /// Requests in flight at this moment. `None` where the kernel printed nonsense (old kernels
    /// print -1).
    pub in_flight: Option<u32>,
    /// With at least one request in flight. Unit: milliseconds; wraps at 2^32.
    pub io_time_ms: u32,
    /// Requests in flight, summed over time. Unit: milliseconds; wraps at 2^32. Includes discards
    /// and flushes.
    pub weighted_io_time_ms: u32,
    /// `None` before kernel 4.18.
    pub discard: Option<DiscardCounters>,
    /// `None` before kernel 5.5.
    pub flush: Option<FlushCounters>,
}

/// Rates over the time between two samples of the same disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeRates {
    /// Between the two samples, suspended time included. Unit: milliseconds, at least 1.
    pub interval_ms: u64,
    /// Read throughput.
    pub read_bytes_per_second: u64,
    /// Write throughput.
    pub write_bytes_per_second: u64,
    /// Completed reads.
    pub read_ios_per_second: u64,
    /// Completed writes.
    pub write_ios_per_second: u64,
    /// Mean time of the reads that completed. Unit: microseconds. `None` where none completed.
    pub read_await_us: Option<u64>,
    /// Mean time of the writes that completed. Unit: microseconds. `None` where none completed.
    pub write_await_us: Option<u64>,
    /// Mean number of requests in flight. Unit: thousandths of a request.
    pub queue_length_milli: u64,
    /// Share of the time with at least one request in flight. Range: 0..=1000. Says nothing about
    /// saturation on devices that serve requests in parallel: decide nothing by it.
    pub utilisation_permille: u32,
}

/// One block device at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSample {
    /// What it is.
    pub identity: VolumeIdentity,
    /// Read-ahead in force for files opened from now on. Unit: KiB. Source: `queue/read_ahead_kb`
    /// of [`VolumeIdentity::queue_owner`]. 0 switches read-ahead off.
    pub read_ahead_kb: Option<u64>,
    /// Since it appeared. `None` where `/proc/diskstats` has no usable line for it.
    pub counters: Option<VolumeCounters>,
    /// Since the previous sample. `None` for a new disk, after a counter went back, or without
    /// counters.
    pub rates: Option<VolumeRates>,
}

/// All block devices of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeTableSample {
    /// Ordered by name.
    pub volumes: Vec<VolumeSample>,
    /// Lines of `/proc/diskstats` that were skipped, or of which a field was.
    pub malformed_lines: u32,
    /// What was made of them, by name. Without an entry nothing was.
    pub judged: BTreeMap<String, VolumeJudgement>,
}

/// What was made of a block device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeJudgement {
    /// Its read-ahead.
    pub read_ahead: read_ahead::Verdict,
    /// Who is its bottleneck.
    pub bottleneck: Bottleneck,
    /// Why, with the figures of when it began.
    pub bottleneck_finding: Option<Finding>,
}

/// What kubelet wrote down about a mount, in `vol_data.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeData {
    /// As read.
    Read {
        /// The CSI driver: `pd.csi.storage.gke.io`.
        driver: String,
        /// The volume in the driver's words.
        handle: String,
    },
    /// Missing, empty, torn or not to be believed.
    Unreadable,
}

/// One mount of the host.
///
/// Names are bytes, as Linux has them; use the `*_lossy` functions for display only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountSample {
    /// Unique in the mount namespace while mounted.
    pub mount_id: u32,
    /// The mount it lies on.
    pub parent_id: u32,
    /// Device of the filesystem; `0:n` where no single block device is behind it.
    pub number: DeviceNumber,
    /// Directory of the filesystem that is mounted: other than `/` for bind mounts and subpaths.
    pub root: Vec<u8>,
    /// Where it is mounted.
    pub mount_point: Vec<u8>,
    /// Filesystem type, with subtype: `ext4`, `fuse.gcsfuse`.
    pub fs_type: String,
    /// What was mounted: a device's path, a server's name. `None` where the kernel shows none.
    pub source: Option<Vec<u8>>,
    /// Options of this mount, as the kernel prints them: `ro,relatime`.
    pub options: String,
    /// Options of the filesystem, shared by all its mounts: `ro,norecovery`.
    pub super_options: String,
    /// Cannot be written through this mount: either list of options has `ro`.
    pub is_read_only: bool,
    /// What kubelet uses it for. `None`: it is not kubelet's.
    pub role: Option<MountRole>,
    /// What kubelet wrote down about it. `None`: it writes nothing for such mounts.
    pub data: Option<VolumeData>,
}

impl MountSample {
    /// The mount point for people to read; not to be opened.
    #[must_use]
    pub fn mount_point_lossy(&self) -> String {
        String::from_utf8_lossy(&self.mount_point).into_owned()
    }
}

/// The host's mount table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountTableSample {
    /// In the kernel's order.
    pub mounts: Vec<MountSample>,
    /// Lines that could not be understood.
    pub malformed_lines: u32,
    /// Mounts beyond the bound on the table's length.
    pub dropped: u32,
}

/// The block device a mount shows, if it is one of `volumes`.
///
/// By device number; where the filesystem has an anonymous number (btrfs), by the device it was
/// mounted from; and for a block volume handed to a pod (a bind of a `devtmpfs` node), by the
/// node's name.
#[must_use]
pub fn volume_of<'a>(mount: &MountSample, volumes: &'a [VolumeSample]) -> Option<&'a VolumeSample> {
    if mount.number.major != 0 {
        return volumes.iter().find(|v| v.identity.number == Some(mount.number));
    }
    let node = if mount.fs_type == "devtmpfs" {
        mount.root.strip_prefix(b"/")
    } else {
        mount.source.as_deref().and_then(|source| source.strip_prefix(b"/dev/"))
    }?;
    let mapped = node.strip_prefix(b"mapper/");
    volumes.iter().find(|v| match (&v.identity.kind, mapped) {
        (VolumeKind::DeviceMapper { name: Some(name) }, Some(mapped)) => name.as_bytes() == mapped,
        (_, Some(_)) => false,
        (_, None) => v.identity.name.as_bytes() == node,
    })
}
