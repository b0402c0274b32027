use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kueue::fixture::{NOW_MS, flavor, gpu_group, nominal, pending, queue};
use crate::kueue::model::{
    ClusterQueue, PreemptionPolicy, QueueingStrategy, Quota, ResourceFlavor, Topology,
};
use crate::kueue::name::{FlavorResource, WorkloadKey};
use crate::kueue::snapshot::Setup;
use crate::kueue::tas::Node;
use crate::kueue::workload::{TopologyMode, TopologyRequest, Workload};

use super::*;
use crate::scheduler::{Policy, Verdict};

mod properties;

const NOTHING: &dyn Fn(&Workload, &Workload) -> Standing = &|_, _| Standing::default();

fn key(name: &str) -> WorkloadKey {
    WorkloadKey::new("", name)
}

fn gpus() -> FlavorResource {
    FlavorResource::new(&"a3".into(), &"gpu".into())
}

fn scheduler(setup: Setup) -> Scheduler {
    Scheduler::new(setup, Policy::sluice())
}

fn flat(queues: Vec<ClusterQueue>) -> Setup {
    Setup { flavors: vec![flavor("a3"), flavor("a4")], queues, ..Setup::default() }
}

/// Racks of two hosts of 4 GPUs each.
fn racks(queues: Vec<ClusterQueue>, racks: usize) -> Setup {
    let levels = vec!["zone".to_owned(), "rack".to_owned(), "kubernetes.io/hostname".to_owned()];
    let node = |number: usize| {
        let (name, rack) = (format!("host-{number}"), format!("rack-{}", number / 2));
        let labels = [
            ("zone".to_owned(), "z".to_owned()),
            ("rack".to_owned(), rack),
            ("kubernetes.io/hostname".to_owned(), name.clone()),
        ];
        Node {
            name,
            labels: labels.into(),
            allocatable: [("gpu".into(), 4), ("pods".into(), 110)].into(),
            degraded: BTreeMap::new(),
            taints: Vec::new(),
            is_ready: true,
            is_unschedulable: false,
        }
    };
    let placed = ResourceFlavor { topology: Some("racks".into()), ..flavor("a3") };
    Setup {
        flavors: vec![placed, flavor("a4")],
        queues,
        topologies: vec![Topology { name: "racks".into(), levels }],
        nodes: (0..2 * racks).map(node).collect(),
        ..Setup::default()
    }
}

/// A queue of `gpus` in a cohort, in which higher priority preempts lower.
fn member(name: &str, gpus: i64, borrowing_limit: Option<i64>) -> ClusterQueue {
    let mut queue = queue(name, Some("team"), gpus);
    let quota = Quota { borrowing_limit, ..nominal(gpus) };
    queue.groups = vec![gpu_group(&[("a3", quota)])];
    queue.preemption.within_queue = PreemptionPolicy::LowerPriority;
    queue
}

/// A workload of `ranks` pods of `gpus` each.
fn gang(name: &str, queue: &str, priority: i32, (ranks, gpus): (u32, i64)) -> Workload {
    let mut workload = pending(name, queue, priority, gpus);
    workload.pod_sets[0].count = ranks;
    workload
}

fn in_topology(mut workload: Workload, mode: TopologyMode) -> Workload {
    let request = TopologyRequest { mode: Some(mode), ..TopologyRequest::default() };
    workload.pod_sets[0].topology = Some(request);
    workload
}

fn submit(scheduler: &mut Scheduler, workload: Workload) -> Vec<Verdict> {
    assert!(scheduler.submit(Arc::new(workload)));
    scheduler.decide(NOW_MS, NOTHING)
}

fn explain(scheduler: &Scheduler, name: &str, changes: &[Change]) -> Explanation {
    scheduler.explain(&key(name), changes, NOW_MS, NOTHING).unwrap()
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Admitted(_) => "runs".to_owned(),
        Outcome::Preempts(victims) => {
            let victims: Vec<_> = victims.iter().map(|v| v.workload.to_string()).collect();
            format!("takes {}", victims.join(" "))
        }
        Outcome::Waits(Waiting::Lacks(reason)) => reason.code().to_owned(),
        Outcome::Waits(Waiting::Behind(first)) => format!("behind {first}"),
        Outcome::Waits(Waiting::Protected(victim, protection)) => {
            format!("{victim} is protected until {}: {}", protection.until_ms, protection.rule)
        }
        Outcome::Waits(Waiting::HeldOff { until_ms }) => format!("held off until {until_ms}"),
    }
}

