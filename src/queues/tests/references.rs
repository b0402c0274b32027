//! Objects that do not fit together.

use expect_test::expect;

use super::{check, files, told, with_codes};
use crate::queues::{PROBLEMS_MAX, parse_all};

#[test]
fn a_missing_object_is_told_with_what_was_meant() {
    check(
        "clusterQueue: research",
        "clusterQueue: reserch",
        &expect![[
            r#"[no-such-object] -: document 7, line 73 (LocalQueue "team-a"): spec.clusterQueue is "reserch", but there is no ClusterQueue of that name; did you mean "research"?"#
        ]],
    );
    check(
        "topologyName: racks",
        "topologyName: blocks",
        &expect![[
            r#"[no-such-object] -: document 1, line 2 (ResourceFlavor "l4"): spec.topologyName is "blocks", but there is no Topology of that name; add a Topology "blocks" or take this out"#
        ]],
    );
    check(
        "    - name: quota\n",
        "    - name: qouta\n",
        &expect![[
            r#"[no-such-object] -: document 3, line 17 (ClusterQueue "research"): spec.admissionChecksStrategy.admissionChecks[0].name is "qouta", but there is no AdmissionCheck of that name; did you mean "quota"?"#
        ]],
    );
    check(
        "      onFlavors: [l4]",
        "      onFlavors: [h100]",
        &expect![[
            r#"[no-such-object] -: document 3, line 17 (ClusterQueue "research"): spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0] is "h100", but there is no ResourceFlavor of that name; add a ResourceFlavor "h100" or take this out"#
        ]],
    );
}

#[test]
fn a_name_twice_is_told_with_both_places() {
    check(
        "kind: WorkloadPriorityClass\nmetadata: {name: high}\nvalue: 1000",
        "kind: WorkloadPriorityClass\nmetadata: {name: high}\nvalue: 1000\n---\napiVersion: kueue.x-k8s.io/v1beta1\nkind: WorkloadPriorityClass\nmetadata: {name: high}\nvalue: 2000",
        &expect![[
            r#"[duplicate-name] -: document 9, line 83 (WorkloadPriorityClass "high"): metadata.name is the name of another WorkloadPriorityClass: -, document 8, line 78; rename one or take it out"#
        ]],
    );
}

