//! What draining a workload would cost, and whether it may be drained now.

use std::collections::{BTreeMap, BTreeSet};

use super::engine::{key_of, name_of};
use super::{Arbiter, Decision, DecisionKind, Output};
use crate::id::{NodeName, WorkloadName};
use crate::kueue::cycle;
use crate::kueue::name::WorkloadKey;
use crate::reason::{Ms, Reason};
use crate::scheduler::{History, Limits, Outlook, Protection, Rule, Standing};
use crate::workload::{Phase, Workload};

/// Most candidates listed with a decision; more would drown the reader and the store.
const CANDIDATES_RECORDED_MAX: usize = 16;
/// Most candidates told of one workload.
const CANDIDATES_MAX: usize = 64;
/// Most workloads looked at that Kueue's rules spare, if there are fewer candidates than that.
const SPARED_MAX: usize = 1_024;

/// A workload that could make room for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The workload.
    pub workload: WorkloadName,
    /// Its priority.
    pub priority: i32,
    /// Devices that it holds.
    pub devices: u64,
    /// What draining it would cost. Unit: device-milliseconds.
    pub cost_device_ms: u64,
    /// Its work in no checkpoint now. Unit: device-milliseconds.
    pub at_risk_device_ms: u64,
    /// How long its restart is assumed to take in that, if none was measured yet. Unit: ms.
    pub assumed_restart_ms: Option<u64>,
    /// Whether it would be chosen.
    pub chosen: bool,
    /// Why, or why not.
    pub reason: Reason,
}

impl Arbiter {
    pub(super) fn deadline_of(&self, preemptor: &Workload) -> u64 {
        match preemptor.spec.drain_deadline_ms {
            0 => {
                let by_priority = self.config.drain_deadlines_ms.get(&preemptor.spec.priority);
                by_priority.copied().unwrap_or(self.config.drain_deadline_ms)
            }
            deadline_ms => deadline_ms,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            productive_floor_ms: self.config.productive_floor_ms,
            drains_per_hour: self.config.drains_per_hour,
            hold_off_ms_max: self.config.hold_off_ms_max,
        }
    }

    /// What draining `victim` for `preemptor` would cost, and what speaks against it now.
    pub(super) fn standing_of(&self, preemptor: &WorkloadName, victim: &WorkloadName) -> Standing {
        let workloads = self.workloads.get(preemptor).zip(self.workloads.get(victim));
        let Some((preemptor, victim)) = workloads else { return Standing::default() };
        let refused = self.refused_before(victim);
        let plan = self.plan_for(victim, self.deadline_of(preemptor), &refused);
        let devices = victim.device_count();
        let restart_ms = victim.profile.restart_ms.unwrap_or(self.config.restart_assumed_ms);
        let drained_at_ms: Vec<u64> = victim.profile.drained_at.iter().map(|at| at.0).collect();
        // What was never measured is not assumed here: nobody is kept waiting for a guess.
        let history = History {
            running_since_ms: victim.running_since.map(|since| since.0),
            was_drained: !drained_at_ms.is_empty() || victim.profile.restart_ms.is_some(),
            drained_at_ms: &drained_at_ms,
            restart_ms: victim.profile.restart_ms.unwrap_or(0),
        };
        Standing {
            cost_device_ms: plan.loss_device_ms.saturating_add(devices.saturating_mul(restart_ms)),
            at_risk_device_ms: devices.saturating_mul(self.unsaved_ms(victim)),
            protected: self
                .avoided(victim)
                .or_else(|| history.protection(&self.limits(), self.now.0)),
            hold_off_ms: history.hold_off_ms(&self.limits(), self.now.0),
            cannot_leave: self.cannot_leave(victim).is_some(),
        }
    }

    /// A drain of it could not be done just now.
    fn avoided(&self, victim: &Workload) -> Option<Protection> {
        let until = self.avoid_until.get(&victim.spec.name)?;
        Some(Protection { until_ms: until.0, rule: Rule::ProductiveFloor })
    }

    /// Why a workload cannot be drained at all now.
    pub(super) fn cannot_leave(&self, victim: &Workload) -> Option<Reason> {
        if let Some(until) = self.avoid_until.get(&victim.spec.name) {
            return Some(Reason::ProtectedByFloor { wait_ms: Ms(until.ms_since(self.now)) });
        }
        if let Some(drain) = self.open_drain_of(&victim.spec.name) {
            return Some(Reason::DrainOpen { drain: drain.id.clone() });
        }
        if victim.phase != Phase::Running {
            return Some(Reason::WouldNotHelp);
        }
        self.silent_node_of(victim).map(|node| Reason::NodesNotConnected { node })
    }

