//! Use of quota, for people and for checks at submission.

use super::Arbiter;
use super::engine::{amount_of, quantity_of};
use crate::id::{QueueName, ResourceName};
use crate::kueue::model::{ClusterQueue, Quota};
use crate::kueue::name::FlavorResource;

/// Use of one resource of one flavor of one queue. Whole units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueUsage {
    /// The flavor.
    pub flavor: String,
    /// The resource.
    pub resource: ResourceName,
    /// What belongs to the queue.
    pub nominal: u64,
    /// What its workloads hold or have reserved.
    pub used: u64,
    /// How much more it may borrow; `None`: whatever its cohort does not use.
    pub borrowing_limit: Option<u64>,
}

impl Arbiter {
    /// Use of a queue's resources.
    #[must_use]
    pub fn usage(&self, queue: &QueueName) -> Vec<QueueUsage> {
        let Some(queue) = self.find_queue(queue) else { return Vec::new() };
        let flavors = queue.groups.iter().flat_map(|group| &group.flavors);
        let quotas = flavors.flat_map(|flavor| {
            flavor
                .quotas
                .iter()
                .map(|(resource, quota)| (FlavorResource::new(&flavor.flavor, resource), *quota))
        });
        let settled = self.scheduler.settled();
        let node = self.scheduler.snapshot().queue(&queue.name).map(|state| state.node);
        let usage = |(fr, quota): (FlavorResource, Quota)| {
            usage_of(&fr, quota, settled.ledger().usage(node?, &fr))
        };
        quotas.filter_map(usage).collect()
    }

    pub(super) fn offers(queue: &ClusterQueue, resource: &ResourceName) -> bool {
        queue.group_of(&resource.as_str().into()).is_some()
    }

    /// The most of a resource that the queue could ever give of one flavor, in whole units.
    pub(super) fn quota_maximum(&self, queue: &ClusterQueue, resource: &ResourceName) -> u64 {
        let snapshot = self.scheduler.snapshot();
        let resource = resource.as_str().into();
        let group = queue.group_of(&resource);
        let node = snapshot.queue(&queue.name).map(|state| state.node);
        let Some((group, node)) = group.zip(node) else { return 0 };
        let most = group.flavors.iter().map(|flavor| {
            let fr = FlavorResource::new(&flavor.flavor, &resource);
            snapshot.tree().potential_available(node, &fr)
        });
        quantity_of(&resource, most.max().unwrap_or(0))
    }

    /// Whether so much of a resource can be counted at all.
    pub(super) fn is_countable(resource: &ResourceName, quantity: u64) -> bool {
        amount_of(resource, quantity) < i64::MAX
    }
}

fn usage_of(fr: &FlavorResource, quota: Quota, used: i64) -> Option<QueueUsage> {
    Some(QueueUsage {
        flavor: fr.flavor.to_string(),
        resource: fr.resource.as_str().parse().ok()?,
        nominal: quantity_of(&fr.resource, quota.nominal),
        used: quantity_of(&fr.resource, used),
        borrowing_limit: quota.borrowing_limit.map(|limit| quantity_of(&fr.resource, limit)),
    })
}
