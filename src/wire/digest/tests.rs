//! Tests of the digest.

use super::{EntityHashes, fnv, volume_hash};
use crate::wire::pb;

fn device(id: &str) -> pb::Device {
    pb::Device { id: id.to_owned(), resource: "nvidia.com/gpu".to_owned(), ..Default::default() }
}

fn worker(workload: &str) -> pb::Worker {
    pb::Worker { workload: workload.to_owned(), attempt: 1, ..Default::default() }
}

fn full() -> pb::Report {
    pb::Report {
        full: true,
        devices: vec![device("a"), device("b")],
        volumes: vec![pb::Volume { device: "sda".to_owned(), ..Default::default() }],
        workers: vec![worker("train")],
        ..Default::default()
    }
}

fn after(reports: &[pb::Report]) -> EntityHashes {
    let mut hashes = EntityHashes::default();
    reports.iter().for_each(|report| hashes.apply(report));
    hashes
}

#[test]
fn the_hash_is_fnv_1a() {
    // Test vectors of the authors of the hash.
    assert_eq!(fnv(super::FNV_OFFSET, b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(fnv(super::FNV_OFFSET, b"a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(fnv(super::FNV_OFFSET, b"foobar"), 0x8594_4171_f739_67e8);
}

#[test]
fn the_way_to_a_state_does_not_matter() {
    let mut reordered = full();
    reordered.devices.reverse();
    let delta = pb::Report {
        devices: vec![device("b")],
        removed_devices: vec!["c".to_owned()],
        ..Default::default()
    };
    let mut other = full();
    other.devices = vec![device("a"), device("c")];
    let expected = after(&[full()]);
    assert_eq!(expected.keys().collect::<Vec<_>>(), ["d/a", "d/b", "v/sda", "w/train/1/0"]);
    assert_eq!(after(&[reordered]), expected);
    assert_eq!(after(&[other, delta]).digest(), expected.digest());
}

#[test]
fn a_full_report_forgets_what_was_before() {
    let other = pb::Report { full: true, devices: vec![device("z")], ..Default::default() };
    assert_eq!(after(&[other, full()]), after(&[full()]));
    assert_eq!(after(&[full(), pb::Report { full: true, ..Default::default() }]).digest(), 0);
}

#[test]
fn what_passes_by_itself_does_not_change_the_digest_and_anything_else_does() {
    let before = after(&[full()]).digest();
    let mut aged = full();
    aged.devices[0].age_ms = Some(17);
    aged.devices[0].holder_pids = vec![4];
    aged.volumes[0].counters = Some(pb::VolumeCounters { reads: 9, ..Default::default() });
    aged.workers[0].running_ms = 12;
    aged.workers[0].checkpoint_age_ms = Some(3);
    let fault = pb::Fault { count: 1, source: "kmsg".to_owned(), ..Default::default() };
    let health = pb::NodeHealth { faults: vec![fault.clone()], ..Default::default() };
    aged.devices[0].faults =
        vec![pb::Fault { count: 9, since_age_ms: 7, seen_age_ms: 5, ..fault.clone() }];
    aged.health =
        Some(pb::NodeHealth { kernel_log: Some(pb::KernelLog::default()), ..health.clone() });
    let mut told = full();
    told.devices[0].faults = vec![fault];
    told.health = Some(health.clone());
    assert_eq!(after(&[aged]).digest(), after(&[told.clone()]).digest());
    assert_ne!(after(&[told.clone()]).digest(), before);
    told.health = Some(pb::NodeHealth { action: pb::Action::Reboot.into(), ..health });
    assert_ne!(after(&[told]).digest(), before);
    let mut sick = full();
    sick.devices[0].health = pb::Health::Unhealthy.into();
    assert_ne!(after(&[sick]).digest(), before);
    let read_ahead = pb::Volume { read_ahead_bytes: Some(131_072), ..full().volumes.remove(0) };
    assert_ne!(volume_hash(&read_ahead), volume_hash(&full().volumes[0]));
}
