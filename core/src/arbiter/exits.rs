//! How workers and workloads end, and when their devices are free again.

use super::{Arbiter, DecisionKind, Output, Reply};
use crate::drain::{DrainState, Mode};
use crate::id::{DrainId, LauncherId, NodeName, WorkerId, WorkloadName};
use crate::protocol::{Order, Verb};
use crate::reason::Reason;
use crate::workload::{Exit, Member, Phase};

impl Arbiter {
    pub(super) fn report_exit(&mut self, worker: &WorkerId, launcher: &LauncherId, exit: Exit) {
        let (wait, reason) = self.exit_verdict(worker, launcher, exit);
        self.outputs.push(Output::Reply(Reply::Exit { wait, reason }));
    }

    fn exit_verdict(
        &mut self,
        worker: &WorkerId,
        launcher: &LauncherId,
        exit: Exit,
    ) -> (bool, Reason) {
        let name = &worker.workload;
        let Some(workload) = self.workloads.get(name) else {
            return (false, Reason::NoSuchWorkload { workload: name.clone() });
        };
        let reason = workload.reason.clone();
        let is_member = workload.members.get(&worker.rank).is_some_and(|m| m.launcher == *launcher);
        if !is_member {
            return (false, Reason::RankTaken { rank: worker.rank });
        }
        if workload.phase.is_finished() {
            self.note_exit(worker, exit);
            self.clear_ended_assignments(name);
            return (false, reason);
        }
        if worker.attempt < workload.attempt || workload.phase == Phase::Pending {
            return (true, reason);
        }
        self.note_exit(worker, exit);
        if self.exit_belongs_to_drain(name) {
            return (true, reason);
        }
        self.rank_ended(name, worker.rank, exit);
        let ended = self.workloads.get(name).map(|w| (w.phase, w.reason.clone()));
        // A rank that ended well leaves at once, whatever the others still do.
        ended.map_or((false, reason), |(_, reason)| (false, reason))
    }

    fn note_exit(&mut self, worker: &WorkerId, exit: Exit) {
        let Some(workload) = self.workloads.get_mut(&worker.workload) else { return };
        if workload.attempt != worker.attempt {
            return;
        }
        if let Some(member) = workload.members.get_mut(&worker.rank) {
            member.exit = Some(exit);
            self.save_workload(&worker.workload);
        }
    }

    /// True if the workers were told to end, or to save and end: an exit is then no result of theirs.
    pub(super) fn exit_belongs_to_drain(&self, name: &WorkloadName) -> bool {
        self.open_drain_of(name).is_some_and(|drain| match drain.state {
            DrainState::Releasing
            | DrainState::SaveFailed
            | DrainState::Expired
            | DrainState::Durable => true,
            DrainState::Saving => drain.was_asked(),
            DrainState::Planned
            | DrainState::Ordered
            | DrainState::Armed
            | DrainState::Freed
            | DrainState::HandedOver
            | DrainState::ResumePending
            | DrainState::Resumed
            | DrainState::Aborted
            | DrainState::Refused
            | DrainState::Lost
            | DrainState::CompletedMeanwhile => false,
        })
    }

    /// A rank ended by itself: the gang fails with it, or succeeds with the last.
    pub(super) fn rank_ended(&mut self, name: &WorkloadName, rank: u32, exit: Exit) {
        let Some(workload) = self.workloads.get(name) else { return };
        if !exit.is_success() {
            self.finish(name, Phase::Failed, Reason::WorkerFailed { rank, exit });
        } else if workload.members.values().all(|m| m.exit.is_some_and(Exit::is_success)) {
            self.finish(name, Phase::Succeeded, Reason::Succeeded);
        }
    }

    /// Ends a workload. Its devices stay taken until its workers are seen to be gone.
    pub(super) fn finish(&mut self, name: &WorkloadName, phase: Phase, reason: Reason) {
        self.end_drains_of_ended(name);
        let now = self.now;
        let Some(workload) = self.workloads.get_mut(name) else { return };
        workload.phase = phase;
        workload.phase_since = now;
        workload.running_since = None;
        workload.reservation = None;
        workload.reason = reason.clone();
        self.decided(DecisionKind::Workload, Some(name), reason);
        self.save_workload(name);
        self.clear_ended_assignments(name);
        self.end_orphans(name);
        self.drop_demand_of(name);
        self.dirty = true;
    }

    /// Workers of an ended workload whose launcher is gone: nobody else ends them and frees their devices.
    pub(super) fn end_orphans(&mut self, name: &WorkloadName) {
        let Some(workload) = self.workloads.get(name).filter(|w| w.phase.is_finished()) else {
            return;
        };
        let is_orphan = |m: &&Member| m.started && m.exit.is_none() && m.detached_at.is_some();
        let orphans = workload.members.iter().filter(|(_, m)| is_orphan(m));
        let attempt = workload.attempt;
        let targets: Vec<(NodeName, WorkerId)> = orphans
            .filter_map(|(rank, m)| {
                let worker = WorkerId { workload: name.clone(), attempt, rank: *rank };
                Some((m.assignment.as_ref()?.node.clone(), worker))
            })
            .collect();
        for (node, worker) in targets {
            let Ok(drain) = format!("end-{}", self.next_drain).parse::<DrainId>() else { return };
            self.next_drain += 1;
            let grace_ms = self.config.release_grace_ms;
            let hard_ms = self.config.drain_deadline_ms;
            let prepare =
                Verb::Prepare { mode: Mode::Kill, save_signal: None, baseline_step: None, hard_ms };
            for verb in [prepare, Verb::Release { grace_ms }] {
                let (drain, worker, epoch) = (drain.clone(), worker.clone(), self.config.epoch);
                let order = Order { drain, epoch, worker, verb };
                self.outputs.push(Output::Send { node: node.clone(), order });
            }
        }
    }

    /// Frees the devices of an ended workload's ranks of which nothing is left.
    pub(super) fn clear_ended_assignments(&mut self, name: &WorkloadName) {
        let Some(workload) = self.workloads.get_mut(name) else { return };
        if !workload.phase.is_finished() {
            return;
        }
        let attempt = workload.attempt;
        let mut cleared = false;
        for (rank, member) in &mut workload.members {
            let Some(assignment) = &member.assignment else { continue };
            let id = WorkerId { workload: name.clone(), attempt, rank: *rank };
            let node = self.nodes.get(&assignment.node);
            let report =
                node.filter(|n| n.connected).map(|n| n.workers.get(&id).map(|w| w.running));
            let gone = match (report, member.started) {
                // Its agent has the last word on a worker that it has seen.
                (Some(Some(running)), _) => !running,
                (Some(None), true) => true,
                // Its agent, which is here, never saw it: nothing is left once its launcher has let go of it.
                (Some(None), false) => member.exit.is_some() || member.detached_at.is_some(),
                // A launcher that registered its worker while nobody could hear of it may have gone since.
                (None, false) => member.exit.is_some(),
                (None, true) => false,
            };
            if gone {
                member.assignment = None;
                cleared = true;
            }
        }
        if cleared {
            self.dirty = true;
            self.save_workload(name);
        }
    }
}
