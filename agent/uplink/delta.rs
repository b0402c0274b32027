//! What has changed since the arbiter was last told.
//!
//! A change of anything that a decision could rest on is told at once; figures that change all the time go along with
//! heartbeats; ages alone are never a reason to send, as the arbiter counts on from when it was told.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use sluice::wire::digest::{
    EntityHashes, NODE_KEY, device_hash, device_key, node_hash, volume_hash, volume_key,
    worker_hash, worker_id, worker_key,
};
use sluice::wire::pb;

/// What the arbiter was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    hashes: EntityHashes,
    report: pb::NodeReport,
}

impl Told {
    /// Digest of what was told; 0 if nothing was.
    pub(super) fn digest(&self) -> u64 {
        self.hashes.digest()
    }

    /// Takes `now` as told and returns what has to be sent for that; `None` if there is nothing to tell.
    ///
    /// `is_full`: everything. `has_figures`: figures that changed count as changes too.
    pub(super) fn tell(
        &mut self,
        now: pb::NodeReport,
        is_full: bool,
        has_figures: bool,
    ) -> Option<pb::Report> {
        let report = if is_full { everything(&now) } else { self.changes(&now, has_figures) };
        let is_empty = !report.full
            && report.devices.is_empty()
            && report.volumes.is_empty()
            && report.workers.is_empty()
            && report.pressure.is_none()
            && report.health.is_none()
            && report.removed_devices.is_empty()
            && report.removed_volumes.is_empty()
            && report.removed_workers.is_empty();
        if is_empty {
            return None;
        }
        self.hashes.apply(&report);
        self.report = now;
        Some(pb::Report { state_hash: self.hashes.digest(), ..report })
    }

    fn changes(&self, now: &pb::NodeReport, has_figures: bool) -> pb::Report {
        let is_new = |key: &str, hash: u64| self.hashes.get(key) != Some(hash);
        let device = |d: &&pb::Device| {
            is_new(&device_key(&d.id), device_hash(d))
                || has_figures && !self.report.devices.iter().any(|told| is_same_device(told, d))
        };
        let volume = |v: &&pb::Volume| {
            is_new(&volume_key(&v.device), volume_hash(v))
                || has_figures && !self.report.volumes.iter().any(|told| is_same_volume(told, v))
        };
        let worker = |w: &&pb::Worker| {
            is_new(&worker_key(&worker_id(w)), worker_hash(w))
                || has_figures && !self.report.workers.iter().any(|told| is_same_worker(told, w))
        };
        let pressure = now.pressure.filter(|_| has_figures && now.pressure != self.report.pressure);
        let is_new_health = |h: &&pb::NodeHealth| has_figures || is_new(NODE_KEY, node_hash(h));
        let keys = keys(now);
        let gone = |kind: &str| {
            let of_kind = self.hashes.keys().filter(|key| !keys.contains(*key));
            of_kind.filter_map(|key| key.strip_prefix(kind).map(str::to_owned)).collect()
        };
        pb::Report {
            full: false,
            devices: now.devices.iter().filter(device).cloned().collect(),
            volumes: now.volumes.iter().filter(volume).cloned().collect(),
            workers: now.workers.iter().filter(worker).cloned().collect(),
            pressure,
            health: now.health.as_ref().filter(is_new_health).cloned(),
            removed_devices: gone("d/"),
            removed_volumes: gone("v/"),
            removed_workers: gone("w/"),
            ..pb::Report::default()
        }
    }
}

fn everything(now: &pb::NodeReport) -> pb::Report {
    pb::Report {
        full: true,
        devices: now.devices.clone(),
        volumes: now.volumes.clone(),
        workers: now.workers.clone(),
        pressure: now.pressure,
        health: now.health.clone(),
        labels: now.labels.clone(),
        ..pb::Report::default()
    }
}

fn keys(report: &pb::NodeReport) -> BTreeSet<String> {
    let devices = report.devices.iter().map(|d| device_key(&d.id));
    let volumes = report.volumes.iter().map(|v| volume_key(&v.device));
    let workers = report.workers.iter().map(|w| worker_key(&worker_id(w)));
    devices.chain(volumes).chain(workers).collect()
}

fn is_same_device(told: &pb::Device, now: &pb::Device) -> bool {
    told.id == now.id && told.holder_pids == now.holder_pids
}

/// Counters tell all that rates do, and a disk at rest has the same.
fn is_same_volume(told: &pb::Volume, now: &pb::Volume) -> bool {
    let is_at_rest = |v: &pb::Volume| {
        v.rates.is_none_or(|r| r.read_bytes_per_second == 0 && r.write_bytes_per_second == 0)
    };
    told.device == now.device
        && told.counters == now.counters
        && is_at_rest(told) == is_at_rest(now)
}

fn is_same_worker(told: &pb::Worker, now: &pb::Worker) -> bool {
    worker_id(told) == worker_id(now)
        && told.processes == now.processes
        && told.checkpoint_problem == now.checkpoint_problem
}
