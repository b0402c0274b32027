//! Workloads.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use sluice::wire::pb;

use super::{CheckpointView, ReasonView, When, format_word};

/// A workload: what was asked for and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct WorkloadView {
    /// Unique name.
    pub(crate) name: String,
    /// Queue it is charged to.
    pub(crate) queue: String,
    /// Higher goes first.
    pub(crate) priority: i32,
    /// `Pending`, `Admitted`, `Running`, `Draining`, `Succeeded`, `Failed`, `Cancelled` or `Unknown`.
    pub(crate) phase: &'static str,
    /// Why it is in that phase.
    pub(crate) reason: ReasonView,
    /// Number of the current or last start; 0 before the first.
    pub(crate) attempt: u32,
    /// Ranks of the gang.
    pub(crate) nnodes: u32,
    /// Per rank.
    pub(crate) resources: BTreeMap<String, u64>,
    /// The ranks that have been submitted.
    pub(crate) ranks: Vec<RankView>,
    /// Names of workloads before it in its queue; the first few.
    pub(crate) ahead: Vec<String>,
    /// How many those are altogether.
    pub(crate) ahead_count: u32,
    /// When the first rank was submitted.
    pub(crate) submitted_at: Option<When>,
    /// When the phase began.
    pub(crate) phase_since: Option<When>,
    /// When the current attempt began to run.
    pub(crate) running_since: Option<When>,
    /// How long it has waited altogether.
    pub(crate) waited_ms: Option<u64>,
    /// Newest complete checkpoint.
    pub(crate) checkpoint: Option<CheckpointView>,
    /// Time since that was complete.
    pub(crate) checkpoint_age_ms: Option<u64>,
    /// Step from which the next start is expected to resume.
    pub(crate) resume_step: Option<u64>,
    /// What was measured from outside.
    pub(crate) profile: ProfileView,
    /// The drain that is open or was the last; `null` if there was none.
    pub(crate) last_drain: Option<String>,
    /// Where its checkpoints are; `null` if it did not say.
    pub(crate) checkpoint_dir: Option<String>,
    /// How they look.
    pub(crate) checkpoint_format: &'static str,
    /// Number of the signal that makes it save; `null` if it did not say.
    pub(crate) save_signal: Option<i32>,
    /// Whether it ends by itself after that.
    pub(crate) exits_after_save: bool,
    /// How long it waits for a victim's checkpoint; `null`: the arbiter's default.
    pub(crate) drain_deadline_ms: Option<u64>,
    /// The command.
    pub(crate) command: Vec<String>,
}

/// One rank of a gang.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RankView {
    /// Which.
    pub(crate) rank: u32,
    /// Its `sluice run` process.
    pub(crate) launcher: String,
    /// Whether that is there.
    pub(crate) attached: bool,
    /// Nodes on which it can start a worker.
    pub(crate) nodes: Vec<String>,
    /// Where it runs or is to run; `null` while it waits.
    pub(crate) node: Option<String>,
    /// The devices there.
    pub(crate) devices: Vec<String>,
    /// The flavors whose quota it uses, by resource; none while it waits.
    pub(crate) flavors: BTreeMap<String, String>,
    /// Whether its worker has been seen.
    pub(crate) started: bool,
    /// How that ended; `null` while it has not.
    pub(crate) exit: Option<ExitView>,
}

/// How a process ended; both `null` if nobody saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct ExitView {
    /// Exit status.
    pub(crate) code: Option<i32>,
    /// Number of the signal that ended it.
    pub(crate) signal: Option<i32>,
}

/// What was measured about a workload from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ProfileView {
    /// Time of one step.
    pub(crate) step_ms: Option<u64>,
    /// Time between periodic checkpoints.
    pub(crate) save_interval_ms: Option<u64>,
    /// Time one save takes.
    pub(crate) save_ms: Option<u64>,
    /// Time from a start to the first step.
    pub(crate) restart_ms: Option<u64>,
    /// Whether a save signal was seen not to produce a checkpoint.
    pub(crate) signal_unproven: bool,
    /// Drains within the last hour.
    pub(crate) drains: u32,
}

