//! What can be wrong with a driver or a GPU short of hanging: each is told as what it is, and the others go on.

use std::path::Path;

use serde_json::{Value, json};
use sluice::wire::pb::{Device, Health};

use crate::gpu_node::GpuNode;

fn two(gpu_1: &Value) -> Value {
    json!({ "profile": "h100", "count": 2, "gpus": { "1": gpu_1 } })
}

const FIRST: &str =
    "uuid=\"GPU-00000000-0000-0000-0000-000000000000\",index=\"0\",pci_bus_id=\"0000:53:00.0\"";
const SECOND: &str =
    "uuid=\"GPU-00000001-0000-0000-0000-000000000001\",index=\"1\",pci_bus_id=\"0000:64:00.0\"";

fn healths(node: &GpuNode) -> Vec<Health> {
    node.report().report.unwrap().devices.iter().map(Device::health).collect()
}

/// Input 32: a driver that is being upgraded.
#[test]
fn driver_that_is_upgraded_is_told_and_tried_again() {
    let init = |code: u32| json!({ "profile": "h100", "count": 2, "calls": { "nvmlInit_v2": { "code": code } } });
    let mut node = GpuNode::start(&init(9));
    node.wait_driver("not_loaded");
    assert_eq!(node.complaint(), "the NVIDIA driver is not loaded");
    node.set(&init(18));
    node.wait_driver("mismatch");
    assert!(node.complaint().contains("different versions"), "{}", node.complaint());
    // Nothing is left open meanwhile but for the moment of a try.
    node.wait("no child", |node| node.children().is_empty().then_some(()));
    node.set(&json!({ "profile": "h100", "count": 2 }));
    node.wait_driver("running");
    node.wait("both GPUs to be healthy", |node| {
        (healths(node) == [Health::Healthy, Health::Healthy]).then_some(())
    });
}

#[test]
fn driver_that_refuses_for_another_reason_is_told_with_its_code() {
    let mut node =
        GpuNode::start(&json!({ "profile": "h100", "calls": { "nvmlInit_v2": { "code": 4 } } }));
    node.wait_driver("failed");
    assert_eq!(node.complaint(), "NVIDIA's library does not start: no permission (4)");
}

#[test]
fn library_that_is_not_there_is_told_with_its_path() {
    let node = GpuNode::unstarted(&json!({}));
    node.add_pci(
        "0000:53:00.0",
        &[("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x2330")],
    );
    let mut node = node.with_library(Path::new("/no/such/libnvidia-ml.so.1"));
    node.wait_driver("library_missing");
    let complaint = node.complaint();
    assert!(complaint.contains("\"/no/such/libnvidia-ml.so.1\""), "{complaint:?}");
    assert!(complaint.contains("--nvml"), "{complaint:?}");
    // The bus is looked at without it.
    assert_eq!(node.number("gpu_pci_devices"), Some(1.0));
    assert_eq!(node.devices(), []);
}

#[test]
fn gpu_that_is_lost_is_told_and_the_other_goes_on() {
    let mut node = GpuNode::start(&two(&json!({})));
    node.wait_driver("running");
    node.set(&two(&json!({ "lost": 15 })));
    node.wait("the loss", |node| {
        (node.number(&format!("gpu_answers{{{SECOND}}}"))? == 0.0).then_some(())
    });
    assert_eq!(node.number(&format!("gpu_answers{{{FIRST}}}")), Some(1.0));
    assert_eq!(node.driver(), "running");
    node.wait("one healthy GPU", |node| {
        let [first, second] = healths(node)[..] else { panic!("two devices") };
        (first == Health::Healthy && second != Health::Healthy).then_some(())
    });
    // Values of a lost GPU are not those of before.
    assert_eq!(node.number(&format!("gpu_power_watts{{{SECOND}}}")), None);
    node.set(&two(&json!({})));
    node.wait("its return", |node| {
        (node.number(&format!("gpu_answers{{{SECOND}}}"))? == 1.0).then_some(())
    });
}

/// Input 30: `Unable to determine the device handle for GPU…: Unknown Error`.
#[test]
fn gpu_without_a_handle_is_told_and_the_others_go_on() {
    let mut node = GpuNode::start(&two(&json!({})));
    node.wait_driver("running");
    node.set(&two(&json!({ "lost_handle": 999 })));
    node.wait("the loss", |node| {
        (node.number(&format!("gpu_answers{{{SECOND}}}"))? == 0.0).then_some(())
    });
    assert_eq!(node.number(&format!("gpu_answers{{{FIRST}}}")), Some(1.0));
    assert_eq!(node.devices().len(), 2);
}

#[test]
fn gpu_that_the_driver_no_longer_lists_stays_a_device_that_is_gone() {
    let mut node = GpuNode::start(&two(&json!({})));
    node.wait("two devices", |node| (node.devices().len() == 2).then_some(()));
    node.set(&json!({ "profile": "h100", "count": 1 }));
    node.wait("one to be gone", |node| {
        (healths(node).iter().filter(|health| **health == Health::Healthy).count() == 1)
            .then_some(())
    });
    assert_eq!(node.devices().len(), 2);
}

