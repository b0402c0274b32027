//! Which workloads need a look at every step: most of those that run do not. Follows from the workloads.

use std::collections::{BTreeMap, BTreeSet};

use super::Arbiter;
use crate::id::{NodeName, WorkloadName};
use crate::workload::{Member, Phase, Workload};

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Watchlist {
    /// They are starting, are not complete, or have lost a launcher or a worker.
    watched: BTreeSet<WorkloadName>,
    /// They wait for their start.
    pending: BTreeSet<WorkloadName>,
    /// They wait, and have something reserved.
    reserved: BTreeSet<WorkloadName>,
    /// They have ended.
    finished: BTreeSet<WorkloadName>,
    /// They hold devices and could not be drained when that was looked at last.
    bound: BTreeSet<WorkloadName>,
    by_node: BTreeMap<NodeName, BTreeSet<WorkloadName>>,
    nodes_of: BTreeMap<WorkloadName, BTreeSet<NodeName>>,
}

impl Watchlist {
    /// `workload` is as it is now.
    fn note(&mut self, name: &WorkloadName, workload: Option<&Workload>) {
        let set = |set: &mut BTreeSet<WorkloadName>, is_in: bool| match is_in {
            true => drop(set.insert(name.clone())),
            false => drop(set.remove(name)),
        };
        let is_pending = |w: &Workload| w.phase == Phase::Pending;
        set(&mut self.watched, workload.is_some_and(needs_a_look));
        set(&mut self.pending, workload.is_some_and(is_pending));
        let has_reserved = |w: &Workload| is_pending(w) && w.reservation.is_some();
        set(&mut self.reserved, workload.is_some_and(has_reserved));
        set(&mut self.finished, workload.is_some_and(|w| w.phase.is_finished()));
        if workload.is_none_or(|w| !w.phase.holds_devices()) {
            self.bound.remove(name);
        }
        let members = workload.into_iter().flat_map(|w| w.members.values());
        let assigned = members.filter_map(|m| m.assignment.as_ref());
        let nodes: BTreeSet<NodeName> = assigned.map(|a| a.node.clone()).collect();
        self.set_nodes(name, nodes);
    }

    fn set_nodes(&mut self, name: &WorkloadName, nodes: BTreeSet<NodeName>) {
        if self.nodes_of.get(name).unwrap_or(&BTreeSet::new()) == &nodes {
            return;
        }
        for node in self.nodes_of.remove(name).unwrap_or_default() {
            if let Some(there) = self.by_node.get_mut(&node) {
                there.remove(name);
                if there.is_empty() {
                    self.by_node.remove(&node);
                }
            }
        }
        for node in &nodes {
            self.by_node.entry(node.clone()).or_default().insert(name.clone());
        }
        if !nodes.is_empty() {
            self.nodes_of.insert(name.clone(), nodes);
        }
    }

    /// Those that have ended.
    pub(super) fn finished(&self) -> &BTreeSet<WorkloadName> {
        &self.finished
    }

    /// Those with a rank that runs or is to run on `node`.
    pub(super) fn on(&self, node: &NodeName) -> impl Iterator<Item = &WorkloadName> {
        self.by_node.get(node).into_iter().flatten()
    }

    pub(super) fn bound(&self) -> &BTreeSet<WorkloadName> {
        &self.bound
    }

    pub(super) fn set_bound(&mut self, name: &WorkloadName, is_bound: bool) {
        if is_bound {
            self.bound.insert(name.clone());
        } else {
            self.bound.remove(name);
        }
    }
}

/// Whether time alone may change something about it.
fn needs_a_look(workload: &Workload) -> bool {
    let is_lost =
        |member: &Member| member.vanished_at.is_some() || is_away_before_its_start(member);
    match workload.phase {
        Phase::Admitted => true,
        Phase::Pending => !workload.is_complete() || workload.members.values().any(is_lost),
        Phase::Running | Phase::Draining => workload.members.values().any(is_lost),
        Phase::Succeeded | Phase::Failed | Phase::Cancelled => false,
    }
}

fn is_away_before_its_start(member: &Member) -> bool {
    !member.started && member.detached_at.is_some()
}

impl Arbiter {
    /// Something about `name` has changed.
    pub(super) fn watch(&mut self, name: &WorkloadName) {
        self.watchlist.note(name, self.workloads.get(name));
    }

    /// Workloads about which time alone may change something, by name: they are starting, are not complete, or have
    /// lost a launcher or a worker.
    pub(super) fn watched(&self) -> impl Iterator<Item = &Workload> {
        self.watchlist.watched.iter().filter_map(|name| self.workloads.get(name))
    }

    /// Those that wait for their start.
    pub(super) fn pending(&self) -> impl Iterator<Item = &Workload> {
        self.watchlist.pending.iter().filter_map(|name| self.workloads.get(name))
    }

    /// Those that wait, and have something reserved.
    pub(super) fn reserved(&self) -> impl Iterator<Item = &Workload> {
        self.watchlist.reserved.iter().filter_map(|name| self.workloads.get(name))
    }
}
