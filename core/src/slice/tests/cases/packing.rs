//! F1 to F10 of the facts: what stays free.

use crate::slice::tests::fixture::*;
use crate::slice::{Cube, Fleet, Outcome, Part, Reason, Request, Running, solve};
use crate::unit::Time;

fn ok(ids: &[&str]) -> Result<Vec<String>, &'static str> {
    Ok(ids.iter().map(|id| (*id).to_owned()).collect())
}

#[test]
fn f1_a_pair_goes_beside_a_busy_one_and_leaves_the_other_cube_whole() {
    let fleet = fleet("AB", busy("A", 0x0001));
    assert_eq!(place(&fleet, "2x2x2", 1), ok(&["A/2x2x2/1"]));
}

#[test]
fn f2_a_node_goes_beside_its_buddy() {
    let fleet = fleet("AB", busy("A", 0x0001));
    assert_eq!(place(&fleet, "2x2x1", 1), ok(&["A/2x2x1/1"]));
}

#[test]
fn f3_one_busy_node_in_each_pair_leaves_no_pair() {
    let mut gangs = busy("A", 0x5555);
    gangs.push(large("full", LOW, &["B"]));
    let fleet = fleet("AB", gangs);
    let request = Request { may_preempt: false, ..want("pair", HIGH, "2x2x2", 1) };
    let reason = Reason::Fragmented { wanted_hosts: 2, free_hosts: 8 };
    assert_eq!(one(&fleet, &request).reason, reason);
}

#[test]
fn f4_one_busy_node_in_each_half_leaves_no_half() {
    let fleet = fleet("A", busy("A", 0x0101));
    let request = Request { may_preempt: false, ..want("half", HIGH, "2x4x4", 1) };
    let reason = Reason::Fragmented { wanted_hosts: 8, free_hosts: 14 };
    assert_eq!(one(&fleet, &request).reason, reason);
}

#[test]
fn f5_a_mixed_gang_that_sums_to_a_cube_fits_in_any_order() {
    let shapes = ["2x4x4", "2x2x4", "2x2x2", "2x2x1", "2x2x1"];
    for turn in 0..shapes.len() {
        let mut parts: Vec<Part> = shapes.iter().map(|shape| part(shape, 1)).collect();
        parts.rotate_left(turn);
        let fleet = fleet("A", Vec::new());
        let answer = one(&fleet, &Request::new("mixed", LOW, parts));
        assert!(places(&fleet, &answer).is_ok());
        let mut run: Vec<Running> = Vec::new();
        for (at, shape) in shapes.iter().rev().enumerate() {
            let fleet = Fleet::new(tiling(), cubes("A"), run.clone());
            let request = [want(&format!("r{at}"), LOW, shape, 1)];
            let answers = solve(&fleet, &request, Time(0));
            assert_ne!(answers[0].outcome, Outcome::Waits, "{shape}, the smallest first");
            run = carried_out(&fleet, &request, &answers);
        }
    }
}

#[test]
fn f6_of_two_gangs_of_two_cubes_one_waits_entirely() {
    let fleet = fleet("AB", Vec::new());
    let answers =
        solve(&fleet, &[want("first", LOW, "4x4x4", 2), want("second", LOW, "4x4x4", 2)], Time(0));
    assert_eq!(places(&fleet, &answers[0]), ok(&["A", "B"]));
    assert_eq!(answers[1].reason, Reason::NoFreeCubes { wanted: 2, free: 0 });
}

#[test]
fn f7_nine_pairs_do_not_fit_one_cube_and_do_fit_two() {
    let request = want("nine", LOW, "2x2x2", 9);
    let small = fleet("A", Vec::new());
    let reason = Reason::TooLarge { wanted_hosts: 18, block_hosts: 16 };
    assert_eq!(one(&small, &request).reason, reason);
    let fleet = fleet("AB", Vec::new());
    let taken = places(&fleet, &one(&fleet, &request)).expect("nine pairs fit two cubes");
    assert_eq!(taken.iter().filter(|id| id.starts_with("A/")).count(), 8);
}

/// Both cubes full of single nodes, every second of which ends: which shapes are left depends only on which end.
#[test]
fn f8_what_is_freed_forms_shapes_only_if_it_is_together() {
    let scattered = fleet("AB", [busy("A", 0x5555), busy("B", 0x5555)].concat());
    assert_eq!(place(&scattered, "2x2x2", 1), Err("slice-fragmented"));
    let together = fleet("AB", busy("A", 0xffff));
    assert_eq!(place(&together, "4x4x4", 1), ok(&["B"]));
    // Twelve single nodes that arrive one by one leave all that twelve nodes can leave.
    let twelve = fleet("AB", Vec::new());
    let taken = place(&twelve, "2x2x1", 12).expect("twelve nodes fit");
    assert!(taken.iter().all(|id| id.starts_with("A/")));
    assert!(
        !taken
            .iter()
            .any(|id| ["A/2x2x1/12", "A/2x2x1/13", "A/2x2x1/14", "A/2x2x1/15"]
                .contains(&id.as_str()))
    );
}

