//! Why a workload waits, in words for people.

use super::Arbiter;
use super::engine::{name_of, quantity_of};
use crate::drain::Drain;
use crate::id::{ResourceName, WorkloadName};
use crate::kueue::flavor::Assignment;
use crate::kueue::name::{FlavorResource, WorkloadKey};
use crate::kueue::reason::{FlavorReason, PendingReason};
use crate::kueue::tas::Failure;
use crate::reason::{Ms, Reason};
use crate::scheduler::{Protection, Rule};
use crate::workload::{Workload, is_device};

impl Arbiter {
    /// The reason for people: who protects itself, or the first thing that is lacking.
    pub(super) fn why_waiting(
        &self,
        name: &WorkloadName,
        reason: PendingReason,
        assignment: Option<&Assignment>,
        protected: Option<(WorkloadKey, Protection)>,
    ) -> Reason {
        if let Some((victim, protection)) = protected {
            return self.why_protected(name, &name_of(&victim), protection);
        }
        let Some(workload) = self.workloads.get(name) else { return Reason::Submitted };
        if reason == PendingReason::WaitingForPreemptedWorkloads
            && let Some(open) = self.open_drain_for(workload)
        {
            let (drain, victim) = (open.id.clone(), open.victim.clone());
            return Reason::WaitingForDrain { drain, victim };
        }
        let lacking = assignment.into_iter().flat_map(|a| &a.pod_sets).flat_map(|p| &p.reasons);
        // What is nearest to being had tells most; a flavor that never suits tells least.
        let nearest = lacking.max_by_key(|reason| nearness(reason));
        match nearest {
            Some(lack) => self.why_lacking(workload, lack),
            None => self.why_queue(workload, reason),
        }
    }

    /// A drain that is made for `workload`, or on which it counts.
    fn open_drain_for(&self, workload: &Workload) -> Option<&Drain> {
        let name = &workload.spec.name;
        let counts_on =
            |d: &Drain| workload.reservation.as_ref().is_some_and(|r| r.drains.contains(&d.id));
        let open = || self.drains.values().filter(|d| d.state.is_open());
        open()
            .find(|d| d.beneficiary.as_ref() == Some(name))
            .or_else(|| open().find(|d| counts_on(d)))
    }

    pub(super) fn why_protected(
        &self,
        name: &WorkloadName,
        victim: &WorkloadName,
        protection: Protection,
    ) -> Reason {
        let wait_ms = Ms(protection.until_ms.saturating_sub(self.now.0));
        if victim == name {
            return Reason::HeldOff { wait_ms };
        }
        let victim = victim.clone();
        match protection.rule {
            Rule::DrainBudget => Reason::WaitingForBudget { victim, wait_ms },
            Rule::LostWork
            | Rule::HeldCapacity
            | Rule::ProductiveFloor
            | Rule::Hysteresis
            | Rule::TopologyVictims
            | Rule::SeveralHeads
            | Rule::MultiNodeReplacement
            | Rule::AvoidDegraded => Reason::WaitingForFloor { victim, wait_ms },
        }
    }

    pub(super) fn why_queue(&self, workload: &Workload, reason: PendingReason) -> Reason {
        let queue = workload.spec.queue.clone();
        let state = self.scheduler.snapshot().queue(&queue.as_str().into());
        match state.and_then(|state| state.inactive.as_ref()) {
            Some(inactive) => Reason::QueueInactive { queue, why: inactive.to_string() },
            None => Reason::WaitingForTurn { queue, code: reason.code().to_owned() },
        }
    }

