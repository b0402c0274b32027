use std::path::Path;

use sluice_core::kueue::name::ResourceName;

use super::*;
use crate::simulate::cluster::plain_setup;
use crate::simulate::execution::{Saves, Work};
use crate::simulate::scenario::{Measured, PolicyName};
use crate::simulate::tally::Fate;
use crate::simulate::{Overrides, PlainNodes, Summary, load};

const GPU: &str = "nvidia.com/gpu";

/// 100 of work after a start of 10, saved every 30 in 5, with steps of 4.
fn training() -> Work {
    let saves = Saves { interval_ms: 30, duration_ms: 5, is_background: false };
    Work { duration_ms: 100, start_cost_ms: 10, step_ms: 4, saves: Some(saves) }
}

/// 50 of work, nothing else.
fn serving() -> Work {
    Work { duration_ms: 50, start_cost_ms: 0, step_ms: 0, saves: None }
}

fn job(name: &str, arrival_ms: u64, priority: i32, gpus: i64, work: Work) -> Job {
    Job {
        name: name.to_owned(),
        class: name.to_owned(),
        queue: "default".into(),
        arrival_ms,
        ranks: 1,
        requests: [(GPU.into(), gpus)].into(),
        priority,
        work,
        topology: None,
    }
}

/// These workloads on one node with 8 GPUs.
fn on_one_node(jobs: Vec<Job>) -> Scenario {
    Scenario {
        setup: plain_setup(PlainNodes { count: 1, gpus_per_node: 8 }),
        jobs,
        policy: PolicyName::Compat,
        is_fair_sharing: false,
        measured: Measured { resource: GPU.into(), capacity: 8 },
        kill_grace_ms: 0,
        end_ms: None,
        warnings: Vec::new(),
    }
}

fn run(scenario: &Scenario, mode: Mode) -> Outcome {
    simulate(scenario, mode).expect("it ends")
}

/// A training, and a serving that needs its devices at 31.
fn training_and_serving() -> Scenario {
    on_one_node(vec![job("train", 0, 0, 8, training()), job("serve", 31, 10, 8, serving())])
}

#[test]
fn a_workload_that_is_alone_starts_works_saves_and_ends() {
    let outcome = run(&on_one_node(vec![job("train", 5, 0, 8, training())]), Mode::Kill);
    let fate = Fate {
        first_admitted_at_ms: Some(5),
        ended_at_ms: Some(5 + 10 + 100 + 15),
        admissions: 1,
        held_ms: 125,
        saving_ms: 15,
        useful_ms: 100,
        ..Fate::default()
    };
    let held = vec![(5, 8), (130, 0)];
    assert_eq!(outcome, Outcome { jobs: vec![fate], ended_at_ms: 130, held });
}

#[test]
fn a_killed_training_does_its_work_again() {
    let outcome = run(&training_and_serving(), Mode::Kill);
    // At 31 it had worked 21, none of it saved. It comes back at 81 and needs all of its 125.
    let train = Fate {
        first_admitted_at_ms: Some(0),
        ended_at_ms: Some(81 + 125),
        admissions: 2,
        preemptions: 1,
        held_ms: 31 + 125,
        restart_ms: 10,
        saving_ms: 15,
        lost_ms: 21,
        spared_ms: 0,
        useful_ms: 100,
        waits: None,
    };
    let serve = Fate {
        first_admitted_at_ms: Some(31),
        ended_at_ms: Some(81),
        admissions: 1,
        held_ms: 50,
        useful_ms: 50,
        ..Fate::default()
    };
    let held = vec![(0, 8), (31, 8), (81, 8), (206, 0)];
    assert_eq!(outcome, Outcome { jobs: vec![train, serve], ended_at_ms: 206, held });
}

#[test]
fn a_drained_training_goes_on_from_where_it_was() {
    for policy in [PolicyName::Compat, PolicyName::Sluice] {
        let outcome = run(&Scenario { policy, ..training_and_serving() }, Mode::Drain);
        // Its step ends at 34, its save at 39. It comes back at 89 with 24 done: 10 + 76 + two saves.
        let train = Fate {
            first_admitted_at_ms: Some(0),
            ended_at_ms: Some(89 + 10 + 76 + 10),
            admissions: 2,
            preemptions: 1,
            held_ms: 39 + 96,
            restart_ms: 10,
            saving_ms: 5 + 10,
            lost_ms: 0,
            spared_ms: 21,
            useful_ms: 100,
            waits: None,
        };
        assert_eq!(outcome.jobs[0], train, "{policy:?}");
        assert_eq!(outcome.jobs[1].first_admitted_at_ms, Some(39));
        assert_eq!(outcome.ended_at_ms, 185);
    }
}

