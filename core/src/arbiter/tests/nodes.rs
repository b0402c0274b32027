use super::*;

#[test]
fn silence_is_unknown_and_drains_nothing() {
    let mut bench = Bench::preempting();
    bench.give(Input::Cancel { workload: name("serve") });
    bench.sent();
    bench.give(Input::AgentDisconnected { node: "a".parse().unwrap() });
    bench.wait(600_000);
    assert_eq!(bench.arbiter.node_reason(&"a".parse().unwrap()).code(), "node-silent");
    assert_eq!(bench.phase("train"), Phase::Running);
    assert_eq!(bench.sent(), [""; 0]);
}

#[test]
fn nothing_is_placed_on_a_silent_node() {
    let mut bench = Bench::new(&["a"], 2);
    bench.give(Input::AgentDisconnected { node: "a".parse().unwrap() });
    bench.submit(&Bench::spec("train", 10, 1, 2), &["a"]);
    assert_eq!(bench.phase("train"), Phase::Pending);
    bench.connect("a");
    assert_eq!(bench.phase("train"), Phase::Admitted);
}

#[test]
fn decisions_freeze_when_most_agents_vanish_and_go_on_when_they_are_back() {
    let mut bench = Bench::new(&["a", "b", "c"], 6);
    for node in ["a", "b"] {
        bench.give(Input::AgentDisconnected { node: node.parse().unwrap() });
    }
    bench.submit(&Bench::spec("train", 10, 1, 2), &["c"]);
    assert_eq!(bench.workload("train").reason.code(), "most-agents-silent");
    bench.connect("a");
    assert_eq!(bench.phase("train"), Phase::Admitted);
}

#[test]
fn unhealthy_and_unknown_devices_are_not_offered() {
    for (health, expected) in [
        (Health::Healthy, Phase::Admitted),
        (Health::Degraded, Phase::Admitted),
        (Health::Unknown, Phase::Pending),
        (Health::Unhealthy, Phase::Pending),
    ] {
        let mut bench = Bench::new(&["a"], 2);
        let node: NodeName = "a".parse().unwrap();
        let mut devices = bench.arbiter.nodes()[&node].devices.clone();
        devices.values_mut().for_each(|d| d.health = health);
        bench.give(Input::NodeReport {
            node,
            report: NodeReport { devices, ..NodeReport::default() },
        });
        bench.submit(&Bench::spec("train", 10, 1, 2), &["a"]);
        assert_eq!(bench.phase("train"), expected, "{health:?}");
    }
}

#[test]
fn a_frozen_arbiter_takes_back_what_has_not_been_signalled_and_starts_nothing() {
    let mut bench = Bench::preempting();
    bench.sent();
    let reply = bench.give(Input::Freeze { why: "maintenance".to_owned() });
    assert_eq!(reply, Some(Reply::Frozen { aborted_drains: 1 }));
    assert_eq!(bench.sent(), ["a:abort", "b:abort"]);
    assert_eq!(bench.workload("serve").reason.code(), "frozen");
    bench.wait(60_000);
    assert_eq!(bench.phase("train"), Phase::Running);
    bench.give(Input::Unfreeze);
    assert_eq!(bench.phase("train"), Phase::Draining);
}

#[test]
fn who_freezes_again_adds_a_reason_and_wipes_none() {
    let mut bench = Bench::new(&["a"], 2);
    for why in ["upgrade", "", "flood", "upgrade"] {
        bench.give(Input::Freeze { why: why.to_owned() });
    }
    let frozen = bench.arbiter.frozen();
    assert_eq!(frozen, Some(Reason::Frozen { why: "upgrade; flood".to_owned() }));
    bench.give(Input::Unfreeze);
    assert_eq!(bench.arbiter.frozen(), None);
    bench.give(Input::Freeze { why: "again".to_owned() });
    assert_eq!(bench.arbiter.frozen(), Some(Reason::Frozen { why: "again".to_owned() }));
}

#[test]
fn a_worker_that_vanishes_without_a_word_from_its_launcher_has_failed() {
    let mut bench = Bench::new(&["a"], 2);
    bench.submit(&Bench::spec("train", 10, 1, 2), &["a"]);
    bench.start("train");
    let report = NodeReport { full: true, ..NodeReport::default() };
    bench.give(Input::NodeReport { node: "a".parse().unwrap(), report });
    assert_eq!(bench.phase("train"), Phase::Running, "its launcher may still tell how it ended");
    bench.wait(10_000);
    assert_eq!(bench.phase("train"), Phase::Failed);
    assert_eq!(bench.workload("train").device_count(), 0);
}
