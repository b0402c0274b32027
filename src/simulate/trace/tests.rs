use std::path::PathBuf;

use sluice_core::kueue::workload::{TopologyMode, TopologyRequest};

use super::*;
use crate::simulate::execution::{Saves, Work};

fn queues() -> QueueNames {
    QueueNames([("team/a".to_owned(), "a".into()), ("a".to_owned(), "a".into())].into())
}

fn read(extension: &str, text: &str) -> Result<Vec<Job>, String> {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("trace").with_extension(extension);
    std::fs::write(&path, text).unwrap();
    let jobs =
        if extension == "csv" { read_csv(&path, &queues()) } else { read_json(&path, &queues()) };
    jobs.map_err(|error| error.to_string().replace(&path.display().to_string(), "trace"))
}

fn full() -> Job {
    let saves = Saves { interval_ms: 600, duration_ms: 20, is_background: true };
    Job {
        name: "t1".to_owned(),
        class: "training".to_owned(),
        queue: "a".into(),
        arrival_ms: 5,
        ranks: 4,
        requests: [("cpu".into(), 1_500), ("nvidia.com/gpu".into(), 8)].into(),
        priority: -3,
        work: Work { duration_ms: 9_000, start_cost_ms: 30, step_ms: 2, saves: Some(saves) },
        topology: Some(TopologyRequest {
            mode: Some(TopologyMode::Preferred("rack".to_owned())),
            slice_level: Some("host".to_owned()),
            slice_size: Some(2),
            ..TopologyRequest::default()
        }),
    }
}

#[test]
fn every_column_is_read() {
    let text = "\
# a comment
name,queue,class,arrival_ms,ranks,priority,duration_ms,start_cost_ms,step_ms,save_interval_ms,save_duration_ms,save_in_background,topology,topology_level,slice_level,slice_ranks,nvidia.com/gpu,cpu
t1,team/a,training,5,4,-3,9000,30,2,600,20,true,preferred,rack,host,2,8,1500m
";
    assert_eq!(read("csv", text), Ok(vec![full()]));
}

#[test]
fn every_field_of_json_is_read() {
    let text = r#"[{"name": "t1", "queue": "a", "class": "training", "arrival_ms": 5, "ranks": 4, "priority": -3,
        "duration_ms": 9000, "start_cost_ms": 30, "step_ms": 2, "save_interval_ms": 600, "save_duration_ms": 20,
        "save_in_background": true, "topology": "preferred", "topology_level": "rack", "slice_level": "host",
        "slice_ranks": 2, "resources": {"nvidia.com/gpu": 8, "cpu": "1500m"}}]"#;
    assert_eq!(read("json", text), Ok(vec![full()]));
}

#[test]
fn empty_cells_and_absent_columns_are_defaults() {
    let text = "name,arrival_ms,duration_ms,priority,nvidia.com/gpu,cpu\nx,0,10,,1,\n";
    let job = Job {
        name: "x".to_owned(),
        class: "default".to_owned(),
        queue: "a".into(),
        arrival_ms: 0,
        ranks: 1,
        requests: [("nvidia.com/gpu".into(), 1)].into(),
        priority: 0,
        work: Work { duration_ms: 10, start_cost_ms: 0, step_ms: 0, saves: None },
        topology: None,
    };
    assert_eq!(read("csv", text), Ok(vec![job]));
}

/// Reads a good row and a bad one, both with `columns` besides the needed ones.
#[track_caller]
fn check_row(columns: &str, cells: &str, problem: &str) {
    let empty = ",".repeat(columns.matches(',').count());
    let text = format!("name,arrival_ms,duration_ms,cpu{columns}\nok,0,1,1{empty}\nx{cells}\n");
    assert_eq!(read("csv", &text), Err(format!("trace:3: column {problem}")));
}

