//! Capacity that is held for a workload while its victims leave.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::kueue::cycle::{self, Decision};
use crate::kueue::name::WorkloadKey;
use crate::kueue::order::Pending;
use crate::kueue::snapshot::Running;
use crate::kueue::whatif::WhatIf;
use crate::kueue::workload::{Admission, Workload};

use super::{Place, Scheduler, Verdict, admitted};

/// What is held for a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What it will get.
    pub admission: Admission,
    /// Who must have left by then.
    pub victims: BTreeSet<WorkloadKey>,
    /// Whether it is not given yet, though it may be free: its workload could not start now.
    pub is_kept: bool,
}

impl Scheduler {
    /// Holds for `workload`, which waits, what `hold` says; also for a scheduler that takes up where another ended.
    pub fn hold(&mut self, workload: &Arc<Workload>, hold: Hold, now_ms: u64) {
        let key = workload.key.clone();
        if self.waiting.remove(&key).is_some()
            && let Some(queue) = self.queues.get_mut(&workload.queue)
        {
            queue.remove(&key);
        }
        self.places.insert(key.clone(), Place::Holding);
        self.snapshot.insert(Running::new(admitted(workload, hold.admission.clone(), now_ms)));
        self.holds.insert(key, hold);
        // It may want something else by now, for which nobody need leave.
        self.news.insert(workload.queue.clone());
    }

    /// Gives holders what they hold once their victims have left, or before if there is room without.
    pub(super) fn settle_holds(&mut self, now_ms: u64, verdicts: &mut Vec<Verdict>) {
        let keys: Vec<WorkloadKey> = self.holds.keys().cloned().collect();
        for key in keys {
            let Some(hold) = self.holds.get(&key) else { continue };
            let is_leaving = |victim| self.places.get(victim) == Some(&Place::Leaving);
            let is_kept = hold.is_kept;
            if hold.victims.iter().any(is_leaving) {
                self.try_without_victims(&key, now_ms, verdicts);
            } else if self.is_sound(&key, false) {
                if is_kept {
                    continue;
                }
                let admission = hold.admission.clone();
                self.holds.remove(&key);
                self.places.insert(key.clone(), Place::Running);
                self.preempted.remove(&key);
                verdicts.push(Verdict::Admit { workload: key, admission, was_held: true });
            } else if self.is_sound(&key, true) {
                self.try_without_victims(&key, now_ms, verdicts);
            } else {
                self.drop_hold(&key);
            }
        }
    }

    /// What it decides on, without those who leave for somebody for whom their room is already held.
    #[must_use]
    pub fn settled(&self) -> WhatIf<'_> {
        let mut settled = WhatIf::new(&self.snapshot);
        for victim in self.holds.values().flat_map(|hold| &hold.victims) {
            if self.places.get(victim) == Some(&Place::Leaving)
                && let Some(running) = self.snapshot.running(victim)
            {
                settled.take_away(running);
            }
        }
        settled
    }

    /// Whether what is held can be given now, or once all who are leaving have left: the nodes are there and nobody
    /// else is on them.
    fn is_sound(&self, key: &WorkloadKey, without_leaving: bool) -> bool {
        let Some(running) = self.snapshot.running(key) else { return false };
        let mut whatif = WhatIf::new(&self.snapshot);
        whatif.take_away(running);
        if without_leaving {
            let leaving = self.places.iter().filter(|(_, place)| **place == Place::Leaving);
            for running in leaving.filter_map(|(key, _)| self.snapshot.running(key)) {
                whatif.take_away(running);
            }
        }
        let Some(queue) = self.snapshot.queue(&running.queue) else { return false };
        whatif.has_room(queue.node, &running.usage) && whatif.has_places_of(running)
    }

    /// If others have made room meanwhile, nobody need leave any more.
    fn try_without_victims(&mut self, key: &WorkloadKey, now_ms: u64, verdicts: &mut Vec<Verdict>) {
        let Some(running) = self.snapshot.running(key) else { return };
        let is_kept = self.holds.get(key).is_some_and(|hold| hold.is_kept);
        if is_kept || !self.news.contains(&running.queue) {
            return;
        }
        let Some(held) = self.snapshot.remove(key) else { return };
        let workload = Arc::new(Workload { reservation: None, ..Workload::clone(&held.workload) });
        let heads = [Pending::new(Arc::clone(&workload))];
        let options = self.policy.options(None);
        let outcome = cycle::run_cycle(&self.snapshot, &heads, &options, now_ms);
        let decision = outcome.verdicts.into_iter().next().map(|verdict| verdict.decision);
        match decision {
            Some(Decision::Admit(admission)) => {
                self.holds.remove(key);
                self.run(&workload, admission.clone(), now_ms);
                let workload = key.clone();
                verdicts.push(Verdict::Admit { workload, admission, was_held: false });
            }
            Some(
                Decision::Preempt(_) | Decision::AwaitVictims | Decision::Evict(_) | Decision::Wait,
            )
            | None => {
                self.snapshot.insert(held);
            }
        }
    }

    /// Nothing is held for `key` any more: it waits.
    pub fn drop_hold(&mut self, key: &WorkloadKey) {
        let Some(_) = self.holds.remove(key) else { return };
        self.wake(key);
        let Some(held) = self.snapshot.remove(key) else { return };
        let workload = Workload { reservation: None, ..Workload::clone(&held.workload) };
        self.places.remove(key);
        self.submit(Arc::new(workload));
    }

    /// `victim` does not leave: whoever counted on it decides anew.
    pub(super) fn dissolve_holds_on(&mut self, victim: &WorkloadKey) {
        let counts_on = |hold: &Hold| hold.victims.contains(victim);
        let keys: Vec<WorkloadKey> =
            self.holds.iter().filter(|(_, h)| counts_on(h)).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.drop_hold(&key);
        }
    }
}
