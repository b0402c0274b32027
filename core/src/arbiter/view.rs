//! Looking at the arbiter's state: for the store, for people, and for its own decisions.

use std::collections::{BTreeMap, BTreeSet};

use super::{Arbiter, Decision, DecisionKind, Node, Output};
use crate::drain::Drain;
use crate::id::{DeviceId, DrainId, NodeName, QueueName, ResourceName, WorkloadName};
use crate::place::Free;
use crate::protocol::Health;
use crate::queue::{Queue, Quota};
use crate::reason::{Ms, Reason};
use crate::victims::Cost;
use crate::workload::{Phase, Workload};

/// Use of one resource of one queue. Whole units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueUsage {
    /// The resource.
    pub resource: ResourceName,
    /// What belongs to the queue.
    pub nominal: u64,
    /// What its workloads hold or have reserved.
    pub used: u64,
    /// How much more it may borrow; `None`: whatever its cohort does not use.
    pub borrowing_limit: Option<u64>,
}

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
    /// Whether it would be chosen.
    pub chosen: bool,
    /// Why, or why not.
    pub reason: Reason,
}

/// Whether a workload may be drained for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Eligible,
    /// Later.
    Protected {
        wait_ms: u64,
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
    /// All workloads by name.
    #[must_use]
    pub fn workloads(&self) -> &BTreeMap<WorkloadName, Workload> {
        &self.workloads
    }

    /// One workload.
    #[must_use]
    pub fn workload(&self, name: &WorkloadName) -> Option<&Workload> {
        self.workloads.get(name)
    }

    /// All drains by id.
    #[must_use]
    pub fn drains(&self) -> &BTreeMap<DrainId, Drain> {
        &self.drains
    }

    /// One drain.
    #[must_use]
    pub fn drain(&self, id: &DrainId) -> Option<&Drain> {
        self.drains.get(id)
    }

    /// All nodes by name.
    #[must_use]
    pub fn nodes(&self) -> &BTreeMap<NodeName, Node> {
        &self.nodes
    }

    /// All queues.
    #[must_use]
    pub fn queues(&self) -> &[Queue] {
        &self.config.queues
    }

    /// This arbiter's epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.config.epoch
    }

    /// Why a node is as it is.
    #[must_use]
    pub fn node_reason(&self, name: &NodeName) -> Reason {
        match self.nodes.get(name) {
            Some(node) if node.connected => Reason::NodeConnected,
            Some(node) => Reason::NodeSilent { silent_ms: Ms(self.now.ms_since(node.since)) },
            None => Reason::NodeAwaited,
        }
    }

    /// Use of a queue's resources.
    #[must_use]
    pub fn usage(&self, queue: &QueueName) -> Vec<QueueUsage> {
        let Some(queue) = self.find_queue(queue) else { return Vec::new() };
        let usage = |(resource, quota): (&ResourceName, &Quota)| QueueUsage {
            resource: resource.clone(),
            nominal: quota.nominal,
            used: self.used(queue, resource, None, &[]),
            borrowing_limit: quota.borrowing_limit,
        };
        queue.quotas.iter().map(usage).collect()
    }

    /// Pending workloads of the same queue that are considered before this one, first to last.
    #[must_use]
    pub fn ahead_of(&self, name: &WorkloadName) -> Vec<WorkloadName> {
        let Some(workload) = self.workloads.get(name) else { return Vec::new() };
        let same_queue = |other: &WorkloadName| {
            self.workloads.get(other).is_some_and(|w| w.spec.queue == workload.spec.queue)
        };
        let order = self.pending_in_order().into_iter().take_while(|other| other != name);
        order.filter(same_queue).collect()
    }

    /// Every running workload that might make room for this one, cheapest first.
    #[must_use]
    pub fn candidates(&self, name: &WorkloadName) -> Vec<Candidate> {
        let Some(workload) = self.workloads.get(name) else { return Vec::new() };
        let drained_for = |victim: &WorkloadName| {
            self.open_drain_of(victim).is_some_and(|d| d.beneficiary.as_ref() == Some(name))
        };
        let weighed = self.candidates_with_verdict(workload);
        let mut candidates: Vec<Candidate> = weighed
            .into_iter()
            .map(|w| Candidate {
                chosen: drained_for(&w.workload),
                reason: w.reason(name),
                workload: w.workload,
                priority: w.priority,
                devices: w.cost.devices,
                cost_device_ms: w.cost.cost_device_ms,
                at_risk_device_ms: w.cost.at_risk_device_ms,
            })
            .collect();
        candidates
            .sort_by(|a, b| (a.cost_device_ms, &a.workload).cmp(&(b.cost_device_ms, &b.workload)));
        candidates
    }

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
            return Verdict::Protected { wait_ms: until.ms_since(self.now) };
        }
        let recent: Vec<_> = victim
            .profile
            .drained_at
            .iter()
            .filter(|at| self.now.ms_since(**at) < HOUR_MS)
            .collect();
        let Some(first) = recent.first() else { return Verdict::Eligible };
        if recent.len() >= self.config.drains_per_hour as usize {
            return Verdict::Protected { wait_ms: first.plus_ms(HOUR_MS).ms_since(self.now) };
        }
        let floor_ms = self.config.productive_floor_ms.max(victim.profile.restart_ms.unwrap_or(0));
        let productive_ms = victim.running_since.map_or(0, |since| self.now.ms_since(since));
        if productive_ms < floor_ms {
            return Verdict::Protected { wait_ms: floor_ms - productive_ms };
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
        let chosen_device_ms =
            candidates.iter().filter(is_chosen).map(|c| c.cost.cost_device_ms).sum();
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

    /// Devices that `name` may have if `victims` give theirs up: usable, held by nobody, reserved for nobody else.
    pub(super) fn free_for(&self, name: &WorkloadName, victims: &[WorkloadName]) -> Free {
        let mut taken: BTreeSet<(&NodeName, &DeviceId)> = BTreeSet::new();
        for (other, workload) in &self.workloads {
            let held = workload.members.values().filter_map(|m| m.assignment.as_ref());
            let held = held.filter(|_| !victims.contains(other));
            let reserved = workload.reservation.iter().flat_map(|r| r.placement.values());
            let reserved = reserved.filter(|_| other != name);
            for assignment in held.chain(reserved) {
                taken.extend(assignment.devices.iter().map(|d| (&assignment.node, d)));
            }
        }
        let mut free = Free::default();
        for (name, node) in self.nodes.iter().filter(|(_, n)| n.connected) {
            free.add_node(name);
            for (id, device) in &node.devices {
                let usable = matches!(device.health, Health::Healthy | Health::Degraded);
                if usable && !taken.contains(&(name, id)) {
                    free.add(name, &device.resource, device.health, id);
                }
            }
        }
        free
    }

    /// Whether the workload fits its queue's quota once `victims` are gone.
    pub(super) fn fits_quota(
        &self,
        workload: &Workload,
        victims: &[WorkloadName],
    ) -> Result<(), Reason> {
        let Some(queue) = self.find_queue(&workload.spec.queue) else {
            return Err(Reason::QueueUnknown {
                queue: workload.spec.queue.clone(),
                known: String::new(),
            });
        };
        for resource in workload.spec.resources.keys() {
            let requested = workload.spec.total(resource);
            let nominal = queue.quotas.get(resource).map_or(0, |q| q.nominal);
            let used = self.used(queue, resource, Some(&workload.spec.name), victims);
            if used.saturating_add(requested)
                > self.ceiling(queue, resource, &workload.spec.name, victims)
            {
                let (queue, resource) = (queue.name.clone(), resource.clone());
                return Err(Reason::WaitingForQuota { queue, resource, requested, used, nominal });
            }
        }
        Ok(())
    }

    /// How much of a resource the queue may use now: its own, and what its cohort lends.
    fn ceiling(
        &self,
        queue: &Queue,
        resource: &ResourceName,
        name: &WorkloadName,
        victims: &[WorkloadName],
    ) -> u64 {
        let Some(quota) = queue.quotas.get(resource) else { return 0 };
        let unused = |other: &Queue| {
            let used = self.used(other, resource, Some(name), victims);
            other.quotas.get(resource).map_or(0, |q| q.nominal.saturating_sub(used))
        };
        let lendable = self.cohort_of(queue).map(unused).fold(0u64, u64::saturating_add);
        quota
            .nominal
            .saturating_add(quota.borrowing_limit.map_or(lendable, |limit| limit.min(lendable)))
    }

    /// The most that the queue could ever give.
    pub(super) fn quota_maximum(&self, queue: &Queue, resource: &ResourceName) -> u64 {
        let Some(quota) = queue.quotas.get(resource) else { return 0 };
        let nominal = |other: &Queue| other.quotas.get(resource).map_or(0, |q| q.nominal);
        let lendable = self.cohort_of(queue).map(nominal).fold(0u64, u64::saturating_add);
        quota
            .nominal
            .saturating_add(quota.borrowing_limit.map_or(lendable, |limit| limit.min(lendable)))
    }

    /// The other queues of its cohort.
    fn cohort_of<'a>(&'a self, queue: &'a Queue) -> impl Iterator<Item = &'a Queue> {
        let same = |other: &&Queue| {
            other.name != queue.name && queue.cohort.is_some() && other.cohort == queue.cohort
        };
        self.config.queues.iter().filter(same)
    }

    /// What a queue's workloads hold or have reserved, without `except` and `victims`.
    ///
    /// Whoever is drained for a workload that has a reservation is not counted: the reservation is.
    fn used(
        &self,
        queue: &Queue,
        resource: &ResourceName,
        except: Option<&WorkloadName>,
        victims: &[WorkloadName],
    ) -> u64 {
        let counts = |w: &&Workload| {
            let name = &w.spec.name;
            let holds = w.phase.holds_devices() && !self.is_drained_for_a_reservation(name);
            let counted = holds || w.reservation.is_some();
            counted && w.spec.queue == queue.name && Some(name) != except && !victims.contains(name)
        };
        let of_queue = self.workloads.values().filter(counts);
        of_queue.map(|w| w.spec.total(resource)).fold(0, u64::saturating_add)
    }

    fn is_drained_for_a_reservation(&self, victim: &WorkloadName) -> bool {
        self.open_drain_of(victim).is_some_and(|drain| {
            let beneficiary = drain.beneficiary.as_ref().and_then(|b| self.workloads.get(b));
            beneficiary
                .and_then(|w| w.reservation.as_ref())
                .is_some_and(|r| r.drains.contains(&drain.id))
        })
    }
}

impl Weighed {
    fn reason(&self, preemptor: &WorkloadName) -> Reason {
        match &self.verdict {
            Verdict::Eligible => Reason::CheapestVictim {
                preemptor: preemptor.clone(),
                cost_device_ms: self.cost.cost_device_ms,
                at_risk_device_ms: self.cost.at_risk_device_ms,
            },
            Verdict::Protected { wait_ms } => Reason::ProtectedByFloor { wait_ms: Ms(*wait_ms) },
            Verdict::No(reason) => reason.clone(),
        }
    }
}
