//! Whether room could be made for a flavor-resource, found out by a real search for victims.

use super::super::name::FlavorResource;
use super::super::preempt::{Claim, VictimPolicy, find_victims};
use super::super::snapshot::QueueState;
use super::super::topology::TopologyDemand;
use super::super::whatif::WhatIf;
use super::super::workload::Workload;

/// Whether room could be made for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Possibility {
    /// No: nobody may be preempted, or not enough.
    NoCandidates,
    /// Yes, with victims in the own queue.
    Preempt,
    /// Yes, with victims in other queues only.
    Reclaim,
}

/// Looks for victims that would free `amount` of `fr` for `workload`, and says from how far quota would come then.
#[must_use]
pub fn preemption_oracle(
    whatif: &mut WhatIf<'_>,
    workload: &Workload,
    queue: &QueueState,
    fr: &FlavorResource,
    amount: i64,
    policy: &VictimPolicy<'_>,
    now_ms: u64,
) -> (Possibility, u32) {
    let claim = Claim {
        workload,
        node: queue.node,
        contested: [fr.clone()].into(),
        usage: [(fr.clone(), amount)].into(),
        // Whether one flavor-resource can be had is a question of quota alone.
        topology: TopologyDemand::default(),
    };
    let victims = find_victims(whatif, &claim, &policy.first_found(), now_ms);
    let snapshot = whatif.snapshot();
    let victims: Vec<_> =
        victims.iter().filter_map(|victim| snapshot.running(&victim.workload)).collect();
    for victim in &victims {
        whatif.take_away(victim);
    }
    let (borrow_height, _) = whatif.ledger().lowest_fitting_subtree(queue.node, fr, amount);
    for victim in &victims {
        whatif.put_back(victim);
    }
    let possibility = if victims.is_empty() {
        Possibility::NoCandidates
    } else if victims.iter().any(|victim| victim.queue == queue.spec.name) {
        Possibility::Preempt
    } else {
        Possibility::Reclaim
    };
    (possibility, borrow_height)
}
