//! A driver that hangs, in whatever call: the agent answers, says so, and gets over it; there is one child at a time.

use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use crate::gpu_node::GpuNode;

fn call(name: &str, what: Value) -> Value {
    let mut control = json!({ "profile": "h100", "count": 2 });
    control["calls"][name] = what;
    control
}

fn hanging(name: &str) -> Value {
    call(name, json!({ "hang": true }))
}

fn working() -> Value {
    json!({ "profile": "h100", "count": 2 })
}

/// Hangs in `name` until the driver counts as hung; then works again.
fn hangs_and_recovers(name: &str) {
    let mut node = GpuNode::start(&working());
    node.wait_driver("running");
    let before = node.devices();
    assert_eq!(before.len(), 2);
    node.set(&hanging(name));
    node.wait_driver("unresponsive");
    let complaint = node.complaint();
    assert!(complaint.starts_with("the NVIDIA driver has not answered for "), "{complaint:?}");
    // The devices are still there, only their age grows.
    assert_eq!(node.devices(), before);
    assert!(node.children().len() <= 1, "{:?}", node.children());
    node.set(&working());
    node.wait_driver("running");
    node.wait("no complaint", |node| node.complaint().is_empty().then_some(()));
    assert_eq!(node.devices(), before);
}

#[test]
fn call_that_hangs_makes_the_driver_unresponsive_and_nothing_else() {
    hangs_and_recovers("nvmlDeviceGetPowerUsage");
}

#[test]
fn call_about_one_gpu_that_hangs_is_seen() {
    hangs_and_recovers("nvmlDeviceGetUUID@1");
}

#[test]
fn driver_that_hangs_as_a_whole_is_seen() {
    hangs_and_recovers("nvmlDeviceGetCount_v2");
}

#[test]
fn driver_that_hangs_when_it_is_started_is_seen() {
    let mut node = GpuNode::start(&hanging("nvmlInit_v2"));
    node.wait_driver("unresponsive");
    assert_eq!(node.devices(), []);
    node.set(&working());
    node.wait_driver("running");
    assert_eq!(node.devices().len(), 2);
}

#[test]
fn slow_call_is_waited_for_and_is_no_hang() {
    let mut node = GpuNode::start(&working());
    node.wait_driver("running");
    // Longer than one look waits, shorter than what counts as hung.
    node.set(&call("nvmlDeviceGetPowerUsage@0", json!({ "delay_ms": 300 })));
    node.wait("an answer that took its time", |node| {
        let took = node.number("gpu_answer_duration_seconds")?;
        (took >= 0.3).then_some(())
    });
    assert_eq!(node.driver(), "running");
}

#[test]
fn child_that_ignores_sigterm_is_killed_and_replaced() {
    let mut node = GpuNode::start(&json!({ "profile": "h100", "ignore_sigterm": true }));
    node.wait_driver("running");
    let mut control = hanging("nvmlDeviceGetPowerUsage");
    control["ignore_sigterm"] = json!(true);
    node.set(&control);
    // The next one hangs as well, but it is there: the first one is gone.
    node.wait("another child", |node| {
        let _answers = node.report();
        node.number("gpu_probe_restarts_total").filter(|restarts| *restarts >= 1.0)
    });
    assert_eq!(node.driver(), "unresponsive");
    node.set(&working());
    node.wait_driver("running");
}

/// What hangs in the kernel cannot be ended. A process that is traced by another one which never looks after it is as
/// impossible to reap.
#[test]
fn child_that_cannot_be_ended_is_left_alone_and_gets_no_second_beside_it() {
    let traced = |mut control: Value| {
        control["unreapable"] = json!(true);
        control
    };
    let mut node = GpuNode::start(&traced(working()));
    node.wait_driver("running");
    node.set(&traced(hanging("nvmlDeviceGetPowerUsage")));
    node.wait_driver("unresponsive");
    if node.cluster.path("nvml.json.untraceable").exists() {
        eprintln!("skipped: this machine does not let one process trace another");
        return;
    }
    let complaint = node.wait("the agent to give up ending it", |node| {
        let complaint = node.complaint();
        complaint.ends_with(", and the call cannot be ended").then_some(complaint)
    });
    assert!(complaint.starts_with("the NVIDIA driver has not answered for "), "{complaint:?}");
    assert_eq!(node.number("gpu_probe_restarts_total"), Some(0.0));
    // Once it can be reaped, all goes on.
    node.set(&working());
    node.wait_driver("running");
    assert!(node.number("gpu_probe_restarts_total") >= Some(1.0));
}

