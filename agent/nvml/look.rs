//! One look at everything: each value asked on its own, so that one that is refused costs only itself.

use std::collections::BTreeMap;

use sluice_core::sample::{
    EccSample, GpuClocks, GpuFabric, GpuMemory, GpuPower, GpuProcess, GpuSample, GpuTemperature,
    MigInstance, MigSample, NvLinkSample, PcieSample, Refusal, RemappedRows, RetiredPages,
};

use super::library::{
    self, Computing, FUNCTION_NOT_FOUND, GPU_IS_LOST, GPU_NOT_FOUND, Handle, Library,
    RESET_REQUIRED,
};

/// Codes that say that there is no such value, not that something is wrong: not supported, function not found,
/// deprecated, insufficient resources to be asked about a part.
const ABSENT: [u32; 3] = [3, FUNCTION_NOT_FOUND, 26];

/// An argument that the driver does not know: of a field or a link, that it has no such.
const INVALID_ARGUMENT: u32 = 2;

/// No part with this number.
const NOT_FOUND: u32 = 6;

/// Codes with which a GPU refuses everything.
const LOST: [u32; 3] = [GPU_IS_LOST, RESET_REQUIRED, GPU_NOT_FOUND];

/// Most refusals kept of one GPU; it is asked some fifty things.
const REFUSALS_MAX: usize = 64;

/// Most links asked for; NVML's own bound.
const NVLINKS_MAX: u32 = 18;

/// Most parts; NVML's own bound is 7 or 8, by product.
const MIG_INSTANCES_MAX: u32 = 16;

/// Most GPUs; the largest real hosts have 16.
const GPUS_MAX: u32 = 64;

/// Fields asked by number: recovery action, temperature of the memory, retired pages (single-bit, double-bit, pending),
/// the margin at which the driver slows down.
const FIELDS: [u32; 6] = [230, 82, 29, 30, 31, 194];

/// Looks, and remembers who is where.
#[derive(Debug, Default)]
pub(super) struct Looker {
    /// What was told of the GPU at each index: of one that is lost nothing is told any more.
    known: BTreeMap<u32, GpuSample>,
}

impl Looker {
    /// All GPUs, ordered by index.
    ///
    /// # Errors
    /// The library does not tell how many there are: its code.
    pub(super) fn look(&mut self, library: &Library) -> library::Answer<Vec<GpuSample>> {
        let count = library.count()?.min(GPUS_MAX);
        Ok((0..count).map(|index| self.gpu(library, index)).collect())
    }

    fn gpu(&mut self, library: &Library, index: u32) -> GpuSample {
        let remembered = self.known.get(&index);
        let gpu = match library.gpu(index) {
            Ok(handle) => one(library, handle, index, remembered),
            Err(code) => GpuSample { lost: Some(code), ..GpuSample::default() },
        };
        let gpu = match (gpu.lost, remembered) {
            (Some(_), Some(known)) => named_as(gpu, known, index),
            (Some(_), None) | (None, _) => GpuSample { index, ..gpu },
        };
        if gpu.lost.is_none() {
            self.known.insert(index, gpu.clone());
        }
        gpu
    }
}

/// A lost GPU with its name of before.
fn named_as(gpu: GpuSample, known: &GpuSample, index: u32) -> GpuSample {
    GpuSample {
        index,
        uuid: gpu.uuid.or_else(|| known.uuid.clone()),
        pci: gpu.pci.or(known.pci),
        name: gpu.name.or_else(|| known.name.clone()),
        serial: gpu.serial.or_else(|| known.serial.clone()),
        minor: gpu.minor.or(known.minor),
        ..gpu
    }
}

/// Asks, and keeps what was refused.
struct Asker {
    refusals: Vec<Refusal>,
    lost: Option<u32>,
}

