//! The engine, driven as the arbiter drives it: who waits, who runs, and whatever can be decided now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_core::kueue::cycle::{Decision, Options, run_cycle};
use sluice_core::kueue::name::{QueueName, WorkloadKey};
use sluice_core::kueue::order::{Pending, PendingQueue};
use sluice_core::kueue::preempt::Victim;
use sluice_core::kueue::quota::NodeId;
use sluice_core::kueue::reason::PendingReason;
use sluice_core::kueue::snapshot::{Running, Setup, Snapshot};
use sluice_core::kueue::workload::{Admission, Eviction, EvictionReason, Reservation, Workload};

/// One policy over the engine; all state is in here.
#[derive(Debug)]
pub(super) struct Scheduler {
    snapshot: Snapshot,
    policy: Policy,
    queues: BTreeMap<QueueName, PendingQueue>,
    /// The queues of each cohort tree, by its root.
    members: BTreeMap<NodeId, Vec<QueueName>>,
    /// Roots in which something changed since the last decision.
    changed: BTreeSet<NodeId>,
    /// Whether queues of different cohorts share nodes, so that a change in one may help all.
    shares_nodes: bool,
}

/// How is decided.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub options: Options,
    /// Whether victims are chosen by what taking them costs.
    pub weighs_lost_work: bool,
}

/// What taking a running workload away would cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// Device time that would be spent for nothing. Unit: the measured resource times milliseconds.
    pub cost_device_ms: u64,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It runs from now on.
    Admit { workload: WorkloadKey, admission: Admission },
    /// These must go; `left` is called for each once its devices are free.
    Preempt { victims: Vec<Victim> },
    /// It waits.
    Wait { workload: WorkloadKey, reason: PendingReason },
}

impl Scheduler {
    /// A scheduler with nothing running and nobody waiting.
    pub(super) fn new(setup: Setup, policy: Policy) -> Self {
        let shares_nodes = setup.flavors.iter().any(|flavor| flavor.topology.is_some());
        let snapshot = Snapshot::new(setup);
        let (mut queues, mut members) = (BTreeMap::new(), BTreeMap::<NodeId, Vec<_>>::new());
        for queue in snapshot.queues() {
            let name = &queue.spec.name;
            queues.insert(name.clone(), PendingQueue::new(queue.spec.strategy));
            members.entry(snapshot.tree().root(queue.node)).or_default().push(name.clone());
        }
        let changed = BTreeSet::new();
        Self { snapshot, policy, queues, members, changed, shares_nodes }
    }

    /// `workload` waits from now on; one of an unknown queue is ignored.
    pub(super) fn submit(&mut self, workload: Arc<Workload>) {
        let Some(queue) = self.queues.get_mut(&workload.queue) else { return };
        let root = self.snapshot.queue(&workload.queue).map(|queue| queue.node);
        queue.push(workload);
        self.changed.extend(root.map(|node| self.snapshot.tree().root(node)));
    }

    /// The victim `key` has released its devices.
    pub(super) fn left(&mut self, key: &WorkloadKey) {
        self.forget(key);
    }

    /// The workload `key` has ended.
    pub(super) fn forget(&mut self, key: &WorkloadKey) {
        let Some(gone) = self.snapshot.remove(key) else { return };
        let root = self.snapshot.queue(&gone.queue).map(|queue| queue.node);
        let root = root.map(|node| self.snapshot.tree().root(node));
        let woken: Vec<NodeId> = if self.shares_nodes {
            self.members.keys().copied().collect()
        } else {
            root.into_iter().collect()
        };
        for root in woken {
            for name in self.members.get(&root).into_iter().flatten() {
                if let Some(queue) = self.queues.get_mut(name) {
                    queue.wake();
                }
            }
            self.changed.insert(root);
        }
    }

