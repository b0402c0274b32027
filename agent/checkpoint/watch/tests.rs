use std::fs;
use std::time::Duration;

use super::*;

/// Long enough for any machine; only a failing test waits as long.
const PATIENCE: Duration = Duration::from_secs(20);

async fn is_woken(watch: &mut ChangeWatch) -> bool {
    tokio::time::timeout(PATIENCE, watch.changed()).await.is_ok_and(|changed| changed.is_ok())
}

/// Whether nothing is pending: the kernel queues events before the call that causes them returns.
async fn is_quiet(watch: &mut ChangeWatch) -> bool {
    tokio::time::timeout(Duration::from_millis(1), watch.changed()).await.is_err()
}

#[tokio::test(flavor = "current_thread")]
async fn each_kind_of_change_wakes() {
    let directory = tempfile::tempdir().unwrap();
    let mut watch = ChangeWatch::open(directory.path()).unwrap();
    assert!(is_quiet(&mut watch).await);
    fs::create_dir(directory.path().join("checkpoint-10.tmp")).unwrap();
    assert!(is_woken(&mut watch).await);
    fs::rename(directory.path().join("checkpoint-10.tmp"), directory.path().join("checkpoint-10"))
        .unwrap();
    assert!(is_woken(&mut watch).await);
    fs::remove_dir(directory.path().join("checkpoint-10")).unwrap();
    assert!(is_woken(&mut watch).await);
    assert!(is_quiet(&mut watch).await);
}

#[tokio::test(flavor = "current_thread")]
async fn the_checkpoint_followed_wakes_and_the_one_before_no_longer_does() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (directory.path().join("checkpoint-1"), directory.path().join("checkpoint-2"));
    fs::create_dir(&old).unwrap();
    fs::create_dir(&new).unwrap();
    let mut watch = ChangeWatch::open(directory.path()).unwrap();
    watch.follow(&old).unwrap();
    fs::write(old.join("model"), "x").unwrap();
    assert!(is_woken(&mut watch).await);
    watch.follow(&new).unwrap();
    watch.follow(&new).unwrap();
    // Letting go of the old one is an event in itself.
    let _ignored = is_quiet(&mut watch).await;
    fs::write(old.join("optimizer"), "x").unwrap();
    assert!(is_quiet(&mut watch).await);
    fs::write(new.join("model"), "x").unwrap();
    assert!(is_woken(&mut watch).await);
}

#[tokio::test(flavor = "current_thread")]
async fn a_flood_of_events_is_taken_off_and_more_remains() {
    let directory = tempfile::tempdir().unwrap();
    let mut watch = ChangeWatch::open(directory.path()).unwrap();
    for _ in 0..3_000 {
        // Created, closed and deleted: 3 events, and no two alike in a row, which would be joined.
        fs::write(directory.path().join("step"), "").unwrap();
        fs::remove_file(directory.path().join("step")).unwrap();
    }
    assert!(is_woken(&mut watch).await);
    let mut wakes = 1;
    while !is_quiet(&mut watch).await {
        wakes += 1;
    }
    // 9,000 events of 32 bytes, 128 to a read, 64 reads at a time.
    assert_eq!(wakes, 2);
}

#[tokio::test(flavor = "current_thread")]
async fn links_and_files_are_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let mut watch = ChangeWatch::open(directory.path()).unwrap();
    std::os::unix::fs::symlink("/", directory.path().join("link")).unwrap();
    fs::write(directory.path().join("file"), "x").unwrap();
    assert!(watch.follow(&directory.path().join("link")).is_err());
    assert!(watch.follow(&directory.path().join("file")).is_err());
    assert!(ChangeWatch::open(&directory.path().join("missing")).is_err());
}
