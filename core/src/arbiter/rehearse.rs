//! A save is tried on a live worker, and a save that nobody heeds: what a drain teaches about its workload.
//!
//! A rehearsal is a drain for nobody: the same orders in the same two phases, at once to all ranks, and each signal at
//! most once. It ends with the workers going on, unless they end by themselves or have been told to; then the gang is
//! started again, as after any drain.

use super::{Arbiter, Decision, DecisionKind, Output, Reply};
use crate::drain::{Alternative, DrainState, Mode, Plan};
use crate::id::{DrainId, WorkloadName};
use crate::reason::{Ms, Reason};
use crate::workload::{Phase, Profile, Workload, WorkloadSpec};

/// How long a worker that has saved is watched: one that ends after a save does so within moments.
pub(super) const REHEARSAL_WATCH_MS: u64 = 5_000;

/// Longest wait for the checkpoint of a rehearsal. A gang has one drain at a time: while it is tried nobody can have its
/// devices. The largest checkpoints take some ten minutes.
pub const REHEARSAL_MS_MAX: u64 = 3_600_000;

impl Arbiter {
    /// Tries a save. `deadline_ms` 0: the arbiter's default.
    pub(super) fn rehearse(&mut self, name: &WorkloadName, deadline_ms: u64) {
        let result = self.try_rehearse(name, deadline_ms);
        self.outputs.push(Output::Reply(Reply::Rehearsing(result)));
    }

    fn try_rehearse(&mut self, name: &WorkloadName, deadline_ms: u64) -> Result<DrainId, Reason> {
        if let Some(frozen) = self.frozen() {
            return Err(frozen);
        }
        let Some(workload) = self.workloads.get(name) else {
            return Err(Reason::NoSuchWorkload { workload: name.clone() });
        };
        if let Some(drain) = self.open_drain_of(name) {
            return Err(Reason::DrainOpen { drain: drain.id.clone() });
        }
        if workload.phase != Phase::Running {
            let (workload, phase) = (name.clone(), format!("{:?}", workload.phase).to_lowercase());
            return Err(Reason::NotRunning { workload, phase });
        }
        if workload.spec.checkpoint.is_none() {
            return Err(Reason::NoCheckpointDir);
        }
        if let Some(node) = self.silent_node_of(workload) {
            return Err(Reason::NodesNotConnected { node });
        }
        let deadline_ms =
            if deadline_ms == 0 { self.config.drain_deadline_ms } else { deadline_ms };
        let deadline_ms = deadline_ms.min(REHEARSAL_MS_MAX);
        let mode = match workload.spec.save_signal {
            _ if self.has_client(workload) => Mode::Client,
            Some(_) => Mode::Signal,
            None => return Err(Reason::NothingToRehearse { workload: name.clone() }),
        };
        let save_signal = self.signal_of(workload).filter(|_| mode == Mode::Signal);
        let cause = Reason::Rehearsal { mode };
        let alternative = Alternative {
            mode,
            delay_ms: None,
            loss_device_ms: 0,
            chosen: true,
            reason: cause.clone(),
        };
        let plan = Plan {
            mode,
            save_signal,
            delay_ms: None,
            loss_device_ms: 0,
            deadline_ms,
            alternatives: vec![alternative],
        };
        let id = self.open_drain(name, None, plan, cause, true);
        id.ok_or_else(|| Reason::NoSuchWorkload { workload: name.clone() })
    }

    /// The save came about: is the worker still there?
    pub(super) fn check_rehearsal(&mut self, id: &DrainId) {
        let Some(drain) = self.drains.get(id) else { return };
        let ended = drain.members.values().any(|m| m.exited);
        let watched_ms = self.now.ms_since(drain.state_since);
        if !ended && watched_ms < REHEARSAL_WATCH_MS {
            return;
        }
        let is_asked = drain.members.values().any(|m| m.signalled);
        if !is_asked && !ended && !self.is_past_return(drain) {
            return self.abort_drain(id, Reason::RehearsedUnasked);
        }
        let (victim, mode) = (drain.victim.clone(), drain.plan.mode);
        let asked_at = drain.history.iter().rfind(|t| t.state == DrainState::Saving).map(|t| t.at);
        let took_ms =
            drain.saved_at.zip(asked_at).map_or(0, |(saved, asked)| saved.ms_since(asked));
        let (step, took_ms) = (drain.saved.as_ref().map_or(0, |c| c.step), Ms(took_ms));
        self.learn(&victim, |profile| {
            match mode {
                _ if !is_asked => return,
                Mode::Client => profile.client_unproven = false,
                Mode::Signal => note_proven(profile),
                Mode::KillFresh | Mode::Boundary | Mode::Kill => {}
            }
            profile.exits_after_save = Some(ended);
        });
        if ended || self.drains.get(id).is_some_and(|d| self.is_past_return(d)) {
            self.drain_decided(id, &victim, Reason::RehearsedEnds { step, took_ms });
            self.release(id);
        } else {
            self.abort_drain(id, Reason::Rehearsed { step, took_ms });
        }
    }

