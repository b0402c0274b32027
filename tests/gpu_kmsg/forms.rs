//! One record, or a few, and the verdict.

use sluice::wire::pb::{Action, DrainNeed, Health};

use super::{FIRST, Log, SECOND};

#[test]
fn case_1_gpu_off_the_bus_said_twice_is_one_fault() {
    let mut log = Log::new(&[]);
    log.xid("79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.");
    log.say("NVRM: GPU ffff00:00:00.0: GPU has fallen off the bus.");
    log.settle();
    log.cluster.wait("the second message to be counted", |_| {
        (log.device(0).faults.first()?.count == 2).then_some(())
    });
    let device = log.expect(Health::Unhealthy, Action::Reboot, DrainNeed::Hurry, 1);
    let reason = device.health_reason.unwrap();
    assert_eq!((reason.code.as_str(), reason.values["xid"].as_str()), ("gpu-xid", "79"));
    assert_eq!(device.faults[0].source, "kmsg");
    assert_eq!(log.device(1).health(), Health::Healthy);
    assert_eq!(log.node_health().health(), Health::Healthy);
}

#[test]
fn case_2_three_records_that_belong_together_are_one_fault() {
    let mut log = Log::new(&[]);
    log.say("NVRM: The NVIDIA GPU ffff00:00:00.0");
    log.say("NVRM: (PCI ID: 10de:2330) installed in this system has");
    log.say("NVRM: fallen off the bus and is not responding to commands.");
    log.expect(Health::Unhealthy, Action::Reboot, DrainNeed::Hurry, 1);
}

#[test]
fn case_3_request_for_a_reboot_is_the_nodes_once() {
    let mut log = Log::new(&[]);
    log.xid("79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.");
    log.xid("154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)");
    log.settle();
    let node = log.node_health();
    assert_eq!(
        (node.health(), node.action(), node.faults.len()),
        (Health::Unhealthy, Action::Reboot, 1)
    );
    // The one of which nothing was said has to be left, too.
    let other = log.device(1);
    assert_eq!((other.health(), other.drain()), (Health::Unhealthy, DrainNeed::Save));
}

#[test]
fn case_4_request_becomes_more_and_only_none_lifts_it() {
    let mut log = Log::new(&[]);
    log.xid("154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)");
    log.expect(Health::Unhealthy, Action::DrainAndReset, DrainNeed::Save, 1);
    log.xid(
        "154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x1 (GPU Reset Required)",
    );
    log.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
    log.xid(
        "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x4 (Drain and Reset)",
    );
    log.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
    log.xid("154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x0 (None)");
    log.expect_healthy();
}

#[test]
fn case_5_request_that_is_cut_off_or_new_is_unknown() {
    let mut log = Log::new(&[]);
    log.xid("154, GPU recovery action changed from 0x0 (");
    log.expect(Health::Unknown, Action::None, DrainNeed::None, 1);
    log.xid("154, GPU recovery action changed from 0x0 (None) to 0x9 (Whatever)");
    let device = log.expect(Health::Unknown, Action::None, DrainNeed::None, 1);
    assert_eq!(device.health_reason.unwrap().code, "gpu-action-unknown");
}

#[test]
fn cases_6_and_7_word_of_an_nvlink_message_decides() {
    let rest = "XC0 i0 Link 09 (0x00000007 0x00000004 0x00000000 0x00000000 0x00000000 0x00000000";
    let mut log = Log::new(&[]);
    log.xid(&format!("145, pid=2181, name=ray::WorkerDict, RLW_SRC_TRACK Nonfatal {rest})"));
    log.expect(Health::Healthy, Action::None, DrainNeed::None, 1);
    log.xid(&format!("145, pid=2181, name=ray::WorkerDict, RLW_SRC_TRACK Nonfatal {rest}"));
    log.expect(Health::Healthy, Action::None, DrainNeed::None, 1);
    log.xid("149, NETIR_LINK_EVT  Fatal   XC0 i0 Link -1 (0x025001c6 0x00000000 0x00000000)");
    log.expect(Health::Unhealthy, Action::Reset, DrainNeed::Hurry, 2);
}

#[test]
fn case_8_registers_are_read_by_the_layout_of_the_driver() {
    for (version, interrupt, health) in [
        ("570.133.20", "0x00000082", Health::Unhealthy),
        ("580.65.06", "0x00000082", Health::Healthy),
        ("580.65.06", "0x00000004", Health::Unhealthy),
        ("570.133.20", "0x00000004", Health::Healthy),
    ] {
        let host = tempfile::tempdir().unwrap();
        for link in ["proc", "sys/block", "sys/class"] {
            let place = host.path().join(link);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(format!("/{link}"), place).unwrap();
        }
        let module = host.path().join("sys/module/nvidia");
        std::fs::create_dir_all(&module).unwrap();
        std::fs::write(module.join("version"), format!("{version}\n")).unwrap();
        let mut log = Log::new(&["--host-root", host.path().to_str().unwrap()]);
        log.xid(&format!("145, RLW_REMAP Nonfatal XC0 i0 Link 09 ({interrupt} 0x00000040 0x0)"));
        log.settle();
        assert_eq!(log.device(0).health(), health, "driver {version}, {interrupt}");
    }
}

