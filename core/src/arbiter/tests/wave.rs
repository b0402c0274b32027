//! The breaker for waves of faults.

use super::faults::settled;
use super::*;
use crate::health::Action;
use crate::protocol::{DeviceFault, DrainNeed};

impl Bench {
    /// Its first report tells of a device that fails.
    fn joins_failing(&mut self, node: &str) {
        self.connect_with(node, |id, device| {
            if id.ends_with("-0") {
                let reason = Reason::GpuRowsFailed;
                device.health = Health::Unhealthy;
                device.fault =
                    Some(DeviceFault { reason, action: Action::Replace, drain: DrainNeed::Save });
            }
        });
    }

    /// The arbiter is replaced by one that has what was stored, and knows nothing else.
    fn restart_arbiter(&mut self) {
        let before = &self.arbiter;
        let nodes = before.nodes.iter().map(|(name, node)| (name.clone(), node.workers.clone()));
        self.outliving.extend(nodes);
        let config = Config { epoch: before.epoch() + 1, ..before.config.clone() };
        let workloads = before.workloads.values().cloned().collect();
        let drains = before.drains.values().cloned().collect();
        let (is_open, known) = self.stored_wave;
        let faults = Faults { is_open, known, nodes: self.stored_faults.clone() };
        self.arbiter = Arbiter::new(Time(self.now), config, workloads, drains, None);
        self.arbiter.take_up_faults(faults);
    }
}

#[test]
fn half_of_the_nodes_failing_within_minutes_stops_decisions_until_somebody_looks() {
    let mut bench = settled(&["a", "b", "c", "d"]);
    for node in ["a", "b", "c", "d"] {
        bench.trains(&format!("on-{node}"), node);
    }
    bench.fails("a", 0);
    bench.wait(299_000);
    assert_eq!(bench.arbiter.frozen(), None);
    bench.fails("b", 0);
    assert_eq!(bench.arbiter.frozen(), Some(Reason::MostNodesFaulty { faulty: 2, known: 4 }));
    assert_eq!(bench.phase("on-b"), Phase::Running);
    let alarm = bench.decided.last().unwrap();
    assert_eq!((alarm.kind, alarm.reason.code()), (DecisionKind::Freeze, "most-nodes-faulty"));
    // Time alone is no reason to go on: the faults stand.
    bench.wait(3_600_000);
    bench.fails("c", 0);
    assert_eq!(bench.phase("on-c"), Phase::Running);
    bench.give(Input::Unfreeze);
    assert_eq!(bench.arbiter.frozen(), None);
    assert_eq!((bench.phase("on-b"), bench.phase("on-c")), (Phase::Draining, Phase::Draining));
    assert_eq!(bench.phase("on-d"), Phase::Running);
}

#[test]
fn wave_that_passes_by_itself_lets_decisions_go_on() {
    let mut bench = settled(&["a", "b", "c"]);
    bench.fails("a", 0);
    bench.fails("b", 0);
    assert!(bench.arbiter.frozen().is_some());
    bench.wait(300_000);
    bench.device_is("a", 0, Health::Healthy, DrainNeed::None);
    assert_eq!(bench.arbiter.frozen(), None);
}

#[test]
fn nodes_that_join_with_old_faults_make_no_wave() {
    let mut bench = settled(&["a", "b", "c", "d"]);
    for node in ["e", "f", "g", "h", "i"] {
        bench.joins_failing(node);
    }
    assert_eq!(bench.arbiter.frozen(), None);
    // Nor does time make them one.
    bench.wait(120_000);
    assert_eq!(bench.arbiter.frozen(), None);
}

#[test]
fn node_that_comes_back_with_new_faults_has_not_joined() {
    let mut bench = settled(&["a", "b", "c", "d"]);
    bench.trains("on-c", "c");
    bench.fails("a", 0);
    for node in ["a", "b"] {
        bench.give(Input::AgentDisconnected { node: node.parse().unwrap() });
    }
    bench.joins_failing("b");
    assert_eq!(bench.arbiter.frozen(), None, "the other is away");
    // The faults that it had are old, and still count for five minutes.
    bench.joins_failing("a");
    assert_eq!(bench.arbiter.frozen(), Some(Reason::MostNodesFaulty { faulty: 2, known: 4 }));
    bench.fails("c", 0);
    assert_eq!(bench.phase("on-c"), Phase::Running);
}

#[test]
fn node_that_comes_back_with_its_old_faults_makes_no_wave() {
    let mut bench = settled(&["a", "b", "c", "d"]);
    bench.fails("a", 0);
    bench.wait(300_000);
    bench.fails("b", 0);
    assert_eq!(bench.arbiter.frozen(), None);
    bench.give(Input::AgentDisconnected { node: "a".parse().unwrap() });
    bench.joins_failing("a");
    assert_eq!(bench.arbiter.frozen(), None);
}

