use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use sluice_core::sample::{MountTableSample, PressureSample, VolumeJudgement};
use sluice_core::volume::Finding;
use sluice_core::volume::read_ahead::{Intent, State};
use tokio::sync::watch;

use super::{VolumeJudge, VolumePolicy};
use crate::sensor::Reading;
use crate::sensor::mounts::{KUBELET_ROOT, MountSensor};
use crate::sensor::tests::host;

fn reading<T>(value: Option<T>) -> watch::Receiver<Reading<T>> {
    let now = Instant::now();
    let mut reading = Reading::starting("test", Duration::from_secs(1), now);
    reading.value = value;
    watch::channel(reading).1
}

fn judge(root: &Path, disks: &[(&str, u64)]) -> VolumeJudge {
    let intents = disks
        .iter()
        .map(|(disk, asked_kib)| ((*disk).to_owned(), Intent { asked_kib: *asked_kib }));
    let policy = VolumePolicy {
        read_ahead: intents.collect(),
        node_limit: None,
        kubelet_root: KUBELET_ROOT.into(),
        ..VolumePolicy::default()
    };
    let mounts: Option<MountTableSample> = MountSensor::new(root).sample().ok();
    VolumeJudge::new(root, &policy, reading(mounts), reading(None::<PressureSample>))
}

fn judged(root: &Path, disks: &[(&str, u64)]) -> BTreeMap<String, VolumeJudgement> {
    judge(root, disks).sample().unwrap().judged
}

fn findings(judgement: &VolumeJudgement) -> Vec<&'static str> {
    judgement.read_ahead.findings.iter().map(Finding::code).collect()
}

#[test]
fn read_ahead_of_a_vm_is_judged_by_the_disks_name() {
    let root = host("host-gce-a3");
    let table = judged(&root, &[("model1", 4_096), ("gke-a3-boot", 1_024), ("dm-0", 8_192)]);
    let state = |name: &str| (table[name].read_ahead.state, findings(&table[name]));
    assert_eq!(state("nvme0n2"), (State::AsAsked, vec![]));
    assert_eq!(state("nvme0n1"), (State::Drifted, vec!["read-ahead-never-set"]));
    assert_eq!(state("dm-0"), (State::AsAsked, vec![]));
    assert_eq!(state("nvme0n4").0, State::Unasked);
    for name in ["nvme0c0n1", "loop1"] {
        assert!(!table.contains_key(name), "{name}");
    }
}

#[test]
fn drift_of_a_mount_without_journal_names_the_drivers_way() {
    let table = judged(&host("host-gce-a3"), &[("model1", 8_192)]);
    assert_eq!(findings(&table["nvme0n2"]), ["read-ahead-noload"]);
}

#[test]
fn drift_of_a_block_volume_and_of_a_layer_have_their_own_causes() {
    let table = judged(&host("host-gce-a3"), &[("x-part1", 64), ("pvc-cached", 64)]);
    assert_eq!(findings(&table["nvme0n4"]), ["read-ahead-of-block"]);
    assert_eq!(findings(&table["nvme0n3"]), ["read-ahead-of-layer"]);
}

#[test]
fn value_that_changes_is_seen_as_reset_and_another_disk_as_never_set() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("sys/class/block/sdb");
    fs::create_dir_all(dir.join("queue")).unwrap();
    fs::create_dir_all(root.path().join("proc")).unwrap();
    fs::write(root.path().join("proc/diskstats"), "").unwrap();
    let set = |diskseq: &str, kib: &str| {
        fs::write(dir.join("diskseq"), diskseq).unwrap();
        fs::write(dir.join("queue/read_ahead_kb"), kib).unwrap();
    };
    let mut judge = judge(root.path(), &[("sdb", 4_096)]);
    let mut state = || {
        let table = judge.sample().unwrap().judged;
        (table["sdb"].read_ahead.state, findings(&table["sdb"]))
    };
    set("9\n", "128\n");
    assert_eq!(state(), (State::Drifted, vec!["read-ahead-never-set"]));
    set("9\n", "4096\n");
    assert_eq!(state(), (State::AsAsked, vec![]));
    set("9\n", "128\n");
    assert_eq!(state(), (State::Drifted, vec!["read-ahead-reset"]));
    set("11\n", "128\n");
    assert_eq!(state(), (State::Drifted, vec!["read-ahead-never-set"]));
}
