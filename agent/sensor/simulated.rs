//! Accelerators that are not there: for trying Sluice on a machine without any, and for tests.
//!
//! Each is backed by an empty file `<state>/devices/<id>`; a process that has it open holds the
//! device. Removing the file takes the device away, as a GPU falling off the bus would.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use sluice_core::sample::{DeviceFile, DeviceSample, PciAddress};

#[cfg(test)]
mod tests;

/// Kinds of accelerators, with the source and date of their figures.
const ACCELERATORS: &str = include_str!("simulated/accelerators.json");

/// Most devices simulated on one node; the largest real hosts have 16.
const DEVICES_MAX: u32 = 64;

/// Begins the name of each simulated device.
const PREFIX: &str = "sim-";

#[derive(Deserialize)]
struct AcceleratorTable {
    accelerators: Vec<Accelerator>,
}

/// One kind of accelerator. The file also states `source` and `as_of`, which are for people.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Accelerator {
    kind: String,
    resource_name: String,
    memory_bytes: u64,
    /// Words that are all in the name which the driver gives such a product. None: not told by a driver.
    #[serde(default)]
    product_words: Vec<String>,
}

/// `KIND=COUNT` of the flag `--simulate`: so many devices of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Simulated {
    accelerator: Accelerator,
    count: u32,
}

impl FromStr for Simulated {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let table = accelerators();
        let kind_text = text.split('=').next().unwrap_or(text);
        let Some(accelerator) = table.into_iter().find(|known| known.kind == kind_text) else {
            let kinds: Vec<String> = accelerators().into_iter().map(|known| known.kind).collect();
            return Err(format!(
                "--simulate names the accelerator \"{kind_text}\", which is not known; use KIND=COUNT with one of {}",
                kinds.join(", ")
            ));
        };
        let count = text.split_once('=').and_then(|(_, count)| count.parse().ok());
        let count = count.filter(|count| (1..=DEVICES_MAX).contains(count)).ok_or_else(|| {
            format!(
                "--simulate is \"{text}\" but must be KIND=COUNT with a count of 1 to {DEVICES_MAX}"
            )
        })?;
        Ok(Simulated { accelerator, count })
    }
}

/// The data file's kinds.
fn accelerators() -> Vec<Accelerator> {
    let table: AcceleratorTable = serde_json::from_str(ACCELERATORS)
        .expect("the built-in table of accelerators is parsed by a test");
    table.accelerators
}

/// Kinds by the words in their products' names, those with most words first.
pub(crate) fn kinds_by_product() -> Vec<(Vec<String>, String)> {
    let told = accelerators().into_iter().filter(|known| !known.product_words.is_empty());
    let mut kinds: Vec<_> = told.map(|known| (known.product_words, known.kind)).collect();
    kinds.sort_by_key(|(words, _)| std::cmp::Reverse(words.len()));
    kinds
}

/// The simulated devices of one node.
#[derive(Debug)]
pub(crate) struct SimulatedSensor {
    devices: Vec<(PathBuf, DeviceSample)>,
}

impl SimulatedSensor {
    /// Creates the backing files of all devices in `<state_dir>/devices`; files already there are
    /// kept as they are.
    ///
    /// # Errors
    /// The node's name cannot be part of a file name, there are more than 64 devices, or a file
    /// cannot be created.
    pub(crate) fn create(
        state_dir: &Path,
        node: &str,
        simulated: &[Simulated],
    ) -> Result<SimulatedSensor, String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if node.is_empty() || !node.chars().all(is_plain) {
            return Err(format!(
                "node name \"{node}\" cannot name simulated devices; use letters, digits, \"-\", \".\" and \"_\" only"
            ));
        }
        let total: u32 = simulated.iter().map(|some| some.count).sum();
        if total > DEVICES_MAX {
            return Err(format!(
                "--simulate asks for {total} devices but one node has at most {DEVICES_MAX}"
            ));
        }
        let dir = devices_dir(state_dir);
        fs::create_dir_all(&dir).map_err(|error| could_not_create(&dir, &error))?;
        let kinds = simulated.iter().flat_map(|some| (0..some.count).map(|_| &some.accelerator));
        let mut devices = Vec::new();
        for (index, accelerator) in (0..DEVICES_MAX).zip(kinds) {
            let device = new_device(node, index, accelerator);
            let path = dir.join(&device.id);
            OpenOptions::new()
                .append(true)
                .create(true)
                .open(&path)
                .map_err(|error| could_not_create(&path, &error))?;
            devices.push((path, device));
        }
        Ok(SimulatedSensor { devices })
    }

    /// The devices now, in the order of their index.
    pub(crate) fn sample(&self) -> Vec<DeviceSample> {
        let seen = |(path, device): &(PathBuf, DeviceSample)| DeviceSample {
            is_present: path.exists(),
            ..device.clone()
        };
        self.devices.iter().map(seen).collect()
    }
}

/// Where the backing files lie.
pub(crate) fn devices_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("devices")
}

/// Whether a device of this name is simulated: no real one is named so.
pub(crate) fn is_simulated(id: &str) -> bool {
    id.starts_with(PREFIX)
}

fn new_device(node: &str, index: u32, accelerator: &Accelerator) -> DeviceSample {
    let id = format!("{PREFIX}{node}-{index}");
    DeviceSample {
        file: Some(DeviceFile::Simulated(id.clone())),
        id,
        kind: accelerator.kind.clone(),
        resource_name: accelerator.resource_name.clone(),
        index,
        is_simulated: true,
        is_present: true,
        parent: None,
        pci: Some(address(index)),
        memory_bytes: Some(accelerator.memory_bytes),
        memory_used_bytes: None,
        computing: None,
    }
}

/// A place on the bus where no real device can be: real domains have 16 or, behind some controllers, 17 bits.
fn address(index: u32) -> PciAddress {
    let bus = u8::try_from(index).unwrap_or(u8::MAX);
    PciAddress { domain: 0x00ff_ff00, bus, device: 0, function: 0 }
}

fn could_not_create(path: &Path, error: &std::io::Error) -> String {
    format!(
        "could not create \"{}\" for a simulated device: {error}; give the agent a state directory it may write to",
        path.display()
    )
}
