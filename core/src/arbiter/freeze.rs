//! When no new decisions are made: the kill switch, the breaker for mass silence, and recovery after a restart.

use super::{Arbiter, DecisionKind, Output, Reply};
use crate::id::DrainId;
use crate::reason::Reason;

/// The breaker never opens for fewer known nodes: with one or two, half of them is a single machine.
const BREAKER_NODES_MIN: usize = 3;

impl Arbiter {
    pub(super) fn freeze(&mut self, why: String) {
        let abortable: Vec<DrainId> = self
            .drains
            .values()
            .filter(|d| d.state.is_open() && !d.is_committed())
            .map(|d| d.id.clone())
            .collect();
        for id in &abortable {
            self.abort_drain(id, Reason::AbortedByFreeze);
        }
        let why = joined(self.frozen_by_hand.take(), why);
        let reason = Reason::Frozen { why: why.clone() };
        self.frozen_by_hand = Some(why);
        self.decided(DecisionKind::Freeze, None, reason);
        self.dirty = true;
        let aborted_drains = u32::try_from(abortable.len()).unwrap_or(u32::MAX);
        self.outputs.push(Output::Reply(Reply::Frozen { aborted_drains }));
    }

    pub(super) fn unfreeze(&mut self) {
        let was_wave = self.wave_open;
        self.dismiss_wave();
        if self.frozen_by_hand.take().is_some() || was_wave {
            self.decided(DecisionKind::Freeze, None, Reason::Unfrozen);
        }
        self.dirty = true;
        self.outputs.push(Output::Reply(Reply::Frozen { aborted_drains: 0 }));
    }

    /// After a restart: launchers and agents are away until they call again.
    pub(super) fn recover(&mut self) {
        let now = self.now;
        for workload in self.workloads.values_mut() {
            let is_open = !workload.phase.is_finished();
            for member in workload.members.values_mut() {
                member.detached_at = Some(now);
                if let Some(assignment) = member.assignment.as_ref().filter(|_| is_open) {
                    self.awaited.insert(assignment.node.clone());
                }
            }
        }
    }

    /// Why no new decisions are made; `None` if they are.
    #[must_use]
    pub fn frozen(&self) -> Option<Reason> {
        if let Some(why) = &self.frozen_by_hand {
            return Some(Reason::Frozen { why: why.clone() });
        }
        if self.is_recovering() {
            let missing = u32::try_from(self.awaited.len()).unwrap_or(u32::MAX);
            return Some(Reason::Recovering { missing });
        }
        if self.wave_open {
            return Some(self.wave_reason());
        }
        self.breaker_open.then(|| {
            let (silent, known) = self.silence();
            Reason::MostAgentsSilent { silent, known }
        })
    }

    pub(super) fn is_recovering(&self) -> bool {
        !self.awaited.is_empty() && self.now.ms_since(self.started_at) < self.config.recovery_ms
    }

    /// After a restart: which agents are not connected.
    pub(super) fn find_silent(&mut self) {
        let silent = self.nodes.iter().filter(|(_, node)| !node.connected);
        self.silent = silent.map(|(name, _)| name.clone()).collect();
    }

    fn silence(&self) -> (u32, u32) {
        let (silent, known) = (self.silent.len(), self.nodes.len());
        (u32::try_from(silent).unwrap_or(u32::MAX), u32::try_from(known).unwrap_or(u32::MAX))
    }

    /// Opens when more than half of the agents are silent; closes when more than half are back.
    pub(super) fn check_breaker(&mut self) {
        let (silent, known) = self.silence();
        let open =
            self.nodes.len() >= BREAKER_NODES_MIN && u64::from(silent) * 2 > u64::from(known);
        if open == self.breaker_open {
            return;
        }
        self.breaker_open = open;
        self.dirty = true;
        let reason =
            if open { Reason::MostAgentsSilent { silent, known } } else { Reason::Unfrozen };
        self.decided(DecisionKind::Freeze, None, reason);
    }

    /// Tells those who wait that nothing is decided now.
    pub(super) fn tell_pending_of_freeze(&mut self, reason: &Reason) {
        let pending: Vec<_> = self.pending().map(|w| w.spec.name.clone()).collect();
        self.look_at_all();
        for name in pending {
            self.wait(&name, reason.clone());
        }
    }
}

/// Longest text of reasons for freezing; beyond it a further one is not kept. Unit: bytes.
const WHY_BYTES_MAX: usize = 4_096;

/// Both reasons for freezing, the one given first first.
fn joined(first: Option<String>, second: String) -> String {
    match first {
        None => second,
        Some(first) if first.is_empty() => second,
        Some(first) if second.is_empty() || first.split("; ").any(|known| known == second) => first,
        Some(first) if first.len() + second.len() > WHY_BYTES_MAX => first,
        Some(first) => format!("{first}; {second}"),
    }
}
