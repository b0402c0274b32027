//! What must be true of every answer, over made-up fleets and by trying everything on one cube.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::protocol::Health;
use crate::slice::fit::Look;
use crate::slice::tests::fixture::*;
use crate::slice::{
    Cube, Fleet, Outcome, Part, Partition, PartitionState, Piece, Request, Running, solve,
};
use crate::unit::Time;

/// All 65,536 busy words and all five shapes: the place is the one that leaves most of the largest shapes free.
#[test]
fn on_one_cube_every_place_is_the_best_there_is() {
    let fleet = Fleet::new(tiling(), cubes("A"), Vec::new());
    let request = Request::new("it", LOW, Vec::new());
    let look = Look::of(&fleet, &request, 0, Vec::new());
    let partitions: Vec<(usize, u64)> =
        tiling().partitions().map(|part| (usize::from(part.level()), part.hosts())).collect();
    // Free partitions by level, the largest first.
    let left = |word: u64| {
        let mut left = [0_u8; 5];
        let free = partitions.iter().filter(|(_, hosts)| hosts & word == 0);
        free.for_each(|(level, _)| left[4 - level] += 1);
        left
    };
    let after: Vec<[u8; 5]> = (0..=0xffff_u64).map(left).collect();
    let after = |word: u64| after[usize::try_from(word).expect("16 bits")];
    for word in 0..=0xffff_u64 {
        for level in 0..5 {
            let free = partitions.iter().filter(|(l, hosts)| *l == level && hosts & word == 0);
            let best = free.map(|(_, hosts)| after(word | hosts)).max();
            let level = u8::try_from(level).expect("small");
            let found = look.place(&[Part { level, pieces: 1, count: 1 }], &[word]);
            let found = found.map(|place| place.slices[0][0].partition.hosts());
            assert!(found.is_none_or(|hosts| hosts & word == 0), "{word:#06x} is taken twice");
            assert_eq!(found.map(|hosts| after(word | hosts)), best, "{word:#06x}, level {level}");
        }
    }
}

/// A fleet of 1 to 4 cubes in two blocks, with gangs on some partitions and some hosts that cannot be used.
#[derive(Debug, Clone)]
struct World {
    cubes: Vec<Cube>,
    running: Vec<Running>,
    requests: Vec<Request>,
}

impl World {
    fn fleet(&self) -> Fleet {
        Fleet::new(tiling(), self.cubes.clone(), self.running.clone())
    }
}

/// Cube, level, where within it, priority, lost work.
type Gang = (usize, u8, u8, i32, u64);

fn world() -> impl Strategy<Value = World> {
    let cubes = 1_usize..5;
    let gangs =
        proptest::collection::vec((0_usize..4, 0_u8..5, 0_u8..16, 1_i32..4, 0_u64..9), 0..10);
    let ill = proptest::collection::vec((0_usize..4, 0_usize..16, 0_u8..4), 0..4);
    let part = (0_u8..5, 1_u32..3, 1_u32..4);
    let request = (1_i32..5, proptest::collection::vec(part, 1..3), any::<[bool; 3]>());
    let requests = proptest::collection::vec(request, 1..4);
    (cubes, gangs, ill, requests).prop_map(|(cubes, gangs, ill, requests)| {
        let block = |n: usize| if n < 2 { "b1" } else { "b2" };
        let cube = |n: usize| Cube::healthy(&format!("c{n}"), block(n), &tiling());
        let mut world = World {
            cubes: (0..cubes).map(cube).collect(),
            running: Vec::new(),
            requests: Vec::new(),
        };
        for (cube, host, how) in ill.into_iter().filter(|(cube, ..)| *cube < cubes) {
            let host_of = world.cubes[cube].hosts[host].as_mut().expect("all hosts are there");
            match how {
                0 => host_of.health = Health::Unhealthy,
                1 => host_of.health = Health::Degraded,
                2 => host_of.is_open = false,
                _ => {
                    let part = tiling()
                        .partition(1, u8::try_from(host / 2).expect("small"))
                        .expect("a pair");
                    world.cubes[cube].states.insert(part, PartitionState::Incomplete);
                }
            }
        }
        world.running = disjoint(cubes, &gangs);
        world.requests =
            requests.into_iter().enumerate().map(|(n, made)| of_parts(n, &made)).collect();
        world
    })
}

/// Those gangs that do not meet an earlier one.
fn disjoint(cubes: usize, gangs: &[Gang]) -> Vec<Running> {
    let (mut taken, mut running_ones) = ([0_u64; 4], Vec::new());
    for (n, (cube, level, at, priority, lost)) in gangs.iter().enumerate() {
        let part = tiling().partition(*level, at >> level).expect("it exists");
        if *cube >= cubes || taken[*cube] & part.hosts() != 0 {
            continue;
        }
        taken[*cube] |= part.hosts();
        let id = Cube::healthy(&format!("c{cube}"), "", &tiling()).ids[&part].clone();
        let gang = running(&format!("g{n}"), *priority, &[&id]);
        running_ones.push(Running { lost_device_ms: *lost, ..gang });
    }
    running_ones
}

