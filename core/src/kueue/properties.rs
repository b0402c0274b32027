//! What must hold for every cluster: nobody loses more than the rules allow, nothing is given away twice.

mod domains;
mod preempt;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::cycle::{CycleOutcome, Decision, Options, run_cycle};
use super::fixture::{NOW_MS, cohort, flavor, gpu_group, gpus_of, pending};
use super::model::{BorrowWithinCohort, ClusterQueue, Cohort, Preemption, PreemptionPolicy, Quota};
use super::name::WorkloadKey;
use super::order::Pending;
use super::preempt::{FairSharing, Standing, VictimPolicy, VictimRule, Weighing};
use super::quota::{Ledger, NodeId};
use super::snapshot::{QueueState, Running, Setup, Snapshot};
use super::workload::{PodSetAdmission, Reservation, Workload};

/// A cluster to try things on. Amounts are multiples of `unit`.
#[derive(Clone, Debug)]
struct World {
    unit: i64,
    cohorts: Vec<Cohort>,
    queues: Vec<ClusterQueue>,
    /// Queue, priority and GPUs of each workload that is submitted, oldest first.
    submitted: Vec<(usize, i32, i64)>,
}

impl World {
    fn snapshot(&self) -> Snapshot {
        let flavors = vec![flavor("a3"), flavor("a4")];
        let (cohorts, queues) = (self.cohorts.clone(), self.queues.clone());
        Snapshot::new(Setup { flavors, cohorts, queues, ..Setup::default() })
    }

    fn workloads(&self) -> Vec<Workload> {
        let workload = |(index, &(queue, priority, gpus)): (usize, &(usize, i32, i64))| {
            let queue = self.queues[queue % self.queues.len()].name.to_string();
            let name = format!("w{index:02}");
            let mut workload = pending(&name, &queue, priority, gpus * self.unit);
            workload.created_at_ms = index as u64;
            workload
        };
        self.submitted.iter().enumerate().map(workload).collect()
    }

    /// The snapshot with every workload running in its queue, whether it fits or not.
    fn overfull(&self) -> Snapshot {
        let mut snapshot = self.snapshot();
        for workload in self.workloads() {
            snapshot.insert(Running::new(Arc::new(reserved(workload, "a3"))));
        }
        snapshot
    }
}

fn reserved(mut workload: Workload, flavor: &str) -> Workload {
    let admission = super::workload::Admission {
        queue: workload.queue.clone(),
        pod_sets: vec![PodSetAdmission {
            name: "main".into(),
            count: 1,
            flavors: [("gpu".into(), flavor.into())].into(),
            usage: workload.pod_sets[0].requests.clone(),
            placement: None,
            delayed_placement: None,
        }],
    };
    let at_ms = workload.created_at_ms;
    workload.reservation = Some(Reservation { at_ms, is_admitted: true, admission });
    workload
}

fn policy() -> impl Strategy<Value = PreemptionPolicy> {
    prop_oneof![
        1 => Just(PreemptionPolicy::Never),
        3 => Just(PreemptionPolicy::LowerPriority),
        3 => Just(PreemptionPolicy::LowerOrNewerEqualPriority),
        3 => Just(PreemptionPolicy::Any),
    ]
}

fn preemption() -> impl Strategy<Value = Preemption> {
    let borrow = prop_oneof![
        Just(BorrowWithinCohort::Never),
        proptest::option::of(0..4)
            .prop_map(|max_priority| BorrowWithinCohort::LowerPriority { max_priority }),
    ];
    // Kueue knows no `Any` within a queue.
    let within = policy().prop_filter("not Any", |policy| *policy != PreemptionPolicy::Any);
    (within, policy(), borrow).prop_map(|(within_queue, reclaim_within_cohort, borrow)| {
        Preemption { within_queue, reclaim_within_cohort, borrow_within_cohort: borrow }
    })
}

fn quota(unit: i64) -> impl Strategy<Value = Quota> {
    (0..8_i64, proptest::option::of(0..6_i64), proptest::option::of(0..6_i64)).prop_map(
        move |(nominal, borrowing, lending)| Quota {
            nominal: nominal * unit,
            borrowing_limit: borrowing.map(|limit| limit * unit),
            lending_limit: lending.map(|limit| limit * unit),
        },
    )
}

