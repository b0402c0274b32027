//! What an inventory document says, before it is known which generation it is about.

use sluice_core::slice::PartitionState;
use sluice_core::topology::Shape;

use super::field::Field;

/// What a workload is taken to lose if nothing is said: half an hour of each chip. Neither nothing, which would make it
/// everybody's first victim, nor so much that nobody would ever touch it.
pub const ASSUMED_LOST_MS: u64 = 30 * 60_000;

/// Largest number of a host.
const HOST_MAX: i64 = 63;

/// Where something was written.
#[derive(Debug, Clone, Default)]
pub(super) struct Written {
    pub(super) line: u64,
    pub(super) path: String,
}

impl Written {
    pub(super) fn at(field: &Field<'_>) -> Self {
        Self { line: field.reader.line(), path: field.path().to_owned() }
    }
}

/// What is said about hosts of a cube.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ailment {
    Unhealthy,
    Degraded,
    Unknown,
    Closed,
}

#[derive(Debug)]
pub(super) struct CubeDeclared {
    pub(super) written: Written,
    pub(super) name: String,
    pub(super) block: String,
    pub(super) ailments: Vec<(u32, Ailment, Written)>,
    /// Partition, such as `2x2x2/3`, or `4x4x4` of the whole.
    pub(super) states: Vec<(String, PartitionState, Written)>,
    pub(super) maintenance: Vec<(u32, u64, u64, Written)>,
}

#[derive(Debug)]
pub(super) struct WorkloadDeclared {
    pub(super) written: Written,
    pub(super) name: String,
    pub(super) priority: i32,
    pub(super) group: Option<String>,
    /// Per chip.
    pub(super) lost_ms: Option<u64>,
    /// Per chip.
    pub(super) restart_ms: u64,
    pub(super) is_fixed: bool,
    pub(super) is_leaving: bool,
    pub(super) slices: Vec<Vec<(String, Written)>>,
}

/// A node, as far as its labels matter.
#[derive(Debug)]
pub(super) struct NodeDeclared {
    pub(super) written: Written,
    pub(super) name: String,
    pub(super) accelerator: String,
    pub(super) block: String,
    pub(super) ids: Vec<(Shape, String)>,
    pub(super) states: Vec<(Shape, PartitionState)>,
    pub(super) is_open: bool,
    pub(super) is_degraded: bool,
    /// Chips that can be asked for, if that is said.
    pub(super) chips: Option<u32>,
    /// Milliseconds since 1970.
    pub(super) maintenance_at_ms: Option<u64>,
}

/// A Slice object.
#[derive(Debug)]
pub(super) struct SliceDeclared {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) partitions: Vec<(String, Written)>,
    /// `namespace/name` of the workload that it was made for.
    pub(super) owner: Option<String>,
    pub(super) is_leaving: bool,
}

/// Everything that the documents of a file say.
#[derive(Debug, Default)]
pub(super) struct Declared {
    pub(super) generation: Option<(String, Written)>,
    pub(super) host: Option<(Shape, Written)>,
    pub(super) grid: Option<(Shape, Written)>,
    pub(super) cubes: Vec<CubeDeclared>,
    pub(super) workloads: Vec<WorkloadDeclared>,
    pub(super) nodes: Vec<NodeDeclared>,
    pub(super) slices: Vec<SliceDeclared>,
    pub(super) notes: Vec<String>,
}

/// Reads an inventory document.
pub(super) fn read(declared: &mut Declared, root: &Field<'_>) {
    let fields = ["generation", "host", "grid", "cubes", "nodes", "slices", "workloads"];
    if !root.has_only(&fields) {
        return;
    }
    let generation = root.get("generation");
    if let Some(name) = generation.text() {
        declared.generation = Some((name.to_owned(), Written::at(&generation)));
    }
    let shape = |name: &str| {
        let field = root.get(name);
        field.parsed::<Shape>().map(|shape| (shape, Written::at(&field)))
    };
    declared.host = shape("host").or(declared.host.take());
    declared.grid = shape("grid").or(declared.grid.take());
    declared.cubes.extend(root.get("cubes").items().iter().filter_map(cube));
    declared.workloads.extend(root.get("workloads").items().iter().filter_map(workload));
    for node in root.get("nodes").items() {
        super::objects::node(declared, &node);
    }
    for slice in root.get("slices").items() {
        super::objects::slice(declared, &slice);
    }
}

