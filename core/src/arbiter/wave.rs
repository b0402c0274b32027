//! The breaker for waves of faults: when half of the nodes begin to fail within minutes, that is more likely one mistake
//! than so many devices, and nothing new is decided until somebody has looked or most nodes are in order.
//!
//! Who counts: a node that is there and was there before. One that joins may bring faults as old as itself. One that was
//! known and comes back does not join: what it has now and had not when it was last heard is new, however long its
//! agent was away, and also if the arbiter was away. For that the faults of nodes, and whether the breaker is open,
//! outlast the arbiter ([`Faults`]).

use std::collections::{BTreeMap, BTreeSet};

use super::faults::failing;
use super::{Arbiter, DecisionKind, Node, Output};
use crate::id::{DeviceId, NodeName};
use crate::reason::Reason;
use crate::unit::Time;

/// Faults within this time are one wave.
const WAVE_MS: u64 = 300_000;

/// A node that has joined not long ago does not count for a wave: it may bring old faults.
const JOINING_MS: u64 = 60_000;

/// No wave among fewer nodes: with one or two, half of them is a single machine.
const WAVE_NODES_MIN: usize = 3;

/// Faults of a node, as they outlast the arbiter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFaults {
    /// Devices whose workers have to leave.
    pub devices: BTreeSet<DeviceId>,
    /// When one of them last began to fail. `None`: it came with them, or somebody has looked since.
    pub at: Option<Time>,
}

/// What an earlier arbiter knew of faults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// The breaker was open.
    pub is_open: bool,
    /// How many nodes it knew.
    pub known: usize,
    /// Nodes of which there is anything to know.
    pub nodes: BTreeMap<NodeName, NodeFaults>,
}

impl Arbiter {
    /// Takes up what an earlier arbiter knew of faults. Before the first step.
    pub fn take_up_faults(&mut self, faults: Faults) {
        self.wave_open = faults.is_open;
        self.known_before = faults.known;
        self.recalled = faults.nodes;
    }

    /// Whether the breaker is open, for the store.
    #[must_use]
    pub fn is_wave_open(&self) -> bool {
        self.wave_open
    }

    /// How many nodes are known, for the store: until as many are back the next arbiter judges no wave.
    #[must_use]
    pub fn known_nodes(&self) -> usize {
        self.nodes.len().max(if self.is_young() { self.known_before } else { 0 })
    }

    /// What is to be stored of the node's faults; `None`: nothing.
    #[must_use]
    pub fn node_faults(&self, name: &NodeName) -> Option<NodeFaults> {
        let of_node = |node: &Node| NodeFaults { devices: failing(node), at: node.fault_at };
        let recalled = self.recalled.get(name).cloned();
        let faults = recalled.or_else(|| self.nodes.get(name).map(of_node))?;
        (!faults.devices.is_empty() || faults.at.is_some()).then_some(faults)
    }

    /// When a node that says its first word is taken to have joined: now, unless it was there before.
    pub(super) fn joined_at(&self, name: &NodeName) -> Time {
        // All agents of a fleet come back to an arbiter that was restarted.
        let comes_back = self.config.epoch > 1 && self.is_young();
        if comes_back || self.recalled.contains_key(name) || self.awaited.contains(name) {
            return self.now.minus_ms(JOINING_MS);
        }
        self.now
    }

    /// Agents come back to a new arbiter, and some are missing: whether what it hears is a wave cannot be said yet.
    pub(super) fn is_fleet_missing(&self) -> bool {
        let is_early = self.now.ms_since(self.started_at) < self.config.recovery_ms;
        is_early && self.nodes.values().filter(|n| n.connected).count() < self.known_before
    }

    /// The arbiter has not run for long enough that every agent has come back.
    fn is_young(&self) -> bool {
        self.now.ms_since(self.started_at) < JOINING_MS
    }

    /// After a report: notes a fault that the node did not have before.
    pub(super) fn note_faults(&mut self, name: &NodeName, mut before: BTreeSet<DeviceId>) {
        let now = self.now;
        let recalled = self.recalled.remove(name);
        let Some(node) = self.nodes.get_mut(name) else { return };
        let was_at = node.fault_at;
        if let Some(recalled) = recalled {
            before.extend(recalled.devices);
            node.fault_at = node.fault_at.max(recalled.at);
        }
        let failing = failing(node);
        if failing.difference(&before).next().is_some() && is_settled(node, now) {
            node.fault_at = Some(now);
        }
        let is_new = failing != before || node.fault_at != was_at;
        if failing.is_empty() {
            self.failing.remove(name);
        } else {
            self.failing.insert(name.clone());
        }
        if is_new {
            self.outputs.push(Output::SaveNodeFaults(name.clone()));
        }
    }

