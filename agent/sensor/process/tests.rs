mod exec;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use sluice_core::sample::{
    DeviceFile, ProcessKey, ProcessSample, ProcessState, SignalMasks, WorkerProcesses,
};

use super::table::{
    Environ, ProcessTable, Stat, Status, is_of_another, parse_environ, parse_stat, parse_status,
};
use super::{ProcessSensor, WatchedWorker};
use crate::sensor::tests::host;

fn key(pid: u32, start_time_ticks: u64) -> ProcessKey {
    ProcessKey { pid, start_time_ticks }
}

fn watched(marker: &str, process: Option<ProcessKey>) -> WatchedWorker {
    let checkpoint_dir = Some(PathBuf::from("/ckpt/llama"));
    WatchedWorker { marker: marker.to_owned(), process, checkpoint_dir, pod: None }
}

fn sensor() -> ProcessSensor {
    ProcessSensor::new(&host("host-gce-a3"), None)
}

fn pids(processes: &[ProcessSample]) -> Vec<u32> {
    processes.iter().map(|process| process.key.pid).collect()
}

#[test]
fn worker_is_its_carriers_and_their_descendants() {
    let sample = sensor().sample(&[watched("llama/2/0", None)]).unwrap();
    let [worker] = sample.workers.as_slice() else { panic!("one worker: {:?}", sample.workers) };
    assert_eq!(pids(&worker.processes), [4100, 4101, 4102, 4103]);
    assert_eq!(
        *worker,
        WorkerProcesses {
            marker: "llama/2/0".to_owned(),
            is_watched: true,
            main: Some(key(4100, 9100)),
            ranks: vec![key(4101, 9150)],
            processes: worker.processes.clone(),
            devices: BTreeSet::from([DeviceFile::Nvidia(0)]),
            are_devices_certain: true,
        }
    );
    assert_eq!((sample.process_count, sample.unreadable_count, sample.dropped), (9, 0, 0));
}

#[test]
fn training_process_shows_devices_checkpoint_files_and_signals() {
    let sample = sensor().inspect(4101, Some(Path::new("/ckpt/llama")));
    assert_eq!(
        sample,
        Some(ProcessSample {
            key: key(4101, 9150),
            parent_pid: 4100,
            state: ProcessState::Running,
            comm: "train (rank) 0".to_owned(),
            uid: Some(1000),
            marker: Some("llama/2/0".to_owned()),
            has_local_rank: true,
            is_environ_readable: true,
            devices: Some(BTreeSet::from([DeviceFile::Nvidia(0)])),
            open_checkpoint_files: vec![b"/ckpt/llama/step-40/shard-0.bin".to_vec()],
            signals: Some(SignalMasks { caught: 0x1_8001_4a02, ignored: 0x1000, blocked: 0 }),
        })
    );
}

#[test]
fn registered_process_is_the_main_one_while_it_is_the_same_process() {
    let main = |process| {
        let sample = sensor().sample(&[watched("llama/2/0", Some(process))]).unwrap();
        sample.workers[0].main
    };
    assert_eq!(main(key(4101, 9150)), Some(key(4101, 9150)));
    assert_eq!(main(key(4101, 9151)), Some(key(4100, 9100)), "the id was reused");
    assert_eq!(main(key(77, 1)), Some(key(4100, 9100)), "it ended");
}

#[test]
fn registered_process_without_a_marker_brings_its_descendants() {
    let sample = sensor().sample(&[watched("other/1/0", Some(key(4000, 9000)))]).unwrap();
    let found: Vec<(&str, bool, Vec<u32>)> = sample
        .workers
        .iter()
        .map(|worker| (worker.marker.as_str(), worker.is_watched, pids(&worker.processes)))
        .collect();
    // A child with a marker of its own stays with its own worker.
    assert_eq!(
        found,
        [("llama/2/0", false, vec![4100, 4101, 4102, 4103]), ("other/1/0", true, vec![4000])]
    );
}

