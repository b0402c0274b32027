use super::{Bottleneck, CgroupLimit, Setting, Watch};
use crate::sample::VolumeRates;
use crate::volume::{Finding, Mib};

fn rates(mib: u64, request_kib: u64, await_us: u64, queue_milli: u64) -> VolumeRates {
    VolumeRates {
        interval_ms: 1_000,
        read_bytes_per_second: mib << 20,
        read_ios_per_second: (mib << 10) / request_kib.max(1),
        read_await_us: (mib > 0).then_some(await_us),
        queue_length_milli: queue_milli,
        utilisation_permille: 1_000,
        ..VolumeRates::default()
    }
}

fn setting() -> Setting {
    Setting { node_limit: Some(Mib(2_400)), read_ahead_kib: Some(4_096), ..Setting::default() }
}

/// The verdict after each of some samples.
fn after(watch: &mut Watch, samples: &[VolumeRates], setting: &Setting) -> Vec<Bottleneck> {
    let step = |rates: &VolumeRates| {
        watch.update(Some(rates), Some(1), setting);
        watch.bottleneck()
    };
    samples.iter().map(step).collect()
}

fn last(samples: &[VolumeRates], setting: &Setting) -> (Bottleneck, Option<Finding>) {
    let mut watch = Watch::default();
    after(&mut watch, samples, setting);
    (watch.bottleneck(), watch.finding().cloned())
}

#[test]
fn run_of_googles_guide_is_at_the_limit_of_its_machine_and_not_just_busy() {
    // 18,300 MiB in 71,239 requests and 7.602 s, 114 in flight, 12.2 ms each.
    let guide = VolumeRates {
        interval_ms: 7_602,
        read_bytes_per_second: 2_524_219_416,
        read_ios_per_second: 9_371,
        read_await_us: Some(12_194),
        queue_length_milli: 114_277,
        utilisation_permille: 1_000,
        ..VolumeRates::default()
    };
    let expected = Finding::VolumeAtNodeLimit {
        rate: Mib(2_407),
        limit: Mib(2_400),
        queue: 114,
        await_us: 12_194,
        base_us: 2_000,
    };
    assert_eq!(last(&[guide], &setting()), (Bottleneck::Node, Some(expected)));
}

#[test]
fn full_queue_below_the_machines_limit_is_the_volumes() {
    let capped = rates(400, 256, 9_000, 32_000);
    let (who, finding) = last(&[capped; 5], &setting());
    assert_eq!(who, Bottleneck::Volume);
    let expected =
        Finding::VolumeAtItsLimit { rate: Mib(400), queue: 32, await_us: 9_000, base_us: 2_000 };
    assert_eq!(finding, Some(expected));
    let unknown = Setting { node_limit: None, ..setting() };
    assert_eq!(last(&[capped; 5], &unknown).0, Bottleneck::Volume);
}

#[test]
fn all_disks_of_a_machine_count_towards_its_limit() {
    let half = rates(1_200, 256, 12_000, 57_000);
    let shared = Setting { node_bytes_per_second: 2_410 << 20, ..setting() };
    assert_eq!(last(&[half; 5], &shared).0, Bottleneck::Node);
    assert_eq!(last(&[half; 5], &setting()).0, Bottleneck::Volume);
}

#[test]
fn flat_throughput_without_a_queue_is_the_cgroups() {
    let limit =
        CgroupLimit { cgroup: "kubepods/pod7".to_owned(), read_bytes_per_second: 400 << 20 };
    let throttled = Setting { cgroup: Some(limit), ..setting() };
    let (who, finding) = last(&[rates(400, 256, 4_000, 1_500); 5], &throttled);
    assert_eq!(who, Bottleneck::Cgroup);
    let expected = Finding::VolumeThrottledByCgroup {
        rate_bytes: 400 << 20,
        limit_bytes: 400 << 20,
        cgroup: "kubepods/pod7".to_owned(),
    };
    assert_eq!(finding, Some(expected));
    assert_eq!(last(&[rates(150, 256, 1_500, 500); 5], &throttled).0, Bottleneck::Nobody);
}

