//! What one node has reported, put together from its reports.

use std::collections::BTreeMap;
use std::time::Instant;

use sluice::wire::digest::{EntityHashes, worker_id};
use sluice::wire::{WireError, node, pb};
use sluice_core::protocol::NodeReport;
use tonic::Status;

use super::millis;

/// Most devices of one node. The largest machines have 16.
pub(super) const DEVICES_MAX: usize = 64;
/// Most volumes of one node: 128 attached disks with their partitions and mappings.
pub(super) const VOLUMES_MAX: usize = 1_024;
/// Most workers of one node; the agent's own limit.
pub(super) const WORKERS_MAX: usize = 1_024;

/// A value and when it was told: ages go on from there.
#[derive(Debug, Clone)]
struct Told<T> {
    at: Instant,
    value: T,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Mirror {
    devices: BTreeMap<String, Told<pb::Device>>,
    volumes: BTreeMap<String, Told<pb::Volume>>,
    workers: BTreeMap<String, Told<pb::Worker>>,
    pressure: Option<pb::Pressure>,
    health: Option<Told<pb::NodeHealth>>,
    hashes: EntityHashes,
}

impl Mirror {
    /// Takes in a report.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` where the node would have more of something than is allowed.
    pub(super) fn apply(&mut self, report: pb::Report) -> Result<(), Status> {
        if report.full {
            *self = Self::default();
        }
        self.hashes.apply(&report);
        for id in &report.removed_devices {
            self.devices.remove(id);
        }
        for device in &report.removed_volumes {
            self.volumes.remove(device);
        }
        for worker in &report.removed_workers {
            self.workers.remove(worker);
        }
        let at = Instant::now();
        for device in report.devices {
            self.devices.insert(device.id.clone(), Told { at, value: device });
        }
        for volume in report.volumes {
            self.volumes.insert(volume.device.clone(), Told { at, value: volume });
        }
        for worker in report.workers {
            self.workers.insert(worker_id(&worker), Told { at, value: worker });
        }
        if report.pressure.is_some() {
            self.pressure = report.pressure;
        }
        if let Some(health) = report.health {
            self.health = Some(Told { at, value: health });
        }
        check_limit("devices", self.devices.len(), DEVICES_MAX)?;
        check_limit("volumes", self.volumes.len(), VOLUMES_MAX)?;
        check_limit("workers", self.workers.len(), WORKERS_MAX)
    }

    /// Digest of the state, as the agent computes it too. 0 while nothing is known.
    pub(super) fn digest(&self) -> u64 {
        self.hashes.digest()
    }

    /// Everything, with ages as of now.
    pub(super) fn report(&self) -> pb::NodeReport {
        pb::NodeReport {
            devices: self.devices.values().map(aged_device).collect(),
            volumes: self.volumes.values().map(aged_volume).collect(),
            workers: self.workers.values().map(aged_worker).collect(),
            pressure: self.pressure,
            health: self.health.as_ref().map(aged_health),
            ..pb::NodeReport::default()
        }
    }

    /// Everything as core is told it, with ages as of now.
    ///
    /// # Errors
    /// Where something cannot be used, which was refused when it was reported.
    pub(super) fn full(&self) -> Result<NodeReport, WireError> {
        let report = self.report();
        Ok(NodeReport {
            full: true,
            devices: report.devices.iter().map(node::device_in).collect::<Result<_, _>>()?,
            workers: report.workers.iter().map(node::worker_in).collect::<Result<_, _>>()?,
            ..NodeReport::default()
        })
    }
}

fn check_limit(what: &str, count: usize, limit: usize) -> Result<(), Status> {
    if count <= limit {
        return Ok(());
    }
    Err(Status::resource_exhausted(format!(
        "the node reports {count} {what}; the limit is {limit}"
    )))
}

fn aged<T>(age_ms: Option<u64>, told: &Told<T>) -> Option<u64> {
    age_ms.map(|age_ms| age_ms.saturating_add(millis(told.at.elapsed())))
}

fn aged_device(told: &Told<pb::Device>) -> pb::Device {
    let faults = told.value.faults.iter().map(|fault| aged_fault(fault, told)).collect();
    pb::Device { age_ms: aged(told.value.age_ms, told), faults, ..told.value.clone() }
}

fn aged_health(told: &Told<pb::NodeHealth>) -> pb::NodeHealth {
    let faults = told.value.faults.iter().map(|fault| aged_fault(fault, told)).collect();
    pb::NodeHealth { faults, ..told.value.clone() }
}

fn aged_fault<T>(fault: &pb::Fault, told: &Told<T>) -> pb::Fault {
    let passed_ms = millis(told.at.elapsed());
    pb::Fault {
        since_age_ms: fault.since_age_ms.saturating_add(passed_ms),
        seen_age_ms: fault.seen_age_ms.saturating_add(passed_ms),
        ..fault.clone()
    }
}

fn aged_volume(told: &Told<pb::Volume>) -> pb::Volume {
    pb::Volume { age_ms: aged(told.value.age_ms, told), ..told.value.clone() }
}

fn aged_worker(told: &Told<pb::Worker>) -> pb::Worker {
    let worker = &told.value;
    pb::Worker {
        checkpoint_age_ms: aged(worker.checkpoint_age_ms, told),
        running_ms: aged(Some(worker.running_ms), told).unwrap_or(worker.running_ms),
        ..worker.clone()
    }
}
