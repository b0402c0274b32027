//! How a gang would be drained now: what is known of it, put together for the planner.

use std::collections::BTreeMap;

use super::Arbiter;
use crate::drain::{Drain, DrainState, Mode, Plan};
use crate::plan::{Situation, plan};
use crate::protocol::Refusal;
use crate::reason::Reason;
use crate::workload::{SaveSignal, Workload};

/// How long a checkpoint directory that was found full is taken for full.
const NO_SPACE_MS: u64 = 600_000;

impl Arbiter {
    /// Unsaved work of one rank; bounded where no checkpoint can be seen. Unit: ms.
    pub(super) fn unsaved_ms(&self, workload: &Workload) -> u64 {
        let since = workload.unsaved_since().unwrap_or(self.now);
        let unsaved_ms = self.now.ms_since(since);
        let is_seen = workload.checkpoint.is_some() || workload.spec.checkpoint.is_some();
        if is_seen { unsaved_ms } else { unsaved_ms.min(self.config.unseen_work_ms_max) }
    }

    pub(super) fn plan_for(
        &self,
        workload: &Workload,
        deadline_ms: u64,
        refused: &BTreeMap<Mode, String>,
    ) -> Plan {
        let profile = &workload.profile;
        let is_of_attempt =
            workload.checkpoint_at.zip(workload.running_since).is_some_and(|(c, r)| c >= r);
        plan(&Situation {
            devices: workload.device_count(),
            unsaved_ms: self.unsaved_ms(workload),
            checkpoint_seen: workload.checkpoint.is_some() && is_of_attempt,
            has_checkpoint_dir: workload.spec.checkpoint.is_some(),
            step_ms: profile.step_ms,
            save_ms: profile.save_ms,
            save_interval_ms: profile.save_interval_ms,
            has_client: self.has_client(workload),
            client_unproven: profile.client_unproven,
            save_signal: self.signal_of(workload),
            signal_proven: profile.signal_proven || workload.spec.is_signal_vouched,
            signal_unproven: profile.signal_unproven,
            grace_ms: self.grace_of(workload),
            refused,
            deadline_ms,
            checkpoint_drain: self.config.checkpoint_drain,
        })
    }

    /// True if every rank can be asked through its files.
    pub(super) fn has_client(&self, workload: &Workload) -> bool {
        let with_client = self.reports_of(workload).filter(|r| r.has_client).count();
        !workload.members.is_empty() && with_client == workload.members.len()
    }

    /// The declared save signal, and what the worker was seen to do after a save.
    pub(super) fn signal_of(&self, workload: &Workload) -> Option<SaveSignal> {
        let declared = workload.spec.save_signal?;
        let seen = workload.profile.exits_after_save;
        let exits_after_save =
            seen.map_or(declared.exits_after_save, |s| s || declared.exits_after_save);
        Some(SaveSignal { exits_after_save, ..declared })
    }

    /// The shorter of the grace that was declared and that of a launcher within the workers.
    fn grace_of(&self, workload: &Workload) -> Option<u64> {
        let seen = self.reports_of(workload).filter_map(|r| r.launcher_grace_ms);
        seen.chain(workload.spec.grace_ms).min()
    }

    /// Modes that cannot be done because the last drain was refused for lack of space: another save would fail alike,
    /// a periodic one too. Others are drained instead, or it is ended with the checkpoint that it has.
    pub(super) fn refused_before(&self, workload: &Workload) -> BTreeMap<Mode, String> {
        let last = workload.last_drain.as_ref().and_then(|id| self.drains.get(id));
        let is_full = last.is_some_and(|d| {
            d.state == DrainState::Refused
                && self.now.ms_since(d.state_since) < NO_SPACE_MS
                && was_for_space(d)
        });
        if !is_full {
            return BTreeMap::new();
        }
        let code = Refusal::NoSpace.code().to_owned();
        let saving = Mode::ALL.into_iter().filter(|mode| mode.waits_for_checkpoint());
        saving.map(|mode| (mode, code.clone())).collect()
    }
}

fn was_for_space(drain: &Drain) -> bool {
    drain.history.last().is_some_and(|t| {
        matches!(&t.reason, Reason::AgentRefused { code, .. } if code == Refusal::NoSpace.code())
    })
}