#[test]
fn watched_worker_without_processes_is_listed_empty() {
    let sample = sensor().sample(&[watched("none/1/0", None)]).unwrap();
    assert_eq!(
        sample.workers[1],
        WorkerProcesses {
            marker: "none/1/0".to_owned(),
            is_watched: true,
            main: None,
            ranks: vec![],
            processes: vec![],
            devices: BTreeSet::new(),
            are_devices_certain: true,
        }
    );
}

#[test]
fn stranger_with_a_device_open_is_seen_in_the_first_pass() {
    let mut sensor = sensor();
    let devices = BTreeSet::from([DeviceFile::Nvidia(1), DeviceFile::Vfio(3)]);
    for pass in 0..8 {
        let sample = sensor.sample(&[]).unwrap();
        assert_eq!(pids(&sample.strangers), [5000], "pass {pass}");
        assert_eq!(sample.strangers[0].devices.as_ref(), Some(&devices));
    }
    let holders = |devices: &[DeviceFile]| {
        let wanted: BTreeSet<DeviceFile> = devices.iter().cloned().collect();
        ProcessSensor::new(&host("host-gce-a3"), None)
            .holders(&wanted)
            .map(|(processes, unreadable)| (pids(&processes), unreadable))
    };
    assert_eq!(holders(&[DeviceFile::Nvidia(0), DeviceFile::Vfio(3)]), Ok((vec![4101, 5000], 0)));
    assert_eq!(holders(&[DeviceFile::Accel(0)]), Ok((vec![], 0)));
}

#[test]
fn carriers_are_exactly_those_with_the_marker() {
    let mut sensor = sensor();
    assert_eq!(sensor.carriers("llama/2/0").map(|found| pids(&found)), Ok(vec![4100, 4101, 4102]));
    assert_eq!(sensor.carriers("llama/2").map(|found| pids(&found)), Ok(vec![]));
}

#[test]
fn nonsense_in_stat_hides_that_process_only() {
    let mut sensor = ProcessSensor::new(&host("host-broken"), None);
    let sample = sensor.sample(&[]).unwrap();
    assert_eq!((sample.process_count, sample.workers, sample.strangers), (0, vec![], vec![]));
    assert_eq!(sensor.inspect(12, None), None);
    assert_eq!(sensor.inspect(u32::MAX, None), None);
    let nowhere = tempfile::tempdir().unwrap();
    let error = ProcessSensor::new(nowhere.path(), None).sample(&[]).unwrap_err();
    assert!(error.ends_with("; mount the host's /proc at --host-root"), "{error}");
}

#[test]
fn name_in_stat_may_hold_brackets_spaces_and_any_byte() {
    let rest = " S 7 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 9001 0";
    let stat = |comm: &str| Stat {
        comm: comm.to_owned(),
        state: ProcessState::Sleeping,
        parent_pid: 7,
        flags: 4_194_304,
        start_time_ticks: 9001,
        env_start: 0,
    };
    for (name, shown) in [("a) R 1 (b", "a) R 1 (b"), ("x\ny", "x\ny"), ("", ""), ("((", "((")] {
        assert_eq!(parse_stat(format!("12 ({name}){rest}").as_bytes()), Some(stat(shown)));
    }
    let mut bytes = b"12 (\xff)".to_vec();
    bytes.extend_from_slice(rest.as_bytes());
    assert_eq!(parse_stat(&bytes), Some(stat("\u{fffd}")));
    for cut in
        ["", "12", "12 (x", "12 )x(", "12 (x) S", "12 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0"]
    {
        assert_eq!(parse_stat(cut.as_bytes()), None, "{cut}");
    }
}

#[test]
fn status_gives_the_effective_user_and_signal_masks() {
    let masks = "SigBlk:\t0000000000000001\nSigIgn:\t0000000000000002\nSigCgt:\tffffffffffffffff\n";
    let signals = Some(SignalMasks { caught: u64::MAX, ignored: 2, blocked: 1 });
    let uid = Some(7);
    let text = format!("Name:\tx\nUid:\t0\t7\t0\t0\n{masks}");
    assert_eq!(parse_status(text.as_bytes()), Status { uid, signals });
    assert_eq!(parse_status(b"Uid:\t0\t7\nSigBlk:\tx"), Status { uid, signals: None });
    assert_eq!(parse_status(b""), Status { uid: None, signals: None });
}