    pub(super) fn why_lacking(&self, workload: &Workload, lack: &FlavorReason) -> Reason {
        match lack {
            FlavorReason::InsufficientQuota { fr, missing: _ } => self.why_quota(workload, fr),
            FlavorReason::ExceedsMaxQuota { fr, requested, max } => Reason::ExceedsQuota {
                queue: workload.spec.queue.clone(),
                resource: resource_of(fr),
                requested: quantity_of(&fr.resource, *requested),
                maximum: quantity_of(&fr.resource, *max),
            },
            FlavorReason::Placement(failure) => self.why_not_placed(workload, failure),
            FlavorReason::ResourceNotOffered(_)
            | FlavorReason::FlavorNotFound(_)
            | FlavorReason::NotAllowed(_)
            | FlavorReason::NotNominated(_)
            | FlavorReason::UntoleratedTaint { .. }
            | FlavorReason::AffinityMismatch(_)
            | FlavorReason::TopologyNotOffered(_)
            | FlavorReason::TopologyOnly(_)
            | FlavorReason::NoSingleTopology => {
                let queue = workload.spec.queue.clone();
                Reason::NoMatchingFlavor { queue, why: lack.to_string() }
            }
        }
    }

    fn why_quota(&self, workload: &Workload, fr: &FlavorResource) -> Reason {
        let resource = resource_of(fr);
        let requested = workload.spec.total(&resource);
        let snapshot = self.scheduler.snapshot();
        let queue = snapshot.queue(&workload.spec.queue.as_str().into());
        let (used, nominal) = queue.map_or((0, 0), |queue| {
            let used = self.scheduler.settled().ledger().usage(queue.node, fr);
            (used, snapshot.tree().quota(queue.node, fr).nominal)
        });
        let used = quantity_of(&fr.resource, used);
        let nominal = quantity_of(&fr.resource, nominal);
        let queue = workload.spec.queue.clone();
        Reason::WaitingForQuota { queue, resource, requested, used, nominal }
    }

    fn why_not_placed(&self, workload: &Workload, failure: &Failure) -> Reason {
        let wanted = workload.spec.resources.iter().find(|(r, _)| is_device(r.as_str()));
        let Some((resource, requested)) = wanted.map(|(r, count)| (r.clone(), *count)) else {
            let nodes = workload.members.values().flat_map(|m| &*m.nodes);
            let first = nodes.min().cloned();
            return first.map_or(Reason::NoNodes, |node| Reason::NodesNotConnected { node });
        };
        let largest = self.stock.largest(&resource);
        if requested > largest {
            return Reason::NoNodeLargeEnough { resource, requested, largest };
        }
        let free = self.stock.free(&resource);
        let (ranks, total) = (workload.spec.nnodes, workload.spec.total(&resource));
        if workload.spec.topology.is_some() && free >= total {
            return Reason::WaitingForTopology { why: failure.to_string() };
        }
        Reason::WaitingForDevices { resource, requested, ranks, free }
    }
}

/// How near a flavor is to being had: more is nearer.
pub(super) fn nearness(reason: &FlavorReason) -> u8 {
    match reason {
        FlavorReason::Placement(_) => 3,
        FlavorReason::InsufficientQuota { .. } => 2,
        FlavorReason::ExceedsMaxQuota { .. } => 1,
        FlavorReason::ResourceNotOffered(_)
        | FlavorReason::FlavorNotFound(_)
        | FlavorReason::NotAllowed(_)
        | FlavorReason::NotNominated(_)
        | FlavorReason::UntoleratedTaint { .. }
        | FlavorReason::AffinityMismatch(_)
        | FlavorReason::TopologyNotOffered(_)
        | FlavorReason::TopologyOnly(_)
        | FlavorReason::NoSingleTopology => 0,
    }
}

pub(super) fn resource_of(fr: &FlavorResource) -> ResourceName {
    fr.resource
        .as_str()
        .parse()
        .expect("the engine's resources come from requests, which are names")
}

#[cfg(test)]
mod tests {
    use crate::arbiter::engine::{amount_of, quantity_of};

    #[test]
    fn cpu_is_counted_in_thousandths_and_shown_in_whole_units() {
        let cpu = "cpu".parse().unwrap();
        assert_eq!(amount_of(&cpu, 3), 3_000);
        assert_eq!(amount_of(&cpu, u64::MAX), i64::MAX);
        assert_eq!(quantity_of(&"cpu".into(), 2_001), 3);
        assert_eq!(quantity_of(&"nvidia.com/gpu".into(), -1), 0);
    }
}