    /// A node of a workload whose agent is not connected.
    pub(super) fn silent_node_of(&self, workload: &Workload) -> Option<NodeName> {
        let mut assignments = workload.members.values().filter_map(|m| m.assignment.as_ref());
        let is_silent = |node| !self.nodes.get(node).is_some_and(|n| n.connected);
        assignments.find(|a| is_silent(&a.node)).map(|a| a.node.clone())
    }

    /// The choice with what else could have been chosen, for the record.
    pub(super) fn record_choice(
        &mut self,
        preemptor: &WorkloadName,
        considered: &[(WorkloadKey, Standing)],
        chosen: &BTreeSet<WorkloadName>,
    ) {
        let considered: Vec<(WorkloadName, Standing)> = considered
            .iter()
            .filter(|(_, standing)| !standing.cannot_leave && !self.is_protected(standing))
            .map(|(key, standing)| (name_of(key), *standing))
            .collect();
        let chosen_device_ms = considered
            .iter()
            .filter(|(name, _)| chosen.contains(name))
            .fold(0_u64, |sum, (_, standing)| sum.saturating_add(standing.cost_device_ms));
        for (name, standing) in considered.into_iter().take(CANDIDATES_RECORDED_MAX) {
            let is_chosen = chosen.contains(&name);
            let reason = why_chosen(preemptor, &standing, is_chosen, chosen_device_ms);
            self.outputs.push(Output::Decided(Decision {
                kind: DecisionKind::Preempt,
                workload: Some(name),
                drain: None,
                node: None,
                reason,
            }));
        }
    }

    pub(super) fn is_protected(&self, standing: &Standing) -> bool {
        let is_on = |protection: Protection| self.scheduler.policy().rules.is_on(protection.rule);
        standing.protected.is_some_and(is_on)
    }

    /// Who could make room for `name`, as [`Explanation`](super::Explanation) tells it.
    #[must_use]
    pub fn candidates(&self, name: &WorkloadName) -> Vec<Candidate> {
        let Some(workload) = self.workloads.get(name) else { return Vec::new() };
        let standing = |preemptor: &crate::kueue::workload::Workload,
                        victim: &crate::kueue::workload::Workload| {
            self.standing_of(&name_of(&preemptor.key), &name_of(&victim.key))
        };
        let outlook = self.scheduler.outlook(&key_of(name), self.now.0, &standing);
        self.candidates_for(workload, outlook.as_ref(), &|_| false)
    }

    /// Workloads that hold devices and are not `is_gone`, as possible victims of `preemptor`: those that would be chosen,
    /// then whom Kueue's rules allow to be taken, then others, [`CANDIDATES_MAX`] in all; of these the cheapest first.
    pub(super) fn candidates_for(
        &self,
        preemptor: &Workload,
        outlook: Option<&Outlook>,
        is_gone: &dyn Fn(&WorkloadName) -> bool,
    ) -> Vec<Candidate> {
        let choice = Choice::of(outlook);
        let holds =
            |victim: &&Workload| victim.phase.holds_devices() && !is_gone(&victim.spec.name);
        let allowed = choice.allowed.iter();
        let mut told: Vec<(bool, u64, &Workload, Standing)> = allowed
            .filter_map(|(key, standing)| {
                let victim = self.workloads.get(&name_of(key)).filter(holds)?;
                Some((!choice.chosen.contains(*key), standing.cost_device_ms, victim, **standing))
            })
            .collect();
        told.sort_by(|a, b| (a.0, a.1, &a.2.spec.name).cmp(&(b.0, b.1, &b.2.spec.name)));
        told.truncate(CANDIDATES_MAX);
        let is_told = |w: &&Workload| choice.allowed.contains_key(&key_of(&w.spec.name));
        let others = self.workloads.values().filter(holds).filter(|w| !is_told(w)).take(SPARED_MAX);
        let mut others: Vec<_> = others
            .map(|victim| {
                let standing = self.standing_of(&preemptor.spec.name, &victim.spec.name);
                (true, standing.cost_device_ms, victim, standing)
            })
            .collect();
        others.sort_by(|a, b| (a.1, &a.2.spec.name).cmp(&(b.1, &b.2.spec.name)));
        told.extend(others);
        told.truncate(CANDIDATES_MAX);
        told.sort_by(|a, b| (a.1, &a.2.spec.name).cmp(&(b.1, &b.2.spec.name)));
        let candidate = |(_, _, victim, standing): &(_, _, &Workload, Standing)| {
            self.candidate(preemptor, victim, standing, &choice)
        };
        told.iter().map(candidate).collect()
    }

