//! What agents report, and what their silence means.

use super::{Arbiter, Decision, DecisionKind, Node, Output};
use crate::drain::DrainState;
use crate::id::{NodeName, WorkerId, WorkloadName};
use crate::protocol::{NodeReport, WorkerReport};
use crate::reason::{Ms, Reason};
use crate::workload::{Exit, Phase, Workload};

/// How long after an agent says that a worker is gone its launcher may still tell how it ended.
pub(super) const EXIT_REPORT_MS: u64 = 10_000;
/// Saves of one start that are enough to forget those of earlier ones.
const SAVES_TRUSTED: u32 = 5;
/// How long a node without workers is remembered after its agent has left.
const NODE_FORGOTTEN_MS: u64 = 3_600_000;

impl Arbiter {
    pub(super) fn agent_connected(&mut self, name: &NodeName) {
        // It counts from its first report on: until then nothing is known of what it has.
        let (now, joined_at) = (self.now, self.joined_at(name));
        let node = self.nodes.entry(name.clone()).or_insert_with(|| Node::new(now, joined_at));
        if !node.connected {
            self.silent.insert(name.clone());
        }
    }

    /// The node has said what it has.
    fn connect(&mut self, name: &NodeName) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(name).filter(|n| !n.connected) else { return };
        node.connected = true;
        node.since = now;
        self.silent.remove(name);
        self.touched_nodes.insert(name.clone());
        self.node_decided(name, Reason::NodeConnected);
        self.outputs.push(Output::SaveWave);
        self.awaited.remove(name);
        self.resend_orders(name);
        let here = self.watchlist.on(name).filter_map(|name| self.workloads.get(name));
        let ended = here.filter(|w| w.phase.is_finished());
        for ended in ended.map(|w| w.spec.name.clone()).collect::<Vec<_>>() {
            self.clear_ended_assignments(&ended);
            self.end_orphans(&ended);
        }
    }

    pub(super) fn agent_disconnected(&mut self, name: &NodeName) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(name) else { return };
        if node.connected {
            node.connected = false;
            node.since = now;
            self.silent.insert(name.clone());
            self.touched.extend(self.watchlist.on(name).cloned());
            self.touched_nodes.insert(name.clone());
            self.node_decided(name, Reason::NodeSilent { silent_ms: Ms(0) });
        }
    }

    fn node_decided(&mut self, node: &NodeName, reason: Reason) {
        self.outputs.push(Output::Decided(Decision {
            kind: DecisionKind::Node,
            workload: None,
            drain: None,
            node: Some(node.clone()),
            reason,
        }));
    }

    pub(super) fn node_report(&mut self, name: &NodeName, report: NodeReport) {
        let failed_before = self.failing_on(name);
        let Some(node) = self.nodes.get_mut(name) else { return };
        let is_same_node = is_as_told(node, &report);
        if report.full {
            node.devices.clear();
            node.labels = report.labels;
        }
        let mut gone: Vec<WorkerId> = if report.full {
            let named = |id: &&WorkerId| !report.workers.contains_key(*id);
            node.workers.keys().filter(named).cloned().collect()
        } else {
            Vec::new()
        };
        gone.extend(report.removed_workers);
        node.devices.extend(report.devices);
        for device in &report.removed_devices {
            node.devices.remove(device);
        }
        for id in &gone {
            node.workers.remove(id);
        }
        let faults = new_faults(node, &report.workers);
        node.workers.extend(report.workers.clone());
        self.dirty = true;
        if !is_same_node {
            self.touched_nodes.insert(name.clone());
        }
        self.note_faults(name, failed_before);
        for (worker, reason) in faults {
            self.decided(DecisionKind::Workload, Some(&worker), reason);
        }
        for (id, worker) in &report.workers {
            self.worker_reported(name, id, worker);
        }
        for id in gone {
            self.worker_gone(&id);
        }
        if report.full {
            self.check_unreported(name);
        }
        self.connect(name);
    }

    /// The workload, if `worker` is of its current attempt and assigned to `node`.
    fn current(&mut self, node: &NodeName, worker: &WorkerId) -> Option<&mut Workload> {
        let workload = self.workloads.get_mut(&worker.workload)?;
        let member = workload.members.get(&worker.rank)?;
        let is_here = member.assignment.as_ref().is_some_and(|a| a.node == *node);
        (workload.attempt == worker.attempt && is_here).then_some(workload)
    }

    fn worker_reported(&mut self, node: &NodeName, id: &WorkerId, report: &WorkerReport) {
        let Some(workload) = self.current(node, id) else { return };
        let name = id.workload.clone();
        if let Some(member) = workload.members.get_mut(&id.rank)
            && (!member.started || (report.running && member.vanished_at.is_some()))
        {
            member.started = true;
            member.vanished_at = None;
            self.save_workload(&name);
        }
        self.take_measurements(&name, report);
        self.take_checkpoint(&name);
        self.check_started(&name);
        self.check_resumed(&name, report);
        if !report.running {
            self.worker_gone(id);
        }
    }

    fn take_measurements(&mut self, name: &WorkloadName, report: &WorkerReport) {
        let Some(workload) = self.workloads.get_mut(name) else { return };
        let before = workload.profile.clone();
        let profile = &mut workload.profile;
        profile.step_ms = report.step_ms.or(profile.step_ms);
        profile.save_interval_ms = report.save_interval_ms.or(profile.save_interval_ms);
        profile.save_ms = match (report.save_ms, profile.save_ms) {
            // A few saves of a new start say less than all those before it.
            (Some(new), Some(before)) if report.saves < SAVES_TRUSTED => Some(new.max(before)),
            (new, before) => new.or(before),
        };
        if before != workload.profile {
            self.save_workload(name);
        }
    }

    /// The gang's checkpoint is the newest of which every rank has its part: the lowest of the ranks' newest.
    fn take_checkpoint(&mut self, name: &WorkloadName) {
        let Some(workload) = self.workloads.get(name) else { return };
        let reports: Vec<&WorkerReport> = self.reports_of(workload).collect();
        if reports.len() < workload.members.len() {
            return;
        }
        let Some(reports) = reports
            .iter()
            .map(|r| r.checkpoint.as_ref().map(|c| (c, *r)))
            .collect::<Option<Vec<_>>>()
        else {
            return;
        };
        let Some((checkpoint, report)) = reports.into_iter().min_by_key(|(c, _)| c.step) else {
            return;
        };
        if workload.checkpoint.as_ref() == Some(checkpoint) {
            return;
        }
        // One that was there at the agent's first look is of unknown age: the work since the one before counts.
        let is_seen = report.checkpoint_is_of_this_attempt;
        let age_ms = report.checkpoint_age_ms.filter(|_| is_seen);
        let at = age_ms.map(|age_ms| self.now.minus_ms(age_ms));
        let checkpoint = checkpoint.clone();
        let Some(workload) = self.workloads.get_mut(name) else { return };
        workload.checkpoint = Some(checkpoint);
        workload.checkpoint_at = at.or(workload.checkpoint_at);
        self.save_workload(name);
    }

    pub(super) fn reports_of(&self, workload: &Workload) -> impl Iterator<Item = &WorkerReport> {
        let (name, attempt) = (workload.spec.name.clone(), workload.attempt);
        workload.members.iter().filter_map(move |(rank, member)| {
            let id = WorkerId { workload: name.clone(), attempt, rank: *rank };
            self.nodes.get(&member.assignment.as_ref()?.node)?.workers.get(&id)
        })
    }

    /// All ranks run: whoever was drained for this workload has handed over.
    fn check_started(&mut self, name: &WorkloadName) {
        let now = self.now;
        let Some(workload) = self.workloads.get_mut(name) else { return };
        let all_started = workload.is_complete() && workload.members.values().all(|m| m.started);
        if workload.phase != Phase::Admitted || !all_started {
            return;
        }
        workload.phase = Phase::Running;
        workload.phase_since = now;
        workload.running_since = Some(now);
        workload.reason = Reason::Started { attempt: workload.attempt };
        let reason = workload.reason.clone();
        self.decided(DecisionKind::Workload, Some(name), reason);
        self.save_workload(name);
        self.hand_over_to(name);
    }

    /// A worker of which nothing lives any more.
    fn worker_gone(&mut self, id: &WorkerId) {
        let now = self.now;
        let Some(workload) = self.workloads.get_mut(&id.workload) else { return };
        if workload.attempt != id.attempt {
            return;
        }
        if let Some(member) = workload.members.get_mut(&id.rank)
            && member.started
        {
            member.vanished_at.get_or_insert(now);
        }
        self.watch(&id.workload);
        self.clear_ended_assignments(&id.workload);
    }

    /// After everything has been said: workers that should be on this node and were not named are gone.
    fn check_unreported(&mut self, node: &NodeName) {
        let Some(known) = self.nodes.get(node) else { return };
        let mut gone = Vec::new();
        let here = self.watchlist.on(node).filter_map(|name| self.workloads.get_key_value(name));
        for (name, workload) in here {
            for (rank, member) in &workload.members {
                let is_here = member.assignment.as_ref().is_some_and(|a| a.node == *node);
                let id =
                    WorkerId { workload: name.clone(), attempt: workload.attempt, rank: *rank };
                if is_here && member.started && !known.workers.contains_key(&id) {
                    gone.push(id);
                }
            }
        }
        for id in gone {
            self.worker_gone(&id);
        }
    }

    /// Workers that are gone and whose launchers keep silent: the exit stays unknown, which is no success.
    pub(super) fn check_vanished(&mut self) {
        let due = |at| self.now.ms_since(at) >= EXIT_REPORT_MS;
        let mut vanished = Vec::new();
        for workload in self.watched().filter(|w| w.phase.holds_devices()) {
            for (rank, member) in &workload.members {
                if member.exit.is_none() && member.vanished_at.is_some_and(due) {
                    vanished.push((workload.spec.name.clone(), *rank));
                }
            }
        }
        for (name, rank) in vanished {
            if self.exit_belongs_to_drain(&name) {
                continue;
            }
            if let Some(member) =
                self.workloads.get_mut(&name).and_then(|w| w.members.get_mut(&rank))
            {
                member.exit = Some(Exit::Unknown);
            }
            self.rank_ended(&name, rank, Exit::Unknown);
        }
        self.forget_old_nodes();
    }

    fn forget_old_nodes(&mut self) {
        let now = self.now;
        let is_old = |name: &&NodeName| {
            let node = self.nodes.get(*name);
            node.is_some_and(|node| now.ms_since(node.since) >= NODE_FORGOTTEN_MS)
                && self.watchlist.on(name).next().is_none()
        };
        let old: Vec<NodeName> = self.silent.iter().filter(is_old).cloned().collect();
        for name in old {
            self.nodes.remove(&name);
            self.forget_faults(&name);
            self.silent.remove(&name);
            self.touched_nodes.insert(name);
        }
        for name in self.lost_since(NODE_FORGOTTEN_MS) {
            self.forget_faults(&name);
        }
    }

    /// A drained workload that runs again: the first checkpoint of its own tells where it resumed.
    fn check_resumed(&mut self, name: &WorkloadName, report: &WorkerReport) {
        let Some(drain) = self.last_drain_in(name, DrainState::ResumePending) else { return };
        let Some(checkpoint) =
            report.checkpoint.as_ref().filter(|_| report.checkpoint_is_of_this_attempt)
        else {
            return;
        };
        let seen = checkpoint.step;
        let saved = self.drains.get(&drain).and_then(|d| d.saved.as_ref()).map_or(0, |c| c.step);
        self.note_restart(name, &drain, seen, saved);
        let reason = if seen >= saved {
            Reason::Resumed { saved, seen }
        } else {
            Reason::ResumeRegressed { saved, seen }
        };
        self.enter(&drain, DrainState::Resumed, reason);
    }

    /// Restart cost: from the new admission to the first new checkpoint, less the steps in between.
    fn note_restart(
        &mut self,
        name: &WorkloadName,
        drain: &crate::id::DrainId,
        seen: u64,
        saved: u64,
    ) {
        let Some(workload) = self.workloads.get_mut(name) else { return };
        let Some(record) = self.drains.get_mut(drain) else { return };
        let steps_ms =
            workload.profile.step_ms.unwrap_or(0).saturating_mul(seen.saturating_sub(saved));
        let working_ms = steps_ms.saturating_add(workload.profile.save_ms.unwrap_or(0));
        let since_admission_ms = self.now.ms_since(record.state_since);
        let restart_ms = since_admission_ms.saturating_sub(working_ms);
        workload.profile.restart_ms = Some(restart_ms);
        record.account.restart_ms = Some(restart_ms);
        self.save_workload(name);
    }
}

