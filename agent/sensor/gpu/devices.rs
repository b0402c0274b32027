//! GPUs as devices that can be given to workers.

use std::collections::BTreeMap;
use std::path::Path;

use sluice_core::sample::{
    DeviceFile, DeviceSample, DriverState, GpuProcess, GpuSample, GpuTableSample, MigInstance,
};

use super::kept::Kept;
use crate::sensor::simulated::kinds_by_product;
use crate::sensor::tree::HostTree;

/// By what GPUs are requested from Kubernetes.
const RESOURCE: &str = "nvidia.com/gpu";

/// Knows the devices of before, so that one that is gone is told as gone.
#[derive(Debug)]
pub(super) struct Devices {
    tree: HostTree,
    /// Kinds by the words in products' names, those with most words first.
    kinds: Vec<(Vec<String>, String)>,
    seen: BTreeMap<String, DeviceSample>,
    kept: Kept,
}

impl Devices {
    pub(super) fn new(host_root: &Path, mut kept: Kept) -> Self {
        let before = kept.devices().into_iter().map(|device| (device.id.clone(), device));
        let seen = before.collect();
        Self { tree: HostTree::new(host_root), kinds: kinds_by_product(), seen, kept }
    }

    /// The devices by `table`, ordered by index and part.
    ///
    /// A GPU that was told once stays, as not present, when the driver no longer lists it; a part that was taken away
    /// does not, as that is done on purpose.
    pub(super) fn of(&mut self, table: &GpuTableSample) -> Vec<DeviceSample> {
        let is_answer = matches!(table.driver, DriverState::Running { .. });
        if is_answer {
            self.update(&table.gpus);
        }
        let mut devices: Vec<DeviceSample> = self.seen.values().cloned().collect();
        devices.sort_by(|a, b| (a.index, &a.id).cmp(&(b.index, &b.id)));
        devices
    }

    fn update(&mut self, gpus: &[GpuSample]) {
        let now: BTreeMap<String, DeviceSample> = gpus
            .iter()
            .flat_map(|gpu| self.of_gpu(gpu))
            .map(|device| (device.id.clone(), device))
            .collect();
        let answers = |uuid: &String| {
            gpus.iter().any(|gpu| gpu.uuid.as_ref() == Some(uuid) && gpu.lost.is_none())
        };
        self.seen.retain(|id, device| {
            device.is_present &= now.contains_key(id);
            match &device.parent {
                Some(parent) => !answers(parent),
                None => !answers(id),
            }
        });
        self.seen.extend(now);
        self.kept.keep(self.seen.values());
    }

    fn of_gpu(&mut self, gpu: &GpuSample) -> Vec<DeviceSample> {
        // A GPU that never told its name cannot be given to anybody, nor taken from anybody.
        let Some(uuid) = &gpu.uuid else { return Vec::new() };
        let whole = DeviceSample {
            id: uuid.clone(),
            kind: self.kind(gpu.name.as_deref().unwrap_or_default()),
            resource_name: RESOURCE.to_owned(),
            index: gpu.index,
            is_simulated: false,
            is_present: gpu.lost.is_none(),
            parent: None,
            pci: gpu.pci,
            file: gpu.minor.map(DeviceFile::Nvidia),
            memory_bytes: gpu.memory.total_bytes,
            memory_used_bytes: gpu.memory.used_bytes,
            computing: gpu.processes.as_deref().map(pids),
        };
        if gpu.lost.is_some() {
            // Of one that was split, the parts are gone.
            let was_split = self.seen.values().any(|d| d.parent.as_ref() == Some(uuid));
            return if was_split { Vec::new() } else { vec![whole] };
        }
        if gpu.mig.is_enabled != Some(true) {
            return vec![whole];
        }
        gpu.mig.instances.iter().filter_map(|part| self.of_part(&whole, gpu, part)).collect()
    }

    fn of_part(
        &mut self,
        whole: &DeviceSample,
        gpu: &GpuSample,
        part: &MigInstance,
    ) -> Option<DeviceSample> {
        let profile = part.name.as_deref().and_then(profile);
        Some(DeviceSample {
            id: part.uuid.clone()?,
            resource_name: profile
                .map_or_else(|| RESOURCE.to_owned(), |profile| format!("nvidia.com/mig-{profile}")),
            parent: Some(whole.id.clone()),
            file: self.part_file(gpu, part).map(DeviceFile::NvidiaCap),
            memory_bytes: part.memory.total_bytes,
            memory_used_bytes: part.memory.used_bytes,
            computing: part.processes.as_deref().map(pids),
            ..whole.clone()
        })
    }

    /// The kind by a product's name: the data file's, else one made of the name.
    fn kind(&self, name: &str) -> String {
        let words: Vec<&str> = name.split([' ', '-']).collect();
        let is_meant = |(needed, _): &&(Vec<String>, String)| {
            needed.iter().all(|word| words.contains(&word.as_str()))
        };
        let known = self.kinds.iter().find(is_meant);
        known.map_or_else(|| slug(name), |(_, kind)| kind.clone())
    }

    /// The number of the file by which a part is opened: the line `DeviceFileMinor: 30` of the driver's list.
    fn part_file(&mut self, gpu: &GpuSample, part: &MigInstance) -> Option<u32> {
        let (minor, gi, ci) = (gpu.minor?, part.gpu_instance?, part.compute_instance?);
        let path = format!("proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{gi}/ci{ci}/access");
        let text = self.tree.text(&path)?;
        let minor = text.lines().find_map(|line| line.strip_prefix("DeviceFileMinor:"))?;
        minor.trim().parse().ok()
    }
}

fn pids(processes: &[GpuProcess]) -> Vec<u32> {
    processes.iter().map(|process| process.pid).collect()
}

/// `1g.10gb` of `NVIDIA H100 80GB HBM3 MIG 1g.10gb`.
fn profile(name: &str) -> Option<&str> {
    name.rsplit_once(" MIG ").map(|(_, profile)| profile)
}

/// A product's name in lower case with dashes.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars().take(64) {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-').trim_start_matches("nvidia-");
    if slug.is_empty() { "nvidia-gpu".to_owned() } else { format!("nvidia-{slug}") }
}