#[test]
fn who_cannot_save_is_killed_in_a_drain_too_and_its_loss_counts() {
    let jobs = vec![job("low", 0, 0, 8, serving()), job("high", 20, 10, 8, serving())];
    let scenario = Scenario { kill_grace_ms: 3, ..on_one_node(jobs) };
    let [killed, drained] = [Mode::Kill, Mode::Drain].map(|mode| run(&scenario, mode));
    assert_eq!(killed, drained);
    let low = &drained.jobs[0];
    assert_eq!((low.lost_ms, low.spared_ms, low.saving_ms), (20, 0, 3));
    // The devices are free 3 later.
    assert_eq!(drained.jobs[1].first_admitted_at_ms, Some(23));
    assert_eq!(low.ended_at_ms, Some(23 + 50 + 50));
}

#[test]
fn a_victim_that_ends_with_its_step_is_not_started_again() {
    let mut scenario = training_and_serving();
    // 98 of its work are done then; the rest fits into the step.
    scenario.jobs[1].arrival_ms = 123;
    let outcome = run(&scenario, Mode::Drain);
    let train = &outcome.jobs[0];
    assert_eq!((train.admissions, train.preemptions, train.ended_at_ms), (1, 1, Some(125)));
    // A kill would have lost 8 of work and another start of 10.
    assert_eq!((train.lost_ms, train.spared_ms), (0, 18));
}

#[test]
fn what_can_never_run_is_reported_with_the_reason() {
    let jobs = vec![job("fits", 0, 0, 8, serving()), job("large", 0, 0, 9, serving())];
    let jobs = jobs.into_iter().chain([job("as large", 1, 0, 9, serving())]).collect();
    let scenario = on_one_node(jobs);
    let outcome = run(&scenario, Mode::Drain);
    let summary = Summary::new(&scenario, Mode::Drain, &outcome);
    assert_eq!((summary.total.workloads, summary.total.finished), (3, 1));
    assert_eq!(summary.never_admitted, [("ExceedsMaxQuota", 2)].into());
    assert_eq!(summary.never_admitted_names["ExceedsMaxQuota"].len(), 2);
}

#[test]
fn a_simulation_can_be_cut_off() {
    let scenario = Scenario { end_ms: Some(40), ..training_and_serving() };
    let outcome = run(&scenario, Mode::Kill);
    assert_eq!(outcome.ended_at_ms, 31);
    assert_eq!(outcome.jobs[1].ended_at_ms, None);
    assert_eq!(outcome.jobs[0].lost_ms, 21);
}

/// Hand-made traces in which something is preempted.
fn hand_made() -> Vec<Scenario> {
    let quick = Work { step_ms: 0, ..training() };
    let background = Work {
        saves: Some(Saves { interval_ms: 30, duration_ms: 5, is_background: true }),
        ..training()
    };
    let pairs = |work: Work| {
        (0..120).step_by(7).map(move |at_ms| {
            on_one_node(vec![job("train", 0, 0, 8, work), job("serve", at_ms, 10, 8, serving())])
        })
    };
    let crowd = on_one_node(vec![
        job("a", 0, 0, 4, training()),
        job("b", 3, 1, 4, background),
        job("c", 20, 5, 4, quick),
        job("d", 40, 7, 8, serving()),
        job("e", 60, 9, 2, serving()),
    ]);
    let pairs = [training(), quick, background].into_iter().flat_map(pairs);
    pairs.chain([crowd, training_and_serving()]).collect()
}

#[test]
fn a_drain_never_loses_more_than_a_kill_on_the_same_trace() {
    let mut preemptions = 0;
    for scenario in hand_made() {
        let lost = |mode| {
            let outcome = run(&scenario, mode);
            preemptions += outcome.jobs.iter().map(|fate| fate.preemptions).sum::<u32>();
            outcome.jobs.iter().map(|fate| fate.lost_ms + fate.restart_ms).sum::<u64>()
        };
        let [killed, drained] = [Mode::Kill, Mode::Drain].map(lost);
        assert!(drained <= killed, "{drained} > {killed} of {:?}", scenario.jobs);
    }
    assert!(preemptions > 40, "{preemptions}");
}

fn shipped(name: &str, overrides: &Overrides) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/simulate").join(name);
    load(&path, overrides).expect("the shipped inputs can be read")
}

