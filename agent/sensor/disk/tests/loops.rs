//! On the machine's own loop devices, where it lends them.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use sluice_core::sample::VolumeKind;

use super::named;
use crate::sensor::disk::DiskSensor;

/// A loop device over a file of 8 MiB, detached when dropped.
struct LoopDevice {
    device: PathBuf,
    file: PathBuf,
    _dir: tempfile::TempDir,
}

impl LoopDevice {
    /// `None`, with a line saying why, where this machine has none to give.
    fn attach(read_only: bool) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = fs::canonicalize(dir.path()).unwrap().join("disk image");
        File::create(&file).unwrap().write_all(&vec![7; 8 << 20]).unwrap();
        let mut command = Command::new("losetup");
        command.args(["--find", "--show"]).args(read_only.then_some("--read-only")).arg(&file);
        let Some(output) = command.output().ok().filter(|output| output.status.success()) else {
            println!("skipped: no loop device can be set up");
            return None;
        };
        let device = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        Some(LoopDevice { device, file, _dir: dir })
    }

    fn name(&self) -> &str {
        self.device.file_name().unwrap().to_str().unwrap()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let detached = Command::new("losetup").arg("--detach").arg(&self.device).status();
        assert!(detached.unwrap().success());
    }
}

#[test]
fn real_loop_device_is_seen_with_its_file_and_its_reads() {
    let Some(device) = LoopDevice::attach(true) else { return };
    let mut sensor = DiskSensor::new(Path::new("/"));
    let before = named(&sensor.sample().unwrap().volumes, device.name()).clone();
    let file = device.file.to_str().unwrap().as_bytes().to_vec();
    assert_eq!(before.identity.kind, VolumeKind::Loop { backing_file: Some(file) });
    assert_eq!(before.identity.size_bytes, Some(8 << 20));
    assert_eq!(before.identity.is_read_only, Some(true));
    assert!(before.identity.number.is_some_and(|number| number.major == 7));
    assert!(before.read_ahead_kb.is_some());

    let mut bytes = Vec::new();
    File::open(&device.device).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), 8 << 20);
    let after = named(&sensor.sample().unwrap().volumes, device.name()).clone();
    let read_bytes = after.counters.unwrap().read_bytes - before.counters.unwrap().read_bytes;
    assert!(read_bytes >= 8 << 20, "{read_bytes}");
    assert!(after.rates.unwrap().read_bytes_per_second > 0);
}

#[test]
fn real_loop_device_attached_anew_is_another_disk() {
    let mut sensor = DiskSensor::new(Path::new("/"));
    let Some(first) = LoopDevice::attach(false) else { return };
    let name = first.name().to_owned();
    let before = named(&sensor.sample().unwrap().volumes, &name).clone();
    drop(first);
    let gone = named(&sensor.sample().unwrap().volumes, &name).clone();
    let Some(diskseq) = before.identity.diskseq else {
        println!("skipped: this kernel has no diskseq");
        return;
    };
    assert!(gone.identity.diskseq.is_some_and(|now| now >= diskseq));
    let Some(second) = LoopDevice::attach(false) else { return };
    let after = named(&sensor.sample().unwrap().volumes, second.name()).clone();
    assert!(after.identity.diskseq.is_some_and(|now| now > diskseq));
    let file = second.file.to_str().unwrap().as_bytes().to_vec();
    assert_eq!(after.identity.kind, VolumeKind::Loop { backing_file: Some(file) });
}
