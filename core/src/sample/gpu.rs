//! NVIDIA GPUs as their driver and the PCI bus show them: what one look found, not judged.
//!
//! A value is `None` where the driver does not support it, did not answer for it, or was not asked; never zero. Which
//! values were refused, and with what code, is in [`GpuSample::refusals`].

mod pci;
mod state;

#[cfg(test)]
mod tests;

pub use pci::{PciAddress, PciAddressError, PciGpu};
pub use state::{DriverState, nvml_code};

/// All that is known of a node's GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuTableSample {
    /// How the driver does.
    pub driver: DriverState,
    /// The driver's last answer, ordered by index. Kept while the driver does not answer: see `gpus_age_ms`.
    pub gpus: Vec<GpuSample>,
    /// Time since `gpus` was asked. `None`: there was no answer yet.
    pub gpus_age_ms: Option<u64>,
    /// Times a look was due since the last answer began, without any answer. 0: the answer is of the last look.
    pub missed_looks: u32,
    /// How long the last answer took. `None`: there was no answer yet.
    pub look_ms: Option<u64>,
    /// GPUs on the PCI bus, ordered by address; found without the driver's help. `None` where the bus cannot be listed.
    pub pci: Option<Vec<PciGpu>>,
    /// Processes that were started to ask the driver, the first one not counted.
    pub probe_restarts: u32,
}

/// One GPU's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuSample {
    /// Position in the driver's list, from 0. Changes when a GPU before it is gone.
    pub index: u32,
    /// The GPU's own name for good: `GPU-` and a UUID. `None`: it was never told, as of a GPU that was lost before.
    pub uuid: Option<String>,
    /// Where it is on the bus. `None`: never told.
    pub pci: Option<PciAddress>,
    /// The product: `NVIDIA H100 80GB HBM3`.
    pub name: Option<String>,
    /// The board's serial number.
    pub serial: Option<String>,
    /// Number of its file: `/dev/nvidia<minor>`.
    pub minor: Option<u32>,
    /// The code with which NVML refused the GPU as a whole: 15 (lost), 16 (reset required), 999, … see [`nvml_code`].
    /// Its other values are then of an earlier look or `None`. `None`: the GPU answers.
    pub lost: Option<u32>,
    /// Its parts, where it is split.
    pub mig: MigSample,
    /// Frame buffer.
    pub memory: GpuMemory,
    /// Share of the driver's last sampling period in which a kernel ran. Unit: percent. Source:
    /// `nvmlDeviceGetUtilizationRates`.
    pub busy_percent: Option<u32>,
    /// Share in which memory was read or written. Unit and source as above.
    pub memory_busy_percent: Option<u32>,
    /// Draw and limit.
    pub power: GpuPower,
    /// Temperatures.
    pub temperature: GpuTemperature,
    /// Clocks.
    pub clocks: GpuClocks,
    /// Errors of memory that were seen and, if corrected, hidden.
    pub ecc: EccSample,
    /// Replaced rows of memory (since Ampere).
    pub rows: Option<RemappedRows>,
    /// Replaced pages of memory (before Ampere).
    pub retired_pages: RetiredPages,
    /// The link to the host.
    pub pcie: PcieSample,
    /// Links to other GPUs and switches, ordered by number. Empty: none, or not told.
    pub nvlinks: Vec<NvLinkSample>,
    /// Membership of an `NVSwitch` fabric.
    pub fabric: Option<GpuFabric>,
    /// What the driver asks to be done: field 230, see docs. 0: nothing. `None` before driver 565.
    pub recovery_action: Option<u32>,
    /// The driver stays loaded without clients.
    pub is_persistent: Option<bool>,
    /// Processes that compute on it, ordered by id; with MIG those of all instances. `None`: not told.
    pub processes: Option<Vec<GpuProcess>>,
    /// Values that were refused otherwise than as not supported, in the order asked; at most 64.
    pub refusals: Vec<Refusal>,
}

/// How a GPU is split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigSample {
    /// It is split now. `None`: it cannot be.
    pub is_enabled: Option<bool>,
    /// It will be after the next reset.
    pub is_enabled_after_reset: Option<bool>,
    /// Its instances, ordered by index.
    pub instances: Vec<MigInstance>,
}

/// One part of a split GPU, which a container sees as a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigInstance {
    /// Position among the instances of its GPU.
    pub index: u32,
    /// `MIG-` and a UUID.
    pub uuid: Option<String>,
    /// The product and the part: `NVIDIA H100 80GB HBM3 MIG 1g.10gb`.
    pub name: Option<String>,
    /// Number of the GPU instance.
    pub gpu_instance: Option<u32>,
    /// Number of the compute instance in it.
    pub compute_instance: Option<u32>,
    /// Its memory.
    pub memory: GpuMemory,
    /// Processes that compute on it, ordered by id. `None`: not told.
    pub processes: Option<Vec<GpuProcess>>,
}

