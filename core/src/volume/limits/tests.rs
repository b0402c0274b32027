use super::{
    AttachStep, DefaultThroughput, DiskRules, Limits, MachineRule, ReaderRate, ShareFloor, Sharing,
    ThroughputRule, matches,
};
use crate::volume::Mib;

/// Hyperdisk ML as of 2026-11.
pub(in crate::volume) fn hyperdisk_ml() -> DiskRules {
    let step = |up_to_gib, machines_max| AttachStep { up_to_gib, machines_max };
    let steps = vec![
        step(256, 2_500),
        step(1_024, 600),
        step(2_048, 300),
        step(16_384, 128),
        step(65_536, 30),
    ];
    DiskRules {
        name: "hyperdisk-ml".to_owned(),
        size_min_gib: 4,
        size_max_gib: 65_536,
        throughput: ThroughputRule {
            is_settable: true,
            min: Mib(400),
            min_milli_per_gib: 120,
            max: Mib(2_097_152),
            max_per_gib: Some(Mib(1_600)),
            default: Some(DefaultThroughput { at_least: Mib(400), per_gib: Mib(24) }),
        },
        iops_max: 33_554_432,
        iops_per_mib: Some(16),
        sharing: Sharing::ReadOnly(steps),
        floor: Some(ShareFloor { readers_above: 20, each: Mib(100) }),
        throughput_change_hours: Some(6),
        size_change_hours: Some(4),
        series: ["a3", "c3", "c4"].map(str::to_owned).to_vec(),
        series_not: vec!["n2".to_owned()],
        series_new_only: vec!["c4".to_owned()],
        made_after: "2026-02-04".to_owned(),
        ..DiskRules::default()
    }
}

/// Hyperdisk ML on three machines.
pub(in crate::volume) fn limits() -> Limits {
    let row = |pattern: &str, mib, is_assumed| MachineRule {
        pattern: pattern.to_owned(),
        throughput: Mib(mib),
        is_assumed,
        ..MachineRule::default()
    };
    let rate = |read_ahead_kib, mib| ReaderRate { read_ahead_kib, rate: Mib(mib) };
    Limits {
        disks: vec![hyperdisk_ml()],
        machines: vec![
            row("a3-ultragpu-8g", 4_000, false),
            row("c3-standard-44", 2_400, false),
            row("c4-*-288", 10_000, false),
            row("*", 2_400, true),
        ],
        readers: vec![rate(128, 105), rate(1_024, 700), rate(4_096, 1_800), rate(8_192, 2_300)],
    }
}

#[test]
fn throughput_of_hyperdisk_ml_follows_its_size() {
    let disk = hyperdisk_ml();
    let of = |gib| (disk.throughput_min(gib).0, disk.throughput_max(gib).0);
    assert_eq!(of(4), (400, 6_400));
    assert_eq!(of(300), (400, 480_000));
    assert_eq!(of(1_000), (400, 1_600_000));
    assert_eq!(of(4_000), (480, 2_097_152));
    assert_eq!(of(65_536), (7_865, 2_097_152));
}

#[test]
fn default_of_300_gib_is_7200_mib() {
    let disk = hyperdisk_ml();
    let of = |gib| disk.throughput_default(gib).unwrap().0;
    assert_eq!((of(4), of(16), of(17), of(300)), (400, 400, 408, 7_200));
}

#[test]
fn machines_that_attach_fall_with_the_size() {
    let disk = hyperdisk_ml();
    let of = |gib| disk.machines_max(gib).unwrap();
    let sizes = [4, 256, 257, 300, 1_024, 1_025, 2_048, 2_049, 16_384, 16_385, 65_536];
    assert_eq!(sizes.map(of), [2_500, 2_500, 600, 600, 600, 300, 300, 128, 128, 30, 30]);
    assert_eq!(disk.size_for_machines(1_000), Some(256));
    assert_eq!(disk.size_for_machines(600), Some(1_024));
    assert_eq!(disk.size_for_machines(2_501), None);
}

#[test]
fn size_for_a_throughput_is_the_smallest_that_may_have_it() {
    let disk = hyperdisk_ml();
    let of = |mib| disk.size_for(Mib(mib));
    assert_eq!(of(400), Some(4));
    assert_eq!(of(480_000), Some(300));
    assert_eq!(of(480_001), Some(301));
    assert_eq!(of(2_097_152), Some(1_311));
    assert_eq!(of(2_097_153), None);
}

#[test]
fn star_stands_for_anything() {
    let cases = [
        ("*", "", true),
        ("*", "a3-highgpu-8g", true),
        ("c4-*-288", "c4-standard-288", true),
        ("c4-*-288", "c4-standard-288-lssd", false),
        ("c4-*-288", "c4-288", false),
        ("c3-*-192*", "c3-standard-192-metal", true),
        ("a3-ultragpu-8g", "a3-ultragpu-8gx", false),
        ("*a*b", "xaxb", true),
        ("*a*b", "xbxa", false),
        ("ab*b", "ab", false),
    ];
    for (pattern, text, expected) in cases {
        assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
    }
}

#[test]
fn machine_is_found_by_type_by_family_and_else_by_the_row_for_any() {
    let limits = limits();
    let of = |machine| {
        let rule = limits.machine(machine, "hyperdisk-ml").unwrap();
        (rule.throughput.0, rule.is_assumed)
    };
    assert_eq!(of("a3-ultragpu-8g"), (4_000, false));
    assert_eq!(of("c4-highmem-288"), (10_000, false));
    assert_eq!(of("a3-highgpu-8g"), (2_400, true));
    assert_eq!(of("a3-highgpu"), (2_400, true));
}

#[test]
fn reader_gets_what_was_measured_and_between_two_rows_a_part() {
    let limits = limits();
    let of = |kib, streams| limits.reader_rate(kib, streams).unwrap().0;
    assert_eq!((of(128, 1), of(1_024, 1), of(4_096, 1), of(8_192, 1)), (105, 700, 1_800, 2_300));
    assert_eq!((of(0, 1), of(16, 1), of(576, 1), of(99_999, 1)), (105, 105, 402, 2_300));
    assert_eq!(of(128, 8), 840);
    assert_eq!(Limits::default().reader_rate(128, 1), None);
}
