//! Why a workload waits, what would have to change, and what-if questions, asked of real programs.

use serde_json::{Value, json};
use sluice::wire::pb::Phase;

use crate::ask::code;
use crate::cluster::{Cluster, Setup};

/// Two queues of two devices each in one cohort; "research" may borrow one more.
const QUEUES: &str = "
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: research}
spec:
  cohort: team
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors:
        - name: any
          resources: [{name: nvidia.com/gpu, nominalQuota: 2, borrowingLimit: 1}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: serving}
spec:
  cohort: team
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors:
        - name: any
          resources: [{name: nvidia.com/gpu, nominalQuota: 2}]
";

/// "first" runs on both devices of its queue; "second" wants two more.
fn full_queue() -> Cluster {
    let setup = Setup { queues: Some(QUEUES.to_owned()), ..Setup::nodes(&[("n1", 4)]) };
    let mut cluster = setup.start();
    let flags = "--queue research --resource nvidia.com/gpu=2";
    cluster.run("first", &format!("{flags} --priority 5"), &["sleep", "600"]);
    cluster.wait("first to run", |cluster| {
        cluster.workload("first").filter(|w| w.phase() == Phase::Running)
    });
    cluster.run("second", flags, &["sleep", "600"]);
    cluster.wait("second to wait for quota", |cluster| {
        cluster.workload("second").filter(|w| code(w) == "waiting-for-quota")
    });
    cluster
}

fn json_of(cluster: &Cluster, arguments: &[&str]) -> Value {
    let mut process = cluster.sluice(&[arguments, &["-o", "json"]].concat());
    assert_eq!(process.exit_code(), Some(0), "{arguments:?}: {}", process.tail());
    serde_json::from_str(&process.stdout()).unwrap()
}

