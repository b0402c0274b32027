//! The table of limits of disks and machines: the built-in data file, and a file of the operator's that goes over it.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use sluice_core::volume::Mib;
use sluice_core::volume::limits::{
    AttachStep, DefaultThroughput, DiskRules, Limits, MachineRule, Origin, ReaderRate, ShareFloor,
    Sharing, ThroughputRule,
};

pub mod persistent;
#[cfg(test)]
mod tests;

/// The limits that come with Sluice.
const BUILT_IN: &str = include_str!("volumes/limits.json");

/// Longest file of an operator. The built-in one has 8 KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The limits that come with Sluice.
///
/// # Panics
/// Not with the file that a test reads.
#[must_use]
pub fn built_in() -> Limits {
    let file: File =
        serde_json::from_str(BUILT_IN).expect("the built-in limits are read by a test");
    file.over(Limits::default())
}

/// The built-in limits, with the rows of `file` going before them.
///
/// # Errors
/// The file cannot be read, or is not such a table: which place of it, and why.
pub fn with_overrides(file: &Path) -> Result<Limits, String> {
    let shown = file.display();
    let mut text = String::new();
    fs::File::open(file)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(|error| format!("could not read the limits in \"{shown}\": {error}"))?;
    if u64::try_from(text.len()).is_ok_and(|length| length > FILE_BYTES_MAX) {
        return Err(format!(
            "the limits in \"{shown}\" have more than {FILE_BYTES_MAX} bytes; give only the rows that differ"
        ));
    }
    let parsed: File = serde_json::from_str(&text)
        .map_err(|error| format!("the limits in \"{shown}\" cannot be used: {error}"))?;
    parsed.check().map_err(|why| format!("the limits in \"{shown}\" cannot be used: {why}"))?;
    Ok(parsed.over(built_in()))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "note")]
    _note: String,
    #[serde(default)]
    disks: Vec<Disk>,
    #[serde(default)]
    machines: Vec<Machine>,
    #[serde(default)]
    readers: Option<Readers>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Disk {
    name: String,
    size_gib: Range,
    throughput_mib: Throughput,
    iops: Iops,
    #[serde(default)]
    read_only_machines: Vec<Step>,
    /// Absent: one machine. `null`: nobody knows how many.
    #[serde(default, deserialize_with = "present")]
    read_write_machines: Option<Option<u64>>,
    #[serde(default)]
    floor: Option<Floor>,
    #[serde(default)]
    change_hours: Option<ChangeHours>,
    #[serde(default)]
    series: Vec<String>,
    #[serde(default)]
    series_not: Vec<String>,
    #[serde(default)]
    series_new_only: Option<NewOnly>,
    source: String,
    as_of: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    min: u64,
    max: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Throughput {
    #[serde(default = "yes")]
    is_settable: bool,
    min: u64,
    #[serde(default)]
    min_milli_per_gib: u64,
    max: u64,
    #[serde(default)]
    max_per_gib: Option<u64>,
    #[serde(default)]
    default_at_least: Option<u64>,
    #[serde(default)]
    default_per_gib: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Iops {
    max: u64,
    #[serde(default)]
    per_mib: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    up_to_gib: u64,
    machines: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Floor {
    readers_above: u64,
    mib_each: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeHours {
    #[serde(rename = "throughput")]
    throughput_hours: u32,
    #[serde(rename = "size")]
    size_hours: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewOnly {
    series: Vec<String>,
    made_after: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Machine {
    pattern: String,
    #[serde(default)]
    disks: Vec<String>,
    mib: u64,
    #[serde(default)]
    volumes: Option<u64>,
    #[serde(default)]
    is_assumed: bool,
    source: String,
    as_of: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Readers {
    rows: Vec<ReaderRow>,
    #[serde(rename = "source")]
    _source: String,
    #[serde(rename = "as_of")]
    _as_of: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReaderRow {
    read_ahead_kib: u64,
    mib: u64,
}

fn yes() -> bool {
    true
}

fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<u64>>, D::Error> {
    Option::<u64>::deserialize(deserializer).map(Some)
}

impl File {
    /// What the types do not say.
    fn check(&self) -> Result<(), String> {
        for disk in &self.disks {
            let of = format!("disk \"{}\"", disk.name);
            if disk.size_gib.min > disk.size_gib.max {
                return Err(format!("{of}: size_gib.min is above size_gib.max"));
            }
            if disk.throughput_mib.min > disk.throughput_mib.max {
                return Err(format!("{of}: throughput_mib.min is above throughput_mib.max"));
            }
            let steps = &disk.read_only_machines;
            if steps.windows(2).any(|pair| pair[0].up_to_gib >= pair[1].up_to_gib) {
                return Err(format!("{of}: read_only_machines must rise in up_to_gib"));
            }
        }
        if let Some(machine) = self.machines.iter().find(|machine| machine.mib == 0) {
            return Err(format!("machine \"{}\": mib must be above 0", machine.pattern));
        }
        let rows = self.readers.as_ref().map_or(&[][..], |readers| &readers.rows);
        if rows.windows(2).any(|pair| pair[0].read_ahead_kib >= pair[1].read_ahead_kib) {
            return Err("readers: rows must rise in read_ahead_kib".to_owned());
        }
        Ok(())
    }

    /// These rows, and those of `below` that they do not replace.
    fn over(self, below: Limits) -> Limits {
        let mut disks: Vec<DiskRules> = self.disks.into_iter().map(disk).collect();
        let replaced = |old: &DiskRules, new: &[DiskRules]| new.iter().any(|d| d.name == old.name);
        let kept: Vec<DiskRules> =
            below.disks.into_iter().filter(|old| !replaced(old, &disks)).collect();
        disks.extend(kept);
        let mut machines: Vec<MachineRule> = self.machines.into_iter().map(machine).collect();
        machines.extend(below.machines);
        let readers = match self.readers {
            Some(readers) => readers.rows.iter().map(reader).collect(),
            None => below.readers,
        };
        Limits { disks, machines, readers }
    }
}

fn disk(row: Disk) -> DiskRules {
    let throughput = &row.throughput_mib;
    let sharing = match row.read_write_machines {
        Some(machines) => Sharing::ReadWrite(machines),
        None if row.read_only_machines.is_empty() => Sharing::One,
        None => {
            let step =
                |step: &Step| AttachStep { up_to_gib: step.up_to_gib, machines_max: step.machines };
            Sharing::ReadOnly(row.read_only_machines.iter().map(step).collect())
        }
    };
    let (series_new_only, made_after) =
        row.series_new_only.map_or_else(Default::default, |new| (new.series, new.made_after));
    DiskRules {
        name: row.name,
        size_min_gib: row.size_gib.min,
        size_max_gib: row.size_gib.max,
        throughput: ThroughputRule {
            is_settable: throughput.is_settable,
            min: Mib(throughput.min),
            min_milli_per_gib: throughput.min_milli_per_gib,
            max: Mib(throughput.max),
            max_per_gib: throughput.max_per_gib.map(Mib),
            default: throughput.default_at_least.map(|at_least| DefaultThroughput {
                at_least: Mib(at_least),
                per_gib: Mib(throughput.default_per_gib),
            }),
        },
        iops_max: row.iops.max,
        iops_per_mib: row.iops.per_mib,
        sharing,
        floor: row.floor.map(|floor| ShareFloor {
            readers_above: floor.readers_above,
            each: Mib(floor.mib_each),
        }),
        throughput_change_hours: row.change_hours.as_ref().map(|hours| hours.throughput_hours),
        size_change_hours: row.change_hours.as_ref().map(|hours| hours.size_hours),
        series: row.series,
        series_not: row.series_not,
        series_new_only,
        made_after,
        origin: Origin { source: row.source, as_of: row.as_of },
    }
}

fn machine(row: Machine) -> MachineRule {
    MachineRule {
        pattern: row.pattern,
        disks: row.disks,
        throughput: Mib(row.mib),
        volumes_max: row.volumes,
        is_assumed: row.is_assumed,
        origin: Origin { source: row.source, as_of: row.as_of },
    }
}

fn reader(row: &ReaderRow) -> ReaderRate {
    ReaderRate { read_ahead_kib: row.read_ahead_kib, rate: Mib(row.mib) }
}
