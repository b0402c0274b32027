use std::path::Path;

use sluice_core::slice::{Outcome, Part, Request, solve};
use sluice_core::topology::{Notation, Slicing};
use sluice_core::unit::Time;

use super::*;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sample(name: &str) -> Inventory {
    load(&root().join("manifests/slices").join(name), None, 0).expect("samples can be used")
}

/// Partition ids of a placed request; the reason's code otherwise.
fn place(inventory: &Inventory, shape: &str, count: u32) -> Result<Vec<String>, &'static str> {
    let wanted = table().request(&inventory.generation.name, shape, Notation::NodeSelector);
    let part = Part::of(inventory.fleet.tiling(), &inventory.generation, &wanted.unwrap(), count);
    let request = Request { may_preempt: false, ..Request::new("it", 0, vec![part.unwrap()]) };
    let answer = solve(&inventory.fleet, &[request], Time(0)).pop().unwrap();
    match answer.outcome {
        Outcome::Placed { slices, .. } => {
            Ok(slices.concat().iter().map(|piece| inventory.fleet.id(*piece).to_owned()).collect())
        }
        Outcome::Waits => Err(answer.reason.code()),
    }
}

fn problems(text: &str) -> Vec<String> {
    let found = parse("x.yaml", text, None, 0).expect_err("something is wrong");
    found.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn the_data_file_can_be_read_and_every_row_has_source_and_date() {
    let table = table();
    assert_eq!(table.generations().len(), 5);
    for generation in table.generations() {
        assert!(!generation.source.is_empty() && generation.as_of.len() == 10, "{generation:?}");
        assert_eq!(table.find(&generation.name), Some(generation));
    }
    let dynamic = table.generations().iter().filter(|g| g.slicing == Slicing::Dynamic);
    assert_eq!(dynamic.map(|g| g.name.as_str()).collect::<Vec<_>>(), ["tpu7x"]);
    assert_eq!(table.find("ironwood"), table.find("TPU7X"));
    assert_eq!(table.find("tpu-v6e-slice").map(|g| g.name.as_str()), Some("v6e"));
}

#[test]
fn sample_of_cubes_is_what_it_says() {
    let inventory = sample("two-cubes.yaml");
    assert_eq!(inventory.notes, Vec::<String>::new());
    assert_eq!(inventory.fleet.cubes().len(), 2);
    let gang = &inventory.fleet.running()[0];
    let chip_ms = 48 * 60_000;
    assert_eq!((gang.lost_device_ms, gang.restart_device_ms), (12 * chip_ms, 4 * chip_ms));
    assert_eq!(place(&inventory, "2x2x4", 1), Ok(vec!["a/2x2x4/3".to_owned()]));
}

#[test]
fn sample_of_nodes_becomes_the_tree_of_their_labels() {
    let inventory = sample("nodes.yaml");
    assert_eq!(inventory.notes, Vec::<String>::new());
    assert_eq!(place(&inventory, "2x2x1", 1), Ok(vec!["0c31".to_owned()]));
    assert_eq!(place(&inventory, "2x2x2", 1), Err("slice-no-capacity"));
    assert_eq!(place(&inventory, "2x2x4", 1), Err("slice-unusable-hosts"));
    let gang = &inventory.fleet.running()[0];
    assert_eq!(
        (gang.name.as_str(), gang.priority, gang.lost_device_ms),
        ("batch/probe", 1_000, 4 * 180_000)
    );
}

#[test]
fn slices_of_nobody_known_are_left_alone_and_told() {
    let text = std::fs::read_to_string(root().join("manifests/slices/nodes.yaml")).unwrap();
    let (list, _) = text.split_once("---").unwrap();
    let inventory = parse("-", list, None, 0).unwrap();
    let gang = &inventory.fleet.running()[0];
    assert!(gang.is_fixed);
    assert_eq!(
        inventory.notes,
        ["slice batch-probe-main-0 of batch/probe is left alone: no workload of this file owns it"]
    );
}

#[test]
fn nodes_that_are_not_ready_cordoned_ending_or_short_of_chips_are_not_used() {
    let text = std::fs::read_to_string(root().join("manifests/slices/nodes.yaml")).unwrap();
    let free = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        let inventory = parse("-", &text.replacen(from, to, 1), None, 0).unwrap();
        place(&inventory, "2x2x1", 1)
    };
    let ready = "- {type: Ready, status: \"True\"}";
    let is_none = |found: Result<Vec<String>, &str>| found.is_err();
    assert!(is_none(free(ready, "- {type: Ready, status: \"Unknown\"}")));
    assert!(is_none(free("google.com/tpu: \"4\"", "google.com/tpu: \"3\"")));
    assert!(is_none(free("    status:\n", "    spec: {unschedulable: true}\n    status:\n")));
    let taint = "    spec: {taints: [{key: cloud.google.com/impending-node-termination, effect: NoSchedule}]}\n    status:\n";
    assert!(is_none(free("    status:\n", taint)));
    let hang = "- {type: Ready, status: \"True\"}\n        - {type: MegascaleHangDetected, status: \"True\"}";
    assert_eq!(free(ready, hang), Ok(vec!["0c31".to_owned()]), "a hang alone closes nothing");
}

