mod domains;

use super::*;
use crate::kueue::fixture::{NOW_MS, cluster, gpus_of, pending, queue, running};
use crate::kueue::model::{BorrowWithinCohort, Preemption, PreemptionPolicy};
use crate::kueue::snapshot::Snapshot;

const LOWER: Preemption =
    Preemption { within_queue: PreemptionPolicy::LowerPriority, ..Preemption::NEVER };
const RECLAIM: Preemption = Preemption { reclaim_within_cohort: PreemptionPolicy::Any, ..LOWER };

/// Victims for a workload of queue `a` that wants `gpus`, as (name, reason).
fn victims(snapshot: &Snapshot, priority: i32, gpus: i64, rule: &VictimRule) -> Vec<String> {
    let workload = pending("new", "a", priority, gpus);
    let claim = Claim {
        workload: &workload,
        node: snapshot.queue(&"a".into()).unwrap().node,
        contested: [gpus_of("a3")].into(),
        usage: [(gpus_of("a3"), gpus)].into(),
        topology: TopologyDemand::default(),
    };
    let mut victims: Vec<String> =
        find_victims(&mut WhatIf::new(snapshot), &claim, &rule.clone().into(), NOW_MS)
            .iter()
            .map(|victim| format!("{} {}", victim.workload, victim.reason.code()))
            .collect();
    victims.sort();
    victims
}

/// Queue `a` with `preemption` and 8 GPUs, queue `b` with 8, in one cohort.
fn two_queues(preemption: Preemption, workloads: &[(&str, &str, i32, i64)]) -> Snapshot {
    let mut a = queue("a", Some("team"), 8);
    a.preemption = preemption;
    let mut snapshot = cluster(vec![a, queue("b", Some("team"), 8)]);
    for &(name, queue, priority, gpus) in workloads {
        snapshot.insert(running(name, queue, priority, gpus));
    }
    snapshot
}

#[test]
fn the_lowest_priority_goes_and_nobody_more_than_needed() {
    let running = [("w1", "a", 1, 4), ("w2", "a", 2, 4), ("x", "b", 0, 8)];
    let snapshot = two_queues(LOWER, &running);
    assert_eq!(victims(&snapshot, 9, 4, &VictimRule::Classical), ["w1 InClusterQueue"]);
}

#[test]
fn victims_that_turn_out_unneeded_are_spared() {
    let running = [("small", "a", 1, 1), ("large", "a", 2, 7), ("x", "b", 0, 8)];
    let snapshot = two_queues(LOWER, &running);
    assert_eq!(victims(&snapshot, 9, 7, &VictimRule::Classical), ["large InClusterQueue"]);
}

#[test]
fn nobody_goes_if_that_would_not_be_enough() {
    let snapshot = two_queues(LOWER, &[("w1", "a", 1, 4), ("w2", "a", 9, 4), ("x", "b", 0, 8)]);
    assert_eq!(victims(&snapshot, 9, 8, &VictimRule::Classical), Vec::<String>::new());
}

#[test]
fn lent_quota_is_taken_back_whatever_the_priority() {
    let snapshot = two_queues(RECLAIM, &[("x1", "b", 50, 8), ("x2", "b", 50, 8)]);
    assert_eq!(victims(&snapshot, 0, 8, &VictimRule::Classical), ["x1 InCohortReclamation"]);
}

#[test]
fn a_queue_within_its_quota_gives_nothing() {
    let snapshot = two_queues(RECLAIM, &[("x", "b", 0, 8), ("w", "a", 50, 8)]);
    assert_eq!(victims(&snapshot, 9, 8, &VictimRule::Classical), Vec::<String>::new());
}

#[test]
fn workloads_above_the_priority_threshold_are_spared_while_borrowing() {
    let threshold = BorrowWithinCohort::LowerPriority { max_priority: Some(3) };
    let preemption = Preemption { borrow_within_cohort: threshold, ..RECLAIM };
    let workloads = [("own", "a", 50, 6), ("low", "b", 3, 4), ("high", "b", 4, 6)];
    let snapshot = two_queues(preemption, &workloads);
    let rule = VictimRule::Classical;
    assert_eq!(victims(&snapshot, 9, 4, &rule), ["low InCohortReclaimWhileBorrowing"]);
    assert_eq!(victims(&snapshot, 9, 6, &rule), Vec::<String>::new());
}

