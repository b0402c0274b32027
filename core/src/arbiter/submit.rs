//! Workloads and the launchers that bring them.

mod difference;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::explain::topology_text;
use super::{Arbiter, DecisionKind, FINISHED_MAX, Output, Reply, WORKLOADS_MAX};
use crate::id::{LauncherId, NodeName, QueueName, WorkloadName};
use crate::kueue::model::ClusterQueue;
use crate::kueue::workload::TopologyMode;
use crate::reason::{Ms, Reason};
use crate::workload::{
    Member, Phase, Profile, RANKS_MAX, REACH_MAX, RESOURCES_MAX, Workload, WorkloadSpec,
};

use difference::difference;

impl Arbiter {
    pub(super) fn submit(
        &mut self,
        spec: WorkloadSpec,
        rank: u32,
        launcher: LauncherId,
        nodes: BTreeSet<NodeName>,
    ) {
        let name = spec.name.clone();
        let result = self.try_submit(spec, rank, launcher, nodes);
        if let Err(reason) = &result {
            self.decided(DecisionKind::Submit, Some(&name), reason.clone());
        }
        self.outputs.push(Output::Reply(Reply::Submitted(result)));
    }

    fn try_submit(
        &mut self,
        mut spec: WorkloadSpec,
        rank: u32,
        launcher: LauncherId,
        nodes: BTreeSet<NodeName>,
    ) -> Result<(), Reason> {
        self.check_spec(&mut spec, rank, &nodes)?;
        let name = spec.name.clone();
        let ended = self.workloads.get(&name).is_some_and(|w| w.phase.is_finished());
        if ended {
            self.check_replaceable(&name, &launcher)?;
        }
        if ended || !self.workloads.contains_key(&name) {
            self.check_limits()?;
            // Attempts go on counting, so that no worker of the new one is taken for one of the old.
            let attempt = self.workloads.get(&name).map_or(0, |w| w.attempt);
            let profile = self.lesson_for(&spec);
            let workload = Workload { attempt, profile, ..new_workload(spec.clone(), self.now) };
            self.workloads.insert(name.clone(), workload);
            self.note_sliced(&name);
            self.decided(DecisionKind::Submit, Some(&name), Reason::Submitted);
        }
        let now = self.now;
        let Some(workload) = self.workloads.get_mut(&name) else { return Ok(()) };
        if let Some((field, first, second)) = difference(&workload.spec, &spec) {
            return Err(Reason::SpecConflict { field, first, second });
        }
        let nodes = workload.share_reach(rank, nodes);
        let reach = workload.reach_size(rank, &nodes);
        if reach > REACH_MAX {
            return Err(too_far(reach));
        }
        if let Some(member) = workload.members.get_mut(&rank) {
            if member.launcher != launcher {
                return Err(Reason::RankTaken { rank });
            }
            member.nodes = nodes;
            let held = workload.reservation.as_ref().and_then(|r| r.placement.get(&rank));
            if held.is_some_and(|held| !member.nodes.contains(&held.node)) {
                self.drop_reservation(&name);
            }
        } else {
            workload.members.insert(rank, new_member(launcher, nodes, now));
        }
        self.dirty = true;
        self.save_workload(&name);
        Ok(())
    }

    /// An ended workload makes room for a new one of the same name once nothing of it is left.
    fn check_replaceable(&self, name: &WorkloadName, launcher: &LauncherId) -> Result<(), Reason> {
        let Some(workload) = self.workloads.get(name) else { return Ok(()) };
        let is_repeat = workload.members.values().any(|m| m.launcher == *launcher);
        let holds = workload.members.values().any(|m| m.assignment.is_some());
        if is_repeat || holds {
            return Err(Reason::AlreadyFinished { workload: name.clone() });
        }
        Ok(())
    }