#[test]
fn quick_requests_one_after_the_other_are_the_readers_read_ahead() {
    let small = Setting { read_ahead_kib: Some(128), ..setting() };
    let (who, finding) = last(&[rates(105, 128, 1_200, 1_000); 5], &small);
    assert_eq!(who, Bottleneck::ReadAhead);
    let expected =
        Finding::VolumeReaderWaits { rate: Mib(105), kib: 128, await_us: 1_200, limit: Mib(2_400) };
    assert_eq!(finding, Some(expected.clone()));
    let relaxed = Setting { io_pressure_permyriad: Some(500), ..small.clone() };
    assert_eq!(last(&[rates(105, 128, 1_200, 1_000); 5], &relaxed).0, Bottleneck::Nobody);
    // A database: requests of 8 KiB at random.
    assert_eq!(last(&[rates(105, 8, 1_200, 1_000); 5], &small).0, Bottleneck::Nobody);
}

#[test]
fn nothing_is_said_before_five_seconds() {
    let seen = after(&mut Watch::default(), &[rates(2_400, 256, 12_000, 114_000); 6], &setting());
    let unknown = [Bottleneck::Unknown; 4];
    assert_eq!(seen, [&unknown[..], &[Bottleneck::Node; 2]].concat());
}

#[test]
fn uneven_throughput_is_nobodys_limit() {
    let samples: Vec<VolumeRates> =
        (0..10).map(|n| rates(300 + n * 40, 256, 9_000, 32_000)).collect();
    assert_eq!(last(&samples, &setting()), (Bottleneck::Nobody, None));
}

#[test]
fn verdict_outlasts_a_short_change_with_the_figures_of_its_beginning() {
    let mut watch = Watch::default();
    let capped = rates(400, 256, 9_000, 32_000);
    after(&mut watch, &[capped; 5], &setting());
    let finding = watch.finding().cloned();
    let idle = rates(0, 256, 0, 0);
    assert_eq!(after(&mut watch, &[idle; 2], &setting()), [Bottleneck::Volume; 2]);
    after(&mut watch, &[capped; 20], &setting());
    assert_eq!((watch.bottleneck(), watch.finding().cloned()), (Bottleneck::Volume, finding));
    let seen = after(&mut watch, &[idle; 12], &setting());
    assert_eq!(seen.first(), Some(&Bottleneck::Volume));
    assert_eq!((seen.last(), watch.finding()), (Some(&Bottleneck::Idle), None));
}

#[test]
fn device_that_does_not_answer_is_hung_until_it_does() {
    let mut watch = Watch::default();
    let silent = rates(0, 256, 0, 8_000);
    let seen = after(&mut watch, &[silent; 30], &setting());
    assert_eq!(seen.iter().position(|who| *who == Bottleneck::Hung), Some(29));
    let expected = Finding::VolumeHung { in_flight: 1, silent_ms: 30_000 };
    assert_eq!(watch.finding(), Some(&expected));
    watch.update(Some(&rates(100, 256, 900, 100)), Some(1), &setting());
    assert_ne!(watch.bottleneck(), Bottleneck::Hung);
    let mut idle = Watch::default();
    for _ in 0..60 {
        idle.update(Some(&rates(0, 256, 0, 0)), Some(0), &setting());
    }
    assert_eq!(idle.bottleneck(), Bottleneck::Idle);
}

#[test]
fn another_disk_of_the_name_begins_anew() {
    let mut watch = Watch::default();
    after(&mut watch, &[rates(400, 256, 9_000, 32_000); 5], &setting());
    watch.update(None, None, &setting());
    assert_eq!((watch.bottleneck(), watch.finding()), (Bottleneck::Unknown, None));
}

#[test]
fn extreme_figures_overflow_nothing() {
    let extreme = VolumeRates {
        interval_ms: u64::MAX,
        read_bytes_per_second: u64::MAX,
        write_bytes_per_second: u64::MAX,
        read_ios_per_second: u64::MAX,
        write_ios_per_second: u64::MAX,
        read_await_us: Some(u64::MAX),
        write_await_us: Some(u64::MAX),
        queue_length_milli: u64::MAX,
        utilisation_permille: u32::MAX,
    };
    let cgroup = Some(CgroupLimit { cgroup: String::new(), read_bytes_per_second: u64::MAX });
    let extreme_setting = Setting {
        node_limit: Some(Mib(u64::MAX)),
        node_bytes_per_second: u64::MAX,
        read_ahead_kib: Some(u64::MAX),
        cgroup,
        io_pressure_permyriad: Some(u32::MAX),
    };
    let mut watch = Watch::default();
    for _ in 0..3 {
        watch.update(Some(&extreme), Some(u32::MAX), &extreme_setting);
        watch.update(Some(&extreme), Some(u32::MAX), &setting());
    }
}
