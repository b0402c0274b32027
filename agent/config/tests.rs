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

#[test]
fn read_ahead_is_given_by_disk() {
    use sluice_core::volume::Mib;
    use sluice_core::volume::read_ahead::Intent;

    let flags = ["--read-ahead-kb", "model1=4096", "--read-ahead-kb", "a=b=8", "--machine-type"];
    let volumes = config(&[&flags[..], &["a3-ultragpu-8g"]].concat()).unwrap().volumes;
    let asked = |asked_kib| Intent { asked_kib };
    let expected = [("a=b".to_owned(), asked(8)), ("model1".to_owned(), asked(4_096))];
    assert_eq!(volumes.read_ahead.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(volumes.node_limit, Some(Mib(4_000)));
    assert_eq!(config(&["--machine-type", "z9-x"]).unwrap().volumes.node_limit, None);
    for wrong in ["model1", "=4", "model1=", "model1=-4", "model1=x"] {
        let error = config(&["--read-ahead-kb", wrong]).unwrap_err();
        assert!(error.ends_with("but must be DISK=KIB, such as model1=4096"), "{error}");
    }
    check_error(
        &["--read-ahead-kb", "a=4", "--read-ahead-kb", "a=8"],
        "--read-ahead-kb names \"a\" twice; a disk has one value",
    );
    check_error(&["--kubelet-root", "k"], "--kubelet-root is \"k\" but must be an absolute path");
}
