//! Traces of workloads: CSV with a header, or a JSON array.

use std::path::Path;

use csv::StringRecord;

use super::amount::Written;
use super::error::{Error, read_text};
use super::row::{Bad, QueueNames, Row, TopologyWord};
use super::scenario::{JOBS_MAX, Job};

/// Largest trace. A million workloads take about 200 MB.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Columns that are no resource.
const COLUMNS: [&str; 16] = [
    "name",
    "queue",
    "class",
    "arrival_ms",
    "ranks",
    "priority",
    "duration_ms",
    "start_cost_ms",
    "step_ms",
    "save_interval_ms",
    "save_duration_ms",
    "save_in_background",
    "topology",
    "topology_level",
    "slice_level",
    "slice_ranks",
];
/// Resources whose names have no domain.
const PLAIN_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Reads a CSV trace.
pub(super) fn read_csv(path: &Path, queues: &QueueNames) -> Result<Vec<Job>, Error> {
    let text = read_text(path, FILE_BYTES_MAX)?;
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let failed = |error: &csv::Error| {
        let line = error.position().map(csv::Position::line);
        Error::input(path, line, error.to_string())
    };
    let header = reader.headers().map_err(|error| failed(&error))?.clone();
    check_header(&header).map_err(|bad| bad_row(path, 1, None, &bad))?;
    let mut jobs = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| failed(&error))?;
        let line = record.position().map_or(0, csv::Position::line);
        if jobs.len() == JOBS_MAX {
            return Err(too_many(path, line));
        }
        let row = to_row(&header, &record).map_err(|bad| bad_row(path, line, None, &bad))?;
        let job = row.to_job(queues).map_err(|bad| bad_row(path, line, Some(&row.name), &bad))?;
        jobs.push(job);
    }
    Ok(jobs)
}

/// Reads a JSON trace.
pub(super) fn read_json(path: &Path, queues: &QueueNames) -> Result<Vec<Job>, Error> {
    let text = read_text(path, FILE_BYTES_MAX)?;
    let rows: Vec<Row> = serde_json::from_str(&text)
        .map_err(|error| Error::input(path, Some(error.line() as u64), error.to_string()))?;
    if rows.len() > JOBS_MAX {
        return Err(Error::input(path, None, format!("more than {JOBS_MAX} workloads; split it")));
    }
    let to_job = |(index, row): (usize, &Row)| {
        row.to_job(queues).map_err(|bad| {
            let what =
                format!("[{index}] (workload {:?}): {} {}", row.name, bad.field, bad.problem);
            Error::input(path, None, what)
        })
    };
    rows.iter().enumerate().map(to_job).collect()
}

fn too_many(path: &Path, line: u64) -> Error {
    Error::input(path, Some(line), format!("more than {JOBS_MAX} workloads; split the trace"))
}

fn bad_row(path: &Path, line: u64, name: Option<&str>, bad: &Bad) -> Error {
    let of = name.map(|name| format!(" of workload {name:?}")).unwrap_or_default();
    Error::input(path, Some(line), format!("column {}{of} {}", bad.field, bad.problem))
}

fn check_header(header: &StringRecord) -> Result<(), Bad> {
    for (index, name) in header.iter().enumerate() {
        if header.iter().take(index).any(|other| other == name) {
            return Err(Bad::new(name, "is there twice; keep one"));
        }
        if !COLUMNS.contains(&name) && !is_resource(name) {
            let problem = format!(
                "is not known; known are {}, and resources such as cpu or nvidia.com/gpu",
                COLUMNS.join(", ")
            );
            return Err(Bad::new(name, problem));
        }
    }
    for needed in ["name", "arrival_ms", "duration_ms"] {
        if !header.iter().any(|name| name == needed) {
            return Err(Bad::new(needed, "is missing; the first line must name the columns"));
        }
    }
    if !header.iter().any(is_resource) {
        return Err(Bad::new(
            "nvidia.com/gpu",
            "(or cpu, or any other resource) is missing; add one",
        ));
    }
    Ok(())
}

fn is_resource(name: &str) -> bool {
    PLAIN_RESOURCES.contains(&name) || name.contains('/')
}

fn to_row(header: &StringRecord, record: &StringRecord) -> Result<Row, Bad> {
    let mut row = Row::default();
    for (column, cell) in header.iter().zip(record) {
        if cell.is_empty() {
            if ["name", "arrival_ms", "duration_ms"].contains(&column) {
                return Err(Bad::new(column, "is empty; every row needs it"));
            }
            continue;
        }
        match column {
            "name" => cell.clone_into(&mut row.name),
            "queue" => row.queue = Some(cell.to_owned()),
            "class" => row.class = Some(cell.to_owned()),
            "arrival_ms" => row.arrival_ms = number(column, cell)?,
            "ranks" => row.ranks = Some(number(column, cell)?),
            "priority" => row.priority = Some(number(column, cell)?),
            "duration_ms" => row.duration_ms = number(column, cell)?,
            "start_cost_ms" => row.start_cost_ms = Some(number(column, cell)?),
            "step_ms" => row.step_ms = Some(number(column, cell)?),
            "save_interval_ms" => row.save_interval_ms = Some(number(column, cell)?),
            "save_duration_ms" => row.save_duration_ms = Some(number(column, cell)?),
            "save_in_background" => {
                let is_background = cell.parse();
                let is_background =
                    is_background.map_err(|_| expected(column, cell, "true or false"))?;
                row.save_in_background = Some(is_background);
            }
            "topology" => row.topology = Some(topology(column, cell)?),
            "topology_level" => row.topology_level = Some(cell.to_owned()),
            "slice_level" => row.slice_level = Some(cell.to_owned()),
            "slice_ranks" => row.slice_ranks = Some(number(column, cell)?),
            resource => {
                row.resources.insert(resource.to_owned(), Written(cell.to_owned()));
            }
        }
    }
    Ok(row)
}

fn number<T: std::str::FromStr>(column: &str, cell: &str) -> Result<T, Bad> {
    let what = if column == "priority" { "a whole number" } else { "a whole number, 0 or more" };
    cell.parse().map_err(|_| expected(column, cell, what))
}

fn topology(column: &str, cell: &str) -> Result<TopologyWord, Bad> {
    match cell {
        "required" => Ok(TopologyWord::Required),
        "preferred" => Ok(TopologyWord::Preferred),
        "unconstrained" => Ok(TopologyWord::Unconstrained),
        _ => Err(expected(column, cell, "required, preferred or unconstrained")),
    }
}

fn expected(column: &str, cell: &str, what: &str) -> Bad {
    // A cell may be a whole file by mistake.
    let shown: String = cell.chars().take(80).collect();
    Bad::new(column, format!("is {shown:?} but must be {what}"))
}

#[cfg(test)]
mod tests;