/// The same with every reason as its code and its values, and without what differs from run to run.
fn coded(value: &Value) -> Value {
    match value {
        Value::Object(fields) if fields.contains_key("code") && fields.contains_key("values") => {
            let values = fields["values"].as_object().unwrap();
            let stable = values.iter().filter(|(name, _)| !name.ends_with("_ms"));
            let stable = stable.map(|(name, value)| (name.clone(), value.clone())).collect();
            json!([fields["code"], Value::Object(stable)])
        }
        Value::Object(fields) => {
            let stable = fields.iter().filter(|(name, _)| !name.ends_with("_ms"));
            Value::Object(stable.map(|(name, value)| (name.clone(), coded(value))).collect())
        }
        Value::Array(items) => items.iter().map(coded).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// What is explained about the decision, in codes.
fn decision(cluster: &Cluster, what_if: &[&str]) -> Value {
    let flags = what_if.iter().flat_map(|change| ["--what-if", change]);
    let arguments: Vec<&str> = ["explain", "second"].into_iter().chain(flags).collect();
    let document = coded(&json_of(cluster, &arguments));
    let parts = [
        "what_if",
        "outcome",
        "decider",
        "remedies",
        "quota",
        "flavors",
        "preemptor",
        "candidates",
    ];
    parts.into_iter().map(|part| (part.to_owned(), document[part].clone())).collect()
}

#[test]
fn a_full_queue_is_explained_with_every_way_out() {
    let cluster = full_queue();
    let gpu = "nvidia.com/gpu";
    let admitted = json!(["would-be-admitted", {"nodes": "n1"}]);
    let level = |name: &str, cohort: bool, nominal: u64, subtree: u64, limit: Value, free: u64| {
        json!({
            "name": name, "cohort": cohort, "flavor": "any", "resource": gpu,
            "nominal": nominal, "borrowing_limit": limit, "lending_limit": null,
            "subtree": subtree, "used": 2, "available": free,
        })
    };
    let lacking = json!(["flavor-lacks-quota", {"flavor": "any", "resource": gpu, "missing": "1"}]);
    let expected = json!({
        "what_if": [],
        "outcome": ["waiting-for-quota", {
            "queue": "research", "resource": gpu, "requested": "2", "used": "2", "nominal": "2",
        }],
        "decider": {"kueue": "quota", "sluice": []},
        "remedies": [
            {
                "what_if": ["priority=6"],
                "reason": ["raise-priority", {"priority": "6", "current": "0"}],
                "outcome": ["would-preempt", {"victims": "first"}],
                "at": null,
            },
            {
                "what_if": ["without=first"],
                "reason": ["workload-ends", {"workload": "first"}],
                "outcome": admitted,
                "at": null,
            },
            {
                "what_if": ["quota:research/any/nvidia.com/gpu=+1"],
                "reason": ["raise-quota", {
                    "queue": "research", "amounts": "1 nvidia.com/gpu of flavor any",
                }],
                "outcome": admitted,
                "at": null,
            },
        ],
        "quota": [
            level("research", false, 2, 2, json!(1), 1),
            level("team", true, 0, 4, Value::Null, 2),
        ],
        "flavors": [{
            "ranks": 1, "flavor": "any", "mode": "Preempt", "chosen": true, "reasons": [lacking],
        }],
        "preemptor": null,
        "candidates": [{
            "workload": "first", "priority": 5, "devices": 2, "chosen": false,
            "reason": ["priority-not-lower", {"priority": "5", "preemptor": "0"}],
        }],
    });
    let actual = decision(&cluster, &[]);
    assert_eq!(actual, expected, "{actual:#}");
}

#[test]
fn a_what_if_question_is_answered_and_changes_nothing() {
    let cluster = full_queue();
    let before = json_of(&cluster, &["get", "workloads"]);
    let outcome = |what_if: &[&str]| decision(&cluster, what_if)["outcome"].clone();
    let admitted = json!(["would-be-admitted", {"nodes": "n1"}]);
    let waits = json!("waiting-for-quota");
    assert_eq!(outcome(&["priority=5"])[0], waits);
    assert_eq!(outcome(&["priority=6"]), json!(["would-preempt", {"victims": "first"}]));
    assert_eq!(outcome(&["resource:nvidia.com/gpu=1"]), admitted);
    assert_eq!(outcome(&["queue=serving"]), admitted);
    assert_eq!(outcome(&["without=first"]), admitted);
    assert_eq!(outcome(&["nnodes=2"])[0], "exceeds-quota");
    let quota = |more| format!("quota:research/any/nvidia.com/gpu={more}");
    assert_eq!(outcome(&[&quota("+1")]), admitted);
    assert_eq!(outcome(&[&quota("+1"), &quota("-1")])[0], waits);
    let asked = decision(&cluster, &["priority=6", "rule-off=lost-work"]);
    assert_eq!(asked["what_if"], json!(["priority=6", "rule-off=lost-work"]));
    assert_eq!(asked["decider"], json!({"kueue": "within-cluster-queue", "sluice": []}));
    assert_eq!(asked["remedies"], json!([]));
    assert_eq!(coded(&json_of(&cluster, &["get", "workloads"])), coded(&before));
    assert_eq!(cluster.drains(), Some(Vec::new()));

    let mut process = cluster.sluice(&["explain", "second", "--what-if", "queue=serving"]);
    assert_eq!(process.exit_code(), Some(0), "{}", process.tail());
    let text = process.stdout();
    for part in ["What if", "it would get devices now, on n1", "cohort team", "Kueue's quota"] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
}

#[test]
fn a_bad_what_if_is_refused_with_the_forms_that_there_are() {
    let cluster = full_queue();
    for (what_if, said) in [
        ("priority", "use one of priority=N, nnodes=N"),
        ("priority=high", "\"high\" is not a priority"),
        ("colour=red", "\"colour\" cannot be changed"),
        ("nnodes=0", "0 ranks; use 1 to"),
        ("topology=rack", "required=LEVEL, preferred=LEVEL, unconstrained, none"),
        ("quota:research=+1", "quota:QUEUE/FLAVOR/RESOURCE=+N"),
        ("rule-off=luck", "rules are lost-work, held-capacity"),
        // These only the arbiter can judge.
        ("queue=elsewhere", "there is no queue elsewhere; there are: research, serving"),
        ("without=nobody", "no workload nobody runs or waits"),
        ("quota:research/other/nvidia.com/gpu=+1", "has no quota for nvidia.com/gpu of other"),
    ] {
        let mut process = cluster.sluice(&["explain", "second", "--what-if", what_if]);
        assert_eq!(process.exit_code(), Some(64), "{what_if}: {}", process.tail());
        assert!(process.stderr().contains(said), "{what_if}: {}", process.tail());
        assert_eq!(process.stdout(), "");
    }
    let mut process = cluster.sluice(&["explain", "first", "--what-if", "priority=1"]);
    assert_eq!(process.exit_code(), Some(1), "{}", process.tail());
    assert!(process.stderr().contains("[nothing-to-decide]"), "{}", process.tail());
}
