//! Victims are those whom the rules allow, enough, and none too many.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::fixture::{NOW_MS, gpus_of, pending};
use super::super::model::PreemptionPolicy;
use super::super::preempt::{Claim, PreemptionReason, Victim, VictimRule, find_victims};
use super::super::quota::Ledger;
use super::super::snapshot::{Running, Snapshot};
use super::super::topology::TopologyDemand;
use super::super::whatif::WhatIf;
use super::super::workload::{Eviction, EvictionReason, Workload};
use super::{SPARED, World, nodes, policies, queue_of, usage_everywhere, world};

/// A new workload's claim on flavor a3 of the first queue.
fn claim<'a>(workload: &'a Workload, snapshot: &Snapshot, gpus: i64) -> Claim<'a> {
    Claim {
        workload,
        node: queue_of(workload, snapshot).node,
        contested: [gpus_of("a3")].into(),
        usage: [(gpus_of("a3"), gpus)].into(),
        topology: TopologyDemand::default(),
    }
}

/// Whether `policy` lets `preemptor` outrank `victim`.
fn outranks(policy: PreemptionPolicy, preemptor: &Workload, victim: &Workload) -> bool {
    match policy {
        PreemptionPolicy::Never => false,
        PreemptionPolicy::LowerPriority => preemptor.priority > victim.priority,
        PreemptionPolicy::LowerOrNewerEqualPriority => {
            preemptor.priority > victim.priority
                || (preemptor.priority == victim.priority
                    && preemptor.created_at_ms < victim.created_at_ms)
        }
        PreemptionPolicy::Any => true,
    }
}

pub(super) fn assert_rights(victims: &[Victim], preemptor: &Workload, snapshot: &Snapshot) {
    let own = queue_of(preemptor, snapshot);
    let policies = own.spec.preemption;
    for victim in victims {
        let running = snapshot.running(&victim.workload).expect("victims run");
        let is_own = running.queue == own.spec.name;
        assert_eq!(is_own, victim.reason == PreemptionReason::InClusterQueue, "{victim:?}");
        let policy = if is_own { policies.within_queue } else { policies.reclaim_within_cohort };
        assert!(outranks(policy, preemptor, &running.workload), "{victim:?} by {policy:?}");
        if !is_own {
            let node = snapshot.queue(&running.queue).expect("victims have a queue").node;
            let above = Ledger::new(snapshot.tree()).is_borrowing_with(node, &gpus_of("a3"), 0);
            assert!(above, "{victim:?} is in a queue within its quota");
        }
    }
}

fn new_workload(world: &World, priority: i32, gpus: i64) -> Workload {
    let name = world.queues[0].name.to_string();
    let mut workload = pending("new", &name, priority, gpus * world.unit);
    workload.created_at_ms = 3;
    workload
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// No victim outranks the preemptor's rights; with all of them gone it fits, without any one it does not; and
    /// the question leaves no trace.
    #[test]
    fn victims_are_allowed_enough_and_needed(
        world in world(), policy in policies(), priority in 0..5_i32, gpus in 1..8_i64,
    ) {
        let snapshot = world.overfull();
        let workload = new_workload(&world, priority, gpus);
        let claim = claim(&workload, &snapshot, gpus * world.unit);
        let nodes = nodes(&snapshot);
        let mut whatif = WhatIf::new(&snapshot);
        // Victims are looked for only where there is no room.
        if whatif.has_room(claim.node, &claim.usage) {
            return Ok(());
        }
        let before = usage_everywhere(whatif.ledger(), &nodes);
        let victims = policy.ask(|policy| find_victims(&mut whatif, &claim, &policy, NOW_MS));
        prop_assert_eq!(usage_everywhere(whatif.ledger(), &nodes), before);
        assert_rights(&victims, &workload, &snapshot);
        if victims.is_empty() {
            return Ok(());
        }
        let running: Vec<&Running> =
            victims.iter().filter_map(|victim| snapshot.running(&victim.workload)).collect();
        for victim in &running {
            whatif.take_away(victim);
        }
        prop_assert!(whatif.has_room(claim.node, &claim.usage));
        for victim in &running {
            whatif.put_back(victim);
            let fits = whatif.has_room(claim.node, &claim.usage)
                && !whatif.would_borrow(claim.node, &claim.usage);
            prop_assert!(!fits, "{:?} is not needed", victim.workload.key);
            whatif.take_away(victim);
        }
        let Some(_) = &policy.costs else { return Ok(()) };
        for victim in &running {
            prop_assert!(policy.cost(&victim.workload) < SPARED, "{:?} is spared", victim.workload.key);
            whatif.put_back(victim);
        }
        let cost: u64 = running.iter().map(|victim| policy.cost(&victim.workload)).sum();
        let own = whatif.running_in(queue_of(&workload, &snapshot)).collect::<Vec<_>>();
        let within = queue_of(&workload, &snapshot).spec.preemption.within_queue;
        for other in own.into_iter().filter(|o| outranks(within, &workload, &o.workload)) {
            whatif.take_away(other);
            let is_enough = whatif.has_room(claim.node, &claim.usage)
                && !whatif.would_borrow(claim.node, &claim.usage);
            whatif.put_back(other);
            let other_cost = policy.cost(&other.workload);
            let is_better = is_enough && other_cost < cost;
            prop_assert!(!is_better, "{:?} alone costs {other_cost} < {cost}", other.workload.key);
        }
    }

    /// While victims are leaving, the same question names nobody else.
    #[test]
    fn asking_again_while_victims_leave_finds_nobody_new(
        world in world(), priority in 0..5_i32, gpus in 1..8_i64,
    ) {
        let mut snapshot = world.overfull();
        let workload = new_workload(&world, priority, gpus);
        let gpus = gpus * world.unit;
        let first = {
            let claim = claim(&workload, &snapshot, gpus);
            find_victims(&mut WhatIf::new(&snapshot), &claim, &VictimRule::Classical.into(), NOW_MS)
        };
        for victim in &first {
            let mut leaving = (*snapshot.running(&victim.workload).unwrap().workload).clone();
            let reason = EvictionReason::Preempted;
            leaving.eviction = Some(Eviction { reason, at_ms: NOW_MS });
            snapshot.insert(Running::new(Arc::new(leaving)));
        }
        let claim = claim(&workload, &snapshot, gpus);
        let second = find_victims(&mut WhatIf::new(&snapshot), &claim, &VictimRule::Classical.into(), NOW_MS);
        prop_assert!(second.iter().all(|victim| victim.is_leaving), "{first:?} then {second:?}");
    }
}
