//! What the scheduler is told about possible victims, and what it answers.

use std::collections::BTreeSet;

use crate::kueue::flavor::Assignment;
use crate::kueue::name::WorkloadKey;
use crate::kueue::preempt::Victim;
use crate::kueue::reason::PendingReason;
use crate::kueue::workload::{Admission, EvictionReason};

use super::Rule;

/// What taking a workload away would cost, and what speaks against it now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Work lost and time to start again. Unit: device-milliseconds.
    pub cost_device_ms: u64,
    /// Work in no checkpoint now. Unit: device-milliseconds.
    pub at_risk_device_ms: u64,
    /// Until when it is left alone, and by which rule.
    pub protected: Option<Protection>,
    /// Whether it cannot be taken at all now, by whatever rule: it is only just starting, or out of reach.
    pub cannot_leave: bool,
    /// Once it was drained: how long what it needs must have been free before it gets it back. Unit: ms.
    pub hold_off_ms: u64,
}

/// A workload is left alone for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Protection {
    /// When that ends. Unit: ms of the caller's clock.
    pub until_ms: u64,
    /// By which rule.
    pub rule: Rule,
}

/// What is to be done, and what was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It runs from now on.
    Admit {
        /// The workload.
        workload: WorkloadKey,
        /// What it gets.
        admission: Admission,
        /// Whether it was held for the workload since its victims were chosen.
        was_held: bool,
    },
    /// These are to go; [`super::Scheduler::left`] is due for each.
    Preempt {
        /// The workload that needs room.
        workload: WorkloadKey,
        /// Who gives way; those already leaving are marked.
        victims: Vec<Victim>,
        /// What it gets then, if that is held for it from now on.
        held: Option<Admission>,
        /// Everybody whom Kueue's rules allow to be taken for it, with what that would cost, in Kueue's order.
        considered: Vec<(WorkloadKey, Standing)>,
    },
    /// It is to go because what it needs is broken; [`super::Scheduler::left`] is due.
    Evict {
        /// The workload.
        workload: WorkloadKey,
        /// Why.
        reason: EvictionReason,
    },
    /// It waits.
    Wait {
        /// The workload.
        workload: WorkloadKey,
        /// Why.
        reason: PendingReason,
        /// The flavors looked at, and what each lacks, if it came to that.
        assignment: Option<Box<Assignment>>,
        /// If somebody could give way but is left alone now: who, and until when.
        protected: Option<(WorkloadKey, Protection)>,
    },
}

impl Verdict {
    /// The workload it is about.
    #[must_use]
    pub fn workload(&self) -> &WorkloadKey {
        match self {
            Self::Admit { workload, .. }
            | Self::Preempt { workload, .. }
            | Self::Evict { workload, .. }
            | Self::Wait { workload, .. } => workload,
        }
    }
}

/// Where a workload stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In its queue.
    Waiting,
    /// It has quota and places, and waits until its victims have left.
    Holding,
    /// It runs.
    Running,
    /// It runs and is to go.
    Leaving,
}

/// Of what was said about one workload, that it waits counts only if it was said last.
pub(super) fn keep_last_waits(verdicts: Vec<Verdict>) -> Vec<Verdict> {
    let mut later = BTreeSet::new();
    let mut kept: Vec<Verdict> = Vec::with_capacity(verdicts.len());
    for verdict in verdicts.into_iter().rev() {
        let is_last = later.insert(verdict.workload().clone());
        if is_last || !matches!(verdict, Verdict::Wait { .. }) {
            kept.push(verdict);
        }
    }
    kept.reverse();
    kept
}
