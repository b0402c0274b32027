//! What an agent's sensors saw: plain facts, no judgement.
//!
//! Every value is an integer or text, with its unit in its name. "Not there" and "could not be
//! read" are `None`, never zero. Deciding what a fact means (health, a read-ahead verdict, a
//! release) is done elsewhere.

mod gpu;
mod process;
mod volume;

pub use gpu::{
    DriverState, EccSample, GpuClocks, GpuFabric, GpuMemory, GpuPower, GpuProcess, GpuSample,
    GpuTableSample, GpuTemperature, MigInstance, MigSample, NvLinkSample, PciAddress,
    PciAddressError, PciGpu, PcieSample, Refusal, RemappedRows, RetiredPages, nvml_code,
};
pub use process::{
    DeviceFile, ProcessKey, ProcessSample, ProcessState, ProcessTableSample, SignalMasks,
    WorkerProcesses,
};
pub use volume::{
    DeviceNumber, DiscardCounters, DiskClass, FlushCounters, GoogleDisk, IdentitySource,
    MountSample, MountTableSample, VolumeCounters, VolumeData, VolumeIdentity, VolumeJudgement,
    VolumeKind, VolumeRates, VolumeSample, VolumeTableSample, volume_of,
};

/// One sensor's latest value as seen at some moment, with its age.
///
/// A sensor that fails or hangs keeps its last value: `age_ms` grows and `error` says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled<T> {
    /// The last good value. `None` until the first sample succeeded.
    pub value: Option<T>,
    /// Time since `value` was sampled. `None` where there is no value.
    pub age_ms: Option<u64>,
    /// How long the last finished attempt took.
    pub duration_ms: u64,
    /// Why the last attempt gave no value, or that the sensor is overdue. `None` while it works.
    pub error: Option<String>,
}

// Written out, as a derived one would ask for `T: Default`.
impl<T> Default for Sampled<T> {
    fn default() -> Self {
        Sampled { value: None, age_ms: None, duration_ms: 0, error: None }
    }
}

/// All that one node's sensors know at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSample {
    /// Accelerators, ordered by id.
    pub devices: Sampled<Vec<DeviceSample>>,
    /// What the driver and the PCI bus say of NVIDIA GPUs. No value: this node is not asked for any.
    pub gpus: Sampled<GpuTableSample>,
    /// Block devices, ordered by name.
    pub volumes: Sampled<VolumeTableSample>,
    /// Mounts of the host, in the kernel's order.
    pub mounts: Sampled<MountTableSample>,
    /// Workers and their processes.
    pub processes: Sampled<ProcessTableSample>,
    /// Pressure stall information.
    pub pressure: Sampled<PressureSample>,
}

/// One accelerator: what it is and what it says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSample {
    /// Unique on the cluster: a GPU's or a MIG instance's UUID, `<node>-<chip>` for a TPU, `sim-<node>-<index>` where
    /// simulated.
    pub id: String,
    /// What it is, as in the data file of accelerators: `nvidia-l4`, `tpu-v6e`.
    pub kind: String,
    /// The Kubernetes extended resource it counts towards: `nvidia.com/gpu`, `google.com/tpu`.
    pub resource_name: String,
    /// Position on the node, from 0; what `CUDA_VISIBLE_DEVICES` names.
    pub index: u32,
    /// No hardware is behind it.
    pub is_simulated: bool,
    /// Answers at this moment. `false`: it was there at the start and is gone now.
    pub is_present: bool,
    /// The GPU of which it is a part (MIG): that GPU's id. `None`: it is whole.
    pub parent: Option<String>,
    /// Where it is on the PCI bus; of a part, its GPU's. `None`: not told, or not on it.
    pub pci: Option<PciAddress>,
    /// The file that whoever holds it has open. `None`: not told, so holders cannot be looked for by it.
    pub file: Option<DeviceFile>,
    /// Memory of the device. Unit: bytes. `None` where unknown.
    pub memory_bytes: Option<u64>,
    /// Memory in use, by anybody. Unit: bytes, `0..=memory_bytes`. `None` where it cannot be asked.
    pub memory_used_bytes: Option<u64>,
    /// Processes that compute on it, as its driver tells, ordered. `None`: not told.
    pub computing: Option<Vec<u32>>,
}

/// Pressure stall information of the whole host.
///
/// Source: `/proc/pressure/{cpu,memory,io}`. A resource is `None` where the kernel does not account
/// for it (built without, switched off at boot, or older than 4.20) or its file made no sense.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PressureSample {
    /// Tasks waiting for a processor.
    pub cpu: Option<Pressure>,
    /// Tasks waiting for memory.
    pub memory: Option<Pressure>,
    /// Tasks waiting for block I/O.
    pub io: Option<Pressure>,
    /// Lines that could not be understood, all three files together.
    pub malformed_lines: u32,
}

/// One resource's pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// At least one task was stalled.
    pub some: PressureLine,
    /// Every task that could have run was stalled. `None` where the kernel has no such line (cpu
    /// before 5.13).
    pub full: Option<PressureLine>,
}

/// Shares of time stalled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PressureLine {
    /// Over the last 10 s. Unit: 1/10,000 of the time, the kernel's own resolution. Range:
    /// 0..=10,000.
    pub avg10_permyriad: u32,
    /// Over the last 60 s. Unit and range as above.
    pub avg60_permyriad: u32,
    /// Over the last 300 s. Unit and range as above.
    pub avg300_permyriad: u32,
    /// Since boot. Unit: microseconds; only rises.
    pub total_us: u64,
}
