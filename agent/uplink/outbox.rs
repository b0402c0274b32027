//! Drain events on their way to the arbiter: in order, each kept until it is acknowledged.
//!
//! An event that has not been sent yet is replaced by a newer one of the same kind about the same worker of the same
//! drain, so an arbiter that is away for long does not let the queue grow: at most one of each kind waits. What was
//! sent and not acknowledged is sent again on the next stream; the arbiter takes repetitions for what they are.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluice::wire::pb;
use sluice_core::agent::HANDS_MAX;
use tokio::sync::Notify;
use tracing::error;

/// Most events kept: each drain of each worker has some ten kinds. It cannot be reached as long as events are
/// replaced; if it is, the newest is left out, and the arbiter asks anew where the drain stands.
const EVENTS_MAX: usize = HANDS_MAX * 16;

/// The queue. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outbox {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    entries: Mutex<VecDeque<Entry>>,
    pushed: Notify,
}

#[derive(Debug)]
struct Entry {
    event: pb::DrainEvent,
    /// Where it went on the stream that is up; `None`: not sent on it.
    seq: Option<u64>,
}

impl Outbox {
    /// Adds an event.
    pub(crate) fn push(&self, event: pb::DrainEvent) {
        let mut entries = self.entries();
        let waiting = entries.iter_mut().find(|e| e.seq.is_none() && is_same(&e.event, &event));
        if let Some(entry) = waiting {
            entry.event = event;
        } else if entries.len() < EVENTS_MAX {
            entries.push_back(Entry { event, seq: None });
        } else {
            error!(
                drain = event.drain_id,
                "an event for the arbiter is left out: {EVENTS_MAX} wait already"
            );
        }
        drop(entries);
        self.shared.pushed.notify_one();
    }

    /// The oldest event that was not sent on this stream; it counts as sent at `seq`.
    pub(super) fn take(&self, seq: u64) -> Option<pb::DrainEvent> {
        let mut entries = self.entries();
        let entry = entries.iter_mut().find(|entry| entry.seq.is_none())?;
        entry.seq = Some(seq);
        Some(entry.event.clone())
    }

    /// Everything up to `seq` has arrived.
    pub(super) fn acknowledged(&self, seq: u64) {
        self.entries().retain(|entry| entry.seq.is_none_or(|sent| sent > seq));
    }

    /// A new stream: everything that is left is to be sent.
    pub(super) fn start_over(&self) {
        self.entries().iter_mut().for_each(|entry| entry.seq = None);
    }

    /// Waits until something was added. Cancel safe.
    pub(super) async fn pushed(&self) {
        self.shared.pushed.notified().await;
    }

    /// Number of events not acknowledged.
    pub(crate) fn len(&self) -> usize {
        self.entries().len()
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        // No operation on the queue can be interrupted half-way by a panic.
        self.shared.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the newer event says all that the older one does.
fn is_same(older: &pb::DrainEvent, newer: &pb::DrainEvent) -> bool {
    let kind = |event: &pb::DrainEvent| event.kind.as_ref().map(std::mem::discriminant);
    older.drain_id == newer.drain_id
        && older.workload == newer.workload
        && (older.attempt, older.rank) == (newer.attempt, newer.rank)
        && kind(older) == kind(newer)
}
