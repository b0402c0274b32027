//! Carries plans out one after the other, each on what those before it left.

use std::collections::BTreeMap;

use super::super::flavor::{Assignment, Mode};
use super::super::model::PreemptionPolicy;
use super::super::name::WorkloadKey;
use super::super::order::RequeueReason;
use super::super::preempt::to_victims;
use super::super::reason::PendingReason;
use super::super::snapshot::{QueueState, Running, Snapshot, TopologyUsage};
use super::super::topology;
use super::super::whatif::WhatIf;
use super::super::workload::{EvictionReason, Usage};
use super::nominate::Entry;
use super::{Decision, Options, Rule, Verdict};

/// A cycle under way.
#[derive(Debug)]
pub(super) struct Cycle<'a> {
    /// The snapshot with what entries already processed take.
    pub whatif: WhatIf<'a>,
    pub options: &'a Options<'a>,
    pub now_ms: u64,
    /// Victims chosen so far. They keep their quota in `whatif`; only who fits is judged without them.
    preempted: BTreeMap<WorkloadKey, &'a Running>,
}

/// Whether a plan can be carried out now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Enough,
    NoQuota,
    NoPlace,
}

impl<'a> Cycle<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, options: &'a Options<'a>, now_ms: u64) -> Self {
        Self { whatif: WhatIf::new(snapshot), options, now_ms, preempted: BTreeMap::new() }
    }

    pub(super) fn snapshot(&self) -> &'a Snapshot {
        self.whatif.snapshot()
    }

    /// Takes workloads away; returns those that were not gone before.
    pub(super) fn take_away(
        &mut self,
        running: impl IntoIterator<Item = &'a Running>,
    ) -> Vec<&'a Running> {
        running.into_iter().filter(|running| self.whatif.take_away(running)).collect()
    }

    pub(super) fn put_back(&mut self, running: &[&'a Running]) {
        for running in running {
            self.whatif.put_back(running);
        }
    }

    /// Decides about one entry.
    pub(super) fn process(&mut self, mut entry: Entry<'a>) -> Verdict {
        let (room, is_deferred) = self.refresh(&mut entry);
        let mode = entry.plan.assignment.mode();
        if self.options.is_on(Rule::EvictUnreplaceable)
            && entry.workload.has_unhealthy_placement()
            && mode != Mode::Fit
        {
            return finish(&entry, Decision::Evict(EvictionReason::NodeFailures));
        }
        match mode {
            Mode::NoFit => {
                let reason = entry.plan.assignment.no_fit_reason;
                let reason = reason.unwrap_or(PendingReason::PendingEvaluation);
                wait(&entry, reason, RequeueReason::NoFit)
            }
            Mode::Preempt if entry.plan.targets.is_empty() => {
                self.hold_capacity(&entry);
                wait(&entry, PendingReason::WaitingForQuota, RequeueReason::NoCandidates)
            }
            Mode::Preempt | Mode::Fit => {
                if self.wants_taken_victims(&entry) || room != Room::Enough {
                    return wait(
                        &entry,
                        PendingReason::WaitingForQuota,
                        RequeueReason::LostToAnother,
                    );
                }
                self.carry_out(&entry, is_deferred)
            }
        }
    }

    /// Chooses again for an entry whose places or victims others have taken. Returns whether there is room, and
    /// whether it only is once the victims of others are gone.
    fn refresh(&mut self, entry: &mut Entry<'a>) -> (Room, bool) {
        let is_overlap =
            self.options.is_on(Rule::RecomputeOnOverlap) && self.wants_taken_victims(entry);
        let room = self.room_for(entry);
        let is_displaced = room == Room::NoPlace && self.options.is_on(Rule::RecomputePlacement);
        if !is_overlap && !is_displaced {
            return (room, false);
        }
        // It stays with its flavors: others were nominated for what it did not choose.
        let nominated = entry.plan.assignment.nominated();
        let gone = if is_overlap {
            let preempted: Vec<&Running> = self.preempted.values().copied().collect();
            self.take_away(preempted)
        } else {
            Vec::new()
        };
        entry.plan = self.plan(entry.workload, entry.queue, None, Some(&nominated));
        self.put_back(&gone);
        let is_deferred = is_overlap && entry.plan.assignment.mode() == Mode::Fit;
        (self.room_for(entry), is_deferred)
    }

    fn wants_taken_victims(&self, entry: &Entry<'_>) -> bool {
        let mut targets = entry.plan.targets.iter();
        targets.any(|(running, _)| self.preempted.contains_key(&running.workload.key))
    }

    /// Whether the entry's plan fits, with its own victims and those of others gone.
    fn room_for(&mut self, entry: &Entry<'a>) -> Room {
        let preempted: Vec<&Running> = self.preempted.values().copied().collect();
        let own = entry.plan.targets.iter().map(|(running, _)| *running);
        let gone = self.take_away(preempted.into_iter().chain(own));
        let room = if !self.whatif.has_room(entry.queue.node, &entry.new_quota()) {
            Room::NoQuota
        } else if !self.has_places(&self.new_places(entry)) {
            Room::NoPlace
        } else {
            Room::Enough
        };
        self.put_back(&gone);
        room
    }

    fn new_places(&self, entry: &Entry<'_>) -> TopologyUsage {
        topology::new_usage(&entry.plan.assignment, entry.workload, self.snapshot())
    }

    fn has_places(&self, places: &TopologyUsage) -> bool {
        places.own.iter().all(|(flavor, usage)| {
            self.whatif.topology(flavor).is_none_or(|topology| topology.fits(usage))
        })
    }

    fn carry_out(&mut self, entry: &Entry<'a>, is_deferred: bool) -> Verdict {
        self.charge(entry, &entry.new_quota());
        for (running, _) in &entry.plan.targets {
            self.preempted.insert(running.workload.key.clone(), running);
        }
        let waiting = PendingReason::WaitingForPreemptedWorkloads;
        if entry.plan.assignment.mode() == Mode::Preempt {
            let decision = Decision::Preempt(to_victims(&entry.plan.targets));
            let verdict = wait(entry, waiting, RequeueReason::PendingPreemption);
            return Verdict { decision, ..verdict };
        }
        if is_deferred {
            let verdict = wait(entry, waiting, RequeueReason::PendingPreemption);
            return Verdict { decision: Decision::AwaitVictims, ..verdict };
        }
        finish(entry, Decision::Admit(entry.plan.assignment.to_admission(entry.queue)))
    }

    fn charge(&mut self, entry: &Entry<'_>, quota: &Usage) {
        let places = self.new_places(entry);
        self.whatif.charge(entry.queue.node, quota);
        self.whatif.charge_topologies(&places);
    }

    /// Keeps what an entry without victims could use, so that workloads of lower priority in other queues do not
    /// take it first. A queue that can always reclaim its own need not.
    fn hold_capacity(&mut self, entry: &Entry<'_>) {
        let policies = &entry.queue.spec.preemption;
        if policies.reclaim_within_cohort == PreemptionPolicy::Any {
            return;
        }
        let quota = match entry.workload.reservation {
            Some(_) => Usage::new(),
            None => self.usable_part(entry.queue, &entry.plan.assignment),
        };
        self.charge(entry, &quota);
    }

    /// The part of an assignment that its queue may use: up to its own quota, or up to its borrowing limit.
    fn usable_part(&self, queue: &QueueState, assignment: &Assignment) -> Usage {
        let ledger = self.whatif.ledger();
        let part = assignment.usage.iter().map(|(fr, &amount)| {
            let quota = ledger.tree().quota(queue.node, fr);
            let left = |limit: i64| limit.saturating_sub(ledger.usage(queue.node, fr));
            let usable = match (assignment.borrow_height, quota.borrowing_limit) {
                (0, _) => amount.min(left(quota.nominal)),
                (_, None) => amount,
                (_, Some(limit)) => amount.min(left(quota.nominal.saturating_add(limit))),
            };
            (fr.clone(), usable.max(0))
        });
        part.collect()
    }
}

fn wait(entry: &Entry<'_>, reason: PendingReason, requeue: RequeueReason) -> Verdict {
    let keeps_progress = match requeue {
        RequeueReason::NoFit | RequeueReason::NoCandidates => true,
        RequeueReason::NotNominated
        | RequeueReason::NamespaceMismatch
        | RequeueReason::LostToAnother
        | RequeueReason::PendingPreemption => false,
    };
    Verdict {
        workload: entry.workload.key.clone(),
        queue: entry.queue.spec.name.clone(),
        decision: Decision::Wait,
        reason: Some(reason),
        requeue: entry.workload.reservation.is_none().then_some(requeue),
        progress: keeps_progress.then(|| entry.plan.assignment.progress()),
        assignment: Some(entry.plan.assignment.clone()),
    }
}

fn finish(entry: &Entry<'_>, decision: Decision) -> Verdict {
    Verdict {
        workload: entry.workload.key.clone(),
        queue: entry.queue.spec.name.clone(),
        decision,
        reason: None,
        requeue: None,
        progress: None,
        assignment: Some(entry.plan.assignment.clone()),
    }
}
