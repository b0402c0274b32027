use serde_json::json;

use super::*;

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn lines_are_appended_also_by_the_next_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    for sequence in [1, 2] {
        let audit = Audit::open(&path).unwrap();
        audit.write(json!({ "sequence": sequence }));
        audit.finish();
    }
    assert_eq!(lines(&path), [json!({ "sequence": 1 }), json!({ "sequence": 2 })]);
    assert_eq!(last_number(&path, "sequence").unwrap(), Some(2));
    assert_eq!(last_number(&dir.path().join("none"), "sequence").unwrap(), None);
}

#[test]
fn a_file_that_is_full_is_renamed_and_the_oldest_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    let mut files = Files::open(&path, 40).unwrap();
    for sequence in 0..30 {
        files.append(&json!({ "sequence": sequence })).unwrap();
    }
    let mut names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    let expected = (1..8).map(|n| format!("audit.jsonl.{n}"));
    let expected: Vec<OsString> =
        std::iter::once("audit.jsonl".to_owned()).chain(expected).map(Into::into).collect();
    assert_eq!(names, expected);
    // Two lines a file: the newest sixteen are there, in order from the oldest file to the newest.
    let files = (1..8).rev().map(|n| dir.path().join(format!("audit.jsonl.{n}"))).chain([path]);
    let kept: Vec<u64> =
        files.flat_map(|f| lines(&f)).map(|l| l["sequence"].as_u64().unwrap()).collect();
    assert_eq!(kept, (14..30).collect::<Vec<u64>>());
}

#[test]
fn a_line_cut_by_a_crash_spoils_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    std::fs::write(&path, "{\"sequence\":7}\n{\"sequ").unwrap();
    assert_eq!(last_number(&path, "sequence").unwrap(), Some(7));
    let audit = Audit::open(&path).unwrap();
    audit.write(json!({ "sequence": 8 }));
    audit.finish();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, "{\"sequence\":7}\n{\"sequ\n{\"sequence\":8}\n");
}

#[test]
fn lines_that_could_not_be_written_are_told_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    let audit = Audit::open(&path).unwrap();
    audit.lost.fetch_add(3, Ordering::Relaxed);
    audit.offer(json!({ "sequence": 1 }));
    audit.finish();
    assert_eq!(lines(&path), [json!({ "lost_lines": 3 }), json!({ "sequence": 1 })]);
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    for path in ["/dev/full", "/dev/zero", "/tmp"] {
        let path = Path::new(path);
        assert_eq!(Audit::open(path).unwrap_err().to_string(), "it is no regular file");
        assert_eq!(last_number(path, "sequence").unwrap_err().to_string(), "it is no regular file");
    }
}
