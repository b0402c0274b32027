//! Whether anybody uses a device, by what its driver says: processes that compute on it, and its memory.
//!
//! Open files say nothing here: persistence daemons, exporters and this agent's own child hold them all day long.

use std::collections::BTreeMap;

use sluice_core::sample::{DeviceSample, GpuTableSample};

/// Memory in use of a device that nobody uses, at most, before it was ever seen idle. Contexts of a display or of a
/// persistence daemon take some hundred MiB; a training takes gigabytes. Twice as much would hide a small server.
const IDLE_BYTES_MAX: u64 = 1 << 30;

/// By how much memory in use may differ from the least ever seen and still count as back.
const SLACK_BYTES: u64 = 256 << 20;

/// The GPU is lost, or has to be reset: nothing computes on it any more. Source: `nvml.h`, `nvmlReturn_t`.
const NVML_LOST: u32 = 15;
const NVML_RESET_REQUIRED: u32 = 16;

/// Knows the least memory in use of each device while nobody computed on it.
#[derive(Debug, Default)]
pub(super) struct Usage {
    idle_bytes: BTreeMap<String, u64>,
}

impl Usage {
    /// Which devices are in use, by id. A device of which that was not told is left out; one that is lost or not there is not in use.
    pub(super) fn of(
        &mut self,
        table: &GpuTableSample,
        devices: &[DeviceSample],
    ) -> BTreeMap<String, bool> {
        let lost = |device: &DeviceSample| {
            table.gpus.iter().find(|gpu| gpu.pci == device.pci).and_then(|gpu| gpu.lost)
        };
        let told = |device: &DeviceSample| {
            let is_busy = match lost(device) {
                Some(NVML_LOST | NVML_RESET_REQUIRED) => false,
                // Refused for another reason, as by a container without its device files: others may compute on it.
                Some(_) => return None,
                None => device.is_present && self.is_busy(device)?,
            };
            Some((device.id.clone(), is_busy))
        };
        devices.iter().filter_map(told).collect()
    }

    fn is_busy(&mut self, device: &DeviceSample) -> Option<bool> {
        if !device.computing.as_ref()?.is_empty() {
            return Some(true);
        }
        let used = device.memory_used_bytes?;
        let known = self.idle_bytes.get(&device.id).copied();
        let limit = known.map_or(IDLE_BYTES_MAX, |least| least.saturating_add(SLACK_BYTES));
        if used > limit {
            return Some(true);
        }
        let least = known.map_or(used, |least| least.min(used));
        self.idle_bytes.insert(device.id.clone(), least);
        Some(false)
    }
}
