//! What is free: devices by node, quota by queue.

use std::collections::BTreeSet;

use super::Arbiter;
use crate::id::{DeviceId, NodeName, ResourceName, WorkloadName};
use crate::place::Free;
use crate::protocol::Health;
use crate::queue::Queue;
use crate::reason::Reason;
use crate::workload::Workload;

impl Arbiter {
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
    pub(super) fn used(
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
