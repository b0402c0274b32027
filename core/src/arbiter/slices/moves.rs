//! Slices that have to move: their hosts fail, or are about to be taken away for maintenance.
//!
//! A slice cannot be mended: if one host of it fails, all of it moves, with its whole gang, which resumes from its
//! checkpoint on hosts that are in order. Silence of an agent alone moves nobody.

use super::fleet::{health_of, notice_ms};
use super::{Arbiter, CHIPS};
use crate::id::{NodeName, WorkloadName};
use crate::protocol::Health;
use crate::reason::Reason;
use crate::slice::label::NodeLabels;
use crate::slice::life::{Cause, Policy};
use crate::workload::{Phase, Workload};

/// What a gang gets whose slice has failed: its workers cannot save together any more, so nothing is waited for.
const FAILED_MS: u64 = 1_000;

impl Arbiter {
    /// Drains gangs whose slices have to move, for nobody's benefit.
    pub(in super::super) fn move_slices(&mut self) {
        // What looks like one failed host may be a wave, as long as not all agents are back after a restart.
        if self.frozen().is_some() || self.is_fleet_missing() {
            return;
        }
        for (name, deadline_ms, cause) in self.moving() {
            self.start_drain(&name, None, deadline_ms, cause);
        }
    }

    fn moving(&self) -> Vec<(WorkloadName, u64, Reason)> {
        let runs = |w: &&Workload| w.phase == Phase::Running;
        let mut moving = Vec::new();
        for workload in self.sliced().filter(runs) {
            let name = &workload.spec.name;
            if self.open_drain_of(name).is_some() || self.avoid_until.contains_key(name) {
                continue;
            }
            let nodes = workload.slices_held().iter().flat_map(|slice| slice.nodes.values());
            let usual_ms = self.deadline_of(workload);
            let trouble = nodes.filter_map(|node| self.trouble_on(node, workload, usual_ms));
            if let Some((deadline_ms, cause)) = trouble.min_by_key(|(deadline_ms, _)| *deadline_ms)
            {
                moving.push((name.clone(), deadline_ms, cause));
            }
        }
        moving
    }

    /// Why a slice has to leave `node`, and within which time.
    fn trouble_on(
        &self,
        name: &NodeName,
        workload: &Workload,
        usual_ms: u64,
    ) -> Option<(u64, Reason)> {
        let node = self.nodes.get(name).filter(|node| node.connected)?;
        let slice = workload.spec.slice.as_ref()?;
        let generation = self.config.generations.find(&slice.generation)?;
        let host_chips = generation.hosts.first()?.chips();
        let moves = |cause: Cause, why: String| Reason::SliceMoves {
            code: cause.code().to_owned(),
            node: name.clone(),
            why,
        };
        if health_of(node, host_chips) == Health::Unhealthy {
            let usable = node.devices.values().filter(|device| {
                device.resource.as_str() == CHIPS && device.health != Health::Unhealthy
            });
            let usable = usable.count();
            let why = format!("{usable} of the {host_chips} chips of {name} can be used");
            return Some((usual_ms.min(FAILED_MS), moves(Cause::NodeFailed, why)));
        }
        let labels = node.labels.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        let at_ms = NodeLabels::read(labels).maintenance_at_ms?;
        let (policy, left_ms) = (Policy::default(), at_ms.checked_sub(self.now.0)?);
        if left_ms > notice_ms(&policy) {
            return None;
        }
        let why = format!("maintenance of {name} begins in {} s", left_ms / 1_000);
        let deadline_ms = left_ms.saturating_sub(policy.end_ms + policy.margin_ms);
        Some((usual_ms.min(deadline_ms.max(FAILED_MS)), moves(Cause::Maintenance, why)))
    }

    /// When the next gang has to move because of maintenance that was announced.
    pub(in super::super) fn next_move_at(&self) -> Option<crate::unit::Time> {
        let runs = |w: &&Workload| w.phase == Phase::Running;
        let notice_ms = notice_ms(&Policy::default());
        let running = self.sliced().filter(runs);
        let nodes = running.flat_map(Workload::slices_held).flat_map(|slice| slice.nodes.values());
        let due = nodes.filter_map(|name| {
            let labels = self.nodes.get(name)?.labels.iter().map(|(k, v)| (k.as_str(), v.as_str()));
            let at_ms = NodeLabels::read(labels).maintenance_at_ms?;
            Some(crate::unit::Time(at_ms.saturating_sub(notice_ms)))
        });
        due.filter(|at| *at > self.now).min()
    }
}
