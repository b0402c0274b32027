//! Who may be drained for whom, and what it would cost.

use std::collections::BTreeMap;

use super::{Arbiter, Decision, DecisionKind, Output};
use crate::id::{ResourceName, WorkloadName};
use crate::queue::Quota;
use crate::reason::{Ms, Reason};
use crate::victims::Cost;
use crate::workload::{Phase, Workload};

/// Whether a workload may be drained for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Eligible,
    /// Later.
    Protected {
        wait_ms: u64,
        reason: Reason,
    },
    No(Reason),
}

/// A possible victim with its cost.
#[derive(Debug, Clone)]
pub(super) struct Weighed {
    pub(super) workload: WorkloadName,
    pub(super) priority: i32,
    pub(super) cost: Cost,
    pub(super) verdict: Verdict,
}

/// Most candidates listed with a decision; more would drown the reader and the store.
const CANDIDATES_RECORDED_MAX: usize = 16;
const HOUR_MS: u64 = 3_600_000;

impl Arbiter {
    pub(super) fn deadline_of(&self, preemptor: &Workload) -> u64 {
        match preemptor.spec.drain_deadline_ms {
            0 => self.config.drain_deadline_ms,
            deadline_ms => deadline_ms,
        }
    }

    /// All who hold devices, with what draining them for `preemptor` would cost and whether they may be.
    pub(super) fn candidates_with_verdict(&self, preemptor: &Workload) -> Vec<Weighed> {
        let holders = self.workloads.values().filter(|w| w.phase.holds_devices());
        holders.map(|victim| self.weigh(preemptor, victim)).collect()
    }

    fn weigh(&self, preemptor: &Workload, victim: &Workload) -> Weighed {
        let plan = self.plan_for(victim, self.deadline_of(preemptor), &BTreeMap::new());
        let devices = victim.device_count();
        let restart_ms = victim.profile.restart_ms.unwrap_or(self.config.restart_assumed_ms);
        Weighed {
            workload: victim.spec.name.clone(),
            priority: victim.spec.priority,
            cost: Cost {
                cost_device_ms: plan
                    .loss_device_ms
                    .saturating_add(devices.saturating_mul(restart_ms)),
                at_risk_device_ms: devices.saturating_mul(self.unsaved_ms(victim)),
                devices: devices.max(1),
            },
            verdict: self.verdict(preemptor, victim),
        }
    }

    fn verdict(&self, preemptor: &Workload, victim: &Workload) -> Verdict {
        let (priority, preemptor_priority) = (victim.spec.priority, preemptor.spec.priority);
        if priority >= preemptor_priority {
            return Verdict::No(Reason::PriorityNotLower {
                priority,
                preemptor: preemptor_priority,
            });
        }
        if let Some(drain) = self.open_drain_of(&victim.spec.name) {
            return Verdict::No(Reason::DrainOpen { drain: drain.id.clone() });
        }
        if victim.phase != Phase::Running || !self.may_preempt(preemptor, victim) {
            return Verdict::No(Reason::WouldNotHelp);
        }
        let assignments = || victim.members.values().filter_map(|m| m.assignment.as_ref());
        if let Some(silent) =
            assignments().find(|a| !self.nodes.get(&a.node).is_some_and(|n| n.connected))
        {
            return Verdict::No(Reason::NodesNotConnected { node: silent.node.clone() });
        }
        self.protection(victim)
    }

    fn may_preempt(&self, preemptor: &Workload, victim: &Workload) -> bool {
        let Some(queue) = self.find_queue(&preemptor.spec.queue) else { return false };
        if victim.spec.queue == preemptor.spec.queue {
            return queue.preempts_lower_priority;
        }
        let Some(other) = self.find_queue(&victim.spec.queue) else { return false };
        let same_cohort = queue.cohort.is_some() && queue.cohort == other.cohort;
        let borrows = |(resource, quota): (&ResourceName, &Quota)| {
            self.used(other, resource, None, &[]) > quota.nominal
        };
        queue.reclaims_within_cohort && same_cohort && other.quotas.iter().any(borrows)
    }

    /// A drained workload makes progress before it is drained again, and not too often in an hour.
    fn protection(&self, victim: &Workload) -> Verdict {
        if let Some(until) = self.avoid_until.get(&victim.spec.name) {
            return protected(until.ms_since(self.now));
        }
        let recent: Vec<_> = victim
            .profile
            .drained_at
            .iter()
            .filter(|at| self.now.ms_since(**at) < HOUR_MS)
            .collect();
        let Some(first) = recent.first() else { return Verdict::Eligible };
        if recent.len() >= self.config.drains_per_hour as usize {
            let drains = u32::try_from(recent.len()).unwrap_or(u32::MAX);
            let wait_ms = first.plus_ms(HOUR_MS).ms_since(self.now);
            return Verdict::Protected { wait_ms, reason: Reason::BudgetSpent { drains } };
        }
        let floor_ms = self.config.productive_floor_ms.max(victim.profile.restart_ms.unwrap_or(0));
        let productive_ms = victim.running_since.map_or(0, |since| self.now.ms_since(since));
        if productive_ms < floor_ms {
            return protected(floor_ms - productive_ms);
        }
        Verdict::Eligible
    }

    /// The choice with what else could have been chosen, for the record.
    pub(super) fn record_of_choice(
        &self,
        preemptor: &WorkloadName,
        candidates: &[Weighed],
        chosen: &[WorkloadName],
    ) -> Vec<Output> {
        let is_chosen = |c: &&Weighed| chosen.contains(&c.workload);
        let chosen_device_ms = candidates
            .iter()
            .filter(is_chosen)
            .map(|c| c.cost.cost_device_ms)
            .fold(0, u64::saturating_add);
        let weighed = candidates.iter().filter(|c| c.verdict == Verdict::Eligible);
        let decide = |c: &Weighed| {
            let Cost { cost_device_ms, at_risk_device_ms, .. } = c.cost;
            let preemptor = preemptor.clone();
            let reason = if chosen.contains(&c.workload) {
                Reason::CheapestVictim { preemptor, cost_device_ms, at_risk_device_ms }
            } else {
                Reason::CostlierVictim {
                    preemptor,
                    cost_device_ms,
                    at_risk_device_ms,
                    chosen_device_ms,
                }
            };
            let workload = Some(c.workload.clone());
            Output::Decided(Decision {
                kind: DecisionKind::Preempt,
                workload,
                drain: None,
                node: None,
                reason,
            })
        };
        weighed.take(CANDIDATES_RECORDED_MAX).map(decide).collect()
    }
}

fn protected(wait_ms: u64) -> Verdict {
    Verdict::Protected { wait_ms, reason: Reason::ProtectedByFloor { wait_ms: Ms(wait_ms) } }
}

impl Weighed {
    pub(super) fn reason(&self, preemptor: &WorkloadName) -> Reason {
        match &self.verdict {
            Verdict::Eligible => Reason::CheapestVictim {
                preemptor: preemptor.clone(),
                cost_device_ms: self.cost.cost_device_ms,
                at_risk_device_ms: self.cost.at_risk_device_ms,
            },
            Verdict::Protected { reason, .. } | Verdict::No(reason) => reason.clone(),
        }
    }
}