#[test]
fn grids_are_read_with_their_size() {
    let text =
        "generation: v6e\nhost: 2x2\ngrid: 8x8\ncubes: [{name: g, block: b, unhealthy: [0]}]\n";
    let inventory = parse("-", text, None, 0).unwrap();
    assert_eq!(inventory.fleet.tiling().hosts(), 16);
    assert_eq!(place(&inventory, "4x8", 1), Ok(vec!["g/4x8/1".to_owned()]));
    assert_eq!(place(&inventory, "8x8", 1), Err("slice-unusable-hosts"));
}

#[test]
fn everything_that_is_wrong_is_told_with_file_line_and_path() {
    let text = "\
generation: tpu7x
cubes:
  - {name: a, block: b1, unhealthy: [16, x], states: {2x2x2: HEALTHY, 2x2x2/9: DEGRADED, 4x4x4: FINE}}
  - {name: a, block: b1, size: 3}
  - {name: c}
workloads:
  - {name: w, lost: soon, slices: [[nowhere]], priority: 99999999999}
";
    assert_eq!(
        problems(text),
        [
            "x.yaml:1: cubes[0].unhealthy[1] is \"x\", but must be a number from 0 to 63",
            "x.yaml:1: cubes[0].states.4x4x4 must be HEALTHY, DEGRADED, UNHEALTHY, UNSET or INCOMPLETE",
            "x.yaml:1: cubes[1].size is not known; there are name, block, unhealthy, degraded, unknown, closed, states, maintenance",
            "x.yaml:1: cubes[2].block is missing",
            "x.yaml:1: workloads[0].priority is 99999999999, but must be a number from -2147483648 to 2147483647",
            "x.yaml:1: workloads[0].lost is \"soon\", but must be a span such as 45s, 20m or 1h30m",
            "x.yaml:1: cubes[0].unhealthy[0] is 16; hosts are numbered from 0 to 15",
            "x.yaml:1: cubes[0].states.2x2x2 is no partition; write a shape and its number, such as 2x2x2/0",
            "x.yaml:1: cubes[0].states.2x2x2/9 is no partition; write a shape and its number, such as 2x2x2/0",
            "x.yaml:1: cubes[1].name is \"a\", as another one is",
            "x.yaml:1: workloads[0].slices[0][0] is \"nowhere\", which is the id of no partition",
        ]
    );
}

#[test]
fn files_that_are_no_inventory_are_refused() {
    let cases = [
        (
            "generation: v9\ncubes: []\n",
            "x.yaml:1: generation is \"v9\", which is no TPU generation; known are v4, v5e, v5p, v6e, tpu7x",
        ),
        ("cubes: []\n", "x.yaml: generation is missing; name one, such as tpu7x"),
        (
            "generation: tpu7x\n",
            "x.yaml: has no cubes: add cubes, or nodes with the labels of partitions",
        ),
        ("kind: Pod\n", "x.yaml:1: kind must be List, Node or Slice; an inventory has no kind"),
        ("generation: tpu7x\ngrid: 8x8\n", "x.yaml:1: grid does not go with tpu7x: it has cubes"),
        ("generation: v6e\nhost: 4x4\n", "x.yaml:1: host is 4x4; hosts of v6e have 1x1, 2x2, 2x4"),
        (
            "- 1\n",
            "x.yaml:1:  is [1], but must have the fields generation, host, grid, cubes, nodes, slices, workloads",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(problems(text)[0].replace(":  is", ": is"), expected.replace(":  is", ": is"));
    }
    assert!(problems("a: [\n")[0].contains("is not YAML that can be read"));
    assert!(load(Path::new("nowhere.yaml"), None, 0).is_err());
}