fn cube(field: &Field<'_>) -> Option<CubeDeclared> {
    let fields =
        ["name", "block", "unhealthy", "degraded", "unknown", "closed", "states", "maintenance"];
    if !field.has_only(&fields) {
        return None;
    }
    let ailments = [
        ("unhealthy", Ailment::Unhealthy),
        ("degraded", Ailment::Degraded),
        ("unknown", Ailment::Unknown),
        ("closed", Ailment::Closed),
    ];
    let ailments = ailments.into_iter().flat_map(|(name, ailment)| {
        hosts(&field.get(name)).into_iter().map(move |(host, written)| (host, ailment, written))
    });
    let state = |(part, value): (String, Field<'_>)| {
        let state = PartitionState::of_label(value.text()?);
        if state == PartitionState::Unknown {
            value.problem("must be HEALTHY, DEGRADED, UNHEALTHY, UNSET or INCOMPLETE");
        }
        Some((part, state, Written::at(&value)))
    };
    let windows = field.get("maintenance").items();
    Some(CubeDeclared {
        written: Written::at(field),
        name: field.get("name").required_text()?.to_owned(),
        block: field.get("block").required_text()?.to_owned(),
        ailments: ailments.collect(),
        states: field.get("states").entries().into_iter().filter_map(state).collect(),
        maintenance: windows.iter().filter_map(maintenance).flatten().collect(),
    })
}

fn hosts(field: &Field<'_>) -> Vec<(u32, Written)> {
    let host = |item: &Field<'_>| {
        let number = u32::try_from(item.number(0, HOST_MAX)?).ok()?;
        Some((number, Written::at(item)))
    };
    field.items().iter().filter_map(host).collect()
}

/// Host, from when on and how long. Unit: ms.
fn maintenance(field: &Field<'_>) -> Option<Vec<(u32, u64, u64, Written)>> {
    if !field.has_only(&["hosts", "starts_in", "lasts"]) {
        return None;
    }
    let (starts, lasts) = (field.get("starts_in"), field.get("lasts"));
    for needed in [&starts, &lasts] {
        if !needed.is_there() {
            needed.problem("is missing");
        }
    }
    let (starts_in_ms, lasts_ms) = (starts.span_ms()?, lasts.span_ms()?);
    let hosts = hosts(&field.get("hosts")).into_iter();
    Some(hosts.map(|(host, written)| (host, starts_in_ms, lasts_ms, written)).collect())
}

fn workload(field: &Field<'_>) -> Option<WorkloadDeclared> {
    let fields = ["name", "priority", "group", "lost", "restart", "fixed", "leaving", "slices"];
    if !field.has_only(&fields) {
        return None;
    }
    let priority = field.get("priority").number(i64::from(i32::MIN), i64::from(i32::MAX));
    let slice = |slice: &Field<'_>| {
        let id = |id: &Field<'_>| Some((id.required_text()?.to_owned(), Written::at(id)));
        slice.items().iter().filter_map(id).collect::<Vec<_>>()
    };
    Some(WorkloadDeclared {
        written: Written::at(field),
        name: field.get("name").required_text()?.to_owned(),
        priority: priority.and_then(|priority| i32::try_from(priority).ok()).unwrap_or(0),
        group: field.get("group").text().map(str::to_owned),
        lost_ms: field.get("lost").span_ms(),
        restart_ms: field.get("restart").span_ms().unwrap_or(0),
        is_fixed: field.get("fixed").flag(),
        is_leaving: field.get("leaving").flag(),
        slices: field.get("slices").items().iter().map(slice).collect(),
    })
}
