//! All sensors of a node: started once, read by whoever reports.

use std::path::Path;
use std::time::{Duration, Instant};

use sluice::wire::pb;
use sluice_core::sample::{
    DeviceSample, GpuTableSample, MountTableSample, NodeSample, PressureSample, ProcessTableSample,
    Sampled, VolumeTableSample,
};
use sluice_core::volume::read_ahead::Asked;
use tokio::sync::watch;

use crate::clock;
use crate::config::Config;
use crate::sensor::disk::VolumeJudge;
use crate::sensor::gpu::{self, GpuReading, GpuSensor};
use crate::sensor::mounts::MountSensor;
use crate::sensor::pressure::PressureSensor;
use crate::sensor::process::{ProcessSensor, WatchedWorker};
use crate::sensor::simulated::{SimulatedSensor, devices_dir};
use crate::sensor::{self, Reading};
use crate::tune::{self, Setter, Told};

/// Time between two looks at mounts and at pressure. The kernel itself updates pressure every two seconds, and mounts
/// come and go with pods.
const SLOW_INTERVAL: Duration = Duration::from_secs(5);

/// The newest reading of every sensor. Cheap to clone; the sensors' threads end with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct Sensors {
    /// `None`: nothing is simulated.
    pub(crate) simulated: Option<watch::Receiver<Reading<Vec<DeviceSample>>>>,
    /// NVIDIA GPUs. `None`: there are none, or they are not to be asked.
    pub(crate) gpus: Option<GpuSensor>,
    /// Block devices.
    pub(crate) volumes: watch::Receiver<Reading<VolumeTableSample>>,
    /// Mounts of the host.
    pub(crate) mounts: watch::Receiver<Reading<MountTableSample>>,
    /// Workers and their processes.
    pub(crate) processes: watch::Receiver<Reading<ProcessTableSample>>,
    /// Pressure of the host.
    pub(crate) pressure: watch::Receiver<Reading<PressureSample>>,
    /// What the arbiter says that PersistentVolumes ask for.
    pub(crate) asked: watch::Sender<Asked>,
    /// Sets read-ahead, if it may.
    pub(crate) setter: Setter,
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
        let (told, telling) = watch::channel(Told::new());
        let (asked, asking) = watch::channel(Asked::new());
        let mut disk = VolumeJudge::new(root, &config.volumes, mounts.clone(), pressure.clone())
            .with_others(asking, telling);
        let volumes = sensor::spawn("disk", config.disk_interval, move || disk.sample());
        let volumes = volumes.map_err(refused)?;
        let setter = setter(config, told, volumes.clone(), mounts.clone())?;
        let mut processes =
            ProcessSensor::new(root, Some(&devices_dir(agent_dir))).only_of(node_uid);
        let gpus = GpuSensor::start(
            &config.nvml,
            root,
            agent_dir,
            config.device_interval,
            config.nvml_unresponsive,
        );
        let simulated = simulated(config, agent_dir)?.map(|simulated| {
            let sample = move || Ok::<_, String>(simulated.sample());
            sensor::spawn("devices", config.device_interval, sample).map_err(refused)
        });
        let look = move || {
            let watched = watched.borrow().clone();
            processes.sample(&watched)
        };
        Ok(Self {
            simulated: simulated.transpose()?,
            gpus: gpus.map_err(refused)?,
            volumes,
            asked,
            setter,
            mounts,
            processes: sensor::spawn("process", config.process_interval, look).map_err(refused)?,
            pressure,
        })
    }

    /// Everything that is known now.
    pub(crate) fn sample(&self) -> NodeSample {
        let now = Instant::now();
        NodeSample {
            devices: self.devices(now),
            gpus: self.gpus.as_ref().map_or_else(Sampled::default, |gpus| gpus.table(now)),
            volumes: self.volumes.borrow().sampled(now),
            mounts: self.mounts.borrow().sampled(now),
            processes: self.processes.borrow().sampled(now),
            pressure: self.pressure.borrow().sampled(now),
        }
    }

    /// What is known of NVIDIA GPUs, their age as of now. `None`: nobody looks for any.
    pub(crate) fn gpu_table(&self) -> Option<GpuTableSample> {
        self.gpus.as_ref()?.table(Instant::now()).value
    }

    /// Accelerators of all sorts. With both sorts, the age is that of the real ones.
    fn devices(&self, now: Instant) -> Sampled<Vec<DeviceSample>> {
        let simulated = self.simulated.as_ref().map(|devices| devices.borrow().sampled(now));
        match (&self.gpus, simulated) {
            (None, None) => Sampled::default(),
            (None, Some(simulated)) => simulated,
            (Some(gpus), simulated) => {
                let mut devices = gpus.devices(now);
                let simulated = simulated.and_then(|simulated| simulated.value);
                devices.value.get_or_insert_default().extend(simulated.into_iter().flatten());
                devices
            }
        }
    }

    /// How each sensor is doing.
    pub(crate) fn statuses(&self) -> Vec<pb::SensorStatus> {
        let now = Instant::now();
        let mut statuses: Vec<_> =
            self.simulated.iter().map(|devices| status(&devices.borrow(), now)).collect();
        statuses.extend(self.gpus.as_ref().map(|gpus| gpu_status(&gpus.reading(), now)));
        statuses.push(status(&self.volumes.borrow(), now));
        statuses.push(status(&self.mounts.borrow(), now));
        statuses.push(status(&self.processes.borrow(), now));
        statuses.push(status(&self.pressure.borrow(), now));
        statuses
    }

    /// Waits until a sensor has something new about devices, volumes, mounts or processes. Pressure alone wakes nobody:
    /// it changes all the time and decides nothing. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        let simulated = async {
            match &mut self.simulated {
                Some(devices) => devices.changed().await,
                None => std::future::pending().await,
            }
        };
        let gpus = async {
            match &mut self.gpus {
                Some(gpus) => gpus.changed().await,
                None => std::future::pending().await,
            }
        };
        let closed = tokio::select! {
            result = simulated => result.is_err(),
            is_open = gpus => !is_open,
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

fn setter(
    config: &Config,
    told: watch::Sender<Told>,
    volumes: watch::Receiver<Reading<VolumeTableSample>>,
    mounts: watch::Receiver<Reading<MountTableSample>>,
) -> Result<Setter, String> {
    Setter::start(tune::Parts {
        root: config.host_root.clone(),
        journal_dir: config.paths.agent_read_ahead_dir(&config.node),
        boot_id: clock::boot_id()?,
        rules: config.volumes.rules,
        opted_in: config.volumes.tuned.clone(),
        node_limit: config.volumes.node_limit,
        period: config.disk_interval,
        volumes,
        mounts,
        told,
    })
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

/// The GPU sensor always answers; what counts is whether the driver does.
fn gpu_status(reading: &Reading<GpuReading>, now: Instant) -> pb::SensorStatus {
    let table = reading.value.as_ref().map(|value| &value.table);
    let passed = reading.age_ms(now).unwrap_or_default();
    let told_ms = table.and_then(|table| table.gpus_age_ms);
    let look_ms = table.and_then(|table| table.look_ms).unwrap_or_default();
    pb::SensorStatus {
        age_ms: told_ms.map(|age| age.saturating_add(passed)),
        sample_duration_us: look_ms.saturating_mul(1_000),
        error: gpu::problem(reading, now).unwrap_or_default(),
        errors: table.map_or(0, |table| table.missed_looks.into()),
        ..status(reading, now)
    }
}
