//! NVIDIA GPUs: what their driver says, by way of [`crate::nvml`], and what the PCI bus shows without it.
//!
//! The thread answers on its grid whatever the driver does: a driver that hangs makes its GPUs old, and is said to.

mod devices;
mod kept;
mod pci;
mod usage;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use sluice_core::sample::{DeviceSample, DriverState, GpuTableSample, Sampled, nvml_code};
use tokio::sync::watch;

use self::devices::Devices;
use self::kept::Kept;
use self::pci::PciScan;
use self::usage::Usage;
use super::Reading;
use crate::clock::boot_id;
use crate::nvml::{Control, Listener, Order, Settings, Supervisor, usual_libraries};

/// Name of the thread and of the sensor.
const NAME: &str = "gpu";

/// Pause between two looks whether the driver has told who uses a device.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Whether and how NVIDIA's library is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NvmlChoice {
    /// Never.
    Off,
    /// If there is a GPU on the bus or a library where it usually is.
    Auto,
    /// This one.
    Library(PathBuf),
}

/// One look at all GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GpuReading {
    /// What was found.
    pub(crate) table: GpuTableSample,
    /// The same as devices to be given to workers, parts of split GPUs in place of the GPU.
    pub(crate) devices: Vec<DeviceSample>,
    /// Whether devices are in use, by id; a device of which that was not told is left out.
    pub(crate) busy: BTreeMap<String, bool>,
    /// When the driver was asked for `table.gpus`. `None`: never.
    pub(crate) asked_at: Option<Instant>,
}

/// The sensor as others have it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct GpuSensor {
    reading: watch::Receiver<Reading<GpuReading>>,
    control: Control,
}

impl GpuSensor {
    /// Starts it on a thread of its own. `None`: there is nothing to ask. The devices of this boot are kept in
    /// `agent_dir`.
    ///
    /// # Errors
    /// The system refuses a thread or files.
    pub(crate) fn start(
        choice: &NvmlChoice,
        host_root: &Path,
        agent_dir: &Path,
        interval: Duration,
        unresponsive_after: Duration,
    ) -> io::Result<Option<Self>> {
        let mut pci = PciScan::new(host_root);
        let libraries = match choice {
            NvmlChoice::Off => return Ok(None),
            NvmlChoice::Library(path) => vec![path.clone()],
            NvmlChoice::Auto => {
                let usual = usual_libraries(host_root);
                let has_gpu = pci.gpus().is_some_and(|gpus| !gpus.is_empty());
                if !has_gpu && !usual.iter().any(|path| path.is_absolute() && path.exists()) {
                    return Ok(None);
                }
                usual
            }
        };
        let boot_id = boot_id().map_err(io::Error::other)?;
        let (control, listener) = Control::new()?;
        let now = Instant::now();
        let (sender, reading) = watch::channel(Reading::starting(NAME, interval, now));
        let looker = Looker {
            supervisor: Supervisor::new(Settings::new(libraries, interval, unresponsive_after)),
            pci,
            devices: Devices::new(host_root, Kept::new(agent_dir.join("gpus.json"), boot_id)),
            usage: Usage::default(),
            listener,
            interval,
        };
        thread::Builder::new().name(NAME.to_owned()).spawn(move || looker.run(&sender))?;
        Ok(Some(Self { reading, control }))
    }

    /// The newest reading.
    pub(crate) fn reading(&self) -> Reading<GpuReading> {
        self.reading.borrow().clone()
    }

    /// The newest facts and their age. The table says itself how old what the driver told is, as of `now`.
    pub(crate) fn table(&self, now: Instant) -> Sampled<GpuTableSample> {
        let reading = self.reading.borrow();
        let sampled = reading.sampled(now);
        let passed = sampled.age_ms.unwrap_or_default();
        let as_of_now = |table: GpuTableSample| GpuTableSample {
            gpus_age_ms: table.gpus_age_ms.map(|age| age.saturating_add(passed)),
            ..table
        };
        Sampled {
            value: sampled.value.map(|value| as_of_now(value.table)),
            age_ms: sampled.age_ms,
            duration_ms: sampled.duration_ms,
            error: sampled.error,
        }
    }

    /// The newest devices. Their age is that of the driver's answer.
    pub(crate) fn devices(&self, now: Instant) -> Sampled<Vec<DeviceSample>> {
        let reading = self.reading.borrow();
        let value = reading.value.as_ref();
        let passed = reading.age_ms(now).unwrap_or_default();
        let told_ms = value.and_then(|value| value.table.gpus_age_ms);
        Sampled {
            value: value.map(|value| value.devices.clone()),
            age_ms: told_ms.map(|age| age.saturating_add(passed)),
            duration_ms: value.and_then(|value| value.table.look_ms).unwrap_or_default(),
            error: problem(&reading, now),
        }
    }

    /// Waits for the next reading; `false`: there will be none. Cancel safe.
    pub(crate) async fn changed(&mut self) -> bool {
        self.reading.changed().await.is_ok()
    }

