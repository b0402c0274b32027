//! From a fault to the drain it causes: exactly the gang on the device, saved, and the device is left alone until it is
//! in order again. The faults are injected into simulated devices, as in a fire drill.

use sluice::wire::pb;
use sluice::wire::pb::{DrainState, Health, Phase};

use crate::cluster::{Cluster, Setup};
use crate::trainer::Training;

pub(crate) fn inject(cluster: &Cluster, arguments: &[&str]) {
    let mut all = vec!["inject-fault"];
    all.extend(arguments);
    let mut drill = cluster.sluice(&all);
    assert_eq!(drill.exit_code(), Some(0), "{}", drill.tail());
}

/// The only device of a worker's gang.
fn device_of(cluster: &Cluster, name: &str) -> (String, String) {
    let workload = cluster.workload(name).unwrap();
    let assignment = workload.members[0].assignment.clone().expect("it is admitted");
    (assignment.node, assignment.devices[0].clone())
}

fn health_of(cluster: &Cluster, node: &str, device: &str) -> Option<pb::Device> {
    let report = cluster.node(node)?.report?;
    report.devices.into_iter().find(|known| known.id == device)
}

pub(crate) fn drills() -> Setup {
    let mut setup = Setup::nodes(&[("n1", 2)]);
    setup.agent_flags =
        ["--allow-fault-injection", "--kmsg-path", "off"].map(str::to_owned).to_vec();
    setup
}

#[test]
fn device_that_needs_a_reset_drains_exactly_its_gang_and_is_left_alone_until_cleared() {
    let mut cluster = drills().start();
    let failing = Training::new("failing").start(&mut cluster);
    let bystander = Training::new("bystander").start(&mut cluster);
    cluster.wait_measured("failing");
    cluster.wait_measured("bystander");
    let (node, device) = device_of(&cluster, "failing");
    inject(&cluster, &["recovery-action", "1", "--device", &device]);
    let drain = cluster.wait_drain("failing", DrainState::Freed);
    let cause = drain.cause.clone().unwrap();
    assert_eq!(cause.code, "device-fault");
    assert_eq!(cause.values["device"], device);
    assert_eq!(cause.values["fault"], "gpu-action-asked");
    assert_eq!(cause.values["action"], "reset");
    assert_eq!(drain.beneficiary, "");
    assert!(drain.saved.is_some(), "nothing was saved: {drain:?}");
    // It waits although its device is free: the other one is in use, and this one needs a reset.
    cluster.wait("the drained gang to wait for another place", |cluster| {
        let workload = cluster.workload("failing")?;
        let code = workload.reason.as_ref()?.code.clone();
        let waits = ["resume-elsewhere", "restart-elsewhere", "waiting-for-devices"];
        (workload.phase() == Phase::Pending && waits.contains(&code.as_str())).then_some(())
    });
    let told = health_of(&cluster, &node, &device).unwrap();
    assert_eq!(told.health(), Health::Unhealthy);
    assert_eq!(told.action(), pb::Action::Reset);
    assert_eq!(told.drain(), pb::DrainNeed::Save);
    assert_eq!(told.faults.len(), 1);
    assert_eq!(cluster.drain_of("bystander"), None);
    assert_eq!(cluster.workload("bystander").unwrap().phase(), Phase::Running);
    bystander.assert_undisturbed();
    // The driver asks for nothing any more: the gang resumes on the same device.
    inject(&cluster, &["recovery-action", "0", "--device", &device]);
    cluster.wait_drain("failing", DrainState::Resumed);
    assert_eq!(device_of(&cluster, "failing"), (node, device));
    assert!(failing.resumed_from()[1] >= drain.saved.map(|saved| saved.step));
    assert_eq!(cluster.drains().unwrap().len(), 1);
}

#[test]
fn gpu_off_the_bus_moves_its_gang_to_another_device_within_seconds() {
    let mut cluster = drills().start();
    let trainer = Training::new("train").start(&mut cluster);
    cluster.wait_measured("train");
    let (_, device) = device_of(&cluster, "train");
    inject(&cluster, &["xid", "79", "--device", &device, "--text", "GPU has fallen off the bus."]);
    let drain = cluster.wait_drain("train", DrainState::Resumed);
    let cause = drain.cause.clone().unwrap();
    assert_eq!(
        (cause.code.as_str(), cause.values["fault"].as_str()),
        ("device-fault", "gpu-xid 79")
    );
    assert_eq!(cause.values["action"], "reboot");
    // Peers give up after some seconds: the usual minute would be too long.
    assert!(drain.deadline_ms <= 6_000, "{drain:?}");
    let (_, other) = device_of(&cluster, "train");
    assert_ne!(other, device);
    assert_eq!(trainer.resumed_from().len(), 2);
}

#[test]
fn error_of_a_program_is_told_about_its_worker_alone() {
    let mut cluster = drills().start();
    let faulty = Training::new("faulty").start(&mut cluster);
    let other = Training::new("other").start(&mut cluster);
    cluster.wait_measured("faulty");
    cluster.wait_measured("other");
    let (node, device) = device_of(&cluster, "faulty");
    let pid = faulty.pid(&cluster, 1, 0).to_string();
    let text = "Contained: SM (0x1). RST: No, D-RST: No";
    inject(&cluster, &["xid", "94", "--device", &device, "--pid", &pid, "--text", text]);
    let fault = cluster.wait("the worker's error to be known", |cluster| {
        let report = cluster.node(&node)?.report?;
        let has_fault: Vec<_> =
            report.workers.into_iter().filter(|worker| worker.device_fault.is_some()).collect();
        (!has_fault.is_empty()).then_some(has_fault)
    });
    let workloads: Vec<&str> = fault.iter().map(|worker| worker.workload.as_str()).collect();
    assert_eq!(workloads, ["faulty"]);
    let reason = fault[0].device_fault.clone().unwrap();
    assert_eq!((reason.code.as_str(), reason.values["xid"].as_str()), ("worker-gpu-fault", "94"));
    assert_eq!(reason.values["text"], text);
    let told = health_of(&cluster, &node, &device).unwrap();
    assert_eq!(told.health(), Health::Healthy);
    assert_eq!(told.drain(), pb::DrainNeed::None);
    let decided = cluster.explain("faulty").unwrap();
    let codes: Vec<String> =
        decided.decisions.iter().filter_map(|d| Some(d.reason.as_ref()?.code.clone())).collect();
    assert!(codes.iter().any(|code| code == "worker-gpu-fault"), "{codes:?}");
    assert_eq!(cluster.drains().unwrap(), []);
    faulty.assert_undisturbed();
    other.assert_undisturbed();
}

#[test]
fn agent_without_the_flag_takes_no_injected_fault() {
    let cluster = Setup::nodes(&[("n1", 1)]).start();
    let mut drill = cluster.sluice(&["inject-fault", "xid", "79", "--device", "sim-n1-0"]);
    assert_eq!(drill.exit_code(), Some(1));
    assert!(drill.stderr().contains("--allow-fault-injection"), "{}", drill.stderr());
    assert_eq!(health_of(&cluster, "n1", "sim-n1-0").unwrap().health(), Health::Healthy);
    let mut drill = cluster.sluice(&["clear-faults", "--device", "sim-n1-7"]);
    assert_eq!(drill.exit_code(), Some(1));
    assert!(drill.stderr().contains("sim-n1-7"), "{}", drill.stderr());
}
