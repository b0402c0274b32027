//! What an agent reports: devices and workers as the arbiter decides by them.
//!
//! Core sees less than people do (no volumes, no pids, no messages): on the way out what core does
//! not hold is left at its default for the agent to fill in.

use sluice_core::id::{DeviceId, WorkerId};
use sluice_core::protocol::{Device, DeviceFault, Health, NodeReport, WorkerReport};

use super::{WireError, field, health, pb};

impl From<Health> for pb::Health {
    fn from(health: Health) -> Self {
        match health {
            Health::Healthy => Self::Healthy,
            Health::Degraded => Self::Degraded,
            Health::Unhealthy => Self::Unhealthy,
            Health::Unknown => Self::Unknown,
        }
    }
}

/// Health from its number. Unspecified and numbers of other versions are [`Health::Unknown`]:
/// nothing is known, and a device is not taken for healthy by mistake.
#[must_use]
pub fn health(value: i32) -> Health {
    match pb::Health::try_from(value) {
        Ok(pb::Health::Healthy) => Health::Healthy,
        Ok(pb::Health::Degraded) => Health::Degraded,
        Ok(pb::Health::Unhealthy) => Health::Unhealthy,
        Ok(pb::Health::Unknown | pb::Health::Unspecified) | Err(_) => Health::Unknown,
    }
}

/// A device as core knows it.
#[must_use]
pub fn device_out(id: &DeviceId, device: &Device) -> pb::Device {
    let fault = device.fault.as_ref();
    pb::Device {
        id: id.to_string(),
        index: device.index,
        resource: device.resource.to_string(),
        kind: device.kind.clone(),
        simulated: device.simulated,
        health: pb::Health::from(device.health).into(),
        health_reason: fault.map(|fault| (&fault.reason).into()),
        action: fault.map_or(pb::Action::Unspecified, |f| health::action_out(f.action)).into(),
        drain: fault.map_or(pb::DrainNeed::Unspecified, |f| health::drain_out(f.drain)).into(),
        ..pb::Device::default()
    }
}

/// A device from the wire.
///
/// # Errors
/// Where its id or resource is not a name.
pub fn device_in(device: &pb::Device) -> Result<(DeviceId, Device), WireError> {
    let id = field::name("id", &device.id)?;
    let device = Device {
        resource: field::name("resource", &device.resource)?,
        index: device.index,
        kind: device.kind.clone(),
        simulated: device.simulated,
        health: health(device.health),
        fault: device.health_reason.as_ref().map(|reason| DeviceFault {
            reason: reason.into(),
            action: health::action(device.action),
            drain: health::drain(device.drain),
        }),
    };
    Ok((id, device))
}

/// A worker as core knows it.
#[must_use]
pub fn worker_out(id: &WorkerId, worker: &WorkerReport) -> pb::Worker {
    let state = if worker.running { pb::WorkerState::Running } else { pb::WorkerState::Exited };
    pb::Worker {
        workload: id.workload.to_string(),
        attempt: id.attempt,
        rank: id.rank,
        state: state.into(),
        checkpoint: worker.checkpoint.as_ref().map(Into::into),
        checkpoint_age_ms: worker.checkpoint_age_ms,
        checkpoint_is_of_this_attempt: worker.checkpoint_is_of_this_attempt,
        step_ms: worker.step_ms,
        save_interval_ms: worker.save_interval_ms,
        save_ms: worker.save_ms,
        running_ms: worker.running_ms,
        device_fault: worker.device_fault.as_ref().map(Into::into),
        saves: worker.saves,
        has_client: worker.has_client,
        launcher_grace_ms: worker.launcher_grace_ms,
        ..pb::Worker::default()
    }
}

/// A worker from the wire.
///
/// # Errors
/// Where its name is not a name or its state is neither running nor exited.
pub fn worker_in(worker: &pb::Worker) -> Result<(WorkerId, WorkerReport), WireError> {
    let id = field::worker_id(&worker.workload, worker.attempt, worker.rank)?;
    let report = WorkerReport {
        running: is_running(worker.state)?,
        checkpoint: worker.checkpoint.as_ref().map(Into::into),
        checkpoint_age_ms: worker.checkpoint_age_ms,
        checkpoint_is_of_this_attempt: worker.checkpoint_is_of_this_attempt,
        step_ms: worker.step_ms,
        save_interval_ms: worker.save_interval_ms,
        save_ms: worker.save_ms,
        running_ms: worker.running_ms,
        device_fault: worker.device_fault.as_ref().map(Into::into),
        saves: worker.saves,
        has_client: worker.has_client,
        launcher_grace_ms: worker.launcher_grace_ms,
    };
    Ok((id, report))
}

fn is_running(state: i32) -> Result<bool, WireError> {
    match pb::WorkerState::try_from(state) {
        Ok(pb::WorkerState::Running) => Ok(true),
        Ok(pb::WorkerState::Exited) => Ok(false),
        Ok(pb::WorkerState::Unspecified) | Err(_) => {
            Err(WireError::new("state", state, "RUNNING (1) or EXITED (2)"))
        }
    }
}

impl From<&NodeReport> for pb::Report {
    fn from(report: &NodeReport) -> Self {
        Self {
            full: report.full,
            devices: report.devices.iter().map(|(id, d)| device_out(id, d)).collect(),
            workers: report.workers.iter().map(|(id, w)| worker_out(id, w)).collect(),
            removed_devices: field::texts(&report.removed_devices),
            removed_workers: field::texts(&report.removed_workers),
            labels: report.labels.clone(),
            ..Self::default()
        }
    }
}

impl TryFrom<&pb::Report> for NodeReport {
    type Error = WireError;

    fn try_from(report: &pb::Report) -> Result<Self, WireError> {
        let device = |(i, d)| device_in(d).map_err(|e| e.within(&format!("devices[{i}]")));
        let worker = |(i, w)| worker_in(w).map_err(|e| e.within(&format!("workers[{i}]")));
        let removed = |(i, text): (usize, &String)| {
            field::worker_text(&format!("removed_workers[{i}]"), text)
        };
        Ok(Self {
            full: report.full,
            labels: report.labels.clone(),
            devices: report.devices.iter().enumerate().map(device).collect::<Result<_, _>>()?,
            workers: report.workers.iter().enumerate().map(worker).collect::<Result<_, _>>()?,
            removed_devices: field::names("removed_devices", &report.removed_devices)?,
            removed_workers: report
                .removed_workers
                .iter()
                .enumerate()
                .map(removed)
                .collect::<Result<_, _>>()?,
        })
    }
}
