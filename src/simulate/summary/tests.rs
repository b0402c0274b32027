use super::*;
use crate::simulate::cluster::plain_setup;
use crate::simulate::execution::Work;
use crate::simulate::file::PlainNodes;

fn job(name: &str, queue: &str, gpus: i64) -> Job {
    Job {
        name: name.to_owned(),
        class: "all".to_owned(),
        queue: queue.into(),
        arrival_ms: 0,
        ranks: 2,
        requests: [("nvidia.com/gpu".into(), gpus)].into(),
        priority: 0,
        work: Work { duration_ms: 100, start_cost_ms: 0, step_ms: 0, saves: None },
        topology: None,
    }
}

fn scenario(jobs: Vec<Job>) -> Scenario {
    Scenario {
        setup: plain_setup(PlainNodes { count: 1, gpus_per_node: 8 }),
        jobs,
        policy: PolicyName::Compat,
        is_fair_sharing: false,
        measured: Measured { resource: "nvidia.com/gpu".into(), capacity: 8 },
        kill_grace_ms: 0,
        end_ms: None,
        warnings: Vec::new(),
    }
}

fn fate(first_ms: u64, ended_ms: u64) -> Fate {
    Fate {
        first_admitted_at_ms: Some(first_ms),
        ended_at_ms: Some(ended_ms),
        admissions: 1,
        held_ms: 100,
        useful_ms: 100,
        ..Fate::default()
    }
}

#[test]
fn figures_are_weighted_by_devices() {
    let scenario = scenario(vec![job("a", "default", 2), job("b", "default", 1)]);
    let fates = vec![
        fate(0, 100),
        Fate { held_ms: 150, lost_ms: 20, restart_ms: 10, preemptions: 1, ..fate(50, 200) },
    ];
    let outcome = Outcome { jobs: fates, ended_at_ms: 200, held: Vec::new() };
    let summary = Summary::new(&scenario, Mode::Kill, &outcome);
    let expected = Figures {
        workloads: 2,
        finished: 2,
        admissions: 2,
        preemptions: 1,
        waiting: WaitingTimes { mean_ms: 25, p50_ms: 0, p95_ms: 50, max_ms: 50 },
        turnaround_mean_ms: 150,
        // 4 devices for 100 and 2 for 150, of 8 for 200.
        utilisation_permille: 437,
        useful_permille: 375,
        held_device_ms: 700,
        useful_device_ms: 600,
        lost_device_ms: 60,
        lost_work_device_ms: 40,
        restart_device_ms: 20,
        saving_device_ms: 0,
        saved_device_ms: 0,
    };
    assert_eq!(summary.total, expected);
    assert_eq!(summary.classes, [Group { name: "all".to_owned(), figures: expected.clone() }]);
    assert_eq!(summary.queues, [Group { name: "default".to_owned(), figures: expected }]);
    assert_eq!((summary.makespan_ms, summary.capacity_millidevices), (200, 8_000));
}

#[test]
fn fairness_is_jains_index_of_the_speeds_of_queues() {
    let fairness = |ended: [u64; 2]| {
        let scenario = scenario(vec![job("a", "default", 1), job("b", "other", 1)]);
        let jobs = ended.map(|ended_ms| fate(0, ended_ms)).into();
        let outcome = Outcome { jobs, ended_at_ms: 400, held: Vec::new() };
        Summary::new(&scenario, Mode::Kill, &outcome).fairness_permille
    };
    assert_eq!(fairness([100, 100]), 1_000);
    assert_eq!(fairness([200, 200]), 1_000);
    // Speeds 1 and 1/2: (1.5)² / (2 · 1.25).
    assert_eq!(fairness([100, 200]), 900);
}
