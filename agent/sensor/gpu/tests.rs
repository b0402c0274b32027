use std::fs;
use std::path::Path;

use sluice_core::sample::{
    DeviceFile, DeviceSample, DriverState, GpuMemory, GpuProcess, GpuSample, GpuTableSample,
    MigInstance, MigSample, PciGpu,
};
use tempfile::TempDir;

use super::devices::Devices;
use super::kept::Kept;
use super::pci::PciScan;
use super::usage::Usage;

const MIB: u64 = 1 << 20;

fn gpu(index: u32) -> GpuSample {
    GpuSample {
        index,
        uuid: Some(format!("GPU-{index}")),
        pci: format!("0000:{index:02x}:00.0").parse().ok(),
        name: Some("NVIDIA A100-SXM4-80GB".to_owned()),
        minor: Some(index + 4),
        memory: GpuMemory {
            total_bytes: Some(80 << 30),
            reserved_bytes: Some(1 << 30),
            used_bytes: Some(5 * MIB),
        },
        processes: Some(vec![]),
        ..GpuSample::default()
    }
}

fn running(gpus: &[GpuSample]) -> GpuTableSample {
    let driver = DriverState::Running { version: None, nvml_version: None, cuda_version: None };
    GpuTableSample { driver, gpus: gpus.to_vec(), ..GpuTableSample::default() }
}

fn device(index: u32) -> DeviceSample {
    DeviceSample {
        id: format!("GPU-{index}"),
        kind: "nvidia-a100-80gb".to_owned(),
        resource_name: "nvidia.com/gpu".to_owned(),
        index,
        is_simulated: false,
        is_present: true,
        parent: None,
        pci: format!("0000:{index:02x}:00.0").parse().ok(),
        file: Some(DeviceFile::Nvidia(index + 4)),
        memory_bytes: Some(80 << 30),
        memory_used_bytes: Some(5 * MIB),
        computing: Some(vec![]),
    }
}

fn below(root: &Path) -> Devices {
    Devices::new(root, Kept::new(root.join("gpus.json"), "boot-1".to_owned()))
}

fn none() -> Devices {
    below(Path::new("/nonexistent"))
}

#[test]
fn gpus_are_devices_by_their_index() {
    assert_eq!(none().of(&running(&[gpu(0), gpu(1)])), [device(0), device(1)]);
    assert_eq!(none().of(&GpuTableSample::default()), []);
}

#[test]
fn lost_gpu_stays_as_not_present_and_one_that_never_told_its_name_is_no_device() {
    let mut devices = none();
    devices.of(&running(&[gpu(0), gpu(1)]));
    let gone = DeviceSample { is_present: false, ..device(1) };
    assert_eq!(devices.of(&running(&[gpu(0)])), [device(0), gone]);
    let lost = GpuSample {
        lost: Some(15),
        uuid: Some("GPU-1".to_owned()),
        index: 1,
        ..GpuSample::default()
    };
    let [first, second] = &devices.of(&running(&[gpu(0), lost]))[..] else { panic!() };
    assert_eq!((first.is_present, second.is_present, &*second.id), (true, false, "GPU-1"));
    let nameless = GpuSample { lost: Some(15), index: 1, ..GpuSample::default() };
    assert_eq!(none().of(&running(&[gpu(0), nameless])), [device(0)]);
    // What is back is as before.
    assert_eq!(devices.of(&running(&[gpu(0), gpu(1)])), [device(0), device(1)]);
}

#[test]
fn driver_that_does_not_answer_changes_no_device() {
    let mut devices = none();
    devices.of(&running(&[gpu(0)]));
    for driver in [
        DriverState::Unresponsive { since_ms: 1, is_stuck_in_kernel: false },
        DriverState::NotLoaded,
        DriverState::Released { remaining_ms: 1 },
    ] {
        let silent = GpuTableSample { driver, ..GpuTableSample::default() };
        assert_eq!(devices.of(&silent), [device(0)]);
    }
}

#[test]
fn devices_are_known_after_a_restart_of_the_agent_and_forgotten_after_another_boot() {
    let root = TempDir::new().unwrap();
    let table = running(&[gpu(0), split(gpu(1), &[1])]);
    let told = below(root.path()).of(&table);
    let untold =
        |device: DeviceSample| DeviceSample { memory_used_bytes: None, computing: None, ..device };
    let expected: Vec<DeviceSample> = told.into_iter().map(untold).collect();
    assert_eq!(below(root.path()).of(&GpuTableSample::default()), expected);
    let kept = Kept::new(root.path().join("gpus.json"), "boot-2".to_owned());
    assert_eq!(Devices::new(root.path(), kept).of(&GpuTableSample::default()), []);
    fs::write(root.path().join("gpus.json"), "{").unwrap();
    assert_eq!(below(root.path()).of(&GpuTableSample::default()), []);
}

fn split(gpu: GpuSample, parts: &[u32]) -> GpuSample {
    let part = |index: &u32| MigInstance {
        index: *index,
        uuid: Some(format!("MIG-{index}")),
        name: Some("NVIDIA A100-SXM4-80GB MIG 1g.10gb".to_owned()),
        gpu_instance: Some(index + 7),
        compute_instance: Some(0),
        ..MigInstance::default()
    };
    let instances = parts.iter().map(part).collect();
    let mig = MigSample { is_enabled: Some(true), is_enabled_after_reset: Some(true), instances };
    GpuSample { mig, ..gpu }
}

fn ids(devices: &[DeviceSample]) -> Vec<(&str, bool)> {
    devices.iter().map(|device| (&*device.id, device.is_present)).collect()
}

