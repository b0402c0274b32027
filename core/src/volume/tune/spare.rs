//! The volumes whose read-ahead is never touched. What is not known counts as a reason to spare.

use std::fmt;

use super::{Mode, Rules};
use crate::sample::{DiskClass, MountSample, VolumeData, VolumeKind, VolumeRates, VolumeSample};
use crate::volume::Mib;
use crate::volume::bottleneck::Bottleneck;
use crate::volume::claim::{DRIVER, MountRole};

/// What a device is, as far as its read-ahead goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A Google disk that outlives the VM.
    Persistent,
    /// Local SSD.
    LocalSsd,
    /// A file in the role of a disk.
    Loop,
    /// Device mapper or RAID.
    Layer,
    /// Part of a disk, whose read-ahead is that of the whole.
    Partition,
    /// Anything else.
    #[default]
    Other,
}

/// Who mounted a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// Nobody has said.
    #[default]
    Unknown,
    /// Google's, for Persistent Disk and Hyperdisk.
    Google,
    /// Another's.
    Other,
}

/// How a volume is mounted, all its mounts together.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not a state in disguise")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mounts {
    /// How many file systems' mounts.
    pub count: u64,
    /// Any of them is the machine's own root.
    pub is_root: bool,
    /// A pod has the device as it is.
    pub is_block: bool,
    /// Any of them can be written through.
    pub is_writable: bool,
    /// Any of them is neither ext nor xfs.
    pub is_odd_file_system: bool,
    /// Who mounted it.
    pub driver: Driver,
}

impl Mounts {
    /// Adds one more mount of the volume.
    pub fn add(&mut self, mount: &MountSample) {
        if matches!(mount.role, Some(MountRole::Block { .. })) || mount.fs_type == "devtmpfs" {
            self.is_block = true;
            return;
        }
        self.count += 1;
        self.is_root |= mount.mount_point == b"/";
        self.is_writable |= !mount.is_read_only;
        self.is_odd_file_system |= !matches!(mount.fs_type.as_str(), "ext3" | "ext4" | "xfs");
        if let Some(VolumeData::Read { driver, .. }) = &mount.data {
            let is_google = driver == DRIVER && self.driver != Driver::Other;
            self.driver = if is_google { Driver::Google } else { Driver::Other };
        }
    }
}

/// One volume at one moment, as far as setting its read-ahead goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// What it is.
    pub kind: Kind,
    /// Another device was made of it.
    pub is_held: bool,
    /// It has partitions.
    pub is_partitioned: bool,
    /// How it is mounted.
    pub mounts: Mounts,
    /// What was asked for, in whole pages. Unit: KiB. `None`: nothing.
    pub expected_kib: Option<u64>,
    /// What is in force. Unit: KiB. `None`: not known.
    pub actual_kib: Option<u64>,
    /// The operator has named it.
    pub is_opted_in: bool,
    /// What the machine moves, all its disks together. `None`: not known.
    pub node_limit: Option<Mib>,
    /// Who its bottleneck is.
    pub bottleneck: Bottleneck,
    /// Since the last sample.
    pub rates: Option<VolumeRates>,
}

impl Subject {
    /// What a sample says of the device itself; the rest is left to be filled in.
    #[must_use]
    pub fn of(volume: &VolumeSample) -> Self {
        let class = volume.identity.google.as_ref().map(|google| google.class);
        let kind = match (&volume.identity.kind, class) {
            (VolumeKind::Partition { .. }, _) => Kind::Partition,
            (VolumeKind::DeviceMapper { .. } | VolumeKind::Raid, _) => Kind::Layer,
            (VolumeKind::Loop { .. }, _) => Kind::Loop,
            (VolumeKind::Disk | VolumeKind::Nvme, Some(DiskClass::Persistent)) => Kind::Persistent,
            (VolumeKind::Disk | VolumeKind::Nvme, Some(DiskClass::LocalSsd)) => Kind::LocalSsd,
            (VolumeKind::Disk | VolumeKind::Nvme, None)
            | (VolumeKind::NvmePath | VolumeKind::Memory | VolumeKind::Optical, _) => Kind::Other,
        };
        Self {
            kind,
            is_held: !volume.identity.holders.is_empty(),
            actual_kib: volume.read_ahead_kb,
            rates: volume.rates,
            ..Self::default()
        }
    }
}