/// Checks whatever happens: nobody gets more than there is, and what is given comes back.
#[derive(Default)]
struct Checker {
    by_queue: BTreeMap<String, i64>,
    by_node: BTreeMap<String, i64>,
    holds: BTreeMap<usize, Admission>,
    ended: usize,
}

impl Checker {
    fn watch(&mut self, scenario: &Scenario, happening: &Happening<'_>) {
        match happening {
            Happening::Admitted { job, admission } => {
                self.count(scenario, *job, admission, 1);
                assert!(self.holds.insert(*job, (*admission).clone()).is_none(), "given twice");
            }
            Happening::Released { job, done_ms, has_ended } => {
                let admission = self.holds.remove(job).expect("only what was given is released");
                self.count(scenario, *job, &admission, -1);
                if *has_ended {
                    self.ended += 1;
                    assert_eq!(*done_ms, scenario.jobs[*job].work.duration_ms);
                }
            }
            Happening::Preempted { job } => assert!(self.holds.contains_key(job)),
        }
        let total: i64 = self.by_queue.values().sum();
        assert!(total <= scenario.measured.capacity, "quota is exceeded: {:?}", self.by_queue);
        assert!(self.by_node.values().all(|gpus| (0..=8).contains(gpus)), "{:?}", self.by_node);
    }

    fn count(&mut self, scenario: &Scenario, job: usize, admission: &Admission, sign: i64) {
        let resource = ResourceName::from(GPU);
        let spec = &scenario.jobs[job];
        let of_queue = self.by_queue.entry(admission.queue.to_string()).or_default();
        *of_queue += sign * spec.total(&resource);
        let placement = admission.pod_sets[0].placement.as_ref().expect("pods are placed");
        let mut placed = 0;
        for domain in &placement.domains {
            let node = domain.values.last().expect("the lowest level is the node");
            let gpus = i64::from(domain.pods) * spec.requests[&resource];
            *self.by_node.entry(node.clone()).or_default() += sign * gpus;
            placed += domain.pods;
        }
        assert_eq!(placed, spec.ranks, "all ranks run or none");
    }
}

#[test]
fn quota_and_nodes_are_never_exceeded_and_all_work_is_done() {
    for seed in 0..3 {
        for policy in [PolicyName::Compat, PolicyName::Sluice] {
            let overrides =
                Overrides { seed: Some(seed), policy: Some(policy), ..Overrides::default() };
            let scenario = shipped("training-and-serving.yaml", &overrides);
            for mode in [Mode::Kill, Mode::Drain] {
                let mut checker = Checker::default();
                let outcome = simulate_with(&scenario, mode, &mut |_, happening| {
                    checker.watch(&scenario, &happening);
                });
                let outcome = outcome.expect("it ends");
                assert_eq!((checker.ended, checker.holds.len()), (scenario.jobs.len(), 0));
                for (job, fate) in scenario.jobs.iter().zip(&outcome.jobs) {
                    assert_eq!(fate.useful_ms, job.work.duration_ms, "{}", job.name);
                    if mode == Mode::Drain && job.work.saves.is_some() {
                        assert_eq!(fate.lost_ms, 0, "{} lost work in a drain", job.name);
                    }
                }
            }
        }
    }
}

#[test]
fn the_same_input_gives_the_same_outcome_and_another_seed_another_one() {
    let outcome = |seed| {
        let overrides = Overrides { seed: Some(seed), ..Overrides::default() };
        run(&shipped("training-and-serving.yaml", &overrides), Mode::Drain)
    };
    assert_eq!(outcome(1), outcome(1));
    assert_ne!(outcome(1), outcome(2));
}

#[test]
fn workloads_that_push_each_other_out_for_ever_end_the_simulation() {
    let scenario = training_and_serving();
    let mut watch = |_: u64, _: Happening<'_>| {};
    let mut run = Run::new(&scenario, Mode::Kill, &mut watch);
    // Two workloads may be decided about 30 times at one moment, and 6,000 times altogether.
    (run.now_ms, run.decisions_before, run.decisions_now) = (7, 5_970, 30);
    assert!(run.check_that_it_ends().is_ok());
    for (before, now) in [(0, 31), (5_971, 30)] {
        (run.decisions_before, run.decisions_now) = (before, now);
        let error = run.check_that_it_ends().unwrap_err().to_string();
        assert!(
            error.starts_with("the simulation was stopped at 7 ms of virtual time: "),
            "{error}"
        );
    }
}
