//! Why a workload waits, what would have to change, and what would be decided if something were different: the
//! scheduler's explanation in the names, units and reasons of the arbiter.

mod change;
mod flavors;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::engine::{key_of, name_of, quantity_of, whole_units};
use super::waits::{nearness, resource_of};
use super::{Arbiter, Candidate};
use crate::id::{ResourceName, WorkloadName};
use crate::kueue::name::FlavorResource;
use crate::kueue::preempt::Victim;
use crate::kueue::reason::{FlavorReason, PendingReason};
use crate::kueue::workload::{self as engine, Admission};
use crate::reason::{Ms, Reason};
use crate::scheduler::{self, ChangeError, Decider, Outcome, Place, QuotaRow, Waiting};
use crate::unit::Time;
use crate::workload::{Phase, Workload};
pub(super) use change::topology_text;

pub use change::{Change, TOPOLOGY_FORMS, WHAT_IF_FORMS};
pub use flavors::FlavorTried;

/// Everything about one decision, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What would be decided now, and why.
    pub outcome: Reason,
    /// By which rules.
    pub decider: Decider,
    /// The flavors that were tried, per group of ranks that reach the same nodes.
    pub flavors: Vec<FlavorTried>,
    /// Quota per flavor and resource: the queue's, then that of each cohort up to the root.
    pub quota: Vec<QuotaLevel>,
    /// Workloads that hold devices, as possible victims: those that would be chosen, those that could be, others; 64 at
    /// most, and the cheapest first.
    pub candidates: Vec<Candidate>,
    /// What would help, if it waits. Each was tried.
    pub remedies: Vec<Remedy>,
}

/// Quota of one queue or cohort for one resource of one flavor. Whole units, rounded up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaLevel {
    /// The queue or cohort.
    pub name: String,
    /// Whether it is a cohort.
    pub is_cohort: bool,
    /// The flavor.
    pub flavor: String,
    /// The resource.
    pub resource: String,
    /// What it was given itself.
    pub nominal: u64,
    /// How much more it may take from above; `None`: no limit.
    pub borrowing_limit: Option<u64>,
    /// How much of its own others may take while it is unused; `None`: all.
    pub lending_limit: Option<u64>,
    /// What it and all below it have, less what they keep to themselves.
    pub subtree: u64,
    /// What counts against that.
    pub used: u64,
    /// How much more it could use now. Rounded down.
    pub available: u64,
}

/// What would help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// What would be different, all of it together; nothing if time alone will do.
    pub what_if: Vec<Change>,
    /// In words.
    pub reason: Reason,
    /// What would come of it.
    pub outcome: Reason,
    /// When that will be so by itself, if it will.
    pub at: Option<Time>,
}

impl Arbiter {
    /// Explains what would be decided about `name` if `changes` were so. Nothing is changed.
    ///
    /// `None` if there is no such workload, or nothing is to be decided about it and no change was asked for.
    ///
    /// # Errors
    /// A change names what there is not, or is about a workload about which nothing is to be decided.
    pub fn explain(
        &self,
        name: &WorkloadName,
        changes: &[Change],
    ) -> Result<Option<Explanation>, Reason> {
        let Some(workload) = self.workloads.get(name) else { return Ok(None) };
        let standing = |preemptor: &engine::Workload, victim: &engine::Workload| {
            self.standing_of(&name_of(&preemptor.key), &name_of(&victim.key))
        };
        let queues = &self.config.queues;
        let given = changes.iter().map(|change| change.for_scheduler(queues));
        let given: Vec<scheduler::Change> = given.collect::<Result<_, _>>()?;
        let explained = self.scheduler.explain(&key_of(name), &given, self.now.0, &standing);
        let explained = match explained {
            Ok(explained) => explained,
            Err(ChangeError::NothingToDecide(_)) if changes.is_empty() => return Ok(None),
            Err(error) => return Err(refusal(name, changes, &error)),
        };
        let mut asked = workload.clone();
        for change in changes {
            change.apply_to(&mut asked.spec);
        }
        if let Ok(queue) = explained.workload.queue.as_str().parse() {
            // A local queue leads to one that has quota.
            asked.spec.queue = queue;
        }
        Ok(Some(self.in_our_words(&asked, changes, &explained)))
    }

    fn in_our_words(
        &self,
        asked: &Workload,
        changes: &[Change],
        explained: &scheduler::Explanation,
    ) -> Explanation {
        let quota = explained.quota.iter().map(|row| level(asked, row));
        let is_decided = self.scheduler.place(&key_of(&asked.spec.name)) == Some(Place::Holding);
        let outcome = match is_decided && changes.is_empty() {
            // Its victims have been chosen: what it waits for is known.
            true => asked.reason.clone(),
            false => self.outcome(asked, &explained.outcome, Some(explained)),
        };
        let remedies = explained.remedies.iter().map(|remedy| self.remedy(asked, remedy));
        let is_gone = |name: &WorkloadName| changes.contains(&Change::Without(name.clone()));
        Explanation {
            outcome,
            remedies: remedies.collect(),
            decider: explained.decider.clone(),
            flavors: explained.flavors.iter().flat_map(flavors::tried).collect(),
            quota: quota.collect(),
            candidates: self.candidates_for(asked, Some(&explained.outlook), &is_gone),
        }
    }

