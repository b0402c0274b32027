//! The devices of this boot, kept over restarts of the agent: while the driver hangs or is upgraded, an agent that has just
//! started still knows which devices there are, and that it does not know how they do.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sluice_core::sample::{DeviceFile, DeviceSample};
use tracing::warn;

/// Where they are kept, and for which boot: after another one the GPUs may be others.
#[derive(Debug)]
pub(super) struct Kept {
    file: PathBuf,
    boot_id: String,
    written: Vec<Device>,
}

#[derive(Serialize, Deserialize)]
struct Content {
    boot_id: String,
    devices: Vec<Device>,
}

/// What does not change of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Device {
    id: String,
    kind: String,
    resource_name: String,
    index: u32,
    parent: Option<String>,
    pci: Option<String>,
    nvidia_minor: Option<u32>,
    nvidia_cap_minor: Option<u32>,
    memory_bytes: Option<u64>,
}

impl From<&DeviceSample> for Device {
    fn from(device: &DeviceSample) -> Self {
        let (nvidia_minor, nvidia_cap_minor) = match device.file {
            Some(DeviceFile::Nvidia(minor)) => (Some(minor), None),
            Some(DeviceFile::NvidiaCap(minor)) => (None, Some(minor)),
            Some(DeviceFile::Accel(_) | DeviceFile::Vfio(_) | DeviceFile::Simulated(_)) | None => {
                (None, None)
            }
        };
        Device {
            id: device.id.clone(),
            kind: device.kind.clone(),
            resource_name: device.resource_name.clone(),
            index: device.index,
            parent: device.parent.clone(),
            pci: device.pci.map(|pci| pci.to_string()),
            nvidia_minor,
            nvidia_cap_minor,
            memory_bytes: device.memory_bytes,
        }
    }
}

impl Device {
    fn sample(&self) -> DeviceSample {
        let gpu = self.nvidia_minor.map(DeviceFile::Nvidia);
        DeviceSample {
            id: self.id.clone(),
            kind: self.kind.clone(),
            resource_name: self.resource_name.clone(),
            index: self.index,
            is_simulated: false,
            is_present: true,
            parent: self.parent.clone(),
            pci: self.pci.as_ref().and_then(|pci| pci.parse().ok()),
            file: gpu.or(self.nvidia_cap_minor.map(DeviceFile::NvidiaCap)),
            memory_bytes: self.memory_bytes,
            memory_used_bytes: None,
            computing: None,
        }
    }
}

impl Kept {
    pub(super) fn new(file: PathBuf, boot_id: String) -> Self {
        Self { file, boot_id, written: Vec::new() }
    }

    /// The devices of before. A file that cannot be read, or is of another boot, is none: the driver will tell.
    pub(super) fn devices(&mut self) -> Vec<DeviceSample> {
        let bytes = fs::read(&self.file).unwrap_or_default();
        let content = serde_json::from_slice(&bytes).ok();
        let content = content.filter(|content: &Content| content.boot_id == self.boot_id);
        self.written = content.map(|content| content.devices).unwrap_or_default();
        self.written.iter().map(Device::sample).collect()
    }

    /// Keeps `devices`, if they are others than before.
    pub(super) fn keep<'a>(&mut self, devices: impl Iterator<Item = &'a DeviceSample>) {
        let devices: Vec<Device> = devices.map(Device::from).collect();
        if devices == self.written {
            return;
        }
        let content = Content { boot_id: self.boot_id.clone(), devices: devices.clone() };
        let new = self.file.with_extension("new");
        let written = serde_json::to_vec(&content)
            .map_err(std::io::Error::other)
            .and_then(|bytes| fs::write(&new, bytes))
            .and_then(|()| fs::rename(&new, &self.file));
        if let Err(error) = written {
            let file = self.file.display();
            warn!(
                "\"{file}\" could not be written: {error}; after a restart devices are unknown until the driver answers"
            );
        }
        // Also after a failure: it is tried again when the devices change, not at each look.
        self.written = devices;
    }
}
