//! What looks at the driver and the bus come to.

use super::{Bench, pci};
use crate::health::Action;
use crate::protocol::{DrainNeed, Health};
use crate::sample::{DriverState, GpuFabric, NvLinkSample, RemappedRows};

fn links(active: u32, all: u32) -> Vec<NvLinkSample> {
    (0..all).map(|link| NvLinkSample { link, is_active: link < active }).collect()
}

#[test]
fn request_that_the_driver_tells_when_asked_goes_before_everything() {
    let mut bench = Bench::new().with_gpus();
    bench.xid("120, GSP task timeout").look();
    bench.gpu().recovery_action = Some(1);
    bench.looks(3);
    bench.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 2);
    assert_eq!((bench.code(), bench.verdict().faults[0].count), (Some("gpu-action-asked"), 1));
    bench.gpu().recovery_action = Some(0);
    bench.look().expect_healthy();
    // A look that was begun before the driver printed its request does not lift it.
    bench.asks(0, 1);
    bench.sample.gpus_age_ms = Some(4_999);
    bench.look();
    bench.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
    bench.sample.gpus_age_ms = Some(0);
    bench.look().expect_healthy();
    bench.gpu().recovery_action = Some(77);
    bench.look();
    bench.expect(Health::Unknown, Action::None, DrainNeed::None, 1);
}

#[test]
fn rows_decide_about_remapping() {
    let mut bench = Bench::new().with_gpus();
    bench.xid("63, Row Remapper: New row marked for remapping, reset gpu to activate.");
    let rows = RemappedRows { corrected: 0, uncorrected: 4, is_pending: true, has_failed: false };
    bench.gpu().rows = Some(rows);
    bench.look();
    // At convenience: avoided, nobody is drained.
    bench.expect(Health::Degraded, Action::DrainAndReset, DrainNeed::None, 2);
    bench.gpu().rows = Some(RemappedRows { has_failed: true, ..rows });
    bench.look();
    bench.expect(Health::Unhealthy, Action::Replace, DrainNeed::Save, 3);
}

#[test]
fn what_sound_machines_show_is_no_fault() {
    let mut bench = Bench::new().with_gpus();
    let gpu = bench.gpu();
    gpu.pcie.replays = Some(150);
    gpu.pcie.width = Some(8);
    gpu.pcie.width_max = Some(16);
    gpu.is_persistent = Some(false);
    gpu.clocks.event_reasons = Some(0x4);
    gpu.ecc.corrected_volatile = Some(17);
    gpu.nvlinks = links(0, 18);
    gpu.recovery_action = Some(0);
    gpu.fabric = Some(GpuFabric { state: 0, status: 0, health_mask: None });
    bench.looks(100).expect_healthy();
}

#[test]
fn links_that_are_not_up_yet_or_never_are_no_fault_and_lost_ones_are_after_three_looks() {
    let mut bench = Bench::new().with_gpus();
    bench.gpu().nvlinks = links(0, 18);
    bench.look().expect_healthy();
    bench.gpu().nvlinks = links(18, 18);
    bench.looks(3).expect_healthy();
    bench.gpu().nvlinks = links(17, 18);
    bench.looks(2).expect_healthy();
    bench.look();
    bench.expect(Health::Degraded, Action::RunDiagnostics, DrainNeed::None, 1);
    bench.gpu().nvlinks = links(18, 18);
    bench.looks(2);
    assert_eq!(bench.code(), Some("gpu-links-down"));
    bench.look().expect_healthy();
}

#[test]
fn rate_of_corrected_errors_degrades_and_their_sum_does_not() {
    let mut bench = Bench::new().with_gpus();
    let mut sum = 1_000_000_000;
    for _ in 0..4 {
        sum += 17_657 * 5;
        bench.gpu().ecc.corrected_volatile = Some(sum);
        bench.look();
    }
    bench.expect(Health::Degraded, Action::RunDiagnostics, DrainNeed::None, 1);
    assert!(bench.verdict().reason().unwrap().to_string().starts_with("17657 errors"));
    // The driver is loaded again: the counter falls back.
    bench.gpu().ecc.corrected_volatile = Some(0);
    bench.looks(3).expect_healthy();
}

#[test]
fn hardware_that_protects_itself_counts_when_it_lasts() {
    let mut bench = Bench::new().with_gpus();
    bench.gpu().clocks.event_reasons = Some(0x40);
    bench.look().expect_healthy();
    bench.gpu().clocks.event_reasons = Some(0);
    bench.look();
    bench.gpu().clocks.event_reasons = Some(0x80);
    bench.looks(3);
    bench.expect(Health::Degraded, Action::None, DrainNeed::None, 1);
}

#[test]
fn rate_of_replays_degrades_and_their_sum_does_not() {
    let mut bench = Bench::new().with_gpus();
    bench.gpu().pcie.generation_max = Some(5);
    bench.gpu().pcie.width = Some(16);
    for look in 0..30 {
        bench.gpu().pcie.replays = Some(150 + look * 100);
        bench.look();
    }
    assert_eq!(bench.code(), Some("gpu-pcie-replays"));
    bench.looks(25).expect_healthy();
}

