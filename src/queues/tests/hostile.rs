//! Files that nobody writes in good faith: an answer within bounds, never a hang or a panic.

use std::fmt::Write as _;
use std::io::Write as _;

use super::{SAMPLE, changed, notes, told};
use crate::queues::{
    FILE_BYTES_MAX, NOTES_MAX, PROBLEMS_MAX, ProblemKind, QUEUES_MAX, load, parse,
};

/// `count` queues that all borrow from one cohort.
fn many_queues(count: usize) -> String {
    let mut text =
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: l4}\n"
            .to_owned();
    for i in 0..count {
        let groups = "[{coveredResources: [gpu], flavors: [{name: l4, resources: [{name: gpu, nominalQuota: 8}]}]}]";
        write!(text, "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {{name: q{i}}}\nspec: {{cohortName: all, namespaceSelector: {{}}, resourceGroups: {groups}}}\n").unwrap();
    }
    text
}

/// `count` queues that have nothing.
fn many_poor_queues(count: usize) -> String {
    (0..count)
        .map(|i| format!("---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {{name: q{i}}}\n"))
        .collect()
}

fn kind_of(text: &str) -> ProblemKind {
    parse(text).unwrap_err().problems[0].kind
}

#[test]
fn ten_thousand_queues_are_read_and_no_more() {
    let queues = parse(&many_poor_queues(QUEUES_MAX)).unwrap();
    assert_eq!(queues.setup.queues.len(), QUEUES_MAX);
    assert_eq!(
        told(&many_poor_queues(QUEUES_MAX + 1)),
        "[too-many] there are 10001 ClusterQueues; at most 10000 are possible"
    );
}

#[test]
fn thousands_of_mistakes_are_counted() {
    let text = many_queues(2_000).replace("metadata: {name: l4}", "metadata: {name: l40}");
    let problems = parse(&text).unwrap_err();
    assert_eq!((problems.problems.len(), problems.count()), (PROBLEMS_MAX, 2_000));
}

#[test]
fn notes_are_bounded_too() {
    let skipped = "---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\n".repeat(NOTES_MAX + 9);
    let queues = parse(&format!("{SAMPLE}{skipped}")).unwrap();
    assert_eq!(notes(&queues).len(), NOTES_MAX);
    // One is the sample's own.
    assert_eq!(queues.notes_left_out, 10);
}

#[test]
fn files_beyond_the_limit_are_refused_unread() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let limit = usize::try_from(FILE_BYTES_MAX).unwrap();
    file.write_all(&vec![b'#'; limit + 1]).unwrap();
    let problems = load(&[file.path()]).unwrap_err();
    assert_eq!(problems.problems[0].message, "is larger than 8388608 bytes; split it");
    let endless = load(&["/dev/zero"]).unwrap_err();
    assert_eq!(endless.to_string(), "/dev/zero: is larger than 8388608 bytes; split it");
    let directory = tempfile::tempdir().unwrap();
    let problems = load(&[directory.path()]).unwrap_err();
    assert_eq!(problems.problems[0].kind, ProblemKind::UnreadableFile);
    assert_eq!(
        load(&["/no/such/file"]).unwrap_err().to_string(),
        "/no/such/file: cannot be read: No such file or directory (os error 2)"
    );
}

#[test]
fn long_names_are_not_repeated_whole() {
    let long = "x".repeat(1_000_000);
    for text in [
        format!("apiVersion: kueue.x-k8s.io/v1beta1\nkind: {long}\nmetadata: {{name: {long}}}\n"),
        format!("apiVersion: {long}.kueue.x-k8s.io/v1\nkind: A\n"),
        changed("clusterQueue: research", &format!("clusterQueue: {long}")),
        changed("labels: {team: a}", &format!("name{long}: 7")),
        changed("{accelerator: l4}", &format!("{{? {long} : l4}}")),
        changed("{controllerName: example.com/quota}", &format!("{{? {long} : l4}}")),
    ] {
        let told = told(&text);
        let beginning: String = told.chars().take(300).collect();
        assert!(told.len() < 1_000, "{} bytes: {beginning}", told.len());
    }
}

#[test]
fn bytes_that_are_no_text_are_told() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"kind: \xff").unwrap();
    let problems = load(&[file.path()]).unwrap_err();
    assert_eq!(problems.problems[0].message, "is not UTF-8 text: the byte at 6 is wrong");
}

#[test]
fn deep_nesting_is_refused() {
    for text in
        ["[".repeat(100_000), "a: ".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(100_000)]
    {
        assert_eq!(kind_of(&text), ProblemKind::BadYaml);
    }
}

#[test]
fn aliases_that_multiply_are_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..20 {
        let inside = vec![format!("*a{}", i - 1); 10].join(", ");
        writeln!(text, "a{i}: &a{i} [{inside}]").unwrap();
    }
    assert_eq!(kind_of(&text), ProblemKind::BadYaml);
}

#[test]
fn aliases_in_good_faith_are_read() {
    let text = SAMPLE
        .replace("namespaceSelector: {}", "namespaceSelector: &all {}")
        .replace("spec: {clusterQueue: research}", "spec: &spec {clusterQueue: research}\n---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: b}\nspec: {<<: &more {clusterQueue: serving}}");
    assert_eq!(told(&text), "nothing is wrong");
}

#[test]
fn the_largest_file_of_small_values_is_answered() {
    let limit = usize::try_from(FILE_BYTES_MAX).unwrap();
    assert_eq!(kind_of(&"[],".repeat(limit / 3)), ProblemKind::BadYaml);
}

#[test]
fn names_cannot_disturb_a_terminal() {
    let text = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: \"Cluster\\e[31mQueue\"\nmetadata: {name: \"a\\nb\\e[0m\"}\n\"\\e[2J\": 1\n";
    let told = told(text);
    assert!(!told.contains('\u{1b}'), "{told:?}");
    assert_eq!(told.lines().count(), 1, "{told}");
    let told = super::told(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: a}\nspec: {\"\\e[2J\\n\": 1}\n",
    );
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(!told.contains('\u{1b}'), "{told:?}");
}

#[test]
fn a_file_with_a_byte_missing_is_read_or_told() {
    let mut read = 0;
    for end in (0..SAMPLE.len()).step_by(11).filter(|end| SAMPLE.is_char_boundary(*end)) {
        let mut text = SAMPLE.to_owned();
        text.remove(end);
        match parse(&text) {
            Ok(_) => read += 1,
            Err(problems) => assert_ne!(problems.problems, []),
        }
    }
    assert_ne!(read, 0);
}