/// What would help, in words.
fn remedies(explanation: &Explanation) -> Vec<String> {
    let change = |change: &Change| match change {
        Change::Priority(priority) => format!("priority {priority}"),
        Change::Ranks(ranks) => format!("{ranks} ranks"),
        Change::Resource(resource, amount) => format!("{amount} {resource} per rank"),
        Change::Queue(queue) => format!("in {queue}"),
        Change::Topology(mode) => format!("topology {mode:?}"),
        Change::Quota { queue, fr, more } => format!("{more} more {fr} for {queue}"),
        Change::Without(other) => format!("without {other}"),
        Change::RuleOff(rule) => format!("without {rule}"),
        Change::RuleOn(rule) => format!("with {rule}"),
    };
    let remedy = |remedy: &Remedy| match remedy {
        Remedy::Change { changes, outcome: then } => {
            let changes: Vec<_> = changes.iter().map(change).collect();
            format!("{}: {}", changes.join(", "), outcome(then))
        }
        Remedy::ProtectionEnds { workload, protection, outcome: then } => {
            format!("{workload} from {}: {}", protection.until_ms, outcome(then))
        }
    };
    explanation.remedies.iter().map(remedy).collect()
}

/// Queue "a" has 4 GPUs and may borrow 2 of the 4 of queue "b"; a workload of priority 5 uses 4 of them.
fn full_queue() -> Scheduler {
    let mut scheduler = scheduler(flat(vec![member("a", 4, Some(2)), member("b", 4, None)]));
    submit(&mut scheduler, gang("first", "a", 5, (4, 1)));
    submit(&mut scheduler, gang("second", "a", 0, (4, 1)));
    scheduler
}

#[test]
fn a_workload_that_waits_for_quota_is_told_every_way_out() {
    let explanation = explain(&full_queue(), "second", &[]);
    assert_eq!(outcome(&explanation.outcome), "WaitingForQuota");
    let decider = Decider { kueue: KueueRule::Quota, sluice: Vec::new() };
    assert_eq!(explanation.decider, decider);
    assert_eq!(
        remedies(&explanation),
        [
            "priority 6: takes first",
            "without first: runs",
            "2 more gpu of a3 for a: runs",
            "2 ranks: runs",
        ]
    );
}

#[test]
fn the_quota_path_leads_from_the_queue_to_the_root() {
    let rows = explain(&full_queue(), "second", &[]).quota;
    let borrowing = Quota { borrowing_limit: Some(2), ..nominal(4) };
    let row = |cohort: Option<&str>, quota, subtree, usage, available| QuotaRow {
        fr: gpus(),
        cohort: cohort.map(Into::into),
        quota,
        subtree,
        usage,
        available,
    };
    let none = Quota::default();
    assert_eq!(rows, [row(None, borrowing, 4, 4, 2), row(Some("team"), none, 8, 4, 4)]);
}

#[test]
fn the_flavors_tried_say_what_each_lacks() {
    let explanation = explain(&full_queue(), "second", &[]);
    let [tried] = &explanation.flavors[..] else { panic!("{:?}", explanation.flavors) };
    let lacking = crate::kueue::reason::FlavorReason::InsufficientQuota { fr: gpus(), missing: 2 };
    assert_eq!((tried.pods, tried.attempts.len()), (4, 1));
    assert_eq!(tried.attempts[0].flavor, "a3".into());
    assert_eq!(tried.attempts[0].details, [lacking]);
}

#[test]
fn what_would_be_is_answered_for_each_kind_of_change() {
    let scheduler = full_queue();
    let say = |changes: &[Change]| outcome(&explain(&scheduler, "second", changes).outcome);
    assert_eq!(say(&[]), "WaitingForQuota");
    assert_eq!(say(&[Change::Priority(5)]), "WaitingForQuota");
    assert_eq!(say(&[Change::Priority(6)]), "takes first");
    assert_eq!(say(&[Change::Ranks(2)]), "runs");
    assert_eq!(say(&[Change::Ranks(9)]), "ExceedsMaxQuota");
    assert_eq!(say(&[Change::Priority(6), Change::Ranks(3)]), "takes first");
    assert_eq!(say(&[Change::Resource("gpu".into(), 0)]), "runs");
    assert_eq!(say(&[Change::Resource("tpu".into(), 1)]), "NoMatchingFlavor");
    assert_eq!(say(&[Change::Queue("b".into())]), "runs");
    assert_eq!(say(&[Change::Without(key("first"))]), "runs");
    let more = |more| Change::Quota { queue: "a".into(), fr: gpus(), more };
    assert_eq!((say(&[more(1)]), say(&[more(2)])), ("WaitingForQuota".into(), "runs".into()));
    assert_eq!(say(&[more(2), more(-1)]), "WaitingForQuota");
}

