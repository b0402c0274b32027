//! Cubes out of labels, and what is wrong with labels.

use std::collections::BTreeMap;

use crate::slice::tests::fixture::*;
use crate::slice::{
    Cube, Fleet, FleetProblem, Host, Labelled, NAME_BYTES_MAX, PartitionState, Tiling, TreeProblem,
    slice_name, trees,
};
use crate::topology::fixture::{generation, shape};

/// The nodes of a cube as their labels show it. `salt` makes other hashes of the same cube.
fn labelled(cube: &str, salt: &str) -> Vec<Labelled> {
    let node = |number: usize| {
        let id = |level: u8| (level, format!("{salt}{level}-{cube}-{}", number >> level));
        Labelled {
            host: Host::healthy(format!("{salt}{cube}-node-{number}")),
            block: "b1".to_owned(),
            ids: (0..=4).map(id).collect(),
            states: (0..=4).map(|level| (level, PartitionState::Healthy)).collect(),
        }
    };
    (0..16).map(node).collect()
}

/// Which sets of nodes can be had at each level.
fn sets(cubes: &[Cube]) -> Vec<(u8, Vec<String>)> {
    let fleet = Fleet::new(tiling(), cubes.to_vec(), Vec::new());
    let mut found = Vec::new();
    for (number, cube) in fleet.cubes().iter().enumerate() {
        for part in cube.ids.keys() {
            let piece = crate::slice::Piece { cube: number, partition: *part };
            let mut nodes: Vec<String> = fleet.nodes(piece).map(str::to_owned).collect();
            nodes.sort_unstable();
            found.push((part.level(), nodes));
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn a_cube_has_31_partitions_and_every_node_one_of_each_level() {
    let partitions: Vec<_> = tiling().partitions().collect();
    assert_eq!(partitions.len(), 31);
    for level in 0..=4 {
        let words = partitions.iter().filter(|part| part.level() == level).map(|part| part.hosts());
        assert_eq!(words.sum::<u64>(), 0xffff, "level {level} covers each host once");
    }
}

#[test]
fn labels_become_the_tree_whose_hashes_they_are() {
    let (built, problems) = trees(&tiling(), &[labelled("x", ""), labelled("y", "")].concat());
    assert_eq!(problems, Vec::new());
    assert_eq!(built.len(), 2);
    assert!(
        built.iter().all(|cube| cube.ids.len() == 31 && cube.hosts.iter().all(Option::is_some))
    );
    let expected: Vec<(u8, Vec<String>)> = sets(&built);
    assert_eq!(expected.len(), 62);
    let halves = expected.iter().filter(|(level, nodes)| *level == 3 && nodes.len() == 8);
    assert_eq!(halves.count(), 4);
}

/// I8 and I10: neither the order of nodes nor names of hashes decide which partitions there are.
#[test]
fn order_and_names_of_hashes_decide_nothing() {
    let mut nodes = [labelled("x", ""), labelled("y", "")].concat();
    let (built, _) = trees(&tiling(), &nodes);
    nodes.reverse();
    nodes.rotate_left(5);
    let (again, _) = trees(&tiling(), &nodes);
    assert_eq!(again, built);
    let (other, _) = trees(&tiling(), &labelled("x", "zz"));
    let plain = |sets: Vec<(u8, Vec<String>)>| -> Vec<(u8, usize)> {
        sets.into_iter().map(|(level, nodes)| (level, nodes.len())).collect()
    };
    let (one, _) = trees(&tiling(), &labelled("x", ""));
    assert_eq!(plain(sets(&other)), plain(sets(&one)));
}

/// C10.
#[test]
fn a_node_without_a_label_is_usable_for_the_levels_it_has() {
    let mut nodes = labelled("x", "");
    nodes[5].ids.remove(&2);
    let (built, problems) = trees(&tiling(), &nodes);
    assert_eq!(problems, Vec::new());
    let fleet = Fleet::new(tiling(), built, Vec::new());
    assert!(place(&fleet, "2x2x4", 3).is_ok());
    assert_eq!(place(&fleet, "2x2x4", 4), Err("slice-unusable-hosts"));
    for (shape, count) in [("2x2x1", 16), ("2x2x2", 8), ("2x4x4", 2), ("4x4x4", 1)] {
        assert!(place(&fleet, shape, count).is_ok(), "{shape}");
    }
    let mut top = labelled("x", "");
    top[5].ids.remove(&4);
    let (built, problems) = trees(&tiling(), &top);
    assert_eq!((built.len(), problems), (1, Vec::new()), "its half tells to which cube it belongs");
    let fleet = Fleet::new(tiling(), built, Vec::new());
    assert!(place(&fleet, "2x4x4", 2).is_ok());
    assert!(place(&fleet, "4x4x4", 1).is_err());
}

#[test]
fn missing_nodes_cost_only_the_partitions_they_would_be_in() {
    let mut nodes = labelled("x", "");
    nodes.truncate(14);
    let (built, problems) = trees(&tiling(), &nodes);
    assert_eq!(problems, Vec::new());
    let fleet = Fleet::new(tiling(), built, Vec::new());
    assert!(place(&fleet, "2x2x2", 7).is_ok());
    assert!(place(&fleet, "2x4x4", 1).is_ok());
    assert!(place(&fleet, "4x4x4", 1).is_err());
}

/// C9: labels that change when a node is made again.
#[test]
fn old_ids_are_gone_with_the_labels_that_had_them() {
    let (built, _) = trees(&tiling(), &labelled("x", "new-"));
    let old = running("old", LOW, &["0-x-3"]);
    let fleet = Fleet::new(tiling(), built, vec![old]);
    let (workload, id) = ("old".to_owned(), "0-x-3".to_owned());
    assert_eq!(fleet.problems(), [FleetProblem::NoSuchPartition { workload, id }]);
}

#[test]
fn labels_that_contradict_each_other_are_told_and_not_used() {
    let mut nodes = labelled("x", "");
    nodes[0].ids = BTreeMap::from([
        (0, "0-x-1".to_owned()),
        (1, "1-x-0".to_owned()),
        (2, "2-x-0".to_owned()),
        (3, "3-x-0".to_owned()),
        (4, "4-x-0".to_owned()),
    ]);
    let (_, problems) = trees(&tiling(), &nodes);
    assert_eq!(
        problems,
        [TreeProblem::TooManyNodes { id: "0-x-1".to_owned(), nodes: 2, hosts: 1 }]
    );

    let mut torn = labelled("x", "");
    torn[3].ids.insert(2, "2-x-1".to_owned());
    let (built, problems) = trees(&tiling(), &torn);
    assert!(problems.contains(&TreeProblem::TornApart { id: "1-x-1".to_owned() }), "{problems:?}");
    let fleet = Fleet::new(tiling(), built, Vec::new());
    assert_eq!(fleet.piece("1-x-1"), None, "a torn partition cannot be asked for");

    let mut three = labelled("x", "");
    three[0].ids.insert(3, "other".to_owned());
    three[0].ids.insert(2, "other-2".to_owned());
    three[0].ids.insert(1, "other-1".to_owned());
    let (_, problems) = trees(&tiling(), &three);
    let halves = ["3-x-0", "3-x-1", "other"].map(str::to_owned).to_vec();
    assert_eq!(problems, [TreeProblem::TooManyHalves { id: "4-x-0".to_owned(), halves }]);

    let nameless = Labelled { ids: BTreeMap::new(), ..labelled("x", "")[0].clone() };
    let (built, problems) = trees(&tiling(), &[nameless]);
    assert_eq!(
        (built, problems),
        (Vec::new(), vec![TreeProblem::NoId { node: "x-node-0".to_owned() }])
    );
}

#[test]
fn slices_that_overlap_are_told_and_count_as_taken() {
    let gangs = vec![running("a", LOW, &["A/2x2x2/0"]), running("b", LOW, &["A/2x2x1/1"])];
    let fleet = fleet("A", gangs);
    let workloads = ["a".to_owned(), "b".to_owned()];
    assert_eq!(fleet.problems(), [FleetProblem::Overlap { workloads, cube: "A".to_owned() }]);
    assert!(place(&fleet, "2x2x1", 14).is_ok());
    assert!(place(&fleet, "2x2x1", 15).is_err());
}

#[test]
fn flat_grids_are_halved_as_cubes_are() {
    let v6e = generation("v6e");
    let grid = Tiling::of(&v6e, shape("2x2"), shape("16x16")).expect("64 hosts");
    assert_eq!((grid.hosts(), grid.partitions().count()), (64, 127));
    let pods = Tiling::of(&v6e, shape("2x4"), shape("16x16")).expect("32 hosts");
    assert_eq!(pods.hosts(), 32);
    assert!(
        Tiling::of(&v6e, shape("1x1"), shape("16x16")).is_err(),
        "four of one chip are one of two by two"
    );
    assert!(Tiling::of(&v6e, shape("2x2"), shape("4x16")).is_err());
    let fleet = Fleet::new(grid.clone(), vec![Cube::healthy("g", "b1", &grid)], Vec::new());
    let level = grid.level_of(shape("8x16")).expect("a level");
    let parts = vec![
        crate::slice::Part { level, pieces: 1, count: 1 },
        crate::slice::Part { level: 0, pieces: 1, count: 32 },
    ];
    let answer = one(&fleet, &crate::slice::Request::new("grid", LOW, parts));
    let taken = places(&fleet, &answer).expect("half a grid and 32 hosts");
    assert_eq!((taken.len(), taken[0].as_str(), taken[1].as_str()), (33, "g/8x16/0", "g/2x2/32"));
}

/// P7.
#[test]
fn names_of_slices_are_short_valid_and_distinct() {
    assert_eq!(slice_name("team", "train", "main", 3), "team-train-main-3");
    let long = "a-workload-whose-name-goes-on-and-on-and-on";
    let names: Vec<String> =
        (0..100).map(|n| slice_name("namespace", long, "replicated", n)).collect();
    assert!(names.iter().all(|name| name.len() <= NAME_BYTES_MAX));
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), 100);
    for odd in
        [slice_name("1", "x", "y", 0), slice_name("N", "X_1", "y.z", 0), slice_name("ä", "", "", 0)]
    {
        assert!(odd.starts_with(|c: char| c.is_ascii_lowercase()), "{odd}");
        assert!(
            odd.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
            "{odd}"
        );
        assert!(!odd.ends_with('-'), "{odd}");
    }
    assert_ne!(slice_name("n", "x_1", "y", 0), slice_name("n", "x-1", "y", 0));
}
