//! NVIDIA GPUs as metrics: what the driver told, in base units; a value that it did not tell has no series.
//!
//! While the driver does not answer only its state is told: old values would look like new ones.

use std::fmt::Error;

use sluice_core::sample::{DriverState, GpuSample, GpuTableSample};

use super::encode::{Families, seconds};

/// Labels of each series of a GPU.
type Labels = [(&'static str, String); 3];

/// Label values of `gpu_driver_state`.
const STATES: [&str; 8] = [
    "starting",
    "running",
    "not_loaded",
    "mismatch",
    "library_missing",
    "unresponsive",
    "failed",
    "released",
];

/// Label values of `gpu_clock_event_active` and their bits in NVML's word.
const CLOCK_EVENTS: [(&str, u64); 9] = [
    ("idle", 0x1),
    ("application_clocks", 0x2),
    ("power_cap", 0x4),
    ("hardware_slowdown", 0x8),
    ("sync_boost", 0x10),
    ("software_thermal", 0x20),
    ("hardware_thermal", 0x40),
    ("power_brake", 0x80),
    ("display_clocks", 0x100),
];

/// Looks without an answer after which values are no longer told.
const MISSED_LOOKS_MAX: u32 = 2;

/// Everything of `table`.
pub(super) fn gpus(families: &mut Families<'_>, table: &GpuTableSample) -> Result<(), Error> {
    driver(families, table)?;
    let is_running = matches!(table.driver, DriverState::Running { .. });
    if !is_running || table.missed_looks >= MISSED_LOOKS_MAX {
        return Ok(());
    }
    let told = Told { families, gpus: &table.gpus };
    told.all()
}

fn state(driver: &DriverState) -> &'static str {
    match driver {
        DriverState::Starting => "starting",
        DriverState::Running { .. } => "running",
        DriverState::NotLoaded => "not_loaded",
        DriverState::Mismatch => "mismatch",
        DriverState::LibraryMissing { .. } => "library_missing",
        DriverState::Unresponsive { .. } => "unresponsive",
        DriverState::Failed { .. } => "failed",
        DriverState::Released { .. } => "released",
    }
}

fn driver(families: &mut Families<'_>, table: &GpuTableSample) -> Result<(), Error> {
    let now = state(&table.driver);
    let states = STATES.map(|state| ([("state", state)], u64::from(state == now)));
    families.gauges("gpu_driver_state", "1 for the state that the driver is in", states)?;
    if let DriverState::Running { version, nvml_version, .. } = &table.driver {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let info = [("version", text(version)), ("nvml_version", text(nvml_version))];
        families.gauges("gpu_driver_info", "Version of the driver", [(info, 1_u64)])?;
    }
    if let Some(age_ms) = table.gpus_age_ms {
        let help = "Time since the driver's last answer";
        families.gauge("gpu_answer_age_seconds", help, seconds(age_ms))?;
    }
    if let Some(look_ms) = table.look_ms {
        let help = "Time that the driver's last answer took";
        families.gauge("gpu_answer_duration_seconds", help, seconds(look_ms))?;
    }
    if let Some(pci) = &table.pci {
        families.gauge("gpu_pci_devices", "GPUs on the PCI bus", count(pci.len()))?;
    }
    let help = "Processes started to ask the driver, after the first";
    families.counter("gpu_probe_restarts", help, u64::from(table.probe_restarts))
}

fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

fn labels(gpu: &GpuSample) -> Labels {
    [
        ("uuid", gpu.uuid.clone().unwrap_or_default()),
        ("index", gpu.index.to_string()),
        ("pci_bus_id", gpu.pci.map(|pci| pci.to_string()).unwrap_or_default()),
    ]
}

/// Thousandths as base units.
fn milli(value: impl Into<f64>) -> f64 {
    value.into() / 1e3
}

fn hertz(mhz: u32) -> f64 {
    f64::from(mhz) * 1e6
}

fn ratio(percent: u32) -> f64 {
    f64::from(percent) / 1e2
}

/// The GPUs and where they are written.
struct Told<'a, 'b> {
    families: &'a mut Families<'b>,
    gpus: &'a [GpuSample],
}

impl Told<'_, '_> {
    fn all(mut self) -> Result<(), Error> {
        self.identity()?;
        self.use_of()?;
        self.heat()?;
        self.memory_errors()?;
        self.links()?;
        self.parts()
    }

    fn gauge<V: Into<f64>>(
        &mut self,
        name: &str,
        help: &str,
        value: impl Fn(&GpuSample) -> Option<V>,
    ) -> Result<(), Error> {
        let series = self.gpus.iter().filter_map(|gpu| Some((labels(gpu), value(gpu)?.into())));
        self.families.gauges(name, help, series)
    }

    fn whole(
        &mut self,
        name: &str,
        help: &str,
        value: impl Fn(&GpuSample) -> Option<u64>,
    ) -> Result<(), Error> {
        let series = self.gpus.iter().filter_map(|gpu| Some((labels(gpu), value(gpu)?)));
        self.families.gauges(name, help, series)
    }

    fn flag(
        &mut self,
        name: &str,
        help: &str,
        value: impl Fn(&GpuSample) -> Option<bool>,
    ) -> Result<(), Error> {
        self.whole(name, help, |gpu| value(gpu).map(u64::from))
    }

    fn counter(
        &mut self,
        name: &str,
        help: &str,
        value: impl Fn(&GpuSample) -> Option<u64>,
    ) -> Result<(), Error> {
        let series = self.gpus.iter().filter_map(|gpu| Some((labels(gpu), value(gpu)?)));
        self.families.counters(name, help, series)
    }

    /// Series with one more label.
    fn labelled<'s>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: impl Fn(&GpuSample) -> Vec<(&'s str, u64)>,
    ) -> Result<(), Error> {
        let series = self.gpus.iter().flat_map(|gpu| {
            let [uuid, index, pci] = labels(gpu);
            let labelled = |(value, number): (&str, u64)| {
                let own = (label, value.to_owned());
                ([uuid.clone(), index.clone(), pci.clone(), own], number)
            };
            values(gpu).into_iter().map(labelled).collect::<Vec<_>>()
        });
        self.families.gauges(name, help, series)
    }

    fn identity(&mut self) -> Result<(), Error> {
        let info = self.gpus.iter().map(|gpu| {
            let [uuid, index, pci] = labels(gpu);
            let name = ("name", gpu.name.clone().unwrap_or_default());
            let minor = ("minor", gpu.minor.map(|minor| minor.to_string()).unwrap_or_default());
            ([uuid, index, pci, name, minor], 1_u64)
        });
        self.families.gauges("gpu_info", "What and where the GPU is", info)?;
        self.flag("gpu_answers", "1 while the GPU answers the driver", |g| Some(g.lost.is_none()))?;
        let help = "What the driver asks to be done: 0 nothing, 1 reset, 2 reboot, 3 drain, 4 drain and reset";
        self.whole("gpu_recovery_action", help, |g| g.recovery_action.map(u64::from))?;
        self.flag("gpu_persistence_mode", "1: the driver stays loaded without clients", |g| {
            g.is_persistent
        })?;
        let help = "Values that the driver refused to tell at the last look";
        self.whole("gpu_refused_values", help, |g| Some(count(g.refusals.len())))
    }

    fn use_of(&mut self) -> Result<(), Error> {
        self.whole("gpu_memory_bytes", "Memory", |g| g.memory.total_bytes)?;
        let help = "Memory that the driver keeps for itself";
        self.whole("gpu_memory_reserved_bytes", help, |g| g.memory.reserved_bytes)?;
        self.whole("gpu_memory_used_bytes", "Memory in use", |g| g.memory.used_bytes)?;
        let help = "Share of the driver's last sampling period in which a kernel ran";
        self.gauge("gpu_utilization_ratio", help, |g| g.busy_percent.map(ratio))?;
        let help = "Share of it in which memory was read or written";
        self.gauge("gpu_memory_utilization_ratio", help, |g| g.memory_busy_percent.map(ratio))?;
        let help = "Processes that compute on it";
        self.whole("gpu_processes", help, |g| g.processes.as_ref().map(|all| count(all.len())))
    }

    fn heat(&mut self) -> Result<(), Error> {
        self.gauge("gpu_power_watts", "Power drawn", |g| g.power.usage_mw.map(milli))?;
        self.gauge("gpu_power_limit_watts", "Limit in force", |g| g.power.limit_mw.map(milli))?;
        self.gauge("gpu_temperature_celsius", "Temperature", |g| g.temperature.gpu_celsius)?;
        let help = "Temperature of the memory";
        self.gauge("gpu_memory_temperature_celsius", help, |g| g.temperature.memory_celsius)?;
        let help = "Degrees left until the driver slows it down for heat";
        self.gauge("gpu_temperature_margin_celsius", help, |g| g.temperature.margin_celsius)?;
        self.gauge("gpu_sm_clock_hertz", "Clock of the multiprocessors", |g| {
            g.clocks.sm_mhz.map(hertz)
        })?;
        self.gauge("gpu_sm_clock_max_hertz", "Their highest", |g| g.clocks.sm_max_mhz.map(hertz))?;
        let help = "Clock of the memory";
        self.gauge("gpu_memory_clock_hertz", help, |g| g.clocks.memory_mhz.map(hertz))?;
        let help = "1 for each reason why clocks are lower than they could be";
        self.labelled("gpu_clock_event_active", help, "reason", |gpu| {
            let told = |bits: u64| {
                CLOCK_EVENTS.map(|(reason, bit)| (reason, u64::from(bits & bit != 0))).to_vec()
            };
            gpu.clocks.event_reasons.map(told).unwrap_or_default()
        })
    }

    fn memory_errors(&mut self) -> Result<(), Error> {
        let help = "Corrected errors of memory since the driver was loaded";
        self.counter("gpu_ecc_corrected_errors", help, |g| g.ecc.corrected_volatile)?;
        let help = "Uncorrected errors of memory since the driver was loaded";
        self.counter("gpu_ecc_uncorrected_errors", help, |g| g.ecc.uncorrected_volatile)?;
        let help = "Corrected errors of memory ever";
        self.counter("gpu_ecc_corrected_errors_lifetime", help, |g| g.ecc.corrected_aggregate)?;
        let help = "Uncorrected errors of memory ever";
        self.counter("gpu_ecc_uncorrected_errors_lifetime", help, |g| g.ecc.uncorrected_aggregate)?;
        let help = "1: more errors of on-chip memory than the maker allows";
        self.flag("gpu_sram_threshold_exceeded", help, |g| g.ecc.is_sram_threshold_exceeded)?;
        let rows = |gpu: &GpuSample| gpu.rows;
        self.labelled("gpu_remapped_rows", "Rows of memory replaced", "cause", |gpu| {
            let told = rows(gpu).map(|r| {
                vec![("corrected", r.corrected.into()), ("uncorrected", r.uncorrected.into())]
            });
            told.unwrap_or_default()
        })?;
        let help = "1: a row is replaced at the next reset";
        self.flag("gpu_row_remap_pending", help, |g| rows(g).map(|r| r.is_pending))?;
        let help = "1: a row could not be replaced";
        self.flag("gpu_row_remap_failed", help, |g| rows(g).map(|r| r.has_failed))?;
        self.labelled("gpu_retired_pages", "Pages of memory replaced", "cause", |gpu| {
            let pages = &gpu.retired_pages;
            let told = [("single_bit", pages.single_bit), ("double_bit", pages.double_bit)];
            told.into_iter().filter_map(|(cause, pages)| Some((cause, pages?.into()))).collect()
        })?;
        let help = "1: a page is replaced at the next reset";
        self.flag("gpu_retired_pages_pending", help, |g| g.retired_pages.is_pending)
    }

    fn links(&mut self) -> Result<(), Error> {
        let pcie = |value: fn(&GpuSample) -> Option<u32>| move |gpu: &GpuSample| value(gpu);
        let help = "Generation of the PCIe link; low when idle";
        self.gauge("gpu_pcie_generation", help, pcie(|g| g.pcie.generation))?;
        let help = "Highest generation of GPU and slot";
        self.gauge("gpu_pcie_generation_max", help, pcie(|g| g.pcie.generation_max))?;
        self.gauge("gpu_pcie_lanes", "Lanes of the PCIe link", pcie(|g| g.pcie.width))?;
        let help = "Most lanes of GPU and slot";
        self.gauge("gpu_pcie_lanes_max", help, pcie(|g| g.pcie.width_max))?;
        let help = "Packets sent again on the PCIe link";
        self.counter("gpu_pcie_replays", help, |g| g.pcie.replays)?;
        let up = |gpu: &GpuSample| gpu.nvlinks.iter().filter(|link| link.is_active).count();
        let some = |gpu: &GpuSample| (!gpu.nvlinks.is_empty()).then_some(());
        self.whole("gpu_nvlinks", "NVLinks", |g| some(g).map(|()| count(g.nvlinks.len())))?;
        self.whole("gpu_nvlinks_up", "NVLinks that are up", |g| some(g).map(|()| count(up(g))))?;
        let help = "Membership of the NVSwitch fabric: 1 not started, 2 in progress, 3 completed";
        self.whole("gpu_fabric_state", help, |g| g.fabric.map(|fabric| fabric.state.into()))?;
        let help = "NVML's code for how joining the fabric ended";
        self.whole("gpu_fabric_status", help, |g| g.fabric.map(|fabric| fabric.status.into()))
    }

    /// Parts of split GPUs: their own name as `uuid`, the GPU's as `gpu_uuid`.
    fn parts(&mut self) -> Result<(), Error> {
        self.flag("gpu_mig_enabled", "1: the GPU is split", |g| g.mig.is_enabled)?;
        let parts = || {
            self.gpus.iter().flat_map(|gpu| {
                gpu.mig.instances.iter().map(move |part| {
                    let [gpu_uuid, index, pci] = labels(gpu);
                    let own = ("uuid", part.uuid.clone().unwrap_or_default());
                    let of = ("gpu_uuid", gpu_uuid.1);
                    let number = |n: Option<u32>| n.map(|n| n.to_string()).unwrap_or_default();
                    let instance = ("gpu_instance", number(part.gpu_instance));
                    ([own, of, index, pci, instance], part)
                })
            })
        };
        let memory: Vec<_> =
            parts().filter_map(|(l, part)| Some((l, part.memory.total_bytes?))).collect();
        let used: Vec<_> =
            parts().filter_map(|(l, part)| Some((l, part.memory.used_bytes?))).collect();
        self.families.gauges("gpu_mig_memory_bytes", "Memory of the part", memory)?;
        self.families.gauges("gpu_mig_memory_used_bytes", "Memory in use of it", used)
    }
}