    fn candidate(
        &self,
        preemptor: &Workload,
        victim: &Workload,
        standing: &Standing,
        choice: &Choice<'_>,
    ) -> Candidate {
        let drain = self.open_drain_of(&victim.spec.name);
        let is_drained_for_it =
            drain.is_some_and(|d| d.beneficiary.as_ref() == Some(&preemptor.spec.name));
        Candidate {
            workload: victim.spec.name.clone(),
            priority: victim.spec.priority,
            devices: victim.device_count().max(1),
            cost_device_ms: standing.cost_device_ms,
            at_risk_device_ms: standing.at_risk_device_ms,
            assumed_restart_ms: match victim.profile.restart_ms {
                Some(_) => None,
                None => Some(self.config.restart_assumed_ms),
            },
            chosen: is_drained_for_it,
            reason: self.verdict(preemptor, victim, standing, choice),
        }
    }

    /// Why a workload would be drained for another, or why not.
    fn verdict(
        &self,
        preemptor: &Workload,
        victim: &Workload,
        standing: &Standing,
        choice: &Choice<'_>,
    ) -> Reason {
        let key = key_of(&victim.spec.name);
        if !choice.allowed.contains_key(&key) {
            let (priority, above) = (victim.spec.priority, preemptor.spec.priority);
            return if priority >= above {
                Reason::PriorityNotLower { priority, preemptor: above }
            } else {
                self.cannot_leave(victim).unwrap_or(Reason::WouldNotHelp)
            };
        }
        if let Some(reason) = self.cannot_leave(victim) {
            return reason;
        }
        if let Some(protection) = standing.protected.filter(|_| self.is_protected(standing)) {
            return self.why_left_alone(victim, protection);
        }
        if choice.chosen.is_empty() {
            return Reason::WouldNotHelp;
        }
        let is_chosen = choice.chosen.contains(&key);
        why_chosen(&preemptor.spec.name, standing, is_chosen, choice.chosen_device_ms)
    }

    fn why_left_alone(&self, victim: &Workload, protection: Protection) -> Reason {
        match protection.rule {
            Rule::DrainBudget => {
                let drains = u32::try_from(victim.profile.drained_at.len()).unwrap_or(u32::MAX);
                Reason::BudgetSpent { drains }
            }
            Rule::LostWork
            | Rule::HeldCapacity
            | Rule::ProductiveFloor
            | Rule::Hysteresis
            | Rule::TopologyVictims
            | Rule::SeveralHeads
            | Rule::MultiNodeReplacement
            | Rule::AvoidDegraded => {
                let wait_ms = Ms(protection.until_ms.saturating_sub(self.now.0));
                Reason::ProtectedByFloor { wait_ms }
            }
        }
    }
}

/// Who may be taken, and who would be.
#[derive(Default)]
struct Choice<'o> {
    allowed: BTreeMap<&'o WorkloadKey, &'o Standing>,
    chosen: BTreeSet<WorkloadKey>,
    /// What those chosen cost together.
    chosen_device_ms: u64,
}

impl<'o> Choice<'o> {
    fn of(outlook: Option<&'o Outlook>) -> Self {
        let Some(outlook) = outlook else { return Self::default() };
        let allowed: BTreeMap<_, _> = outlook.candidates.iter().map(|(k, s)| (k, s)).collect();
        let chosen: BTreeSet<WorkloadKey> = match &outlook.verdict.decision {
            cycle::Decision::Preempt(victims) => {
                victims.iter().map(|victim| victim.workload.clone()).collect()
            }
            cycle::Decision::Admit(_)
            | cycle::Decision::AwaitVictims
            | cycle::Decision::Evict(_)
            | cycle::Decision::Wait => BTreeSet::new(),
        };
        let costs = chosen.iter().filter_map(|key| allowed.get(key)).map(|s| s.cost_device_ms);
        let chosen_device_ms = costs.fold(0, u64::saturating_add);
        Self { allowed, chosen, chosen_device_ms }
    }
}

fn why_chosen(
    preemptor: &WorkloadName,
    standing: &Standing,
    is_chosen: bool,
    chosen_device_ms: u64,
) -> Reason {
    let preemptor = preemptor.clone();
    let Standing { cost_device_ms, at_risk_device_ms, .. } = *standing;
    if is_chosen {
        Reason::CheapestVictim { preemptor, cost_device_ms, at_risk_device_ms }
    } else {
        Reason::CostlierVictim { preemptor, cost_device_ms, at_risk_device_ms, chosen_device_ms }
    }
}
