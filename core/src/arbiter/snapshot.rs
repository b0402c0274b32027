//! The arbiter's whole state as a value, so that a record can begin at any moment.

use std::collections::{BTreeMap, BTreeSet};

use super::{Arbiter, Config, Node, NodeFaults};
use crate::drain::Drain;
use crate::id::{DrainId, NodeName, WorkloadName};
use crate::unit::Time;
use crate::workload::Workload;

/// Everything that decides what the next step does. See the fields of [`Arbiter`].
#[allow(missing_docs, reason = "the fields are those of Arbiter, which holds the documentation")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub config: Config,
    pub now: Time,
    pub started_at: Time,
    pub nodes: BTreeMap<NodeName, Node>,
    pub workloads: BTreeMap<WorkloadName, Workload>,
    pub drains: BTreeMap<DrainId, Drain>,
    pub avoid_until: BTreeMap<WorkloadName, Time>,
    pub next_drain: u64,
    pub frozen_by_hand: Option<String>,
    pub awaited: BTreeSet<NodeName>,
    pub retry_at: Option<Time>,
    /// Since when those who were preempted could have come back.
    pub hold_offs: BTreeMap<WorkloadName, Option<Time>>,
    pub breaker_open: bool,
    pub wave_open: bool,
    pub recalled: BTreeMap<NodeName, NodeFaults>,
    pub known_before: usize,
    pub dirty: bool,
}

impl Arbiter {
    /// The state between two steps.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        // Taken apart by name, so that a new field cannot be forgotten.
        // The scheduler and what it has been told follow from the rest; who has been looked at is not kept, see
        // `Arbiter::look_at_all`.
        let hold_offs = self.hold_offs();
        let Self {
            config,
            now,
            started_at,
            nodes,
            workloads,
            drains,
            scheduler: _,
            holders: _,
            stock: _,
            watchlist: _,
            silent: _,
            unlimited: _,
            touched: _,
            touched_nodes: _,
            avoid_until,
            next_drain,
            frozen_by_hand,
            awaited,
            retry_at,
            breaker_open,
            wave_open,
            failing: _,
            recalled,
            known_before,
            sliced: _,
            pins: _,
            dirty,
            review: _,
            outputs: _,
        } = self.clone();
        Snapshot {
            config,
            now,
            started_at,
            nodes,
            workloads,
            drains,
            avoid_until,
            next_drain,
            frozen_by_hand,
            awaited,
            retry_at,
            hold_offs,
            breaker_open,
            wave_open,
            recalled,
            known_before,
            dirty,
        }
    }

    /// An arbiter that goes on from `snapshot` as if nothing had happened.
    #[must_use]
    pub fn restore(snapshot: Snapshot) -> Self {
        let Snapshot {
            config,
            now,
            started_at,
            nodes,
            workloads,
            drains,
            avoid_until,
            next_drain,
            frozen_by_hand,
            awaited,
            retry_at,
            hold_offs,
            breaker_open,
            wave_open,
            recalled,
            known_before,
            dirty,
        } = snapshot;
        let scheduler = super::scheduler_of(&config);
        let unlimited = super::engine::unlimited(&config.queues);
        let mut arbiter = Self {
            config,
            now,
            started_at,
            nodes,
            workloads,
            drains,
            scheduler,
            holders: super::engine::Holders::default(),
            stock: super::Stock::default(),
            watchlist: super::Watchlist::default(),
            silent: BTreeSet::new(),
            unlimited,
            touched: BTreeSet::new(),
            touched_nodes: BTreeSet::new(),
            avoid_until,
            next_drain,
            frozen_by_hand,
            awaited,
            retry_at,
            breaker_open,
            wave_open,
            failing: BTreeSet::new(),
            recalled,
            known_before,
            sliced: BTreeSet::new(),
            pins: BTreeMap::new(),
            dirty,
            review: super::Review::of_all(),
            outputs: Vec::new(),
        };
        arbiter.find_failing();
        arbiter.find_sliced();
        arbiter.find_silent();
        arbiter.sync_all();
        for (name, since) in hold_offs {
            let key = super::engine::key_of(&name);
            arbiter.scheduler.restore_hold_off(key, since.map(|since| since.0));
        }
        arbiter
    }
}