#[test]
fn fair_sharing_takes_from_the_queue_with_the_larger_share() {
    let preemption = Preemption { within_queue: PreemptionPolicy::Never, ..RECLAIM };
    let mut queues = vec![queue("a", Some("team"), 0), queue("b", Some("team"), 0)];
    for queue in &mut queues {
        queue.preemption = preemption;
    }
    queues.push(queue("pool", Some("team"), 12));
    let mut snapshot = cluster(queues);
    for name in ["b1", "b2", "b3"] {
        snapshot.insert(running(name, "b", 0, 4));
    }
    let rule = VictimRule::FairSharing(FairSharing::default());
    assert_eq!(victims(&snapshot, 0, 4, &rule), ["b1 InCohortFairSharing"]);
    // With 8 of 12, queue a would have the larger share itself.
    assert_eq!(victims(&snapshot, 0, 12, &rule), Vec::<String>::new());
}

#[test]
fn those_already_leaving_are_taken_first_and_marked() {
    let mut snapshot = two_queues(LOWER, &[("w1", "a", 1, 4), ("x", "b", 0, 8)]);
    let leaving = running("w2", "a", 5, 4);
    let mut workload = (*leaving.workload).clone();
    let reason = crate::kueue::workload::EvictionReason::Preempted;
    workload.eviction = Some(crate::kueue::workload::Eviction { reason, at_ms: 1 });
    snapshot.insert(Running::new(std::sync::Arc::new(workload)));
    let new = pending("new", "a", 9, 4);
    let claim = Claim {
        workload: &new,
        node: snapshot.queue(&"a".into()).unwrap().node,
        contested: [gpus_of("a3")].into(),
        usage: [(gpus_of("a3"), 4)].into(),
        topology: TopologyDemand::default(),
    };
    let victims =
        find_victims(&mut WhatIf::new(&snapshot), &claim, &VictimRule::Classical.into(), 0);
    let expected = Victim {
        workload: WorkloadKey::new("", "w2"),
        reason: PreemptionReason::InClusterQueue,
        is_leaving: true,
    };
    assert_eq!(victims, [expected]);
}

#[test]
fn local_queues_that_used_more_go_first_within_their_cluster_queue() {
    let of = |name: &str, queue: &str, priority, usage: u128| {
        let mut running = running(name, queue, priority, 1);
        let mut workload = (*running.workload).clone();
        workload.local_queue = name.into();
        running.workload = std::sync::Arc::new(workload);
        running.local_queue_usage_nano = Some(usage);
        running
    };
    // Pairwise these three contradict each other: heavy before light before other before heavy.
    let all = [of("heavy", "b", 2, 9), of("light", "b", 0, 1), of("other", "c", 1, 5)];
    let mut order: Vec<&Running> = all.iter().collect();
    sort_candidates(&mut order, |running| *running, &"a".into(), NOW_MS);
    let names: Vec<_> = order.iter().map(|running| running.workload.key.name()).collect();
    assert_eq!(names, ["heavy", "other", "light"]);
}

#[test]
fn of_those_allowed_the_cheaper_go_first() {
    let workloads = [("w1", "a", 1, 4), ("w2", "a", 2, 4), ("w9", "a", 9, 4), ("x", "b", 0, 4)];
    let snapshot = two_queues(LOWER, &workloads);
    let new = pending("new", "a", 5, 4);
    let claim = Claim {
        workload: &new,
        node: snapshot.queue(&"a".into()).unwrap().node,
        contested: [gpus_of("a3")].into(),
        usage: [(gpus_of("a3"), 4)].into(),
        topology: TopologyDemand::default(),
    };
    let standing = |_: &Workload, running: &Running| {
        let costs = [("w1", 100), ("w2", 7), ("w9", 0)];
        let cost = costs.iter().find(|(name, _)| running.workload.key.name() == *name);
        Standing { cost_device_ms: cost.map_or(0, |(_, cost)| *cost), ..Standing::default() }
    };
    let weighing =
        Some(Weighing { standing: &standing, finds_cheapest: true, follows_topology: true });
    let policy = VictimPolicy { rule: VictimRule::Classical, weighing };
    let victims = find_victims(&mut WhatIf::new(&snapshot), &claim, &policy, NOW_MS);
    let names: Vec<_> = victims.iter().map(|victim| victim.workload.name()).collect();
    assert_eq!(names, ["w2"], "w9 is cheaper but outranks the preemptor");
}
