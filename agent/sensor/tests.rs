use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::{Reading, next_start, spawn};

/// Where a tree of fixtures lies.
pub(super) fn host(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Waits until a reading satisfies `done`; a sensor that never gets there fails the test.
fn wait<T: Clone>(
    readings: &mut watch::Receiver<Reading<T>>,
    done: impl FnMut(&Reading<T>) -> bool,
) -> Reading<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let found = tokio::time::timeout(Duration::from_secs(20), readings.wait_for(done)).await;
        found.expect("the sensor answers in time").expect("the sensor lives").clone()
    })
}

#[test]
fn failing_sensor_keeps_its_last_value_and_says_why() {
    let mut count = 0;
    let mut readings = spawn("test-fail", Duration::from_millis(1), move || {
        count += 1;
        if count == 1 { Ok(7) } else { Err(format!("attempt {count} failed")) }
    })
    .unwrap();
    let reading = wait(&mut readings, |reading| reading.failures >= 2);
    assert_eq!(reading.value, Some(7));
    assert!(reading.error.unwrap().starts_with("attempt "));
    assert!(reading.attempted_at > reading.sampled_at);
}

#[test]
fn sensor_that_recovers_forgets_its_error() {
    let mut count = 0;
    let mut readings = spawn("test-recover", Duration::from_millis(1), move || {
        count += 1;
        if count < 3 { Err("not yet") } else { Ok(count) }
    })
    .unwrap();
    let reading = wait(&mut readings, |reading| reading.value.is_some());
    assert_eq!((reading.value, reading.error, reading.failures), (Some(3), None, 0));
}

#[test]
fn hung_sensor_blocks_nobody_and_is_called_overdue() {
    let (release, hang) = mpsc::channel::<()>();
    let mut count = 0;
    let mut hung = spawn("test-hung", Duration::from_millis(5), move || {
        count += 1;
        if count > 1 {
            // Ends when the test drops its side, so that nothing is left behind.
            let _ended = hang.recv();
        }
        Ok::<_, String>(count)
    })
    .unwrap();
    let mut other = spawn("test-other", Duration::from_millis(1), || Ok::<_, String>(())).unwrap();
    let reading = wait(&mut hung, |reading| reading.value == Some(1));
    let fresh =
        wait(&mut other, |other| other.sampled_at > reading.sampled_at + Duration::from_millis(20));
    assert_eq!(hung.borrow().value, Some(1));
    assert_eq!(fresh.problem(fresh.attempted_at), None);

    let later = reading.attempted_at + Duration::from_millis(16);
    let sampled = reading.sampled(later);
    assert_eq!(
        sampled.error.as_deref(),
        Some(
            "sensor \"test-hung\" has not answered for 16 ms but should every 5 ms; a device it asks may hang"
        )
    );
    assert!(sampled.age_ms.unwrap() >= 16);
    drop(release);
}

#[test]
fn sensor_that_never_answered_has_no_value_no_age_and_is_overdue() {
    let now = Instant::now();
    let reading = Reading::<u8>::starting("test", Duration::from_secs(1), now);
    assert_eq!(reading.sampled(now + Duration::from_secs(3)).error, None);
    let late = reading.sampled(now + Duration::from_secs(4));
    assert_eq!((late.value, late.age_ms), (None, None));
    assert!(late.error.is_some());
}

#[test]
fn sensor_ends_at_once_when_nobody_listens() {
    let (alive, ended) = mpsc::channel::<()>();
    let readings = spawn("test-end", Duration::from_secs(3600), move || {
        // Dropped with the closure, when the thread ends.
        let _held = &alive;
        Ok::<_, String>(())
    })
    .unwrap();
    let mut clone = readings.clone();
    wait(&mut clone, |reading| reading.value.is_some());
    drop(readings);
    drop(clone);
    assert_eq!(
        ended.recv_timeout(Duration::from_secs(20)),
        Err(mpsc::RecvTimeoutError::Disconnected)
    );
}

#[test]
fn missed_attempts_are_not_made_up_for() {
    let start = Instant::now();
    let second = Duration::from_secs(1);
    assert_eq!(next_start(start, second, start + second / 2), start + second);
    let late = start + second * 10;
    assert_eq!(next_start(start, second, late), late + second);
}