#[test]
fn marker_is_taken_as_a_whole_and_only_if_plain() {
    let check = |bytes: &[u8], marker: Option<&str>, has_local_rank| {
        let marker = marker.map(str::to_owned);
        assert_eq!(
            parse_environ(bytes),
            Environ { marker, has_local_rank, is_readable: true, pod: None }
        );
    };
    check(b"A=1\0SLUICE_WORKER=a/1/0\0LOCAL_RANK=0\0", Some("a/1/0"), true);
    check(b"SLUICE_WORKER=a/1/0", Some("a/1/0"), false);
    check(b"XSLUICE_WORKER=a/1/0\0NOT_LOCAL_RANK=1\0LOCAL_RANKS=2\0", None, false);
    check(b"SLUICE_WORKER=\0", None, false);
    check(b"SLUICE_WORKER=a\xff/1/0\0", None, false);
    check(b"SLUICE_WORKER=a b\n\0", None, false);
    let long = format!("SLUICE_WORKER={}", "a".repeat(513));
    check(long.as_bytes(), None, false);
    check(b"", None, false);
}

/// A `/proc` that a test can change.
struct Proc {
    root: tempfile::TempDir,
}

impl Proc {
    fn new() -> Self {
        let proc = Proc { root: tempfile::tempdir().unwrap() };
        fs::create_dir_all(proc.root.path().join("proc/self")).unwrap();
        proc
    }

