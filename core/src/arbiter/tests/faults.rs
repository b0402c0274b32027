use super::*;
use crate::health::Action;
use crate::protocol::{DeviceFault, DrainNeed};

/// Nodes that have been there for a while.
pub(super) fn settled(nodes: &[&str]) -> Bench {
    let mut bench = Bench::new(nodes, 16);
    bench.wait(120_000);
    bench
}

impl Bench {
    /// The agent of `node` says this of its device `index`.
    pub(super) fn device_is(&mut self, node: &str, index: u32, health: Health, drain: DrainNeed) {
        let reason = Reason::GpuXid { xid: 119, what: "w".to_owned(), text: "t".to_owned() };
        let fault = DeviceFault { reason, action: Action::Reset, drain };
        let id: DeviceId = format!("{node}-{index}").parse().unwrap();
        let node: NodeName = node.parse().unwrap();
        let mut device = self.arbiter.nodes()[&node].devices[&id].clone();
        device.health = health;
        device.fault = (health != Health::Healthy).then_some(fault);
        let devices = BTreeMap::from([(id, device)]);
        self.give(Input::NodeReport {
            node,
            report: NodeReport { devices, ..NodeReport::default() },
        });
    }

    pub(super) fn fails(&mut self, node: &str, index: u32) {
        self.device_is(node, index, Health::Unhealthy, DrainNeed::Save);
    }

    /// A gang of one rank on `node`, with both its devices, that saves each 10 s.
    pub(super) fn trains(&mut self, workload: &str, node: &str) {
        self.submit(&Self::spec(workload, 10, 1, 2), &[node]);
        self.start(workload);
        self.report(workload, 0, Some(40), Some((1_000, 500, 10_000)));
        self.now += 3_000;
    }

    /// The drain goes its way until the devices are free.
    pub(super) fn saves_and_leaves(&mut self, drain: &str, workload: &str) {
        self.event(drain, workload, 0, ARMED);
        self.event(drain, workload, 0, durable(checkpoint(41)));
        self.event(drain, workload, 0, freed());
    }
}

#[test]
fn device_that_needs_a_reset_drains_its_gang_alone_for_nobody() {
    let mut bench = settled(&["a", "b"]);
    bench.trains("failing", "a");
    bench.trains("other", "b");
    bench.fails("a", 1);
    let drain = bench.drain("drain-1");
    assert_eq!((drain.victim.as_str(), &drain.beneficiary), ("failing", &None));
    assert_eq!(
        drain.cause,
        Reason::DeviceFault {
            node: "a".parse().unwrap(),
            device: "a-1".parse().unwrap(),
            fault: "gpu-xid 119".to_owned(),
            action: "reset".to_owned(),
        }
    );
    assert_eq!(drain.deadline_at.ms_since(drain.planned_at), 60_000);
    assert_eq!(bench.sent(), ["a:prepare BOUNDARY"]);
    assert_eq!(bench.phase("other"), Phase::Running);
    // The same said again is no other drain.
    bench.fails("a", 1);
    bench.saves_and_leaves("drain-1", "failing");
    assert_eq!(bench.arbiter.drains().len(), 1);
    assert_eq!(bench.phase("failing"), Phase::Pending);
    assert_eq!(bench.workload("failing").resume_step, Some(41));
}

#[test]
fn drained_gang_waits_for_the_device_or_takes_others() {
    let mut bench = settled(&["a"]);
    bench.submit(&Bench::spec("train", 10, 1, 1), &["a"]);
    bench.start("train");
    bench.report("train", 0, Some(40), Some((1_000, 500, 10_000)));
    bench.fails("a", 0);
    bench.fails("a", 1);
    bench.saves_and_leaves("drain-1", "train");
    bench.wait(60_000);
    assert_eq!(bench.phase("train"), Phase::Pending);
    bench.device_is("a", 1, Health::Healthy, DrainNeed::None);
    assert_eq!(bench.phase("train"), Phase::Admitted);
    let assignment = bench.workload("train").members[&0].assignment.clone().unwrap();
    assert_eq!(assignment.devices, BTreeSet::from(["a-1".parse().unwrap()]));
}

