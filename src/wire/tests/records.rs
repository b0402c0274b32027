//! Workloads and drains: also the store's format, so nothing may be lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message;
use sluice_core::arbiter::{Config, Input, Node, NodeFaults, Snapshot};
use sluice_core::checkpoint::{CheckpointFormat, CheckpointRules};
use sluice_core::drain::{
    Account, Alternative, Drain, DrainMember, DrainState, Mode, Plan, Transition,
};
use sluice_core::kueue::workload::TopologyMode;
use sluice_core::protocol::{DrainEvent, EventKind, NodeReport};
use sluice_core::reason::{Ms, Reason};
use sluice_core::scheduler::{Rule, Rules};
use sluice_core::unit::Time;
use sluice_core::workload::{
    Assignment, CheckpointSpec, Exit, Member, Phase, Profile, Reservation, SaveSignal, SlicePlace,
    SliceSpec, Workload, WorkloadSpec,
};

use super::{checkpoint, set};
use crate::wire::{WireError, pb, record};

fn spec() -> WorkloadSpec {
    WorkloadSpec {
        name: "team/train-7b".parse().unwrap(),
        queue: "research".parse().unwrap(),
        priority: -7,
        nnodes: 2,
        resources: BTreeMap::from([("nvidia.com/gpu".parse().unwrap(), 8)]),
        topology: Some(TopologyMode::Required("example.com/rack".to_owned())),
        slice: Some(Box::new(SliceSpec {
            generation: "tpu7x".to_owned(),
            shape: "2x2x2".to_owned(),
            count: 2,
            is_healthy_only: true,
            group: Some("server".to_owned()),
        })),
        checkpoint: Some(CheckpointSpec {
            dir: "/ck".to_owned(),
            format: CheckpointFormat::Generic,
            rules: CheckpointRules {
                glob: "ckpt-*.pt".to_owned(),
                marker: ".done".to_owned(),
                remote_dir: "/mnt/second".to_owned(),
            },
        }),
        save_signal: Some(SaveSignal { number: 10, exits_after_save: true }),
        is_signal_vouched: true,
        grace_ms: Some(60_000),
        drain_deadline_ms: 45_000,
        command: vec!["python".to_owned(), "train.py".to_owned()],
    }
}

fn assignment(node: &str) -> Assignment {
    Assignment {
        node: node.parse().unwrap(),
        devices: set(&["GPU-1", "GPU-2"]),
        flavors: [("nvidia.com/gpu".to_owned(), "a3".to_owned())].into(),
    }
}

fn members() -> BTreeMap<u32, Member> {
    let first = Member {
        launcher: "l-0".parse().unwrap(),
        nodes: Arc::new(set(&["n1", "n2"])),
        detached_at: None,
        assignment: Some(assignment("n1")),
        started: true,
        exit: None,
        vanished_at: None,
    };
    let second = Member {
        launcher: "l-1".parse().unwrap(),
        nodes: Arc::new(set(&["n3"])),
        detached_at: Some(Time(0)),
        assignment: None,
        started: false,
        exit: Some(Exit::Signal(9)),
        vanished_at: Some(Time(1_764_000_000_123)),
    };
    BTreeMap::from([(0, first), (1, second)])
}

fn workload() -> Workload {
    Workload {
        spec: spec(),
        phase: Phase::Draining,
        reason: Reason::WaitingForDrain {
            drain: "drain-4".parse().unwrap(),
            victim: "other".parse().unwrap(),
        },
        attempt: 3,
        admitted_at: Some(Time(1_764_000_000_100)),
        members: members(),
        submitted_at: Time(1_764_000_000_001),
        phase_since: Time(1_764_000_000_999),
        running_since: Some(Time(1_764_000_001_000)),
        checkpoint: Some(checkpoint(400)),
        checkpoint_at: Some(Time(1_764_000_002_500)),
        profile: Profile {
            step_ms: Some(900),
            save_interval_ms: Some(90_000),
            save_ms: Some(4_000),
            restart_ms: Some(20_000),
            signal_unproven: true,
            signal_proven: true,
            client_unproven: true,
            exits_after_save: Some(false),
            drained_at: vec![Time(5), Time(1_764_000_000_000)],
        },
        last_drain: Some("drain-3".parse().unwrap()),
        resume_step: Some(0),
        reservation: Some(Reservation {
            placement: BTreeMap::from([(1, assignment("n3"))]),
            drains: set(&["drain-4"]),
        }),
        slices: vec![SlicePlace {
            partitions: vec!["a".to_owned(), "b".to_owned()],
            nodes: BTreeMap::from([(0, "n1".parse().unwrap()), (1, "n3".parse().unwrap())]),
        }],
    }
}

