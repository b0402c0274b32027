//! A GPU is handed over when its driver says that nobody uses it: no process computes on it, and its memory is back.

use serde_json::{Value, json};
use sluice::wire::pb::{DrainState, Phase};

use crate::cluster::SLUICE;
use crate::gpu_node::{GpuNode, library};

fn gpu(processes: &Value, used_bytes: u64) -> Value {
    let gpu = json!({ "processes": processes, "memory": { "used": used_bytes } });
    json!({ "profile": "h100", "count": 1, "gpus": { "0": gpu } })
}

fn run(node: &mut GpuNode, name: &str, priority: u32) {
    let mut command = node.cluster.command(SLUICE);
    command.args(["run", "--name", name, "--priority", &priority.to_string()]);
    command.args(["--", "sleep", "600"]);
    let launcher = node.cluster.spawn(&format!("run-{name}"), &mut command);
    node.cluster.adopt(launcher);
}

#[test]
fn gpu_is_handed_over_once_nobody_computes_and_its_memory_is_back() {
    let in_use = json!([{ "pid": 4_194_303, "used_memory_bytes": 40_u64 << 30 }]);
    let mut node = GpuNode::unstarted(&gpu(&json!([]), 0));
    node.add_bus(&gpu(&json!([]), 0));
    node.cluster.start_arbiter();
    let mut node = node.with_library(&library());
    node.wait_driver("running");
    run(&mut node, "victim", 0);
    node.cluster.wait_phase("victim", Phase::Running);
    node.set(&gpu(&in_use, 40 << 30));
    node.wait("the process on the GPU", |node| {
        let report = node.report().report?;
        report.devices[0].holder_pids.contains(&4_194_303).then_some(())
    });
    run(&mut node, "preemptor", 100);
    // The worker is gone; somebody still computes, as the driver takes its time.
    let is_ended = |node: &mut GpuNode| {
        let drain = node.cluster.drain_of("victim")?;
        drain.members.first().filter(|member| member.exited).map(|member| member.freed)
    };
    assert!(!node.wait("the worker's end", is_ended), "freed while a process computes");
    // Nobody computes, but the memory is not back.
    node.set(&gpu(&json!([]), 40 << 30));
    node.wait("the process to be gone", |node| {
        let scraped = node.scrape();
        let mut processes = scraped.iter().filter(|(name, _)| name.starts_with("gpu_processes{"));
        processes.next().filter(|(_, value)| *value == "0").map(|_| ())
    });
    assert!(!node.wait("the drain", is_ended), "freed while its memory is in use");
    assert_ne!(node.cluster.workload("preemptor").unwrap().phase(), Phase::Running);
    node.set(&gpu(&json!([]), 0));
    node.cluster.wait_drain("victim", DrainState::HandedOver);
    node.cluster.wait_phase("preemptor", Phase::Running);
}

/// While the driver does not answer nobody can say that a GPU is free.
#[test]
fn gpu_whose_driver_hangs_is_not_handed_over_until_it_answers() {
    let mut node = GpuNode::unstarted(&gpu(&json!([]), 0));
    node.add_bus(&gpu(&json!([]), 0));
    node.cluster.start_arbiter();
    let mut node = node.with_library(&library());
    node.wait_driver("running");
    run(&mut node, "victim", 0);
    node.cluster.wait_phase("victim", Phase::Running);
    let mut hanging = gpu(&json!([]), 0);
    hanging["calls"] = json!({ "nvmlDeviceGetCount_v2": { "hang": true } });
    node.set(&hanging);
    node.wait_driver("unresponsive");
    node.cluster.cancel("victim");
    let worker = "victim/1/0";
    crate::process::wait_for("the worker's end", || {
        node.cluster.worker_pids(worker).is_empty().then_some(())
    });
    run(&mut node, "next", 0);
    node.wait("next to be known", |node| node.cluster.workload("next"));
    assert_ne!(node.cluster.workload("next").unwrap().phase(), Phase::Running);
    node.set(&gpu(&json!([]), 0));
    node.cluster.wait_phase("next", Phase::Running);
}