/// Whether labels and devices of `node` are already what `report` tells.
fn is_as_told(node: &Node, report: &NodeReport) -> bool {
    let devices = &report.devices;
    if report.full {
        return node.labels == report.labels && node.devices == *devices;
    }
    let is_known = |(id, device): (&_, &_)| node.devices.get(id) == Some(device);
    let is_there = |id: &_| node.devices.contains_key(id);
    devices.iter().all(is_known) && !report.removed_devices.iter().any(is_there)
}

/// Programs that met an error of the device which is their own: told once for each.
fn new_faults(
    node: &Node,
    workers: &std::collections::BTreeMap<WorkerId, WorkerReport>,
) -> Vec<(WorkloadName, Reason)> {
    let known = |id: &WorkerId| node.workers.get(id).and_then(|w| w.device_fault.as_ref());
    let of_worker = |(id, worker): (&WorkerId, &WorkerReport)| {
        let fault = worker.device_fault.as_ref().filter(|fault| known(id) != Some(*fault))?;
        Some((id.workload.clone(), fault.clone()))
    };
    workers.iter().filter_map(of_worker).collect()
}

impl Node {
    fn new(now: crate::unit::Time, joined_at: crate::unit::Time) -> Self {
        Self {
            connected: false,
            since: now,
            joined_at,
            labels: Default::default(),
            devices: Default::default(),
            workers: Default::default(),
            fault_at: None,
        }
    }
}
