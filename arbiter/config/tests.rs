//! Flags: what they mean, and what is refused.

use clap::{CommandFactory as _, Parser as _};
use sluice_core::arbiter;

use super::{AgentTimes, Config, Flags};
use sluice_core::queue::Queues;

fn parse(flags: &[&str]) -> anyhow::Result<Config> {
    let all = ["sluice-arbiter", "--state-dir", "/var/lib/sluice"];
    let flags = Flags::try_parse_from(all.iter().chain(flags))?;
    Config::from_flags(flags)
}

#[test]
fn the_flags_are_well_formed() {
    Flags::command().debug_assert();
}

#[test]
fn without_flags_core_has_its_defaults() {
    let config = parse(&[]).unwrap();
    let core = arbiter::Config {
        queues: Queues::without_file(),
        generations: sluice::slices::table(),
        ..arbiter::Config::default()
    };
    assert_eq!(config.core, core);
    assert_eq!(config.agents, AgentTimes { lost_ms: 10_000, heartbeat_ms: 0 });
    assert_eq!(config.listen.to_string(), "127.0.0.1:7600");
    assert_eq!((config.listen_metrics, config.insecure_listen, config.record), (None, false, true));
}

#[test]
fn every_time_can_be_set() {
    let config = parse(&[
        "--drain-deadline-ms=1001",
        "--release-grace-ms=1002",
        "--arm-timeout-ms=1003",
        "--productive-floor-ms=1004",
        "--start-timeout-ms=1005",
        "--launcher-gone-ms=1006",
        "--recovery-ms=1007",
        "--agent-lost-ms=1008",
        "--heartbeat-ms=1009",
        "--no-checkpoint-drain",
    ]);
    let config = config.unwrap();
    let core = arbiter::Config {
        queues: Queues::without_file(),
        generations: sluice::slices::table(),
        drain_deadline_ms: 1_001,
        release_grace_ms: 1_002,
        arm_timeout_ms: 1_003,
        productive_floor_ms: 1_004,
        start_timeout_ms: 1_005,
        launcher_gone_ms: 1_006,
        recovery_ms: 1_007,
        checkpoint_drain: false,
        ..arbiter::Config::default()
    };
    assert_eq!(config.core, core);
    assert_eq!(config.agents, AgentTimes { lost_ms: 1_008, heartbeat_ms: 1_009 });
}

#[test]
fn values_out_of_range_are_refused() {
    for flag in [
        "--agent-lost-ms=99",
        "--arm-timeout-ms=9",
        "--drain-deadline-ms=86400001",
        "--record=maybe",
        "--listen=nowhere",
        "--listen-metrics=on",
        "--log=a=b=c",
    ] {
        assert!(parse(&[flag]).is_err(), "{flag}");
    }
}

#[test]
fn replay_takes_files_and_no_other_flags() {
    assert!(Flags::try_parse_from(["sluice-arbiter", "replay", "a.rec", "b.rec"]).is_ok());
    assert!(Flags::try_parse_from(["sluice-arbiter", "replay"]).is_err());
    assert!(Flags::try_parse_from(["sluice-arbiter", "--record=off", "replay", "a.rec"]).is_err());
}
