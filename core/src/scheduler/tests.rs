use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::{History, Limits, Place, Policy, Rule, Scheduler, Standing, Verdict};
use crate::kueue::fixture::{NOW_MS, flavor, pending, queue};
use crate::kueue::model::{ClusterQueue, PreemptionPolicy};
use crate::kueue::name::WorkloadKey;
use crate::kueue::snapshot::Setup;
use crate::kueue::workload::Workload;

mod holds;
mod property;
mod thrash;

const NOTHING: &dyn Fn(&Workload, &Workload) -> Standing = &|_, _| Standing::default();

fn key(name: &str) -> WorkloadKey {
    WorkloadKey::new("", name)
}

/// A queue of `gpus` in which higher priority preempts lower.
fn preempting(name: &str, gpus: i64) -> ClusterQueue {
    let mut queue = queue(name, None, gpus);
    queue.preemption.within_queue = PreemptionPolicy::LowerPriority;
    queue
}

fn scheduler(queues: Vec<ClusterQueue>, policy: Policy) -> Scheduler {
    let flavors = vec![flavor("a3"), flavor("a4")];
    Scheduler::new(Setup { flavors, queues, ..Setup::default() }, policy)
}

/// Submits `name` to queue "q" and decides.
fn submit(scheduler: &mut Scheduler, name: &str, priority: i32, gpus: i64) -> Vec<String> {
    scheduler.submit(Arc::new(pending(name, "q", priority, gpus)));
    words(&scheduler.decide(NOW_MS, NOTHING))
}

/// The verdicts in words.
fn words(verdicts: &[Verdict]) -> Vec<String> {
    let word = |verdict: &Verdict| match verdict {
        Verdict::Admit { workload, admission: _, was_held } => {
            format!("{workload} runs{}", if *was_held { " on what was held" } else { "" })
        }
        Verdict::Preempt { workload, victims, held, .. } => {
            let names: Vec<_> = victims.iter().map(|v| v.workload.to_string()).collect();
            let held = if held.is_some() { ", held" } else { "" };
            format!("{} for {workload}{held}", names.join(" "))
        }
        Verdict::Evict { workload, reason } => format!("{workload} goes: {}", reason.code()),
        Verdict::Wait { workload, reason, protected, .. } => match protected {
            Some((victim, protection)) => format!(
                "{workload} waits until {} for {victim}: {}",
                protection.until_ms, protection.rule
            ),
            None => format!("{workload} waits: {}", reason.code()),
        },
    };
    verdicts.iter().map(word).collect()
}

#[test]
fn who_fits_runs_and_who_does_not_waits() {
    let mut scheduler = scheduler(vec![preempting("q", 8)], Policy::sluice());
    assert_eq!(submit(&mut scheduler, "a", 0, 6), ["a runs"]);
    assert_eq!(submit(&mut scheduler, "b", 0, 4), ["b waits: WaitingForQuota"]);
    assert_eq!(submit(&mut scheduler, "c", 0, 2), ["c runs"]);
    assert_eq!(words(&scheduler.decide(NOW_MS, NOTHING)), [""; 0], "nothing is new");
    scheduler.forget(&key("a"));
    assert_eq!(words(&scheduler.decide(NOW_MS, NOTHING)), ["b runs"]);
}

#[test]
fn a_queue_that_is_unknown_takes_nothing() {
    let mut scheduler = scheduler(vec![preempting("q", 8)], Policy::sluice());
    assert!(!scheduler.submit(Arc::new(pending("a", "elsewhere", 0, 1))));
    assert_eq!(scheduler.place(&key("a")), None);
}

/// Two gangs of 4 GPUs: one saved 5 s ago, the other 25 min ago.
fn two_gangs(policy: Policy) -> (Scheduler, impl Fn(&Workload, &Workload) -> Standing) {
    let mut scheduler = scheduler(vec![preempting("q", 8)], policy);
    assert_eq!(submit(&mut scheduler, "fresh", 0, 4), ["fresh runs"]);
    assert_eq!(submit(&mut scheduler, "stale", 0, 4), ["stale runs"]);
    let standing = |_: &Workload, workload: &Workload| {
        let unsaved_ms = if workload.key.name() == "fresh" { 5_000 } else { 25 * 60_000 };
        let at_risk_device_ms = 4 * unsaved_ms;
        Standing { cost_device_ms: at_risk_device_ms, at_risk_device_ms, ..Standing::default() }
    };
    (scheduler, standing)
}

#[test]
fn s1_the_gang_that_saved_last_goes() {
    let (mut scheduler, standing) = two_gangs(Policy::sluice());
    scheduler.submit(Arc::new(pending("serving", "q", 5, 4)));
    assert_eq!(words(&scheduler.decide(NOW_MS, &standing)), ["fresh for serving, held"]);
    let serving = pending("serving", "q", 5, 4);
    let at_risk = |name| standing(&serving, &pending(name, "q", 0, 4)).at_risk_device_ms;
    assert_eq!((at_risk("fresh"), at_risk("stale")), (20_000, 6_000_000));
}

#[test]
fn without_the_rule_of_lost_work_the_order_is_kueues() {
    let mut policy = Policy::sluice();
    policy.rules = policy.rules.without(Rule::LostWork);
    for policy in [policy, Policy::compat()] {
        let (mut scheduler, standing) = two_gangs(policy);
        scheduler.submit(Arc::new(pending("serving", "q", 5, 4)));
        let verdicts = words(&scheduler.decide(NOW_MS, &standing));
        // Both reserved at the same moment: the order of their UIDs decides.
        assert!(verdicts[0].starts_with("fresh for serving"), "{verdicts:?}");
        let (mut scheduler, standing) = two_gangs(Policy::compat());
        scheduler.forget(&key("fresh"));
        scheduler.submit(Arc::new(pending("later", "q", 0, 4)));
        scheduler.decide(NOW_MS + 1, &standing);
        scheduler.submit(Arc::new(pending("serving", "q", 5, 4)));
        let verdicts = words(&scheduler.decide(NOW_MS + 2, &standing));
        assert!(verdicts[0].starts_with("later for serving"), "{verdicts:?}");
    }
}

#[test]
fn s2_one_whole_gang_goes_and_always_the_same() {
    let picks: Vec<Vec<String>> = (0..100)
        .map(|_| {
            let mut scheduler = scheduler(vec![preempting("q", 4)], Policy::sluice());
            assert_eq!(submit(&mut scheduler, "a", 0, 2), ["a runs"]);
            assert_eq!(submit(&mut scheduler, "b", 0, 2), ["b runs"]);
            submit(&mut scheduler, "serving", 5, 2)
        })
        .collect();
    assert_eq!(picks, vec![vec!["a for serving, held".to_owned()]; 100]);
}

#[test]
fn several_heads_let_priority_count_across_queues() {
    let queues = || {
        let mut queues = vec![queue("one", Some("all"), 0), queue("two", Some("all"), 0)];
        queues.push(queue("lender", Some("all"), 2));
        queues
    };
    let run = |policy: Policy| {
        let mut scheduler = scheduler(queues(), policy);
        for (name, queue, priority) in [("a", "one", 9), ("b", "one", 8), ("c", "two", 1)] {
            scheduler.submit(Arc::new(pending(name, queue, priority, 1)));
        }
        let mut verdicts = words(&scheduler.decide(NOW_MS, NOTHING));
        verdicts.retain(|verdict| verdict.ends_with("runs"));
        verdicts
    };
    assert_eq!(run(Policy::sluice()), ["a runs", "b runs"]);
    assert_eq!(run(Policy::compat()), ["a runs", "c runs"], "one head of a queue at a time");
}