/// Frame buffer. Unit of all: bytes. Source: `nvmlDeviceGetMemoryInfo_v2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuMemory {
    /// All there is, what the driver reserves included.
    pub total_bytes: Option<u64>,
    /// What the driver keeps for itself.
    pub reserved_bytes: Option<u64>,
    /// In use by processes.
    pub used_bytes: Option<u64>,
}

/// Electric power. Unit of all: milliwatts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuPower {
    /// Drawn now.
    pub usage_mw: Option<u32>,
    /// The limit in force.
    pub limit_mw: Option<u32>,
}

/// Temperatures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuTemperature {
    /// Of the GPU. Unit: °C.
    pub gpu_celsius: Option<i32>,
    /// Of its memory. Unit: °C. `None` on boards without such a sensor.
    pub memory_celsius: Option<i32>,
    /// Degrees left until the driver slows the GPU down for heat; negative: it does ("T.Limit"). Unit: K.
    pub margin_celsius: Option<i32>,
    /// The margin at which the driver slows down: −2, −3. Unit: K.
    pub slowdown_margin_celsius: Option<i32>,
    /// Where the driver slows down, on boards that tell it so. Unit: °C.
    pub slowdown_celsius: Option<u32>,
    /// Where the hardware switches off. Unit: °C.
    pub shutdown_celsius: Option<u32>,
}

/// Clocks. Unit: MHz.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuClocks {
    /// Of the multiprocessors now.
    pub sm_mhz: Option<u32>,
    /// Their highest.
    pub sm_max_mhz: Option<u32>,
    /// Of the memory now.
    pub memory_mhz: Option<u32>,
    /// Why clocks are lower than they could be: bits 0x1 idle, 0x4 power cap, 0x8 hardware slowdown, 0x20 software
    /// thermal, 0x40 hardware thermal, 0x80 power brake. Source: `nvmlDeviceGetCurrentClocksEventReasons`.
    pub event_reasons: Option<u64>,
}

/// Errors of memory. Unit: errors; volatile: since the driver was loaded, aggregate: for life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EccSample {
    /// Memory is checked. `None`: it cannot be.
    pub is_enabled: Option<bool>,
    /// Corrected since the driver was loaded.
    pub corrected_volatile: Option<u64>,
    /// Not corrected since the driver was loaded.
    pub uncorrected_volatile: Option<u64>,
    /// Corrected ever.
    pub corrected_aggregate: Option<u64>,
    /// Not corrected ever.
    pub uncorrected_aggregate: Option<u64>,
    /// More errors of on-chip memory than the maker allows for life (since Hopper): replace the board.
    pub is_sram_threshold_exceeded: Option<bool>,
    /// Not corrected ever, of on-chip memory (since Hopper): parity and double-bit errors.
    pub sram_uncorrected_aggregate: Option<u64>,
}

/// Rows of memory that were replaced. Source: `nvmlDeviceGetRemappedRows`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemappedRows {
    /// After errors that were corrected.
    pub corrected: u32,
    /// After errors that were not.
    pub uncorrected: u32,
    /// One waits for the next reset.
    pub is_pending: bool,
    /// One could not be replaced: the board has to be.
    pub has_failed: bool,
}

/// Pages of memory that are no longer used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetiredPages {
    /// After many single-bit errors.
    pub single_bit: Option<u32>,
    /// After a double-bit error.
    pub double_bit: Option<u32>,
    /// One waits for the next reset.
    pub is_pending: Option<bool>,
}

/// The PCIe link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PcieSample {
    /// Generation now; falls to 1 when idle.
    pub generation: Option<u32>,
    /// Highest that GPU and slot can do.
    pub generation_max: Option<u32>,
    /// Lanes now.
    pub width: Option<u32>,
    /// Most that GPU and slot can do.
    pub width_max: Option<u32>,
    /// Packets sent again since the driver was loaded.
    pub replays: Option<u64>,
}

/// One `NVLink`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NvLinkSample {
    /// Its number on this GPU.
    pub link: u32,
    /// It is up.
    pub is_active: bool,
}

/// Membership of an `NVSwitch` fabric. Source: `nvmlDeviceGetGpuFabricInfoV`, version 2 or 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuFabric {
    /// 0 not supported, 1 not started, 2 in progress, 3 completed.
    pub state: u32,
    /// NVML's code for how registering ended; counts once `state` is 3.
    pub status: u32,
    /// Two bits each (1: true, 2: false) for bandwidth degraded (bit 0), recovering routes (2), routes unhealthy (4),
    /// access time-out (6); from bit 8 four for wrong configuration (1: none). `None` where the driver is too old.
    pub health_mask: Option<u32>,
}

/// A process that computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its id in the host's namespace.
    pub pid: u32,
    /// Memory of the GPU that it uses. Unit: bytes. `None`: not told.
    pub used_memory_bytes: Option<u64>,
}

/// A value that the driver did not give.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The function, or `field` and its number.
    pub call: String,
    /// NVML's code; see [`nvml_code`].
    pub code: u32,
}