#[test]
fn part_is_opened_by_the_file_that_the_driver_lists() {
    let root = TempDir::new().unwrap();
    let dir = root.path().join("proc/driver/nvidia/capabilities/gpu4/mig/gi8/ci0");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("access"), "DeviceFileMinor: 30\nDeviceFileMode: 292\n").unwrap();
    let devices = below(root.path()).of(&running(&[split(gpu(0), &[1, 2])]));
    let [first, second] = &devices[..] else { panic!("{devices:?}") };
    assert_eq!(first.file, Some(DeviceFile::NvidiaCap(30)));
    assert_eq!(first.parent.as_deref(), Some("GPU-0"));
    assert_eq!(first.resource_name, "nvidia.com/mig-1g.10gb");
    // Its file is not listed.
    assert_eq!(second.file, None);
}

#[test]
fn part_that_is_taken_away_is_no_device_but_parts_of_a_lost_gpu_are_gone() {
    let mut devices = none();
    assert_eq!(
        ids(&devices.of(&running(&[split(gpu(0), &[1, 2])]))),
        [("MIG-1", true), ("MIG-2", true)]
    );
    assert_eq!(ids(&devices.of(&running(&[split(gpu(0), &[2])]))), [("MIG-2", true)]);
    let lost = GpuSample { lost: Some(15), ..gpu(0) };
    assert_eq!(ids(&devices.of(&running(&[lost]))), [("MIG-2", false)]);
    assert_eq!(ids(&devices.of(&running(&[]))), [("MIG-2", false)]);
    assert_eq!(ids(&devices.of(&running(&[gpu(0)]))), [("GPU-0", true)]);
}

fn busy(usage: &mut Usage, used_mib: u64, pids: Option<&[u32]>) -> Option<bool> {
    let process = |pid: &u32| GpuProcess { pid: *pid, used_memory_bytes: None };
    let mut gpu = gpu(0);
    gpu.memory.used_bytes = Some(used_mib * MIB);
    gpu.processes = pids.map(|pids| pids.iter().map(process).collect());
    let table = running(&[gpu]);
    let devices = none().of(&table);
    usage.of(&table, &devices).get("GPU-0").copied()
}

#[test]
fn device_is_in_use_while_anybody_computes_or_its_memory_is_not_back() {
    let mut usage = Usage::default();
    assert_eq!(busy(&mut usage, 40_000, Some(&[7])), Some(true));
    // Nobody computes any more, and the driver has not given the memory back yet.
    assert_eq!(busy(&mut usage, 40_000, Some(&[])), Some(true));
    assert_eq!(busy(&mut usage, 600, Some(&[])), Some(false));
    assert_eq!(busy(&mut usage, 3, Some(&[])), Some(false));
    // From here on it is known what it has when idle.
    assert_eq!(busy(&mut usage, 600, Some(&[])), Some(true));
    assert_eq!(busy(&mut usage, 200, Some(&[])), Some(false));
    // Who computes was not told.
    assert_eq!(busy(&mut usage, 3, None), None);
}

#[test]
fn lost_device_is_used_by_nobody_and_of_one_that_is_refused_nothing_is_known() {
    let use_of = |code| {
        let table = running(&[GpuSample { lost: Some(code), processes: None, ..gpu(0) }]);
        Usage::default().of(&table, &none().of(&table)).get("GPU-0").copied()
    };
    // Lost, and in need of a reset; then no permission, and unknown, as without its device files.
    assert_eq!([15, 16, 4, 999].map(use_of), [Some(false), Some(false), None, None]);
}

#[test]
fn gpus_on_the_bus_are_found_by_vendor_and_class() {
    let root = TempDir::new().unwrap();
    let dir = root.path().join("sys/bus/pci/devices");
    let add = |address: &str, files: &[(&str, &str)]| {
        fs::create_dir_all(dir.join(address)).unwrap();
        for (file, value) in files {
            fs::write(dir.join(address).join(file), format!("{value}\n")).unwrap();
        }
    };
    assert_eq!(PciScan::new(root.path()).gpus(), None);
    let display = [("vendor", "0x10de"), ("class", "0x030000"), ("device", "0x1eb8")];
    add("0000:d8:00.0", &display);
    add(
        "10000:01:00.0",
        &[
            ("vendor", "0x10de"),
            ("class", "0x030200"),
            ("device", "0x2330"),
            ("current_link_width", "8"),
            ("max_link_width", "16"),
        ],
    );
    add("0000:00:1f.3", &[("vendor", "0x10de"), ("class", "0x040300"), ("device", "0x10f0")]);
    add("0000:01:00.0", &[("vendor", "0x1002"), ("class", "0x030000"), ("device", "0x73bf")]);
    std::os::unix::fs::symlink("../../../bus/pci/drivers/nvidia", dir.join("0000:d8:00.0/driver"))
        .unwrap();
    let first = PciGpu {
        address: "0000:d8:00.0".parse().unwrap(),
        device_id: Some(0x1eb8),
        driver: Some("nvidia".to_owned()),
        ..PciGpu::default()
    };
    let second = PciGpu {
        address: "10000:01:00.0".parse().unwrap(),
        device_id: Some(0x2330),
        link_width: Some(8),
        link_width_max: Some(16),
        ..PciGpu::default()
    };
    let mut scan = PciScan::new(root.path());
    assert_eq!(scan.gpus(), Some(vec![first, second.clone()]));
    // One that is gone is missed at once, although the whole bus is listed once a minute.
    fs::remove_dir_all(dir.join("0000:d8:00.0")).unwrap();
    assert_eq!(scan.gpus(), Some(vec![second]));
}
