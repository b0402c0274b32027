//! Tests of what is told of devices.

use sluice::wire::pb;
use sluice_core::agent::Agent;
use sluice_core::sample::{DeviceSample, NodeSample, Sampled};
use sluice_core::unit::Time;

use super::{View, devices};
use crate::health::HealthView;

fn view() -> View {
    let node = "n1".parse().unwrap();
    View { agent: Agent::new(Time(0), node, Vec::new(), Vec::new()), at: Time(0) }
}

fn check(age_ms: Option<u64>, is_present: bool, health: pb::Health, code: Option<&str>) {
    let device = DeviceSample {
        id: "sim-n1-0".to_owned(),
        kind: "nvidia-l4".to_owned(),
        resource_name: "nvidia.com/gpu".to_owned(),
        index: 0,
        is_simulated: true,
        is_present,
        parent: None,
        pci: None,
        file: None,
        memory_bytes: Some(24),
        memory_used_bytes: None,
        computing: None,
    };
    let devices_seen = Sampled { value: Some(vec![device]), age_ms, ..Sampled::default() };
    let sample = NodeSample { devices: devices_seen, ..NodeSample::default() };
    let told = devices(&sample, &view(), &HealthView::default(), 5_000, Time(0)).remove(0);
    assert_eq!(told.health(), health);
    assert_eq!(told.health_reason.map(|r| r.code).as_deref(), code);
    assert!(told.simulated);
    assert_eq!(told.source, "simulated");
}

#[test]
fn a_simulated_device_is_healthy_while_its_file_is_there() {
    check(Some(4_000), true, pb::Health::Healthy, None);
    check(Some(4_000), false, pb::Health::Unhealthy, Some("device-gone"));
}

#[test]
fn stale_report_makes_health_unknown() {
    check(Some(15_000), true, pb::Health::Healthy, None);
    check(Some(15_001), true, pb::Health::Unknown, Some("device-stale"));
    check(None, false, pb::Health::Unknown, Some("device-stale"));
}