fn drain() -> Drain {
    let reason = Reason::DeadlineForced { mode: Mode::Kill, deadline_ms: Ms(60_000) };
    Drain {
        id: "drain-12".parse().unwrap(),
        victim: "train".parse().unwrap(),
        attempt: 2,
        beneficiary: Some("serve".parse().unwrap()),
        cause: Reason::PreemptedFor {
            beneficiary: "serve".parse().unwrap(),
            priority: 10,
            victim_priority: -3,
            cost_device_ms: 77,
        },
        epoch: 9,
        state: DrainState::Expired,
        plan: plan(reason),
        planned_at: Time(1_764_000_000_001),
        state_since: Time(1_764_000_000_002),
        deadline_at: Time(1_764_000_060_001),
        members: BTreeMap::from([(5, drain_member())]),
        baseline_step: Some(300),
        saved: Some(checkpoint(400)),
        saved_at: Some(Time(1_764_000_030_000)),
        refused_modes: BTreeMap::from([(Mode::Signal, "no-handler".to_owned())]),
        history: vec![Transition {
            at: Time(1_764_000_000_001),
            state: DrainState::Planned,
            reason: Reason::Unfrozen,
        }],
        is_rehearsal: true,
        account: Account {
            at_risk_device_ms: 1,
            lost_device_ms: 2,
            idle_device_ms: 3,
            saved_device_ms: 4,
            restart_ms: Some(5),
        },
    }
}

fn plan(reason: Reason) -> Plan {
    Plan {
        mode: Mode::Kill,
        save_signal: Some(SaveSignal { number: 12, exits_after_save: false }),
        delay_ms: None,
        loss_device_ms: 8_000,
        deadline_ms: 60_000,
        alternatives: vec![Alternative {
            mode: Mode::Kill,
            delay_ms: Some(50),
            loss_device_ms: 8_000,
            chosen: true,
            reason,
        }],
    }
}

fn drain_member() -> DrainMember {
    DrainMember {
        node: "n1".parse().unwrap(),
        devices: set(&["GPU-1"]),
        armed: true,
        signalled: true,
        durable_step: Some(400),
        exited: true,
        freed: true,
        killed: true,
    }
}

fn check_workload(workload: &Workload) {
    let bytes = pb::Workload::from(workload).encode_to_vec();
    let back = pb::Workload::decode(bytes.as_slice()).unwrap();
    assert_eq!(Workload::try_from(&back).as_ref(), Ok(workload));
}

fn check_drain(drain: &Drain) {
    let bytes = pb::Drain::from(drain).encode_to_vec();
    let back = pb::Drain::decode(bytes.as_slice()).unwrap();
    assert_eq!(Drain::try_from(&back).as_ref(), Ok(drain));
}

#[test]
fn a_full_workload_survives_the_store() {
    check_workload(&workload());
}

#[test]
fn a_bare_workload_survives_the_store() {
    check_workload(&Workload {
        spec: WorkloadSpec {
            resources: BTreeMap::new(),
            checkpoint: None,
            save_signal: None,
            command: Vec::new(),
            ..spec()
        },
        reason: Reason::Submitted,
        members: BTreeMap::new(),
        running_since: None,
        checkpoint: None,
        checkpoint_at: None,
        profile: Profile::default(),
        last_drain: None,
        resume_step: None,
        reservation: None,
        ..workload()
    });
}

#[test]
fn every_phase_and_exit_survives_the_store() {
    use Phase::{Admitted, Cancelled, Draining, Failed, Pending, Running, Succeeded};
    for phase in [Pending, Admitted, Running, Draining, Succeeded, Failed, Cancelled] {
        check_workload(&Workload { phase, ..workload() });
    }
    for exit in [None, Some(Exit::Code(0)), Some(Exit::Code(-1)), Some(Exit::Unknown)] {
        let mut workload = workload();
        workload.members.values_mut().for_each(|member| member.exit = exit);
        check_workload(&workload);
    }
}

#[test]
fn a_full_drain_survives_the_store() {
    check_drain(&drain());
}

#[test]
fn every_drain_state_and_mode_survives_the_store() {
    for state in DrainState::ALL {
        check_drain(&Drain { state, ..drain() });
    }
    for mode in Mode::ALL {
        let plan = Plan { mode, save_signal: None, ..drain().plan };
        check_drain(&Drain { plan, beneficiary: None, saved: None, saved_at: None, ..drain() });
    }
}

#[test]
fn the_field_at_fault_is_named_with_its_path() {
    let mut broken = pb::Workload::from(&workload());
    broken.members[1].nodes[0] = "no spaces".to_owned();
    let expected = "1 to 253 letters, digits, '-', '_', '.', '/' or ':'";
    let error = WireError::new("members[1].nodes[0]", "no spaces", expected);
    assert_eq!(Workload::try_from(&broken), Err(error));
}