#[test]
fn child_that_crashes_is_replaced_and_says_how_it_ended() {
    let mut node = GpuNode::start(&working());
    node.wait_driver("running");
    node.set(&call("nvmlDeviceGetPowerUsage", json!({ "crash": true })));
    node.wait_driver("failed");
    let complaint = node.complaint();
    assert!(
        complaint.starts_with("the process that asks the driver was ended by SIGABRT"),
        "{complaint:?}"
    );
    node.set(&working());
    node.wait_driver("running");
    assert_eq!(node.devices().len(), 2);
}

#[test]
fn child_does_not_outlive_an_agent_that_is_killed() {
    let mut node = GpuNode::start(&hanging("nvmlDeviceGetPowerUsage"));
    node.wait("a child", |node| (node.children().len() == 1).then_some(()));
    node.cluster.kill_agent("n1");
    crate::process::wait_for("the child to be gone", || node.children().is_empty().then_some(()));
}

#[test]
fn agent_that_is_stopped_ends_its_child_even_if_that_hangs() {
    for name in ["nvmlShutdown", "nvmlDeviceGetPowerUsage"] {
        let mut node = GpuNode::start(&hanging(name));
        node.wait("a child", |node| (node.children().len() == 1).then_some(()));
        node.cluster.agent("n1").signal(Signal::SIGTERM);
        assert_eq!(node.cluster.agent("n1").exit_code(), Some(0), "{name}");
        crate::process::wait_for("the child to be gone", || {
            node.children().is_empty().then_some(())
        });
    }
}

#[test]
fn child_that_is_killed_by_somebody_is_replaced() {
    let mut node = GpuNode::start(&working());
    node.wait_driver("running");
    let [child] = node.children()[..] else { panic!("{:?}", node.children()) };
    kill(child, Signal::SIGKILL).unwrap();
    node.wait("another child", |node| {
        node.number("gpu_probe_restarts_total").filter(|restarts| *restarts >= 1.0)
    });
    node.wait_driver("running");
}

#[test]
fn released_driver_has_no_child_until_it_is_asked_again() {
    let mut node = GpuNode::start(&working());
    node.wait_driver("running");
    let released = node.cluster.sluice(&["release-gpus"]);
    let text = released.stdout();
    assert!(text.ends_with("n1.sock: the GPUs' driver is released\n"), "{text:?}");
    assert_eq!((node.driver().as_str(), node.children()), ("released", vec![]));
    assert_eq!(node.devices().len(), 2);
    let resumed = node.cluster.sluice(&["resume-gpus"]).stdout();
    assert!(resumed.ends_with("n1.sock: the GPUs' driver is asked again\n"), "{resumed:?}");
    node.wait_driver("running");
    assert_eq!(node.children().len(), 1);
}

#[test]
fn release_ends_by_itself() {
    let mut node = GpuNode::start(&working());
    node.wait_driver("running");
    node.cluster.sluice(&["release-gpus", "--at-most", "500ms"]);
    node.wait_driver("running");
}

#[test]
fn driver_that_hangs_when_it_is_closed_is_released_all_the_same() {
    let mut node = GpuNode::start(&hanging("nvmlShutdown"));
    node.wait_driver("running");
    let released = node.cluster.sluice(&["release-gpus"]).stdout();
    assert!(released.ends_with("is released\n"), "{released:?}");
    assert_eq!((node.driver().as_str(), node.children()), ("released", vec![]));
}

#[test]
fn agent_without_gpus_has_nothing_to_release() {
    let mut cluster = crate::cluster::Setup::nodes(&[("n1", 1)]).start();
    let mut refused = cluster.sluice(&["release-gpus"]);
    assert_eq!(refused.exit_code(), Some(1));
    let text = refused.stderr();
    assert!(text.contains("this agent asks no GPU's driver"), "{text:?}");
    cluster.kill_agent("n1");
}
