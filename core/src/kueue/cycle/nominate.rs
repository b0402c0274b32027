//! What every head would get on its own: flavors, victims, places.

use super::super::flavor::{
    Assignment, FlavorRequest, Mode, Nominated, Progress, find_largest_fit, preemption_oracle,
};
use super::super::matching::Labels;
use super::super::name::FlavorResource;
use super::super::order::{Pending, RequeueReason};
use super::super::preempt::{Claim, PreemptionReason, find_targets};
use super::super::reason::PendingReason;
use super::super::snapshot::{QueueState, Running};
use super::super::tas::Capacity;
use super::super::topology::{self, TopologyDemand};
use super::super::whatif::WhatIf;
use super::super::workload::{CheckState, Usage, Workload};
use super::process::Cycle;
use super::{Decision, Rule, Verdict};

/// A workload that takes part in the cycle, with what it would get.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    pub workload: &'a Workload,
    pub queue: &'a QueueState,
    pub plan: Plan<'a>,
}

/// What a workload would get, and whom it would cost.
#[derive(Clone, Debug)]
pub(super) struct Plan<'a> {
    pub assignment: Assignment,
    pub targets: Vec<(&'a Running, PreemptionReason)>,
}

impl Entry<'_> {
    /// The quota that admission would take; nothing if the workload holds it already.
    pub(super) fn new_quota(&self) -> Usage {
        match self.workload.reservation {
            Some(_) => Usage::new(),
            None => self.plan.assignment.usage.clone(),
        }
    }
}

impl<'a> Cycle<'a> {
    /// Plans for every head. Those that cannot even be planned for get their verdict at once.
    pub(super) fn nominate(&mut self, heads: &'a [Pending]) -> (Vec<Entry<'a>>, Vec<Verdict>) {
        let (mut entries, mut verdicts) = (Vec::new(), Vec::new());
        for head in heads {
            let workload: &Workload = &head.workload;
            let holds_quota = self.snapshot().running(&workload.key).is_some();
            if holds_quota && !workload.needs_second_pass() {
                continue;
            }
            match self.find_queue(workload) {
                Err((reason, requeue)) => {
                    verdicts.push(refuse(workload, reason, requeue));
                }
                Ok(queue) => {
                    let plan = self.plan(workload, queue, head.progress.as_ref(), None);
                    entries.push(Entry { workload, queue, plan });
                }
            }
        }
        (entries, verdicts)
    }

    /// The queue of `workload`, or why it cannot use it.
    fn find_queue(
        &self,
        workload: &Workload,
    ) -> Result<&'a QueueState, (PendingReason, RequeueReason)> {
        let has_failed = |state: &CheckState| match state {
            CheckState::Retry | CheckState::Rejected => true,
            CheckState::Pending | CheckState::Ready => false,
        };
        if workload.checks.values().any(has_failed) {
            return Err((PendingReason::PendingEvaluation, RequeueReason::NotNominated));
        }
        let Some(queue) = self.snapshot().queue(&workload.queue) else {
            return Err((PendingReason::Misconfigured, RequeueReason::NotNominated));
        };
        if queue.inactive.is_some() {
            return Err((PendingReason::Suspended, RequeueReason::NotNominated));
        }
        let no_labels = Labels::new();
        let labels = self.options.namespaces.get(workload.key.namespace()).unwrap_or(&no_labels);
        if !queue.spec.namespaces.admits(labels) {
            return Err((PendingReason::Misconfigured, RequeueReason::NamespaceMismatch));
        }
        Ok(queue)
    }

    /// Flavors, victims and places for `workload` as things are now.
    pub(super) fn plan(
        &mut self,
        workload: &Workload,
        queue: &'a QueueState,
        progress: Option<&Progress>,
        nominated: Option<&Nominated>,
    ) -> Plan<'a> {
        let request = FlavorRequest {
            workload,
            queue,
            counts: None,
            progress,
            nominated,
            is_fair_sharing: self.options.is_fair_sharing(),
        };
        let mut plan = self.plan_pods(&request);
        self.reserve_places(&mut plan, workload, queue);
        plan
    }

    fn plan_pods(&mut self, request: &FlavorRequest<'_>) -> Plan<'a> {
        let full = match self.try_plan(request) {
            Ok(plan) => return plan,
            Err(assignment) => assignment,
        };
        let workload = request.workload;
        let may_shrink = workload.can_be_partial() && self.options.is_on(Rule::PartialAdmission);
        let partial = may_shrink.then(|| {
            find_largest_fit(&workload.pod_sets, |counts| {
                self.try_plan(&FlavorRequest { counts: Some(counts), ..*request }).ok()
            })
        });
        partial.flatten().unwrap_or(Plan { assignment: full, targets: Vec::new() })
    }

    /// A plan that fits at once or with victims; else the assignment that does not.
    fn try_plan(&mut self, request: &FlavorRequest<'_>) -> Result<Plan<'a>, Assignment> {
        let (options, now_ms) = (self.options, self.now_ms);
        let mut oracle = |whatif: &mut WhatIf<'a>, fr: &FlavorResource, amount: i64| {
            let (workload, queue) = (request.workload, request.queue);
            preemption_oracle(whatif, workload, queue, fr, amount, &options.victims, now_ms)
        };
        let mut assignment = topology::assign(&mut self.whatif, request, &mut oracle);
        match assignment.mode() {
            Mode::Fit => return Ok(Plan { assignment, targets: Vec::new() }),
            Mode::NoFit => return Err(assignment),
            Mode::Preempt => {}
        }
        let (workload, queue) = (request.workload, request.queue);
        let snapshot = self.snapshot();
        let topology = TopologyDemand::of(&mut assignment, workload, queue, snapshot);
        let claim = Claim { topology, ..Claim::of_quota(workload, queue, &assignment) };
        let targets = find_targets(&mut self.whatif, &claim, &options.victims, now_ms);
        if targets.is_empty() { Err(assignment) } else { Ok(Plan { assignment, targets }) }
    }

    /// Keeps places for a plan that has to wait, so that nobody after it in the order moves in.
    fn reserve_places(&mut self, plan: &mut Plan<'a>, workload: &Workload, queue: &QueueState) {
        let capacity = if plan.targets.is_empty() { Capacity::Empty } else { Capacity::Free };
        let newly_gone = self.take_away(plan.targets.iter().map(|(running, _)| *running));
        topology::reserve_places(&self.whatif, &mut plan.assignment, workload, queue, capacity);
        self.put_back(&newly_gone);
    }
}

fn refuse(workload: &Workload, reason: PendingReason, requeue: RequeueReason) -> Verdict {
    Verdict {
        workload: workload.key.clone(),
        queue: workload.queue.clone(),
        decision: Decision::Wait,
        reason: Some(reason),
        requeue: workload.reservation.is_none().then_some(requeue),
        progress: None,
        assignment: None,
    }
}
