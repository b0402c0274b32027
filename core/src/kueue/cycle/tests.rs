use std::sync::Arc;

use super::*;
use crate::kueue::fixture::{NOW_MS, cluster, pending, queue, running};
use crate::kueue::model::{NamespaceSelector, Preemption, PreemptionPolicy, StopPolicy};
use crate::kueue::preempt::PreemptionReason;
use crate::kueue::workload::Workload;

/// What happens to each workload: (name, outcome).
fn decide(snapshot: &Snapshot, workloads: Vec<Workload>, options: &Options<'_>) -> Vec<String> {
    let heads: Vec<Pending> =
        workloads.into_iter().map(|workload| Pending::new(Arc::new(workload))).collect();
    run_cycle(snapshot, &heads, options, NOW_MS).verdicts.iter().map(in_words).collect()
}

fn in_words(verdict: &Verdict) -> String {
    let reason = verdict.reason.map_or("", PendingReason::code);
    let decision = match &verdict.decision {
        Decision::Admit(_) => "admitted".to_owned(),
        Decision::Preempt(victims) => {
            let names: Vec<_> = victims.iter().map(|victim| victim.workload.to_string()).collect();
            format!("preempts {}", names.join(" "))
        }
        Decision::AwaitVictims => "awaits victims".to_owned(),
        Decision::Evict(reason) => format!("evicted {}", reason.code()),
        Decision::Wait => "waits".to_owned(),
    };
    format!("{} {decision} {reason}", verdict.workload).trim_end().to_owned()
}

#[test]
fn heads_are_admitted_while_they_fit() {
    let snapshot = cluster(vec![queue("a", Some("team"), 4), queue("b", Some("team"), 4)]);
    let heads = vec![pending("w1", "a", 1, 6), pending("w2", "b", 0, 4)];
    // w2 goes first because it does not borrow; then only 4 are left for w1.
    assert_eq!(
        decide(&snapshot, heads, &Options::classical()),
        ["w2 admitted", "w1 waits WaitingForQuota"]
    );
}

#[test]
fn a_workload_without_victims_keeps_others_from_its_quota() {
    let mut a = queue("a", Some("team"), 4);
    a.preemption = Preemption {
        within_queue: PreemptionPolicy::LowerPriority,
        reclaim_within_cohort: PreemptionPolicy::LowerPriority,
        ..Preemption::NEVER
    };
    let mut snapshot = cluster(vec![a, queue("b", Some("team"), 4)]);
    snapshot.insert(running("x", "b", 50, 6));
    let heads = vec![pending("w1", "a", 9, 4), pending("w2", "b", 0, 2)];
    assert_eq!(
        decide(&snapshot, heads, &Options::classical()),
        ["w1 waits WaitingForQuota", "w2 waits WaitingForQuota"]
    );
}

#[test]
fn two_heads_never_take_the_same_victim() {
    let preemption =
        Preemption { reclaim_within_cohort: PreemptionPolicy::Any, ..Preemption::NEVER };
    let mut queues = vec![queue("a", Some("team"), 4), queue("b", Some("team"), 4)];
    for queue in &mut queues {
        queue.preemption = preemption;
    }
    queues.push(queue("c", Some("team"), 0));
    let mut snapshot = cluster(queues);
    snapshot.insert(running("x", "c", 0, 8));
    let heads = vec![pending("w1", "a", 1, 4), pending("w2", "b", 0, 4)];
    let options = Options::classical();
    assert_eq!(
        decide(&snapshot, heads.clone(), &options),
        [
            "w1 preempts x WaitingForPreemptedWorkloads",
            "w2 awaits victims WaitingForPreemptedWorkloads"
        ]
    );
    let options = Options { off: [Rule::RecomputeOnOverlap].into(), ..options };
    assert_eq!(
        decide(&snapshot, heads, &options),
        ["w1 preempts x WaitingForPreemptedWorkloads", "w2 waits WaitingForQuota"]
    );
}

#[test]
fn fair_sharing_admits_the_queue_with_the_smaller_share_first() {
    let queues = vec![queue("a", Some("team"), 0), queue("b", Some("team"), 0)];
    let mut snapshot = cluster([queues, vec![queue("pool", Some("team"), 10)]].concat());
    snapshot.insert(running("x", "a", 0, 5));
    let heads = vec![pending("w1", "a", 50, 3), pending("w2", "b", 0, 3)];
    assert_eq!(
        decide(&snapshot, heads, &Options::fair_sharing()),
        ["w2 admitted", "w1 waits WaitingForQuota"]
    );
}

#[test]
fn a_workload_that_can_shrink_is_admitted_with_fewer_pods() {
    let snapshot = cluster(vec![queue("a", None, 6)]);
    let mut workload = pending("w1", "a", 0, 2);
    (workload.pod_sets[0].count, workload.pod_sets[0].min_count) = (5, Some(1));
    let heads = [Pending::new(Arc::new(workload))];
    let outcome = run_cycle(&snapshot, &heads, &Options::classical(), NOW_MS);
    let Decision::Admit(admission) = &outcome.verdicts[0].decision else {
        panic!("not admitted: {outcome:?}");
    };
    assert_eq!((admission.pod_sets[0].count, admission.pod_sets[0].usage[&"gpu".into()]), (3, 6));
}

#[test]
fn queues_out_of_order_refuse_with_a_reason() {
    let mut stopped = queue("a", None, 4);
    stopped.stop = StopPolicy::Hold;
    let mut closed = queue("b", None, 4);
    closed.namespaces = NamespaceSelector::Nobody;
    let snapshot = cluster(vec![stopped, closed]);
    let heads =
        vec![pending("w1", "a", 0, 1), pending("w2", "b", 0, 1), pending("w3", "gone", 0, 1)];
    assert_eq!(
        decide(&snapshot, heads, &Options::classical()),
        ["w1 waits Suspended", "w2 waits Misconfigured", "w3 waits Misconfigured"]
    );
}

#[test]
fn a_workload_that_holds_quota_is_not_admitted_again() {
    let mut snapshot = cluster(vec![queue("a", None, 4)]);
    let held = running("w1", "a", 0, 2);
    let again = (*held.workload).clone();
    snapshot.insert(held);
    assert_eq!(decide(&snapshot, vec![again], &Options::classical()), Vec::<String>::new());
}

#[test]
fn victims_of_one_cycle_are_told_why() {
    let mut a = queue("a", None, 4);
    a.preemption =
        Preemption { within_queue: PreemptionPolicy::LowerPriority, ..Preemption::NEVER };
    let mut snapshot = cluster(vec![a]);
    snapshot.insert(running("x", "a", 0, 4));
    let heads = [Pending::new(Arc::new(pending("w1", "a", 1, 2)))];
    let outcome = run_cycle(&snapshot, &heads, &Options::classical(), NOW_MS);
    let victim = Victim {
        workload: WorkloadKey::new("", "x"),
        reason: PreemptionReason::InClusterQueue,
        is_leaving: false,
    };
    assert_eq!(outcome.verdicts[0].decision, Decision::Preempt(vec![victim]));
    assert_eq!(outcome.verdicts[0].requeue, Some(RequeueReason::PendingPreemption));
}
