//! Tests of the waits.

use std::time::Duration;

use super::Backoff;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn waits_are_spread_below_a_bound_that_doubles_up_to_the_cap() {
    let bounds = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
    let mut longest = [Duration::ZERO; 8];
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut backoff = Backoff::default();
        for (longest, bound) in longest.iter_mut().zip(bounds) {
            let wait = backoff.next(&mut rng);
            assert!(wait <= ms(bound), "{wait:?} of {bound}");
            *longest = wait.max(*longest);
        }
        backoff.reset();
        assert!(backoff.next(&mut rng) <= ms(500));
    }
    for (longest, bound) in longest.iter().zip(bounds) {
        assert!(*longest > ms(bound * 9 / 10), "{longest:?} of {bound} after 200 tries");
    }
}

#[test]
fn a_wait_that_was_asked_for_is_kept_and_spread_and_bounded() {
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..100 {
        let wait = Backoff::default().after(ms(10_000), &mut rng);
        assert!((ms(10_000)..=ms(13_000)).contains(&wait), "{wait:?}");
        let wait = Backoff::default().after(Duration::MAX, &mut rng);
        assert!(wait <= ms(751_000), "{wait:?}");
        let wait = Backoff::default().longest(&mut rng);
        assert!((ms(15_000)..=ms(30_000)).contains(&wait), "{wait:?}");
    }
}
