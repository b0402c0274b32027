use sluice_core::sample::{DiscardCounters, FlushCounters, VolumeCounters, VolumeRates};

use super::{Line, parse, rates};

/// The first 14 columns of a disk after 18,300 MiB were read at a queue of 114.
const READ: &str = " 259       3 nvme0n2 71239 0 37478400 868737 0 0 0 0 114 7602 868737";

fn counters() -> VolumeCounters {
    VolumeCounters {
        read_ios: 71_239,
        read_bytes: 37_478_400 * 512,
        read_time_ms: 868_737,
        in_flight: Some(114),
        io_time_ms: 7602,
        weighted_io_time_ms: 868_737,
        ..VolumeCounters::default()
    }
}

fn check(text: &str, expected: Option<VolumeCounters>, malformed: u32) {
    let expected = expected.map(|counters| Line { name: "nvme0n2".to_owned(), counters });
    assert_eq!(parse(text.as_bytes()), (expected.into_iter().collect(), malformed), "{text:?}");
}

#[test]
fn every_kernels_columns_are_read_and_absent_ones_are_absent() {
    let discard = Some(DiscardCounters { ios: 1, merges: 2, bytes: 1536, time_ms: 4 });
    let flush = Some(FlushCounters { ios: 5, time_ms: 6 });
    check(READ, Some(counters()), 0);
    let with_discard = VolumeCounters { discard, ..counters() };
    check(&format!("{READ} 1 2 3 4\n"), Some(with_discard), 0);
    let with_flush = VolumeCounters { discard, flush, ..counters() };
    check(&format!("{READ} 1 2 3 4 5 6\n"), Some(with_flush), 0);
    check(&format!("{READ} 1 2 3 4 5 6 7\n"), Some(with_flush), 0);
    check(&format!("{READ} 1 2 3\n"), Some(counters()), 0);
}

#[test]
fn seven_columns_cannot_be_told_from_a_cut_off_line_and_are_skipped() {
    check(" 259 3 nvme0n2 35486 38030 38030 38030", None, 1);
    check(" 259 3 nvme0n2", None, 1);
    check("", None, 0);
}

#[test]
fn impossible_number_in_flight_loses_the_field_and_keeps_the_line() {
    for in_flight in ["-1", "18446744073709551616", "4294967296"] {
        let line = READ.replace(" 114 ", &format!(" {in_flight} "));
        check(&line, Some(VolumeCounters { in_flight: None, ..counters() }), 1);
    }
}

#[test]
fn other_impossible_numbers_lose_the_line() {
    check(&READ.replace("71239", "99999999999999999999"), None, 1);
    check(&READ.replace(" 7602 ", " 4294967296 "), None, 1);
    check(&READ.replace("259", "x"), None, 1);
    let most = READ.replace("37478400", "18446744073709551615");
    check(&most, Some(VolumeCounters { read_bytes: u64::MAX, ..counters() }), 0);
}

#[test]
fn disk_at_its_cap_shows_throughput_await_and_queue() {
    assert_eq!(
        rates(&VolumeCounters::default(), &counters(), 7602),
        Some(VolumeRates {
            interval_ms: 7602,
            read_bytes_per_second: 2_524_196_369, // 2,407 MiB/s
            write_bytes_per_second: 0,
            read_ios_per_second: 9371,
            write_ios_per_second: 0,
            read_await_us: Some(12_195),
            write_await_us: None,
            queue_length_milli: 114_277,
            utilisation_permille: 1000,
        })
    );
}

#[test]
fn identical_samples_have_no_rates_but_zeros_and_no_await() {
    let still = VolumeRates { interval_ms: 1000, ..VolumeRates::default() };
    assert_eq!(rates(&counters(), &counters(), 1000), Some(still));
    assert_eq!(rates(&counters(), &counters(), 0), None);
}

#[test]
fn times_wrap_at_32_bits() {
    let before = VolumeCounters {
        read_time_ms: u32::MAX,
        write_time_ms: u32::MAX - 9,
        io_time_ms: u32::MAX,
        weighted_io_time_ms: u32::MAX - 99,
        ..counters()
    };
    let after = VolumeCounters {
        read_ios: before.read_ios + 10,
        write_ios: 20,
        read_time_ms: 100,
        write_time_ms: 10,
        io_time_ms: 499,
        weighted_io_time_ms: 900,
        ..before
    };
    assert_eq!(
        rates(&before, &after, 1000),
        Some(VolumeRates {
            interval_ms: 1000,
            read_ios_per_second: 10,
            write_ios_per_second: 20,
            read_await_us: Some(10_100),
            write_await_us: Some(1000),
            queue_length_milli: 1000,
            utilisation_permille: 500,
            ..VolumeRates::default()
        })
    );
}

#[test]
fn counter_that_went_back_gives_no_rates() {
    let after = counters();
    for before in [
        VolumeCounters { read_ios: after.read_ios + 1, ..after },
        VolumeCounters { read_merges: 1, ..after },
        VolumeCounters { read_bytes: after.read_bytes + 1, ..after },
        VolumeCounters { write_ios: 1, ..after },
        VolumeCounters { write_merges: 1, ..after },
        VolumeCounters { write_bytes: 1, ..after },
    ] {
        assert_eq!(rates(&before, &after, 1000), None, "{before:?}");
    }
}

#[test]
fn largest_counters_do_not_overflow() {
    let after = VolumeCounters {
        read_ios: u64::MAX,
        read_bytes: u64::MAX,
        weighted_io_time_ms: u32::MAX,
        ..VolumeCounters::default()
    };
    let found = rates(&VolumeCounters::default(), &after, 1).unwrap();
    assert_eq!(found.read_bytes_per_second, u64::MAX);
    assert_eq!(found.queue_length_milli, u64::from(u32::MAX) * 1000);
}