fn queue(unit: i64) -> impl Strategy<Value = ClusterQueue> {
    (0..3_usize, quota(unit), quota(unit), preemption(), 0..3_u64).prop_map(
        |(team, a3, a4, preemption, weight)| {
            let team = ["left", "right", "root"][team];
            let mut queue = super::fixture::queue("", Some(team), 0);
            queue.groups = vec![gpu_group(&[("a3", a3), ("a4", a4)])];
            queue.preemption = preemption;
            queue.fair_weight = super::weight::FairWeight::from_nano_units(weight * 500_000_000);
            queue
        },
    )
}

fn world() -> impl Strategy<Value = World> {
    // One unit of 2^50 brings sums to 2^53 and beyond.
    prop_oneof![Just(1_i64), Just(1 << 50)].prop_flat_map(|unit| {
        let queues = proptest::collection::vec(queue(unit), 1..5);
        let submitted = proptest::collection::vec((0..4_usize, 0..4_i32, 1..6_i64), 1..12);
        (queues, submitted).prop_map(move |(mut queues, submitted)| {
            for (index, queue) in queues.iter_mut().enumerate() {
                queue.name = format!("q{index}").into();
            }
            let cohorts = vec![
                cohort("root", None),
                cohort("left", Some("root")),
                cohort("right", Some("root")),
            ];
            World { unit, cohorts, queues, submitted }
        })
    })
}

/// A rule, and what each workload costs if costs count; one with the cost [`SPARED`] is spared.
#[derive(Clone, Debug)]
struct Rules {
    rule: VictimRule,
    costs: Option<Vec<u64>>,
}

const SPARED: u64 = 8;

impl Rules {
    fn cost(&self, workload: &Workload) -> u64 {
        let number: Option<usize> = workload.key.name()[1..].parse().ok();
        self.costs.iter().flatten().nth(number.unwrap_or(0)).copied().unwrap_or(0)
    }

    fn ask<R>(&self, question: impl FnOnce(VictimPolicy<'_>) -> R) -> R {
        let standing = |_: &Workload, running: &Running| {
            let cost_device_ms = self.cost(&running.workload);
            Standing { cost_device_ms, at_risk_device_ms: 0, is_spared: cost_device_ms == SPARED }
        };
        let weighing =
            Weighing { standing: &standing, finds_cheapest: true, follows_topology: true };
        let weighing = self.costs.is_some().then_some(weighing);
        question(VictimPolicy { rule: self.rule.clone(), weighing })
    }
}

fn policies() -> impl Strategy<Value = Rules> {
    let costs = proptest::collection::vec(0..=SPARED, 12);
    (rules(), proptest::option::of(costs)).prop_map(|(rule, costs)| Rules { rule, costs })
}

fn rules() -> impl Strategy<Value = VictimRule> {
    prop_oneof![
        Just(VictimRule::Classical),
        Just(VictimRule::FairSharing(FairSharing::default())),
        Just(VictimRule::FairSharing(FairSharing { tries_again: true, ..FairSharing::default() })),
    ]
}

fn nodes(snapshot: &Snapshot) -> Vec<NodeId> {
    let tree = snapshot.tree();
    let queues = snapshot.queues().map(|queue| queue.node);
    queues.flat_map(|node| std::iter::once(node).chain(tree.ancestors(node))).collect()
}

fn usage_everywhere(ledger: &Ledger<'_>, nodes: &[NodeId]) -> Vec<i64> {
    let of_node =
        |&node: &NodeId| [ledger.usage(node, &gpus_of("a3")), ledger.usage(node, &gpus_of("a4"))];
    nodes.iter().flat_map(of_node).collect()
}

fn queue_of<'s>(workload: &Workload, snapshot: &'s Snapshot) -> &'s QueueState {
    snapshot.queue(&workload.queue).expect("the world has the queue")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Cycle after cycle, no queue and no cohort gets more than its quota and limits, and a decision depends on
    /// neither the order of lists nor on being asked before.
    #[test]
    fn no_quota_is_exceeded_and_order_does_not_matter(world in world(), victims in policies()) {
        victims.ask(|victims| check_cycles(&world, victims))?;
    }
}