#[test]
fn f9_the_smallest_free_part_that_is_large_enough_is_taken() {
    // A: one pair free in column 0, column 1 free, half 1 free; B: whole.
    let fleet = fleet("AB", vec![running("x", LOW, &["A/2x2x2/0"])]);
    let cases = [
        ("2x2x1", "A/2x2x1/2"),
        ("2x2x2", "A/2x2x2/1"),
        ("2x2x4", "A/2x2x4/1"),
        ("2x4x4", "A/2x4x4/1"),
        ("4x4x4", "B"),
    ];
    for (shape, id) in cases {
        assert_eq!(place(&fleet, shape, 1), ok(&[id]), "{shape}");
    }
}

/// The end-to-end case of the published controller: blocks of one and of three cubes.
#[test]
fn f10_whole_cubes_come_from_the_smallest_block_that_has_enough() {
    let cube = |id: &str, block: &str| Cube::healthy(id, block, &tiling());
    let all = [cube("sb1", "b1"), cube("sb2", "b2"), cube("sb3", "b2"), cube("sb4", "b2")];
    let fleet = Fleet::new(tiling(), all.to_vec(), Vec::new());
    assert_eq!(place(&fleet, "4x4x4", 1), ok(&["sb1"]));
    assert_eq!(place(&fleet, "4x4x8", 1), ok(&["sb2", "sb3"]));
    assert_eq!(place(&fleet, "4x4x12", 1), ok(&["sb2", "sb3", "sb4"]));
    assert_eq!(place(&fleet, "4x8x8", 1), Err("slice-too-large"));
    let lost = Fleet::new(tiling(), all[1..].to_vec(), Vec::new());
    assert_eq!(place(&lost, "4x4x4", 1), ok(&["sb2"]));
}

/// C8: two blocks are never mixed, also where together they would have enough.
#[test]
fn blocks_are_never_mixed() {
    let two = [Cube::healthy("A", "b1", &tiling()), Cube::healthy("B", "b2", &tiling())];
    let fleet = Fleet::new(tiling(), two.to_vec(), Vec::new());
    assert_eq!(place(&fleet, "4x4x8", 1), Err("slice-too-large"));
    let wide = [two.to_vec(), vec![Cube::healthy("C", "b2", &tiling())]].concat();
    let fleet = Fleet::new(tiling(), wide, vec![running("x", LOW, &["B/2x2x2/0"])]);
    let request = Request { may_preempt: false, ..want("two", HIGH, "4x4x8", 1) };
    assert_eq!(one(&fleet, &request).reason, Reason::NoFreeCubes { wanted: 2, free: 1 });
}

/// C1: ids that differ and hosts that are the same.
#[test]
fn a_slice_on_any_level_occupies_all_levels_above_and_below() {
    let fleet = fleet("AB", vec![running("x", HIGH, &["A/2x2x4/1"]), large("y", HIGH, &["B"])]);
    assert_eq!(place(&fleet, "4x4x4", 1), Err("slice-no-free-cubes"));
    assert_eq!(place(&fleet, "2x4x4", 1), ok(&["A/2x4x4/1"]));
    assert_eq!(
        place(&fleet, "2x2x1", 4),
        ok(&["A/2x2x1/0", "A/2x2x1/1", "A/2x2x1/2", "A/2x2x1/3"])
    );
}

#[test]
fn a_group_stays_in_its_block_or_waits_if_it_is_bound_to_it() {
    let cube = |id: &str, block: &str| Cube::healthy(id, block, &tiling());
    let all = [cube("A", "b1"), cube("B", "b2"), cube("C", "b2")];
    let mut prefill = running("prefill", HIGH, &["C/2x2x2/0"]);
    prefill.group = Some("serving".to_owned());
    let full = large("full", HIGH, &["B"]);
    let fleet = Fleet::new(tiling(), all.to_vec(), vec![prefill, full]);
    let group = Some("serving".to_owned());
    let decode = Request { group, ..want("decode", HIGH, "2x2x2", 1) };
    assert_eq!(places(&fleet, &one(&fleet, &decode)), ok(&["C/2x2x2/1"]));
    let cube = Request { parts: vec![part("4x4x4", 1)], ..decode };
    assert_eq!(places(&fleet, &one(&fleet, &cube)), ok(&["A"]));
    let bound = Request { is_group_bound: true, ..cube };
    assert_eq!(one(&fleet, &bound).reason, Reason::GroupElsewhere);
}
