//! H1 to H11 of the facts.

use crate::protocol::Health;
use crate::slice::tests::fixture::*;
use crate::slice::{Cube, Fleet, Host, PartitionState, Reason, Request, Window, solve};
use crate::unit::Time;

const MINUTE_MS: u64 = 60_000;

fn with(names: &str, change: impl Fn(&mut Cube)) -> Fleet {
    let mut all = cubes(names);
    all.iter_mut().filter(|cube| cube.id == "A").for_each(change);
    Fleet::new(tiling(), all, Vec::new())
}

fn host(cube: &mut Cube, number: usize) -> &mut Host {
    cube.hosts[number].as_mut().expect("the host is there")
}

#[test]
fn h1_a_dead_host_costs_one_place_on_every_level() {
    let fleet = with("AB", |cube| host(cube, 0).health = Health::Unhealthy);
    assert_eq!(place(&fleet, "4x4x8", 1), Err("slice-unusable-hosts"));
    assert_eq!(place(&fleet, "4x4x4", 1), Ok(vec!["B".to_owned()]));
    let alone = with("A", |cube| host(cube, 0).health = Health::Unhealthy);
    for (shape, count) in [("2x2x1", 15), ("2x2x2", 7), ("2x2x4", 3), ("2x4x4", 1)] {
        assert!(place(&alone, shape, count).is_ok(), "{count} of {shape}");
        assert!(place(&alone, shape, count + 1).is_err(), "{} of {shape}", count + 1);
    }
}

#[test]
fn h1_small_slices_go_beside_the_dead_host() {
    let fleet = with("AB", |cube| host(cube, 5).health = Health::Unhealthy);
    assert_eq!(place(&fleet, "2x2x1", 1), Ok(vec!["A/2x2x1/4".to_owned()]));
    assert_eq!(place(&fleet, "2x2x2", 1), Ok(vec!["A/2x2x2/3".to_owned()]));
}

#[test]
fn h2_degraded_is_used_last_and_never_by_who_wants_healthy_only() {
    let whole = |fleet: &Fleet| fleet.piece("A").expect("cube A").partition;
    let top = whole(&with("A", |_| {}));
    let fleet = with("AB", move |cube| {
        cube.states.insert(top, PartitionState::Degraded);
    });
    assert_eq!(place(&fleet, "4x4x4", 1), Ok(vec!["B".to_owned()]));
    let both = want("both", HIGH, "4x4x8", 1);
    assert_eq!(one(&fleet, &both).reason, Reason::PlacedDegraded { hosts: 16 });
    let strict = Request { is_healthy_only: true, ..both };
    assert_eq!(one(&fleet, &strict).reason, Reason::OnlyDegraded);
}

#[test]
fn h3_a_whole_that_is_incomplete_may_have_sound_parts() {
    for state in [
        PartitionState::Incomplete,
        PartitionState::Unset,
        PartitionState::Unhealthy,
        PartitionState::Unknown,
    ] {
        let top = tiling().partition(4, 0).expect("the whole");
        let fleet = with("A", move |cube| {
            cube.states.insert(top, state);
        });
        assert_eq!(place(&fleet, "4x4x4", 1), Err("slice-unusable-hosts"));
        assert_eq!(place(&fleet, "2x2x2", 1), Ok(vec!["A/2x2x2/0".to_owned()]));
    }
}

/// H4: the slice moves as a whole; the cube with the dead host stays out.
#[test]
fn h4_a_super_slice_moves_to_healthy_cubes() {
    let mut all = cubes("ABC");
    host(&mut all[0], 3).health = Health::Unhealthy;
    let two = Fleet::new(tiling(), all[..2].to_vec(), Vec::new());
    assert_eq!(place(&two, "4x4x8", 1), Err("slice-unusable-hosts"));
    let three = Fleet::new(tiling(), all, Vec::new());
    assert_eq!(place(&three, "4x4x8", 1), Ok(vec!["B".to_owned(), "C".to_owned()]));
}

#[test]
fn h5_a_super_slice_needs_no_neighbours() {
    let mut all = cubes("ABCD");
    host(&mut all[1], 9).is_open = false;
    let fleet = Fleet::new(tiling(), all, Vec::new());
    let expected = ["A", "C", "D"].map(str::to_owned).to_vec();
    assert_eq!(place(&fleet, "4x4x12", 1), Ok(expected));
}

#[test]
fn h6_of_a_silent_host_nothing_is_placed() {
    let fleet = with("A", |cube| host(cube, 0).health = Health::Unknown);
    assert_eq!(place(&fleet, "2x2x1", 16), Err("slice-unusable-hosts"));
    assert!(place(&fleet, "2x2x1", 15).is_ok());
}

#[test]
fn h10_one_bad_chip_makes_the_host_unusable() {
    let healthy = Health::Healthy;
    let chips = [healthy, healthy, Health::Unhealthy, healthy];
    assert_eq!(Host::health_of_chips(&chips), Health::Unhealthy);
    assert_eq!(Host::health_of_chips(&[healthy; 4]), healthy);
    assert_eq!(Host::health_of_chips(&[]), Health::Unknown);
    let fleet = with("A", move |cube| host(cube, 7).health = Host::health_of_chips(&chips));
    assert!(place(&fleet, "2x4x4", 2).is_err());
}

#[test]
fn h11_maintenance_is_avoided_and_met_only_if_allowed() {
    let window = Window { from_ms: 20 * MINUTE_MS, until_ms: 80 * MINUTE_MS };
    let in_maintenance = move |cube: &mut Cube| host(cube, 3).maintenance = Some(window);
    let fleet = with("A", in_maintenance);
    let job = Request { runs_for_ms: Some(120 * MINUTE_MS), ..want("job", HIGH, "2x2x2", 1) };
    assert_eq!(places(&fleet, &one(&fleet, &job)), Ok(vec!["A/2x2x2/0".to_owned()]));
    let seven = Request { parts: vec![part("2x2x2", 7)], ..job.clone() };
    let taken = places(&fleet, &one(&fleet, &seven)).expect("seven pairs are without maintenance");
    assert!(!taken.contains(&"A/2x2x2/1".to_owned()));
    let eight = Request { parts: vec![part("2x2x2", 8)], ..job.clone() };
    assert_eq!(one(&fleet, &eight).reason, Reason::PlacedBeforeMaintenance { hosts: 1 });
    let never = Request { may_meet_maintenance: false, ..eight.clone() };
    assert_eq!(one(&fleet, &never).reason, Reason::OnlyDuringMaintenance);
    let short = Request { runs_for_ms: Some(10 * MINUTE_MS), ..never.clone() };
    assert!(places(&fleet, &one(&fleet, &short)).is_ok(), "it has ended before the window");
    let after = solve(&fleet, &[never], Time(80 * MINUTE_MS));
    assert!(places(&fleet, &after[0]).is_ok(), "the window is over");
}
