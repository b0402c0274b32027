//! What an explanation says, and that asking leaves everything as it is.

use super::*;
use crate::arbiter::explain::{Change, Explanation};

fn explain(bench: &Bench, workload: &str, what_if: &[&str]) -> Result<Option<Explanation>, Reason> {
    let changes = what_if.iter().map(|text| text.parse()).collect::<Result<Vec<Change>, _>>()?;
    bench.arbiter.explain(&name(workload), &changes)
}

fn outcome(bench: &Bench, workload: &str, what_if: &[&str]) -> String {
    match explain(bench, workload, what_if) {
        Ok(Some(explanation)) => explanation.outcome.code().to_owned(),
        other => panic!("{other:?}"),
    }
}

/// Two nodes of two GPUs each, quota for three of them: "first" runs on two, "second" wants two.
fn waiting() -> Bench {
    let mut bench = Bench::new(&["n1", "n2"], 3);
    bench.submit(&Bench::spec("first", 5, 1, 2), &["n1", "n2"]);
    bench.submit(&Bench::spec("second", 0, 1, 2), &["n1", "n2"]);
    bench
}

#[test]
fn a_workload_that_waits_is_told_what_would_help() {
    let bench = waiting();
    let explanation = explain(&bench, "second", &[]).unwrap().unwrap();
    assert_eq!(explanation.outcome.code(), "waiting-for-quota");
    assert_eq!(explanation.decider.kueue.as_str(), "quota");
    let remedies = explanation.remedies.iter().map(|remedy| {
        let what_if: Vec<_> = remedy.what_if.iter().map(ToString::to_string).collect();
        (what_if.join(" "), remedy.reason.code(), remedy.outcome.code())
    });
    assert_eq!(
        remedies.collect::<Vec<_>>(),
        [
            ("without=first".to_owned(), "workload-ends", "would-be-admitted"),
            (
                "quota:default/default/nvidia.com/gpu=+1".to_owned(),
                "raise-quota",
                "would-be-admitted"
            ),
        ]
    );
    let [level] = &explanation.quota[..] else { panic!("{:?}", explanation.quota) };
    assert_eq!((level.nominal, level.used, level.available), (3, 2, 1));
    let [tried] = &explanation.flavors[..] else { panic!("{:?}", explanation.flavors) };
    assert_eq!((tried.ranks, tried.reasons[0].code()), (1, "flavor-lacks-quota"));
}

#[test]
fn what_would_be_is_said_and_nothing_is_changed() {
    let bench = waiting();
    let before = bench.arbiter.snapshot();
    assert_eq!(outcome(&bench, "second", &["without=first"]), "would-be-admitted");
    assert_eq!(outcome(&bench, "second", &["resource:nvidia.com/gpu=1"]), "would-be-admitted");
    assert_eq!(outcome(&bench, "second", &["resource:nvidia.com/gpu=4"]), "exceeds-quota");
    assert_eq!(outcome(&bench, "second", &["queue=team/local"]), "waiting-for-quota");
    let raised = ["quota:default/default/nvidia.com/gpu=+1"];
    assert_eq!(outcome(&bench, "second", &raised), "would-be-admitted");
    assert_eq!(bench.arbiter.snapshot(), before);
}

#[test]
fn a_question_that_cannot_be_asked_is_refused_with_the_change_that_is_to_blame() {
    let bench = waiting();
    let refused = |what_if: &[&str]| match explain(&bench, "second", what_if) {
        Err(reason) => format!("[{}] {reason}", reason.code()),
        Ok(answer) => panic!("{answer:?}"),
    };
    assert_eq!(
        refused(&["priority=7", "without=nobody"]),
        "[bad-what-if] what-if \"without=nobody\": no workload nobody runs or waits"
    );
    assert_eq!(
        refused(&["quota:default/a4/nvidia.com/gpu=+1"]),
        "[bad-what-if] what-if \"quota:default/a4/nvidia.com/gpu=+1\": \
         queue default has no quota for nvidia.com/gpu of a4"
    );
    let running = explain(&bench, "first", &["priority=7"]).map_err(|reason| reason.code());
    assert_eq!(running, Err("nothing-to-decide"));
    assert_eq!(explain(&bench, "first", &[]), Ok(None));
    assert_eq!(explain(&bench, "nobody", &[]), Ok(None));
}

#[test]
fn a_victim_and_its_preemptor_are_told_of_each_other() {
    let mut bench = Bench::new(&["n1", "n2"], 2);
    bench.submit(&Bench::spec("train", 0, 1, 2), &["n1", "n2"]);
    bench.start("train");
    bench.submit(&Bench::spec("serve", 5, 1, 2), &["n1", "n2"]);
    // The preemptor holds: what it waits for is known, and why its victim was chosen.
    let explanation = explain(&bench, "serve", &[]).unwrap().unwrap();
    assert_eq!(explanation.outcome.code(), "waiting-for-drain");
    assert_eq!(explanation.decider.kueue.as_str(), "within-cluster-queue");
    assert_eq!(explanation.remedies, []);
    let candidates: Vec<_> = explanation.candidates.iter().collect();
    assert_eq!(candidates.len(), 1);
    assert!(candidates[0].chosen, "{candidates:?}");
    // With less priority nobody would have been taken.
    assert_eq!(outcome(&bench, "serve", &["priority=0"]), "waiting-for-quota");
    assert_eq!(bench.arbiter.makes_room_for(&name("train")), Some(&name("serve")));
    assert_eq!(bench.arbiter.makes_room_for(&name("serve")), None);
}

#[test]
fn of_very_many_who_could_make_room_the_cheapest_are_told() {
    let nodes: Vec<String> = (0..40).map(|index| format!("node-{index:02}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let mut bench = Bench::new(&nodes, 80);
    for index in 0..80 {
        let node = nodes[index / 2];
        let workload = format!("train-{index:02}");
        bench.submit(&Bench::spec(&workload, 10, 1, 1), &[node]);
        bench.start(&workload);
        bench.now += 1_000;
    }
    bench.submit(&Bench::spec("late", 10, 1, 1), &nodes);
    let told = bench.arbiter.explain(&name("late"), &[]).unwrap().unwrap().candidates;
    let told: Vec<&str> = told.iter().map(|candidate| candidate.workload.as_str()).collect();
    // Who started last loses least.
    let cheapest: Vec<String> = (16..80).rev().map(|index| format!("train-{index:02}")).collect();
    assert_eq!(told, cheapest);
}
