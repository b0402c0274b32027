use super::{Ask, Binding, Forecast, Plan, plan};
use crate::volume::limits::Limits;
use crate::volume::limits::tests::limits;
use crate::volume::{Finding, Mib};

/// 70 billion parameters of two bytes.
const MODEL_BYTES: u64 = 140_000_000_000;

fn ask(readers: u64, mib: u64) -> Ask {
    Ask {
        disk: "hyperdisk-ml".to_owned(),
        size_gib: 300,
        readers,
        load_bytes: MODEL_BYTES,
        throughput: Some(Mib(mib)),
        machine: Some("c3-standard-44".to_owned()),
        node_limit: None,
        read_ahead_kib: Some(8_192),
        streams: 8,
        load_within_ms: None,
    }
}

fn made(ask: &Ask) -> Plan {
    plan(&limits(), ask).unwrap()
}

fn check(ask: &Ask, rate_mib: u64, load_ms: u64, binding: Binding) {
    let forecast = made(ask).asked.unwrap();
    let rate = forecast.reader_bytes_per_second >> 20;
    assert_eq!((rate, forecast.load_ms, forecast.binding), (rate_mib, load_ms, binding), "{ask:?}");
}

fn refused(ask: &Ask) -> Vec<String> {
    let findings = plan(&limits(), ask).unwrap_err();
    findings.iter().map(|f| format!("{}: {f}; {}", f.code(), f.hint())).collect()
}

#[test]
fn one_reader_of_2400_mib_loads_140_gb_in_56_seconds() {
    check(&ask(1, 2_400), 2_400, 55_631, Binding::Node);
}

#[test]
fn sixteen_readers_of_2400_mib_get_150_each_and_take_890_seconds() {
    check(&ask(16, 2_400), 150, 890_096, Binding::OtherReaders);
}

#[test]
fn sixteen_readers_of_38400_mib_are_as_fast_as_one() {
    check(&ask(16, 38_400), 2_400, 55_631, Binding::Node);
}

#[test]
fn sixteen_readers_of_24576_mib_on_faster_machines_take_87_seconds() {
    let fast = Ask { node_limit: Some(Mib(4_000)), ..ask(16, 24_576) };
    check(&fast, 1_536, 86_923, Binding::OtherReaders);
}

#[test]
fn default_read_ahead_takes_1270_seconds_even_alone() {
    let untouched = Ask { read_ahead_kib: Some(128), streams: 1, ..ask(1, 2_400) };
    check(&untouched, 105, 1_271_566, Binding::ReadAhead);
    let finding = Finding::VolumeReadAheadBinds { kib: 128, rate: Mib(105), wanted_kib: 4_096 };
    assert!(made(&untouched).findings.contains(&finding));
}

#[test]
fn read_ahead_of_4_mib_takes_74_seconds() {
    let tuned = Ask { read_ahead_kib: Some(4_096), streams: 1, ..ask(1, 2_400) };
    check(&tuned, 1_800, 74_175, Binding::ReadAhead);
}

#[test]
fn volume_slower_than_its_only_reader_binds() {
    check(&ask(1, 400), 400, 333_786, Binding::Volume);
}

#[test]
fn staggered_loads_are_done_in_half_the_time_on_average() {
    let forecast = made(&ask(16, 2_400)).asked.unwrap();
    assert_eq!((forecast.full_speed_readers, forecast.staggered_mean_ms), (1, 472_863));
    let some = made(&ask(5, 4_800)).asked.unwrap();
    // Two, two and one: (2 × 1 + 2 × 2 + 1 × 3) ÷ 5 loads.
    assert_eq!((some.full_speed_readers, some.staggered_mean_ms), (2, 55_631 * 9 / 5));
}

#[test]
fn advised_throughput_lets_each_reader_have_its_machines_limit() {
    let untouched = Ask { throughput: None, ..ask(16, 0) };
    let plan = made(&untouched);
    assert_eq!(plan.throughput_default, Some(Mib(7_200)));
    assert_eq!(
        plan.advised,
        Forecast {
            throughput: Mib(38_400),
            read_ahead_kib: 8_192,
            share_bytes_per_second: 2_400 << 20,
            reader_bytes_per_second: 2_400 << 20,
            load_ms: 55_631,
            binding: Binding::Node,
            full_speed_readers: 16,
            staggered_mean_ms: 55_631,
        }
    );
    assert_eq!(plan.iops, Some(614_400));
    let finding = Finding::VolumeDefaultThroughput { default: Mib(7_200), wanted: Mib(38_400) };
    assert!(plan.findings.contains(&finding));
}

#[test]
fn advised_throughput_is_no_more_than_a_deadline_asks_for() {
    let patient = Ask { throughput: None, load_within_ms: Some(300_000), ..ask(16, 0) };
    let advised = made(&patient).advised;
    assert_eq!(advised.throughput, Mib(7_136));
    assert!(advised.load_ms <= 300_000);
    // The floor for many readers counts more.
    let many =
        Ask { throughput: Some(Mib(50_000)), load_within_ms: Some(86_400_000), ..ask(500, 0) };
    assert_eq!(made(&many).advised.throughput, Mib(50_000));
}

#[test]
fn read_ahead_is_advised_by_the_machines_limit() {
    let of = |mib| {
        let ask = Ask { read_ahead_kib: None, node_limit: Some(Mib(mib)), ..ask(1, 2_400) };
        made(&ask).advised.read_ahead_kib
    };
    assert_eq!((of(2_400), of(3_999), of(4_000)), (4_096, 4_096, 8_192));
}

