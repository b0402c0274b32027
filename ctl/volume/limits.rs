//! `sluice volume limits`: the table that plans go by.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use sluice_core::volume::limits::{DiskRules, Limits, MachineRule, Sharing};

use crate::args::Global;
use crate::failure::Failure;
use crate::output::{self, Document, Format};
use crate::table::Sheet;
use crate::text::{NOTHING, safe};

/// Shows the limits that plans go by, with source and date.
#[derive(Debug, Args)]
#[command(after_help = "\
Limits age. A file of the form in docs/volumes.md replaces rows and adds others.

Examples:
  sluice volume limits
  sluice volume limits --limits ours.json -o json | jq .machines")]
pub(crate) struct LimitsArgs {
    /// Rows that go before the built-in ones.
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
    /// How to print it.
    #[arg(long, short, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Format,
}

#[derive(Debug, Serialize)]
struct LimitsView {
    disks: Vec<DiskView>,
    machines: Vec<MachineView>,
    readers: Vec<ReaderView>,
}

#[derive(Debug, Serialize)]
struct DiskView {
    name: String,
    size_min_gib: u64,
    size_max_gib: u64,
    throughput_max_mib_per_second: u64,
    throughput_max_mib_per_second_per_gib: Option<u64>,
    iops_max: u64,
    attach: Vec<StepView>,
    series: Vec<String>,
    source: String,
    as_of: String,
}

#[derive(Debug, Serialize)]
struct StepView {
    up_to_gib: u64,
    machines_max: Option<u64>,
    read_only: bool,
}

#[derive(Debug, Serialize)]
struct MachineView {
    pattern: String,
    disks: Vec<String>,
    throughput_mib_per_second: u64,
    volumes_max: Option<u64>,
    assumed: bool,
    source: String,
    as_of: String,
}

#[derive(Debug, Serialize)]
struct ReaderView {
    read_ahead_kib: u64,
    throughput_mib_per_second: u64,
}

/// Runs `sluice volume limits`.
///
/// # Errors
/// The operator's file cannot be used.
pub(super) fn run(global: &Global, args: &LimitsArgs) -> Result<(), Failure> {
    let view = LimitsView::of(&super::table(args.limits.as_ref())?);
    if let Some(text) = output::encode(args.output, &Document::new("VolumeLimits", &view))? {
        return output::write_stdout(text.as_bytes());
    }
    output::print(global.color, &render(&view))
}

impl LimitsView {
    fn of(limits: &Limits) -> Self {
        let reader = |row: &sluice_core::volume::limits::ReaderRate| ReaderView {
            read_ahead_kib: row.read_ahead_kib,
            throughput_mib_per_second: row.rate.0,
        };
        Self {
            disks: limits.disks.iter().map(DiskView::of).collect(),
            machines: limits.machines.iter().map(MachineView::of).collect(),
            readers: limits.readers.iter().map(reader).collect(),
        }
    }
}

impl DiskView {
    fn of(disk: &DiskRules) -> Self {
        let whole = |machines_max, read_only| {
            vec![StepView { up_to_gib: disk.size_max_gib, machines_max, read_only }]
        };
        let attach = match &disk.sharing {
            Sharing::One => whole(Some(1), false),
            Sharing::ReadWrite(machines) => whole(*machines, false),
            Sharing::ReadOnly(steps) => {
                let step = |step: &sluice_core::volume::limits::AttachStep| StepView {
                    up_to_gib: step.up_to_gib,
                    machines_max: Some(step.machines_max),
                    read_only: true,
                };
                steps.iter().map(step).collect()
            }
        };
        Self {
            name: disk.name.clone(),
            size_min_gib: disk.size_min_gib,
            size_max_gib: disk.size_max_gib,
            throughput_max_mib_per_second: disk.throughput.max.0,
            throughput_max_mib_per_second_per_gib: disk.throughput.max_per_gib.map(|max| max.0),
            iops_max: disk.iops_max,
            attach,
            series: disk.series.clone(),
            source: disk.origin.source.clone(),
            as_of: disk.origin.as_of.clone(),
        }
    }
}

impl MachineView {
    fn of(machine: &MachineRule) -> Self {
        Self {
            pattern: machine.pattern.clone(),
            disks: machine.disks.clone(),
            throughput_mib_per_second: machine.throughput.0,
            volumes_max: machine.volumes_max,
            assumed: machine.is_assumed,
            source: machine.origin.source.clone(),
            as_of: machine.origin.as_of.clone(),
        }
    }
}

fn render(view: &LimitsView) -> String {
    let mut sheet = Sheet::new();
    let number = |value: Option<u64>| value.map_or_else(|| NOTHING.to_owned(), |v| v.to_string());
    let attach = |disk: &DiskView| {
        let step = |step: &StepView| match step.machines_max {
            Some(max) => format!("{max} to {} GiB", step.up_to_gib),
            None => "unknown".to_owned(),
        };
        disk.attach.iter().map(step).collect::<Vec<_>>().join(", ")
    };
    let rows: Vec<Vec<String>> = view
        .disks
        .iter()
        .map(|disk| {
            vec![
                safe(&disk.name),
                format!("{} to {} GiB", disk.size_min_gib, disk.size_max_gib),
                format!("{} MiB/s", disk.throughput_max_mib_per_second),
                number(disk.throughput_max_mib_per_second_per_gib),
                attach(disk),
                safe(&disk.as_of),
                safe(&disk.source),
            ]
        })
        .collect();
    let titles = ["TYPE", "SIZE", "AT MOST", "MIB/S PER GIB", "MACHINES", "AS OF", "SOURCE"];
    sheet.section("Disks").table(&titles, &rows);
    let rows: Vec<Vec<String>> = view
        .machines
        .iter()
        .map(|machine| {
            vec![
                safe(&machine.pattern),
                if machine.disks.is_empty() {
                    "any".to_owned()
                } else {
                    safe(&machine.disks.join(","))
                },
                format!("{} MiB/s", machine.throughput_mib_per_second),
                number(machine.volumes_max),
                safe(&machine.as_of),
                safe(&machine.source),
            ]
        })
        .collect();
    let titles = ["MACHINE", "DISKS", "AT MOST", "VOLUMES", "AS OF", "SOURCE"];
    sheet.section("Machines (all disks of one together; the first row that fits counts)");
    sheet.table(&titles, &rows);
    let rows: Vec<Vec<String>> = view
        .readers
        .iter()
        .map(|row| {
            let rate = format!("{} MiB/s", row.throughput_mib_per_second);
            vec![format!("{} KiB", row.read_ahead_kib), rate]
        })
        .collect();
    sheet.section("One sequential reader, by read-ahead").table(&["READ-AHEAD", "GETS"], &rows);
    sheet.finish()
}