/// Why read-ahead is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spared {
    /// No disk of Google's.
    NotGoogles,
    /// Local SSD.
    LocalSsd,
    /// A loop device.
    Loop,
    /// Device mapper or RAID.
    Layer,
    /// Part of a disk.
    Partition,
    /// A disk with partitions, as boot disks are.
    Partitioned,
    /// Another device lies on it.
    Held,
    /// The machine's root.
    Root,
    /// Handed to a pod as it is.
    Block,
    /// Not mounted.
    NotMounted,
    /// Mounted so that it can be written.
    Writable,
    /// Neither ext nor xfs.
    FileSystem,
    /// Mounted by another driver, or nobody says by whom.
    Driver,
    /// It does not answer.
    Hung,
    /// 0 was asked for, or what the kernel rounds to it.
    AskedOff,
    /// More was asked for than ever helped.
    AskedHuge,
    /// More is set than was asked for, by somebody.
    Higher,
    /// Neither the kernel's default nor what the agent set.
    SetByOthers,
    /// Programs have mapped its files.
    Mapped,
    /// Whether programs have mapped its files cannot be told.
    MappedUnknown,
    /// Too little memory is available.
    LittleMemory,
}

impl fmt::Display for Spared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotGoogles => "it is no disk of Google's",
            Self::LocalSsd => "it is a Local SSD",
            Self::Loop => "it is a loop device",
            Self::Layer => "it is made of other devices",
            Self::Partition => "it is a part of a disk",
            Self::Partitioned => "it has partitions, as boot disks have",
            Self::Held => "another device lies on it",
            Self::Root => "it is the machine's root",
            Self::Block => "a pod has the device as it is",
            Self::NotMounted => "it is not mounted",
            Self::Writable => "it is mounted so that it can be written",
            Self::FileSystem => "its file system is neither ext nor xfs",
            Self::Driver => "it was not mounted by pd.csi.storage.gke.io, or that cannot be told",
            Self::Hung => "it does not answer",
            Self::AskedOff => "that would switch read-ahead off",
            Self::AskedHuge => "more was asked for than ever helped",
            Self::Higher => "somebody has set more than was asked for",
            Self::SetByOthers => "somebody else has set it",
            Self::Mapped => "programs have mapped its files, and read-ahead does harm where they touch them at random",
            Self::MappedUnknown => "it cannot be told whether programs have mapped its files",
            Self::LittleMemory => "too little memory is available",
        })
    }
}

/// Why this volume is never touched. `None`: it may be.
#[must_use]
pub fn spare(rules: Rules, subject: &Subject) -> Option<Spared> {
    let mounts = subject.mounts;
    let device = match subject.kind {
        Kind::Persistent => None,
        Kind::Loop => (!rules.takes_loops).then_some(Spared::Loop),
        Kind::LocalSsd => Some(Spared::LocalSsd),
        Kind::Layer => Some(Spared::Layer),
        Kind::Partition => Some(Spared::Partition),
        Kind::Other => Some(Spared::NotGoogles),
    };
    // A value that was asked for may be set whoever mounted it, unless that is known to be another driver.
    let is_driver_fit = match mounts.driver {
        Driver::Google => true,
        Driver::Unknown => subject.expected_kib.is_some() && rules.mode >= Mode::Repair,
        Driver::Other => false,
    };
    let checks = [
        (subject.is_partitioned, Spared::Partitioned),
        (subject.is_held, Spared::Held),
        (mounts.is_root, Spared::Root),
        (mounts.is_block, Spared::Block),
        (mounts.count == 0, Spared::NotMounted),
        (mounts.is_writable, Spared::Writable),
        (mounts.is_odd_file_system, Spared::FileSystem),
        (!is_driver_fit, Spared::Driver),
        (subject.bottleneck == Bottleneck::Hung, Spared::Hung),
    ];
    device.or_else(|| checks.into_iter().find(|(is_so, _)| *is_so).map(|(_, why)| why))
}
