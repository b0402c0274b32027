//! Whatever is said of a change holds when it is really made, and asking changes nothing.

use proptest::prelude::*;

use super::*;
use crate::kueue::model::FlavorQuotas;
use crate::scheduler::Place;

/// What a case is made of.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one way in which cases differ")]
struct Case {
    has_racks: bool,
    is_strict: bool,
    reclaims: bool,
    /// Whether all victims have left in the end.
    drains_end: bool,
    nominal: (i64, i64),
    borrowing_limit: Option<i64>,
    /// Queue, priority, ranks, GPUs per rank, whether it must lie in one rack.
    workloads: Vec<(bool, i32, u32, i64, bool)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let workload = (any::<bool>(), 0..4_i32, 1..4_u32, 1..5_i64, any::<bool>());
    (
        any::<[bool; 4]>(),
        (0..12_i64, 0..12_i64),
        prop::option::of(0..6_i64),
        prop::collection::vec(workload, 2..10),
    )
        .prop_map(|(flags, nominal, borrowing_limit, workloads)| Case {
            has_racks: flags[0],
            is_strict: flags[1],
            reclaims: flags[2],
            drains_end: flags[3],
            nominal,
            borrowing_limit,
            workloads,
        })
}

impl Case {
    fn setup(&self) -> Setup {
        let mut queues = vec![
            member("a", self.nominal.0, self.borrowing_limit),
            member("b", self.nominal.1, None),
        ];
        if self.is_strict {
            queues[0].strategy = QueueingStrategy::StrictFifo;
        }
        if self.reclaims {
            for queue in &mut queues {
                queue.preemption.reclaim_within_cohort = PreemptionPolicy::Any;
            }
        }
        if self.has_racks { racks(queues, 2) } else { flat(queues) }
    }

    /// A scheduler to which all workloads were submitted, one after the other.
    fn scheduler(&self) -> Scheduler {
        let mut scheduler = scheduler(self.setup());
        let mut now_ms = NOW_MS - 1_000;
        for (number, workload) in self.workloads.iter().enumerate() {
            let (is_in_a, priority, ranks, gpus, in_one_rack) = *workload;
            let queue = if is_in_a { "a" } else { "b" };
            let mut workload = gang(&format!("w{number}"), queue, priority, (ranks, gpus));
            workload.created_at_ms = now_ms;
            if self.has_racks && in_one_rack {
                workload = in_topology(workload, TopologyMode::Required("rack".to_owned()));
            }
            scheduler.submit(Arc::new(workload));
            scheduler.decide(now_ms, &standing);
            now_ms += 10;
        }
        if self.drains_end {
            let is_leaving = |(_, place): &(&WorkloadKey, &Place)| **place == Place::Leaving;
            let leaving: Vec<_> = scheduler.places.iter().filter(is_leaving).collect();
            let leaving: Vec<WorkloadKey> = leaving.into_iter().map(|(k, _)| k.clone()).collect();
            for victim in leaving {
                scheduler.left(&victim);
            }
            scheduler.decide(now_ms, &standing);
        }
        scheduler
    }
}

/// Every third workload is protected for a while; the cost is what the number says.
fn standing(_: &Workload, victim: &Workload) -> Standing {
    let number: u64 = victim.key.name()[1..].parse().unwrap();
    let protection = Protection { until_ms: NOW_MS + 5_000 + number, rule: Rule::DrainBudget };
    Standing {
        cost_device_ms: (number * 7) % 5,
        protected: (number.is_multiple_of(3)).then_some(protection),
        ..Standing::default()
    }
}

