//! What the agent says of GPUs by what their driver tells, through the real agent and its real child: inputs whose
//! right answer is known, most of them from complaints about other tools.

use serde_json::{Value, json};
use sluice::wire::pb::{Action, Device, Health};

use crate::gpu_node::{GpuNode, PROFILES};

/// The second of two GPUs is changed.
fn two(gpu_1: &Value) -> Value {
    json!({ "profile": "h100", "count": 2, "gpus": { "1": gpu_1 } })
}

fn devices(node: &GpuNode) -> Vec<Device> {
    node.report().report.unwrap().devices
}

/// Health and code of the reason of each device.
fn verdicts(node: &GpuNode) -> Vec<(Health, String)> {
    let verdict = |device: Device| {
        let code = device.health_reason.as_ref().map(|reason| reason.code.clone());
        (device.health(), code.unwrap_or_default())
    };
    devices(node).into_iter().map(verdict).collect()
}

fn healthy() -> (Health, String) {
    (Health::Healthy, String::new())
}

fn because(health: Health, code: &str) -> (Health, String) {
    (health, code.to_owned())
}

fn wait_verdicts(node: &mut GpuNode, expected: &[(Health, String)]) {
    node.wait(&format!("{expected:?}"), |node| (verdicts(node) == expected).then_some(()));
}

/// Waits until the driver was asked so many times more: the age of its answer falls each time.
fn wait_looks(node: &mut GpuNode, looks: usize) {
    let (mut before, mut seen) = (0, 0);
    node.wait(&format!("{looks} looks"), |node| {
        let age_ms = devices(node).first()?.age_ms?;
        seen += usize::from(age_ms < before);
        before = age_ms;
        (seen >= looks).then_some(())
    });
}

/// Input 27: the driver asks for a reset while nothing else is to be seen.
#[test]
fn gpu_whose_driver_asks_for_a_reset_is_unhealthy_until_it_asks_no_more() {
    let mut node = GpuNode::start(&two(&json!({})));
    wait_verdicts(&mut node, &[healthy(), healthy()]);
    node.set(&two(&json!({ "fields": { "230": 1 } })));
    wait_verdicts(&mut node, &[healthy(), because(Health::Unhealthy, "gpu-action-asked")]);
    assert_eq!(devices(&node)[1].action(), Action::Reset);
    assert_eq!(devices(&node)[0].action(), Action::None);
    node.set(&two(&json!({})));
    wait_verdicts(&mut node, &[healthy(), healthy()]);
}

/// Input 28: sound machines with what looks odd: 150 replays that stay 150, eight lanes of sixteen, no persistence, no
/// remapped rows, no temperature of the memory.
#[test]
fn sound_gpus_of_all_products_are_healthy() {
    for (name, _) in PROFILES {
        let mut node = GpuNode::start(&json!({ "profile": name }));
        node.wait_driver("running");
        wait_looks(&mut node, 5);
        node.wait(name, |node| {
            let all = verdicts(node);
            (!all.is_empty() && all.iter().all(|verdict| *verdict == healthy())).then_some(())
        });
        assert!(devices(&node).iter().all(|device| device.faults.is_empty()), "{name}");
    }
}

/// Input 29: links come up after a boot; one that was up and is down is another matter.
#[test]
fn links_that_were_never_up_are_no_fault_and_links_that_went_down_are() {
    let links = |up: bool| two(&json!({ "nvlinks": vec![up; 18] }));
    let mut node = GpuNode::start(&links(false));
    node.wait_driver("running");
    wait_looks(&mut node, 5);
    wait_verdicts(&mut node, &[healthy(), healthy()]);
    node.set(&links(true));
    wait_looks(&mut node, 2);
    node.set(&links(false));
    wait_verdicts(&mut node, &[healthy(), because(Health::Degraded, "gpu-links-down")]);
    node.set(&links(true));
    wait_verdicts(&mut node, &[healthy(), healthy()]);
}

/// Input 30, first part: a storm of corrected errors without a single uncorrected one.
#[test]
fn storm_of_corrected_errors_degrades_a_gpu() {
    let mut node = GpuNode::start(&two(&json!({})));
    wait_verdicts(&mut node, &[healthy(), healthy()]);
    let mut errors = 0_u64;
    node.wait("the storm to be told", |node| {
        errors += 17_657;
        node.set(&two(&json!({ "ecc": { "corrected_volatile": errors } })));
        let expected = [healthy(), because(Health::Degraded, "gpu-ecc-rate")];
        (verdicts(node) == expected).then_some(())
    });
    // It is over: a high sum alone is no fault.
    wait_verdicts(&mut node, &[healthy(), healthy()]);
}

