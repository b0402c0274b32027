//! Who of those who wait gets capacity, and who gives way: the engine of [`crate::kueue`] under a [`Policy`].
//!
//! The scheduler knows every workload that waits, holds quota, or is leaving, and decides until nothing more can be
//! decided. It is pure: what happens comes in by its methods, what is to be done comes out as [`Verdict`]s, and `now`
//! is an argument. The arbiter drives it with real workloads, `sluice simulate` with a trace, the benches with both.
//!
//! A workload is in one place at a time:
//! *waiting* → (*holding*, while its victims leave) → *running* → (*leaving*, when it gives way) → waiting, or gone.
//! Whoever is leaving keeps its quota and places until [`Scheduler::left`]; whoever holds has them already, so that
//! nobody else gets what a drain frees.
//!
//! Wanted properties: nobody goes whom Kueue's rules spare; what is given is within quota and free; deciding again
//! without a change decides nothing; a workload that is protected is not taken, and the decision is made again when
//! its protection ends.

mod apply;
mod explain;
mod groups;
mod holds;
mod nodes;
mod outlook;
mod policy;
mod protect;
#[cfg(test)]
mod tests;
mod verdict;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::kueue::cycle::{self, CycleOutcome};
use crate::kueue::model::QueueingStrategy;
use crate::kueue::name::{QueueName, WorkloadKey};
use crate::kueue::order::{Pending, PendingQueue};
use crate::kueue::preempt::{self, Weighing};
use crate::kueue::snapshot::{Running, Setup, Snapshot};
use crate::kueue::workload::{Admission, Eviction, EvictionReason, Reservation, Workload};

pub use explain::{
    Change, ChangeError, Decider, Explanation, FlavorsTried, KueueRule, Outcome, QuotaRow, Remedy,
    Waiting,
};
use groups::{Changes, Groups};
pub use holds::Hold;
pub use outlook::Outlook;
pub use policy::{Policy, Rule, Rules};
pub use protect::{History, Limits};
use verdict::keep_last_waits;
pub use verdict::{Place, Protection, Standing, Verdict};

/// Heads of one queue that are looked at together if [`Rule::SeveralHeads`] is on. More make a cycle dearer without
/// changing much: the next cycle follows at once.
const HEADS_MAX: usize = 8;

/// Most cycles of one [`Scheduler::decide`]. Each decides about at least one workload that was not looked at since
/// the last success, so that only a fault gets here.
const CYCLES_MAX: usize = 1_000_000;

/// See the module.
#[derive(Clone, Debug)]
pub struct Scheduler {
    policy: Policy,
    setup: Arc<Setup>,
    snapshot: Snapshot,
    groups: Groups,
    queues: BTreeMap<QueueName, PendingQueue>,
    waiting: BTreeMap<WorkloadKey, Arc<Workload>>,
    places: BTreeMap<WorkloadKey, Place>,
    holds: BTreeMap<WorkloadKey, Hold>,
    /// Workloads that were preempted and wait: since when what they need has been free, if it is.
    preempted: BTreeMap<WorkloadKey, Option<u64>>,
    /// Queues about which something is new.
    news: BTreeSet<QueueName>,
    /// What else is new, for whomever it concerns.
    changes: Changes,
    /// When to look at a workload again though nothing happens.
    due_ms: BTreeMap<WorkloadKey, u64>,
}

impl Scheduler {
    /// A scheduler with nothing running.
    #[must_use]
    pub fn new(mut setup: Setup, policy: Policy) -> Self {
        let rules = &policy.rules;
        setup.placement.avoids_degraded = rules.is_on(Rule::AvoidDegraded);
        setup.placement.replaces_several_nodes = rules.is_on(Rule::MultiNodeReplacement);
        let setup = Arc::new(setup);
        let snapshot = Snapshot::new(Setup::clone(&setup));
        let groups = Groups::new(&snapshot);
        let queue = |spec: &crate::kueue::model::ClusterQueue| {
            (spec.name.clone(), PendingQueue::new(spec.strategy))
        };
        let queues = snapshot.queues().map(|state| queue(&state.spec)).collect();
        Self {
            policy,
            setup,
            snapshot,
            groups,
            queues,
            waiting: BTreeMap::new(),
            places: BTreeMap::new(),
            holds: BTreeMap::new(),
            preempted: BTreeMap::new(),
            news: BTreeSet::new(),
            changes: Changes::default(),
            due_ms: BTreeMap::new(),
        }
    }

    /// `workload` waits from now on. Whether its queue is known; if not, it is not taken.
    pub fn submit(&mut self, workload: Arc<Workload>) -> bool {
        let was_preempted = self.preempted.remove(&workload.key).is_some();
        self.forget(&workload.key);
        let Some(queue) = self.queues.get_mut(&workload.queue) else { return false };
        let (key, name) = (workload.key.clone(), workload.queue.clone());
        queue.push(Arc::clone(&workload));
        self.waiting.insert(key.clone(), workload);
        if was_preempted {
            self.preempted.insert(key.clone(), None);
        }
        self.places.insert(key, Place::Waiting);
        self.news.insert(name);
        true
    }

