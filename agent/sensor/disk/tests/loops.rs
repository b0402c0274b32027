//! On the machine's own loop devices, where it lends them.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use sluice_core::sample::{MountTableSample, PressureSample, VolumeJudgement, VolumeKind};
use sluice_core::volume::Finding;
use sluice_core::volume::bottleneck::Bottleneck;
use sluice_core::volume::read_ahead::{Intent, State};
use tokio::sync::watch;

use super::named;
use crate::sensor::Reading;
use crate::sensor::disk::{DiskSensor, VolumeJudge, VolumePolicy};
use crate::sensor::mounts::KUBELET_ROOT;

/// A loop device over a file of 8 MiB, detached when dropped.
struct LoopDevice {
    device: PathBuf,
    file: PathBuf,
    _dir: tempfile::TempDir,
}

impl LoopDevice {
    /// `None`, with a line saying why, where this machine has none to give.
    fn attach(read_only: bool) -> Option<Self> {
        Self::attach_with(read_only, |file| file.write_all(&vec![7; 8 << 20]))
    }

    /// The same with other contents.
    fn attach_with(
        read_only: bool,
        fill: impl FnOnce(&mut File) -> std::io::Result<()>,
    ) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = fs::canonicalize(dir.path()).unwrap().join("disk image");
        fill(&mut File::create(&file).unwrap()).unwrap();
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

/// Longest that a real device is waited for: the window of a verdict is five seconds, and the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

fn judge_of(disk: &str, asked_kib: u64) -> VolumeJudge {
    fn nothing<T>() -> watch::Receiver<Reading<T>> {
        watch::channel(Reading::starting("test", Duration::from_secs(1), Instant::now())).1
    }
    let policy = VolumePolicy {
        read_ahead: [(disk.to_owned(), Intent { asked_kib })].into(),
        node_limit: None,
        kubelet_root: KUBELET_ROOT.into(),
        ..VolumePolicy::default()
    };
    let mounts = nothing::<MountTableSample>();
    VolumeJudge::new(Path::new("/"), &policy, mounts, nothing::<PressureSample>())
}

/// Samples until the judgement of `disk` is as wanted.
fn wait_for(
    judge: &mut VolumeJudge,
    disk: &str,
    wanted: impl Fn(&VolumeJudgement) -> bool,
) -> VolumeJudgement {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let judged = judge.sample().unwrap().judged.remove(disk).unwrap();
        if wanted(&judged) {
            return judged;
        }
        assert!(Instant::now() < deadline, "{judged:?}");
        std::thread::sleep(Duration::from_millis(250));
    }
}

#[test]
fn real_read_ahead_is_judged_as_it_is_set() {
    let Some(device) = LoopDevice::attach(true) else { return };
    let file = Path::new("/sys/block").join(device.name()).join("queue/read_ahead_kb");
    if fs::write(&file, "128").is_err() {
        println!("skipped: settings of devices cannot be written here");
        return;
    }
    let mut judge = judge_of(device.name(), 4_098);
    let mut state = || {
        let judged = judge.sample().unwrap().judged.remove(device.name()).unwrap().read_ahead;
        (judged.state, judged.findings.iter().map(Finding::code).collect::<Vec<_>>())
    };
    assert_eq!(state(), (State::Drifted, vec!["read-ahead-never-set"]));
    // The kernel keeps whole pages, and so does what is expected.
    fs::write(&file, "4098").unwrap();
    assert_eq!(state(), (State::AsAsked, vec![]));
    fs::write(&file, "3").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap().trim(), "0");
    assert_eq!(state(), (State::Drifted, vec!["read-ahead-reset"]));
}

/// A cgroup with a limit on reads from one device, and somebody who reads in it.
struct Throttled {
    cgroup: PathBuf,
    reader: Child,
}

impl Throttled {
    /// `None`, with a line saying why, where there is no such thing.
    fn start(device: &LoopDevice, limit_bytes: u64) -> Option<Self> {
        let number = fs::read_to_string(format!("/sys/block/{}/dev", device.name())).unwrap();
        let number = number.trim();
        let name = format!("sluice-test-{}-{}", std::process::id(), device.name());
        let first = Path::new("/sys/fs/cgroup/blkio");
        let (cgroup, file, limit) = if first.is_dir() {
            let limit = format!("{number} {limit_bytes}");
            (first.join(name), "blkio.throttle.read_bps_device", limit)
        } else {
            let limit = format!("{number} rbps={limit_bytes}");
            (Path::new("/sys/fs/cgroup").join(name), "io.max", limit)
        };
        let set = fs::create_dir(&cgroup).and_then(|()| fs::write(cgroup.join(file), limit));
        if let Err(error) = set {
            println!("skipped: no limit can be set: {error}");
            // Whatever was made of it.
            let _ = fs::remove_dir(&cgroup);
            return None;
        }
        let script = r#"echo $$ > "$1/cgroup.procs" && exec dd if="$2" of=/dev/null bs=64k iflag=direct status=none"#;
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(&cgroup).arg(&device.device);
        Some(Throttled { reader: command.spawn().unwrap(), cgroup })
    }
}

impl Drop for Throttled {
    fn drop(&mut self) {
        self.reader.kill().unwrap();
        self.reader.wait().unwrap();
        fs::remove_dir(&self.cgroup).unwrap();
    }
}

#[test]
fn real_limit_of_a_cgroup_is_named_as_the_bottleneck() {
    const LIMIT_BYTES: u64 = 4 << 20;
    // Holes: nothing is written to the machine's own disk.
    let Some(device) = LoopDevice::attach_with(true, |file| file.set_len(4 << 30)) else { return };
    let Some(throttled) = Throttled::start(&device, LIMIT_BYTES) else { return };
    let mut judge = judge_of(device.name(), 128);
    let judged = wait_for(&mut judge, device.name(), |j| j.bottleneck == Bottleneck::Cgroup);
    let Some(Finding::VolumeThrottledByCgroup { limit_bytes, cgroup, .. }) =
        judged.bottleneck_finding
    else {
        panic!("{judged:?}");
    };
    assert_eq!(limit_bytes, LIMIT_BYTES);
    assert!(throttled.cgroup.to_str().unwrap().ends_with(&cgroup), "{cgroup}");
}
