//! Devices that fail: their gangs are drained while they still can save.
//!
//! A device with a fault is not offered (`devices.rs`, `engine.rs`); here is what becomes of those who work on it, and in
//! `overtake.rs` of drains that are open already. Loss of an agent drains nobody: only what an agent says of its devices
//! counts.

use std::collections::{BTreeMap, BTreeSet};

use super::{Arbiter, Node};
use crate::id::{DeviceId, NodeName, WorkloadName};
use crate::protocol::{Device, DrainNeed, Health};
use crate::reason::{Ms, Reason};
use crate::workload::{Phase, Workload};

/// Longest time for a drain when links are down or a device is gone: those who wait for each other give up after about
/// 7 s (NCCL's default), and with them goes what they have not saved. A second is kept for the orders.
const HURRY_MS: u64 = 6_000;

/// True if whoever works on it has to leave.
fn drives_out(device: &Device) -> bool {
    device.health == Health::Unhealthy
        && device.fault.as_ref().is_some_and(|fault| fault.drain != DrainNeed::None)
}

impl Arbiter {
    /// Devices of `name` whose workers have to leave.
    pub(super) fn failing_on(&self, name: &NodeName) -> BTreeSet<DeviceId> {
        self.nodes.get(name).map(failing).unwrap_or_default()
    }

    /// After a restart: which nodes have such devices.
    pub(super) fn find_failing(&mut self) {
        let nodes = self.nodes.iter().filter(|(_, node)| !failing(node).is_empty());
        self.failing = nodes.map(|(name, _)| name.clone()).collect();
    }

    /// Drains whoever works on a device that fails, for nobody's benefit.
    pub(super) fn drain_failing(&mut self) {
        if self.failing.is_empty() || self.frozen().is_some() || self.is_fleet_missing() {
            return;
        }
        for (name, Departure { within_ms, fault }) in self.driven_out() {
            match self.open_drain_of(&name).map(|drain| drain.id.clone()) {
                Some(open) => self.overtake(&open, within_ms, fault),
                None => drop(self.start_drain(&name, None, within_ms, fault.cause())),
            }
        }
    }

    /// Who has to leave. The most urgent device of a gang counts.
    fn driven_out(&self) -> BTreeMap<WorkloadName, Departure> {
        let mut out: BTreeMap<WorkloadName, Departure> = BTreeMap::new();
        for node_name in &self.failing {
            let Some(node) = self.nodes.get(node_name).filter(|node| node.connected) else {
                continue;
            };
            for (id, device) in node.devices.iter().filter(|(_, device)| drives_out(device)) {
                let Some(fault) = &device.fault else { continue };
                for holder in self.holders.of(node_name, id) {
                    let within_ms = self.leaves_within(holder, node_name, id, fault.drain);
                    let Some(within_ms) = within_ms else { continue };
                    if out.get(holder).is_some_and(|known| known.within_ms <= within_ms) {
                        continue;
                    }
                    let fault = Failing {
                        node: node_name.clone(),
                        device: id.clone(),
                        fault: fault_text(&fault.reason),
                        action: fault.action.to_string(),
                    };
                    out.insert(holder.clone(), Departure { within_ms, fault });
                }
            }
        }
        out
    }

    /// `None`: it does not run on the device, or has just refused to leave.
    fn leaves_within(
        &self,
        holder: &WorkloadName,
        node: &NodeName,
        device: &DeviceId,
        need: DrainNeed,
    ) -> Option<u64> {
        let is_there = |w: &&Workload| matches!(w.phase, Phase::Running | Phase::Draining);
        let workload = self.workloads.get(holder).filter(is_there)?;
        let runs_on = workload.members.values().filter_map(|m| m.assignment.as_ref());
        let is_here = runs_on.into_iter().any(|a| a.node == *node && a.devices.contains(device));
        let leaves = workload.phase == Phase::Draining && self.open_drain_of(holder).is_some();
        let may_start = workload.phase == Phase::Running && !self.avoid_until.contains_key(holder);
        if !is_here || !(leaves || may_start) {
            return None;
        }
        let usual_ms = self.deadline_of(workload);
        Some(if need == DrainNeed::Hurry { usual_ms.min(HURRY_MS) } else { usual_ms })
    }
}

/// That somebody has to leave: within which time, and for what.
struct Departure {
    within_ms: u64,
    fault: Failing,
}

/// A device that fails, in words.
pub(super) struct Failing {
    node: NodeName,
    device: DeviceId,
    fault: String,
    action: String,
}

impl Failing {
    pub(super) fn cause(self) -> Reason {
        let Self { node, device, fault, action } = self;
        Reason::DeviceFault { node, device, fault, action }
    }

    pub(super) fn hurries(self, left_ms: u64) -> Reason {
        let Self { node, device, fault, action } = self;
        Reason::DrainHurried { node, device, fault, action, left_ms: Ms(left_ms) }
    }

    pub(super) fn overtakes(&self) -> Reason {
        Reason::OvertakenByFault { node: self.node.clone(), device: self.device.clone() }
    }
}

pub(super) fn failing(node: &Node) -> BTreeSet<DeviceId> {
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
