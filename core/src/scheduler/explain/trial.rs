//! A copy of what the scheduler decides on, in which things can be different.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::kueue::cycle::{self, Decision};
use crate::kueue::model::QueueingStrategy;
use crate::kueue::name::{QueueName, WorkloadKey};
use crate::kueue::order::{Pending, RequeueReason, goes_before};
use crate::kueue::preempt::{self, Weighing};
use crate::kueue::reason::PendingReason;
use crate::kueue::snapshot::{Running, Snapshot};
use crate::kueue::workload::{PodSet, TopologyMode, TopologyRequest, Workload};

use super::super::groups::Changes;
use super::super::{Outlook, Place, Rule, Scheduler, Standing};
use super::{Change, ChangeError, Outcome, Waiting};

/// When it is asked, and what is known of those who could give way.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) now_ms: u64,
    pub(super) standing: &'a dyn Fn(&Workload, &Workload) -> Standing,
}

/// A copy in which things can be different.
#[derive(Clone, Debug)]
pub(super) struct Trial<'s> {
    /// The scheduler that is asked about.
    original: &'s Scheduler,
    /// A scheduler of the same policy, snapshot and holds, in which nobody waits.
    copy: Scheduler,
    workload: Arc<Workload>,
    gone: BTreeSet<WorkloadKey>,
}

impl<'s> Trial<'s> {
    /// The cluster as it is, with `key` as a workload that waits; `None` if it neither waits nor holds.
    pub(super) fn new(original: &'s Scheduler, key: &WorkloadKey) -> Option<Self> {
        let (snapshot, workload) = match original.place(key)? {
            Place::Waiting => (original.snapshot.clone(), Arc::clone(original.waiting(key)?)),
            Place::Holding => original.before_hold(key)?,
            Place::Running | Place::Leaving => return None,
        };
        let mut holds = original.holds.clone();
        holds.remove(key);
        let victims = holds.values().flat_map(|hold| &hold.victims);
        let places = victims.filter_map(|key| Some((key.clone(), original.place(key)?))).collect();
        let copy = Scheduler {
            policy: original.policy.clone(),
            setup: Arc::clone(&original.setup),
            snapshot,
            groups: original.groups.clone(),
            queues: BTreeMap::new(),
            waiting: BTreeMap::new(),
            places,
            holds,
            preempted: original.preempted.clone(),
            changes: Changes::default(),
            news: BTreeSet::new(),
            due_ms: BTreeMap::new(),
        };
        Some(Self { original, copy, workload, gone: BTreeSet::new() })
    }