#[test]
fn a_cell_that_cannot_be_used_is_named_with_line_and_column() {
    let cases = [
        ("", ",soon,1,1", "arrival_ms is \"soon\" but must be a whole number, 0 or more"),
        ("", ",0,,1", "duration_ms is empty; every row needs it"),
        ("", ",0,0,1", "duration_ms of workload \"x\" is 0 but must be from 1 to 315360000000"),
        (
            "",
            ",0,1,many",
            "cpu of workload \"x\" is \"many\" but must be a quantity such as 8, 500m or 16Gi",
        ),
        (
            "",
            ",0,1,0",
            "resources of workload \"x\" are absent or 0, but each rank must request something",
        ),
        (
            ",queue",
            ",0,1,1,b",
            "queue of workload \"x\" is \"b\", which no queue is called; known are a, team/a",
        ),
        (",ranks", ",0,1,1,0", "ranks of workload \"x\" is 0 but must be from 1 to 100000"),
        (",ranks", ",0,1,1,-1", "ranks is \"-1\" but must be a whole number, 0 or more"),
        (",priority", ",0,1,1,high", "priority is \"high\" but must be a whole number"),
    ];
    for (columns, cells, problem) in cases {
        check_row(columns, cells, problem);
    }
}

#[test]
fn saves_and_places_that_cannot_be_are_named_with_line_and_column() {
    let cases = [
        (
            ",save_interval_ms",
            ",0,1,1,0",
            "save_interval_ms of workload \"x\" is 0 but must be from 1 to 315360000000",
        ),
        (
            ",save_duration_ms",
            ",0,1,1,9",
            "save_interval_ms of workload \"x\" is absent, but other fields say how it saves; add it or drop them",
        ),
        (
            ",save_in_background",
            ",0,1,1,maybe",
            "save_in_background is \"maybe\" but must be true or false",
        ),
        (
            ",save_interval_ms,save_duration_ms,save_in_background",
            ",0,1,1,5,6,true",
            "save_duration_ms of workload \"x\" is 6, longer than save_interval_ms (5): saves in the background would overlap",
        ),
        (
            ",topology",
            ",0,1,1,near",
            "topology is \"near\" but must be required, preferred or unconstrained",
        ),
        (
            ",topology",
            ",0,1,1,required",
            "topology_level of workload \"x\" is absent, but topology needs a level",
        ),
        (
            ",topology_level",
            ",0,1,1,rack",
            "topology_level of workload \"x\" is set, but topology is neither required nor preferred",
        ),
        (
            ",slice_ranks",
            ",0,1,1,2",
            "slice_level of workload \"x\" is absent, but slice_ranks needs a level",
        ),
        (
            ",slice_level",
            ",0,1,1,rack",
            "slice_ranks of workload \"x\" must be 1 or more where slice_level is set",
        ),
    ];
    for (columns, cells, problem) in cases {
        check_row(columns, cells, problem);
    }
}

#[test]
fn a_bad_header_is_refused() {
    let read = |header: &str| read("csv", &format!("{header}\n")).unwrap_err();
    assert!(
        read("name,arrival_ms,duration_ms,cpu,gpus")
            .starts_with("trace:1: column gpus is not known; known are name,")
    );
    assert_eq!(
        read("name,arrival_ms,cpu"),
        "trace:1: column duration_ms is missing; the first line must name the columns"
    );
    assert_eq!(
        read("name,name,arrival_ms,duration_ms,cpu"),
        "trace:1: column name is there twice; keep one"
    );
    assert_eq!(
        read("name,arrival_ms,duration_ms"),
        "trace:1: column nvidia.com/gpu (or cpu, or any other resource) is missing; add one"
    );
}

#[test]
fn a_row_that_is_too_short_is_refused() {
    let error = read("csv", "name,arrival_ms,duration_ms,cpu\nx,0,1\n").unwrap_err();
    assert!(error.starts_with("trace:2: ") && error.contains("3 fields"), "{error}");
}

#[test]
fn bad_json_is_refused_with_its_line() {
    let error = read("json", "[\n{\"name\": \"x\", \"duration_ms\": 1, \"gpus\": 8}]").unwrap_err();
    assert!(error.starts_with("trace:2: unknown field `gpus`"), "{error}");
    let error = read("json", "[{\"name\": \"x\", \"duration_ms\": 1}]").unwrap_err();
    assert_eq!(
        error,
        "trace: [0] (workload \"x\"): resources are absent or 0, but each rank must request something"
    );
}