#[test]
fn a_change_that_names_what_there_is_not_is_refused() {
    let scheduler = full_queue();
    let refusal = |change: Change| {
        let refused = scheduler.explain(&key("second"), &[change], NOW_MS, NOTHING);
        refused.unwrap_err().to_string()
    };
    assert_eq!(refusal(Change::Ranks(0)), "a workload has 1 rank at least");
    assert_eq!(refusal(Change::Queue("c".into())), "there is no queue c");
    assert_eq!(refusal(Change::Without(key("third"))), "no workload third runs or waits");
    let fr = FlavorResource::new(&"a4".into(), &"gpu".into());
    let quota = Change::Quota { queue: "a".into(), fr, more: 1 };
    assert_eq!(refusal(quota), "queue a has no quota for gpu of a4");
    let running = scheduler.explain(&key("first"), &[], NOW_MS, NOTHING);
    assert_eq!(running, Err(ChangeError::NothingToDecide(key("first"))));
}

#[test]
fn the_lowest_priority_that_helps_is_one_above_the_victims() {
    let mut scheduler = scheduler(flat(vec![member("a", 4, None)]));
    submit(&mut scheduler, gang("low", "a", 3, (1, 2)));
    submit(&mut scheduler, gang("high", "a", 7, (1, 2)));
    submit(&mut scheduler, gang("small", "a", 0, (1, 2)));
    submit(&mut scheduler, gang("large", "a", 0, (1, 4)));
    let of = |name: &str| remedies(&explain(&scheduler, name, &[])).remove(0);
    assert_eq!(of("small"), "priority 4: takes low");
    assert_eq!(of("large"), "priority 8: takes low high");
}

#[test]
fn a_topology_is_relaxed_by_one_level_if_that_is_enough() {
    let mut scheduler = scheduler(racks(vec![member("a", 16, None)], 2));
    // The first two fill one rack, the third half of the other; then half of each is free.
    for name in ["x", "y", "z"] {
        submit(&mut scheduler, gang(name, "a", 0, (1, 4)));
    }
    scheduler.forget(&key("y"));
    let on_a_rack = TopologyMode::Required("rack".to_owned());
    submit(&mut scheduler, in_topology(gang("pair", "a", 0, (2, 4)), on_a_rack));
    let explanation = explain(&scheduler, "pair", &[]);
    assert_eq!(outcome(&explanation.outcome), "WaitingForQuota", "Kueue's word for it");
    assert_eq!(explanation.decider.kueue, KueueRule::Placement);
    assert_eq!(
        remedies(&explanation),
        [
            "priority 1: takes x",
            "without x: runs",
            "topology Some(Required(\"zone\")): runs",
            "1 ranks: runs",
        ]
    );
}

#[test]
fn whoever_asks_for_no_topology_is_told_of_a_flavor_that_is_only_for_those_who_do() {
    let mut queue = member("a", 4, None);
    queue.groups = vec![gpu_group(&[("a4", nominal(4)), ("a3", nominal(8))])];
    let mut scheduler = scheduler(racks(vec![queue], 1));
    submit(&mut scheduler, gang("x", "a", 0, (1, 4)));
    submit(&mut scheduler, gang("y", "a", 0, (1, 4)));
    let remedies = remedies(&explain(&scheduler, "y", &[]));
    assert!(remedies.contains(&"topology Some(Unconstrained): runs".to_owned()), "{remedies:?}");
}

#[test]
fn a_queue_that_is_strictly_in_order_is_blocked_by_its_head() {
    let mut queue = member("a", 4, None);
    queue.strategy = QueueingStrategy::StrictFifo;
    let mut scheduler = scheduler(flat(vec![queue, member("b", 0, None)]));
    submit(&mut scheduler, gang("runs", "a", 0, (1, 2)));
    submit(&mut scheduler, gang("head", "a", 0, (1, 3)));
    submit(&mut scheduler, gang("next", "a", 0, (1, 2)));
    let explanation = explain(&scheduler, "next", &[]);
    assert_eq!(outcome(&explanation.outcome), "behind head");
    assert_eq!(explanation.decider.kueue, KueueRule::QueueingOrder);
    assert_eq!(remedies(&explanation), ["priority 1: runs", "without head: runs"]);
}

