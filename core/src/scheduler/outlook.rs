//! What would be decided about one workload now, and between whom. Nothing is changed by asking.

use std::sync::Arc;

use crate::kueue::cycle;
use crate::kueue::name::WorkloadKey;
use crate::kueue::order::Pending;
use crate::kueue::snapshot::{Running, Snapshot};
use crate::kueue::workload::Workload;

use super::{Place, Scheduler, Standing};

/// What would be decided about one workload now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// The engine's answer: flavors tried, what is lacking, victims.
    pub verdict: cycle::Verdict,
    /// Whom Kueue's rules allow to be taken for it, with what that would cost, in Kueue's order.
    pub candidates: Vec<(WorkloadKey, Standing)>,
}

impl Scheduler {
    /// The outlook of `key`, which waits or holds; of one that holds, as if its victims had not been chosen yet.
    /// `None` if nothing is to be decided about it.
    #[must_use]
    pub fn outlook(
        &self,
        key: &WorkloadKey,
        now_ms: u64,
        standing: &dyn Fn(&Workload, &Workload) -> Standing,
    ) -> Option<Outlook> {
        match self.place(key)? {
            Place::Waiting => {
                let workload = self.waiting(key)?;
                self.outlook_on(&self.snapshot, workload, now_ms, standing)
            }
            Place::Holding => {
                let (snapshot, workload) = self.before_hold(key)?;
                self.outlook_on(&snapshot, &workload, now_ms, standing)
            }
            Place::Running | Place::Leaving => None,
        }
    }

    /// The cluster as it was before victims were chosen for `key`.
    pub(super) fn before_hold(&self, key: &WorkloadKey) -> Option<(Snapshot, Arc<Workload>)> {
        let hold = self.hold_of(key)?;
        let mut snapshot = self.snapshot.clone();
        let held = snapshot.remove(key)?;
        for victim in &hold.victims {
            let Some(running) = snapshot.running(victim) else { continue };
            let workload = Workload { eviction: None, ..Workload::clone(&running.workload) };
            snapshot.insert(Running::new(Arc::new(workload)));
        }
        let workload = Workload { reservation: None, ..Workload::clone(&held.workload) };
        Some((snapshot, Arc::new(workload)))
    }

    /// What would be decided about `workload` if it waited in `snapshot`.
    pub(super) fn outlook_on(
        &self,
        snapshot: &Snapshot,
        workload: &Arc<Workload>,
        now_ms: u64,
        standing: &dyn Fn(&Workload, &Workload) -> Standing,
    ) -> Option<Outlook> {
        let heads = [Pending::new(Arc::clone(workload))];
        let outcome = self.cycle_on(snapshot, &heads, now_ms, standing);
        let verdict = outcome.verdicts.into_iter().next()?;
        let candidates = verdict.assignment.as_ref().map(|assignment| {
            super::apply::candidates_on(
                snapshot,
                &self.policy,
                workload,
                assignment,
                now_ms,
                standing,
            )
        });
        Some(Outlook { verdict, candidates: candidates.unwrap_or_default() })
    }
}
