//! GPUs on the PCI bus, from sysfs: there even where the driver is not.

use std::path::Path;
use std::time::{Duration, Instant};

use sluice_core::sample::{PciAddress, PciGpu};

use crate::sensor::tree::HostTree;

/// Devices looked at; the largest hosts have some hundred.
const DEVICES_MAX: usize = 8_192;

/// NVIDIA's number.
const VENDOR: &str = "0x10de";

/// Class of a display controller and of one without display; the last byte, the programming interface, is cut off.
const CLASSES: [&str; 2] = ["0x0300", "0x0302"];

/// Time between two passes over the whole bus. GPUs do not appear but by a rescan; one that is gone is seen at once.
const RESCAN_INTERVAL: Duration = Duration::from_secs(60);

const DEVICES: &str = "sys/bus/pci/devices";

/// Looks below a host's root.
#[derive(Debug)]
pub(super) struct PciScan {
    tree: HostTree,
    /// Names of the GPUs' directories at the last pass over the whole bus, and when that was.
    found: Option<(Vec<String>, Instant)>,
}

impl PciScan {
    pub(super) fn new(host_root: &Path) -> Self {
        Self { tree: HostTree::new(host_root), found: None }
    }

    /// The GPUs that are on the bus now, ordered by address. `None`: the bus cannot be listed.
    pub(super) fn gpus(&mut self) -> Option<Vec<PciGpu>> {
        let now = Instant::now();
        let is_fresh = |(_, at): &&(Vec<String>, Instant)| {
            now.saturating_duration_since(*at) < RESCAN_INTERVAL
        };
        let names = match self.found.as_ref().filter(is_fresh) {
            Some((names, _)) => names.clone(),
            None => {
                let names = self.scan()?;
                self.found = Some((names.clone(), now));
                names
            }
        };
        let mut gpus: Vec<PciGpu> = names.iter().filter_map(|name| self.gpu(name)).collect();
        gpus.sort_by_key(|gpu| gpu.address);
        Some(gpus)
    }

    fn scan(&mut self) -> Option<Vec<String>> {
        let mut names = self.tree.names(DEVICES, DEVICES_MAX).ok()?;
        names.retain(|name| self.is_gpu(name));
        Some(names)
    }

    fn is_gpu(&mut self, name: &str) -> bool {
        let mut attribute = |file: &str| self.tree.text(&format!("{DEVICES}/{name}/{file}"));
        attribute("vendor").as_deref() == Some(VENDOR)
            && attribute("class").is_some_and(|class| CLASSES.iter().any(|c| class.starts_with(c)))
    }

    /// `None`: it is gone.
    fn gpu(&mut self, name: &str) -> Option<PciGpu> {
        let file = |attribute: &str| format!("{DEVICES}/{name}/{attribute}");
        let address: PciAddress = name.parse().ok()?;
        let device = self.tree.text(&file("device"))?;
        let device_id = device.strip_prefix("0x").and_then(|id| u16::from_str_radix(id, 16).ok());
        Some(PciGpu {
            address,
            device_id,
            driver: self.tree.link_name(&file("driver")),
            link_width: self.tree.number(&file("current_link_width")).filter(|width| *width != 0),
            link_width_max: self.tree.number(&file("max_link_width")).filter(|width| *width < 255),
        })
    }
}
