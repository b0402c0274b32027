//! What the kernel's log alone comes to.

use super::{Bench, pci};
use crate::health::{Action, FaultKey, Input};
use crate::protocol::{DrainNeed, Health};

const OFF_THE_BUS: &str = "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";

#[test]
fn gpu_off_the_bus_is_one_fault_however_it_is_said() {
    let mut bench = Bench::new();
    bench.xid(OFF_THE_BUS).say("NVRM: GPU 0000:d8:00.0: GPU has fallen off the bus.");
    bench.expect(Health::Unhealthy, Action::Reboot, DrainNeed::Hurry, 1);
    assert_eq!(bench.verdict().faults[0].count, 2);
    // The others of the node go on: it is for whoever looks after the node to say when it restarts.
    assert_eq!(bench.judge.device_verdict(pci("0000:b3:00.0")).health, Health::Healthy);
    assert_eq!(bench.judge.node_verdict().faults, []);
}

#[test]
fn request_for_a_reboot_is_the_nodes() {
    let mut bench = Bench::new();
    bench.xid("79, x").asks(0, 2).asks(0, 2);
    let node = bench.judge.node_verdict();
    assert_eq!(
        (node.health, node.action, node.drain),
        (Health::Unhealthy, Action::Reboot, DrainNeed::Save)
    );
    assert_eq!(node.faults.len(), 1);
    // All devices of the node have to be left, also those of which nothing was said.
    let other = bench.judge.device_verdict(pci("0000:b3:00.0"));
    assert_eq!((other.health, other.drain), (Health::Unhealthy, DrainNeed::Save));
    bench.asks(2, 0);
    assert_eq!(bench.judge.node_verdict().health, Health::Healthy);
    assert_eq!(bench.verdict().health, Health::Healthy);
}

#[test]
fn request_may_become_more_and_is_only_lifted_by_none() {
    let mut bench = Bench::new();
    bench.asks(0, 4);
    bench.expect(Health::Unhealthy, Action::DrainAndReset, DrainNeed::Save, 1);
    bench.asks(4, 1);
    bench.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
    bench.asks(1, 4);
    bench.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
    bench.asks(4, 0);
    bench.expect_healthy();
}

#[test]
fn request_that_nobody_understands_makes_the_device_unknown() {
    let mut bench = Bench::new();
    bench.xid("154, GPU recovery action changed from 0x0 (");
    bench.expect(Health::Unknown, Action::None, DrainNeed::None, 1);
    bench.asks(0, 9);
    bench.expect(Health::Unknown, Action::None, DrainNeed::None, 1);
    assert_eq!(bench.code(), Some("gpu-action-unknown"));
    bench.asks(9, 0).expect_healthy();
    // It does not hide what is known.
    bench.asks(0, 1).asks(1, 9);
    bench.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 2);
}

#[test]
fn word_of_an_nvlink_message_decides_where_no_row_does() {
    let rest = "XC0 i0 Link 09 (0x00000007 0x00000004 0x0";
    let mut bench = Bench::new();
    bench.xid(&format!("145, pid=2181, name=ray::WorkerDict, RLW_SRC_TRACK Nonfatal {rest}"));
    bench.expect(Health::Healthy, Action::None, DrainNeed::None, 1);
    bench.xid("149, NETIR_LINK_EVT  Fatal   XC0 i0 Link -1 (0x025001c6 0x00000000");
    bench.expect(Health::Unhealthy, Action::Reset, DrainNeed::Hurry, 2);
    let mut bench = Bench::new();
    bench.xid("145, RLW_SRC_TRACK ???");
    bench.expect(Health::Degraded, Action::None, DrainNeed::None, 1);
}

#[test]
fn registers_of_an_nvlink_message_are_read_by_the_drivers_layout() {
    let check = |version: Option<&str>, interrupt: u32, expected: Health| {
        let mut bench = Bench::new();
        if let Some(version) = version {
            bench.step(Input::DriverVersion(version));
        }
        bench
            .xid(&format!("145, RLW_REMAP Nonfatal XC0 i0 Link 09 ({interrupt:#010x} 0x00000040)"));
        assert_eq!(bench.verdict().health, expected, "{version:?} {interrupt:#x}");
    };
    check(Some("570.133.20"), 0x82, Health::Unhealthy);
    check(Some("580.65.06"), 0x82, Health::Healthy);
    check(Some("570.133.20"), 0x04, Health::Healthy);
    check(Some("580.65.06"), 0x04, Health::Unhealthy);
    check(None, 0x82, Health::Healthy);
}

