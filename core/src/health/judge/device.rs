//! One device: its faults, and what was seen of it.

use std::collections::{BTreeMap, BTreeSet};

use super::signs::Seen;
use crate::health::{Fault, FaultKey};
use crate::unit::Time;

/// Faults of one device at the same time. The table has some 170 codes; a node in trouble shows a handful.
const FAULTS_MAX: usize = 64;

/// One device.
#[derive(Clone, Debug, Default)]
pub(super) struct Device {
    faults: BTreeMap<FaultKey, Fault>,
    /// Faults that a reset or a restart ended: they come back as something worse.
    cured: BTreeSet<FaultKey>,
    /// Codes for which the driver asks, and has not asked yet.
    awaits_request: BTreeSet<FaultKey>,
    /// When the driver last printed what it asks for.
    pub(super) asked_at: Option<Time>,
    /// NVML knows it. `None`: nobody asked.
    pub(super) is_listed: Option<bool>,
    pub(super) seen: Seen,
}

impl Device {
    pub(super) fn faults(&self) -> impl Iterator<Item = (&FaultKey, &Fault)> {
        self.faults.iter()
    }

    pub(super) fn fault(&self, key: FaultKey) -> Option<&Fault> {
        self.faults.get(&key)
    }

    pub(super) fn cured(&self) -> impl Iterator<Item = &FaultKey> {
        self.cured.iter()
    }

    pub(super) fn was_cured_of(&self, key: FaultKey) -> bool {
        self.cured.contains(&key)
    }

    pub(super) fn note_cured(&mut self, key: FaultKey) {
        if self.cured.len() < FAULTS_MAX {
            self.cured.insert(key);
        }
    }

    pub(super) fn take_up(&mut self, key: FaultKey, fault: Fault, awaits_request: bool) {
        self.faults.insert(key, fault);
        if awaits_request {
            self.awaits_request.insert(key);
        }
    }

    pub(super) fn is_awaiting_request(&self, key: FaultKey) -> bool {
        self.awaits_request.contains(&key)
    }

    /// Raises a fault, or adds to one that stands: the worse of the two remains, since the first.
    pub(super) fn raise(&mut self, key: FaultKey, fault: Fault) {
        if let Some(standing) = self.faults.get_mut(&key) {
            let count = standing.count.saturating_add(fault.count);
            let worse = if fault.rank() >= standing.rank() { fault } else { standing.clone() };
            let (since, seen_at) = (standing.since, standing.seen_at.max(worse.seen_at));
            *standing = Fault { since, seen_at, count, ..worse };
            return;
        }
        if self.faults.len() >= FAULTS_MAX {
            // The least of all makes room, if it is less than this one.
            let least = self.faults.iter().min_by_key(|(_, f)| (f.rank(), f.seen_at));
            let least = least.filter(|(_, f)| f.rank() < fault.rank()).map(|(key, _)| *key);
            let Some(least) = least else { return };
            self.faults.remove(&least);
        }
        self.faults.insert(key, fault);
    }

    /// Says what a standing fault is now: a look knows it anew each time.
    pub(super) fn set(&mut self, key: FaultKey, fault: Fault) {
        let since = self.faults.get(&key).map_or(fault.since, |standing| standing.since);
        self.faults.insert(key, Fault { since, ..fault });
    }

    pub(super) fn clear(&mut self, key: FaultKey) -> bool {
        self.awaits_request.remove(&key);
        self.faults.remove(&key).is_some()
    }

    pub(super) fn change(&mut self, key: FaultKey, change: impl FnOnce(&mut Fault)) {
        if let Some(fault) = self.faults.get_mut(&key) {
            change(fault);
        }
    }

    /// The driver asks for what this fault needs, or will.
    pub(super) fn awaits_request(&mut self, key: FaultKey) {
        self.awaits_request.insert(key);
    }

    /// The driver has asked: from now on its request stands for these faults.
    pub(super) fn requested(&mut self, at: Time) {
        for key in &self.awaits_request {
            if let Some(fault) = self.faults.get_mut(key).filter(|fault| fault.seen_at <= at) {
                fault.health = crate::protocol::Health::Healthy;
                fault.action = crate::health::Action::None;
                fault.is_urgent = false;
            }
        }
    }

    /// The driver asks for nothing any more: what it had asked for is done.
    pub(super) fn request_done(&mut self) {
        for key in std::mem::take(&mut self.awaits_request) {
            self.faults.remove(&key);
        }
    }

    /// Ends the faults that `ends` names.
    pub(super) fn end(&mut self, ends: impl Fn(&Fault) -> bool) {
        let over: Vec<FaultKey> =
            self.faults.iter().filter(|(_, f)| ends(f)).map(|(key, _)| *key).collect();
        for key in over {
            let was_serious = self
                .faults
                .get(&key)
                .is_some_and(|f| f.health == crate::protocol::Health::Unhealthy);
            self.clear(key);
            if was_serious {
                self.note_cured(key);
            }
        }
    }

    pub(super) fn forget(&mut self, is_old: impl Fn(FaultKey, &Fault) -> bool) {
        self.faults.retain(|key, fault| !is_old(*key, fault));
        let faults = &self.faults;
        self.awaits_request.retain(|key| faults.contains_key(key));
    }
}
