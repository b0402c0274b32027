use super::*;

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

fn gpu() -> ResourceName {
    "nvidia.com/gpu".parse().unwrap()
}

fn free(devices: &[(&str, &str, Health)]) -> Free {
    let mut free = Free::default();
    for (name, device, health) in devices {
        free.add(&node(name), &gpu(), *health, &device.parse().unwrap());
    }
    free
}

/// Places ranks of `count` GPUs with the given reach; shows `rank:node:devices`.
fn check(reach: &[&[&str]], count: u64, free: &Free, expected: Option<&[&str]>) {
    let resources = BTreeMap::from([(gpu(), count)]);
    let reach: Vec<BTreeSet<NodeName>> =
        reach.iter().map(|nodes| nodes.iter().map(|n| node(n)).collect()).collect();
    let ranks: Vec<RankDemand<'_>> = (0u32..)
        .zip(&reach)
        .map(|(rank, nodes)| RankDemand { rank, nodes, resources: &resources })
        .collect();
    let shown = place(&ranks, free).map(|placed| {
        let show = |(rank, a): (u32, Assignment)| {
            let devices: Vec<&str> = a.devices.iter().map(DeviceId::as_str).collect();
            format!("{rank}:{}:{}", a.node, devices.join("+"))
        };
        placed.into_iter().map(show).collect::<Vec<_>>()
    });
    let expected = expected.map(|e| e.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(shown, expected);
}

use Health::{Degraded, Healthy};

#[test]
fn the_tightest_node_is_taken() {
    let free = free(&[("a", "a0", Healthy), ("a", "a1", Healthy), ("b", "b0", Healthy)]);
    check(&[&["a", "b"]], 1, &free, Some(&["0:b:b0"]));
}

#[test]
fn healthy_devices_go_before_degraded_ones() {
    let free = free(&[("a", "a0", Degraded), ("b", "b0", Healthy), ("b", "b1", Healthy)]);
    check(&[&["a", "b"]], 1, &free, Some(&["0:b:b0"]));
}

#[test]
fn a_gang_is_placed_whole_or_not_at_all() {
    let two = free(&[("a", "a0", Healthy), ("b", "b0", Healthy)]);
    check(&[&["a", "b"], &["a", "b"]], 1, &two, Some(&["0:a:a0", "1:b:b0"]));
    check(&[&["a", "b"], &["a", "b"], &["a", "b"]], 1, &two, None);
}

#[test]
fn a_rank_whose_launcher_reaches_one_node_only_gets_it() {
    let two = free(&[("a", "a0", Healthy), ("b", "b0", Healthy)]);
    check(&[&["a", "b"], &["a"]], 1, &two, Some(&["0:b:b0", "1:a:a0"]));
}

#[test]
fn a_wrong_first_choice_is_taken_back() {
    // Rank 0 would take "a" first; rank 1 reaches a and b, rank 2 a and c, and c is full.
    let three = free(&[("a", "a0", Healthy), ("b", "b0", Healthy), ("d", "d0", Healthy)]);
    check(
        &[&["a", "d"], &["a", "b"], &["a", "c"]],
        1,
        &three,
        Some(&["0:d:d0", "1:b:b0", "2:a:a0"]),
    );
}

#[test]
fn hostile_reach_is_given_up_within_the_bound() {
    let names: Vec<String> = (0..40).map(|i| format!("n{i:02}")).collect();
    let devices: Vec<(&str, &str, Health)> =
        names.iter().take(39).map(|n| (n.as_str(), n.as_str(), Healthy)).collect();
    let reach: Vec<&str> = names.iter().map(String::as_str).collect();
    let reach: Vec<&[&str]> = (0..40).map(|_| reach.as_slice()).collect();
    check(&reach, 1, &free(&devices), None);
}