/// What really happens to the workload if `changes` are made and nobody else is waiting before it.
fn really(
    case: &Case,
    before: &Scheduler,
    explained: &Workload,
    changes: &[Change],
    now_ms: u64,
) -> String {
    let mut setup = case.setup();
    let mut workload = Workload { reservation: None, ..explained.clone() };
    let mut gone = Vec::new();
    for change in changes {
        match change {
            Change::Quota { queue, fr, more } => {
                let queue = setup.queues.iter_mut().find(|known| known.name == *queue).unwrap();
                let FlavorQuotas { quotas, .. } = &mut queue.groups[0].flavors[0];
                quotas.get_mut(&fr.resource).unwrap().nominal += more;
            }
            Change::Priority(priority) => workload.priority = *priority,
            Change::Ranks(ranks) => workload.pod_sets[0].count = *ranks,
            Change::Topology(mode) => {
                workload.pod_sets[0].topology.as_mut().unwrap().mode.clone_from(mode);
            }
            Change::Without(other) => gone.push(other.clone()),
            Change::Resource(..) | Change::Queue(_) | Change::RuleOff(_) | Change::RuleOn(_) => {
                panic!("{change:?} is no remedy")
            }
        }
    }
    let mut scheduler = scheduler(setup);
    for running in before.snapshot().queues().flat_map(|q| before.snapshot().running_in(q)) {
        let other = &running.workload;
        if other.key != workload.key && !gone.contains(&other.key) {
            scheduler.resume(Arc::clone(other));
        }
    }
    for (holder, hold) in &before.holds {
        if let Some(place) = scheduler.places.get_mut(holder) {
            *place = Place::Holding;
            scheduler.holds.insert(holder.clone(), hold.clone());
        }
    }
    let name = workload.key.clone();
    scheduler.submit(Arc::new(workload));
    let verdicts = scheduler.decide(now_ms, &standing);
    let verdict = verdicts.iter().find(|verdict| *verdict.workload() == name);
    match verdict {
        Some(Verdict::Admit { .. }) => "runs".to_owned(),
        Some(Verdict::Preempt { victims, .. }) => outcome(&Outcome::Preempts(victims.clone())),
        other => format!("{other:?}"),
    }
}

/// Whether others could make use of what `remedy` changes.
fn gives_room(remedy: &Remedy) -> bool {
    match remedy {
        Remedy::Change { changes, .. } => changes.iter().any(|change| match change {
            Change::Quota { .. } | Change::Without(_) => true,
            Change::Priority(_)
            | Change::Ranks(_)
            | Change::Resource(..)
            | Change::Queue(_)
            | Change::Topology(_)
            | Change::RuleOff(_)
            | Change::RuleOn(_) => false,
        }),
        Remedy::ProtectionEnds { .. } => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_remedy_does_what_it_says_when_it_is_really_applied(case in cases()) {
        let scheduler = case.scheduler();
        let waiting: Vec<_> = scheduler.waiting.keys().cloned().collect();
        for key in waiting {
            let explanation = scheduler.explain(&key, &[], NOW_MS, &standing).unwrap();
            for remedy in &explanation.remedies {
                // Holders go first when there is room: what they would take is not looked at.
                if !scheduler.holds.is_empty() && gives_room(remedy) {
                    continue;
                }
                let (changes, now_ms, then) = match remedy {
                    Remedy::Change { changes, outcome } => (changes.as_slice(), NOW_MS, outcome),
                    Remedy::ProtectionEnds { protection, outcome, .. } => {
                        (&[][..], protection.until_ms, outcome)
                    }
                };
                let workload = &explanation.workload;
                let really = really(&case, &scheduler, workload, changes, now_ms);
                prop_assert_eq!(really, outcome(then), "{:?}", remedy);
            }
        }
    }

    #[test]
    fn asking_changes_nothing_and_without_changes_it_is_the_outlook(case in cases()) {
        let scheduler = case.scheduler();
        let before = format!("{scheduler:?}");
        let changes = [
            Change::Priority(9),
            Change::Ranks(1),
            Change::Topology(None),
            Change::Quota { queue: "a".into(), fr: gpus(), more: 3 },
            Change::RuleOff(Rule::HeldCapacity),
            Change::RuleOff(Rule::AvoidDegraded),
            Change::Without(key("w0")),
        ];
        for key in scheduler.places.keys() {
            let Ok(plain) = scheduler.explain(key, &[], NOW_MS, &standing) else { continue };
            if scheduler.waiting(key).is_some() {
                let outlook = scheduler.outlook(key, NOW_MS, &standing).unwrap();
                prop_assert_eq!(&plain.outlook, &outlook);
            }
            for change in &changes {
                let _ = scheduler.explain(key, std::slice::from_ref(change), NOW_MS, &standing);
            }
            let again = scheduler.explain(key, &[], NOW_MS, &standing);
            prop_assert_eq!(again, Ok(plain));
        }
        prop_assert_eq!(format!("{scheduler:?}"), before);
    }
}
