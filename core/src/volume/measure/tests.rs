use super::{Completion, Step, measure};

fn every(period_us: u64, count: u64, bytes: u64) -> Vec<Completion> {
    (1..=count).map(|n| Completion { at_us: n * period_us, took_us: 2_000, bytes }).collect()
}

#[test]
fn window_leaves_out_the_warm_up_and_the_queue_that_is_left() {
    // 4 MiB each 10 ms are 400 MiB/s; the first second is three times as fast.
    let mut done = every(10_000, 400, 4 << 20);
    done.extend(every(5_000, 200, 4 << 20));
    let measured = measure(&done, 1_000_000).unwrap();
    assert_eq!(measured.bytes_per_second, 400 << 20);
    assert_eq!((measured.window_us, measured.completions), (3_000_000, 300));
    assert!(measured.is_long_enough && measured.is_steady);
}

#[test]
fn burst_that_runs_out_is_not_steady() {
    let mut done = every(10_000, 200, 4 << 20);
    done.extend((1..=50).map(|n| Completion {
        at_us: 2_000_000 + n * 20_000,
        took_us: 2_000,
        bytes: 4 << 20,
    }));
    let measured = measure(&done, 0).unwrap();
    assert!(!measured.is_steady && measured.is_long_enough);
}

#[test]
fn few_reads_in_a_short_window_are_not_believed() {
    let measured = measure(&every(10_000, 63, 1), 0).unwrap();
    assert!(!measured.is_long_enough);
    assert!(measure(&every(10_000, 64, 1), 0).unwrap().is_long_enough);
    assert!(measure(&every(1_000_000, 4, 1), 1).is_some_and(|m| m.window_us == 3_999_999));
}

#[test]
fn nothing_in_the_window_is_nothing_measured() {
    assert_eq!(measure(&[], 0), None);
    assert_eq!(measure(&every(10, 3, 1), 30), None);
    assert_eq!(measure(&every(10, 3, 1), u64::MAX), None);
    let at_zero = Completion { at_us: 0, took_us: 0, bytes: 1 };
    assert_eq!(measure(&[at_zero], 0), None);
}

#[test]
fn times_are_counted_in_powers_of_two() {
    let took = [0, 1, 2, 3, 4, 1_000, 1_023];
    let done: Vec<Completion> =
        took.iter().map(|took_us| Completion { at_us: 5, took_us: *took_us, bytes: 1 }).collect();
    let measured = measure(&done, 0).unwrap();
    assert_eq!(
        (measured.took_p50_us, measured.took_p99_us, measured.took_max_us),
        (3, 1_023, 1_023)
    );
    let reads: Vec<(u64, u64)> =
        measured.histogram.iter().map(|Step { below_us, reads }| (*below_us, *reads)).collect();
    let zeros = [16, 32, 64, 128, 256, 512].map(|below| (below, 0));
    assert_eq!(reads, [&[(1, 1), (2, 1), (4, 2), (8, 1)][..], &zeros, &[(1_024, 2)]].concat());
}

#[test]
fn extreme_times_overflow_nothing() {
    let done = Completion { at_us: u64::MAX, took_us: u64::MAX, bytes: u64::MAX };
    let measured = measure(&[done; 3], 0).unwrap();
    assert_eq!(measured.histogram, [Step { below_us: u64::MAX, reads: 3 }]);
}
