//! What the sensors of a node saw, as it is told: volumes, mounts and pressure.

use sluice_core::sample::{
    DiskClass, IdentitySource, MountSample, NodeSample, Pressure, PressureLine, PressureSample,
    VolumeCounters, VolumeIdentity, VolumeKind, VolumeRates, VolumeSample, volume_of,
};

use super::pb;

mod volumes;

/// Most mounts told of one volume. A volume of a busy node is mounted once for each pod that uses
/// it; beyond this the list helps nobody and fills the report.
pub const MOUNTS_PER_VOLUME_MAX: usize = 64;

/// Every volume of the node with its mounts, ordered by name. Empty before the first sample.
#[must_use]
pub fn volumes(sample: &NodeSample) -> Vec<pb::Volume> {
    let Some(table) = &sample.volumes.value else { return Vec::new() };
    let judged = |volume: &mut pb::Volume| {
        if let Some(judgement) = table.judged.get(&volume.device) {
            volumes::judged(volume, judgement);
        }
    };
    let mounts = sample.mounts.value.as_ref().map_or(&[][..], |table| &table.mounts);
    let mut told: Vec<pb::Volume> =
        table.volumes.iter().map(|v| volume(v, sample.volumes.age_ms)).collect();
    told.iter_mut().for_each(judged);
    for mount in mounts {
        let Some(of) = volume_of(mount, &table.volumes) else { continue };
        let volume = told.iter_mut().find(|volume| volume.device == of.identity.name);
        if let Some(volume) = volume.filter(|v| v.mounts.len() < MOUNTS_PER_VOLUME_MAX) {
            volume.mounts.push(mount_out(mount));
        }
    }
    told
}

/// One volume without its mounts. What could not be read is absent, or 0 where the contract has no
/// "absent" for it (sizes).
#[must_use]
pub fn volume(sample: &VolumeSample, age_ms: Option<u64>) -> pb::Volume {
    let id = &sample.identity;
    let number = id.number.unwrap_or_default();
    pb::Volume {
        device: id.name.clone(),
        major: number.major,
        minor: number.minor,
        diskseq: id.diskseq,
        kind: kind(&id.kind).to_owned(),
        cloud_disk: id.google.as_ref().and_then(|g| g.device_name.clone()).unwrap_or_default(),
        model: id.model.clone().unwrap_or_default(),
        serial: id.serial.clone().unwrap_or_default(),
        size_bytes: id.size_bytes.unwrap_or(0),
        logical_sector_bytes: id.logical_sector_bytes.unwrap_or(0),
        physical_sector_bytes: id.physical_sector_bytes.unwrap_or(0),
        read_only: id.is_read_only.unwrap_or(false),
        rotational: id.is_rotational.unwrap_or(false),
        read_ahead_bytes: sample.read_ahead_kb.map(|kib| kib.saturating_mul(1_024)),
        scheduler: id.scheduler.clone().unwrap_or_default(),
        rates: sample.rates.as_ref().map(Into::into),
        counters: sample.counters.as_ref().map(Into::into),
        mounts: Vec::new(),
        below: below(id),
        age_ms,
        source: source(id),
        ..pb::Volume::default()
    }
}

fn kind(kind: &VolumeKind) -> &'static str {
    match kind {
        VolumeKind::Disk => "disk",
        VolumeKind::Nvme => "nvme",
        VolumeKind::NvmePath => "nvme-path",
        VolumeKind::Partition { .. } => "partition",
        VolumeKind::Loop { .. } => "loop",
        VolumeKind::DeviceMapper { .. } => "device-mapper",
        VolumeKind::Raid => "raid",
        VolumeKind::Memory => "memory",
        VolumeKind::Optical => "optical",
    }
}

fn below(id: &VolumeIdentity) -> Vec<String> {
    match &id.kind {
        VolumeKind::Partition { parent, .. } => vec![parent.clone()],
        VolumeKind::Disk
        | VolumeKind::Nvme
        | VolumeKind::NvmePath
        | VolumeKind::Loop { .. }
        | VolumeKind::DeviceMapper { .. }
        | VolumeKind::Raid
        | VolumeKind::Memory
        | VolumeKind::Optical => id.slaves.clone(),
    }
}

/// Where the facts come from: the kernel, and for the disk's name how it was learned.
fn source(id: &VolumeIdentity) -> String {
    let Some(google) = &id.google else { return "sysfs".to_owned() };
    let class = match google.class {
        DiskClass::Persistent => "persistent",
        DiskClass::LocalSsd => "local-ssd",
    };
    let name = match google.source {
        IdentitySource::Wwid => "wwid",
        IdentitySource::UdevData => "udev-data",
        IdentitySource::ById => "by-id",
        IdentitySource::NvmeModel => "nvme-model",
    };
    let doubt = if google.has_by_id_mismatch { " (by-id differs)" } else { "" };
    format!("sysfs; {class} disk by {name}{doubt}")
}

impl From<&VolumeRates> for pb::VolumeRates {
    fn from(rates: &VolumeRates) -> Self {
        Self {
            interval_ms: rates.interval_ms,
            read_bytes_per_second: rates.read_bytes_per_second,
            write_bytes_per_second: rates.write_bytes_per_second,
            reads_per_second_milli: rates.read_ios_per_second.saturating_mul(1_000),
            writes_per_second_milli: rates.write_ios_per_second.saturating_mul(1_000),
            read_await_us: rates.read_await_us,
            write_await_us: rates.write_await_us,
            queue_length_milli: rates.queue_length_milli,
            busy_permille: rates.utilisation_permille,
        }
    }
}

impl From<&VolumeCounters> for pb::VolumeCounters {
    fn from(counters: &VolumeCounters) -> Self {
        Self {
            reads: counters.read_ios,
            read_bytes: counters.read_bytes,
            writes: counters.write_ios,
            write_bytes: counters.write_bytes,
            in_flight: counters.in_flight.map_or(0, u64::from),
        }
    }
}

fn mount_out(mount: &MountSample) -> pb::Mount {
    pb::Mount {
        mount_point: mount.mount_point_lossy(),
        fs_type: mount.fs_type.clone(),
        read_only: mount.is_read_only,
        options: mount.options.clone(),
        ..volumes::owner(mount)
    }
}

/// Pressure of the node; `None` before the first sample.
#[must_use]
pub fn pressure(sample: &NodeSample) -> Option<pb::Pressure> {
    sample.pressure.value.as_ref().map(Into::into)
}

impl From<&PressureSample> for pb::Pressure {
    fn from(sample: &PressureSample) -> Self {
        let some = |pressure: &Option<Pressure>| pressure.as_ref().map(|p| line(&p.some));
        let full =
            |pressure: &Option<Pressure>| pressure.as_ref().and_then(|p| p.full.as_ref()).map(line);
        Self {
            cpu_some: some(&sample.cpu),
            memory_some: some(&sample.memory),
            memory_full: full(&sample.memory),
            io_some: some(&sample.io),
            io_full: full(&sample.io),
        }
    }
}

fn line(line: &PressureLine) -> pb::PressureLine {
    pb::PressureLine {
        avg10_permille: line.avg10_permyriad / 10,
        avg60_permille: line.avg60_permyriad / 10,
        avg300_permille: line.avg300_permyriad / 10,
        total_us: line.total_us,
    }
}
