//! Orders, events and reports: what arbiter and agents say to each other.

use prost_types::Timestamp;
use sluice_core::drain::Mode;
use sluice_core::protocol::{DrainEvent, EventKind, Health, NodeReport, Order, Refusal, Verb};
use sluice_core::unit::Time;
use sluice_core::workload::{Exit, SaveSignal};

use super::{checkpoint, devices, set, workers};
use crate::wire::{WireError, field, node, pb};

fn check_order(verb: Verb) {
    let order = Order {
        drain: "drain-1".parse().unwrap(),
        epoch: 4,
        worker: "team/train/2/7".parse().unwrap(),
        verb,
    };
    assert_eq!(Order::try_from(&pb::Order::from(&order)), Ok(order));
}

#[test]
fn every_order_survives_the_wire() {
    let save_signal = Some(SaveSignal { number: 10, exits_after_save: true });
    for mode in Mode::ALL {
        check_order(Verb::Prepare { mode, save_signal, baseline_step: Some(0), hard_ms: 60_000 });
        check_order(Verb::Prepare { mode, save_signal: None, baseline_step: None, hard_ms: 0 });
    }
    check_order(Verb::Commit);
    check_order(Verb::Extend { hard_ms: 5 });
    check_order(Verb::Abort);
    check_order(Verb::Release { grace_ms: 10_000 });
    check_order(Verb::Restate);
}

fn check_event(kind: EventKind) {
    let event = DrainEvent {
        drain: "drain-1".parse().unwrap(),
        epoch: 4,
        worker: "train/2/7".parse().unwrap(),
        kind,
    };
    assert_eq!(DrainEvent::try_from(&pb::DrainEvent::from(&event)), Ok(event));
}

#[test]
fn every_drain_event_survives_the_wire() {
    check_event(EventKind::Armed { step: Some(0), checkpoint_age_ms: None });
    for refusal in Refusal::ALL {
        check_event(EventKind::Refused { refusal, detail: "why".to_owned() });
    }
    check_event(EventKind::Signalled);
    check_event(EventKind::Durable { checkpoint: checkpoint(7), age_ms: 30 });
    check_event(EventKind::SaveFailed { code: "torn".to_owned(), detail: "why".to_owned() });
    for exit in [Exit::Code(0), Exit::Signal(15), Exit::Unknown] {
        check_event(EventKind::Exited(exit));
    }
    check_event(EventKind::Freed {
        devices: set(&["GPU-1"]),
        killed: true,
        parked: true,
        release_ms: 12,
    });
    check_event(EventKind::NoProgress { waited_ms: 15_000 });
    check_event(EventKind::Aborted);
    check_event(EventKind::StaleEpoch { seen: 9 });
}

#[test]
fn an_order_without_a_verb_is_refused() {
    let order = pb::Order {
        drain_id: "drain-1".to_owned(),
        workload: "train".to_owned(),
        ..pb::Order::default()
    };
    assert_eq!(Order::try_from(&order), Err(WireError::new("verb", "absent", "present")));
}

#[test]
fn a_node_report_survives_the_wire() {
    let report = NodeReport {
        full: true,
        labels: [("example.com/rack".to_owned(), "r7".to_owned())].into(),
        devices: devices(),
        workers: workers(),
        removed_devices: set(&["GPU-9"]),
        removed_workers: set(&["team/old/3/1"]),
    };
    assert_eq!(NodeReport::try_from(&pb::Report::from(&report)), Ok(report));
}

#[test]
fn health_that_nobody_told_is_unknown() {
    assert_eq!(node::health(0), Health::Unknown);
    assert_eq!(node::health(99), Health::Unknown);
}

#[test]
fn a_bad_device_is_named_by_its_place() {
    let device = pb::Device { id: "GPU-1".to_owned(), ..pb::Device::default() };
    let report = pb::Report { devices: vec![device], ..pb::Report::default() };
    let expected = "1 to 253 letters, digits, '-', '_', '.', '/' or ':'";
    let error = WireError::new("devices[0].resource", "", expected);
    assert_eq!(NodeReport::try_from(&report), Err(error));
}

#[test]
fn times_survive_the_wire_to_the_millisecond() {
    for time in [Time(0), Time(999), Time(1_000), Time(1_764_000_000_123), Time(u64::MAX)] {
        assert_eq!(field::time("at", &field::timestamp(time)), Ok(time));
    }
}

#[test]
fn times_out_of_range_are_refused() {
    for (seconds, nanos) in [(-1, 0), (0, -1), (0, 1_000_000_000), (i64::MAX, 0)] {
        let error = field::time("at", &Timestamp { seconds, nanos }).unwrap_err();
        let shown = format!("{seconds} s {nanos} ns");
        assert_eq!(error, WireError::new("at", shown, "a time since 1970"));
    }
}
