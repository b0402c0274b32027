use std::path::PathBuf;

use expect_test::{Expect, expect};

use super::*;
use crate::paint::resolve;
use crate::view::fixtures;

fn agent(connected: bool) -> Agent {
    let sensor = |name: &str, age_ms, error: &str| pb::SensorStatus {
        name: name.to_owned(),
        age_ms,
        sample_duration_us: 1_250,
        error: error.to_owned(),
        errors: u64::from(!error.is_empty()),
    };
    let status = pb::AgentStatus {
        version: "0.1.0".to_owned(),
        pid: 99,
        uptime_ms: 300_000,
        arbiter: "127.0.0.1:7600".to_owned(),
        connected,
        last_ack_age_ms: connected.then_some(850),
        disconnect_reason: if connected { "" } else { "connection refused" }.to_owned(),
        epoch: 3,
        heartbeat_interval_ms: 2_000,
        reports_sent: 17,
        sensors: vec![
            sensor("disk", Some(700), ""),
            sensor("gpu", Some(9_000), "NVML: GPU is lost"),
            sensor("process", None, ""),
        ],
    };
    let mut report = fixtures::node(true).report;
    if let Some(report) = &mut report {
        report.workers.clear();
    }
    let answer = pb::GetReportResponse { report, status: Some(status) };
    Agent { socket: PathBuf::from("/run/sluice/gpu-7.sock"), answer }
}

fn check(view: &NodeStatusView, expected: &Expect) {
    expected.assert_eq(&resolve(&render(view), false));
}

#[test]
fn a_connected_node() {
    let drain = pb::NodeDrain {
        drain_id: "drain-1".to_owned(),
        workload: "train".to_owned(),
        attempt: 1,
        rank: 0,
        epoch: 3,
        stage: "signalled".to_owned(),
        remaining_ms: Some(42_000),
        mode: "SIGNAL".to_owned(),
    };
    let drains = Some(vec![NodeDrainView::of(&drain)]);
    check(
        &NodeStatusView::of(&agent(true), drains),
        &expect![[r#"
        Node:       gpu-7 (simulated accelerators)
        Agent:      version 0.1.0, pid 99, up 5 min 0 s
        Socket:     /run/sluice/gpu-7.sock
        Arbiter:    127.0.0.1:7600, connected, last acknowledged 850 ms ago
        Heartbeat:  every 2.0 s; 17 reports sent; epoch 3

        Sensors
          NAME      STATE     AGE     TAKES    ERRORS   LAST ERROR
          disk      Working   700ms   1.2 ms   0        -
          gpu       Failing   9s      1.2 ms   1        NVML: GPU is lost
          process   Unknown   -       1.2 ms   0        -

        Devices
          NAME          INDEX   KIND        HEALTH    AGE     SOURCE      PIDS   WHY
          sim-gpu-7-0   0       nvidia-l4   Healthy   400ms   simulated   4711   -
          sim-gpu-7-1   1       nvidia-l4   Healthy   400ms   simulated   4711   -

        Volumes
          NAME      KIND   SIZE      READ-AHEAD              READ/S    WRITE/S   BUSY    LIMITED-BY   AGE     MOUNT
          nvme0n1   disk   1.0 TiB   128 KiB (not 4.0 MiB)   300 MiB   0 B       42.5%   read-ahead   800ms   /data

        Workers
          none

        Drains
          NAME      WORKER      MODE     STAGE       REMAINING   EPOCH
          drain-1   train/1/0   SIGNAL   signalled   42.0 s      3
    "#]],
    );
}

#[test]
fn a_node_that_is_cut_off() {
    let text = resolve(&render(&NodeStatusView::of(&agent(false), None)), false);
    let arbiter = text.lines().find(|l| l.starts_with("Arbiter:"));
    let expected = "Arbiter:    127.0.0.1:7600, not connected: connection refused; \
                    never acknowledged anything";
    assert_eq!(arbiter, Some(expected));
    assert!(text.contains("unknown: the agent did not say"), "{text}");
}

#[test]
fn nobody_to_ask_is_unreachable() {
    let failure = nobody(&["it hung".to_owned()]);
    assert_eq!(
        (failure.exit, failure.message.as_str()),
        (69, "no agent of this machine answers: it hung")
    );
}