#[test]
fn throughput_beyond_1600_a_gib_is_refused_with_the_size_that_it_needs() {
    assert_eq!(
        refused(&ask(1, 480_001)),
        [
            "volume-throughput-too-high: 480,001 MiB/s is more than 300 GiB may have: at most 480,000 MiB/s; nearest \
             legal: 480,000 MiB/s; that much needs at least 301 GiB"
        ]
    );
    assert!(plan(&limits(), &ask(1, 480_000)).is_ok());
    assert_eq!(
        refused(&ask(1, 2_097_153)),
        [
            "volume-throughput-beyond-type: 2,097,153 MiB/s is more than any hyperdisk-ml may have: at most \
             2,097,152 MiB/s; nearest legal at this size: 480,000 MiB/s"
        ]
    );
}

#[test]
fn throughput_of_one_mib_is_refused_with_the_least() {
    assert_eq!(
        refused(&ask(1, 1)),
        [
            "volume-throughput-too-low: 1 MiB/s is less than 300 GiB must have: at least 400 MiB/s; nearest legal: \
             400 MiB/s"
        ]
    );
}

#[test]
fn thousand_readers_of_300_gib_are_refused_with_copies_and_a_smaller_size() {
    assert_eq!(
        refused(&ask(1_000, 100_000)),
        [
            "volume-readers-too-many: 1000 machines cannot attach one volume of 300 GiB: at most 600; nearest legal: \
             600 machines a volume, so 2 copies; or a volume of at most 256 GiB"
        ]
    );
    let nobody = Ask { readers: 3_000, ..ask(1, 300_000) };
    assert_eq!(
        refused(&nobody),
        [
            "volume-readers-too-many: 3000 machines cannot attach one volume of 300 GiB: at most 600; nearest legal: \
             600 machines a volume, so 5 copies"
        ]
    );
}

#[test]
fn more_than_twenty_readers_need_100_mib_each() {
    assert!(plan(&limits(), &ask(20, 400)).is_ok());
    assert_eq!(
        refused(&ask(500, 49_999)),
        [
            "volume-share-below-floor: 500 machines need at least 100 MiB/s each, and 49,999 MiB/s is less than that \
             together; nearest legal: 50,000 MiB/s"
        ]
    );
    assert!(plan(&limits(), &ask(500, 50_000)).is_ok());
}

#[test]
fn size_outside_of_the_type_is_refused_with_the_nearest() {
    let sized = |size_gib| Ask { size_gib, ..ask(1, 400) };
    assert_eq!(
        refused(&sized(3)),
        [
            "volume-size-illegal: 3 GiB is no size of hyperdisk-ml: it comes from 4 to 65536 GiB; nearest legal: 4 GiB"
        ]
    );
    assert_eq!(refused(&sized(65_537)).len(), 1);
}

#[test]
fn machine_that_cannot_attach_it_and_unknown_types_are_refused() {
    let n2 = Ask { machine: Some("n2-standard-8".to_owned()), ..ask(1, 2_400) };
    assert_eq!(plan(&limits(), &n2).unwrap_err()[0].code(), "volume-machine-unsupported");
    let typo = Ask { disk: "hyperdisk-mi".to_owned(), ..ask(1, 2_400) };
    assert_eq!(
        refused(&typo),
        [
            "volume-type-unknown: disk type \"hyperdisk-mi\" is not in the table of limits; use one of hyperdisk-ml, \
             or add a row with --limits"
        ]
    );
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let n2 = Ask { machine: Some("n2-standard-8".to_owned()), ..ask(1_000, 480_001) };
    let codes: Vec<&str> = plan(&limits(), &n2).unwrap_err().iter().map(Finding::code).collect();
    assert_eq!(
        codes,
        ["volume-throughput-too-high", "volume-readers-too-many", "volume-machine-unsupported"]
    );
}

#[test]
fn what_could_be_better_is_said_once_and_most_severe_first() {
    let codes =
        |ask: &Ask| -> Vec<&'static str> { made(ask).findings.iter().map(Finding::code).collect() };
    let notes = ["volume-read-only-for-good", "volume-change-slow"];
    assert_eq!(codes(&ask(16, 2_400)), [&["volume-throughput-short"][..], &notes].concat());
    assert_eq!(codes(&ask(16, 38_401)), [&["volume-throughput-wasted"][..], &notes].concat());
    assert_eq!(codes(&ask(16, 38_400)), notes);
    let c4 = Ask { machine: Some("c4-standard-96".to_owned()), ..ask(1, 2_400) };
    assert_eq!(
        codes(&c4),
        ["volume-machine-assumed", "volume-made-too-early", "volume-change-slow"]
    );
}

#[test]
fn extreme_numbers_overflow_nothing() {
    for value in [0, 1, u64::MAX] {
        let extreme = Ask {
            readers: value,
            load_bytes: value,
            throughput: None,
            node_limit: Some(Mib(value)),
            read_ahead_kib: Some(value),
            streams: value,
            load_within_ms: Some(value),
            ..ask(1, 0)
        };
        // Legal or not: an answer.
        let _ = plan(&limits(), &extreme);
        let _ = plan(&Limits::default(), &extreme);
        let single = Ask { readers: 1, ..extreme };
        assert!(plan(&limits(), &single).is_ok());
    }
}
