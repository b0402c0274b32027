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
    let expected = expect![[r#"
          1 x 4x4x8 (tpu7x-256): 128 chips on 32 hosts

        Answer
          it has a place once others have left
          it gets the place of batch/sub-slicing; that loses 46080 chip-seconds [slice-preempts]

        Slices
          SLICE   BLOCK     PARTITIONS   HOSTS
          0       block-1   a, b         32

        Who gives way
          WORKLOAD            PRIORITY   SLICES   LOST CHIP-TIME   RESTART CHIP-TIME
          batch/sub-slicing   1000       6        9 h 36 min       3 h 12 min

        Instead
          4x4x4 would fit now: b
    "#]];
    fits("two-cubes.yaml", 2_000, &["--shape", "4x4x8"], &expected);
}

#[test]
fn who_has_to_wait_is_told_why_and_what_would_help() {
    let expected = expect![[r#"
          1 x 4x4x4 (tpu7x-128): 64 chips on 16 hosts

        Answer
          it has to wait
          16 hosts are free and 16 are needed, but the free ones do not form the shape [slice-fragmented]
          hint: sluice slice defrag shows which moves make room

        Instead
          2x2x4 would fit now: b/2x2x4/1
          moving 4 slices would make room, for 48 min 0 s of chip-time: serving/decode-0, serving/decode-1, serving/decode-2, serving/decode-3
          sluice slice defrag shows where they would go
    "#]];
    fits("fragmented.yaml", 0, &["--shape", "4x4x4"], &expected);
}

#[test]
fn who_fits_is_told_how_many_more_would() {
    let expected = expect![[r#"
          2 x 2x2x2 (tpu7x-16): 8 chips on 2 hosts each

        Answer
          it has a place
          it fits; no smaller free part than 2x2x4 is left to break up [slice-placed-breaking]

        Slices
          SLICE   BLOCK     PARTITIONS   HOSTS
          0       block-1   a/2x2x2/6    2
          1       block-1   a/2x2x2/7    2

        After it
          4 like it would fit in the same block
    "#]];
    fits("two-cubes.yaml", 0, &["--shape", "2x2x2", "--replicas", "2"], &expected);
}

#[test]
fn a_shape_that_is_illegal_is_refused_with_the_nearest() {
    let expected = expect![[r#"
        sluice: --shape 4x4x6: tpu7x has no slice of the shape 4x4x6: beyond a cube every side is a multiple of 4; legal: 2x2x1, 2x2x2, 2x2x4, 2x4x4, 4x4x4, and multiples of 4 in ascending order up to 9216 chips; nearest: 4x4x4 (smaller), 4x4x8 (larger)
    "#]];
    fits("two-cubes.yaml", 0, &["--shape", "4x4x6"], &expected);
}

#[test]
fn an_inventory_of_another_generation_is_refused() {
    let expected = expect![[r#"
        sluice: --generation is v5p, but the inventory is one of tpu7x
    "#]];
    fits("two-cubes.yaml", 0, &["--shape", "4x4x4", "--generation", "v5p"], &expected);
}

#[test]
fn moves_are_shown_with_what_they_cost_and_in_which_order() {
    moves(
        &["--shape", "4x4x4"],
        8,
        &expect![[r#"
          1 x 4x4x4 (tpu7x-128): 64 chips on 16 hosts

        Answer
          moves make room

        Moves
          WORKLOAD           FROM        TO          COST CHIP-TIME   AFTER
          serving/decode-0   a/2x2x2/0   b/2x2x2/2   12 min 0 s       -
          serving/decode-1   a/2x2x2/2   b/2x2x2/3   12 min 0 s       -
          serving/decode-2   a/2x2x2/4   b/2x2x2/6   12 min 0 s       -
          serving/decode-3   a/2x2x2/6   b/2x2x2/7   12 min 0 s       -
          together 48 min 0 s of chip-time; a dry run: nothing is moved

        Slices
          SLICE   BLOCK     PARTITIONS   HOSTS
          0       block-1   a            16
    "#]],
    );
}

#[test]
fn a_plan_over_the_budget_is_called_so() {
    moves(
        &["--shape", "4x4x4"],
        3,
        &expect![[r#"
          1 x 4x4x4 (tpu7x-128): 64 chips on 16 hosts

        Answer
          moves would make room, but not within the budget

        Moves
          WORKLOAD           FROM        TO          COST CHIP-TIME   AFTER
          serving/decode-0   a/2x2x2/0   b/2x2x2/2   12 min 0 s       -
          serving/decode-1   a/2x2x2/2   b/2x2x2/3   12 min 0 s       -
          serving/decode-2   a/2x2x2/4   b/2x2x2/6   12 min 0 s       -
          serving/decode-3   a/2x2x2/6   b/2x2x2/7   12 min 0 s       -
          together 48 min 0 s of chip-time; a dry run: nothing is moved

        Slices
          SLICE   BLOCK     PARTITIONS   HOSTS
          0       block-1   a            16
    "#]],
    );
}