    pub(super) fn workload(&self) -> &Arc<Workload> {
        &self.workload
    }

    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.copy.snapshot
    }

    pub(super) fn scheduler(&self) -> &Scheduler {
        &self.copy
    }

    /// Makes `change` so.
    pub(super) fn apply(&mut self, change: &Change) -> Result<(), ChangeError> {
        match change {
            Change::Priority(priority) => self.modify(|workload| workload.priority = *priority),
            Change::Ranks(0) => return Err(ChangeError::NoRanks),
            Change::Ranks(ranks) => self.modify(|workload| set_ranks(workload, *ranks)),
            Change::Resource(resource, amount) => self.modify(|workload| {
                for pod_set in &mut workload.pod_sets {
                    match amount {
                        ..=0 => pod_set.requests.remove(resource),
                        _ => pod_set.requests.insert(resource.clone(), *amount),
                    };
                }
            }),
            Change::Queue(queue) => {
                self.known_queue(queue)?;
                self.modify(|workload| workload.queue = queue.clone());
            }
            Change::Topology(mode) => self.modify(|workload| {
                for pod_set in &mut workload.pod_sets {
                    set_topology(pod_set, mode.as_ref());
                }
            }),
            Change::Quota { queue, fr, more } => {
                self.known_queue(queue)?;
                if !self.copy.snapshot.add_quota(queue, fr, *more) {
                    return Err(ChangeError::QuotaUnknown { queue: queue.clone(), fr: fr.clone() });
                }
            }
            Change::Without(key) => self.end(key)?,
            Change::RuleOff(rule) => self.set_rule(*rule, false),
            Change::RuleOn(rule) => self.set_rule(*rule, true),
        }
        Ok(())
    }

    fn known_queue(&self, queue: &QueueName) -> Result<(), ChangeError> {
        let known = self.copy.snapshot.queue(queue);
        known.map(|_| ()).ok_or_else(|| ChangeError::QueueUnknown(queue.clone()))
    }

    fn modify(&mut self, change: impl FnOnce(&mut Workload)) {
        change(Arc::make_mut(&mut self.workload));
    }

    fn end(&mut self, key: &WorkloadKey) -> Result<(), ChangeError> {
        let is_known = self.original.place(key).is_some() && *key != self.workload.key;
        if !is_known {
            return Err(ChangeError::WorkloadUnknown(key.clone()));
        }
        self.take_away(key);
        self.copy.holds.remove(key);
        self.gone.insert(key.clone());
        Ok(())
    }

    /// What comes of `change`, which concerns the workload alone. It is undone.
    pub(super) fn decide_as(&mut self, change: &Change, asking: &Asking<'_>) -> Option<Outcome> {
        let before = Arc::clone(&self.workload);
        let outcome = self.apply(change).ok().and_then(|()| self.decide(asking));
        self.workload = before;
        outcome
    }

    /// Whether it would fit at once with `change`, which concerns the workload alone. It is undone.
    pub(super) fn fits_as(&mut self, change: &Change, now_ms: u64) -> bool {
        let before = Arc::clone(&self.workload);
        let fits = self.apply(change).is_ok() && self.fits(now_ms);
        self.workload = before;
        fits
    }

    /// Whether something is held for `key`.
    pub(super) fn is_holder(&self, key: &WorkloadKey) -> bool {
        self.copy.holds.contains_key(key)
    }

    /// What it needs has been free since `now_ms`, if it is not known since when.
    pub(super) fn assume_free_since(&mut self, now_ms: u64) {
        if let Some(free_since_ms) = self.copy.preempted.get_mut(&self.workload.key) {
            free_since_ms.get_or_insert(now_ms);
        }
    }

    /// Takes a running workload away, for a moment or for good.
    pub(super) fn take_away(&mut self, key: &WorkloadKey) -> Option<Running> {
        self.copy.snapshot.remove(key)
    }

    /// Puts back what was taken away.
    pub(super) fn put_back(&mut self, running: Running) {
        self.copy.snapshot.insert(running);
    }

    fn set_rule(&mut self, rule: Rule, is_on: bool) {
        let rules = &self.copy.policy.rules;
        if rules.is_on(rule) == is_on {
            return;
        }
        let others = rules.iter().filter(|other| *other != rule);
        self.copy.policy.rules = others.chain(is_on.then_some(rule)).collect();
        let mut placement = self.copy.snapshot.placement();
        match rule {
            Rule::AvoidDegraded => placement.avoids_degraded = is_on,
            Rule::MultiNodeReplacement => placement.replaces_several_nodes = is_on,
            Rule::HeldCapacity if !is_on => self.drop_holds(),
            Rule::LostWork
            | Rule::HeldCapacity
            | Rule::ProductiveFloor
            | Rule::Hysteresis
            | Rule::DrainBudget
            | Rule::TopologyVictims
            | Rule::SeveralHeads => {}
        }
        if placement != self.copy.snapshot.placement() {
            self.copy.snapshot.set_placement(placement);
        }
    }

    /// As if nothing were held for anybody.
    fn drop_holds(&mut self) {
        for key in std::mem::take(&mut self.copy.holds).into_keys() {
            self.copy.snapshot.remove(&key);
        }
    }

    /// What the engine says, with all that could be taken.
    pub(super) fn outlook(&self, asking: &Asking<'_>) -> Option<Outlook> {
        let Asking { now_ms, standing } = *asking;
        self.copy.outlook_on(&self.copy.snapshot, &self.workload, now_ms, standing)
    }

    /// What comes of it.
    pub(super) fn outcome(&self, outlook: &Outlook, asking: &Asking<'_>) -> Outcome {
        let verdict = &outlook.verdict;
        if let Some(outcome) = self.success(verdict, asking) {
            return outcome;
        }
        if let (Decision::Admit(_), Some(until_ms)) = (&verdict.decision, self.held_off(asking)) {
            return Outcome::Waits(Waiting::HeldOff { until_ms });
        }
        let blocking = self.goes_first().filter(|_| is_possible(&verdict.decision));
        if let Some(first) = blocking {
            return Outcome::Waits(Waiting::Behind(first.key.clone()));
        }
        if let Some((key, protection)) = self.protected(outlook, asking) {
            return Outcome::Waits(Waiting::Protected(key, protection));
        }
        let reason = verdict.reason.unwrap_or(PendingReason::PendingEvaluation);
        Outcome::Waits(Waiting::Lacks(reason))
    }

    /// What it gets, at once or by preemption; `None` if it waits.
    fn success(&self, verdict: &cycle::Verdict, asking: &Asking<'_>) -> Option<Outcome> {
        if self.goes_first().is_some() {
            return None;
        }
        match &verdict.decision {
            Decision::Admit(_) if self.held_off(asking).is_some() => None,
            Decision::Admit(admission) => Some(Outcome::Admitted(admission.clone())),
            Decision::Preempt(victims) => Some(Outcome::Preempts(victims.clone())),
            Decision::AwaitVictims | Decision::Evict(_) | Decision::Wait => None,
        }
    }

    /// What it would get if it were decided about now; `None` if it would wait.
    pub(super) fn decide(&self, asking: &Asking<'_>) -> Option<Outcome> {
        let heads = [Pending::new(Arc::clone(&self.workload))];
        let Asking { now_ms, standing } = *asking;
        let outcome = self.copy.cycle_on(&self.copy.snapshot, &heads, now_ms, standing);
        self.success(outcome.verdicts.first()?, asking)
    }

    /// Whether it fits at once, without anybody giving way.
    pub(super) fn fits(&self, now_ms: u64) -> bool {
        let spared = preempt::Standing { is_spared: true, ..preempt::Standing::default() };
        let spare = |_: &Workload, _: &Running| spared;
        let weighing =
            Weighing { standing: &spare, finds_cheapest: false, follows_topology: false };
        let heads = [Pending::new(Arc::clone(&self.workload))];
        let options = self.copy.policy.options(Some(weighing));
        let outcome = cycle::run_cycle(&self.copy.snapshot, &heads, &options, now_ms);
        outcome.verdicts.iter().any(|verdict| matches!(verdict.decision, Decision::Admit(_)))
    }

    /// Who blocks its queue, if that is strictly first in, first out.
    pub(super) fn goes_first(&self) -> Option<&'s Arc<Workload>> {
        let state = self.copy.snapshot.queue(&self.workload.queue)?;
        match state.spec.strategy {
            QueueingStrategy::BestEffortFifo => return None,
            QueueingStrategy::StrictFifo => {}
        }
        let waiting = self.original.waiting_in(&self.workload.queue);
        let mut others = waiting
            .filter(|other| other.key != self.workload.key && !self.gone.contains(&other.key));
        others.find(|other| goes_before(other, &self.workload))
    }

    /// Until when it does not come back, though it could.
    fn held_off(&self, asking: &Asking<'_>) -> Option<u64> {
        let free_since_ms = self.copy.preempted.get(&self.workload.key)?;
        if !self.copy.policy.rules.is_on(Rule::Hysteresis) {
            return None;
        }
        let hold_off_ms = (asking.standing)(&self.workload, &self.workload).hold_off_ms;
        let until_ms = free_since_ms.unwrap_or(asking.now_ms).saturating_add(hold_off_ms);
        (until_ms > asking.now_ms).then_some(until_ms)
    }

    /// If nobody can give way only because of protection: whose ends first.
    fn protected(
        &self,
        outlook: &Outlook,
        asking: &Asking<'_>,
    ) -> Option<(WorkloadKey, super::Protection)> {
        if outlook.verdict.requeue != Some(RequeueReason::NoCandidates) {
            return None;
        }
        let protection = |standing| self.copy.protection(standing, asking.now_ms);
        let candidates = outlook.candidates.iter();
        let protected = candidates.filter_map(|(key, s)| Some((protection(s)?, key)));
        protected.min().map(|(protection, key)| (key.clone(), protection))
    }

    /// Sluice's rules without which something else would be decided: each is switched off alone.
    pub(super) fn rules_that_matter(
        &self,
        outlook: &Outlook,
        outcome: &Outcome,
        asking: &Asking<'_>,
    ) -> Vec<Rule> {
        let matters = |rule: &Rule| {
            if !self.copy.policy.rules.is_on(*rule) || !self.may_matter(*rule, outlook, outcome) {
                return false;
            }
            let mut without = self.clone();
            without.set_rule(*rule, false);
            let outlook = without.outlook(asking);
            outlook.is_some_and(|outlook| without.outcome(&outlook, asking) != *outcome)
        };
        Rule::ALL.into_iter().filter(matters).collect()
    }

    /// Whether it is worth trying what happens without `rule`.
    fn may_matter(&self, rule: Rule, outlook: &Outlook, outcome: &Outcome) -> bool {
        let protects = |rule| {
            let mut protections = outlook.candidates.iter().filter_map(|(_, s)| s.protected);
            protections.any(|protection| protection.rule == rule)
        };
        let preempts = matches!(outcome, Outcome::Preempts(_));
        match rule {
            Rule::LostWork => preempts,
            Rule::HeldCapacity => {
                matches!(outcome, Outcome::Waits(_)) && !self.copy.holds.is_empty()
            }
            Rule::ProductiveFloor | Rule::DrainBudget => protects(rule),
            Rule::Hysteresis => matches!(outcome, Outcome::Waits(Waiting::HeldOff { .. })),
            Rule::TopologyVictims => preempts,
            Rule::AvoidDegraded => matches!(outcome, Outcome::Admitted(_)),
            // One workload alone is looked at here, and it waits.
            Rule::SeveralHeads | Rule::MultiNodeReplacement => false,
        }
    }
}

fn is_possible(decision: &Decision) -> bool {
    match decision {
        Decision::Admit(_) | Decision::Preempt(_) => true,
        Decision::AwaitVictims | Decision::Evict(_) | Decision::Wait => false,
    }
}

fn set_ranks(workload: &mut Workload, ranks: u32) {
    let mut left = ranks;
    for pod_set in &mut workload.pod_sets {
        pod_set.count = pod_set.count.min(left);
        left -= pod_set.count;
    }
    if let Some(first) = workload.pod_sets.first_mut() {
        first.count = first.count.saturating_add(left);
    }
    workload.pod_sets.retain(|pod_set| pod_set.count > 0);
}

fn set_topology(pod_set: &mut PodSet, mode: Option<&TopologyMode>) {
    let request = pod_set.topology.take().unwrap_or_default();
    let request = TopologyRequest { mode: mode.cloned(), ..request };
    let is_empty = request == TopologyRequest::default();
    pod_set.topology = (!is_empty).then_some(request);
}