#[test]
fn open_breaker_survives_the_arbiter_until_most_nodes_are_in_order() {
    let mut bench = settled(&["a", "b", "c", "d"]);
    bench.trains("on-b", "b");
    bench.fails("a", 0);
    bench.fails("b", 0);
    bench.restart_arbiter();
    assert!(bench.arbiter.is_wave_open());
    // The sound ones are back first: that they are all there are is not so.
    bench.connect("c");
    bench.connect("d");
    bench.wait(20_000);
    assert_eq!(bench.arbiter.frozen(), Some(Reason::MostNodesFaulty { faulty: 2, known: 4 }));
    bench.joins_failing("a");
    bench.joins_failing("b");
    bench.wait(600_000);
    assert_eq!(bench.arbiter.frozen(), Some(Reason::MostNodesFaulty { faulty: 2, known: 4 }));
    assert_eq!(bench.phase("on-b"), Phase::Running);
    bench.restart_arbiter();
    bench.give(Input::Unfreeze);
    bench.restart_arbiter();
    assert!(!bench.arbiter.is_wave_open());
    for node in ["c", "d"] {
        bench.connect(node);
    }
    // Somebody has looked at these faults: they are no news to the next arbiter.
    for node in ["a", "b"] {
        bench.joins_failing(node);
    }
    assert_eq!(bench.phase("on-b"), Phase::Draining);
    assert!(!bench.arbiter.is_wave_open());
}

#[test]
fn faults_that_began_while_the_arbiter_was_away_are_a_wave() {
    let mut bench = settled(&["a", "b", "c", "d"]);
    bench.trains("on-b", "b");
    bench.fails("a", 0);
    bench.restart_arbiter();
    // Whoever comes first is not the fleet: what is told is judged when all are back, or time is up.
    bench.joins_failing("b");
    bench.joins_failing("a");
    bench.connect("c");
    assert_eq!((bench.arbiter.frozen(), bench.phase("on-b")), (None, Phase::Running));
    let mut late = Bench { arbiter: bench.arbiter.clone(), ..Bench::new(&[], 16) };
    late.now = bench.now;
    bench.connect("d");
    assert_eq!(bench.arbiter.frozen(), Some(Reason::MostNodesFaulty { faulty: 2, known: 4 }));
    assert_eq!(bench.phase("on-b"), Phase::Running);
    late.wait(14_999);
    assert_eq!(late.arbiter.frozen(), None);
    late.wait(1);
    assert_eq!(late.arbiter.frozen(), Some(Reason::MostNodesFaulty { faulty: 2, known: 3 }));
    assert_eq!(late.phase("on-b"), Phase::Running);
}

#[test]
fn single_fault_that_a_new_arbiter_hears_of_drains_its_gang_once_all_are_back() {
    let mut bench = settled(&["a", "b", "c", "d"]);
    bench.trains("on-b", "b");
    bench.restart_arbiter();
    bench.joins_failing("b");
    for node in ["a", "c"] {
        bench.connect(node);
    }
    assert_eq!(bench.phase("on-b"), Phase::Running);
    bench.connect("d");
    assert_eq!((bench.arbiter.frozen(), bench.phase("on-b")), (None, Phase::Draining));
}

#[test]
fn nodes_that_never_come_back_to_a_new_arbiter_keep_no_wave_open() {
    let mut bench = settled(&["a", "b", "c", "d"]);
    bench.fails("a", 0);
    bench.fails("b", 0);
    bench.restart_arbiter();
    for node in ["c", "d"] {
        bench.connect(node);
    }
    bench.wait(59_999);
    assert!(bench.arbiter.is_wave_open());
    bench.wait(1);
    assert!(!bench.arbiter.is_wave_open());
    // And are forgotten with time.
    bench.wait(3_600_000);
    assert_eq!(bench.stored_faults, BTreeMap::new());
}

#[test]
fn nodes_that_were_switched_off_keep_no_wave_open() {
    let mut bench = settled(&["a", "b", "c", "d"]);
    bench.fails("a", 0);
    bench.fails("b", 0);
    assert_eq!(bench.arbiter.frozen(), Some(Reason::MostNodesFaulty { faulty: 2, known: 4 }));
    bench.wait(300_000);
    for node in ["a", "b"] {
        bench.give(Input::AgentDisconnected { node: node.parse().unwrap() });
    }
    assert_ne!(bench.arbiter.frozen().map(|reason| reason.code()), Some("most-nodes-faulty"));
}