#[test]
fn limits_of_a_submitted_spec_are_told() {
    let spec = pb::WorkloadSpec { nnodes: 5_000, ..(&spec()).into() };
    let error = WorkloadSpec::try_from(&spec).unwrap_err();
    assert_eq!(error.to_string(), "nnodes is \"5000\" but must be 1 to 4096");
    let spec = pb::WorkloadSpec { nnodes: 1, save_signal: 65, ..spec };
    let error = WorkloadSpec::try_from(&spec).unwrap_err();
    let text = "save_signal is \"65\" but must be 0 (none) or a signal number, 1 to 64";
    assert_eq!(error.to_string(), text);
}

/// A queue of two flavors in a cohort, with a LocalQueue.
const QUEUES: &str = "
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: a3}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  cohortName: all
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: a3
      resources: [{name: nvidia.com/gpu, nominalQuota: 8, borrowingLimit: 2}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: team-a}
spec: {clusterQueue: research}
";

fn snapshot() -> Snapshot {
    let config = Config {
        epoch: 7,
        queues: crate::queues::served("f", QUEUES.to_owned()).unwrap(),
        generations: crate::slices::table(),
        fair_sharing: true,
        rules: Rules::all().without(Rule::LostWork),
        hold_off_ms_max: 13,
        drain_deadlines_ms: BTreeMap::from([(-5, 20_000), (100, 45_000)]),
        drains_per_hour: 9,
        restart_assumed_ms: 11,
        unseen_work_ms_max: 12,
        checkpoint_drain: false,
        ..Config::default()
    };
    let node = Node {
        connected: true,
        since: Time(3),
        joined_at: Time(2),
        labels: [("example.com/rack".to_owned(), "r7".to_owned())].into(),
        devices: super::devices(),
        workers: super::workers(),
        fault_at: Some(Time(4)),
    };
    Snapshot {
        config,
        now: Time(1_764_000_000_777),
        started_at: Time(1_764_000_000_000),
        nodes: BTreeMap::from([("n1".parse().unwrap(), node)]),
        workloads: BTreeMap::from([(workload().spec.name.clone(), workload())]),
        drains: BTreeMap::from([(drain().id.clone(), drain())]),
        avoid_until: BTreeMap::from([("train".parse().unwrap(), Time(9))]),
        next_drain: 13,
        frozen_by_hand: Some(String::new()),
        awaited: set(&["n1"]),
        retry_at: Some(Time(10)),
        hold_offs: [("w1".parse().unwrap(), None), ("w2".parse().unwrap(), Some(Time(12)))].into(),
        breaker_open: true,
        wave_open: true,
        known_before: 17,
        recalled: BTreeMap::from([(
            "n2".parse().unwrap(),
            NodeFaults { devices: set(&["gpu-1"]), at: Some(Time(8)) },
        )]),
        dirty: true,
    }
}

#[test]
fn the_whole_state_survives_the_record() {
    let bytes = pb::RecordStart::from(&snapshot()).encode_to_vec();
    let back = pb::RecordStart::decode(bytes.as_slice()).unwrap();
    assert_eq!(Snapshot::try_from(&back), Ok(snapshot()));
}

#[test]
fn every_input_survives_the_record() {
    let workload = || "train".parse().unwrap();
    let node = || "n1".parse().unwrap();
    let launcher = || "l-0".parse().unwrap();
    let worker = || "train/1/0".parse().unwrap();
    let event = DrainEvent {
        drain: "drain-1".parse().unwrap(),
        epoch: 2,
        worker: worker(),
        kind: EventKind::Signalled,
    };
    let report = NodeReport { devices: super::devices(), ..NodeReport::default() };
    for input in [
        Input::Submit { spec: spec(), rank: 1, launcher: launcher(), nodes: set(&["n1", "n2"]) },
        Input::Attach { workload: workload(), rank: 1, launcher: launcher() },
        Input::Detach { workload: workload(), rank: 1, launcher: launcher() },
        Input::ReportExit { worker: worker(), launcher: launcher(), exit: Exit::Signal(9) },
        Input::Cancel { workload: workload() },
        Input::Freeze { why: "why".to_owned() },
        Input::Unfreeze,
        Input::Rehearse { workload: workload(), deadline_ms: 7_000 },
        Input::AgentConnected { node: node() },
        Input::AgentDisconnected { node: node() },
        Input::NodeReport { node: node(), report },
        Input::DrainEvent { node: node(), event },
        Input::Tick,
    ] {
        let bytes = record::step(Time(5), &input).encode_to_vec();
        let back = pb::RecordStep::decode(bytes.as_slice()).unwrap();
        assert_eq!(record::step_in(&back), Ok((Time(5), input)));
    }
}