    /// What comes of it, with what is lacking if `explained` tells.
    fn outcome(
        &self,
        asked: &Workload,
        outcome: &Outcome,
        explained: Option<&scheduler::Explanation>,
    ) -> Reason {
        let name = &asked.spec.name;
        let waiting = match outcome {
            Outcome::Admitted(admission) => {
                return Reason::WouldBeAdmitted { nodes: nodes_of(admission) };
            }
            Outcome::Preempts(victims) => return self.would_preempt(name, victims),
            Outcome::Waits(waiting) => waiting,
        };
        match waiting {
            Waiting::Behind(first) => {
                Reason::WaitingBehind { queue: asked.spec.queue.clone(), first: name_of(first) }
            }
            Waiting::Protected(victim, protection) => {
                self.why_protected(name, &name_of(victim), *protection)
            }
            Waiting::HeldOff { until_ms } => {
                Reason::HeldOff { wait_ms: Ms(until_ms.saturating_sub(self.now.0)) }
            }
            Waiting::Lacks(reason) => self.why_it_lacks(asked, *reason, explained),
        }
    }

    fn why_it_lacks(
        &self,
        asked: &Workload,
        reason: PendingReason,
        explained: Option<&scheduler::Explanation>,
    ) -> Reason {
        let tried = explained.into_iter().flat_map(|explained| &explained.flavors);
        let nearest = tried.flat_map(|tried| &tried.reasons).max_by_key(|reason| nearness(reason));
        match nearest {
            Some(FlavorReason::InsufficientQuota { fr, missing: _ }) => {
                let rows = explained.into_iter().flat_map(|explained| &explained.quota);
                let mut rows = rows.filter(|row| row.fr == *fr && row.cohort.is_none());
                let (used, nominal) = rows.next().map_or((0, 0), |r| (r.usage, r.quota.nominal));
                let resource: ResourceName = resource_of(fr);
                Reason::WaitingForQuota {
                    queue: asked.spec.queue.clone(),
                    requested: asked.spec.total(&resource),
                    resource,
                    used: quantity_of(&fr.resource, used),
                    nominal: quantity_of(&fr.resource, nominal),
                }
            }
            Some(lack) => self.why_lacking(asked, lack),
            None => self.why_queue(asked, reason),
        }
    }

    fn would_preempt(&self, preemptor: &WorkloadName, victims: &[Victim]) -> Reason {
        let names: Vec<WorkloadName> = victims.iter().map(|v| name_of(&v.workload)).collect();
        let costs = names.iter().map(|name| self.standing_of(preemptor, name).cost_device_ms);
        let cost_device_ms = costs.fold(0, u64::saturating_add);
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        Reason::WouldPreempt { victims: names.join(", "), cost_device_ms }
    }

    fn remedy(&self, asked: &Workload, remedy: &scheduler::Remedy) -> Remedy {
        match remedy {
            scheduler::Remedy::Change { changes, outcome } => Remedy {
                reason: proposal(asked, changes),
                what_if: changes.iter().map(|change| in_our_units(asked, change)).collect(),
                outcome: self.outcome(asked, outcome, None),
                at: None,
            },
            scheduler::Remedy::ProtectionEnds { workload, protection, outcome } => Remedy {
                what_if: Vec::new(),
                reason: Reason::ProtectionEnds {
                    workload: name_of(workload),
                    rule: protection.rule.to_string(),
                    wait_ms: Ms(protection.until_ms.saturating_sub(self.now.0)),
                },
                outcome: self.outcome(asked, outcome, None),
                at: Some(Time(protection.until_ms)),
            },
        }
    }

    /// The workload for which `name` makes room now.
    #[must_use]
    pub fn makes_room_for(&self, name: &WorkloadName) -> Option<&WorkloadName> {
        let victim = self.workloads.get(name).filter(|w| w.phase == Phase::Draining)?;
        self.open_drain_of(&victim.spec.name)?.beneficiary.as_ref()
    }
}

