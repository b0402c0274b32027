use expect_test::{Expect, expect};

use super::*;
use crate::paint::resolve;
use crate::view::fixtures;

fn check(answer: &pb::ExplainResponse, expected: &Expect) {
    let view = ExplainView::of(answer, &[fixtures::queue()], fixtures::now());
    expected.assert_eq(&resolve(&render(&view), false));
}

fn decision(sequence: u64, kind: &str, code: &str) -> pb::Decision {
    pb::Decision {
        sequence,
        at: fixtures::ago(600 - i64::try_from(sequence).expect("small")),
        kind: kind.to_owned(),
        reason: Some(fixtures::reason(code, "because", "")),
        ..pb::Decision::default()
    }
}

/// A queue without room, a cohort with some, and two ways out.
fn outlook() -> pb::ExplainResponse {
    let reason = |code: &str, message: &str| Some(fixtures::reason(code, message, ""));
    let level = |name: &str, cohort, borrowing_limit, available| pb::QuotaLevel {
        name: name.to_owned(),
        cohort,
        flavor: "a3".to_owned(),
        resource: "nvidia.com/gpu".to_owned(),
        nominal: 4,
        borrowing_limit,
        subtree: 4,
        used: 2,
        available,
        ..pb::QuotaLevel::default()
    };
    let remedy = |what_if: &str, message: &str| pb::Remedy {
        what_if: what_if.split_whitespace().map(str::to_owned).collect(),
        reason: reason("x", message),
        outcome: reason("would-be-admitted", "it would get devices now, on gpu-7"),
        at: None,
    };
    pb::ExplainResponse {
        what_if: vec!["priority=3".to_owned()],
        outcome: reason("waiting-for-quota", "queue default uses 2 of 4 nvidia.com/gpu"),
        decider: Some(pb::Decider {
            kueue: "preemption-policy".to_owned(),
            sluice: vec!["productive-floor".to_owned()],
        }),
        flavors: vec![pb::FlavorTried {
            ranks: 1,
            flavor: "a3".to_owned(),
            mode: "NoFit".to_owned(),
            chosen: false,
            reasons: reason("flavor-lacks-quota", "1 more needed").into_iter().collect(),
        }],
        quota: vec![level("default", false, Some(0), 0), level("all", true, None, 2)],
        remedies: vec![
            remedy("", "wait another 5.0 s"),
            remedy("without=train", "wait until train ends, or cancel it"),
        ],
        ..pb::ExplainResponse::default()
    }
}

