use expect_test::{Expect, expect};

use super::*;
use crate::paint::resolve;
use crate::view::drain::DrainView;
use crate::view::fixtures;
use crate::view::node::NodeView;
use crate::view::queue::QueueView;
use crate::view::workload::WorkloadView;

fn check(item: &Item, expected: &Expect) {
    expected.assert_eq(&resolve(&sheet(item), false));
}

#[test]
fn a_workload_in_full() {
    let view = WorkloadView::of(&fixtures::running(), fixtures::now());
    check(
        &Item::Workload(Box::new(view)),
        &expect![[r#"
            Name:            train
            Queue:           default
            Priority:        0
            Phase:           Running
            Reason:          all ranks run (start number 2) [started]
            Since:           1 min 30 s ago (2027-01-15T07:58:30Z)
            Submitted:       10 min 0 s ago (2027-01-15T07:50:00Z)
            Running:         1 min 30 s ago (2027-01-15T07:58:30Z)
            Waited:          30.0 s
            Start:           number 2
            Asks for:        2 nvidia.com/gpu
            Last drain:      drain-1
            Drain deadline:  the arbiter's default
            Command:         python train.py

            Ranks
              RANK   NODE    DEVICES                   FLAVOR   STARTED   EXIT   LAUNCHER     PRESENT   MAY RUN ON
              0      gpu-7   sim-gpu-7-0,sim-gpu-7-1   l4       yes       -      host-1-abc   yes       gpu-7

            Checkpoints
              Directory:      /data/ckpt (format auto)
              Newest:         step 40, 12.0 s old: /data/ckpt/checkpoint-40 (3.0 MiB, 5 files, complete by trainer_state.json, local-complete)
              Resumes from:   step 40
              Save signal:    10
              Step takes:     250 ms
              Saved every:    unknown
              Save takes:     unknown
              Restart takes:  unknown
              Drains:         1 within the last hour
        "#]],
    );
}

#[test]
fn a_drain_in_full() {
    let view = DrainView::of(&fixtures::drain(), fixtures::now());
    check(
        &Item::Drain(Box::new(view)),
        &expect![[r#"
        Name:          drain-1
        Victim:        train (start number 1)
        For:           serve
        Cause:         serve (priority 100) needs the devices [preempted-for]
        State:         RESUMED
        Mode:          SIGNAL
        Deadline:      1 min 0 s
        Planned:       5 min 0 s ago (2027-01-15T07:55:00Z)
        Had saved:     step 30
        Resumes from:  step 40: /data/ckpt/checkpoint-40 (3.0 MiB, 5 files, complete by trainer_state.json, local-complete)
        Replans:       0
        Epoch:         3

        Cost (all devices together)
          At risk:       24.0 GPU-s
          Lost:          0.4 GPU-s
          Saved:         23.6 GPU-s
          Idle:          3.0 GPU-s
          Restart took:  2.1 s

        Modes considered
              MODE     FREES IN   LOSES        WHY
          *   SIGNAL   1.5 s      0.4 GPU-s    loses least
              KILL     200 ms     24.0 GPU-s   would lose more

        Ranks
          RANK   NODE    DEVICES       ARMED   SIGNALLED   SAVED STEP   EXITED   FREED   KILLED
          0      gpu-7   sim-gpu-7-0   yes     yes         40           yes      yes     no

        Timeline
          AFTER    STATE     WHY
          +0 ms    PLANNED   it was the cheapest choice
          +1.0 s   SAVING    every agent may act (SIGNAL)
          +3.0 s   DURABLE   checkpoint of step 40 was found complete
    "#]],
    );
}

#[test]
fn a_node_in_full() {
    check(
        &Item::Node(Box::new(NodeView::of(&fixtures::node(true)))),
        &expect![[r#"
            Name:           gpu-7
            Status:         Connected
            Reason:         the agent is connected [node-connected]
            Last heard of:  300 ms ago
            Agent version:  0.1.0
            Node uid:       uid-1
            Boot id:        0f3c9a2e-boot
            Simulated:      yes
            Labels:         example.com/rack=r1

            Devices
              NAME          INDEX   KIND        HEALTH    AGE     SOURCE      PIDS   WHY
              sim-gpu-7-0   0       nvidia-l4   Healthy   400ms   simulated   4711   -
              sim-gpu-7-1   1       nvidia-l4   Healthy   400ms   simulated   4711   -

            Volumes
              NAME      KIND   SIZE      READ-AHEAD              READ/S    WRITE/S   BUSY    LIMITED-BY   AGE     MOUNT
              nvme0n1   disk   1.0 TiB   128 KiB (not 4.0 MiB)   300 MiB   0 B       42.5%   read-ahead   800ms   /data

            Workers
              train/2/0: Running for 1 min 30 s, pid 4711, 1 process, devices sim-gpu-7-0
                newest checkpoint: step 40, 12.0 s old: /data/ckpt/checkpoint-40 (3.0 MiB, 5 files, complete by trainer_state.json, local-complete)
                step takes unknown, saved every unknown, save takes unknown
        "#]],
    );
}

#[test]
fn a_silent_node_has_no_healthy_device() {
    let view = NodeView::of(&fixtures::node(false));
    assert_eq!(view.healthy_devices(), 0);
    let device = view.devices.into_iter().next().expect("has one");
    check(
        &Item::Device(Box::new(device)),
        &expect![[r#"
            Name:          sim-gpu-7-0
            Node:          gpu-7
            Index:         0
            Kind:          nvidia-l4
            Resource:      nvidia.com/gpu
            Simulated:     yes
            Health:        Unknown
            Reason:        nothing has been heard for 40.0 s [node-silent]
            Hint:          sluice status on the node
            To be done:    none
            PCI:           -
            Memory:        24 GiB
            Workload:      -
            Held by pids:  4711
            Source:        simulated
            Age:           400 ms
        "#]],
    );
}

#[test]
fn a_volume_in_full() {
    let volume = NodeView::of(&fixtures::node(true)).volumes.into_iter().next().expect("has one");
    check(
        &Item::Volume(Box::new(volume)),
        &expect![[r#"
        Name:        nvme0n1
        Node:        gpu-7
        Number:      259:0
        Kind:        disk
        Cloud disk:  model-weights
        Model:       -
        Serial:      -
        Size:        1.0 TiB
        Sectors:     0 B logical, 0 B physical
        Read-only:   no
        Rotational:  no
        Read-ahead:  128 KiB
        Scheduler:   -
        Below:       -
        Source:      sysfs
        Age:         800 ms

        Rates (over 1.0 s)
          Reads:         300 MiB/s, 0.000/s requests, - each
          Writes:        0 B/s, 0.000/s requests, - each
          Queue length:  0.000
          Busy:          42.5%

        Judged
          Read-ahead:  128 KiB (not 4.0 MiB)
          Asked for:   4.0 MiB (drifted)
          Limited by:  read-ahead
          warning: 128 KiB are in force instead of 4096; stage it anew (read-ahead-never-set)

        Mounts
          WHERE   TYPE   ACCESS   OPTIONS
          /data          rw

        Used by Kubernetes as
          USE   POD    VOLUME   CONTAINER   HANDLE
          pod   0c7a   models   -           -
    "#]],
    );
}

#[test]
fn a_queue_in_full() {
    check(
        &Item::Queue(QueueView::of(&fixtures::queue())),
        &expect![[r#"
            Name:          default
            Cohort:        -
            Local queues:  -
            May preempt:   yes
            Waiting:       1
            Admitted:      1

            Quota
              FLAVOR    RESOURCE         USED   NOMINAL   BORROWING LIMIT
              default   nvidia.com/gpu   2      4         -
        "#]],
    );
}

/// A key that is there twice makes strict readers refuse the document, and others take the wrong one.
#[test]
fn no_key_of_a_document_is_there_twice() {
    let node = NodeView::of(&fixtures::node(true));
    let items = [
        Item::Device(Box::new(node.devices[0].clone())),
        Item::Volume(Box::new(node.volumes[0].clone())),
        Item::Workload(Box::new(WorkloadView::of(&fixtures::running(), fixtures::now()))),
        Item::Drain(Box::new(DrainView::of(&fixtures::drain(), fixtures::now()))),
        Item::Queue(QueueView::of(&fixtures::queue())),
        Item::Node(Box::new(node)),
    ];
    for item in items {
        let text = serde_json::to_string_pretty(&Document::new("Thing", &item)).unwrap();
        let top = |line: &&str| line.starts_with("  \"");
        let keys: Vec<&str> =
            text.lines().filter(top).filter_map(|l| l.split(':').next()).collect();
        let once: std::collections::BTreeSet<&str> = keys.iter().copied().collect();
        assert_eq!(keys.len(), once.len(), "{text}");
    }
}
