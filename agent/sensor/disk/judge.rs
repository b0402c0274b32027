//! Block devices with what core makes of them: the disk sensor's sample, judged on its own thread with what the other
//! sensors last saw. Nothing is set here: what is done about it is told by [`crate::tune`] and shown with the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sluice_core::sample::{
    DeviceNumber, DiskClass, MountSample, MountTableSample, PressureSample, VolumeData,
    VolumeJudgement, VolumeKind, VolumeSample, VolumeTableSample, volume_of,
};
use sluice_core::volume::Mib;
use sluice_core::volume::bottleneck::{CgroupLimit, Setting, Watch};
use sluice_core::volume::claim::{DRIVER, DiskHandle, MountRole};
use sluice_core::volume::read_ahead::{self, Asked, Case, Intent, Mounted, State};
use sluice_core::volume::tune::Rules;
use tokio::sync::watch;

use super::{DiskSensor, cgroup};
use crate::sensor::Reading;
use crate::tune::Told;

#[cfg(test)]
mod tests;

/// Time between two looks at the limits of cgroups. They come and go with pods; a walk through all of them costs some
/// milliseconds.
const CGROUPS_PERIOD: Duration = Duration::from_secs(30);

/// What the operator says about volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VolumePolicy {
    /// Read-ahead that was asked for, by the name of the cloud disk or of the device.
    pub(crate) read_ahead: BTreeMap<String, Intent>,
    /// What the machine moves, all its disks together. `None`: not known.
    pub(crate) node_limit: Option<Mib>,
    /// Where the host's kubelet keeps its files.
    pub(crate) kubelet_root: PathBuf,
    /// Whether read-ahead may be set.
    pub(crate) rules: Rules,
    /// Disks whose read-ahead may be tuned, named as in `read_ahead`.
    pub(crate) tuned: BTreeSet<String>,
}

/// Samples block devices and judges them.
#[derive(Debug)]
pub(crate) struct VolumeJudge {
    disks: DiskSensor,
    root: PathBuf,
    policy: VolumePolicy,
    mounts: watch::Receiver<Reading<MountTableSample>>,
    pressure: watch::Receiver<Reading<PressureSample>>,
    mounted: BTreeMap<String, Mounted>,
    mounted_names: BTreeSet<String>,
    /// What kubelet says that volumes are, in the words of Google's driver.
    handles: BTreeMap<String, String>,
    limits: BTreeMap<DeviceNumber, CgroupLimit>,
    limits_read_at: Option<Instant>,
    known: BTreeMap<String, Known>,
    asked: Option<watch::Receiver<Asked>>,
    told: Option<watch::Receiver<Told>>,
}

/// A disk as long as it is the same.
#[derive(Debug, Default)]
struct Known {
    diskseq: Option<u64>,
    watch: Watch,
    was_as_asked: bool,
}

impl VolumeJudge {
    /// `root` is where the host's `/` is seen.
    pub(crate) fn new(
        root: &Path,
        policy: &VolumePolicy,
        mounts: watch::Receiver<Reading<MountTableSample>>,
        pressure: watch::Receiver<Reading<PressureSample>>,
    ) -> Self {
        VolumeJudge {
            disks: DiskSensor::new(root),
            root: root.to_owned(),
            policy: policy.clone(),
            mounts,
            pressure,
            mounted: BTreeMap::new(),
            mounted_names: BTreeSet::new(),
            limits: BTreeMap::new(),
            limits_read_at: None,
            known: BTreeMap::new(),
            handles: BTreeMap::new(),
            asked: None,
            told: None,
        }
    }

    /// Goes by what the arbiter says that PersistentVolumes ask for, and shows what is done about read-ahead.
    pub(crate) fn with_others(
        mut self,
        asked: watch::Receiver<Asked>,
        told: watch::Receiver<Told>,
    ) -> Self {
        (self.asked, self.told) = (Some(asked), Some(told));
        self
    }

    /// All block devices now, judged.
    ///
    /// # Errors
    /// As for the disk sensor: what cannot be judged is left unjudged.
    pub(crate) fn sample(&mut self) -> Result<VolumeTableSample, String> {
        let mut table = self.disks.sample()?;
        self.look_at_mounts(&table.volumes);
        self.look_at_cgroups();
        table.judged = self.judge(&table.volumes);
        Ok(table)
    }

    /// Mounts are joined to volumes when either has changed: a node has thousands of mounts.
    fn look_at_mounts(&mut self, volumes: &[VolumeSample]) {
        let names: BTreeSet<String> = volumes.iter().map(|v| v.identity.name.clone()).collect();
        if !self.mounts.has_changed().unwrap_or(false) && names == self.mounted_names {
            return;
        }
        self.mounted_names = names;
        self.mounted.clear();
        self.handles.clear();
        let reading = self.mounts.borrow_and_update();
        let mounts = reading.value.as_ref().map_or(&[][..], |table| &table.mounts);
        for mount in mounts {
            if let Some(volume) = volume_of(mount, volumes) {
                let name = &volume.identity.name;
                add(self.mounted.entry(name.clone()).or_default(), mount);
                if let Some(VolumeData::Read { driver, handle }) = &mount.data
                    && driver == DRIVER
                {
                    self.handles.insert(name.clone(), handle.clone());
                }
            }
        }
    }

