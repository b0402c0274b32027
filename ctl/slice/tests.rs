use std::path::Path;

use clap::Parser as _;
use expect_test::{Expect, expect};
use sluice_core::slice::Budget;

use super::*;
use crate::args::{Cli, Command};

/// The flags of a command on one of the inventories in manifests/slices.
fn arguments(command: &str, sample: &str, flags: &[&str]) -> SliceCommand {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/slices").join(sample);
    let file = file.to_str().expect("our paths are UTF-8");
    let all = [&["sluice", "slice", command, "--inventory", file], flags].concat();
    match Cli::try_parse_from(all).expect("flags are right").command {
        Command::Slice(args) => args.command,
        other => panic!("{other:?} is about no slices"),
    }
}

fn plain(text: &str) -> String {
    crate::paint::resolve(text, false)
}

fn fits(sample: &str, priority: i32, flags: &[&str], expected: &Expect) {
    let SliceCommand::Fit(args) = arguments("fit", sample, flags) else {
        panic!("fit was asked for")
    };
    let text = match args.ask.read_at(priority, 0) {
        Ok(asked) => fit::render(&fit::answer(&asked, true).expect("there is an answer"), false),
        Err(failure) => failure.text(),
    };
    expected.assert_eq(&plain(&text));
}

fn moves(flags: &[&str], moves_max: u32, expected: &Expect) {
    let SliceCommand::Defrag(args) = arguments("defrag", "fragmented.yaml", flags) else {
        panic!("defrag was asked for")
    };
    let asked = args.ask.read_at(0, 0).expect("the sample can be used");
    let budget = Budget { moves_max, cost_device_ms_max: u64::MAX };
    expected.assert_eq(&plain(&defrag::render(&defrag::answer(&asked, budget), false)));
}

#[test]
fn a_place_is_shown_with_reason_and_who_gives_way() {
    let expected = expect![[r#""#]];
    fits("two-cubes.yaml", 2_000, &["--shape", "4x4x8"], &expected);
}

#[test]
fn who_has_to_wait_is_told_why_and_what_would_help() {
    let expected = expect![[r#""#]];
    fits("fragmented.yaml", 0, &["--shape", "4x4x4"], &expected);
}

#[test]
fn who_fits_is_told_how_many_more_would() {
    let expected = expect![[r#""#]];
    fits("two-cubes.yaml", 0, &["--shape", "2x2x2", "--replicas", "2"], &expected);
}

#[test]
fn a_shape_that_is_illegal_is_refused_with_the_nearest() {
    let expected = expect![[r#""#]];
    fits("two-cubes.yaml", 0, &["--shape", "4x4x6"], &expected);
}

#[test]
fn an_inventory_of_another_generation_is_refused() {
    let expected = expect![[r#""#]];
    fits("two-cubes.yaml", 0, &["--shape", "4x4x4", "--generation", "v5p"], &expected);
}

#[test]
fn moves_are_shown_with_what_they_cost_and_in_which_order() {
    moves(&["--shape", "4x4x4"], 8, &expect![[r#""#]]);
}

#[test]
fn a_plan_over_the_budget_is_called_so() {
    moves(&["--shape", "4x4x4"], 3, &expect![[r#""#]]);
}