impl Asker {
    /// The answer to `call`; `None` where it was refused. A lost GPU is not asked on: each call could take seconds.
    fn ask<T>(&mut self, call: &str, ask: impl FnOnce() -> library::Answer<T>) -> Option<T> {
        if self.lost.is_some() {
            return None;
        }
        self.take(call, ask())
    }

    fn take<T>(&mut self, call: &str, answer: library::Answer<T>) -> Option<T> {
        let code = match answer {
            Ok(value) => return Some(value),
            Err(code) => code,
        };
        if LOST.contains(&code) {
            self.lost = Some(code);
        }
        if !ABSENT.contains(&code) && self.refusals.len() < REFUSALS_MAX {
            self.refusals.push(Refusal { call: call.to_owned(), code });
        }
        None
    }
}

fn one(lib: &Library, of: Handle, index: u32, known: Option<&GpuSample>) -> GpuSample {
    let mut asker = Asker { refusals: Vec::new(), lost: None };
    let a = &mut asker;
    let uuid = a.ask("nvmlDeviceGetUUID", || lib.uuid(of));
    // What cannot change while it is the same GPU is asked once.
    let known = known.filter(|known| uuid.is_some() && known.uuid == uuid);
    let bus_id = |a: &mut Asker| {
        a.ask("nvmlDeviceGetPciInfo_v3", || lib.pci_bus_id(of)).and_then(|id| id.parse().ok())
    };
    let mut gpu = GpuSample { index, uuid, ..GpuSample::default() };
    match known {
        Some(known) => gpu = named_as(gpu, known, index),
        None => {
            gpu.pci = bus_id(a);
            gpu.name = a.ask("nvmlDeviceGetName", || lib.name(of));
            gpu.serial = a.ask("nvmlDeviceGetSerial", || lib.serial(of));
            gpu.minor = a.ask("nvmlDeviceGetMinorNumber", || lib.minor(of));
        }
    }
    let processes = a.ask("nvmlDeviceGetComputeRunningProcesses_v3", || lib.processes(of));
    gpu.mig = mig(lib, of, a, processes.as_deref());
    gpu.processes = processes.map(|processes| told(processes.iter()));
    gpu.memory = memory(lib, of, a);
    if let Some([busy, memory_busy]) =
        a.ask("nvmlDeviceGetUtilizationRates", || lib.utilization(of))
    {
        (gpu.busy_percent, gpu.memory_busy_percent) = (Some(busy), Some(memory_busy));
    }
    gpu.power = GpuPower {
        usage_mw: a.ask("nvmlDeviceGetPowerUsage", || lib.power_usage_mw(of)),
        limit_mw: a.ask("nvmlDeviceGetEnforcedPowerLimit", || lib.power_limit_mw(of)),
    };
    gpu.clocks = clocks(lib, of, a);
    gpu.ecc = ecc(lib, of, a);
    gpu.rows = rows(lib, of, a);
    gpu.pcie = pcie(lib, of, a);
    gpu.nvlinks = nvlinks(lib, of, a);
    gpu.fabric = fabric(lib, of, a);
    gpu.is_persistent = a.ask("nvmlDeviceGetPersistenceMode", || lib.is_persistent(of));
    gpu.temperature = temperature(lib, of, a);
    fields(lib, of, a, &mut gpu);
    GpuSample { lost: asker.lost, refusals: asker.refusals, ..gpu }
}

fn told<'a>(processes: impl Iterator<Item = &'a Computing>) -> Vec<GpuProcess> {
    let process = |p: &Computing| GpuProcess { pid: p.pid, used_memory_bytes: p.used_memory_bytes };
    let mut told: Vec<GpuProcess> = processes.map(process).collect();
    told.sort_unstable_by_key(|process| process.pid);
    told
}

fn memory(lib: &Library, of: Handle, a: &mut Asker) -> GpuMemory {
    let Some([total, reserved, used]) = a.ask("nvmlDeviceGetMemoryInfo_v2", || lib.memory(of))
    else {
        return GpuMemory::default();
    };
    GpuMemory { total_bytes: Some(total), reserved_bytes: Some(reserved), used_bytes: Some(used) }
}