    /// Whether `device` is in use, as the driver tells when asked after `moment`; waits for that, at most `timeout`.
    /// `None`: it does not tell.
    pub(crate) fn is_busy(&self, device: &str, moment: Instant, timeout: Duration) -> Option<bool> {
        let deadline = Instant::now() + timeout;
        let mut is_hurried = false;
        loop {
            {
                let reading = self.reading.borrow();
                let newest = reading.value.as_ref();
                if let Some(newest) =
                    newest.filter(|new| new.asked_at.is_some_and(|at| at >= moment))
                {
                    return newest.busy.get(device).copied();
                }
            }
            if Instant::now() >= deadline {
                return None;
            }
            if !is_hurried {
                self.control.hurry();
                is_hurried = true;
            }
            thread::sleep(BUSY_PAUSE);
        }
    }

    /// Closes every file of the driver until `until`, and waits until that is done; `false`: it was not done in time.
    pub(crate) async fn release(&self, until: Instant, timeout: Duration) -> bool {
        self.control.give(Order::Release { until });
        let mut reading = self.reading.clone();
        let is_released = |reading: &Reading<GpuReading>| {
            let table = reading.value.as_ref().map(|value| &value.table);
            table.is_some_and(|table| matches!(table.driver, DriverState::Released { .. }))
        };
        tokio::time::timeout(timeout, reading.wait_for(is_released)).await.is_ok_and(|r| r.is_ok())
    }

    /// Asks the driver again.
    pub(crate) fn resume(&self) {
        self.control.give(Order::Ask);
    }

    /// Ends the child properly, and waits a moment for that.
    pub(crate) async fn stop(&self, timeout: Duration) {
        self.control.give(Order::Stop);
        let mut reading = self.reading.clone();
        let closed = async { while reading.changed().await.is_ok() {} };
        // What does not end in time ends with this process.
        let _ = tokio::time::timeout(timeout, closed).await;
    }
}

/// What is wrong, in one line. `None`: the driver answers, or is left alone on purpose.
pub(crate) fn problem(reading: &Reading<GpuReading>, now: Instant) -> Option<String> {
    if let Some(problem) = reading.problem(now) {
        return Some(problem);
    }
    let table = &reading.value.as_ref()?.table;
    match &table.driver {
        DriverState::Running { .. } | DriverState::Released { .. } if table.missed_looks < 2 => None,
        DriverState::Running { .. } | DriverState::Released { .. } | DriverState::Starting => {
            (table.missed_looks >= 2).then(|| {
                format!("the NVIDIA driver has not answered {} looks", table.missed_looks)
            })
        }
        DriverState::NotLoaded => Some("the NVIDIA driver is not loaded".to_owned()),
        DriverState::Mismatch => Some(
            "the NVIDIA driver and its library are of different versions; an upgrade is under way or needs a reboot"
                .to_owned(),
        ),
        DriverState::LibraryMissing { why } => Some(format!(
            "NVIDIA's library cannot be loaded: {why}; mount the driver's directory or name the library with --nvml"
        )),
        DriverState::Unresponsive { since_ms, is_stuck_in_kernel } => {
            let stuck = if *is_stuck_in_kernel { ", and the call cannot be ended" } else { "" };
            Some(format!("the NVIDIA driver has not answered for {since_ms} ms{stuck}"))
        }
        DriverState::Failed { code: Some(code), text } => {
            let name = nvml_code(*code).unwrap_or(text);
            Some(format!("NVIDIA's library does not start: {name} ({code})"))
        }
        DriverState::Failed { code: None, text } => Some(text.clone()),
    }
}

/// The thread.
struct Looker {
    supervisor: Supervisor,
    pci: PciScan,
    devices: Devices,
    usage: Usage,
    listener: Listener,
    interval: Duration,
}

impl Looker {
    /// Looks until told to stop, or nobody listens any more.
    fn run(mut self, sender: &watch::Sender<Reading<GpuReading>>) {
        let mut next = Instant::now();
        loop {
            let started = Instant::now();
            let reading = self.look();
            let finished = Instant::now();
            sender.send_modify(|newest| newest.record::<String>(started, finished, Ok(reading)));
            let is_stopping = self.listener.order(finished) == Order::Stop || sender.is_closed();
            if is_stopping && !self.supervisor.has_child() {
                return;
            }
            next = super::next_start(next, self.interval, finished);
            let step = self.supervisor.next_step().map(|step| finished + step);
            self.listener.sleep_until(step.map_or(next, |step| step.min(next)));
        }
    }

    fn look(&mut self) -> GpuReading {
        self.supervisor.turn(&self.listener);
        let now = Instant::now();
        let driver = &self.supervisor;
        let ms = |since: Duration| u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let table = GpuTableSample {
            driver: driver.driver.clone(),
            gpus: driver.gpus.clone(),
            gpus_age_ms: driver.answered_at.map(|at| ms(now.saturating_duration_since(at))),
            missed_looks: driver.missed_looks,
            look_ms: driver.look.map(ms),
            pci: self.pci.gpus(),
            probe_restarts: driver.restarts(),
        };
        let devices = self.devices.of(&table);
        let busy = self.usage.of(&table, &devices);
        GpuReading { table, devices, busy, asked_at: driver.answered_at }
    }
}