    /// Decides until nothing more can be decided.
    pub(super) fn decide(
        &mut self,
        now_ms: u64,
        standing: &dyn Fn(&Workload) -> Standing,
    ) -> Vec<Verdict> {
        let mut decided = Vec::new();
        let changed = std::mem::take(&mut self.changed);
        loop {
            let heads = self.heads(&changed);
            if heads.is_empty() {
                return decided;
            }
            let mut verdicts =
                run_cycle(&self.snapshot, &heads, &self.policy.options, now_ms).verdicts;
            let preempts = |decision: &Decision| matches!(decision, Decision::Preempt(_));
            if self.policy.weighs_lost_work && verdicts.iter().any(|v| preempts(&v.decision)) {
                let options = self.weigh(&changed, standing);
                verdicts = run_cycle(&self.snapshot, &heads, &options, now_ms).verdicts;
            }
            let mut heads: BTreeMap<WorkloadKey, Pending> =
                heads.into_iter().map(|head| (head.workload.key.clone(), head)).collect();
            let mut has_progress = false;
            for verdict in verdicts {
                let Some(mut head) = heads.remove(&verdict.workload) else { continue };
                head.progress = verdict.progress;
                match verdict.decision {
                    Decision::Admit(admission) => {
                        has_progress = true;
                        self.admit(&head.workload, &admission, now_ms);
                        decided.push(Verdict::Admit { workload: verdict.workload, admission });
                        continue;
                    }
                    Decision::Preempt(victims) => {
                        let victims: Vec<Victim> =
                            victims.into_iter().filter(|victim| !victim.is_leaving).collect();
                        if !victims.is_empty() {
                            has_progress = true;
                            self.mark_leaving(&victims, now_ms);
                            decided.push(Verdict::Preempt { victims });
                        }
                    }
                    Decision::AwaitVictims | Decision::Evict(_) | Decision::Wait => {}
                }
                if let Some(reason) = verdict.reason {
                    decided.push(Verdict::Wait { workload: verdict.workload, reason });
                }
                if let (Some(requeue), Some(queue)) =
                    (verdict.requeue, self.queues.get_mut(&verdict.queue))
                {
                    let before = queue.active().count();
                    queue.requeue(head, requeue);
                    // If it was parked, the next in line gets its turn.
                    has_progress |= queue.active().count() <= before && before > 0;
                }
            }
            if !has_progress {
                return decided;
            }
        }
    }

    fn heads(&mut self, changed: &BTreeSet<NodeId>) -> Vec<Pending> {
        let names = changed.iter().filter_map(|root| self.members.get(root)).flatten();
        names.filter_map(|name| self.queues.get_mut(name)?.pop()).collect()
    }

    /// The options with the cost of everything that may be a victim.
    fn weigh(
        &self,
        changed: &BTreeSet<NodeId>,
        standing: &dyn Fn(&Workload) -> Standing,
    ) -> Options {
        let mut options = self.policy.options.clone();
        let names = changed.iter().filter_map(|root| self.members.get(root)).flatten();
        for queue in names.filter_map(|name| self.snapshot.queue(name)) {
            for running in self.snapshot.running_in(queue) {
                let cost = standing(&running.workload).cost_device_ms;
                options.victims.costs.insert(running.workload.key.clone(), cost);
            }
        }
        options
    }

    fn admit(&mut self, workload: &Workload, admission: &Admission, now_ms: u64) {
        let admission = admission.clone();
        let reservation = Reservation { at_ms: now_ms, is_admitted: true, admission };
        let mut admitted = workload.clone();
        admitted.reservation = Some(reservation);
        self.snapshot.insert(Running::new(Arc::new(admitted)));
    }

    fn mark_leaving(&mut self, victims: &[Victim], now_ms: u64) {
        for victim in victims {
            let Some(running) = self.snapshot.running(&victim.workload) else { continue };
            let mut leaving = Workload::clone(&running.workload);
            leaving.eviction = Some(Eviction { reason: EvictionReason::Preempted, at_ms: now_ms });
            self.snapshot.insert(Running::new(Arc::new(leaving)));
        }
    }

    /// What is decided on.
    #[cfg(test)]
    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}