    /// `workload`, which has a reservation, runs; for a scheduler that takes up where another one ended.
    pub fn resume(&mut self, workload: Arc<Workload>) {
        let is_leaving = workload.is_being_evicted();
        self.forget(&workload.key);
        let place = if is_leaving { Place::Leaving } else { Place::Running };
        self.places.insert(workload.key.clone(), place);
        self.snapshot.insert(Running::new(workload));
    }

    /// A running workload is to go, for `reason`; `now_ms` is the moment of the decision.
    pub fn leaves(&mut self, key: &WorkloadKey, reason: EvictionReason, now_ms: u64) {
        let Some(running) = self.snapshot.running(key) else { return };
        let mut workload = Workload::clone(&running.workload);
        workload.eviction = Some(Eviction { reason, at_ms: now_ms });
        self.places.insert(key.clone(), Place::Leaving);
        self.snapshot.insert(Running::new(Arc::new(workload)));
    }

    /// One that was leaving keeps what it has. Whoever counted on it waits again.
    pub fn stays(&mut self, key: &WorkloadKey) {
        let Some(running) = self.snapshot.running(key) else { return };
        let mut workload = Workload::clone(&running.workload);
        workload.eviction = None;
        self.places.insert(key.clone(), Place::Running);
        self.snapshot.insert(Running::new(Arc::new(workload)));
        self.preempted.remove(key);
        self.dissolve_holds_on(key);
        self.wake(&key.clone());
    }

    /// One that was leaving has left: what it had is free.
    pub fn left(&mut self, key: &WorkloadKey) {
        let was_preempted = self.snapshot.running(key).is_some_and(|running| {
            running
                .workload
                .eviction
                .as_ref()
                .is_some_and(|e| e.reason == EvictionReason::Preempted)
        });
        self.forget(key);
        if was_preempted {
            self.preempted.insert(key.clone(), None);
        }
    }

    /// `key` has ended, or is not to be decided about for now.
    pub fn forget(&mut self, key: &WorkloadKey) {
        self.due_ms.remove(key);
        self.preempted.remove(key);
        let Some(place) = self.places.remove(key) else { return };
        match place {
            Place::Waiting => {
                let queue = self.waiting.remove(key).map(|workload| workload.queue.clone());
                if let Some(queue) = queue.and_then(|name| self.queues.get_mut(&name)) {
                    queue.remove(key);
                }
            }
            Place::Holding | Place::Running | Place::Leaving => {
                self.wake(key);
                self.holds.remove(key);
                self.snapshot.remove(key);
            }
        }
    }

    /// Something changed that may help whoever shares quota or places with `key`, which has some.
    fn wake(&mut self, key: &WorkloadKey) {
        let Some(queue) = self.snapshot.running(key).map(|running| running.queue.clone()) else {
            return;
        };
        self.wake_group_of(&queue);
    }

    /// Decides until nothing more can be decided.
    ///
    /// `standing` tells what it would cost its first argument to have the second taken away. It is asked about possible
    /// victims; and about a workload that was preempted and could come back, as both arguments.
    pub fn decide(
        &mut self,
        now_ms: u64,
        standing: &dyn Fn(&Workload, &Workload) -> Standing,
    ) -> Vec<Verdict> {
        self.wake_due(now_ms);
        self.wake_the_concerned();
        let mut verdicts = Vec::new();
        self.settle_holds(now_ms, &mut verdicts);
        let mut seen = BTreeSet::new();
        let mut aside = BTreeSet::new();
        for _ in 0..CYCLES_MAX {
            self.wake_the_concerned();
            let heads = self.pop_heads();
            let has_new =
                heads.iter().filter(|head| seen.insert(head.workload.key.clone())).count();
            if has_new == 0 {
                self.put_back(heads);
                break;
            }
            let said = verdicts.len();
            if self.run_cycle(heads, now_ms, standing, &mut verdicts) {
                self.review_hold_offs();
                seen.clear();
                aside.clear();
            } else if step_aside(&verdicts[said..], &mut aside) {
                // Whoever lost to one that then stepped aside is looked at again.
                seen.clone_from(&aside);
            }
        }
        self.news.clear();
        keep_last_waits(verdicts)
    }

    fn wake_due(&mut self, now_ms: u64) {
        let due = self.due_ms.extract_if(.., |_, at_ms| *at_ms <= now_ms);
        let due: Vec<WorkloadKey> = due.map(|(key, _)| key).collect();
        for key in due {
            let Some(name) = self.waiting.get(&key).map(|w| w.queue.clone()) else { continue };
            self.queues.get_mut(&name).into_iter().for_each(PendingQueue::wake);
            self.news.insert(name);
        }
    }