fn check_cycles(world: &World, victims: VictimPolicy<'_>) -> Result<(), TestCaseError> {
    let options = Options { victims, ..Options::classical() };
    let mut snapshot = world.snapshot();
    let mut waiting: BTreeMap<WorkloadKey, Arc<Workload>> = world
        .workloads()
        .into_iter()
        .map(|workload| (workload.key.clone(), Arc::new(workload)))
        .collect();
    for _ in 0..6 {
        let heads: Vec<Pending> = heads_of(&waiting);
        let outcome = run_cycle(&snapshot, &heads, &options, NOW_MS);
        prop_assert_eq!(&run_cycle(&snapshot, &heads, &options, NOW_MS), &outcome);
        let (reversed, mut backwards) = (in_reverse(world, &snapshot), heads.clone());
        backwards.reverse();
        let again = run_cycle(&reversed, &backwards, &options, NOW_MS);
        prop_assert_eq!(by_workload(&again), by_workload(&outcome));
        carry_out(&outcome, &mut snapshot, &mut waiting);
        assert_within_quota(&snapshot);
    }
    Ok(())
}

/// The most senior waiting workload of every queue.
fn heads_of(waiting: &BTreeMap<WorkloadKey, Arc<Workload>>) -> Vec<Pending> {
    let mut heads: BTreeMap<&super::name::QueueName, &Arc<Workload>> = BTreeMap::new();
    for workload in waiting.values() {
        let head = heads.entry(&workload.queue).or_insert(workload);
        let rank = |workload: &Workload| (-workload.priority, workload.created_at_ms);
        if rank(workload) < rank(head) {
            *head = workload;
        }
    }
    heads.into_values().map(|workload| Pending::new(Arc::clone(workload))).collect()
}

/// The same cluster, built from lists in the opposite order.
fn in_reverse(world: &World, snapshot: &Snapshot) -> Snapshot {
    let mut world = world.clone();
    world.queues.reverse();
    world.cohorts.reverse();
    let mut reversed = world.snapshot();
    let mut running: Vec<&Running> =
        snapshot.queues().flat_map(|queue| snapshot.running_in(queue)).collect();
    running.reverse();
    for running in running {
        reversed.insert(running.clone());
    }
    reversed
}

fn by_workload(outcome: &CycleOutcome) -> BTreeMap<WorkloadKey, Decision> {
    let decisions = outcome.verdicts.iter();
    decisions.map(|verdict| (verdict.workload.clone(), verdict.decision.clone())).collect()
}

/// Admits, and sends victims back to their queues at once.
fn carry_out(
    outcome: &CycleOutcome,
    snapshot: &mut Snapshot,
    waiting: &mut BTreeMap<WorkloadKey, Arc<Workload>>,
) {
    for verdict in &outcome.verdicts {
        match &verdict.decision {
            Decision::Admit(admission) => {
                let mut workload = (*waiting.remove(&verdict.workload).unwrap()).clone();
                let admission = admission.clone();
                let at_ms = workload.created_at_ms;
                workload.reservation = Some(Reservation { at_ms, is_admitted: true, admission });
                snapshot.insert(Running::new(Arc::new(workload)));
            }
            Decision::Preempt(victims) => {
                for victim in victims {
                    let running = snapshot.remove(&victim.workload).expect("victims run");
                    let mut workload = (*running.workload).clone();
                    workload.reservation = None;
                    waiting.insert(workload.key.clone(), Arc::new(workload));
                }
            }
            Decision::AwaitVictims | Decision::Evict(_) | Decision::Wait => {}
        }
    }
}

fn assert_within_quota(snapshot: &Snapshot) {
    let (tree, ledger) = (snapshot.tree(), Ledger::new(snapshot.tree()));
    for fr in [gpus_of("a3"), gpus_of("a4")] {
        for node in nodes(snapshot) {
            let (usage, subtree) = (ledger.usage(node, &fr), tree.subtree_quota(node, &fr));
            assert!(usage >= 0, "usage never falls below zero");
            match (tree.parent(node), tree.quota(node, &fr).borrowing_limit) {
                (None, _) => assert!(usage <= subtree, "a root uses {usage} of {subtree}"),
                (Some(_), Some(limit)) => assert!(usage <= subtree.saturating_add(limit)),
                (Some(_), None) => {}
            }
        }
    }
}