#[test]
fn cleanup_is_attached_to_its_fault_and_alone_never_fatal() {
    let mut bench = Bench::new();
    bench.xid("149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x1 0x0)");
    for channel in 0..200 {
        bench.xid(&format!("45, pid=7, name=x, Ch {channel:08x}"));
    }
    bench.expect(Health::Unhealthy, Action::Reset, DrainNeed::Hurry, 1);
    assert_eq!(bench.judge.follow_ups(pci("0000:d8:00.0")), 200);
    let mut bench = Bench::new();
    for channel in 0..11_760 {
        bench.xid(&format!("45, pid=7, name=x, Ch {channel:08x}"));
    }
    bench.expect(Health::Healthy, Action::RestartFabricManager, DrainNeed::None, 1);
    assert_eq!(bench.verdict().faults[0].count, 11_760);
}

#[test]
fn error_of_a_program_is_told_about_its_worker_and_leaves_the_device_alone() {
    let mut bench = Bench::new();
    bench.xid("94, pid=4711, name=python3, Contained: SM (0x1). RST: No, D-RST: No");
    bench.expect(Health::Healthy, Action::None, DrainNeed::None, 1);
    assert_eq!(bench.workers, [4_711]);
    bench.xid(
        "13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on (GPC 4, TPC 0, SM 1)",
    );
    bench.xid("13, pid='<unknown>', name=<unknown>, Graphics Exception: ESR 0x524730=0x2");
    bench.xid("43, pid=4711, name=python3, Ch 00000008");
    bench.expect(Health::Healthy, Action::None, DrainNeed::None, 3);
    assert_eq!(bench.workers, [4_711, 4_711]);
}

#[test]
fn page_faults_hint_at_the_gpu_only_if_it_alone_has_them() {
    let fault = |pci: &str, pid: u32| {
        format!("NVRM: Xid (PCI:{pci}): 31, pid={pid}, name=python3, MMU Fault: ENGINE GRAPHICS")
    };
    let mut bench = Bench::new();
    bench.say(&fault("0000:d8:00", 1)).say(&fault("0000:d8:00", 2));
    bench.expect(Health::Healthy, Action::RunDiagnostics, DrainNeed::None, 1);
    let mut bench = Bench::new();
    bench.say(&fault("0000:b3:00", 3)).say(&fault("0000:d8:00", 1)).say(&fault("0000:d8:00", 2));
    bench.expect(Health::Healthy, Action::None, DrainNeed::None, 1);
}

#[test]
fn codes_of_the_table_come_to_their_class() {
    let check = |rest: &str, health: Health, action: Action, drain: DrainNeed| {
        let mut bench = Bench::new();
        bench.xid(rest);
        bench.expect(health, action, drain, 1);
    };
    check("46", Health::Unhealthy, Action::Reset, DrainNeed::Save);
    check(
        "119, pid=7, name=x, Timeout after 45s",
        Health::Unhealthy,
        Action::Reset,
        DrainNeed::Save,
    );
    check(
        "109, pid=7, name=x, CTX SWITCH TIMEOUT",
        Health::Degraded,
        Action::None,
        DrainNeed::None,
    );
    check("169, x", Health::Degraded, Action::Reset, DrainNeed::None);
    check("142, x", Health::Unhealthy, Action::ContactSupport, DrainNeed::None);
    check("63, Row Remapper", Health::Healthy, Action::None, DrainNeed::None);
    check("999, unknown future code", Health::Unknown, Action::None, DrainNeed::None);
}

#[test]
fn reset_class_with_its_cleanup_is_one_event() {
    let mut bench = Bench::new();
    bench.xid("62, pid='<unknown>', name=<unknown>, 1d1b 0000");
    for channel in 0..300 {
        bench.xid(&format!("45, pid=7, name=x, Ch {channel:08x}"));
    }
    bench.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
}

#[test]
fn warning_that_comes_again_and_again_makes_the_device_avoided() {
    let mut bench = Bench::new();
    for number in 1..5 {
        bench.xid(&format!("38, {number}"));
    }
    bench.expect(Health::Healthy, Action::None, DrainNeed::None, 1);
    bench.xid("38, 5");
    bench.expect(Health::Degraded, Action::RunDiagnostics, DrainNeed::None, 1);
    bench.now = bench.now.plus_ms(24 * 3_600_000);
    bench.step(Input::Tick);
    bench.expect_healthy();
}