/// Input 30, second part: one GPU of which the driver gives no handle.
#[test]
fn gpu_without_a_handle_is_unknown_and_the_other_healthy() {
    let mut node = GpuNode::start(&two(&json!({})));
    wait_verdicts(&mut node, &[healthy(), healthy()]);
    node.set(&two(&json!({ "lost_handle": 999 })));
    node.wait("one unknown GPU", |node| {
        let [first, second] = &verdicts(node)[..] else { panic!("two devices") };
        (*first == healthy() && second.0 != Health::Healthy).then_some(())
    });
}

/// Input 30, third part: a power cap is ordinary, a power brake is not.
#[test]
fn power_cap_is_healthy_and_power_brake_degrades() {
    let reasons = |bits: u64| two(&json!({ "clock_event_reasons": bits }));
    let mut node = GpuNode::start(&reasons(0x4));
    node.wait_driver("running");
    wait_looks(&mut node, 5);
    wait_verdicts(&mut node, &[healthy(), healthy()]);
    node.set(&reasons(0x80));
    wait_verdicts(&mut node, &[healthy(), because(Health::Degraded, "gpu-throttled")]);
    node.set(&reasons(0x4));
    wait_verdicts(&mut node, &[healthy(), healthy()]);
}

/// Input 32: an upgrade of the driver, with the agent out of its way.
#[test]
fn upgrade_of_the_driver_is_maintenance_and_drains_nobody() {
    let mut node = GpuNode::start(&two(&json!({})));
    wait_verdicts(&mut node, &[healthy(), healthy()]);
    node.cluster.sluice(&["release-gpus"]);
    let maintenance = because(Health::Unknown, "driver-maintenance");
    wait_verdicts(&mut node, &[maintenance.clone(), maintenance.clone()]);
    for code in [9, 18] {
        let mut control = two(&json!({}));
        control["calls"]["nvmlInit_v2"]["code"] = json!(code);
        node.set(&control);
        node.cluster.sluice(&["resume-gpus"]);
        node.wait_driver(if code == 9 { "not_loaded" } else { "mismatch" });
        wait_verdicts(&mut node, &[maintenance.clone(), maintenance.clone()]);
    }
    assert!(devices(&node).iter().all(|device| device.action() == Action::None));
    node.set(&two(&json!({})));
    wait_verdicts(&mut node, &[healthy(), healthy()]);
}

/// A driver that hangs says nothing bad about its GPUs.
#[test]
fn gpus_of_a_driver_that_hangs_are_unknown() {
    let mut node = GpuNode::start(&two(&json!({})));
    wait_verdicts(&mut node, &[healthy(), healthy()]);
    let mut control = two(&json!({}));
    control["calls"]["nvmlDeviceGetCount_v2"] = json!({ "hang": true });
    node.set(&control);
    let hangs = because(Health::Unknown, "driver-unresponsive");
    wait_verdicts(&mut node, &[hangs.clone(), hangs]);
    assert!(devices(&node).iter().all(|device| device.action() == Action::None));
    node.set(&two(&json!({})));
    wait_verdicts(&mut node, &[healthy(), healthy()]);
}

/// Input 16, the driver's part: rows of memory that wait for a reset, or could not be replaced.
#[test]
fn memory_that_waits_for_a_reset_degrades_and_memory_beyond_repair_is_unhealthy() {
    let rows =
        |pending: u32, failed: u32| two(&json!({ "remapped_rows": [0, 4, pending, failed] }));
    let mut node = GpuNode::start(&rows(1, 0));
    wait_verdicts(&mut node, &[healthy(), because(Health::Degraded, "gpu-rows-pending")]);
    assert_eq!(devices(&node)[1].action(), Action::DrainAndReset);
    node.set(&rows(1, 1));
    wait_verdicts(&mut node, &[healthy(), because(Health::Unhealthy, "gpu-rows-failed")]);
    assert_eq!(devices(&node)[1].action(), Action::Replace);
}
