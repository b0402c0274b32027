use expect_test::{Expect, expect};

use super::list::{Listing, Row};
use super::*;
use crate::paint::resolve;
use crate::view::drain::DrainView;
use crate::view::fixtures::{drain, node, now, pending, queue, running};
use crate::view::node::NodeView;
use crate::view::queue::QueueView;
use crate::view::workload::WorkloadView;

fn listing(kind: Kind, items: Vec<Item>) -> Listing {
    Listing::new(kind, items)
}

fn check(listing: &Listing, wide: bool, expected: &Expect) {
    expected.assert_eq(&resolve(&listing.table(wide), false));
}

fn workloads() -> Listing {
    let view = |w: &_| Item::Workload(Box::new(WorkloadView::of(w, now())));
    listing(Kind::Workloads, vec![view(&running()), view(&pending())])
}

#[test]
fn workloads_are_lines_and_names_cannot_paint() {
    check(
        &workloads(),
        false,
        &expect![[r#"
        NAME             QUEUE     PRIORITY   PHASE     DEVICES   NODES   START   SINCE   AGE     REASON
        train            default   0          Running   2/2       gpu-7   2       90s     10m0s   started
        eval\u{1b}[31m   default   -5         Pending   0/2       -       0       42s     42s     waiting-for-devices
    "#]],
    );
    check(
        &workloads(),
        true,
        &expect![[r#"
        NAME             QUEUE     PRIORITY   PHASE     DEVICES   NODES   START   SINCE   AGE     REASON                RANKS   AHEAD   STEP   CHECKPOINT-AGE   DRAINS   WHY
        train            default   0          Running   2/2       gpu-7   2       90s     10m0s   started               1/1     0       40     12s              1        all ranks run (start number 2)
        eval\u{1b}[31m   default   -5         Pending   0/2       -       0       42s     42s     waiting-for-devices   1/1     1       -      -                0        1 x 2 nvidia.com/gpu do not fit on the free devices (0 are free and usable)
    "#]],
    );
}

#[test]
fn devices_of_a_silent_node_are_unknown() {
    let devices = |connected| {
        let mut nodes = [NodeView::of(&node(connected))];
        super::devices::assign(&mut nodes, &[WorkloadView::of(&running(), now())]);
        let [node] = nodes;
        let items = node.devices.into_iter().map(|d| Item::Device(Box::new(d)));
        listing(Kind::Devices, items.collect())
    };
    check(
        &devices(true),
        false,
        &expect![[r#"
        NAME          NODE    INDEX   KIND        RESOURCE         HEALTH    WORKLOAD   AGE     SOURCE
        sim-gpu-7-0   gpu-7   0       nvidia-l4   nvidia.com/gpu   Healthy   train      400ms   simulated
        sim-gpu-7-1   gpu-7   1       nvidia-l4   nvidia.com/gpu   Healthy   train      400ms   simulated
    "#]],
    );
    check(
        &devices(false),
        true,
        &expect![[r#"
            NAME          NODE    INDEX   KIND        RESOURCE         HEALTH    WORKLOAD   AGE     SOURCE      PCI   ACTION   FAULTS   MEMORY   PIDS   REASON
            sim-gpu-7-0   gpu-7   0       nvidia-l4   nvidia.com/gpu   Unknown   train      400ms   simulated   -     none     0        24 GiB   4711   nothing has been heard for 40.0 s
            sim-gpu-7-1   gpu-7   1       nvidia-l4   nvidia.com/gpu   Unknown   train      400ms   simulated   -     none     0        24 GiB   4711   nothing has been heard for 40.0 s
        "#]],
    );
}

#[test]
fn nodes_say_when_they_were_seen() {
    let nodes = [node(true), node(false)];
    let items = nodes.iter().map(|n| Item::Node(Box::new(NodeView::of(n)))).collect();
    check(
        &listing(Kind::Nodes, items),
        true,
        &expect![[r#"
        NAME    STATUS      HEALTHY   KIND                    WORKERS   SEEN    VERSION   VOLUMES   SESSION   BOOT       REASON
        gpu-7   Connected   2/2       nvidia-l4 (simulated)   1         300ms   0.1.0     1         2         0f3c9a2e   the agent is connected
        gpu-7   Unknown     0/2       nvidia-l4 (simulated)   1         40s     0.1.0     1         2         0f3c9a2e   nothing has been heard for 40.0 s
    "#]],
    );
}

#[test]
fn volumes_show_read_ahead_and_rates() {
    let volumes = NodeView::of(&node(true)).volumes;
    let items = volumes.into_iter().map(|v| Item::Volume(Box::new(v))).collect();
    check(
        &listing(Kind::Volumes, items),
        true,
        &expect![[r#"
        NAME      NODE    KIND   SIZE      READ-AHEAD              READ/S    WRITE/S   BUSY    LIMITED-BY   MOUNT   AGE     CLOUD-DISK      SCHEDULER   READ-AWAIT   WRITE-AWAIT   MODEL   BELOW   PV       PODS
        nvme0n1   gpu-7   disk   1.0 TiB   128 KiB (not 4.0 MiB)   300 MiB   0 B       42.5%   read-ahead   /data   800ms   model-weights   -           -            -             -       -       models   0c7a
    "#]],
    );
}

#[test]
fn queues_have_a_line_for_each_resource() {
    let items = vec![Item::Queue(QueueView::of(&queue()))];
    check(
        &listing(Kind::Queues, items),
        true,
        &expect![[r#"
        NAME      COHORT   FLAVOR    RESOURCE         USED   NOMINAL   BORROW-LIMIT   PENDING   ADMITTED   PREEMPTS   LOCAL-QUEUES
        default   -        default   nvidia.com/gpu   2      4         -              1         1          yes        -
    "#]],
    );
}

#[test]
fn drains_show_what_they_lost_and_saved() {
    let items = vec![Item::Drain(Box::new(DrainView::of(&drain(), now())))];
    check(
        &listing(Kind::Drains, items),
        true,
        &expect![[r#"
            NAME      VICTIM   FOR     STATE     MODE     AT-RISK      LOST        SAVED        AGE    STEP   IDLE        RESTART   RANKS   EPOCH   CAUSE
            drain-1   train    serve   RESUMED   SIGNAL   24.0 GPU-s   0.4 GPU-s   23.6 GPU-s   5m0s   40     3.0 GPU-s   2.1 s     1       3       serve (priority 100) needs the devices
        "#]],
    );
}

#[test]
fn a_name_that_does_not_exist_is_an_error() {
    let mut listing = workloads();
    let failure = listing.keep(&["nobody".to_owned()]).expect_err("there is none");
    assert_eq!(failure.message, "there is no workload \"nobody\"");
    listing.keep(&["train".to_owned()]).expect("there is one");
    assert_eq!(listing.rows.len(), 1);
}

#[test]
#[allow(clippy::too_many_lines, reason = "the schema is shown whole")]
fn json_has_units_and_a_version() {
    let mut listing = workloads();
    listing.keep(&["train".to_owned()]).expect("there is one");
    let text = output::encode(Format::Json, &listing.document()).expect("encodes");
    expect![[r#"
        {
          "apiVersion": "sluice.dev/v1",
          "kind": "WorkloadList",
          "items": [
            {
              "name": "train",
              "queue": "default",
              "priority": 0,
              "phase": "Running",
              "reason": {
                "code": "started",
                "message": "all ranks run (start number 2)",
                "hint": "",
                "values": {}
              },
              "attempt": 2,
              "nnodes": 1,
              "resources": {
                "nvidia.com/gpu": 2
              },
              "ranks": [
                {
                  "rank": 0,
                  "launcher": "host-1-abc",
                  "attached": true,
                  "nodes": [
                    "gpu-7"
                  ],
                  "node": "gpu-7",
                  "devices": [
                    "sim-gpu-7-0",
                    "sim-gpu-7-1"
                  ],
                  "flavors": {
                    "nvidia.com/gpu": "l4"
                  },
                  "started": true,
                  "exit": null
                }
              ],
              "ahead": [],
              "ahead_count": 0,
              "submitted_at": "2027-01-15T07:50:00Z",
              "phase_since": "2027-01-15T07:58:30Z",
              "running_since": "2027-01-15T07:58:30Z",
              "waited_ms": 30000,
              "checkpoint": {
                "step": 40,
                "path": "/data/ckpt/checkpoint-40",
                "bytes": 3145728,
                "files": 5,
                "marker": "trainer_state.json",
                "grade": "local-complete"
              },
              "checkpoint_age_ms": 12000,
              "resume_step": 40,
              "profile": {
                "step_ms": 250,
                "save_interval_ms": null,
                "save_ms": null,
                "restart_ms": null,
                "signal_unproven": false,
                "drains": 1
              },
              "last_drain": "drain-1",
              "checkpoint_dir": "/data/ckpt",
              "checkpoint_format": "auto",
              "save_signal": 10,
              "exits_after_save": false,
              "drain_deadline_ms": null,
              "command": [
                "python",
                "train.py"
              ]
            }
          ]
        }
    "#]]
    .assert_eq(&text.expect("is for programs"));
}

#[test]
fn the_passing_of_time_is_no_change() {
    let comparable = |rows: &[Row]| {
        rows.iter().map(|r| super::list::comparable(Kind::Workloads, &r.lines)).collect::<Vec<_>>()
    };
    let later = now().checked_add(jiff::SignedDuration::from_secs(7)).expect("in range");
    let view = Item::Workload(Box::new(WorkloadView::of(&running(), later)));
    let later = listing(Kind::Workloads, vec![view]);
    assert_eq!(comparable(&later.rows), comparable(&workloads().rows[..1]));
}