#[test]
fn a_workload_that_waits() {
    let candidate = |name: &str, chosen, why: &str| pb::Candidate {
        workload: name.to_owned(),
        priority: 0,
        devices: 2,
        at_risk_device_ms: 10_300,
        cost_device_ms: 12_300,
        chosen,
        reason: Some(fixtures::reason("x", why, "")),
        assumed_restart_ms: chosen.then_some(60_000),
    };
    let answer = pb::ExplainResponse {
        workload: Some(fixtures::pending()),
        decisions: vec![decision(1, "submit", "submitted"), decision(2, "wait", "waiting-behind")],
        drains: Vec::new(),
        candidates: vec![
            candidate("train", true, "draining it loses least work"),
            candidate("other", false, "its priority 9 is not below -5"),
        ],
        ..outlook()
    };
    check(
        &answer,
        &expect![[r#"
            Workload eval\u{1b}[31m in queue default with priority -5: Pending for 42.0 s

            What if
              Changed:     priority=3
              Then:        queue default uses 2 of 4 nvidia.com/gpu [waiting-for-quota]
              Decided by:  Kueue's preemption-policy, and Sluice's productive-floor

            Why it waits
              Reason:    1 x 2 nvidia.com/gpu do not fit on the free devices (0 are free and usable) [waiting-for-devices]
              Hint:      sluice get devices shows who holds what
              Asks for:  2 nvidia.com/gpu
              Waited:    42.0 s

            What would have to change
              DO                                    THEN                                 --what-if
              wait another 5.0 s                    it would get devices now, on gpu-7   -
              wait until train ends, or cancel it   it would get devices now, on gpu-7   without=train

            Quota
              OF              FLAVOR   RESOURCE         NOMINAL   MAY BORROW   MAY LEND   WITH ALL BELOW   USED   AVAILABLE
              queue default   a3       nvidia.com/gpu   4         0            all        4                2      0
              cohort all      a3       nvidia.com/gpu   4         no limit     all        4                2      2

            Flavors
                  FLAVOR   RANKS   MODE    WHY
                  a3       1       NoFit   1 more needed

            Who could make room
                  WORKLOAD   PRIORITY   DEVICES   AT RISK      COST          WHY
              *   train      0          2         10.3 GPU-s   12.3 GPU-s~   draining it loses least work
                  other      0          2         10.3 GPU-s   12.3 GPU-s    its priority 9 is not below -5
              ~ a restart is in it, assumed to take 1 min 0 s: none was measured yet

            Ahead of it
              1: other

            Decisions
              AGO     KIND     IN   WHY
              9m59s   submit   -    because [submitted]
              9m58s   wait     -    because [waiting-behind]
        "#]],
    );
}

#[test]
fn a_workload_that_was_drained() {
    let answer = pb::ExplainResponse {
        workload: Some(fixtures::running()),
        decisions: (1..=23).map(|n| decision(n, "drain", "all-armed")).collect(),
        drains: vec![fixtures::drain()],
        candidates: Vec::new(),
        ..pb::ExplainResponse::default()
    };
    check(
        &answer,
        &expect![[r#"
            Workload train in queue default with priority 0: Running for 1 min 30 s on gpu-7

            Why
              Reason:        all ranks run (start number 2) [started]
              Asks for:      2 nvidia.com/gpu
              Flavor:        l4
              Quota:         2 of 4 nvidia.com/gpu are in use
              Waited:        30.0 s
              Resumes from:  step 40

            Drain drain-1: it made room for serve, 5 min 0 s ago
              State:  RESUMED by SIGNAL
              Cause:  serve (priority 100) needs the devices
              Cost:   24.0 GPU-s were at risk, 0.4 GPU-s lost, 23.6 GPU-s saved, 3.0 GPU-s idle; the restart took 2.1 s
              Saved:  step 40 in /data/ckpt/checkpoint-40

                  MODE     FREES IN   LOSES        WHY
              *   SIGNAL   1.5 s      0.4 GPU-s    loses least
                  KILL     200 ms     24.0 GPU-s   would lose more

              AFTER    STATE     WHY
              +0 ms    PLANNED   it was the cheapest choice
              +1.0 s   SAVING    every agent may act (SIGNAL)
              +3.0 s   DURABLE   checkpoint of step 40 was found complete

            Decisions
              (3 older ones: -o json shows all)
              AGO     KIND    IN   WHY
              9m56s   drain   -    because [all-armed]
              9m55s   drain   -    because [all-armed]
              9m54s   drain   -    because [all-armed]
              9m53s   drain   -    because [all-armed]
              9m52s   drain   -    because [all-armed]
              9m51s   drain   -    because [all-armed]
              9m50s   drain   -    because [all-armed]
              9m49s   drain   -    because [all-armed]
              9m48s   drain   -    because [all-armed]
              9m47s   drain   -    because [all-armed]
              9m46s   drain   -    because [all-armed]
              9m45s   drain   -    because [all-armed]
              9m44s   drain   -    because [all-armed]
              9m43s   drain   -    because [all-armed]
              9m42s   drain   -    because [all-armed]
              9m41s   drain   -    because [all-armed]
              9m40s   drain   -    because [all-armed]
              9m39s   drain   -    because [all-armed]
              9m38s   drain   -    because [all-armed]
              9m37s   drain   -    because [all-armed]
        "#]],
    );
}