/// "kept" was drained before and is protected for another second.
fn protected() -> (Scheduler, impl Fn(&Workload, &Workload) -> Standing) {
    let mut scheduler = scheduler(flat(vec![member("a", 4, None)]));
    submit(&mut scheduler, gang("kept", "a", 0, (1, 4)));
    let standing = |_: &Workload, _: &Workload| {
        let protection = Protection { until_ms: NOW_MS + 1_000, rule: Rule::ProductiveFloor };
        Standing { cost_device_ms: 7, protected: Some(protection), ..Standing::default() }
    };
    scheduler.submit(Arc::new(gang("serve", "a", 5, (1, 4))));
    scheduler.decide(NOW_MS, &standing);
    (scheduler, standing)
}

#[test]
fn a_protection_is_named_with_its_rule_and_its_end() {
    let (scheduler, standing) = protected();
    let explain =
        |changes: &[Change]| scheduler.explain(&key("serve"), changes, NOW_MS, &standing).unwrap();
    let explanation = explain(&[]);
    let until_ms = NOW_MS + 1_000;
    let waits = format!("kept is protected until {until_ms}: productive-floor");
    assert_eq!(outcome(&explanation.outcome), waits);
    let sluice = vec![Rule::ProductiveFloor];
    assert_eq!(explanation.decider, Decider { kueue: KueueRule::PreemptionPolicy, sluice });
    assert_eq!(
        remedies(&explanation),
        [
            format!("kept from {until_ms}: takes kept"),
            "without kept: runs".to_owned(),
            "4 more gpu of a3 for a: runs".to_owned(),
        ]
    );
    let off = explain(&[Change::RuleOff(Rule::ProductiveFloor)]);
    assert_eq!(outcome(&off.outcome), "takes kept");
    let on_again = [Change::RuleOff(Rule::ProductiveFloor), Change::RuleOn(Rule::ProductiveFloor)];
    assert_eq!(outcome(&explain(&on_again).outcome), waits);
}

#[test]
fn the_rule_that_chose_the_victim_is_named() {
    let mut scheduler = scheduler(flat(vec![member("a", 4, None)]));
    submit(&mut scheduler, gang("older", "a", 0, (1, 2)));
    scheduler.submit(Arc::new(gang("newer", "a", 0, (1, 2))));
    scheduler.decide(NOW_MS + 1, NOTHING);
    let standing = |_: &Workload, victim: &Workload| {
        let cost_device_ms = if victim.key.name() == "newer" { 9 } else { 1 };
        Standing { cost_device_ms, ..Standing::default() }
    };
    scheduler.submit(Arc::new(gang("serve", "a", 5, (1, 2))));
    let waiting = scheduler.explain(&key("serve"), &[], NOW_MS + 2, &standing).unwrap();
    assert_eq!(outcome(&waiting.outcome), "takes older");
    let decider = Decider { kueue: KueueRule::WithinClusterQueue, sluice: vec![Rule::LostWork] };
    assert_eq!(waiting.decider, decider);
    assert_eq!(waiting.remedies, []);
    // Once decided, a holder is explained as it was.
    scheduler.decide(NOW_MS + 2, &standing);
    let holding = scheduler.explain(&key("serve"), &[], NOW_MS + 2, &standing).unwrap();
    assert_eq!(holding, waiting);
}

#[test]
fn capacity_that_is_held_for_another_is_named_as_such() {
    let mut scheduler = scheduler(flat(vec![member("a", 4, None)]));
    submit(&mut scheduler, gang("one", "a", 0, (1, 2)));
    submit(&mut scheduler, gang("two", "a", 0, (1, 2)));
    submit(&mut scheduler, gang("serve", "a", 5, (1, 4)));
    scheduler.left(&key("one"));
    submit(&mut scheduler, gang("small", "a", 0, (1, 2)));
    let explanation = explain(&scheduler, "small", &[]);
    assert_eq!(outcome(&explanation.outcome), "WaitingForQuota");
    assert_eq!(explanation.decider.sluice, [Rule::HeldCapacity]);
    let off = explain(&scheduler, "small", &[Change::RuleOff(Rule::HeldCapacity)]);
    assert_eq!(outcome(&off.outcome), "runs");
}
