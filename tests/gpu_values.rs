//! Every value of every product that the fake driver knows, from the driver's call to the series that is scraped: what
//! the profile has is told, in base units, and what it has not has no series.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::gpu_node::{GpuNode, PROFILES};

/// Metrics that are a profile's value, and how many of the profile's unit are one of the metric's.
const PLAIN: [(&str, &str, f64); 28] = [
    ("gpu_memory_bytes", "/memory/total", 1.0),
    ("gpu_memory_reserved_bytes", "/memory/reserved", 1.0),
    ("gpu_memory_used_bytes", "/memory/used", 1.0),
    ("gpu_utilization_ratio", "/utilization/gpu", 1e2),
    ("gpu_memory_utilization_ratio", "/utilization/memory", 1e2),
    ("gpu_power_watts", "/power_usage_mw", 1e3),
    ("gpu_power_limit_watts", "/power_limit_mw", 1e3),
    ("gpu_temperature_celsius", "/temperature_celsius", 1.0),
    ("gpu_memory_temperature_celsius", "/fields/82", 1.0),
    ("gpu_temperature_margin_celsius", "/margin_celsius", 1.0),
    ("gpu_sm_clock_hertz", "/sm_mhz", 1e-6),
    ("gpu_sm_clock_max_hertz", "/sm_max_mhz", 1e-6),
    ("gpu_memory_clock_hertz", "/memory_mhz", 1e-6),
    ("gpu_ecc_corrected_errors_total", "/ecc/corrected_volatile", 1.0),
    ("gpu_ecc_uncorrected_errors_total", "/ecc/uncorrected_volatile", 1.0),
    ("gpu_ecc_corrected_errors_lifetime_total", "/ecc/corrected_aggregate", 1.0),
    ("gpu_ecc_uncorrected_errors_lifetime_total", "/ecc/uncorrected_aggregate", 1.0),
    ("gpu_row_remap_pending", "/remapped_rows/2", 1.0),
    ("gpu_row_remap_failed", "/remapped_rows/3", 1.0),
    ("gpu_retired_pages_pending", "/fields/31", 1.0),
    ("gpu_pcie_generation", "/pcie_generation", 1.0),
    ("gpu_pcie_generation_max", "/pcie_generation_max", 1.0),
    ("gpu_pcie_lanes", "/pcie_width", 1.0),
    ("gpu_pcie_lanes_max", "/pcie_width_max", 1.0),
    ("gpu_pcie_replays_total", "/pcie_replays", 1.0),
    ("gpu_recovery_action", "/fields/230", 1.0),
    ("gpu_fabric_state", "/fabric/state", 1.0),
    ("gpu_fabric_status", "/fabric/status", 1.0),
];

/// Switches.
const FLAGS: [(&str, &str); 3] = [
    ("gpu_persistence_mode", "/persistent"),
    ("gpu_mig_enabled", "/mig_enabled"),
    ("gpu_sram_threshold_exceeded", "/sram_ecc/is_threshold_exceeded"),
];

/// Those with one label more.
const LABELLED: [(&str, &str, &str); 4] = [
    ("gpu_remapped_rows", "cause=\"corrected\"", "/remapped_rows/0"),
    ("gpu_remapped_rows", "cause=\"uncorrected\"", "/remapped_rows/1"),
    ("gpu_retired_pages", "cause=\"single_bit\"", "/fields/29"),
    ("gpu_retired_pages", "cause=\"double_bit\"", "/fields/30"),
];

/// NVML's word for why clocks are low.
const CLOCK_EVENTS: [(&str, u64); 9] = [
    ("idle", 0x1),
    ("application_clocks", 0x2),
    ("power_cap", 0x4),
    ("hardware_slowdown", 0x8),
    ("sync_boost", 0x10),
    ("software_thermal", 0x20),
    ("hardware_thermal", 0x40),
    ("power_brake", 0x80),
    ("display_clocks", 0x100),
];

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_bool().map(|flag| f64::from(u8::from(flag))))
}

/// The series of the first GPU that a profile has to lead to.
fn expected(profile: &Value) -> BTreeMap<String, f64> {
    let gpu = &profile["gpu"];
    let pci = profile["pci"][0].as_str().unwrap().to_lowercase();
    let pci = pci.strip_prefix("0000").unwrap();
    let uuid = "GPU-00000000-0000-0000-0000-000000000000";
    let labels = format!("uuid=\"{uuid}\",index=\"0\",pci_bus_id=\"{pci}\"");
    let at = |path: &str| gpu.pointer(path).and_then(number);
    let mut series = BTreeMap::new();
    let mut tell = |name: &str, more: &str, value: Option<f64>| {
        let comma = if more.is_empty() { "" } else { "," };
        value.map(|value| series.insert(format!("{name}{{{labels}{comma}{more}}}"), value));
    };
    for (name, path, per) in PLAIN {
        tell(name, "", at(path).map(|value| value / per));
    }
    for (name, path) in FLAGS {
        tell(name, "", at(path));
    }
    for (name, label, path) in LABELLED {
        tell(name, label, at(path));
    }
    let reasons = gpu["clock_event_reasons"].as_u64().unwrap();
    for (reason, bit) in CLOCK_EVENTS {
        let is_active = f64::from(u8::from(reasons & bit != 0));
        tell("gpu_clock_event_active", &format!("reason=\"{reason}\""), Some(is_active));
    }
    if let Some(links) = gpu["nvlinks"].as_array() {
        let count = |links: usize| Some(f64::from(u32::try_from(links).unwrap()));
        tell("gpu_nvlinks", "", count(links.len()));
        tell("gpu_nvlinks_up", "", count(links.iter().filter(|link| **link == true).count()));
    }
    let name = gpu["name"].as_str().unwrap();
    tell("gpu_info", &format!("name=\"{name}\",minor=\"0\""), Some(1.0));
    tell("gpu_answers", "", Some(1.0));
    tell("gpu_refused_values", "", Some(0.0));
    tell("gpu_processes", "", Some(0.0));
    series
}

