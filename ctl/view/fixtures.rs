//! Answers of servers, for tests: one workload that runs, one that waits, a drain, a node.

use std::collections::BTreeMap;

use jiff::Timestamp;
use prost_types::Timestamp as WireTime;
use sluice::wire::pb;

/// The time at which tests look.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("in range")
}

/// A point `seconds` before [`now`].
pub(crate) fn ago(seconds: i64) -> Option<WireTime> {
    Some(WireTime { seconds: 1_800_000_000 - seconds, nanos: 0 })
}

/// A reason.
pub(crate) fn reason(code: &str, message: &str, hint: &str) -> pb::Reason {
    let (code, message, hint) = (code.to_owned(), message.to_owned(), hint.to_owned());
    pb::Reason { code, message, hint, values: BTreeMap::new() }
}

/// A complete checkpoint.
pub(crate) fn checkpoint() -> pb::Checkpoint {
    pb::Checkpoint {
        step: 40,
        path: "/data/ckpt/checkpoint-40".to_owned(),
        bytes: 3 << 20,
        files: 5,
        marker: "trainer_state.json".to_owned(),
        grade: pb::CheckpointGrade::LocalComplete.into(),
    }
}

fn spec(name: &str, priority: i32) -> pb::WorkloadSpec {
    pb::WorkloadSpec {
        name: name.to_owned(),
        queue: "default".to_owned(),
        priority,
        nnodes: 1,
        resources: BTreeMap::from([("nvidia.com/gpu".to_owned(), 2)]),
        command: ["python", "train.py"].map(str::to_owned).to_vec(),
        ..pb::WorkloadSpec::default()
    }
}

/// A workload that runs on both devices of node `gpu-7`.
pub(crate) fn running() -> pb::Workload {
    let assignment = pb::Assignment {
        node: "gpu-7".to_owned(),
        devices: ["sim-gpu-7-0", "sim-gpu-7-1"].map(str::to_owned).to_vec(),
        flavors: [("nvidia.com/gpu".to_owned(), "l4".to_owned())].into(),
    };
    let member = pb::Member {
        rank: 0,
        launcher: "host-1-abc".to_owned(),
        attached: true,
        nodes: vec!["gpu-7".to_owned()],
        assignment: Some(assignment),
        started: true,
        ..pb::Member::default()
    };
    pb::Workload {
        spec: Some(pb::WorkloadSpec {
            checkpoint_dir: "/data/ckpt".to_owned(),
            save_signal: 10,
            ..spec("train", 0)
        }),
        phase: pb::Phase::Running.into(),
        reason: Some(reason("started", "all ranks run (start number 2)", "")),
        attempt: 2,
        members: vec![member],
        submitted_at: ago(600),
        phase_since: ago(90),
        running_since: ago(90),
        checkpoint: Some(checkpoint()),
        checkpoint_age_ms: Some(12_000),
        profile: Some(pb::Profile { step_ms: Some(250), drains: 1, ..pb::Profile::default() }),
        last_drain: "drain-1".to_owned(),
        resume_step: Some(40),
        waited_ms: Some(30_000),
        ..pb::Workload::default()
    }
}

/// A workload that waits behind another; its name tries to paint the terminal.
pub(crate) fn pending() -> pb::Workload {
    let member = pb::Member {
        rank: 0,
        launcher: "host-2-def".to_owned(),
        attached: true,
        nodes: vec!["gpu-7".to_owned()],
        ..pb::Member::default()
    };
    pb::Workload {
        spec: Some(spec("eval\u{1b}[31m", -5)),
        phase: pb::Phase::Pending.into(),
        reason: Some(reason(
            "waiting-for-devices",
            "1 x 2 nvidia.com/gpu do not fit on the free devices (0 are free and usable)",
            "sluice get devices shows who holds what",
        )),
        members: vec![member],
        submitted_at: ago(42),
        phase_since: ago(42),
        ahead: vec!["other".to_owned()],
        ahead_count: 1,
        waited_ms: Some(42_000),
        ..pb::Workload::default()
    }
}