    /// The save did not come about. Workers that live are left alone, unless they may end any moment.
    pub(super) fn rehearsal_failed(&mut self, id: &DrainId, code: String, detail: String) {
        let Some(drain) = self.drains.get(id) else { return };
        let victim = drain.victim.clone();
        let is_past_return = self.is_past_return(drain);
        let ended = drain.members.values().any(|m| m.exited);
        self.note_unproven(id);
        if ended {
            self.learn(&victim, |profile| profile.exits_after_save = Some(true));
        }
        self.enter(id, DrainState::SaveFailed, Reason::SaveFailed { code: code.clone(), detail });
        let reason = Reason::RehearsalFailed { code };
        if is_past_return {
            self.drain_decided(id, &victim, reason);
            self.keep_checkpoint_before(id);
            self.release(id);
        } else {
            self.abort_drain(id, reason);
        }
    }

    /// Nobody heeds: the next periodic checkpoint if it is in time, else the end.
    pub(super) fn no_progress(&mut self, id: &DrainId, waited_ms: u64) {
        let asking =
            |d: &&crate::drain::Drain| d.state == DrainState::Saving && d.plan.mode.asks_for_save();
        let Some(drain) = self.drains.get(id).filter(asking) else { return };
        let code = "no-progress".to_owned();
        let detail = format!("no sign of a save within {waited_ms} ms");
        if drain.is_rehearsal {
            return self.rehearsal_failed(id, code, detail);
        }
        let (victim, signal) = (drain.victim.clone(), drain.plan.save_signal);
        let mut refused = drain.refused_modes.clone();
        refused.insert(drain.plan.mode, code.clone());
        let left_ms = drain.deadline_at.ms_since(self.now);
        let Some(workload) = self.workloads.get(&victim) else { return };
        // A worker that was asked is not asked a second time.
        let mut asked = refused.clone();
        for mode in [Mode::Client, Mode::Signal] {
            asked.insert(mode, code.clone());
        }
        let plan = self.plan_for(workload, left_ms, &asked);
        self.note_unproven(id);
        if plan.mode == Mode::Boundary {
            let Some(drain) = self.drains.get_mut(id) else { return };
            // What was sent stays true: a worker that ends after its save may still do so.
            drain.plan = Plan { save_signal: signal, ..plan };
            drain.refused_modes = refused;
            self.save_drain(id);
            let reason = Reason::SaveNotBegun { mode: Mode::Boundary, waited_ms: Ms(waited_ms) };
            return self.drain_decided(id, &victim, reason);
        }
        self.enter(id, DrainState::SaveFailed, Reason::SaveFailed { code, detail });
        self.keep_last_checkpoint(id);
        self.release(id);
    }

    /// The way in which this drain asked does not make its workload save.
    pub(super) fn note_unproven(&mut self, id: &DrainId) {
        let Some((victim, mode)) = self.drains.get(id).map(|d| (d.victim.clone(), d.plan.mode))
        else {
            return;
        };
        self.learn(&victim, |profile| match mode {
            Mode::Client => profile.client_unproven = true,
            Mode::Signal => {
                profile.signal_unproven = true;
                profile.signal_proven = false;
            }
            Mode::KillFresh | Mode::Boundary | Mode::Kill => {}
        });
    }

    /// The way in which this drain asked made its workload save.
    pub(super) fn note_saved(&mut self, id: &DrainId) {
        let Some(drain) = self.drains.get(id).filter(|d| d.plan.mode == Mode::Signal) else {
            return;
        };
        if drain.members.values().any(|m| m.signalled) {
            let victim = drain.victim.clone();
            self.learn(&victim, note_proven);
        }
    }

    fn learn(&mut self, name: &WorkloadName, change: impl FnOnce(&mut Profile)) {
        let Some(workload) = self.workloads.get_mut(name) else { return };
        let before = workload.profile.clone();
        change(&mut workload.profile);
        if workload.profile != before {
            self.save_workload(name);
        }
    }

    /// A process that was killed without having parked is worth a look at its devices.
    pub(super) fn note_kill(&mut self, id: &DrainId, rank: u32) {
        let Some(drain) = self.drains.get(id) else { return };
        let Some(node) = drain.members.get(&rank).map(|m| m.node.clone()) else { return };
        self.outputs.push(Output::Decided(Decision {
            kind: DecisionKind::Node,
            workload: Some(drain.victim.clone()),
            drain: Some(id.clone()),
            node: Some(node),
            reason: Reason::UncleanKill { workload: drain.victim.clone(), rank },
        }));
    }

    /// What is known of a workload that runs the same program: a run of it need not teach the same twice.
    pub(super) fn lesson_for(&self, spec: &WorkloadSpec) -> Profile {
        let same = |w: &&Workload| is_same_program(&w.spec, spec);
        let Some(newest) = self.workloads.values().filter(same).max_by_key(|w| w.submitted_at)
        else {
            return Profile::default();
        };
        Profile { restart_ms: None, drained_at: Vec::new(), ..newest.profile.clone() }
    }
}

/// Two runs of one program: the same words, asked in the same way. Where its checkpoints go does not matter.
fn is_same_program(a: &WorkloadSpec, b: &WorkloadSpec) -> bool {
    !a.command.is_empty()
        && a.command == b.command
        && a.nnodes == b.nnodes
        && a.resources == b.resources
        && a.save_signal == b.save_signal
}

fn note_proven(profile: &mut Profile) {
    profile.signal_proven = true;
    profile.signal_unproven = false;
}
