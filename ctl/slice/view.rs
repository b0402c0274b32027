//! Answers as they are printed, for programs and for people.

use serde::Serialize;

use sluice_core::slice::{Fleet, Part, Piece, Reason, Running};

use super::ask::Asked;
use crate::table::Sheet;
use crate::text::{NOTHING, safe, span};

/// What was asked for.
#[derive(Debug, Serialize)]
pub(super) struct RequestView {
    pub(super) shape: String,
    pub(super) replicas: u32,
    pub(super) accelerator_type: String,
    pub(super) chips_per_slice: u32,
    pub(super) hosts_per_slice: u64,
    pub(super) cubes_per_slice: u32,
}

impl RequestView {
    pub(super) fn of(asked: &Asked) -> Self {
        let shape = asked.wanted.shape;
        let part = asked.request.parts.first().copied();
        let part = part.unwrap_or(Part { level: 0, pieces: 1, count: 0 });
        Self {
            shape: shape.to_string(),
            replicas: part.count,
            accelerator_type: asked.inventory.generation.accelerator_type(shape),
            chips_per_slice: shape.chips(),
            hosts_per_slice: Part { count: 1, ..part }.hosts(),
            cubes_per_slice: if part.pieces > 1 { part.pieces } else { 0 },
        }
    }

    pub(super) fn line(&self) -> String {
        let Self { shape, replicas, accelerator_type, chips_per_slice, hosts_per_slice, .. } = self;
        let each = if *replicas == 1 { "" } else { " each" };
        format!(
            "{replicas} x {shape} ({accelerator_type}): {chips_per_slice} chips on {hosts_per_slice} hosts{each}"
        )
    }
}

/// Why.
#[derive(Debug, Serialize)]
pub(super) struct ReasonView {
    pub(super) code: &'static str,
    pub(super) message: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) hint: &'static str,
}

impl ReasonView {
    pub(super) fn of(reason: &Reason) -> Self {
        Self { code: reason.code(), message: reason.to_string(), hint: reason.hint() }
    }

    pub(super) fn lines(&self) -> String {
        let message = format!("{} [{}]\n", safe(&self.message), self.code);
        if self.hint.is_empty() { message } else { format!("{message}hint: {}\n", self.hint) }
    }
}

/// One slice.
#[derive(Debug, Serialize)]
pub(super) struct SliceView {
    /// As a Slice object names them.
    pub(super) partition_ids: Vec<String>,
    pub(super) block: String,
    pub(super) nodes: Vec<String>,
}

impl SliceView {
    pub(super) fn of(fleet: &Fleet, pieces: &[Piece]) -> Self {
        let cube = pieces.first().and_then(|piece| fleet.cubes().get(piece.cube));
        Self {
            partition_ids: pieces.iter().map(|piece| fleet.id(*piece).to_owned()).collect(),
            block: cube.map(|cube| cube.block.clone()).unwrap_or_default(),
            nodes: pieces.iter().flat_map(|piece| fleet.nodes(*piece)).map(str::to_owned).collect(),
        }
    }

    pub(super) fn all(fleet: &Fleet, slices: &[Vec<Piece>]) -> Vec<Self> {
        slices.iter().map(|pieces| Self::of(fleet, pieces)).collect()
    }
}

/// Somebody who gives way or moves.
#[derive(Debug, Serialize)]
pub(super) struct GangView {
    pub(super) workload: String,
    pub(super) priority: i32,
    pub(super) slices: usize,
    pub(super) lost_chip_ms: u64,
    pub(super) restart_chip_ms: u64,
}

impl GangView {
    pub(super) fn of(running: &Running) -> Self {
        Self {
            workload: running.name.clone(),
            priority: running.priority,
            slices: running.slices.len(),
            lost_chip_ms: running.lost_device_ms,
            restart_chip_ms: running.restart_device_ms,
        }
    }

    pub(super) fn named(fleet: &Fleet, names: &[String]) -> Vec<Self> {
        let gangs = fleet.running().iter().filter(|gang| names.contains(&gang.name));
        gangs.map(Self::of).collect()
    }
}

/// The section of those who give way.
pub(super) fn gangs(sheet: &mut Sheet, title: &str, gangs: &[GangView]) {
    let row = |gang: &GangView| {
        vec![
            safe(&gang.workload),
            gang.priority.to_string(),
            gang.slices.to_string(),
            span(gang.lost_chip_ms),
            span(gang.restart_chip_ms),
        ]
    };
    let titles = ["WORKLOAD", "PRIORITY", "SLICES", "LOST CHIP-TIME", "RESTART CHIP-TIME"];
    sheet.section(title).table(&titles, &gangs.iter().map(row).collect::<Vec<_>>());
}

/// The section of slices; nodes are long, so only `-o wide` shows them.
pub(super) fn slices(sheet: &mut Sheet, title: &str, slices: &[SliceView], is_wide: bool) {
    let row = |(number, slice): (usize, &SliceView)| {
        let mut row = vec![
            number.to_string(),
            safe(&slice.block),
            safe(&slice.partition_ids.join(", ")),
            slice.nodes.len().to_string(),
        ];
        if is_wide {
            row.push(safe(&slice.nodes.join(", ")));
        }
        row
    };
    let titles = ["SLICE", "BLOCK", "PARTITIONS", "HOSTS", "NODES"];
    let titles = if is_wide { &titles[..] } else { &titles[..4] };
    sheet.section(title).table(titles, &slices.iter().enumerate().map(row).collect::<Vec<_>>());
}

/// The section of notes, if there are any.
pub(super) fn notes(sheet: &mut Sheet, notes: &[String]) {
    if !notes.is_empty() {
        let lines: Vec<String> = notes.iter().map(|note| safe(note)).collect();
        sheet.section("Notes").lines(&lines.join("\n"));
    }
}

/// Partitions of slices in one cell.
pub(super) fn partitions(slices: &[SliceView]) -> String {
    let all: Vec<String> =
        slices.iter().flat_map(|s| s.partition_ids.iter().map(|id| safe(id))).collect();
    if all.is_empty() { NOTHING.to_owned() } else { all.join(", ") }
}
