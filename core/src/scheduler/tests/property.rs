//! What must hold whatever happens, in whatever order.

use std::collections::BTreeSet;

use super::*;
use crate::kueue::cycle::Decision;
use crate::kueue::fixture::{cohort, gpus_of, nominal};
use crate::kueue::model::{Cohort, Quota};
use crate::kueue::quota::NodeId;
use crate::kueue::whatif::WhatIf;
use crate::scheduler::Rules;

/// Something that happens to the scheduler. Numbers name workloads.
#[derive(Clone, Debug)]
enum Event {
    Submit { number: usize, queue: usize, priority: i32, gpus: i64 },
    Ends { number: usize },
    Leaves { number: usize },
    Stays { number: usize },
    TimePasses { ms: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    let number = 0..10_usize;
    prop_oneof![
        4 => (number.clone(), 0..3_usize, 0..4_i32, 1..7_i64).prop_map(
            |(number, queue, priority, gpus)| Event::Submit { number, queue, priority, gpus }
        ),
        2 => number.clone().prop_map(|number| Event::Ends { number }),
        3 => number.clone().prop_map(|number| Event::Leaves { number }),
        1 => number.prop_map(|number| Event::Stays { number }),
        1 => (1..40_000_u64).prop_map(|ms| Event::TimePasses { ms }),
    ]
}

fn policies() -> impl Strategy<Value = Policy> {
    let off = proptest::collection::vec(proptest::sample::select(Rule::ALL.to_vec()), 0..3);
    (any::<bool>(), any::<bool>(), off).prop_map(|(is_compat, is_fair, off)| {
        let rules = off.into_iter().fold(Rules::all(), Rules::without);
        let rules = if is_compat { Rules::none() } else { rules };
        let policy = Policy { rules, ..Policy::compat() };
        if is_fair { policy.with_fair_sharing() } else { policy }
    })
}

/// Three queues in one cohort of 18 GPUs, in which everything may be preempted that Kueue knows.
fn cluster(policy: Policy) -> Scheduler {
    let queue = |(index, nominal_gpus): (usize, i64)| {
        let mut queue = preempting(&format!("q{index}"), nominal_gpus);
        queue.cohort = Some("all".into());
        queue.preemption.reclaim_within_cohort = PreemptionPolicy::Any;
        let limited = Quota { borrowing_limit: Some(4), ..nominal(nominal_gpus) };
        if index == 1 {
            queue.groups = vec![crate::kueue::fixture::gpu_group(&[("a3", limited)])];
        }
        queue
    };
    let queues: Vec<ClusterQueue> = [8, 6, 4].into_iter().enumerate().map(queue).collect();
    let cohorts: Vec<Cohort> = vec![cohort("all", None)];
    let flavors = vec![flavor("a3"), flavor("a4")];
    Scheduler::new(Setup { flavors, cohorts, queues, ..Setup::default() }, policy)
}

fn named(number: usize) -> WorkloadKey {
    key(&format!("w{number}"))
}

/// Costs and protection that depend on the name alone.
fn standing_at(now_ms: u64) -> impl Fn(&Workload, &Workload) -> Standing {
    move |_: &Workload, victim: &Workload| {
        let number: u64 = victim.key.name()[1..].parse().unwrap_or(0);
        let until_ms = (number % 3) * 20_000;
        let protection = super::super::Protection { until_ms, rule: Rule::ProductiveFloor };
        Standing {
            cost_device_ms: (number * 7) % 5,
            protected: (until_ms > now_ms).then_some(protection),
            hold_off_ms: (number % 2) * 5_000,
            ..Standing::default()
        }
    }
}

/// Carries out one event as the arbiter would; whether the scheduler was told.
fn happen(scheduler: &mut Scheduler, event: &Event, now_ms: &mut u64) {
    let place = |scheduler: &Scheduler, number| scheduler.place(&named(number));
    match *event {
        Event::Submit { number, queue, priority, gpus } if place(scheduler, number).is_none() => {
            let (name, queue) = (format!("w{number}"), format!("q{queue}"));
            let mut workload = pending(&name, &queue, priority, gpus);
            workload.created_at_ms = *now_ms;
            scheduler.submit(Arc::new(workload));
        }
        Event::Ends { number } => scheduler.forget(&named(number)),
        Event::Leaves { number } if place(scheduler, number) == Some(Place::Leaving) => {
            scheduler.left(&named(number));
        }
        Event::Stays { number } if place(scheduler, number) == Some(Place::Leaving) => {
            scheduler.stays(&named(number));
        }
        Event::TimePasses { ms } => *now_ms += ms,
        Event::Submit { .. } | Event::Leaves { .. } | Event::Stays { .. } => {}
    }
}

/// No queue and no cohort has more than it may have in `whatif`.
fn assert_within_quota(whatif: &WhatIf<'_>, what: &str) {
    let (ledger, tree) = (whatif.ledger(), whatif.snapshot().tree());
    let fr = gpus_of("a3");
    for queue in whatif.snapshot().queues() {
        let nodes: Vec<NodeId> =
            std::iter::once(queue.node).chain(tree.ancestors(queue.node)).collect();
        for node in nodes {
            let (usage, quota) = (ledger.usage(node, &fr), tree.quota(node, &fr));
            let most = match (tree.parent(node), quota.borrowing_limit) {
                (Some(_), None) => continue,
                (Some(_), Some(limit)) => tree.subtree_quota(node, &fr) + limit,
                (None, _) => tree.subtree_quota(node, &fr),
            };
            assert!(usage <= most, "{what}: {usage} of {most} in use at {node:?}");
        }
    }
}

/// What runs now, without what is only held; and what will run once everybody who leaves for a holder has left.
fn assert_no_quota_exceeded(scheduler: &Scheduler) {
    let mut now = WhatIf::new(scheduler.snapshot());
    for number in 0..10 {
        if scheduler.place(&named(number)) == Some(Place::Holding) {
            now.take_away(scheduler.snapshot().running(&named(number)).unwrap());
        }
    }
    assert_within_quota(&now, "now");
    assert_within_quota(&scheduler.settled(), "later");
}

fn gives(verdict: &Verdict) -> bool {
    !matches!(verdict, Verdict::Wait { .. })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Quota is kept at every moment; nobody gives way for itself; and, as long as what is freed is held, deciding
    /// again soon decides nothing more: who was admitted may be a victim that was missing before, but that ends.
    /// (Kueue, which holds nothing, may go on to preempt.)
    #[test]
    fn quota_is_kept_and_deciding_again_decides_nothing(
        policy in policies(), events in proptest::collection::vec(event(), 1..40),
    ) {
        let holds = policy.rules.is_on(Rule::HeldCapacity);
        let mut scheduler = cluster(policy);
        let mut now_ms = 0;
        for event in &events {
            happen(&mut scheduler, event, &mut now_ms);
            let standing = standing_at(now_ms);
            for verdict in scheduler.decide(now_ms, &standing).iter().filter(|v| gives(v)) {
                if let Verdict::Preempt { workload, victims, .. } = verdict {
                    let names: BTreeSet<_> = victims.iter().map(|v| &v.workload).collect();
                    prop_assert!(!names.contains(workload), "{workload} for itself");
                }
            }
            assert_no_quota_exceeded(&scheduler);
            let rounds = (0..10).take_while(|_| {
                scheduler.wake_all();
                scheduler.decide(now_ms, &standing).iter().any(gives)
            });
            prop_assert!(rounds.count() < 10 || !holds, "no end after {event:?}");
            assert_no_quota_exceeded(&scheduler);
        }
    }

    /// Whoever asks for the outlook of a workload hears what is decided next, and changes nothing.
    #[test]
    fn the_outlook_is_what_is_decided(
        policy in policies(), events in proptest::collection::vec(event(), 1..8),
        priority in 0..5_i32, gpus in 1..7_i64,
    ) {
        let mut scheduler = cluster(policy);
        let mut now_ms = 0;
        for event in &events {
            happen(&mut scheduler, event, &mut now_ms);
            scheduler.decide(now_ms, &standing_at(now_ms));
        }
        // Whoever waits may go first; then the outlook of one alone tells nothing.
        let waits = |number| scheduler.place(&named(number)) == Some(Place::Waiting);
        prop_assume!(!(0..10).any(waits));
        scheduler.submit(Arc::new(pending("w10", "q0", priority, gpus)));
        let before = format!("{scheduler:?}");
        let outlook = scheduler.outlook(&key("w10"), now_ms, &standing_at(now_ms)).unwrap();
        prop_assert_eq!(&before, &format!("{scheduler:?}"));
        let verdicts = scheduler.decide(now_ms, &standing_at(now_ms));
        let first = verdicts.iter().find(|verdict| verdict.workload() == &key("w10"));
        let is_admitted = matches!(first, Some(Verdict::Admit { .. }));
        prop_assert_eq!(is_admitted, matches!(outlook.verdict.decision, Decision::Admit(_)));
    }
}