    /// Opens when half of the nodes have new faults within minutes. Closes when most nodes are in order, or by hand.
    pub(super) fn check_wave(&mut self) {
        let now = self.now;
        let is_counted = |n: &&Node| n.connected && is_settled(n, now);
        let known = self.nodes.values().filter(is_counted).count();
        let recent = |n: &&Node| n.fault_at.is_some_and(|at| now.ms_since(at) < WAVE_MS);
        let faulty = self.nodes.values().filter(is_counted).filter(recent).count();
        let is_wave = known >= WAVE_NODES_MIN && faulty * 2 >= known && !self.is_fleet_missing();
        let (failing, present) = self.failing_present();
        let open = is_wave || self.wave_open && failing * 2 >= present;
        if open == self.wave_open {
            return;
        }
        self.wave_open = open;
        self.dirty = true;
        self.outputs.push(Output::SaveWave);
        let reason = if open { self.wave_reason() } else { Reason::Unfrozen };
        self.decided(DecisionKind::Freeze, None, reason);
    }

    pub(super) fn wave_reason(&self) -> Reason {
        let (faulty, known) = self.failing_present();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Reason::MostNodesFaulty { faulty: count(faulty), known: count(known) }
    }

    /// Nodes that have a device whose workers have to leave, and all nodes: of those that are there, and while agents
    /// come back to a new arbiter also of those that had such devices when they were last heard.
    fn failing_present(&self) -> (usize, usize) {
        let nodes = self.failing.iter().filter_map(|name| self.nodes.get(name));
        let failing = nodes.filter(|node| node.connected).count();
        let connected = self.nodes.values().filter(|node| node.connected).count();
        let had_faults = |faults: &&NodeFaults| !faults.devices.is_empty();
        let away = self.recalled.values().filter(had_faults).count();
        let away = if self.is_young() { away } else { 0 };
        (failing + away, connected + away)
    }

    /// When the breaker has to be looked at again without any input.
    pub(super) fn wave_due(&self) -> Option<Time> {
        let may_drain = !self.failing.is_empty() || !self.sliced.is_empty();
        if self.is_fleet_missing() && may_drain {
            return Some(self.started_at.plus_ms(self.config.recovery_ms));
        }
        let waits = self.wave_open && !self.recalled.is_empty();
        waits.then(|| self.started_at.plus_ms(JOINING_MS))
    }

    /// Somebody has looked at the wave and wants decisions.
    pub(super) fn dismiss_wave(&mut self) {
        let mut changed = Vec::new();
        let known = self.nodes.iter_mut().map(|(name, node)| (name, &mut node.fault_at));
        let recalled = self.recalled.iter_mut().map(|(name, faults)| (name, &mut faults.at));
        for (name, at) in known.chain(recalled) {
            if at.take().is_some() {
                changed.push(Output::SaveNodeFaults(name.clone()));
            }
        }
        self.outputs.extend(changed);
        if std::mem::take(&mut self.wave_open) {
            self.outputs.push(Output::SaveWave);
        }
    }

    /// A node is gone for good.
    pub(super) fn forget_faults(&mut self, name: &NodeName) {
        self.failing.remove(name);
        self.recalled.remove(name);
        self.outputs.extend([Output::SaveNodeFaults(name.clone()), Output::SaveWave]);
    }

    /// Nodes that an earlier arbiter knew and that have not come back for so long.
    pub(super) fn lost_since(&self, forgotten_ms: u64) -> Vec<NodeName> {
        if self.now.ms_since(self.started_at) < forgotten_ms {
            return Vec::new();
        }
        let away = |name: &&NodeName| !self.nodes.contains_key(*name);
        self.recalled.keys().filter(away).cloned().collect()
    }
}

fn is_settled(node: &Node, now: Time) -> bool {
    now.ms_since(node.joined_at) >= JOINING_MS
}