#[test]
fn lanes_count_under_load_only() {
    let mut bench = Bench::new().with_gpus();
    bench.gpu().pcie.width = Some(16);
    bench.look();
    bench.gpu().pcie.width = Some(8);
    bench.looks(10).expect_healthy();
    bench.gpu().busy_percent = Some(90);
    bench.looks(3);
    assert_eq!(bench.code(), Some("gpu-pcie-width"));
}

#[test]
fn one_gpu_that_is_refused_is_that_gpus_and_all_at_once_are_the_drivers() {
    let mut bench = Bench::new().with_gpus();
    bench.gpu().lost = Some(999);
    bench.look();
    assert_eq!(bench.verdict().health, Health::Unknown);
    bench.looks(2);
    bench.expect(Health::Unknown, Action::None, DrainNeed::None, 1);
    assert_eq!(bench.judge.device_verdict(pci("0000:b3:00.0")).health, Health::Healthy);
    assert_eq!(bench.judge.node_verdict().faults, []);
    bench.sample.gpus[0].lost = Some(999);
    bench.look();
    let node = bench.judge.node_verdict();
    assert_eq!(
        (node.health, node.reason().unwrap().code()),
        (Health::Unknown, "driver-unavailable")
    );
    let mut bench = Bench::new().with_gpus();
    bench.gpu().lost = Some(15);
    bench.look();
    bench.expect(Health::Unhealthy, Action::Reboot, DrainNeed::Hurry, 1);
}

#[test]
fn driver_that_hangs_is_a_verdict_of_its_own_and_drains_nobody() {
    let mut bench = Bench::new().with_gpus();
    bench.look();
    bench.sample.missed_looks = 2;
    bench.look().expect_healthy();
    bench.sample.missed_looks = 3;
    bench.look();
    assert_eq!((bench.verdict().health, bench.code()), (Health::Unknown, Some("driver-stale")));
    bench.say("INFO: task agent:4242 blocked for more than 120 seconds.");
    bench.sample.driver = DriverState::Unresponsive { since_ms: 130_000, is_stuck_in_kernel: true };
    bench.look();
    bench.expect(Health::Unknown, Action::None, DrainNeed::None, 1);
    assert_eq!(bench.code(), Some("driver-unresponsive"));
    assert!(bench.verdict().reason().unwrap().to_string().contains("task agent (4242)"));
    // What is known to be wrong stays known.
    bench.xid("119, x");
    assert_eq!(bench.verdict().health, Health::Unhealthy);
}

#[test]
fn upgrade_of_the_driver_is_maintenance_and_drains_nobody() {
    let mut bench = Bench::new().with_gpus();
    bench.look();
    let running = bench.sample.driver.clone();
    for driver in [DriverState::NotLoaded, DriverState::Mismatch] {
        bench.sample.driver = driver;
        bench.looks(30);
        bench.expect(Health::Unknown, Action::None, DrainNeed::None, 1);
        assert_eq!(bench.code(), Some("driver-maintenance"));
    }
    bench.sample.driver = running;
    bench.look().expect_healthy();
}

#[test]
fn gpus_of_the_bus_and_of_the_driver_are_compared() {
    let mut bench = Bench::new().with_gpus();
    bench.look();
    let gone = bench.sample.gpus.remove(1);
    // While the node joins the driver may still be starting them.
    bench.looks(10).expect_healthy();
    bench.looks(60);
    bench.expect(Health::Unhealthy, Action::ContactSupport, DrainNeed::None, 1);
    assert_eq!(bench.code(), Some("gpu-not-listed"));
    bench.sample.gpus.push(gone);
    bench.looks(3).expect_healthy();
    // Of one that answers it is the bus that was not read well.
    bench.sample.pci.as_mut().unwrap().remove(1);
    bench.looks(5).expect_healthy();
    bench.sample.gpus.remove(1);
    bench.looks(3);
    assert_eq!((bench.code(), bench.verdict().drain), (Some("gpu-not-on-bus"), DrainNeed::Save));
    // A GPU that was given to a virtual machine is nobody's fault.
    let mut bench = Bench::new().with_gpus();
    bench.sample.gpus.remove(1);
    bench.sample.pci.as_mut().unwrap()[1].driver = Some("vfio-pci".to_owned());
    bench.looks(100).expect_healthy();
}

#[test]
fn fabric_has_five_minutes_to_come_up() {
    let mut bench = Bench::new().with_gpus();
    bench.gpu().fabric = Some(GpuFabric { state: 2, status: 0, health_mask: None });
    bench.looks(60).expect_healthy();
    bench.looks(4);
    bench.expect(Health::Unhealthy, Action::RestartFabricManager, DrainNeed::None, 1);
    bench.gpu().fabric = Some(GpuFabric { state: 3, status: 0, health_mask: Some(0x1aa) });
    bench.looks(3).expect_healthy();
    bench.gpu().fabric = Some(GpuFabric { state: 3, status: 0, health_mask: Some(0x1a9) });
    bench.looks(3);
    assert_eq!(bench.verdict().health, Health::Degraded);
}

#[test]
fn uncorrected_errors_degrade_when_they_come_and_old_ones_do_not() {
    let mut bench = Bench::new().with_gpus();
    bench.gpu().ecc.uncorrected_volatile = Some(7);
    bench.look().expect_healthy();
    bench.gpu().ecc.uncorrected_volatile = Some(8);
    bench.look();
    assert_eq!(
        (bench.verdict().health, bench.code()),
        (Health::Degraded, Some("gpu-ecc-uncorrected"))
    );
}
