//! Tests of the queue of events.

use sluice::wire::pb;
use sluice::wire::pb::drain_event::Kind;

use super::Outbox;

fn event(rank: u32, epoch: u64, kind: Kind) -> pb::DrainEvent {
    pb::DrainEvent {
        drain_id: "drain-1".to_owned(),
        epoch,
        workload: "train".to_owned(),
        attempt: 1,
        rank,
        kind: Some(kind),
    }
}

fn armed() -> Kind {
    Kind::Armed(pb::Armed::default())
}

fn aborted() -> Kind {
    Kind::Aborted(pb::Aborted {})
}

fn drain(outbox: &Outbox, seqs: std::ops::RangeInclusive<u64>) -> Vec<pb::DrainEvent> {
    seqs.map_while(|seq| outbox.take(seq)).collect()
}

#[test]
fn events_stay_in_order_until_they_are_acknowledged() {
    let outbox = Outbox::default();
    let sent = [event(0, 1, armed()), event(1, 1, armed()), event(0, 1, aborted())];
    sent.iter().cloned().for_each(|event| outbox.push(event));
    assert_eq!(drain(&outbox, 5..=9), sent);
    outbox.acknowledged(5);
    assert_eq!(outbox.take(10), None, "nothing is sent twice on one stream");
    outbox.start_over();
    assert_eq!(drain(&outbox, 11..=19), sent[1..]);
    outbox.acknowledged(12);
    assert_eq!(outbox.len(), 0);
}

#[test]
fn an_event_that_waits_is_replaced_by_a_newer_one_of_its_kind_and_one_that_was_sent_is_not() {
    let outbox = Outbox::default();
    outbox.push(event(0, 1, armed()));
    outbox.push(event(0, 1, aborted()));
    outbox.push(event(0, 2, armed()));
    assert_eq!(drain(&outbox, 1..=9), [event(0, 2, armed()), event(0, 1, aborted())]);
    outbox.push(event(0, 3, armed()));
    assert_eq!(drain(&outbox, 3..=9), [event(0, 3, armed())]);
    assert_eq!(outbox.len(), 3);
}

#[test]
fn a_long_absence_of_the_arbiter_does_not_let_the_queue_grow() {
    let outbox = Outbox::default();
    for epoch in 0..100_000 {
        outbox.push(event(0, epoch, armed()));
    }
    assert_eq!(drain(&outbox, 1..=9), [event(0, 99_999, armed())]);
}
