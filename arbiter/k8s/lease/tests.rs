//! Who may take the Lease when.

use super::*;

const GOOD_FOR: Duration = Duration::from_secs(15);

fn held(holder: &str, seconds: Option<i32>, now: Instant) -> Seen {
    let spec = LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: seconds,
        ..LeaseSpec::default()
    };
    seen("7".to_owned(), Some(&spec), now, GOOD_FOR)
}

#[test]
fn lease_is_taken_once_it_has_not_changed_for_as_long_as_it_says() {
    let now = Instant::now();
    let seen = held("a", Some(4), now);
    assert!(!seen.is_free(now));
    assert!(!seen.is_free(now + Duration::from_millis(3_999)));
    assert!(seen.is_free(now + Duration::from_secs(4)));
}

#[test]
fn lease_that_was_given_up_is_free_at_once() {
    let now = Instant::now();
    assert!(held("", Some(15), now).is_free(now));
    assert!(seen("1".to_owned(), None, now, GOOD_FOR).is_free(now));
}

#[test]
fn nonsense_in_the_lease_counts_as_the_own_duration() {
    let now = Instant::now();
    for seconds in [None, Some(-3)] {
        let seen = held("a", seconds, now);
        assert!(!seen.is_free(now + GOOD_FOR - Duration::from_millis(1)), "{seconds:?}");
        assert!(seen.is_free(now + GOOD_FOR), "{seconds:?}");
    }
}

#[test]
fn durations_are_told_in_whole_seconds_rounded_up() {
    let told = [0, 1, 1_000, 1_001, 15_000].map(|ms| seconds(Duration::from_millis(ms)));
    assert_eq!(told, [1, 1, 1, 2, 15]);
}