    fn check_spec(
        &self,
        spec: &mut WorkloadSpec,
        rank: u32,
        nodes: &BTreeSet<NodeName>,
    ) -> Result<(), Reason> {
        let bad = |field: &str, value: String, expected: &str| {
            Err(Reason::BadSpec { field: field.to_owned(), value, expected: expected.to_owned() })
        };
        if spec.nnodes == 0 || spec.nnodes > RANKS_MAX {
            return bad("nnodes", spec.nnodes.to_string(), "1 to 4096 ranks");
        }
        if rank >= spec.nnodes {
            return Err(Reason::RankOutOfRange { rank, nnodes: spec.nnodes });
        }
        if spec.resources.len() > RESOURCES_MAX {
            return bad(
                "resources",
                spec.resources.len().to_string(),
                "at most 16 different resources",
            );
        }
        if let Some(signal) = spec.save_signal.filter(|s| !(1..=64).contains(&s.number)) {
            return bad("save_signal", signal.number.to_string(), "a signal number from 1 to 64");
        }
        if nodes.is_empty() {
            return Err(Reason::NoNodes);
        }
        let Some(queue) = self.find_queue(&spec.queue) else {
            return Err(self.no_queue(&spec.queue));
        };
        let queue_name: QueueName = queue.name.as_str().parse().unwrap_or(spec.queue.clone());
        spec.queue = queue_name.clone();
        self.check_topology(spec, queue)?;
        self.check_slice(spec)?;
        for resource in spec.resources.keys() {
            let (resource, requested) = (resource.clone(), spec.total(resource));
            if !Self::offers(queue, &resource) {
                return Err(Reason::ResourceUnknown { queue: queue_name, resource });
            }
            let maximum = self.quota_maximum(queue, &resource);
            if requested > maximum || !Self::is_countable(&resource, requested) {
                return Err(Reason::ExceedsQuota {
                    queue: queue_name,
                    resource,
                    requested,
                    maximum,
                });
            }
        }
        Ok(())
    }

    fn no_queue(&self, queue: &QueueName) -> Reason {
        let candidates = self.config.queues.ambiguous(queue);
        let queue = queue.clone();
        if candidates.is_empty() {
            return Reason::QueueUnknown { queue, known: self.known_queues() };
        }
        let candidates: Vec<&str> = candidates.iter().map(|name| name.as_str()).collect();
        Reason::QueueAmbiguous { queue, candidates: candidates.join(", ") }
    }

    /// A level that no topology of the queue's flavors has would be waited for in vain.
    fn check_topology(&self, spec: &WorkloadSpec, queue: &ClusterQueue) -> Result<(), Reason> {
        let Some(mode) = &spec.topology else { return Ok(()) };
        let setup = &self.config.queues.setup;
        let offered = queue.groups.iter().flat_map(|group| &group.flavors);
        let flavors = offered.filter_map(|o| setup.flavors.iter().find(|f| f.name == o.flavor));
        let topologies = flavors.filter_map(|flavor| flavor.topology.as_ref());
        let topologies = topologies.filter_map(|t| setup.topologies.iter().find(|o| o.name == *t));
        let levels: BTreeSet<&str> =
            topologies.flat_map(|topology| &topology.levels).map(String::as_str).collect();
        let is_known = match mode {
            TopologyMode::Required(level) | TopologyMode::Preferred(level) => {
                levels.contains(level.as_str())
            }
            TopologyMode::Unconstrained => !levels.is_empty(),
        };
        if is_known {
            return Ok(());
        }
        let expected = if levels.is_empty() {
            format!("none: no flavor of queue {} has a topology; leave --topology out", queue.name)
        } else {
            let levels: Vec<&str> = levels.into_iter().collect();
            format!("a level of the queue's flavors: {}", levels.join(", "))
        };
        let value = topology_text(Some(mode));
        Err(Reason::BadSpec { field: "topology".to_owned(), value, expected })
    }

    fn check_limits(&mut self) -> Result<(), Reason> {
        let open = self.workloads.len() - self.watchlist.finished().len();
        if open >= WORKLOADS_MAX {
            let limit = WORKLOADS_MAX as u64;
            return Err(Reason::LimitReached { what: "workloads".to_owned(), limit });
        }
        while self.workloads.len() - open >= FINISHED_MAX {
            let finished = self.watchlist.finished().iter();
            let finished = finished.filter_map(|name| self.workloads.get(name));
            let done = finished.filter(|w| w.device_count() == 0);
            let Some(oldest) = done.min_by_key(|w| w.phase_since).map(|w| w.spec.name.clone())
            else {
                break;
            };
            self.forget_workload(&oldest);
        }
        Ok(())
    }

    fn forget_workload(&mut self, name: &WorkloadName) {
        self.workloads.remove(name);
        self.note_sliced(name);
        self.watch(name);
        self.touched.insert(name.clone());
        self.outputs.push(Output::ForgetWorkload(name.clone()));
    }