    fn pop_heads(&mut self) -> Vec<Pending> {
        let count = if self.policy.rules.is_on(Rule::SeveralHeads) { HEADS_MAX } else { 1 };
        let mut heads = Vec::new();
        for name in &self.news {
            let Some(queue) = self.queues.get_mut(name) else { continue };
            let state = self.snapshot.queue(name);
            // In a queue that is strictly in order nobody is looked at before its head has got something.
            let is_strict = state.is_some_and(|s| s.spec.strategy == QueueingStrategy::StrictFifo);
            let count = if is_strict { 1 } else { count };
            heads.extend(std::iter::from_fn(|| queue.pop()).take(count));
        }
        heads
    }

    fn put_back(&mut self, heads: Vec<Pending>) {
        for head in heads {
            if let Some(queue) = self.queues.get_mut(&head.workload.queue) {
                queue.give_back(head);
            }
        }
    }

    /// One cycle; whether it gave anything to anybody.
    fn run_cycle(
        &mut self,
        heads: Vec<Pending>,
        now_ms: u64,
        standing: &dyn Fn(&Workload, &Workload) -> Standing,
        verdicts: &mut Vec<Verdict>,
    ) -> bool {
        let outcome = self.cycle_on(&self.snapshot, &heads, now_ms, standing);
        let mut heads: BTreeMap<WorkloadKey, Pending> =
            heads.into_iter().map(|head| (head.workload.key.clone(), head)).collect();
        let mut has_progress = false;
        for verdict in outcome.verdicts {
            if let Some(head) = heads.remove(&verdict.workload) {
                has_progress |= self.apply(head, verdict, now_ms, standing, verdicts);
            }
        }
        self.put_back(heads.into_values().collect());
        has_progress
    }

    /// One cycle of the engine under the policy.
    fn cycle_on(
        &self,
        snapshot: &Snapshot,
        heads: &[Pending],
        now_ms: u64,
        standing: &dyn Fn(&Workload, &Workload) -> Standing,
    ) -> CycleOutcome {
        let weigh = |preemptor: &Workload, running: &Running| {
            self.weigh(preemptor, running, now_ms, standing)
        };
        let weighing = Weighing {
            standing: &weigh,
            finds_cheapest: self.policy.rules.is_on(Rule::LostWork),
            follows_topology: self.policy.rules.is_on(Rule::TopologyVictims),
        };
        cycle::run_cycle(snapshot, heads, &self.policy.options(Some(weighing)), now_ms)
    }

    /// Somebody got something: whoever waits for demand to be low for a while is looked at again.
    fn review_hold_offs(&mut self) {
        let free = self.preempted.iter().filter(|(_, since)| since.is_some());
        for (key, _) in free {
            let Some(name) = self.waiting.get(key).map(|workload| workload.queue.clone()) else {
                continue;
            };
            if let Some(queue) = self.queues.get_mut(&name)
                && let Some(pending) = queue.remove(key)
            {
                queue.give_back(pending);
            }
            self.news.insert(name);
        }
    }

    /// The standing of a possible victim as the engine wants it.
    fn weigh(
        &self,
        preemptor: &Workload,
        running: &Running,
        now_ms: u64,
        standing: &dyn Fn(&Workload, &Workload) -> Standing,
    ) -> preempt::Standing {
        let is_holding = self.holds.contains_key(&running.workload.key);
        let standing = standing(preemptor, &running.workload);
        preempt::Standing {
            cost_device_ms: standing.cost_device_ms,
            at_risk_device_ms: standing.at_risk_device_ms,
            is_spared: is_holding
                || standing.cannot_leave
                || self.protection(&standing, now_ms).is_some(),
        }
    }

    /// What protects it now, as far as the rules are on.
    fn protection(&self, standing: &Standing, now_ms: u64) -> Option<Protection> {
        standing.protected.filter(|p| p.until_ms > now_ms && self.policy.rules.is_on(p.rule))
    }
}

/// `workload` with `admission`, as it runs from `now_ms` on.
fn admitted(workload: &Workload, admission: Admission, now_ms: u64) -> Arc<Workload> {
    let reservation = Some(Reservation { at_ms: now_ms, is_admitted: true, admission });
    Arc::new(Workload { reservation, eviction: None, ..workload.clone() })
}

/// Adds those that are held off to `aside`; whether there are more than before.
fn step_aside(verdicts: &[Verdict], aside: &mut BTreeSet<WorkloadKey>) -> bool {
    let before = aside.len();
    aside.extend(verdicts.iter().filter_map(|verdict| match verdict {
        Verdict::Wait { workload, protected: Some((held_off, _)), .. } if workload == held_off => {
            Some(workload.clone())
        }
        Verdict::Wait { .. }
        | Verdict::Admit { .. }
        | Verdict::Preempt { .. }
        | Verdict::Evict { .. } => None,
    }));
    aside.len() > before
}
