//! Defragmentation: the cheapest moves, within a budget, against all sets there are.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::slice::tests::fixture::*;
use crate::slice::{Budget, Defrag, Fleet, Move, Piece, Reason, Request, Running, defrag};
use crate::unit::Time;

const PLENTY: Budget = Budget { moves_max: 100, cost_device_ms_max: u64::MAX };

fn at(fleet: &Fleet, id: &str) -> Vec<Vec<Piece>> {
    vec![vec![fleet.piece(id).expect("a partition")]]
}

fn costing(lost: u64, restart: u64, running: Running) -> Running {
    Running { lost_device_ms: lost, restart_device_ms: restart, ..running }
}

/// F3 of the facts: one move frees a pair.
#[test]
fn one_move_frees_a_pair_and_the_cheapest_gang_makes_it() {
    let mut gangs = busy("A", 0x5555);
    for (n, gang) in gangs.iter_mut().enumerate() {
        (gang.lost_device_ms, gang.restart_device_ms) = (100 - 10 * n as u64, 5);
    }
    let fleet = fleet("A", gangs);
    let found = defrag(&fleet, &want("pair", LOW, "2x2x2", 1), Time(0), PLENTY);
    let moved = Move {
        workload: "A14".to_owned(),
        from: at(&fleet, "A/2x2x1/14"),
        to: at(&fleet, "A/2x2x1/1"),
        cost_device_ms: 35,
        awaits: Vec::new(),
    };
    let expected = Defrag::Moves {
        moves: vec![moved],
        slices: at(&fleet, "A/2x2x2/7"),
        cost_device_ms: 35,
        is_cheapest: true,
        is_within_budget: true,
    };
    assert_eq!(found, expected);
}

#[test]
fn what_fits_needs_no_move_and_what_never_fits_gets_none() {
    let roomy = fleet("A", busy("A", 0x0001));
    let fits = defrag(&roomy, &want("half", LOW, "2x4x4", 1), Time(0), PLENTY);
    assert!(matches!(fits, Defrag::Fits(_)));
    let full =
        defrag(&fleet("A", busy("A", 0xffff)), &want("pair", LOW, "2x2x2", 1), Time(0), PLENTY);
    let reason = Reason::NoCapacity { wanted_hosts: 2, free_hosts: 0 };
    assert_eq!(full, Defrag::Impossible(reason), "moving makes no capacity, whatever the priority");
}

#[test]
fn a_plan_over_the_budget_is_shown_as_such_and_a_dearer_one_within_it_is_found() {
    let mut gangs = vec![costing(5, 5, running("a", LOW, &["A/2x2x1/0"]))];
    gangs.push(costing(0, 1, running("b0", LOW, &["A/2x2x1/8"])));
    gangs.push(costing(0, 1, running("b1", LOW, &["A/2x2x1/10"])));
    let fleet = fleet("A", gangs);
    let request = want("half", LOW, "2x4x4", 1);
    let moved = |budget| match defrag(&fleet, &request, Time(0), budget) {
        Defrag::Moves { moves, is_within_budget, .. } => {
            (moves.into_iter().map(|m| m.workload).collect::<Vec<_>>(), is_within_budget)
        }
        other => panic!("moves are possible: {other:?}"),
    };
    let named = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    assert_eq!(moved(PLENTY), (named(&["b0", "b1"]), true));
    assert_eq!(moved(Budget { moves_max: 1, ..PLENTY }), (named(&["a"]), true));
    assert_eq!(moved(Budget { moves_max: 0, ..PLENTY }), (named(&["b0", "b1"]), false));
    assert_eq!(moved(Budget { cost_device_ms_max: 1, ..PLENTY }), (named(&["b0", "b1"]), false));
}

