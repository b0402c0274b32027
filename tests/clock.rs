//! S20: a node whose clock is an hour fast is treated like any other, because no time of day crosses the wire.

use std::path::{Path, PathBuf};

use sluice::wire::pb::{DrainMode, DrainState};

use crate::ask::story;
use crate::cluster::{AGENT, Cluster, Setup};
use crate::trainer::Training;

const HOUR_S: u64 = 3_600;

/// The library that makes the time of day wrong; built as an example of this package.
fn fake_clock() -> Option<PathBuf> {
    let library = Path::new(AGENT).parent()?.join("examples/libfake_clock.so");
    library.exists().then_some(library)
}

/// The time of day in the last line that a process has logged. Unit: seconds since 1970.
fn logged_at_s(stderr: &str) -> u64 {
    let line: serde_json::Value = serde_json::from_str(stderr.lines().last().unwrap()).unwrap();
    let at: jiff::Timestamp = line["timestamp"].as_str().unwrap().parse().unwrap();
    u64::try_from(at.as_second()).unwrap()
}

fn train_and_drain(environment: Vec<(&'static str, String)>) -> Cluster {
    let setup = Setup { agent_environment: environment, ..Setup::nodes(&[("n1", 1)]) };
    let mut cluster = setup.start();
    let trainer = Training::new("train").start(&mut cluster);
    cluster.wait_measured("train");
    cluster.serve("serve", 1, "");
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert!(
        [DrainMode::Boundary, DrainMode::KillFresh].contains(&drain.mode()),
        "{}",
        story(&drain)
    );
    let account = drain.account.unwrap();
    // A checkpoint's age or a deadline that was taken from a clock would be off by 3,600,000 ms.
    assert!(account.at_risk_device_ms < 600_000, "{account:?}");
    assert!(account.lost_device_ms < 60_000, "{account:?}");
    let newest = trainer.newest();
    cluster.cancel("serve");
    cluster.wait_drain("train", DrainState::Resumed);
    trainer.assert_resumed(drain.saved.expect("a checkpoint").step, newest);
    cluster
}

#[test]
fn node_with_a_fast_clock_is_drained_like_any_other() {
    wrong_by(i64::try_from(HOUR_S).unwrap());
}

#[test]
fn node_with_a_slow_clock_is_drained_like_any_other() {
    wrong_by(-i64::try_from(HOUR_S).unwrap());
}

fn wrong_by(offset_s: i64) {
    let Some(library) = fake_clock() else {
        return eprintln!("skipped: the example fake_clock is not built; cargo test builds it");
    };
    let environment = vec![
        ("LD_PRELOAD", library.display().to_string()),
        ("SLUICE_TEST_CLOCK_OFFSET_S", offset_s.to_string()),
    ];
    let mut cluster = train_and_drain(environment);
    // The clock really was wrong: the agent's log says so.
    let agent_s = logged_at_s(&cluster.agent("n1").stderr());
    let arbiter_s = logged_at_s(&cluster.arbiter().stderr());
    assert!(agent_s.abs_diff(arbiter_s) > HOUR_S / 2, "agent {agent_s}, arbiter {arbiter_s}");
}
