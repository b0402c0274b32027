//! The table of generations, from its data file.

use serde::Deserialize;
use sluice_core::topology::{Fabric, Generation, Shape, Slicing, Table};

/// Shapes and sizes of TPUs, each row with source and date.
const DATA: &str = include_str!("generations.json");

#[derive(Debug, Deserialize)]
struct Data {
    generations: Vec<Row>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FabricName {
    Grid,
    Cubes,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SlicingName {
    Dynamic,
    Static,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    aliases: Vec<String>,
    accelerators: Vec<String>,
    type_prefix: String,
    cores_per_chip: u32,
    fabric: FabricName,
    #[serde(default)]
    pod_cubes_max: u32,
    #[serde(default)]
    slice_cubes_max: u32,
    slicing: SlicingName,
    is_order_free: bool,
    hosts: Vec<String>,
    shapes: Vec<String>,
    ring_chips: u16,
    can_twist: bool,
    source: String,
    as_of: String,
}

impl Row {
    fn generation(self) -> Generation {
        let shapes = |texts: Vec<String>| -> Vec<Shape> {
            let shape =
                |text: String| text.parse().expect("the data file has shapes that can be read");
            texts.into_iter().map(shape).collect()
        };
        let Self { pod_cubes_max, slice_cubes_max, .. } = self;
        Generation {
            name: self.name,
            aliases: self.aliases,
            accelerators: self.accelerators,
            type_prefix: self.type_prefix,
            cores_per_chip: self.cores_per_chip,
            fabric: match self.fabric {
                FabricName::Grid => Fabric::Grid,
                FabricName::Cubes => Fabric::Cubes { pod_cubes_max, slice_cubes_max },
            },
            slicing: match self.slicing {
                SlicingName::Dynamic => Slicing::Dynamic,
                SlicingName::Static => Slicing::Static,
            },
            is_order_free: self.is_order_free,
            hosts: shapes(self.hosts),
            shapes: shapes(self.shapes),
            ring_chips: self.ring_chips,
            can_twist: self.can_twist,
            source: self.source,
            as_of: self.as_of,
        }
    }
}

/// Every generation that is known.
///
/// # Panics
/// Never with the data file that is built in; a test reads it.
#[must_use]
pub fn table() -> Table {
    let data: Data = serde_json::from_str(DATA).expect("the data file can be read");
    let rows = data.generations.into_iter().map(Row::generation).collect();
    Table::new(rows).expect("the rows of the data file are consistent")
}