/// Why the question cannot be asked; the change that is to blame is the one that is wrong by itself.
fn refusal(name: &WorkloadName, changes: &[Change], error: &ChangeError) -> Reason {
    let is_to_blame = |change: &&Change| match error {
        ChangeError::QueueUnknown(unknown) => {
            matches!(change, Change::Quota { queue, .. } if queue.as_str() == unknown.as_str())
        }
        ChangeError::QuotaUnknown { queue: unknown, fr } => {
            matches!(change, Change::Quota { queue, flavor, .. }
                if queue.as_str() == unknown.as_str() && flavor == fr.flavor.as_str())
        }
        ChangeError::WorkloadUnknown(key) => {
            matches!(change, Change::Without(other) if *other == name_of(key))
        }
        ChangeError::NoRanks => matches!(change, Change::Ranks(0)),
        ChangeError::NothingToDecide(_) => false,
    };
    match error {
        ChangeError::NothingToDecide(_) => Reason::NothingToDecide { workload: name.clone() },
        ChangeError::QueueUnknown(_)
        | ChangeError::QuotaUnknown { .. }
        | ChangeError::WorkloadUnknown(_)
        | ChangeError::NoRanks => Reason::BadWhatIf {
            change: changes.iter().find(is_to_blame).map(ToString::to_string).unwrap_or_default(),
            why: error.to_string(),
        },
    }
}

/// What is to be done, in words.
fn proposal(asked: &Workload, changes: &[scheduler::Change]) -> Reason {
    use scheduler::Change as Engine;
    let spec = &asked.spec;
    let amounts = changes.iter().filter_map(|change| match change {
        Engine::Quota { fr, more, .. } => {
            let quantity = quantity_of(&fr.resource, *more);
            Some(format!("{quantity} {} of flavor {}", fr.resource, fr.flavor))
        }
        Engine::Priority(_)
        | Engine::Ranks(_)
        | Engine::Resource(..)
        | Engine::Queue(_)
        | Engine::Topology(_)
        | Engine::Without(_)
        | Engine::RuleOff(_)
        | Engine::RuleOn(_) => None,
    });
    let amounts = amounts.collect::<Vec<_>>().join(" and ");
    match changes.first() {
        Some(Engine::Priority(priority)) => {
            Reason::RaisePriority { priority: *priority, current: spec.priority }
        }
        Some(Engine::Ranks(ranks)) => Reason::FewerRanks { ranks: *ranks, current: spec.nnodes },
        Some(Engine::Topology(mode)) => Reason::RelaxTopology {
            topology: topology_text(mode.as_ref()),
            current: topology_text(spec.topology.as_ref()),
        },
        Some(Engine::Without(key)) => Reason::WorkloadEnds { workload: name_of(key) },
        // Nothing else is proposed.
        Some(Engine::Quota { .. } | Engine::Resource(..) | Engine::Queue(_))
        | Some(Engine::RuleOff(_) | Engine::RuleOn(_))
        | None => Reason::RaiseQuota { queue: spec.queue.clone(), amounts },
    }
}

/// A change that the scheduler proposes, in whole units and our names.
fn in_our_units(asked: &Workload, change: &scheduler::Change) -> Change {
    use scheduler::Change as Engine;
    match change {
        Engine::Priority(priority) => Change::Priority(*priority),
        Engine::Ranks(ranks) => Change::Ranks(*ranks),
        Engine::Resource(resource, amount) => {
            let fr = FlavorResource::new(&"".into(), resource);
            Change::Resource(resource_of(&fr), quantity_of(resource, *amount))
        }
        Engine::Queue(_) => Change::Queue(asked.spec.queue.clone()),
        Engine::Topology(mode) => Change::Topology(mode.clone()),
        Engine::Quota { queue: _, fr, more } => Change::Quota {
            queue: asked.spec.queue.clone(),
            flavor: fr.flavor.to_string(),
            resource: resource_of(fr),
            more: i64::try_from(quantity_of(&fr.resource, *more)).unwrap_or(i64::MAX),
        },
        Engine::Without(key) => Change::Without(name_of(key)),
        Engine::RuleOff(rule) => Change::RuleOff(*rule),
        Engine::RuleOn(rule) => Change::RuleOn(*rule),
    }
}

fn level(asked: &Workload, row: &QuotaRow) -> QuotaLevel {
    let resource = &row.fr.resource;
    let limit = |limit: Option<i64>| limit.map(|amount| quantity_of(resource, amount));
    QuotaLevel {
        name: match &row.cohort {
            Some(cohort) => cohort.to_string(),
            None => asked.spec.queue.to_string(),
        },
        is_cohort: row.cohort.is_some(),
        flavor: row.fr.flavor.to_string(),
        resource: resource.to_string(),
        nominal: quantity_of(resource, row.quota.nominal),
        borrowing_limit: limit(row.quota.borrowing_limit),
        lending_limit: limit(row.quota.lending_limit),
        subtree: quantity_of(resource, row.subtree),
        used: quantity_of(resource, row.usage),
        available: whole_units(resource, row.available),
    }
}

/// The nodes of an admission, each once.
fn nodes_of(admission: &Admission) -> String {
    let placed = admission.pod_sets.iter().filter_map(|pod_set| pod_set.placement.as_ref());
    let nodes = placed.flat_map(|placement| &placement.domains).filter_map(|d| d.values.last());
    let nodes: BTreeSet<&str> = nodes.map(String::as_str).collect();
    nodes.into_iter().collect::<Vec<_>>().join(", ")
}
