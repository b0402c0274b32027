//! The accelerators as they are told: what sensors see, with the judge's verdict.

use std::collections::BTreeSet;

use sluice::wire::{health as wire, pb};
use sluice_core::health::Verdict;
use sluice_core::id::WorkerId;
use sluice_core::protocol::Health;
use sluice_core::reason::Reason;
use sluice_core::sample::{DeviceFile, DeviceSample, NodeSample, ProcessTableSample};
use sluice_core::unit::Time;

use super::View;
use crate::health::HealthView;

/// A device whose reading is older than this many intervals is `Unknown`: one late sample is ordinary, three are not.
const STALE_INTERVALS: u64 = 3;

/// The accelerators with their health and holders.
pub(crate) fn devices(
    sample: &NodeSample,
    view: &View,
    health: &HealthView,
    interval_ms: u64,
    now: Time,
) -> Vec<pb::Device> {
    let age_ms = sample.devices.age_ms;
    let is_stale = age_ms.is_none_or(|age| age > interval_ms.saturating_mul(STALE_INTERVALS));
    let seen = sample.devices.value.as_deref().unwrap_or_default();
    let processes = sample.processes.value.as_ref();
    let device = |device: &DeviceSample| {
        let verdict = health.device(device.pci);
        let (health, reason) = judged(device, is_stale, age_ms, verdict);
        pb::Device {
            id: device.id.clone(),
            index: device.index,
            resource: device.resource_name.clone(),
            kind: device.kind.clone(),
            simulated: device.is_simulated,
            health: pb::Health::from(health).into(),
            health_reason: reason.as_ref().map(Into::into),
            memory_bytes: device.memory_bytes,
            holder_pids: holders(device, view, processes),
            source: source(device).to_owned(),
            age_ms,
            pci_bus_id: device.pci.map(|pci| pci.to_string()).unwrap_or_default(),
            action: verdict.map_or(pb::Action::None, |v| wire::action_out(v.action)).into(),
            drain: verdict.map_or(pb::DrainNeed::None, |v| wire::drain_out(v.drain)).into(),
            faults: verdict.map(|v| wire::faults(v, now)).unwrap_or_default(),
        }
    };
    seen.iter().map(device).collect()
}

/// The worse of what the sensor and what the judge says. What is merely worth knowing is no reason.
fn judged(
    device: &DeviceSample,
    is_stale: bool,
    age_ms: Option<u64>,
    verdict: Option<&Verdict>,
) -> (Health, Option<Reason>) {
    let (seen, why) = seen(device, is_stale, age_ms);
    let Some(verdict) = verdict.filter(|v| v.health >= seen && v.health != Health::Healthy) else {
        return (seen, why);
    };
    (verdict.health, verdict.reason().cloned().or(why))
}

fn seen(device: &DeviceSample, is_stale: bool, age_ms: Option<u64>) -> (Health, Option<Reason>) {
    let id = device.id.clone();
    if is_stale {
        let age = age_ms.map_or_else(|| "never".to_owned(), |age| format!("{age} ms ago"));
        return (Health::Unknown, Some(Reason::DeviceStale { device: id, age }));
    }
    if device.is_present {
        return (Health::Healthy, None);
    }
    (Health::Unhealthy, Some(Reason::DeviceGone { device: id }))
}

fn source(device: &DeviceSample) -> &'static str {
    match device.file {
        _ if device.is_simulated => "simulated",
        Some(DeviceFile::Nvidia(_) | DeviceFile::NvidiaCap(_)) => "nvml",
        Some(DeviceFile::Accel(_) | DeviceFile::Vfio(_) | DeviceFile::Simulated(_)) | None => {
            "sysfs"
        }
    }
}

/// Processes that hold the device: those that compute on it by its driver, those that have its file open, and those of workers to which it is assigned.
fn holders(device: &DeviceSample, view: &View, processes: Option<&ProcessTableSample>) -> Vec<u32> {
    let mut pids: BTreeSet<u32> = device.computing.iter().flatten().copied().collect();
    let Some(table) = processes else { return pids.into_iter().collect() };
    let has_open = |files: Option<&BTreeSet<DeviceFile>>| {
        files.zip(device.file.as_ref()).is_some_and(|(files, file)| files.contains(file))
    };
    for worker in &table.workers {
        let id: Option<WorkerId> = worker.marker.parse().ok();
        let known = id.and_then(|id| view.agent.workers().get(&id));
        let is_assigned =
            known.is_some_and(|w| w.registration.devices.iter().any(|id| id.as_str() == device.id));
        let holds =
            |p: &&sluice_core::sample::ProcessSample| is_assigned || has_open(p.devices.as_ref());
        pids.extend(worker.processes.iter().filter(holds).map(|p| p.key.pid));
    }
    let strangers = table.strangers.iter().filter(|p| has_open(p.devices.as_ref()));
    pids.extend(strangers.map(|p| p.key.pid));
    pids.into_iter().collect()
}
