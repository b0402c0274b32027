//! Tests of the flags.

use std::path::Path;
use std::time::Duration;

use clap::{CommandFactory, Parser};

use super::{Config, Flags};

fn config(flags: &[&str]) -> Result<Config, String> {
    let fixed = ["sluice-agent", "--state-dir", "/state", "--node", "n1"];
    Config::from_flags(Flags::parse_from(fixed.iter().chain(flags)))
}

fn check_error(flags: &[&str], expected: &str) {
    assert_eq!(config(flags).unwrap_err(), expected);
}

#[test]
fn the_flags_are_well_formed() {
    Flags::command().debug_assert();
}

#[test]
fn defaults_are_those_of_a_node() {
    let config = config(&[]).unwrap();
    assert_eq!(config.socket, Path::new("/state/run/n1.sock"));
    assert_eq!(config.metrics, None);
    assert_eq!(config.host_root, Path::new("/"));
    let intervals = (config.disk_interval, config.device_interval, config.process_interval);
    let seconds = Duration::from_secs;
    assert_eq!(intervals, (seconds(1), seconds(5), seconds(5)));
}

#[test]
fn an_error_says_which_flag_which_value_and_what_would_do() {
    check_error(
        &["--disk-interval-ms", "50"],
        "--disk-interval-ms is 50 but must be between 100 and 600000; shorter costs too much, longer tells nothing \
         about now",
    );
    check_error(
        &["--arbiter", "here"],
        "--arbiter: address \"here\" has no port; write host:port, [v6 address]:port or unix:/path, such as \
         \"127.0.0.1:7600\"",
    );
    check_error(
        &["--host-root", "/no/such"],
        "--host-root is \"/no/such\", which is no directory; give the place where the host's / is mounted",
    );
    check_error(&["--socket", "a.sock"], "--socket is \"a.sock\" but must be an absolute path");
    let error = config(&["--simulate", "abacus=2"]).unwrap_err();
    assert!(error.starts_with("--simulate names the accelerator \"abacus\""), "{error}");
    let error = config(&["--log", "a=b=c"]).unwrap_err();
    assert!(error.starts_with("--log: log filter \"a=b=c\" cannot be used"), "{error}");
}