/// A pair has nowhere to go until one of two single nodes has moved beside the other.
#[test]
fn a_destination_may_be_freed_by_another_move() {
    let gangs = vec![
        running("pair", LOW, &["A/2x2x2/0"]),
        running("n08", LOW, &["A/2x2x1/8"]),
        running("n10", LOW, &["A/2x2x1/10"]),
        Running { is_fixed: true, ..running("fixed", HIGH, &["A/2x2x4/3"]) },
    ];
    let fleet = fleet("A", gangs);
    let request = want("half", LOW, "2x4x4", 1);
    let Defrag::Moves { moves, slices, is_cheapest, .. } =
        defrag(&fleet, &request, Time(0), PLENTY)
    else {
        panic!("there is a way");
    };
    assert!(is_cheapest);
    assert_eq!(ids(&fleet, &slices), ["A/2x4x4/0"]);
    let steps: Vec<(&str, Vec<String>, &[String])> = moves
        .iter()
        .map(|m| (m.workload.as_str(), ids(&fleet, &m.to), m.awaits.as_slice()))
        .collect();
    let expected = [
        ("n08", vec!["A/2x2x1/11".to_owned()], &[][..]),
        ("pair", vec!["A/2x2x2/4".to_owned()], &["n08".to_owned()][..]),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn fixed_gangs_and_those_that_leave_are_not_moved() {
    let mut gangs = busy("A", 0x0101);
    gangs.iter_mut().for_each(|gang| gang.is_fixed = true);
    let fixed = defrag(&fleet("A", gangs), &want("half", LOW, "2x4x4", 1), Time(0), PLENTY);
    assert_eq!(fixed, Defrag::Impossible(Reason::Fragmented { wanted_hosts: 8, free_hosts: 14 }));
}

#[test]
fn a_gang_of_several_slices_moves_as_a_whole_and_stays_in_one_block() {
    let gang = costing(7, 0, running("gang", LOW, &["A/2x2x2/0", "B/2x2x2/0"]));
    let single = costing(5, 0, running("single", LOW, &["B/2x2x2/7"]));
    let fleet = fleet("AB", vec![gang, single]);
    let Defrag::Moves { moves, cost_device_ms, .. } =
        defrag(&fleet, &want("cube", LOW, "4x4x4", 1), Time(0), PLENTY)
    else {
        panic!("there is a way");
    };
    assert_eq!((moves.len(), cost_device_ms), (1, 7));
    assert_eq!(ids(&fleet, &moves[0].from), ["A/2x2x2/0", "B/2x2x2/0"]);
    let to = ids(&fleet, &moves[0].to);
    assert!(to.iter().all(|id| id.starts_with("B/")), "{to:?}");
}

/// Gangs on disjoint partitions of one cube, by which bits of `seed` are set.
fn random_gangs(seed: u64) -> Vec<Running> {
    let mut state = seed | 1;
    let mut next = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut taken, mut gangs) = (0_u64, Vec::new());
    for n in 0..7 {
        let level = u8::try_from(next(3)).expect("small");
        let index = u8::try_from(next(16 >> level)).expect("small");
        let part = tiling().partition(level, index).expect("it exists");
        if taken & part.hosts() != 0 {
            continue;
        }
        taken |= part.hosts();
        let id = format!("A/{}/{index}", tiling().shape(level));
        gangs.push(costing(next(9), 1, running(&format!("g{n}"), LOW, &[&id])));
    }
    gangs
}

/// The cheapest set by trying all of them: those who stay, and then everybody else the largest first.
fn brute_force(gangs: &[Running], request: &Request) -> Option<(u64, usize)> {
    let sets = 0_u32..1 << gangs.len();
    let fits = |set: &u32| {
        let is_in = |n: usize| set >> n & 1 == 1;
        let stay =
            gangs.iter().enumerate().filter(|(n, _)| !is_in(*n)).map(|(_, gang)| gang.clone());
        let fleet = fleet("A", stay.collect());
        let level =
            |gang: &Running| fleet.piece(&gang.slices[0][0]).expect("known").partition.level();
        let mut parts = request.parts.clone();
        let moved = gangs.iter().enumerate().filter(|(n, _)| is_in(*n));
        parts.extend(moved.map(|(_, gang)| crate::slice::Part {
            level: level(gang),
            pieces: 1,
            count: 1,
        }));
        places(&fleet, &one(&fleet, &Request { parts, may_preempt: false, ..request.clone() }))
            .is_ok()
    };
    let cost = |set: u32| {
        let members = gangs.iter().enumerate().filter(|(n, _)| set >> n & 1 == 1);
        members.fold((0, 0), |(cost, n), (_, gang)| (cost + gang.cost_device_ms(), n + 1))
    };
    sets.filter(fits).map(cost).min()
}

/// The same cases in every run; more of them were tried once with other seeds.
const SEED: RngSeed = RngSeed::Fixed(20_261_130);

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, rng_seed: SEED, ..ProptestConfig::default() })]

    #[test]
    fn moves_are_as_cheap_as_the_best_of_all_sets(seed in any::<u64>(), level in 1_u8..5) {
        let gangs = random_gangs(seed);
        let fleet = fleet("A", gangs.clone());
        let parts = vec![crate::slice::Part { level, pieces: 1, count: 1 }];
        let request = Request::new("it", LOW, parts);
        let found = match defrag(&fleet, &request, Time(0), PLENTY) {
            Defrag::Fits(_) => Some((0, 0)),
            Defrag::Moves { moves, cost_device_ms, is_cheapest, slices, .. } => {
                prop_assert!(is_cheapest);
                let stay = gangs.iter().filter(|g| !moves.iter().any(|m| m.workload == g.name));
                let stay = stay.flat_map(|g| g.slices.iter().flatten());
                let stay = stay.map(|id| fleet.piece(id).expect("known"));
                let all: Vec<Piece> =
                    stay.chain(moves.iter().flat_map(|m| m.to.concat())).chain(slices.concat()).collect();
                for (n, piece) in all.iter().enumerate() {
                    prop_assert!(!all[..n].iter().any(|other| other.overlaps(*piece)));
                }
                Some((cost_device_ms, moves.len()))
            }
            Defrag::Impossible(_) => None,
        };
        prop_assert_eq!(found, brute_force(&gangs, &request));
    }
}