fn mig(lib: &Library, of: Handle, a: &mut Asker, processes: Option<&[Computing]>) -> MigSample {
    let Some((now, later)) = a.ask("nvmlDeviceGetMigMode", || lib.mig_mode(of)) else {
        return MigSample::default();
    };
    let mut sample = MigSample {
        is_enabled: Some(now),
        is_enabled_after_reset: Some(later),
        instances: Vec::new(),
    };
    if !now {
        return sample;
    }
    let most = a.ask("nvmlDeviceGetMaxMigDeviceCount", || lib.mig_instances_max(of));
    for index in 0..most.unwrap_or(0).min(MIG_INSTANCES_MAX) {
        let instance = lib.mig_instance(of, index);
        // Numbers that are not taken are not found; that is no fault.
        if matches!(instance, Err(NOT_FOUND | INVALID_ARGUMENT)) {
            continue;
        }
        if let Some(part) = a.take("nvmlDeviceGetMigDeviceHandleByIndex", instance) {
            sample.instances.push(mig_instance(lib, part, a, index, processes));
        }
    }
    sample
}

fn mig_instance(
    lib: &Library,
    of: Handle,
    a: &mut Asker,
    index: u32,
    processes: Option<&[Computing]>,
) -> MigInstance {
    let gpu_instance = a.ask("nvmlDeviceGetGpuInstanceId", || lib.gpu_instance(of));
    let compute_instance = a.ask("nvmlDeviceGetComputeInstanceId", || lib.compute_instance(of));
    let is_here =
        |p: &&Computing| p.gpu_instance == gpu_instance && p.compute_instance == compute_instance;
    MigInstance {
        index,
        uuid: a.ask("nvmlDeviceGetUUID", || lib.uuid(of)),
        name: a.ask("nvmlDeviceGetName", || lib.name(of)),
        gpu_instance,
        compute_instance,
        memory: memory(lib, of, a),
        processes: processes.map(|all| told(all.iter().filter(is_here))),
    }
}

fn clocks(lib: &Library, of: Handle, a: &mut Asker) -> GpuClocks {
    GpuClocks {
        sm_mhz: a.ask("nvmlDeviceGetClockInfo", || lib.clock_mhz(of, 1)),
        sm_max_mhz: a.ask("nvmlDeviceGetMaxClockInfo", || lib.clock_max_mhz(of, 1)),
        memory_mhz: a.ask("nvmlDeviceGetClockInfo", || lib.clock_mhz(of, 2)),
        event_reasons: a
            .ask("nvmlDeviceGetCurrentClocksEventReasons", || lib.clock_event_reasons(of)),
    }
}

fn ecc(lib: &Library, of: Handle, a: &mut Asker) -> EccSample {
    let is_enabled = a.ask("nvmlDeviceGetEccMode", || lib.ecc_mode(of));
    if is_enabled != Some(true) {
        return EccSample { is_enabled, ..EccSample::default() };
    }
    let mut errors = |is_uncorrected, is_aggregate| {
        a.ask("nvmlDeviceGetTotalEccErrors", || lib.ecc_errors(of, is_uncorrected, is_aggregate))
    };
    let sample = EccSample {
        is_enabled,
        corrected_volatile: errors(false, false),
        uncorrected_volatile: errors(true, false),
        corrected_aggregate: errors(false, true),
        uncorrected_aggregate: errors(true, true),
        ..EccSample::default()
    };
    let sram = a.ask("nvmlDeviceGetSramEccErrorStatus", || lib.sram_ecc(of));
    EccSample {
        is_sram_threshold_exceeded: sram.map(|(is_exceeded, _)| is_exceeded),
        sram_uncorrected_aggregate: sram.map(|(_, uncorrected)| uncorrected),
        ..sample
    }
}