/// Priority; level, pieces and count of each part; may it preempt, is it healthy-only, has it a group.
type Made = (i32, Vec<(u8, u32, u32)>, [bool; 3]);

fn of_parts(n: usize, (priority, parts, flags): &Made) -> Request {
    let part = |(level, pieces, count): &(u8, u32, u32)| Part {
        level: *level,
        pieces: if *level == 4 { *pieces } else { 1 },
        count: *count,
    };
    Request {
        may_preempt: flags[0],
        is_healthy_only: flags[1],
        group: flags[2].then(|| "group".to_owned()),
        ..Request::new(format!("r{n}"), *priority, parts.iter().map(part).collect())
    }
}

/// Whether `parts` fit into one block beside `taken`, by trying everything.
fn fits(fleet: &Fleet, parts: &[Part], taken: &[u64], allowed: &dyn Fn(Piece) -> bool) -> bool {
    let mut wanted: Vec<u8> = Vec::new();
    for part in parts {
        wanted.extend(vec![part.level; usize::try_from(part.pieces * part.count).expect("small")]);
    }
    wanted.sort_unstable_by(|a, b| b.cmp(a));
    let blocks: BTreeSet<&String> = fleet.cubes().iter().map(|cube| &cube.block).collect();
    blocks.into_iter().any(|block| {
        let places: Vec<Piece> = (0..taken.len())
            .filter(|cube| fleet.cubes()[*cube].block == *block)
            .flat_map(|cube| tiling().partitions().map(move |partition| Piece { cube, partition }))
            .filter(|piece| allowed(*piece))
            .collect();
        try_all(&wanted, &places, &mut taken.to_vec())
    })
}

/// The largest first, each at the first place of its level that works out. Which of the places of one level is taken
/// matters to nothing smaller than it only if some smaller parts are closed, so all are tried.
fn try_all(wanted: &[u8], places: &[Piece], taken: &mut [u64]) -> bool {
    let Some((level, rest)) = wanted.split_first() else { return true };
    let mut tried = BTreeSet::new();
    for piece in places.iter().filter(|piece| piece.partition.level() == *level) {
        let hosts = piece.partition.hosts();
        if taken[piece.cube] & hosts != 0 || (wanted.len() > 6 && !tried.insert(piece.cube)) {
            continue;
        }
        taken[piece.cube] |= hosts;
        let works = try_all(rest, places, taken);
        taken[piece.cube] &= !hosts;
        if works {
            return true;
        }
    }
    false
}

fn is_allowed(fleet: &Fleet, request: &Request, piece: Piece) -> bool {
    let cube = &fleet.cubes()[piece.cube];
    let state = cube.states.get(&piece.partition).copied().unwrap_or(PartitionState::Healthy);
    let hosts =
        cube.hosts.iter().enumerate().filter(|(n, _)| piece.partition.hosts() >> n & 1 == 1);
    let hosts: Vec<_> = hosts.filter_map(|(_, host)| host.as_ref()).collect();
    let is_degraded =
        state == PartitionState::Degraded || hosts.iter().any(|h| h.health == Health::Degraded);
    state.is_usable()
        && hosts.iter().all(|h| h.is_usable())
        && !(request.is_healthy_only && is_degraded)
}

fn words(fleet: &Fleet, gangs: &[&Running]) -> Vec<u64> {
    let mut words = vec![0; fleet.cubes().len()];
    for id in gangs.iter().flat_map(|gang| gang.slices.iter().flatten()) {
        let piece = fleet.piece(id).expect("made of known ids");
        words[piece.cube] |= piece.partition.hosts();
    }
    words
}