#[test]
fn value_that_is_refused_costs_only_itself() {
    let mut node = GpuNode::start(&two(&json!({ "power_usage_mw": { "code": 999 } })));
    node.wait_driver("running");
    let scraped = node.scrape();
    let value = |name: &str, of: &str| scraped.get(&format!("{name}{{{of}}}")).map(String::as_str);
    assert_eq!(value("gpu_power_watts", FIRST), Some("68.57"));
    assert_eq!(value("gpu_power_watts", SECOND), None);
    assert_eq!(value("gpu_refused_values", SECOND), Some("1"));
    assert_eq!(value("gpu_answers", SECOND), Some("1"));
    assert_eq!(value("gpu_power_limit_watts", SECOND), Some("700.0"));
}

/// Input 27: the driver asks for a reset.
#[test]
fn recovery_action_of_one_gpu_is_told() {
    let mut node = GpuNode::start(&two(&json!({})));
    node.wait_driver("running");
    node.set(&two(&json!({ "fields": { "230": 1 } })));
    node.wait("the action", |node| {
        (node.number(&format!("gpu_recovery_action{{{SECOND}}}"))? == 1.0).then_some(())
    });
    assert_eq!(node.number(&format!("gpu_recovery_action{{{FIRST}}}")), Some(0.0));
}

/// Input 29: links that are all down at first, and a card without any.
#[test]
fn links_that_are_down_are_told_and_a_card_without_links_has_no_such_series() {
    let down = json!({ "nvlinks": vec![false; 18] });
    let mut node = GpuNode::start(&two(&down));
    node.wait_driver("running");
    assert_eq!(node.number(&format!("gpu_nvlinks_up{{{SECOND}}}")), Some(0.0));
    assert_eq!(node.number(&format!("gpu_nvlinks_up{{{FIRST}}}")), Some(18.0));
    node.set(&json!({ "profile": "l4", "count": 1 }));
    node.wait("a card without links", |node| {
        let scraped = node.scrape();
        let has = |name: &str| scraped.keys().any(|series| series.starts_with(name));
        (has("gpu_info") && !has("gpu_nvlinks")).then_some(())
    });
}

/// Input 30: correctable errors that rise by the thousand.
#[test]
fn corrected_errors_and_clock_events_are_told_as_they_change() {
    let errors = |count: u64| {
        two(&json!({ "ecc": { "corrected_volatile": count }, "clock_event_reasons": 0x80 }))
    };
    let mut node = GpuNode::start(&errors(0));
    node.wait_driver("running");
    for count in [17_657, 35_314] {
        node.set(&errors(count));
        node.wait("the count", |node| {
            let told = node.scrape();
            let told = told.get(&format!("gpu_ecc_corrected_errors_total{{{SECOND}}}"))?.clone();
            (told == count.to_string()).then_some(())
        });
    }
    let brake = format!("gpu_clock_event_active{{{SECOND},reason=\"power_brake\"}}");
    assert_eq!(node.number(&brake), Some(1.0));
}

#[test]
fn gpus_on_the_bus_are_counted_whatever_the_driver_says() {
    let node = GpuNode::unstarted(
        &json!({ "profile": "h100", "calls": { "nvmlInit_v2": { "code": 9 } } }),
    );
    let gpu = [("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x2330")];
    node.add_pci("0000:53:00.0", &gpu);
    node.add_pci("0000:64:00.0", &gpu);
    node.add_pci(
        "0009:01:00.0",
        &[("vendor", "0x10de"), ("class", "0x030000"), ("device", "0x2342")],
    );
    // A switch of the same maker, and another maker's display.
    node.add_pci(
        "0000:05:00.0",
        &[("vendor", "0x10de"), ("class", "0x068000"), ("device", "0x22a3")],
    );
    node.add_pci(
        "0000:01:00.0",
        &[("vendor", "0x1a03"), ("class", "0x030000"), ("device", "0x2000")],
    );
    let root = node.root();
    let library = crate::gpu_node::library();
    let mut node = node.with_library(&library);
    node.wait_driver("not_loaded");
    assert_eq!(node.number("gpu_pci_devices"), Some(3.0));
    // One falls off.
    std::fs::remove_dir_all(root.join("sys/bus/pci/devices/0000:64:00.0")).unwrap();
    node.wait("one GPU less", |node| (node.number("gpu_pci_devices")? == 2.0).then_some(()));
}

#[test]
fn many_processes_are_all_told() {
    let process = |pid: u32| json!({ "pid": pid, "used_memory_bytes": 1 << 20 });
    let processes: Vec<Value> = (1_000_000..1_000_200).map(process).collect();
    let mut node = GpuNode::start(&two(&json!({ "processes": processes })));
    node.wait_driver("running");
    assert_eq!(node.number(&format!("gpu_processes{{{SECOND}}}")), Some(200.0));
    assert_eq!(node.number(&format!("gpu_processes{{{FIRST}}}")), Some(0.0));
}

#[test]
fn agent_that_is_started_again_while_the_driver_hangs_knows_which_gpus_there_are() {
    let mut node = GpuNode::start(&two(&json!({})));
    node.wait("both GPUs", |node| (node.devices().len() == 2).then_some(()));
    let before = node.devices();
    node.cluster.kill_agent("n1");
    let mut control = two(&json!({}));
    control["calls"]["nvmlInit_v2"]["hang"] = json!(true);
    node.set(&control);
    node.restart();
    node.wait("the GPUs of before", |node| (node.devices() == before).then_some(()));
    assert_eq!(healths(&node), [Health::Unknown, Health::Unknown]);
    node.set(&two(&json!({})));
    node.wait("both GPUs to be healthy", |node| {
        (healths(node) == [Health::Healthy, Health::Healthy]).then_some(())
    });
    assert_eq!(node.devices(), before);
}