    fn look_at_cgroups(&mut self) {
        let now = Instant::now();
        if self.limits_read_at.is_none_or(|read_at| now - read_at >= CGROUPS_PERIOD) {
            self.limits_read_at = Some(now);
            self.limits = cgroup::read_limits(&self.root);
        }
    }

    fn judge(&mut self, volumes: &[VolumeSample]) -> BTreeMap<String, VolumeJudgement> {
        let node_bytes_per_second =
            volumes.iter().filter(|v| counts_towards_node(v)).map(moved).sum();
        let pressure = self.pressure.borrow().value.as_ref().and_then(|p| p.io);
        let io_pressure_permyriad = pressure.map(|io| io.some.avg10_permyriad);
        let mut known = std::mem::take(&mut self.known);
        let mut judged = BTreeMap::new();
        for volume in volumes.iter().filter(|volume| is_judged(volume)) {
            let name = &volume.identity.name;
            let before =
                known.remove(name).filter(|known| known.diskseq == volume.identity.diskseq);
            let mut known = before.unwrap_or_default();
            known.diskseq = volume.identity.diskseq;
            let setting = Setting {
                node_limit: self.policy.node_limit,
                node_bytes_per_second,
                read_ahead_kib: volume.read_ahead_kb,
                cgroup: volume.identity.number.and_then(|n| self.limits.get(&n).cloned()),
                io_pressure_permyriad,
            };
            let in_flight = volume.counters.and_then(|counters| counters.in_flight);
            known.watch.update(volume.rates.as_ref(), in_flight, &setting);
            let mut read_ahead = read_ahead::judge(&self.case(volume, known.was_as_asked));
            known.was_as_asked |= read_ahead.state == State::AsAsked;
            if let Some(told) = &self.told {
                read_ahead.findings.extend(told.borrow().get(name).into_iter().flatten().cloned());
            }
            let judgement = VolumeJudgement {
                read_ahead,
                bottleneck: known.watch.bottleneck(),
                bottleneck_finding: known.watch.finding().cloned(),
            };
            judged.insert(name.clone(), judgement);
            self.known.insert(name.clone(), known);
        }
        judged
    }

    /// What is asked for: by a flag, else by the arbiter, by handle, else by the disk's name alone.
    fn intent(&self, volume: &VolumeSample) -> Option<Intent> {
        let identity = &volume.identity;
        let cloud = identity.google.as_ref().and_then(|google| google.device_name.as_ref());
        let flags = &self.policy.read_ahead;
        let by_flag = cloud.and_then(|name| flags.get(name)).or_else(|| flags.get(&identity.name));
        by_flag.copied().or_else(|| {
            let asked = self.asked.as_ref()?.borrow();
            if let Some(handle) = self.handles.get(&identity.name) {
                return asked.get(handle).copied();
            }
            let is_named = |handle: &str| {
                DiskHandle::parse(handle).is_some_and(|handle| Some(&handle.device_name()) == cloud)
            };
            asked.iter().find(|(handle, _)| is_named(handle)).map(|(_, intent)| *intent)
        })
    }

    fn case(&self, volume: &VolumeSample, was_as_asked: bool) -> Case {
        let identity = &volume.identity;
        Case {
            intent: self.intent(volume),
            actual_kib: volume.read_ahead_kb,
            logical_sector_bytes: identity.logical_sector_bytes,
            is_persistent_disk: is_persistent(volume),
            holder: identity.holders.first().cloned(),
            mounted: self.mounted.get(&identity.name).cloned().unwrap_or_default(),
            was_as_asked,
        }
    }
}

/// What one more mount says about a volume.
fn add(mounted: &mut Mounted, mount: &MountSample) {
    let is_first = mounted.fs_type.is_none() && !mounted.is_block;
    if matches!(mount.role, Some(MountRole::Block { .. })) || mount.fs_type == "devtmpfs" {
        mounted.is_block = true;
        return;
    }
    mounted.is_read_only = mount.is_read_only && (is_first || mounted.is_read_only);
    let has = |name: &str| mount.super_options.split(',').any(|option| option == name);
    mounted.is_without_journal |= has("noload") || has("norecovery");
    mounted.fs_type.get_or_insert_with(|| mount.fs_type.clone());
}

fn is_persistent(volume: &VolumeSample) -> bool {
    let google = volume.identity.google.as_ref();
    google.is_some_and(|google| google.class == DiskClass::Persistent)
}

/// Whole disks only: a partition's bytes are its disk's.
fn counts_towards_node(volume: &VolumeSample) -> bool {
    is_persistent(volume) && !matches!(volume.identity.kind, VolumeKind::Partition { .. })
}

fn moved(volume: &VolumeSample) -> u64 {
    volume.rates.map_or(0, |r| r.read_bytes_per_second.saturating_add(r.write_bytes_per_second))
}

/// Memory, drives for discs and hidden paths have nothing to be judged.
fn is_judged(volume: &VolumeSample) -> bool {
    match volume.identity.kind {
        VolumeKind::NvmePath | VolumeKind::Memory | VolumeKind::Optical => false,
        VolumeKind::Loop { ref backing_file } => backing_file.is_some(),
        VolumeKind::Disk
        | VolumeKind::Nvme
        | VolumeKind::Partition { .. }
        | VolumeKind::DeviceMapper { .. }
        | VolumeKind::Raid => true,
    }
}