/// Nearly the same: powers of ten that are divided by are not exact.
fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= a.abs() * 1e-9
}

fn check(name: &str, profile: &str) {
    let profile: Value = serde_json::from_str(profile).unwrap();
    assert!(profile["source"].is_string() && profile["as_of"].is_string(), "{name}");
    let mut node = GpuNode::start(&json!({ "profile": name }));
    node.wait_driver("running");
    let told: BTreeMap<String, f64> = node
        .scrape()
        .into_iter()
        .filter(|(series, _)| series.starts_with("gpu_") && series.contains("uuid=\"GPU-00000000-"))
        .map(|(series, value)| (series, value.parse().unwrap()))
        .filter(|(series, _): &(String, f64)| !series.starts_with("gpu_mig_memory"))
        .collect();
    let expected = expected(&profile);
    let keys = |map: &BTreeMap<String, f64>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&told), keys(&expected), "{name}");
    for (series, value) in &told {
        assert!(is_near(*value, expected[series]), "{name}: {series} is {value}");
    }
    let count = profile["pci"].as_array().unwrap().len();
    let gpus = node.scrape().keys().filter(|series| series.starts_with("gpu_info{")).count();
    assert_eq!(gpus, count, "{name}");
    node.wait(name, |node| node.complaint().is_empty().then_some(()));
}

#[test]
fn every_value_of_every_product_is_told_and_nothing_else() {
    for (name, profile) in PROFILES {
        check(name, profile);
    }
}

#[test]
fn devices_have_the_kinds_of_the_data_file() {
    let kinds = [
        ("h100", "nvidia-h100"),
        ("h200", "nvidia-h200"),
        ("a100", "nvidia-a100"),
        ("l4", "nvidia-l4"),
        ("t4", "nvidia-t4"),
        ("b200", "nvidia-b200"),
    ];
    let mut node = GpuNode::start(&json!({ "profile": "h100", "count": 1 }));
    for (profile, kind) in kinds {
        let control =
            json!({ "profile": profile, "count": 1, "gpus": { "0": { "uuid": profile } } });
        node.add_bus(&control);
        node.set(&control);
        node.wait(kind, |node| {
            node.devices().contains(&(profile.to_owned(), kind.to_owned())).then_some(())
        });
    }
    let name = "NVIDIA RTX 6000 Ada Generation";
    node.set(
        &json!({ "profile": "l4", "count": 1, "gpus": { "0": { "uuid": "x", "name": name } } }),
    );
    node.wait("a kind made of the name", |node| {
        let kind = "nvidia-rtx-6000-ada-generation".to_owned();
        node.devices().contains(&("x".to_owned(), kind)).then_some(())
    });
}

#[test]
fn parts_of_a_split_gpu_are_devices_and_the_gpu_is_none() {
    let mut node = GpuNode::start(&json!({ "profile": "h100-mig" }));
    node.wait_driver("running");
    let report = node.report().report.unwrap();
    let devices: Vec<(&str, &str, &str, Option<u64>)> =
        report.devices.iter().map(|d| (&*d.id, &*d.kind, &*d.resource, d.memory_bytes)).collect();
    let mib = |mib: u64| Some(mib << 20);
    assert_eq!(
        devices,
        [
            (
                "MIG-00000000-0000-0000-0000-000000000000",
                "nvidia-h100",
                "nvidia.com/mig-3g.40gb",
                mib(40_448)
            ),
            (
                "MIG-00000000-0000-0000-0000-000000000001",
                "nvidia-h100",
                "nvidia.com/mig-2g.20gb",
                mib(19_968)
            ),
            (
                "MIG-00000000-0000-0000-0000-000000000003",
                "nvidia-h100",
                "nvidia.com/mig-1g.10gb",
                mib(9_728)
            ),
        ]
    );
    // Without the split the GPU itself is the device.
    node.set(&json!({ "profile": "h100", "count": 1 }));
    node.wait("the whole GPU", |node| {
        let ids: Vec<String> = node.devices().into_iter().map(|(id, _)| id).collect();
        (ids == ["GPU-00000000-0000-0000-0000-000000000000"]).then_some(())
    });
}

#[test]
fn gpu_of_an_old_driver_tells_what_it_can() {
    // Drivers before 565 do not know field 230; old ones know fabric information of version 2 only.
    let mut node = GpuNode::start(&json!({
        "profile": "h100", "count": 1, "fabric_version_max": 2,
        "gpus": { "0": { "fields": { "230": { "code": 2 } } } },
    }));
    node.wait_driver("running");
    let scraped = node.scrape();
    let has = |name: &str| scraped.keys().any(|series| series.starts_with(name));
    assert!(!has("gpu_recovery_action"));
    assert!(has("gpu_fabric_state"));
    assert!(scraped.iter().any(|(s, v)| s.starts_with("gpu_refused_values") && v == "0"));
}