/// The same cases in every run; more of them were tried once with other seeds.
const SEED: RngSeed = RngSeed::Fixed(20_261_130);

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: SEED, ..ProptestConfig::default() })]

    /// I1 to I5 and I7.
    #[test]
    fn no_host_is_given_twice_and_no_gang_half(world in world()) {
        let fleet = world.fleet();
        let answers = solve(&fleet, &world.requests, Time(0));
        let gone: BTreeSet<&str> = answers.iter().flat_map(victims).collect();
        let stay: Vec<&Running> =
            fleet.running().iter().filter(|gang| !gone.contains(gang.name.as_str())).collect();
        let mut taken = words(&fleet, &stay);
        for answer in &answers {
            let request = world.requests.iter().find(|r| r.name == answer.request).expect("asked for");
            let Outcome::Placed { slices, .. } = &answer.outcome else { continue };
            let sizes: Vec<(u8, usize)> =
                slices.iter().map(|slice| (slice[0].partition.level(), slice.len())).collect();
            let wanted = request.parts.iter().flat_map(|p| vec![(p.level, p.pieces as usize); p.count as usize]);
            prop_assert_eq!(sizes, wanted.collect::<Vec<_>>());
            let blocks: BTreeSet<&String> =
                slices.iter().flatten().map(|piece| &fleet.cubes()[piece.cube].block).collect();
            prop_assert!(blocks.len() <= 1);
            for piece in slices.iter().flatten() {
                prop_assert!(is_allowed(&fleet, request, *piece));
                prop_assert_eq!(taken[piece.cube] & piece.partition.hosts(), 0);
                taken[piece.cube] |= piece.partition.hosts();
            }
            for victim in victims(answer) {
                let victim = fleet.running().iter().find(|gang| gang.name == victim).expect("it runs");
                prop_assert!(victim.priority < request.priority && request.may_preempt);
            }
        }
    }

    /// I11: who is told to wait does not fit, and the first to be placed has the cheapest victims of all sets.
    #[test]
    fn whoever_fits_is_placed_with_the_cheapest_victims(world in world()) {
        let fleet = world.fleet();
        let request = Request { group: None, ..world.requests[0].clone() };
        let answer = one(&fleet, &request);
        let may_go: Vec<usize> = (0..fleet.running().len())
            .filter(|n| request.may_preempt && fleet.running()[*n].priority < request.priority)
            .collect();
        let mut best: Option<Vec<(i32, u64, u32)>> = None;
        for set in 0_u32..1 << may_go.len() {
            let out: Vec<usize> = (0..may_go.len()).filter(|n| set >> n & 1 == 1).map(|n| may_go[n]).collect();
            let key = crate::slice::solve::victim_key(&fleet, out.iter().copied());
            if best.as_ref().is_some_and(|best| *best <= key) {
                continue;
            }
            let stay = fleet.running().iter().enumerate().filter(|(n, _)| !out.contains(n));
            let taken = words(&fleet, &stay.map(|(_, gang)| gang).collect::<Vec<_>>());
            if fits(&fleet, &request.parts, &taken, &|piece| is_allowed(&fleet, &request, piece)) {
                best = Some(key);
            }
        }
        let found = match &answer.outcome {
            Outcome::Placed { victims, .. } => {
                let out = fleet.running().iter().enumerate().filter(|(_, gang)| victims.contains(&gang.name));
                Some(crate::slice::solve::victim_key(&fleet, out.map(|(n, _)| n)))
            }
            Outcome::Waits => None,
        };
        prop_assert_eq!(found, best);
    }

    /// I8: the order of everything decides nothing.
    #[test]
    fn order_decides_nothing(world in world(), turn in 0_usize..7) {
        let answers = solve(&world.fleet(), &world.requests, Time(0));
        let mut turned = world.clone();
        turned.cubes.reverse();
        turned.requests.reverse();
        let at = turn % turned.running.len().max(1);
        turned.running.rotate_left(at);
        prop_assert_eq!(solve(&turned.fleet(), &turned.requests, Time(0)), answers);
    }

    /// Carried out, nothing is left to do for those placed, and those who wait still wait: nobody else moves.
    #[test]
    fn a_decision_that_was_carried_out_is_not_made_again(mut world in world()) {
        // Who may not preempt can gain from what less important ones evict.
        world.requests.iter_mut().for_each(|request| request.may_preempt = true);
        let fleet = world.fleet();
        let answers = solve(&fleet, &world.requests, Time(0));
        let run = carried_out(&fleet, &world.requests, &answers);
        let waiting: Vec<Request> = world.requests.iter()
            .filter(|r| answers.iter().any(|a| a.request == r.name && a.outcome == Outcome::Waits))
            .cloned().collect();
        let next = Fleet::new(tiling(), world.cubes.clone(), run);
        prop_assert_eq!(next.problems(), &[]);
        let again = solve(&next, &waiting, Time(0));
        let still: Vec<&str> = again.iter().filter(|a| a.outcome == Outcome::Waits).map(|a| a.request.as_str()).collect();
        // A group draws its members to where others of it were placed meanwhile; that moves no limits.
        let expected: Vec<&str> = again.iter().map(|a| a.request.as_str()).collect();
        prop_assert_eq!(still, expected);
    }
}

/// Partitions are equal or nested or apart, never anything between.
#[test]
fn partitions_never_overlap_in_part() {
    let all: Vec<Partition> = tiling().partitions().collect();
    for one in &all {
        for other in &all {
            let common = one.hosts() & other.hosts();
            assert!(common == 0 || common == one.hosts() || common == other.hosts());
            assert_eq!(one.overlaps(*other), common != 0);
        }
        if one.level() < 4 {
            assert_eq!(one.parent().hosts() & one.hosts(), one.hosts());
        }
    }
}
