//! All sensors of a node: started once, read by whoever reports.

use std::path::Path;
use std::time::{Duration, Instant};

use sluice::wire::pb;
use sluice_core::sample::{
    DeviceSample, MountTableSample, NodeSample, PressureSample, ProcessTableSample, Sampled,
    VolumeTableSample,
};
use tokio::sync::watch;

use crate::config::Config;
use crate::sensor::disk::VolumeJudge;
use crate::sensor::mounts::MountSensor;
use crate::sensor::pressure::PressureSensor;
use crate::sensor::process::{ProcessSensor, WatchedWorker};
use crate::sensor::simulated::{SimulatedSensor, devices_dir};
use crate::sensor::{self, Reading};

/// Time between two looks at mounts and at pressure. The kernel itself updates pressure every two seconds, and mounts
/// come and go with pods.
const SLOW_INTERVAL: Duration = Duration::from_secs(5);

/// The newest reading of every sensor. Cheap to clone; the sensors' threads end with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct Sensors {
    /// `None`: this node has no accelerators.
    pub(crate) devices: Option<watch::Receiver<Reading<Vec<DeviceSample>>>>,
    /// Block devices.
    pub(crate) volumes: watch::Receiver<Reading<VolumeTableSample>>,
    /// Mounts of the host.
    pub(crate) mounts: watch::Receiver<Reading<MountTableSample>>,
    /// Workers and their processes.
    pub(crate) processes: watch::Receiver<Reading<ProcessTableSample>>,
    /// Pressure of the host.
    pub(crate) pressure: watch::Receiver<Reading<PressureSample>>,
}

impl Sensors {
    /// Starts every sensor on its own thread. `watched` are the workers whose processes are looked for.
    ///
    /// # Errors
    /// The files of simulated devices cannot be made, or the system refuses a thread.
    pub(crate) fn start(
        config: &Config,
        agent_dir: &Path,
        node_uid: &str,
        watched: watch::Receiver<Vec<WatchedWorker>>,
    ) -> Result<Self, String> {
        let root = &config.host_root;
        let refused = |error| {
            format!("could not start a sensor's thread: {error}; raise the limit on threads")
        };
        let mut mounts = MountSensor::new(root).with_kubelet(&config.volumes.kubelet_root);
        let mounts = sensor::spawn("mounts", SLOW_INTERVAL, move || mounts.sample());
        let mounts = mounts.map_err(refused)?;
        let mut pressure = PressureSensor::new(root);
        let pressure = sensor::spawn("pressure", SLOW_INTERVAL, move || pressure.sample());
        let pressure = pressure.map_err(refused)?;
        let mut disk = VolumeJudge::new(root, &config.volumes, mounts.clone(), pressure.clone());
        let mut processes =
            ProcessSensor::new(root, Some(&devices_dir(agent_dir))).only_of(node_uid);
        let devices = simulated(config, agent_dir)?.map(|simulated| {
            let sample = move || Ok::<_, String>(simulated.sample());
            sensor::spawn("devices", config.device_interval, sample).map_err(refused)
        });
        let look = move || {
            let watched = watched.borrow().clone();
            processes.sample(&watched)
        };
        Ok(Self {
            devices: devices.transpose()?,
            volumes: sensor::spawn("disk", config.disk_interval, move || disk.sample())
                .map_err(refused)?,
            mounts,
            processes: sensor::spawn("process", config.process_interval, look).map_err(refused)?,
            pressure,
        })
    }

    /// Everything that is known now.
    pub(crate) fn sample(&self) -> NodeSample {
        let now = Instant::now();
        NodeSample {
            devices: self
                .devices
                .as_ref()
                .map_or_else(Sampled::default, |d| d.borrow().sampled(now)),
            volumes: self.volumes.borrow().sampled(now),
            mounts: self.mounts.borrow().sampled(now),
            processes: self.processes.borrow().sampled(now),
            pressure: self.pressure.borrow().sampled(now),
        }
    }

    /// How each sensor is doing.
    pub(crate) fn statuses(&self) -> Vec<pb::SensorStatus> {
        let now = Instant::now();
        let mut statuses: Vec<_> =
            self.devices.iter().map(|devices| status(&devices.borrow(), now)).collect();
        statuses.push(status(&self.volumes.borrow(), now));
        statuses.push(status(&self.mounts.borrow(), now));
        statuses.push(status(&self.processes.borrow(), now));
        statuses.push(status(&self.pressure.borrow(), now));
        statuses
    }

    /// Waits until a sensor has something new about devices, volumes, mounts or processes. Pressure alone wakes nobody:
    /// it changes all the time and decides nothing. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        let devices = async {
            match &mut self.devices {
                Some(devices) => devices.changed().await,
                None => std::future::pending().await,
            }
        };
        let closed = tokio::select! {
            result = devices => result.is_err(),
            result = self.volumes.changed() => result.is_err(),
            result = self.mounts.changed() => result.is_err(),
            result = self.processes.changed() => result.is_err(),
        };
        if closed {
            // A sensor's thread has died of a bug. Its reading gets old, which is how it shows; do not spin on it.
            tokio::time::sleep(SLOW_INTERVAL).await;
        }
    }
}

fn simulated(config: &Config, agent_dir: &Path) -> Result<Option<SimulatedSensor>, String> {
    if config.simulated.is_empty() {
        return Ok(None);
    }
    SimulatedSensor::create(agent_dir, config.node.as_str(), &config.simulated).map(Some)
}

fn status<T>(reading: &Reading<T>, now: Instant) -> pb::SensorStatus {
    pb::SensorStatus {
        name: reading.name.to_owned(),
        age_ms: reading.age_ms(now),
        sample_duration_us: reading.duration_ms.saturating_mul(1_000),
        error: reading.problem(now).unwrap_or_default(),
        errors: reading.failures,
    }
}
