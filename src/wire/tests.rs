//! What goes out and comes back in is the same value.

mod records;
mod refusals;
mod streams;

use std::collections::{BTreeMap, BTreeSet};

use sluice_core::checkpoint::Checkpoint;
use sluice_core::health::Action;
use sluice_core::id::{DeviceId, WorkerId};
use sluice_core::protocol::{Device, DeviceFault, DrainNeed, Health, WorkerReport};
use sluice_core::reason::Reason;

fn set<T: std::str::FromStr<Err: std::fmt::Debug> + Ord>(names: &[&str]) -> BTreeSet<T> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn checkpoint(step: u64) -> Checkpoint {
    Checkpoint {
        step,
        path: format!("/ck/checkpoint-{step}"),
        bytes: 123_456_789_012,
        files: 17,
        marker: "trainer_state.json".to_owned(),
        grade: sluice_core::checkpoint::Grade::RemoteVerified,
    }
}

fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A device of each health.
fn devices() -> BTreeMap<DeviceId, Device> {
    let device = |(i, health): (usize, Health)| {
        let device = Device {
            resource: "nvidia.com/gpu".parse().unwrap(),
            index: 3,
            kind: "nvidia-l4".to_owned(),
            simulated: true,
            health,
            fault: (health != Health::Healthy).then(|| DeviceFault {
                reason: Reason::GpuRowsFailed,
                action: Action::ALL[i + 5],
                drain: [DrainNeed::None, DrainNeed::Save, DrainNeed::Hurry][i % 3],
            }),
        };
        (format!("GPU-{i}").parse().unwrap(), device)
    };
    let healths = [Health::Healthy, Health::Degraded, Health::Unknown, Health::Unhealthy];
    healths.into_iter().enumerate().map(device).collect()
}

fn workers() -> BTreeMap<WorkerId, WorkerReport> {
    let worker = WorkerReport {
        running: true,
        checkpoint: Some(checkpoint(9)),
        checkpoint_age_ms: Some(1_500),
        checkpoint_is_of_this_attempt: true,
        step_ms: Some(800),
        save_interval_ms: Some(60_000),
        save_ms: None,
        running_ms: 120_000,
        device_fault: Some(Reason::WorkerGpuFault {
            pci: "0000:d8:00.0".to_owned(),
            xid: 94,
            text: "Contained".to_owned(),
        }),
        saves: 12,
        has_client: true,
        launcher_grace_ms: Some(30_000),
    };
    BTreeMap::from([("train/1/0".parse().unwrap(), worker)])
}