/// A drain of `train` for `serve` that has ended well.
pub(crate) fn drain() -> pb::Drain {
    let alternative = |mode: pb::DrainMode, delay_ms, loss_device_ms, chosen, why: &str| {
        let reason = Some(reason("least-loss", why, ""));
        pb::Alternative { mode: mode.into(), delay_ms, loss_device_ms, chosen, reason }
    };
    let transition = |seconds, state: pb::DrainState, why: &str| pb::DrainTransition {
        at: ago(seconds),
        state: state.into(),
        reason: Some(reason("x", why, "")),
    };
    pb::Drain {
        id: "drain-1".to_owned(),
        victim: "train".to_owned(),
        attempt: 1,
        beneficiary: "serve".to_owned(),
        cause: Some(reason("preempted-for", "serve (priority 100) needs the devices", "")),
        epoch: 3,
        state: pb::DrainState::Resumed.into(),
        mode: pb::DrainMode::Signal.into(),
        alternatives: vec![
            alternative(pb::DrainMode::Signal, Some(1_500), 400, true, "loses least"),
            alternative(pb::DrainMode::Kill, Some(200), 24_000, false, "would lose more"),
        ],
        members: vec![pb::DrainMember {
            rank: 0,
            node: "gpu-7".to_owned(),
            devices: vec!["sim-gpu-7-0".to_owned()],
            armed: true,
            durable_step: Some(40),
            exited: true,
            freed: true,
            signalled: true,
            killed: false,
        }],
        saved: Some(checkpoint()),
        history: vec![
            transition(300, pb::DrainState::Planned, "it was the cheapest choice"),
            transition(299, pb::DrainState::Saving, "every agent may act (SIGNAL)"),
            transition(297, pb::DrainState::Durable, "checkpoint of step 40 was found complete"),
        ],
        account: Some(pb::DrainAccount {
            at_risk_device_ms: 24_000,
            lost_device_ms: 400,
            idle_device_ms: 3_000,
            saved_device_ms: 23_600,
            restart_ms: Some(2_100),
        }),
        planned_at: ago(300),
        deadline_at: ago(240),
        baseline_step: Some(30),
        deadline_ms: 60_000,
        save_signal: 10,
        committed: true,
        ..pb::Drain::default()
    }
}

/// A node with two devices and a volume whose agent is connected, or silent.
pub(crate) fn node(connected: bool) -> pb::NodeSummary {
    let device = |index: u32| pb::Device {
        id: format!("sim-gpu-7-{index}"),
        index,
        resource: "nvidia.com/gpu".to_owned(),
        kind: "nvidia-l4".to_owned(),
        simulated: true,
        health: pb::Health::Healthy.into(),
        source: "simulated".to_owned(),
        age_ms: Some(400),
        memory_bytes: Some(24 << 30),
        holder_pids: vec![4_711],
        ..pb::Device::default()
    };
    let worker = pb::Worker {
        workload: "train".to_owned(),
        attempt: 2,
        pid: 4_711,
        state: pb::WorkerState::Running.into(),
        checkpoint: Some(checkpoint()),
        checkpoint_age_ms: Some(12_000),
        running_ms: 90_000,
        devices: vec!["sim-gpu-7-0".to_owned()],
        processes: 1,
        ..pb::Worker::default()
    };
    let report = pb::NodeReport {
        node: "gpu-7".to_owned(),
        node_uid: "uid-1".to_owned(),
        boot_id: "0f3c9a2e-boot".to_owned(),
        devices: vec![device(0), device(1)],
        volumes: vec![volume()],
        workers: vec![worker],
        simulated: true,
        labels: [("example.com/rack".to_owned(), "r1".to_owned())].into(),
        ..pb::NodeReport::default()
    };
    let reason = if connected {
        reason("node-connected", "the agent is connected", "")
    } else {
        reason("node-silent", "nothing has been heard for 40.0 s", "sluice status on the node")
    };
    pb::NodeSummary {
        name: "gpu-7".to_owned(),
        connected,
        reason: Some(reason),
        last_seen_ms: if connected { 300 } else { 40_000 },
        report: Some(report),
        version: "0.1.0".to_owned(),
        session: 2,
    }
}

/// A volume that is otherwise than asked for.
fn volume() -> pb::Volume {
    pb::Volume {
        device: "nvme0n1".to_owned(),
        major: 259,
        kind: "disk".to_owned(),
        cloud_disk: "model-weights".to_owned(),
        size_bytes: 1 << 40,
        read_ahead_bytes: Some(128 << 10),
        rates: Some(pb::VolumeRates {
            interval_ms: 1_000,
            read_bytes_per_second: 300 << 20,
            busy_permille: 425,
            ..pb::VolumeRates::default()
        }),
        mounts: vec![pb::Mount {
            mount_point: "/data".to_owned(),
            role: "pod".to_owned(),
            pod_uid: "0c7a".to_owned(),
            volume: "models".to_owned(),
            ..pb::Mount::default()
        }],
        read_ahead_wanted_bytes: Some(4 << 20),
        read_ahead_state: "drifted".to_owned(),
        bottleneck: "read-ahead".to_owned(),
        findings: vec![pb::VolumeFinding {
            reason: Some(pb::Reason {
                code: "read-ahead-never-set".to_owned(),
                message: "128 KiB are in force instead of 4096".to_owned(),
                hint: "stage it anew".to_owned(),
                ..pb::Reason::default()
            }),
            severity: "warning".to_owned(),
        }],
        age_ms: Some(800),
        source: "sysfs".to_owned(),
        ..pb::Volume::default()
    }
}

/// A queue with quota for four devices of which two are in use.
pub(crate) fn queue() -> pb::Queue {
    let usage = pb::QueueUsage {
        resource: "nvidia.com/gpu".to_owned(),
        nominal: 4,
        used: 2,
        borrowing_limit: None,
        flavor: "default".to_owned(),
    };
    pb::Queue {
        name: "default".to_owned(),
        usage: vec![usage],
        pending: 1,
        admitted: 1,
        preempts: true,
        ..pb::Queue::default()
    }
}
