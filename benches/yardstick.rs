//! What other figures of a run are compared with: machines differ, and so does one machine from hour to hour.

use std::hint::black_box;

use criterion::{BatchSize, Criterion};

/// What figures of different machines are to be compared by.
pub(crate) fn yardstick(criterion: &mut Criterion) {
    let numbers: Vec<u64> =
        (0..65_536u64).map(|index| index.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    criterion.bench_function("yardstick: sort 65,536 numbers", |bencher| {
        bencher.iter_batched(
            || numbers.clone(),
            |mut numbers| {
                numbers.sort_unstable();
                black_box(numbers)
            },
            BatchSize::LargeInput,
        );
    });
}