impl WorkloadView {
    /// As the arbiter says it, looked at at `now`.
    pub(crate) fn of(workload: &pb::Workload, now: Timestamp) -> Self {
        let spec = workload.spec.clone().unwrap_or_default();
        Self {
            phase: phase_word(workload.phase()),
            reason: ReasonView::of(workload.reason.as_ref()),
            attempt: workload.attempt,
            nnodes: spec.nnodes,
            ranks: workload.members.iter().map(RankView::of).collect(),
            ahead: workload.ahead.clone(),
            ahead_count: workload.ahead_count,
            submitted_at: When::of(workload.submitted_at.as_ref(), now),
            phase_since: When::of(workload.phase_since.as_ref(), now),
            running_since: When::of(workload.running_since.as_ref(), now),
            waited_ms: workload.waited_ms,
            checkpoint: workload.checkpoint.as_ref().map(CheckpointView::of),
            checkpoint_age_ms: workload.checkpoint_age_ms,
            resume_step: workload.resume_step,
            profile: workload.profile.as_ref().map(ProfileView::of).unwrap_or_default(),
            last_drain: non_empty(&workload.last_drain),
            checkpoint_dir: non_empty(&spec.checkpoint_dir),
            checkpoint_format: format_word(spec.checkpoint_format()),
            save_signal: Some(spec.save_signal).filter(|s| *s != 0),
            exits_after_save: spec.exits_after_save,
            drain_deadline_ms: Some(spec.drain_deadline_ms).filter(|d| *d != 0),
            name: spec.name,
            queue: spec.queue,
            priority: spec.priority,
            resources: spec.resources,
            command: spec.command,
        }
    }

    /// Devices that the whole gang asks for, all kinds together (saturating).
    pub(crate) fn devices_asked(&self) -> u64 {
        // As for the arbiter: what has a domain in its name is a device, the rest is quota alone.
        let devices = self.resources.iter().filter(|(resource, _)| resource.contains('/'));
        let per_rank = devices.fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        per_rank.saturating_mul(self.nnodes.into())
    }

    /// Devices that the gang has.
    pub(crate) fn devices_held(&self) -> usize {
        self.ranks.iter().map(|r| r.devices.len()).sum()
    }

    /// Names of the nodes it has devices on, each once.
    pub(crate) fn nodes(&self) -> Vec<&str> {
        let mut nodes: Vec<&str> = self.ranks.iter().filter_map(|r| r.node.as_deref()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

impl RankView {
    fn of(member: &pb::Member) -> Self {
        let assignment = member.assignment.as_ref();
        Self {
            rank: member.rank,
            launcher: member.launcher.clone(),
            attached: member.attached,
            nodes: member.nodes.clone(),
            node: assignment.map(|a| a.node.clone()),
            devices: assignment.map(|a| a.devices.clone()).unwrap_or_default(),
            flavors: assignment
                .map(|a| a.flavors.clone().into_iter().collect())
                .unwrap_or_default(),
            started: member.started,
            exit: member.exit.map(|e| ExitView { code: e.code, signal: e.signal }),
        }
    }
}

impl ExitView {
    /// In words.
    pub(crate) fn words(self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "unknown exit".to_owned(),
        }
    }
}

impl ProfileView {
    fn of(profile: &pb::Profile) -> Self {
        Self {
            step_ms: profile.step_ms,
            save_interval_ms: profile.save_interval_ms,
            save_ms: profile.save_ms,
            restart_ms: profile.restart_ms,
            signal_unproven: profile.signal_unproven,
            drains: profile.drains,
        }
    }
}

/// `None` for the empty text.
pub(super) fn non_empty(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|t| !t.is_empty())
}

/// The word for a phase.
pub(crate) fn phase_word(phase: pb::Phase) -> &'static str {
    match phase {
        pb::Phase::Unspecified => "Unknown",
        pb::Phase::Pending => "Pending",
        pb::Phase::Admitted => "Admitted",
        pb::Phase::Running => "Running",
        pb::Phase::Draining => "Draining",
        pb::Phase::Succeeded => "Succeeded",
        pb::Phase::Failed => "Failed",
        pb::Phase::Cancelled => "Cancelled",
    }
}