    fn write(&self, pid: u32, file: &str, text: &str) {
        let path = self.root.path().join(format!("proc/{pid}/{file}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn process(&self, pid: u32, parent: u32, start: u64, env_start: u64) {
        let zeros = "0 ".repeat(27);
        self.write(
            pid,
            "stat",
            &format!("{pid} (p) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} {zeros}{env_start} 0 0\n"),
        );
    }
}

#[test]
fn environment_is_read_once_for_each_program_of_a_process() {
    let proc = Proc::new();
    let mut table = ProcessTable::new(proc.root.path());
    let mut marker = |environ: &str, start, env_start| {
        proc.process(12, 1, start, env_start);
        proc.write(12, "environ", environ);
        let (entries, _) = table.list().unwrap();
        entries[0].environ.marker.clone()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(marker("SLUICE_WORKER=a/1/0\0", 100, 5), some("a/1/0"));
    assert_eq!(marker("SLUICE_WORKER=never-read/1/0\0", 100, 5), some("a/1/0"), "the same");
    assert_eq!(marker("SLUICE_WORKER=b/1/0\0", 100, 6), some("b/1/0"), "after exec");
    assert_eq!(marker("SLUICE_WORKER=c/1/0\0", 101, 6), some("c/1/0"), "another process");
}

#[test]
fn processes_that_ended_are_forgotten() {
    let proc = Proc::new();
    proc.process(12, 1, 100, 5);
    proc.write(12, "environ", "SLUICE_WORKER=a/1/0\0");
    let mut table = ProcessTable::new(proc.root.path());
    let before = table.list().unwrap().0[0].environ.clone();
    fs::remove_dir_all(proc.root.path().join("proc/12")).unwrap();
    assert_eq!(table.list(), Ok((vec![], 0)));
    assert_eq!(Arc::strong_count(&before), 1);
}

#[test]
fn process_that_hides_its_files_makes_free_devices_uncertain() {
    let proc = Proc::new();
    proc.process(12, 1, 100, 5);
    proc.write(12, "environ", "SLUICE_WORKER=a/1/0\0");
    let sample = ProcessSensor::new(proc.root.path(), None).sample(&[]).unwrap();
    let worker = &sample.workers[0];
    assert_eq!(worker.processes[0].devices, None);
    assert!(!worker.are_devices_certain);
}

#[test]
fn loop_of_parents_ends() {
    let proc = Proc::new();
    proc.process(12, 13, 100, 5);
    proc.process(13, 12, 100, 5);
    proc.process(14, 1, 100, 5);
    proc.write(14, "environ", "SLUICE_WORKER=a/1/0\0");
    proc.write(12, "environ", "");
    proc.write(13, "environ", "");
    let sample = ProcessSensor::new(proc.root.path(), None).sample(&[]).unwrap();
    assert_eq!(pids(&sample.workers[0].processes), [14]);
}

#[test]
fn table_of_ten_thousand_processes_is_read_in_one_pass() {
    let proc = Proc::new();
    for (pid, environ) in [(2, "HOME=/\0"), (3, "SLUICE_WORKER=a/1/0\0")] {
        proc.process(pid, 1, 100, 5);
        proc.write(pid, "environ", environ);
    }
    // Links to those two, as writing so many files takes long.
    for pid in 4..10_002 {
        let same = if pid % 1000 == 0 { "3" } else { "2" };
        symlink(same, proc.root.path().join(format!("proc/{pid}"))).unwrap();
    }
    let mut sensor = ProcessSensor::new(proc.root.path(), None);
    let first = sensor.sample(&[]).unwrap();
    let started = Instant::now();
    let second = sensor.sample(&[]).unwrap();
    println!("second pass over 10,000 processes: {:?}", started.elapsed());
    assert_eq!((first.process_count, first.workers[0].processes.len()), (10_000, 11));
    assert_eq!(first.workers, second.workers);
}

/// A live `sleep`, ended when dropped.
struct Sleep {
    child: Child,
}

impl Sleep {
    fn start(marker: &str, file: &File) -> Self {
        let child = Command::new("sleep")
            .arg("600")
            .env("SLUICE_WORKER", marker)
            .env("LOCAL_RANK", "0")
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .spawn();
        Sleep { child: child.unwrap() }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn live_process_holds_a_simulated_device_until_it_ends() {
    let state = tempfile::tempdir().unwrap();
    let real = state.path().join("real/devices");
    fs::create_dir_all(&real).unwrap();
    // The state directory may be reached through a link; open files are named without it.
    symlink(state.path().join("real"), state.path().join("state")).unwrap();
    let device = File::create(real.join("sim-n1-0")).unwrap();
    let marker = format!("live/{}/0", std::process::id());
    let sleep = Sleep::start(&marker, &device);
    drop(device);

    let mut sensor = ProcessSensor::new(Path::new("/"), Some(&state.path().join("state/devices")));
    let held = BTreeSet::from([DeviceFile::Simulated("sim-n1-0".to_owned())]);
    let found = sensor.carriers(&marker).unwrap();
    let [process] = found.as_slice() else { panic!("one process: {found:?}") };
    assert_eq!(process.key.pid, sleep.child.id());
    assert_eq!(process.devices, Some(held.clone()));
    assert!(process.has_local_rank && process.signals.is_some());
    // Between two looks a process may have gone to sleep: the rest of it is the same.
    let holders = sensor.holders(&held).unwrap().0.into_iter();
    let holders: Vec<_> =
        holders.map(|holder| ProcessSample { state: process.state, ..holder }).collect();
    assert_eq!(holders, vec![process.clone()]);

    let files = sensor.inspect(sleep.child.id(), Some(&fs::canonicalize(&real).unwrap())).unwrap();
    assert_eq!(files.open_checkpoint_files.len(), 1);
    fs::remove_file(real.join("sim-n1-0")).unwrap();
    let removed = sensor.inspect(sleep.child.id(), None).unwrap();
    assert_eq!(removed.devices, Some(held.clone()), "an open file that was removed is still held");

    let pid = sleep.child.id();
    drop(sleep);
    assert_eq!(sensor.inspect(pid, None), None);
    assert_eq!(sensor.holders(&held).unwrap().0, vec![]);
}

#[test]
fn a_worker_of_another_agent_on_the_machine_is_a_stranger() {
    let check = |environ: &[u8], expected| assert_eq!(is_of_another(environ, "ab"), expected);
    check(b"SLUICE_WORKER=train/1/0\0SLUICE_NODE_UID=ab\0", false);
    check(b"SLUICE_WORKER=train/1/0\0SLUICE_NODE_UID=cd\0", true);
    check(b"SLUICE_WORKER=train/1/0\0SLUICE_NODE_UID=abc\0", true);
    check(b"SLUICE_WORKER=train/1/0\0", false);
}
