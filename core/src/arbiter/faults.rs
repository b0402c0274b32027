//! Devices that fail: their gangs are drained while they still can save, and a wave of faults stops decisions.
//!
//! A device with a fault is not offered (`devices.rs`, `engine.rs`); here is what becomes of those who work on it. Loss of
//! an agent drains nobody: only what an agent says of its devices counts.

use std::collections::BTreeSet;

use super::{Arbiter, DecisionKind, Node};
use crate::id::{DeviceId, NodeName, WorkloadName};
use crate::protocol::{Device, DrainNeed, Health};
use crate::reason::Reason;
use crate::workload::Phase;

/// Longest time for a drain when links are down or a device is gone: those who wait for each other give up after about
/// 7 s (NCCL's default), and with them goes what they have not saved. A second is kept for the orders.
const HURRY_MS: u64 = 6_000;

/// Faults within this time are one wave.
const WAVE_MS: u64 = 300_000;

/// A node that has connected not long ago does not count for a wave: it may bring old faults.
const JOINING_MS: u64 = 60_000;

/// No wave among fewer nodes: with one or two, half of them is a single machine.
const WAVE_NODES_MIN: usize = 3;

/// True if whoever works on it has to leave.
fn drives_out(device: &Device) -> bool {
    device.health == Health::Unhealthy
        && device.fault.as_ref().is_some_and(|fault| fault.drain != DrainNeed::None)
}

impl Arbiter {
    /// After a report: notes a fault that the node did not have before.
    pub(super) fn note_faults(&mut self, name: &NodeName, before: &BTreeSet<DeviceId>) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(name) else { return };
        let failing = failing(node);
        let is_news = failing.difference(before).next().is_some();
        let is_joined = node.connected && now.ms_since(node.since) >= JOINING_MS;
        if is_news && is_joined {
            node.fault_at = Some(now);
        }
        if failing.is_empty() {
            self.failing.remove(name);
        } else {
            self.failing.insert(name.clone());
        }
    }

    /// Devices of `name` whose workers have to leave.
    pub(super) fn failing_on(&self, name: &NodeName) -> BTreeSet<DeviceId> {
        self.nodes.get(name).map(failing).unwrap_or_default()
    }

    /// After a restart: which nodes have such devices.
    pub(super) fn find_failing(&mut self) {
        let nodes = self.nodes.iter().filter(|(_, node)| !failing(node).is_empty());
        self.failing = nodes.map(|(name, _)| name.clone()).collect();
    }

    /// Opens when half of the nodes have new faults within minutes: that is more likely one mistake than so many devices.
    /// Closes when most nodes are in order, or by hand.
    pub(super) fn check_wave(&mut self) {
        let now = self.now;
        let is_counted = |n: &&Node| n.connected && now.ms_since(n.since) >= JOINING_MS;
        let known = self.nodes.values().filter(is_counted).count();
        let recent = |n: &&Node| n.fault_at.is_some_and(|at| now.ms_since(at) < WAVE_MS);
        let faulty = self.nodes.values().filter(is_counted).filter(recent).count();
        let is_wave = known >= WAVE_NODES_MIN && faulty * 2 >= known;
        let connected = self.nodes.values().filter(|node| node.connected).count();
        let is_most = self.failing_connected() * 2 >= connected;
        let open = is_wave || self.wave_open && is_most;
        if open == self.wave_open {
            return;
        }
        self.wave_open = open;
        self.dirty = true;
        let reason = if open { self.wave_reason() } else { Reason::Unfrozen };
        self.decided(DecisionKind::Freeze, None, reason);
    }

    pub(super) fn wave_reason(&self) -> Reason {
        let known = self.nodes.values().filter(|n| n.connected).count();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Reason::MostNodesFaulty { faulty: count(self.failing_connected()), known: count(known) }
    }

    /// Nodes that are there and have a device whose workers have to leave.
    fn failing_connected(&self) -> usize {
        let nodes = self.failing.iter().filter_map(|name| self.nodes.get(name));
        nodes.filter(|node| node.connected).count()
    }

    /// Somebody has looked at the wave and wants decisions.
    pub(super) fn dismiss_wave(&mut self) {
        for node in self.nodes.values_mut() {
            node.fault_at = None;
        }
        self.wave_open = false;
    }

    /// Drains whoever works on a device that fails, for nobody's benefit.
    pub(super) fn drain_failing(&mut self) {
        if self.failing.is_empty() || self.frozen().is_some() {
            return;
        }
        for (name, deadline_ms, cause) in self.driven_out() {
            self.start_drain(&name, None, deadline_ms, cause);
        }
    }

    /// Who has to leave, within which time and why. The most urgent device of a gang counts.
    fn driven_out(&self) -> Vec<(WorkloadName, u64, Reason)> {
        let mut out: Vec<(WorkloadName, u64, Reason)> = Vec::new();
        for node_name in &self.failing {
            let Some(node) = self.nodes.get(node_name).filter(|node| node.connected) else {
                continue;
            };
            for (id, device) in node.devices.iter().filter(|(_, device)| drives_out(device)) {
                let Some(fault) = &device.fault else { continue };
                for holder in self.holders.of(node_name, id) {
                    let Some(deadline_ms) = self.leaves_within(holder, node_name, id, fault.drain)
                    else {
                        continue;
                    };
                    let cause = Reason::DeviceFault {
                        node: node_name.clone(),
                        device: id.clone(),
                        fault: fault_text(&fault.reason),
                        action: fault.action.to_string(),
                    };
                    match out.iter_mut().find(|(name, ..)| name == holder) {
                        Some(known) if deadline_ms < known.1 => {
                            *known = (holder.clone(), deadline_ms, cause);
                        }
                        Some(_) => {}
                        None => out.push((holder.clone(), deadline_ms, cause)),
                    }
                }
            }
        }
        out
    }

    /// `None`: it does not run on the device, leaves already, or has just refused to.
    fn leaves_within(
        &self,
        holder: &WorkloadName,
        node: &NodeName,
        device: &DeviceId,
        need: DrainNeed,
    ) -> Option<u64> {
        let workload = self.workloads.get(holder).filter(|w| w.phase == Phase::Running)?;
        let runs_on = workload.members.values().filter_map(|m| m.assignment.as_ref());
        let is_here = runs_on.into_iter().any(|a| a.node == *node && a.devices.contains(device));
        if !is_here || self.open_drain_of(holder).is_some() || self.avoid_until.contains_key(holder)
        {
            return None;
        }
        let usual_ms = self.deadline_of(workload);
        Some(if need == DrainNeed::Hurry { usual_ms.min(HURRY_MS) } else { usual_ms })
    }
}

fn failing(node: &Node) -> BTreeSet<DeviceId> {
    let failing = node.devices.iter().filter(|(_, device)| drives_out(device));
    failing.map(|(id, _)| id.clone()).collect()
}

/// The fault in a few words: its code, and for an Xid the number.
fn fault_text(reason: &Reason) -> String {
    let values = reason.values();
    match values.get("xid").or_else(|| values.get("sxid")) {
        Some(number) => format!("{} {number}", reason.code()),
        None => reason.code().to_owned(),
    }
}
