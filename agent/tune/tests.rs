use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sluice_core::sample::{DeviceNumber, MountTableSample, VolumeTableSample};
use tempfile::TempDir;
use tokio::sync::watch;

use super::device::Device;
use super::mapped::{available_kib, is_mapped};
use super::{Parts, Record, Rules, Told, Work};
use crate::journal::Journal;
use crate::sensor::Reading;

const BOOT: &str = "boot-1";

/// A host with one disk `nvme0n2` whose `diskseq` is 9.
fn host(kib: u64) -> TempDir {
    let host = tempfile::tempdir().unwrap();
    let dir = host.path().join("sys/class/block/nvme0n2");
    fs::create_dir_all(dir.join("queue")).unwrap();
    fs::write(dir.join("diskseq"), "9\n").unwrap();
    fs::write(dir.join("queue/read_ahead_kb"), format!("{kib}\n")).unwrap();
    host
}

fn in_force(host: &Path) -> String {
    let file = host.join("sys/class/block/nvme0n2/queue/read_ahead_kb");
    fs::read_to_string(file).unwrap().trim().to_owned()
}

fn reading<T>() -> watch::Receiver<Reading<T>> {
    watch::channel(Reading::starting("test", Duration::from_secs(1), Instant::now())).1
}

fn work(host: &Path) -> Work {
    let journal_dir = host.join("journal");
    let parts = Parts {
        root: host.to_owned(),
        journal_dir: journal_dir.clone(),
        boot_id: BOOT.to_owned(),
        rules: Rules::default(),
        opted_in: std::collections::BTreeSet::new(),
        node_limit: None,
        period: Duration::from_secs(1),
        volumes: reading::<VolumeTableSample>(),
        mounts: reading::<MountTableSample>(),
        told: watch::channel(Told::new()).0,
    };
    let journal = Journal::open(journal_dir).unwrap();
    Work { parts, journal, known: BTreeMap::new(), mounted: BTreeMap::new() }
}

fn record() -> Record {
    Record {
        device: "nvme0n2".to_owned(),
        diskseq: Some(9),
        boot_id: BOOT.to_owned(),
        original_kib: 128,
        set_kib: vec![128, 4_096],
    }
}

/// What is in force once a record was taken up, and how many records are left.
fn recovered(record: &Record, kib: u64) -> (String, usize) {
    let host = host(kib);
    let work = work(host.path());
    work.journal.put("nvme0n2", record).unwrap();
    work.recover();
    let left = work.journal.load::<Record>().unwrap().0.len();
    (in_force(host.path()), left)
}

#[test]
fn what_a_killed_agent_has_set_is_put_back_only_where_it_is_still_there() {
    let kept = |kib: u64| (kib.to_string(), 0);
    assert_eq!(recovered(&record(), 4_096), ("128".to_owned(), 0));
    // Killed after the record and before the write.
    assert_eq!(recovered(&record(), 128), kept(128));
    // Somebody has set another value since.
    assert_eq!(recovered(&record(), 1_024), kept(1_024));
    // Another disk has the name, or the machine was started anew.
    assert_eq!(recovered(&Record { diskseq: Some(8), ..record() }, 4_096), kept(4_096));
    let other_boot = Record { boot_id: "boot-0".to_owned(), ..record() };
    assert_eq!(recovered(&other_boot, 4_096), kept(4_096));
}

#[test]
fn records_that_cannot_be_put_back_are_kept_and_lead_nowhere_else() {
    for device in ["../../../etc", "", ".."] {
        let record = Record { device: device.to_owned(), ..record() };
        assert_eq!(recovered(&record, 4_096), ("4096".to_owned(), 1), "{device}");
    }
    let slash = Device::new(Path::new("/host"), "cciss/c0d0", None).unwrap();
    let expected: PathBuf = "/host/sys/class/block/cciss!c0d0".into();
    assert!(format!("{slash:?}").contains(&format!("{expected:?}")), "{slash:?}");
}

#[test]
fn disk_that_has_changed_its_name_is_not_written() {
    let host = host(128);
    let other = Device::new(host.path(), "nvme0n2", Some(10)).unwrap();
    assert_eq!(other.write(4_096), Err("another disk has taken its name".to_owned()));
    let same = Device::new(host.path(), "nvme0n2", Some(9)).unwrap();
    fs::remove_file(host.path().join("sys/class/block/nvme0n2/queue/read_ahead_kb")).unwrap();
    assert!(same.write(4_096).unwrap_err().contains("could not write"), "nothing is made");
}

#[test]
fn mappings_are_found_by_the_device_and_not_by_what_paths_say() {
    let host = tempfile::tempdir().unwrap();
    let process = |pid: &str, maps: &str| {
        fs::create_dir_all(host.path().join("proc").join(pid)).unwrap();
        fs::write(host.path().join("proc").join(pid).join("maps"), maps).unwrap();
    };
    let number = DeviceNumber { major: 259, minor: 3 };
    process(
        "1",
        "55d0-55d1 r--p 00000000 08:01 12  /bin/sh\n7ffd-7ffe rw-p 00000000 00:00 0  [stack]\n",
    );
    process("2", "");
    process("self", "7f00-7f01 r--s 00000000 103:03 7 /models/x\n");
    assert_eq!(is_mapped(host.path(), number), Some(false));
    process("3", "7f00-7f01 r--s 00000000 08:01 7 /a 103:03 b\n");
    assert_eq!(is_mapped(host.path(), number), Some(false));
    // A process that ended between the two looks has no maps any more.
    fs::create_dir_all(host.path().join("proc/4")).unwrap();
    assert_eq!(is_mapped(host.path(), number), Some(false));
    // One that cannot be read hides what it has; one that is seen to have it decides.
    fs::create_dir_all(host.path().join("proc/5/maps")).unwrap();
    assert_eq!(is_mapped(host.path(), number), None);
    process("6", "7f00-7f01 r--s 00000000 103:03 7                  /models/x (deleted)\n");
    assert_eq!(is_mapped(host.path(), number), Some(true));
}

#[test]
fn available_memory_is_read_or_not_known() {
    let host = tempfile::tempdir().unwrap();
    assert_eq!(available_kib(host.path()), None);
    fs::create_dir_all(host.path().join("proc")).unwrap();
    fs::write(host.path().join("proc/meminfo"), "MemTotal: 9 kB\nMemAvailable:   123456 kB\n")
        .unwrap();
    assert_eq!(available_kib(host.path()), Some(123_456));
}