#[test]
fn capability_that_is_back_ends_the_message_that_it_was_lost() {
    let mut bench = Bench::new();
    bench.xid("163, x").xid("162, x");
    let device = bench.verdict();
    assert_eq!(device.faults.len(), 1);
    assert!(device.reason().unwrap().to_string().contains("162"));
}

#[test]
fn switch_is_judged_by_its_word_and_is_the_nodes() {
    let mut bench = Bench::new();
    bench.say("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress");
    let node = bench.judge.node_verdict();
    assert_eq!((node.health, node.faults.len(), node.faults[0].count), (Health::Healthy, 1, 1));
    bench.expect_healthy();
    bench.say("nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 30 LTSSM Fault Up");
    bench.say("nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, Data {0x1}");
    assert_eq!(bench.judge.node_verdict().faults.len(), 2);
    bench.expect(Health::Unhealthy, Action::Reboot, DrainNeed::Hurry, 1);
    // Without a word the number decides.
    let mut bench = Bench::new();
    bench.say("nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 12020, something");
    bench.expect(Health::Unhealthy, Action::Reboot, DrainNeed::Hurry, 1);
}

#[test]
fn request_stands_for_codes_that_ask_and_adds_to_those_that_never_do() {
    // 95 asks: the driver says that draining first will do.
    let mut bench = Bench::new();
    bench.xid("95, Uncontained").asks(0, 4);
    bench.expect(Health::Unhealthy, Action::DrainAndReset, DrainNeed::Save, 2);
    bench.asks(4, 0);
    bench.expect_healthy();
    // 119 never asks: the table stands, and "none" does not lift it.
    let mut bench = Bench::new();
    bench.xid("119, Timeout").asks(0, 4);
    bench.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 2);
    bench.asks(4, 0);
    bench.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
    // A code that asks only with later drivers is one that never does.
    let mut bench = Bench::new();
    bench.step(Input::DriverVersion("550.90.07"));
    bench.xid("95, Uncontained").asks(0, 4).asks(4, 0);
    bench.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
}

#[test]
fn reset_and_a_word_of_somebody_end_what_they_can() {
    let mut bench = Bench::new();
    bench.say("NVRM: GPU at PCI:0000:d8:00: GPU-5fd4c08b-7a1c");
    bench.xid("119, Timeout").xid("142, x");
    bench.say("NVRM: GPU reset executed: GPU-5fd4c08b-7a1c, success: false");
    assert_eq!(bench.verdict().faults.len(), 2);
    bench.say("NVRM: GPU reset executed: GPU-5fd4c08b-7a1c, success: true");
    bench.expect(Health::Unhealthy, Action::ContactSupport, DrainNeed::None, 1);
    bench.step(Input::Cleared(pci("0000:d8:00.0")));
    bench.expect_healthy();
}

#[test]
fn unknown_code_is_forgotten_and_a_fault_is_not() {
    let mut bench = Bench::new();
    bench.xid("999, x").xid("119, x");
    bench.now = bench.now.plus_ms(30 * 24 * 3_600_000);
    bench.step(Input::Tick);
    assert_eq!(bench.verdict().faults.len(), 1);
    assert!(bench.judge.standing().iter().all(|s| s.key == FaultKey::Xid(119)));
}

/// A log that is read long after: repeats are told last, after what has cured the fault.
#[test]
fn repeats_that_are_told_after_the_cure_raise_nothing_again() {
    let mut bench = Bench::new();
    let at = bench.now.plus_ms(10);
    let lines = [
        "NVRM: Xid (PCI:0000:d8:00): 95, Uncontained",
        "NVRM: Xid (PCI:0000:d8:00): 95, Uncontained",
    ];
    let mut events = Vec::new();
    for (sequence, line) in lines.into_iter().enumerate() {
        events.extend(bench.log.take(format!("6,{sequence},1000,-;{line}").as_bytes()));
    }
    let repeats = bench.log.repeats();
    assert_eq!((events.len(), repeats.len()), (1, 1));
    bench.step(Input::Kernel { event: &events[0], at });
    bench.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
    bench.step(Input::Cleared(pci("0000:d8:00.0")));
    bench.step(Input::Kernel { event: &repeats[0], at });
    bench.expect_healthy();
}