fn rows(lib: &Library, of: Handle, a: &mut Asker) -> Option<RemappedRows> {
    let [corrected, uncorrected, pending, failed] =
        a.ask("nvmlDeviceGetRemappedRows", || lib.remapped_rows(of))?;
    Some(RemappedRows { corrected, uncorrected, is_pending: pending != 0, has_failed: failed != 0 })
}

fn pcie(lib: &Library, of: Handle, a: &mut Asker) -> PcieSample {
    PcieSample {
        generation: a.ask("nvmlDeviceGetCurrPcieLinkGeneration", || lib.pcie_generation(of)),
        generation_max: a.ask("nvmlDeviceGetMaxPcieLinkGeneration", || lib.pcie_generation_max(of)),
        width: a.ask("nvmlDeviceGetCurrPcieLinkWidth", || lib.pcie_width(of)),
        width_max: a.ask("nvmlDeviceGetMaxPcieLinkWidth", || lib.pcie_width_max(of)),
        replays: a.ask("nvmlDeviceGetPcieReplayCounter", || lib.pcie_replays(of)).map(u64::from),
    }
}

fn nvlinks(lib: &Library, of: Handle, a: &mut Asker) -> Vec<NvLinkSample> {
    let mut links = Vec::new();
    for link in 0..NVLINKS_MAX {
        match lib.is_nvlink_active(of, link) {
            Ok(is_active) => links.push(NvLinkSample { link, is_active }),
            // The first number beyond the last link; on cards without any the first of all.
            Err(INVALID_ARGUMENT) => break,
            Err(code) => {
                let _: Option<()> = a.take("nvmlDeviceGetNvLinkState", Err(code));
                break;
            }
        }
    }
    links
}

fn fabric(lib: &Library, of: Handle, a: &mut Asker) -> Option<GpuFabric> {
    let (state, status, health_mask) = a.ask("nvmlDeviceGetGpuFabricInfoV", || lib.fabric(of))?;
    // 0: this GPU belongs to none.
    (state != 0).then_some(GpuFabric { state, status, health_mask })
}

fn temperature(lib: &Library, of: Handle, a: &mut Asker) -> GpuTemperature {
    let celsius = a.ask("nvmlDeviceGetTemperature", || lib.temperature_celsius(of));
    let mut threshold = |which| {
        a.ask("nvmlDeviceGetTemperatureThreshold", || lib.temperature_threshold_celsius(of, which))
    };
    GpuTemperature {
        gpu_celsius: celsius.and_then(|celsius| i32::try_from(celsius).ok()),
        shutdown_celsius: threshold(0),
        slowdown_celsius: threshold(1),
        margin_celsius: a
            .ask("nvmlDeviceGetMarginTemperature", || lib.temperature_margin_celsius(of)),
        ..GpuTemperature::default()
    }
}

/// What is only told by number. A number that the driver does not know is no fault.
fn fields(lib: &Library, of: Handle, a: &mut Asker, gpu: &mut GpuSample) {
    if a.lost.is_some() {
        return;
    }
    let answers = lib.fields(of, FIELDS);
    let mut numbers = FIELDS.into_iter().zip(answers).map(|(field, answer)| match answer {
        Err(INVALID_ARGUMENT) => None,
        answer => a.take(&format!("field {field}"), answer),
    });
    let mut next = || numbers.next().flatten();
    let unsigned = |value: Option<i64>| value.and_then(|value| u32::try_from(value).ok());
    let signed = |value: Option<i64>| value.and_then(|value| i32::try_from(value).ok());
    gpu.recovery_action = unsigned(next());
    gpu.temperature.memory_celsius = signed(next()).filter(|celsius| *celsius != 0);
    gpu.retired_pages = RetiredPages {
        single_bit: unsigned(next()),
        double_bit: unsigned(next()),
        is_pending: next().map(|pending| pending != 0),
    };
    gpu.temperature.slowdown_margin_celsius = signed(next());
}