    /// The names by which workloads may ask for a queue, for people.
    pub(super) fn known_queues(&self) -> String {
        let queues = self.config.queues.setup.queues.iter().map(|q| q.name.as_str());
        let local = self.config.queues.local.keys().map(QueueName::as_str);
        queues.chain(local).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn find_queue(&self, name: &QueueName) -> Option<&ClusterQueue> {
        self.config.queues.find(name)
    }

    pub(super) fn attach(&mut self, name: &WorkloadName, rank: u32, launcher: &LauncherId) {
        let Some(member) = self.member_of(name, rank, launcher) else { return };
        if member.detached_at.take().is_some() {
            self.dirty = true;
            self.save_workload(name);
        }
    }

    pub(super) fn detach(&mut self, name: &WorkloadName, rank: u32, launcher: &LauncherId) {
        let now = self.now;
        let Some(member) = self.member_of(name, rank, launcher) else { return };
        member.detached_at.get_or_insert(now);
        self.save_workload(name);
        self.clear_ended_assignments(name);
        self.end_orphans(name);
    }

    fn member_of(
        &mut self,
        name: &WorkloadName,
        rank: u32,
        launcher: &LauncherId,
    ) -> Option<&mut Member> {
        let member = self.workloads.get_mut(name)?.members.get_mut(&rank)?;
        (member.launcher == *launcher).then_some(member)
    }

    pub(super) fn cancel(&mut self, name: &WorkloadName) {
        let result = match self.workloads.get(name) {
            None => Err(Reason::NoSuchWorkload { workload: name.clone() }),
            Some(w) if w.phase.is_finished() => {
                Err(Reason::AlreadyFinished { workload: name.clone() })
            }
            Some(_) => Ok(()),
        };
        if result.is_ok() {
            self.finish(name, Phase::Cancelled, Reason::Cancelled);
        }
        self.outputs.push(Output::Reply(Reply::Cancelled(result)));
    }

    /// Launchers that have been away for too long, and ranks that are not started.
    pub(super) fn check_launchers(&mut self) {
        let mut ended = Vec::new();
        for workload in self.watched() {
            let waits = matches!(workload.phase, Phase::Pending | Phase::Admitted);
            if waits && let Some(end) = self.launcher_trouble(workload) {
                ended.push((workload.spec.name.clone(), end));
            }
        }
        for (name, (phase, reason)) in ended {
            self.finish(&name, phase, reason);
        }
    }

    fn launcher_trouble(&self, workload: &Workload) -> Option<(Phase, Reason)> {
        for (rank, member) in &workload.members {
            if member.exit.is_some() {
                continue;
            }
            let away_ms = member.detached_at.map_or(0, |at| self.now.ms_since(at));
            if !member.started && away_ms >= self.config.launcher_gone_ms {
                let reason = Reason::LauncherGone { rank: *rank, after_ms: Ms(away_ms) };
                return Some((Phase::Cancelled, reason));
            }
            let node = member.assignment.as_ref().and_then(|a| self.nodes.get(&a.node));
            let since = node.map_or(workload.phase_since, |n| n.since.max(workload.phase_since));
            let waited_ms = self.now.ms_since(since);
            let is_late =
                workload.phase == Phase::Admitted && waited_ms >= self.config.start_timeout_ms;
            if is_late && !member.started && node.is_some_and(|n| n.connected) {
                let reason = Reason::StartTimedOut { rank: *rank, waited_ms: Ms(waited_ms) };
                return Some((Phase::Failed, reason));
            }
        }
        None
    }
}

fn too_far(reach: usize) -> Reason {
    let expected = format!(
        "at most {REACH_MAX} names in the different sets of nodes of a gang; let all ranks reach the same nodes, or few"
    );
    Reason::BadSpec { field: "nodes".to_owned(), value: reach.to_string(), expected }
}

fn new_member(
    launcher: LauncherId,
    nodes: Arc<BTreeSet<NodeName>>,
    now: crate::unit::Time,
) -> Member {
    Member {
        launcher,
        nodes,
        // Present once it watches; until then it is on its way.
        detached_at: Some(now),
        assignment: None,
        started: false,
        exit: None,
        vanished_at: None,
    }
}

fn new_workload(spec: WorkloadSpec, now: crate::unit::Time) -> Workload {
    Workload {
        spec,
        phase: Phase::Pending,
        reason: Reason::Submitted,
        attempt: 0,
        members: BTreeMap::new(),
        submitted_at: now,
        phase_since: now,
        admitted_at: None,
        running_since: None,
        checkpoint: None,
        checkpoint_at: None,
        profile: Profile::default(),
        last_drain: None,
        resume_step: None,
        reservation: None,
        slices: Vec::new(),
    }
}