#[test]
fn a_misspelt_flavor_is_told_wherever_it_is_offered() {
    let renamed = super::changed(
        "kind: ResourceFlavor\nmetadata: {name: l4}",
        "kind: ResourceFlavor\nmetadata: {name: l40}",
    );
    expect![[r#"
        [no-such-object] -: document 3, line 17 (ClusterQueue "research"): spec.resourceGroups[0].flavors[0].name is "l4", but there is no ResourceFlavor of that name; did you mean "l40"?
        [no-such-object] -: document 3, line 17 (ClusterQueue "research"): spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0] is "l4", but there is no ResourceFlavor of that name; did you mean "l40"?
        [no-such-object] -: document 4, line 44 (ClusterQueue "serving"): spec.resourceGroups[0].flavors[0].name is "l4", but there is no ResourceFlavor of that name; did you mean "l40"?"#]].assert_eq(&told(&renamed));
}

#[test]
fn the_same_local_queue_in_two_namespaces_is_two() {
    let text = format!(
        "{}---\napiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata: {{name: team-a}}\nspec: {{clusterQueue: serving}}\n",
        super::SAMPLE
    );
    let queues = super::parse(&text).unwrap();
    let targets: Vec<String> = queues
        .local_queues
        .iter()
        .map(|queue| format!("{}/{} -> {}", queue.namespace, queue.name, queue.queue))
        .collect();
    assert_eq!(targets, ["default/team-a -> serving", "ml/team-a -> research"]);
    assert_eq!(queues.local_queue("ml", "team-a"), queues.local_queues.get(1));
    assert_eq!(queues.local_queue("ml", "team-b"), None);
}

fn cohorts(pairs: &[(&str, &str)]) -> String {
    let document = |(name, parent): &(&str, &str)| {
        format!(
            "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {{name: {name}}}\nspec: {{parentName: {parent}}}\n"
        )
    };
    pairs.iter().map(document).collect()
}

#[test]
fn a_circle_of_cohorts_is_told_once_and_whole() {
    let circle = cohorts(&[("top", "b"), ("b", "c"), ("c", "top"), ("self", "self")]);
    expect![[r#"
        [cohort-cycle] -: document 12, line 105 (Cohort "b"): spec.parentName leads back to the cohort itself: "b" -> "c" -> "top" -> "b"; take one parentName of them out
        [cohort-cycle] -: document 14, line 115 (Cohort "self"): spec.parentName leads back to the cohort itself: "self" -> "self"; take one parentName of them out"#]].assert_eq(&told(&format!("{}{circle}", super::SAMPLE)));
}

#[test]
fn a_circle_too_large_to_be_read_is_shortened() {
    let names: Vec<String> = (0..100).map(|i| format!("c{i:02}")).collect();
    let mut pairs: Vec<(&str, &str)> =
        names.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    pairs.push(("c99", "c00"));
    let told = told(&format!("{}{}", super::SAMPLE, cohorts(&pairs)));
    assert!(told.contains("\"c19\" -> (61 more) -> \"c81\""), "{told}");
    assert!(told.ends_with("\"c99\" -> \"c00\"; take one parentName of them out"), "{told}");
}

#[test]
fn cohorts_nest_64_deep_and_no_deeper() {
    let names: Vec<String> = (0..66).map(|i| format!("c{i:02}")).collect();
    let pairs: Vec<(&str, &str)> =
        names.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    let text = |from: usize| format!("{}{}", super::SAMPLE, cohorts(&pairs[from..]));
    assert_eq!(told(&text(2)), "nothing is wrong");
    expect![[r#"[cohort-too-deep] -: document 12, line 105 (Cohort "c01"): spec.parentName makes it the 65th cohort of a chain; at most 64 are possible"#]].assert_eq(&told(&text(0)));
}

#[test]
fn problems_of_all_files_are_told_at_once() {
    let queue = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: a}\nspec:\n  queueingStrategy: LIFO\n  cohortName: x\n";
    let broken = "apiVersion: [";
    let again = "# A comment before the first document.\n---\napiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: a}\n";
    let problems =
        parse_all(&files(&[("one.yaml", queue), ("two.yaml", broken), ("three.yaml", again)]))
            .unwrap_err();
    expect![[r#"
        [bad-value] one.yaml: document 1, line 1 (ClusterQueue "a"): spec.queueingStrategy is "LIFO" but must be one of BestEffortFIFO, StrictFIFO
        [unknown-field] one.yaml: document 1, line 1 (ClusterQueue "a"): spec.cohortName is not a field known here; known are admissionChecks, admissionChecksStrategy, admissionScope, cohort, fairSharing, flavorFungibility, namespaceSelector, preemption, queueingStrategy, resourceGroups, stopPolicy
        [bad-yaml] two.yaml: is not YAML that can be read: unclosed bracket '[' at line 1, column 13
        [duplicate-name] three.yaml: document 1, line 3 (ClusterQueue "a"): metadata.name is the name of another ClusterQueue: one.yaml, document 1, line 1; rename one or take it out"#]].assert_eq(&with_codes(&problems));
}

#[test]
fn objects_of_a_list_are_told_apart() {
    let list = "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems:\n- apiVersion: kueue.x-k8s.io/v1beta2\n  kind: ClusterQueue\n  metadata: {name: a}\n  spec: {namespaceSelector: {}}\n- apiVersion: kueue.x-k8s.io/v1beta2\n  kind: LocalQueue\n  metadata: {name: b}\n  spec: {clusterQueue: c}\n- {apiVersion: v1, kind: List, items: []}\n- 7\n";
    expect![[r#"
        [unknown-kind] -: document 1, line 1 (List without a name): items[2] is a list within a list; write its objects as documents
        [wrong-type] -: document 1, line 1: items[3] is 7 but must be an object
        [no-such-object] -: document 1, line 1 (LocalQueue "b"): items[1].spec.clusterQueue is "c", but there is no ClusterQueue of that name; did you mean "a"?"#]].assert_eq(&told(list));
    let good = list
        .replace("clusterQueue: c", "clusterQueue: a")
        .replace("- {apiVersion: v1, kind: List, items: []}\n- 7\n", "");
    let queues = super::parse(&good).unwrap();
    assert_eq!(
        queues.local_queue("default", "b").map(|queue| queue.queue.to_string()),
        Some("a".to_owned())
    );
}

#[test]
fn a_file_without_queues_is_told() {
    for (text, expected) in [
        (
            "",
            expect![
                "[no-cluster-queue] there is no ClusterQueue, so nothing would ever be admitted; add one"
            ],
        ),
        (
            "- a\n- b\n",
            expect![[r#"[wrong-type] -: document 1, line 1: is ["a","b"] but must be an object"#]],
        ),
        (
            "a: [unclosed",
            expect![
                "[bad-yaml] -: is not YAML that can be read: unclosed bracket '[' at line 1, column 4"
            ],
        ),
        (
            "a: 1\na: 2\n",
            expect![
                "[bad-yaml] -: is not YAML that can be read: duplicate mapping key: a, set DuplicateKeyPolicy in Options if acceptable at line 2, column 1"
            ],
        ),
        (
            "{}",
            expect![[r#"
            [missing-field] -: document 1, line 1: apiVersion is absent but must be a text
            [missing-field] -: document 1, line 1: kind is absent but must be a text"#]],
        ),
    ] {
        expected.assert_eq(&told(text));
    }
}

#[test]
fn more_problems_than_anybody_mends_are_counted() {
    let queue = |i: usize| {
        format!(
            "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {{name: q{i}}}\nspec: {{clusterQueue: none}}\n"
        )
    };
    let text: String = (0..PROBLEMS_MAX + 7).map(queue).collect();
    let problems = super::parse(&text).unwrap_err();
    assert_eq!(
        (problems.problems.len(), problems.left_out, problems.count()),
        (PROBLEMS_MAX, 7, 57)
    );
    assert!(problems.to_string().ends_with("\nand 7 more"), "{problems}");
}
