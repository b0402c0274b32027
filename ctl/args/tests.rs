use clap::CommandFactory as _;
use expect_test::expect;

use super::*;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn spans_have_units_and_bounds() {
    assert_eq!(parse_span("45s"), Ok(Duration::from_secs(45)));
    assert_eq!(parse_span("1h30m"), Ok(Duration::from_secs(5_400)));
    assert_eq!(parse_span("500ms"), Ok(Duration::from_millis(500)));
    for bad in ["45", "", "soon", "-5s", "0s", "200h"] {
        assert!(parse_span(bad).is_err(), "{bad}");
    }
    assert!(parse_timeout("11m").is_err());
}

#[test]
fn global_flags_stand_before_or_after_the_command() {
    for line in ["sluice --arbiter h:1 unfreeze", "sluice unfreeze --arbiter h:1"] {
        let cli = Cli::try_parse_from(line.split(' ')).expect("parses");
        assert_eq!(cli.global.arbiter.to_string(), "h:1");
    }
}

#[test]
fn a_bad_address_says_what_is_expected() {
    let error = Cli::try_parse_from(["sluice", "--arbiter", "nowhere", "unfreeze"]);
    let text = error.expect_err("is refused").to_string();
    expect![[r#"
        error: invalid value 'nowhere' for '--arbiter <ADDR>': address "nowhere" has no port; write host:port, [v6 address]:port or unix:/path, such as "127.0.0.1:7600"

        For more information, try '--help'.
    "#]]
    .assert_eq(&text);
}
