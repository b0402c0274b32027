//! A small table for tests; the real one is a data file of the shell.

use super::{Fabric, Generation, Shape, Slicing, Table};

pub(crate) fn shape(text: &str) -> Shape {
    text.parse().expect("a shape")
}

fn shapes(texts: &[&str]) -> Vec<Shape> {
    texts.iter().map(|text| shape(text)).collect()
}

fn cubes(name: &str, label: &str, slicing: Slicing, pod: u32, slice: u32) -> Generation {
    Generation {
        name: name.to_owned(),
        aliases: Vec::new(),
        accelerators: vec![label.to_owned()],
        type_prefix: name.to_owned(),
        cores_per_chip: 2,
        fabric: Fabric::Cubes { pod_cubes_max: pod, slice_cubes_max: slice },
        slicing,
        is_order_free: false,
        hosts: shapes(&["2x2x1"]),
        shapes: shapes(&["2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4"]),
        ring_chips: 4,
        can_twist: true,
        source: "fixture".to_owned(),
        as_of: "2026-11-30".to_owned(),
    }
}

pub(crate) fn table() -> Table {
    let v4 = Generation {
        is_order_free: true,
        ..cubes("v4", "tpu-v4-podslice", Slicing::Static, 64, 64)
    };
    let v6e = Generation {
        fabric: Fabric::Grid,
        cores_per_chip: 1,
        hosts: shapes(&["1x1", "2x2", "2x4"]),
        shapes: shapes(&["1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"]),
        ring_chips: 16,
        can_twist: false,
        ..cubes("v6e", "tpu-v6e-slice", Slicing::Static, 0, 0)
    };
    let v5p = cubes("v5p", "tpu-v5p-slice", Slicing::Static, 140, 96);
    let v7x = Generation {
        aliases: vec!["v7x".to_owned(), "ironwood".to_owned()],
        ..cubes("tpu7x", "tpu7x", Slicing::Dynamic, 144, 144)
    };
    Table::new(vec![v4, v5p, v6e, v7x]).expect("the rows are consistent")
}

pub(crate) fn generation(name: &str) -> Generation {
    table().find(name).expect("a generation of the fixture").clone()
}
