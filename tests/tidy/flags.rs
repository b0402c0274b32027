//! Every flag of the programs is written down in the operator's manual, found by asking the programs.

use std::collections::BTreeSet;
use std::process::Command;

use super::{report, root};

/// The operator's manual.
const MANUAL: &str = "docs/operations.md";

/// The programs of this build. The arbiter is left out of a build for nodes.
const PROGRAMS: [(&str, Option<&str>); 3] = [
    ("sluice-arbiter", option_env!("CARGO_BIN_EXE_sluice-arbiter")),
    ("sluice-agent", option_env!("CARGO_BIN_EXE_sluice-agent")),
    ("sluice", option_env!("CARGO_BIN_EXE_sluice")),
];

fn help(program: &str, command: Option<&str>) -> String {
    let output = Command::new(program)
        .args(command)
        .arg("--help")
        .env("NO_COLOR", "1")
        .output()
        .unwrap_or_else(|error| panic!("{program} cannot be started: {error}"));
    String::from_utf8(output.stdout).expect("our help is UTF-8")
}

/// Flags that a help text lists.
fn flags(help: &str) -> impl Iterator<Item = &str> {
    help.lines().filter_map(|line| {
        let line = line.trim_start();
        let line =
            line.split_once(", ").filter(|(short, _)| short.len() == 2).map_or(line, |(_, l)| l);
        let name = line.strip_prefix("--")?;
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(name.len());
        Some(&name[..end]).filter(|name| !name.is_empty())
    })
}

/// Commands that a help text lists.
fn commands(help: &str) -> impl Iterator<Item = &str> {
    let listed = help.lines().skip_while(|l| *l != "Commands:").skip(1);
    listed.take_while(|l| l.starts_with("  ")).filter_map(|l| {
        let is_name = l.as_bytes().get(2).is_some_and(|b| *b != b' ');
        l.split_whitespace().next().filter(|_| is_name)
    })
}

fn is_mentioned(manual: &str, flag: &str) -> bool {
    let name = format!("--{flag}");
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
    manual.match_indices(&name).any(|(at, _)| !goes_on(&manual[at + name.len()..]))
}

#[test]
fn every_flag_is_in_the_manual() {
    let manual = std::fs::read_to_string(root().join(MANUAL)).expect("the manual can be read");
    let mut missing = BTreeSet::new();
    for (name, path) in PROGRAMS {
        let Some(path) = path else {
            println!("skipped: {name} is not part of this build");
            continue;
        };
        let general = help(path, None);
        let mut texts = vec![general.clone()];
        texts.extend(commands(&general).map(|command| help(path, Some(command))));
        let all = texts.iter().flat_map(|text| flags(text));
        let unknown =
            all.filter(|flag| !["help", "version"].contains(flag) && !is_mentioned(&manual, flag));
        missing.extend(unknown.map(|flag| format!("{MANUAL}: --{flag} of {name} is missing")));
    }
    report(&missing.into_iter().collect::<Vec<_>>());
}

#[test]
fn flags_and_commands_are_read_from_help() {
    let help = "Usage: x [OPTIONS]\n\nCommands:\n  up      Starts\n            more\n  run     Runs\n\nOptions:\n  -q, --quiet\n          Says --nothing\n      --state-dir <DIR>  Where\n";
    assert_eq!(flags(help).collect::<Vec<_>>(), ["quiet", "state-dir"]);
    assert_eq!(commands(help).collect::<Vec<_>>(), ["up", "run"]);
}

#[test]
fn a_flag_that_is_only_the_beginning_of_another_is_missed() {
    assert!(is_mentioned("use `--node NAME`", "node"));
    assert!(!is_mentioned("use `--node-name NAME`", "node"));
}
