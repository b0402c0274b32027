//! What a node needs so that the health of its GPUs is known: the kernel's log, the driver, its library, the fabric.

use std::fs;
use std::path::Path;

use sluice::wire::pb;

use super::report::{Outcome, Report};
use crate::text::{count, safe};

const CATEGORY: &str = "GPUs of this machine";

/// NVIDIA's number as a maker of PCI devices.
const NVIDIA: &str = "0x10de";
/// Classes of GPUs on the bus: display controllers with and without outputs.
const CLASSES: [&str; 2] = ["0x0300", "0x0302"];
/// Class of an `NVSwitch`: a bridge of no further kind.
const SWITCH_CLASS: &str = "0x0680";

/// Where the driver's library is looked for, besides by the loader.
const LIBRARIES: [&str; 5] = [
    "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "usr/lib64/libnvidia-ml.so.1",
    "usr/lib/libnvidia-ml.so.1",
    "home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1",
];

/// What this machine has, below `root`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// GPUs on the bus.
    pub(super) gpus: usize,
    /// Switches on the bus.
    pub(super) switches: usize,
    /// The driver's module is loaded, in this version.
    pub(super) driver: Option<String>,
    /// Where the driver's library is.
    pub(super) library: Option<String>,
    /// The fabric manager runs.
    pub(super) has_fabric_manager: bool,
}

impl Facts {
    /// Looks.
    pub(super) fn look(root: &Path) -> Self {
        let read = |path: &Path| fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
        let mut facts = Self {
            driver: read(&root.join("sys/module/nvidia/version")),
            library: LIBRARIES
                .iter()
                .find(|path| root.join(path).exists())
                .map(|p| format!("/{p}")),
            has_fabric_manager: runs(root, "nv-fabricmanager"),
            ..Self::default()
        };
        for entry in fs::read_dir(root.join("sys/bus/pci/devices")).into_iter().flatten().flatten()
        {
            let path = entry.path();
            if read(&path.join("vendor")).as_deref() != Some(NVIDIA) {
                continue;
            }
            let class = read(&path.join("class")).unwrap_or_default();
            if CLASSES.iter().any(|known| class.starts_with(known)) {
                facts.gpus += 1;
            } else if class.starts_with(SWITCH_CLASS) {
                facts.switches += 1;
            }
        }
        facts
    }
}

/// Whether a process of this name runs. The kernel cuts names to 15 bytes.
fn runs(root: &Path, name: &str) -> bool {
    let name = name.get(..15).unwrap_or(name);
    let processes = fs::read_dir(root.join("proc")).into_iter().flatten().flatten();
    let mut names = processes.filter_map(|p| fs::read_to_string(p.path().join("comm")).ok());
    names.any(|running| running.trim_end() == name)
}

/// Checks this machine, if it has GPUs.
pub(super) fn check(report: &mut Report, facts: &Facts) {
    if facts.gpus == 0 {
        return;
    }
    let gpus = count(facts.gpus, "GPU");
    let driver = match &facts.driver {
        Some(_) => Outcome::Fine,
        None => Outcome::failure(
            format!("{gpus} on the PCI bus and the kernel module nvidia is not loaded"),
            "install the driver, or wait until its installer is done",
        ),
    };
    report.check(CATEGORY, "the driver is loaded", driver);
    let library = match &facts.library {
        Some(_) => Outcome::Fine,
        None => Outcome::warning(
            "libnvidia-ml.so.1 is in none of the usual places",
            "in a container mount the driver's directory, or run it with NVIDIA's runtime",
        ),
    };
    report.check(CATEGORY, "the driver's library is there", library);
    if facts.switches > 0 {
        let manager = if facts.has_fabric_manager {
            Outcome::Fine
        } else {
            let why = format!(
                "{} on the PCI bus and no process nv-fabricmanager",
                count(facts.switches, "NVSwitch")
            );
            Outcome::failure(
                why,
                "systemctl start nvidia-fabricmanager; without it no GPU here can be used",
            )
        };
        report.check(CATEGORY, "the fabric manager runs", manager);
    }
}

/// Checks what an agent of this machine sees of them.
pub(super) fn check_agent(report: &mut Report, node: &str, told: &pb::NodeReport, facts: &Facts) {
    let node = safe(node);
    let real: Vec<&pb::Device> = told.devices.iter().filter(|d| !d.simulated).collect();
    if real.is_empty() && facts.gpus == 0 {
        // Nothing that could have a fault: a log that cannot be read is nothing to worry about.
        return;
    }
    let log = told.health.as_ref().and_then(|health| health.kernel_log.as_ref());
    report.check(CATEGORY, format!("{node} reads the kernel's log"), kernel_log(log));
    let mut addresses: Vec<&str> = real.iter().map(|d| d.pci_bus_id.as_str()).collect();
    addresses.retain(|address| !address.is_empty());
    addresses.sort_unstable();
    addresses.dedup();
    let (sees, has) = (addresses.len(), facts.gpus);
    let outcome = if sees == has {
        Outcome::Fine
    } else {
        Outcome::warning(
            format!("it sees {sees} and the PCI bus of this machine has {has}"),
            "sluice describe node shows why; a GPU that the driver could not start is in the kernel's log",
        )
    };
    report.check(CATEGORY, format!("{node} sees every GPU of the PCI bus"), outcome);
}

fn kernel_log(log: Option<&pb::KernelLog>) -> Outcome {
    match log {
        None => Outcome::warning("the agent does not say", "it may be of an older version"),
        Some(log) if !log.problem.is_empty() => {
            Outcome::failure(&log.problem, "faults of GPUs are seen late or not at all without it")
        }
        Some(log) if log.missed > 0 => Outcome::warning(
            format!("{} records were overwritten before they were read", log.missed),
            "a larger log_buf_len= on the kernel's command line keeps more",
        ),
        Some(_) => Outcome::Fine,
    }
}