#[test]
fn link_that_is_down_gives_seconds_only() {
    let mut bench = settled(&["a"]);
    bench.trains("train", "a");
    bench.device_is("a", 0, Health::Unhealthy, DrainNeed::Hurry);
    let drain = bench.drain("drain-1");
    assert_eq!(drain.deadline_at.ms_since(drain.planned_at), 6_000);
}

#[test]
fn only_unhealthy_devices_that_say_so_drain_anybody() {
    for (health, drain) in [
        (Health::Degraded, DrainNeed::Save),
        (Health::Unknown, DrainNeed::Hurry),
        (Health::Unhealthy, DrainNeed::None),
    ] {
        let mut bench = settled(&["a"]);
        bench.trains("train", "a");
        bench.device_is("a", 0, health, drain);
        bench.wait(60_000);
        assert_eq!(bench.phase("train"), Phase::Running, "{health:?} {drain:?}");
    }
}

#[test]
fn gang_that_has_not_started_is_drained_once_it_has() {
    let mut bench = settled(&["a"]);
    bench.submit(&Bench::spec("train", 10, 1, 2), &["a"]);
    bench.fails("a", 0);
    assert_eq!(bench.phase("train"), Phase::Admitted);
    bench.report("train", 0, None, None);
    assert_eq!(bench.phase("train"), Phase::Draining);
}

#[test]
fn drain_that_was_refused_is_tried_again() {
    let mut bench = settled(&["a"]);
    bench.trains("train", "a");
    bench.fails("a", 0);
    bench.wait(2_000);
    assert_eq!(bench.drain("drain-1").state, DrainState::Aborted);
    assert_eq!(bench.phase("train"), Phase::Running);
    bench.wait(10_000);
    assert_eq!(bench.drain("drain-2").state, DrainState::Ordered);
}

#[test]
fn freeze_keeps_the_gang_and_its_end_drains_it() {
    let mut bench = settled(&["a"]);
    bench.trains("train", "a");
    bench.give(Input::Freeze { why: "a look".to_owned() });
    bench.fails("a", 0);
    assert_eq!(bench.phase("train"), Phase::Running);
    bench.give(Input::Unfreeze);
    assert_eq!(bench.phase("train"), Phase::Draining);
}

#[test]
fn error_of_a_program_is_told_once_and_drains_nobody() {
    let mut bench = settled(&["a"]);
    bench.trains("train", "a");
    let (node, worker) = bench.worker("train", 0);
    let mut report = bench.arbiter.nodes()[&node].workers[&worker].clone();
    let pci = "0000:d8:00.0".to_owned();
    report.device_fault = Some(Reason::WorkerGpuFault { pci, xid: 94, text: "x".to_owned() });
    for _ in 0..3 {
        let workers = BTreeMap::from([(worker.clone(), report.clone())]);
        let report = NodeReport { workers, ..NodeReport::default() };
        bench.give(Input::NodeReport { node: node.clone(), report });
    }
    let told = bench.decided.iter().filter(|d| d.reason.code() == "worker-gpu-fault");
    assert_eq!(told.map(|d| d.workload.clone()).collect::<Vec<_>>(), [Some(name("train"))]);
    assert_eq!(bench.phase("train"), Phase::Running);
}

#[test]
fn arbiter_that_goes_on_from_a_record_decides_the_same() {
    let mut bench = settled(&["a", "b", "c"]);
    bench.trains("train", "c");
    bench.fails("a", 0);
    bench.fails("b", 0);
    bench.fails("c", 0);
    let snapshot = bench.arbiter.snapshot();
    assert!(snapshot.wave_open);
    let mut restored = Arbiter::restore(snapshot.clone());
    assert_eq!(restored.snapshot(), snapshot);
    let now = Time(bench.now + 1);
    assert_eq!(restored.step(now, Input::Unfreeze), bench.arbiter.step(now, Input::Unfreeze));
    assert_eq!(restored.workload(&name("train")).unwrap().phase, Phase::Draining);
}
