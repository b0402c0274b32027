//! `sluice simulate` as people run it: a trace or a file in, figures out, the same bytes each time.

use std::path::Path;
use std::process::{Command, Output};

use expect_test::expect_file;
use tempfile::TempDir;

use crate::cluster::SLUICE;

/// A training that serving needs the devices of, on one node with 8 GPUs.
const TRACE: &str = "\
name,class,arrival_ms,priority,duration_ms,start_cost_ms,step_ms,save_interval_ms,save_duration_ms,nvidia.com/gpu
train,training,0,0,36000000,600000,10000,7200000,60000,8
serve,serving,6000000,10,1800000,30000,,,,8
";

fn directory() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jobs.csv"), TRACE).unwrap();
    dir
}

fn simulate(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(SLUICE);
    command.arg("simulate").args(arguments).current_dir(dir).env("NO_COLOR", "1");
    command.output().unwrap()
}

#[track_caller]
fn done(dir: &Path, arguments: &[&str]) -> String {
    let output = simulate(dir, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("decisions per CPU-second"), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn refused(dir: &Path, arguments: &[&str], code: i32, said: &str) {
    let output = simulate(dir, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(said), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
}

#[test]
fn a_simulation_prints_the_same_json_each_time() {
    let dir = directory();
    let arguments = ["jobs.csv", "--nodes", "1", "--mode", "drain", "-o", "json"];
    let text = done(dir.path(), &arguments);
    assert_eq!(done(dir.path(), &arguments), text);
    expect_file!["simulate/drain.json"].assert_eq(&text);
}

#[test]
fn both_modes_of_a_described_cluster_are_shown_and_drawn() {
    let dir = directory();
    let queues = "\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: h200}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors:
        - {name: h200, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}
";
    std::fs::write(dir.path().join("queues.yaml"), queues).unwrap();
    let file = "cluster: {queues: [queues.yaml]}\ntrace: {csv: jobs.csv}\npolicy: compat\n";
    std::fs::write(dir.path().join("cluster.yaml"), file).unwrap();
    let text = done(dir.path(), &["cluster.yaml", "--by", "queue", "--plot", "plot.svg"]);
    let first: Vec<&str> = text.lines().take(3).collect();
    assert_eq!(first[0], "2 workloads in 1 queue on 8 GPUs, policy compat");
    assert_eq!(first[2].split_whitespace().collect::<Vec<_>>(), ["KILL", "DRAIN"]);
    let has_row = |words: &[&str]| {
        text.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().starts_with(words))
    };
    // 5,400 s of work on 8 devices are done again, or not.
    assert!(has_row(&["work", "done", "again", "(GPU-hours)", "12.00", "0.00"]), "{text}");
    assert!(has_row(&["team", "kill", "2/2"]) && has_row(&["team", "drain", "2/2"]), "{text}");
    let svg = std::fs::read_to_string(dir.path().join("plot.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    // The file's own policy gives way to the flag's.
    let other = done(dir.path(), &["cluster.yaml", "--policy", "sluice", "--mode", "kill"]);
    assert!(other.starts_with("2 workloads in 1 queue on 8 GPUs, policy sluice\n"), "{other}");
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let dir = directory();
    let path = dir.path();
    std::fs::write(path.join("bad.csv"), TRACE.replace("serving,6000000,", "serving,soon,"))
        .unwrap();
    let bare = ["jobs.csv"];
    refused(
        path,
        &bare,
        64,
        "say on what it runs, with --nodes and --gpus-per-node or with --queues",
    );
    let bad = ["bad.csv", "--nodes", "1"];
    refused(path, &bad, 64, "bad.csv:3: column arrival_ms is \"soon\" but must be a whole number");
    refused(path, &["none.yaml"], 64, "could not read \"none.yaml\"");
    refused(path, &["jobs.csv", "--nodes", "0"], 64, "--nodes");
    let unwritable = ["jobs.csv", "--nodes", "1", "--plot", "none/plot.svg"];
    refused(path, &unwritable, 1, "could not write the plot to \"none/plot.svg\"");
}
