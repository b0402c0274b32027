//! E1 to E9 of the facts: who gives way.

use crate::slice::tests::fixture::*;
use crate::slice::{Outcome, Reason, Request, Running};

fn costing(lost_device_ms: u64, running: Running) -> Running {
    Running { lost_device_ms, ..running }
}

fn pairs_of(cube: &str) -> Vec<Running> {
    let gang = |n: u32| running(&format!("l{n}"), LOW, &[&format!("{cube}/2x2x2/{n}")]);
    (0..8).map(gang).collect()
}

#[test]
fn e1_one_small_gang_gives_way_and_not_a_whole_cube() {
    let mut gangs = pairs_of("A");
    gangs.push(large("medium", MEDIUM, &["B"]));
    let fleet = fleet("AB", gangs);
    let answer = one(&fleet, &want("pair", HIGH, "2x2x2", 1));
    assert_eq!(victims(&answer), ["l0"]);
}

#[test]
fn e2_priority_goes_before_size() {
    let all: Vec<String> = (0..8).map(|n| format!("A/2x2x2/{n}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let fleet = fleet(
        "AB",
        vec![
            costing(1_000_000, running("eight", LOW, &all)),
            costing(1, running("single", MEDIUM, &["B/2x2x2/0"])),
            costing(1, running("rest", MEDIUM, &["B/2x2x2/1", "B/2x2x4/1", "B/2x4x4/1"])),
        ],
    );
    let answer = one(&fleet, &want("pair", HIGH, "2x2x2", 1));
    assert_eq!(victims(&answer), ["eight"]);
    let reason = Reason::Preempts { victims: vec!["eight".to_owned()], cost_device_ms: 1_000_000 };
    assert_eq!(answer.reason, reason);
}

#[test]
fn e3_of_two_candidates_the_one_that_loses_less_gives_way() {
    let fleet = fleet(
        "A",
        vec![
            costing(3 * 3_600_000 * 32, running("stale", LOW, &["A/2x4x4/0"])),
            costing(10_000 * 32, running("fresh", LOW, &["A/2x4x4/1"])),
        ],
    );
    assert_eq!(victims(&one(&fleet, &want("pair", HIGH, "2x2x2", 1))), ["fresh"]);
}

#[test]
fn e4_a_cube_is_taken_where_least_is_lost() {
    let few = costing(4_000, running("few", LOW, &["A/2x2x1/6"]));
    let many = costing(64_000, large("many", LOW, &["B"]));
    let fleet = fleet("AB", vec![few, many]);
    let answer = one(&fleet, &want("cube", HIGH, "4x4x4", 1));
    assert_eq!(
        (victims(&answer), places(&fleet, &answer)),
        (vec!["few"], Ok(vec!["A".to_owned()]))
    );
}

#[test]
fn e5_two_of_low_priority_give_way_rather_than_one_of_medium() {
    let fleet = fleet(
        "A",
        vec![
            costing(1, running("medium", MEDIUM, &["A/2x2x2/0"])),
            costing(9_000, running("low-0", LOW, &["A/2x2x2/4"])),
            costing(9_000, running("low-1", LOW, &["A/2x2x2/6"])),
        ],
    );
    let answer = one(&fleet, &want("half", HIGH, "2x4x4", 1));
    assert_eq!(victims(&answer), ["low-0", "low-1"]);
}

#[test]
fn e6_a_victim_that_is_leaving_is_used_before_another_is_added() {
    let leaving = Running { is_leaving: true, ..running("leaving", LOW, &["A/2x4x4/1"]) };
    let fleet = fleet("A", vec![running("stays", LOW, &["A/2x4x4/0"]), leaving]);
    let answer = one(&fleet, &want("half", HIGH, "2x4x4", 1));
    assert_eq!((victims(&answer), awaited(&answer)), (vec![], vec!["leaving"]));
    let reason = Reason::AwaitsLeaving { workloads: vec!["leaving".to_owned()] };
    assert_eq!(answer.reason, reason);
    let whole = one(&fleet, &want("cube", HIGH, "4x4x4", 1));
    assert_eq!((victims(&whole), awaited(&whole)), (vec!["stays"], vec!["leaving"]));
}

/// C4: what is not ours is occupied and never touched.
#[test]
fn foreign_slices_are_left_alone() {
    let foreign = Running { is_fixed: true, ..running("foreign", LOW, &["A/2x2x1/0"]) };
    let fleet = fleet("A", vec![foreign]);
    let answer = one(&fleet, &want("cube", HIGH, "4x4x4", 1));
    assert_eq!(answer.outcome, Outcome::Waits);
    assert!(places(&fleet, &one(&fleet, &want("half", HIGH, "2x4x4", 1))).is_ok());
}

#[test]
fn a_gang_of_many_slices_gets_the_cheapest_set_of_victims() {
    let cost = |n: u64| [50, 1, 40, 2, 30, 3, 20, 4][usize::try_from(n).expect("small")];
    let gangs = (0..8)
        .map(|n| costing(cost(n), running(&format!("l{n}"), LOW, &[&format!("A/2x2x2/{n}")])));
    let fleet = fleet("A", gangs.collect());
    let answer = one(&fleet, &want("four", HIGH, "2x2x2", 4));
    assert_eq!(victims(&answer), ["l1", "l3", "l5", "l7"]);
    let Outcome::Placed { is_cheapest, .. } = answer.outcome else { panic!("it is placed") };
    assert!(is_cheapest);
}

#[test]
fn who_may_not_preempt_waits() {
    let fleet = fleet("A", pairs_of("A"));
    let request = Request { may_preempt: false, ..want("pair", HIGH, "2x2x2", 1) };
    assert_eq!(one(&fleet, &request).reason, Reason::NoCapacity { wanted_hosts: 2, free_hosts: 0 });
}

/// The search ends at its bound: victims are found all the same, and none of them is superfluous.
#[test]
fn a_gang_of_many_slices_on_a_large_fleet_gets_victims_that_are_all_needed() {
    let names: String = ('A'..='X').collect();
    let gang = |cube: char, n: u64| {
        let id = format!("{cube}/2x2x2/{n}");
        let cost = (u64::from(u32::from(cube)) * 31 + n * 17) % 23;
        costing(cost, running(&format!("{cube}{n}"), LOW, &[&id]))
    };
    let gangs: Vec<Running> =
        names.chars().flat_map(|cube| (0..8).map(move |n| gang(cube, n))).collect();
    let full = fleet(&names, gangs.clone());
    let request = want("forty", HIGH, "2x2x2", 40);
    let answer = one(&full, &request);
    let Outcome::Placed { victims, is_cheapest, .. } = &answer.outcome else {
        panic!("there is room for forty once others have left");
    };
    assert!(!is_cheapest, "the search is not long enough for this");
    assert_eq!(victims.len(), 40);
    let mut costs: Vec<u64> = gangs.iter().map(Running::cost_device_ms).collect();
    costs.sort_unstable();
    let Reason::Preempts { cost_device_ms, .. } = answer.reason else { panic!("others give way") };
    assert_eq!(cost_device_ms, costs[..40].iter().sum::<u64>(), "here they are the cheapest, too");
}