#[test]
fn cases_11_to_13_and_17_errors_of_programs_leave_the_device_alone() {
    let mut log = Log::new(&[]);
    log.xid("94, pid=4711, name=python3, Contained: SM (0x1). RST: No, D-RST: No");
    log.xid(
        "31, pid=4711, name=python3, Ch 0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_0 faulted \
         @ 0x7f00. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
    );
    log.xid("13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on (GPC 4, TPC 0, SM 1): Out Of Range Address");
    log.xid(
        "13, pid='<unknown>', name=<unknown>, Graphics Exception: ESR 0x524730=0x2 0x524734=0x20",
    );
    log.xid("43, pid=4711, name=python3, Ch 00000008");
    let device = log.expect(Health::Healthy, Action::None, DrainNeed::None, 4);
    assert!(device.health_reason.is_none());
    // No worker has that process: nobody is told.
    assert!(log.report().workers.is_empty());
    assert_eq!(log.settle().events, 4);
    log.xid("31, pid=4712, name=python3, MMU Fault: ENGINE GRAPHICS");
    log.expect(Health::Healthy, Action::RunDiagnostics, DrainNeed::None, 4);
    log.xid("46");
    log.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 5);
}

#[test]
fn case_15_system_processor_of_the_gpu_that_hangs_needs_a_reset() {
    let mut log = Log::new(&[]);
    log.xid(
        "119, pid=7, name=python3, Timeout after 45s of waiting for RPC response from GPU0 GSP! Expected function 76 \
         (GSP_RM_CONTROL) (0x20802a02 0x4).",
    );
    log.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
    log.say(&format!("NVRM: Xid ({SECOND}): 120, GSP task timeout @ pc:0x4bd36c4, task: 1"));
    log.settle();
    assert_eq!(log.device(1).action(), Action::Reset);
}

#[test]
fn case_16_remapped_row_alone_is_a_warning() {
    let mut log = Log::new(&[]);
    log.xid("63, pid=7, name=python3, Row Remapper: New row marked for remapping, reset gpu to activate.");
    log.expect(Health::Healthy, Action::None, DrainNeed::None, 1);
}

#[test]
fn case_18_what_is_not_known_is_unknown_and_what_cannot_be_read_is_counted() {
    let mut log = Log::new(&[]);
    log.xid("999, unknown future code");
    let device = log.expect(Health::Unknown, Action::None, DrainNeed::None, 1);
    assert!(device.health_reason.unwrap().message.contains("unknown future code"));
    let before = log.settle();
    log.xid("abc, x");
    log.say("NVRM: Xid : 79, x");
    log.xid("");
    log.say(&format!("NVRM: Xid ({}", "9".repeat(8_192)));
    let header = log.record(6, "NVRM: Xid \u{0}");
    log.append(&[header.trim_end().as_bytes(), b"\xff\xfe\x80\n"].concat());
    log.append(b"no record\n\n");
    log.say("NVRM: a last one");
    let after = log.settle();
    assert_eq!((after.unparsed - before.unparsed, after.malformed - before.malformed), (5, 2));
    assert_eq!(after.events, before.events);
}

#[test]
fn cases_19_and_20_switch_is_judged_by_its_word_and_is_the_nodes() {
    let mut log = Log::new(&[]);
    let switch = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028,";
    log.say(&format!("{switch} Non-fatal, Link 32 egress non-posted PRIV error (First)"));
    log.say(&format!("{switch} Severity 0 Engine instance 32 Sub-engine instance 00"));
    log.say(&format!("{switch} Data {{0x00000000, 0x00000000}}"));
    log.expect_healthy();
    let node = log.node_health();
    assert_eq!((node.health(), node.faults.len(), node.faults[0].count), (Health::Healthy, 1, 1));
    log.say("nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 30 LTSSM Fault Up");
    log.say("nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, Data {0x50610002, 0x10100030}");
    log.expect(Health::Unhealthy, Action::Reboot, DrainNeed::Hurry, 1);
    assert_eq!(log.device(1).drain(), DrainNeed::Hurry);
}

#[test]
fn case_23_message_in_a_process_name_is_no_message() {
    let mut log = Log::new(&[]);
    log.xid(&format!("43, pid=7, name=NVRM: Xid ({SECOND}): 79, x, Ch 8"));
    log.say(&format!("python3[7]: NVRM: Xid ({SECOND}): 79, x"));
    log.expect(Health::Healthy, Action::None, DrainNeed::None, 1);
    assert_eq!(log.device(1).faults, []);
}

#[test]
fn case_24_only_the_kernel_is_believed_unless_the_agent_is_told_otherwise() {
    let message = format!("NVRM: Xid ({FIRST}): 79, x");
    let mut log = Log::new(&[]);
    let record = log.record(14, &message);
    log.append(record.as_bytes());
    log.say("usb 1-1: new device");
    log.expect_healthy();
    assert_eq!(log.counters().foreign, 1);
    let mut log = Log::new(&["--kmsg-any-facility"]);
    let record = log.record(14, &message);
    log.append(record.as_bytes());
    log.expect(Health::Unhealthy, Action::Reboot, DrainNeed::Hurry, 1);
}

#[test]
fn case_31_task_that_hangs_is_a_hint_and_no_verdict() {
    let mut log = Log::new(&[]);
    log.say("INFO: task agent:4242 blocked for more than 120 seconds.");
    log.say("task:agent           state:D stack:0     pid:4242  tgid:4242");
    log.say(" [<ffffffffc0a1b2c3>] rm_ioctl+0x63/0xb0 [nvidia]");
    log.expect_healthy();
}
