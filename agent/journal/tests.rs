use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use super::*;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    drain: String,
    epoch: u64,
    #[serde(default)]
    pids: Vec<u32>,
}

fn record(epoch: u64) -> Record {
    Record { drain: "dr-1 \"ü\"\n".to_owned(), epoch, pids: vec![1, u32::MAX] }
}

fn directory() -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("state/drains");
    (parent, path)
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_was_put_is_loaded_by_the_next_agent() {
    let (_parent, path) = directory();
    let journal = Journal::open(&path).unwrap();
    journal.put("b", &record(1)).unwrap();
    journal.put("b", &record(u64::MAX)).unwrap();
    journal.put("a", &record(2)).unwrap();
    journal.put("c", &record(3)).unwrap();
    journal.remove("c").unwrap();
    journal.remove("never there").unwrap();
    drop(journal);
    let journal = Journal::open(&path).unwrap();
    let expected = vec![("a".to_owned(), record(2)), ("b".to_owned(), record(u64::MAX))];
    assert_eq!(journal.load::<Record>().unwrap(), (expected, vec![]));
    assert_eq!(names(&path), ["a.json", "b.json", "lock"]);
}

#[test]
fn a_directory_is_used_by_one_agent_at_a_time() {
    let (_parent, path) = directory();
    let first = Journal::open(&path).unwrap();
    let error = Journal::open(&path).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "state directory {path:?} is in use by another agent (process {}); stop that one or \
             give this one another --state-dir",
            std::process::id()
        )
    );
    drop(first);
    Journal::open(&path).unwrap();
}

#[test]
fn the_directory_is_closed_to_other_users() {
    let (_parent, path) = directory();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    Journal::open(&path).unwrap().put("k", &record(1)).unwrap();
    assert_eq!((mode(&path), mode(&path.join("k.json"))), (0o700, 0o600));
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    Journal::open(&path).unwrap();
    assert_eq!(mode(&path), 0o700);
}

#[test]
fn any_text_is_a_key_and_no_key_leaves_the_directory() {
    let (parent, path) = directory();
    let keys =
        ["../../up", "/etc/passwd", "..", ".", "a.json", "lock", "a.json.tmp", "ü%2F", "\0\n"];
    let journal = Journal::open(&path).unwrap();
    for (number, key) in keys.into_iter().enumerate() {
        journal.put(key, &number).unwrap();
    }
    let expected: BTreeMap<String, usize> =
        keys.into_iter().enumerate().map(|(number, key)| (key.to_owned(), number)).collect();
    let (loaded, corrupt) = journal.load::<usize>().unwrap();
    assert_eq!((loaded.into_iter().collect(), corrupt), (expected, vec![]));
    assert_eq!(names(parent.path()), ["state"]);
    assert_eq!(names(&path).len(), keys.len() + 1);
    drop(journal);
    // A key that looks like a temporary file is not removed as one.
    let journal = Journal::open(&path).unwrap();
    assert_eq!(journal.load::<usize>().unwrap().0.len(), keys.len());
    for key in ["", &"x".repeat(231), &"/".repeat(77)] {
        let error = journal.put(key, &0).unwrap_err();
        assert!(matches!(error, JournalError::BadKey { .. }), "{error}");
    }
    journal.put(&"/".repeat(76), &0).unwrap();
}

#[test]
fn random_keys_come_back_as_they_were() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..5_000 {
        let key: String = (0..random.usize(1..20)).map(|_| random.char(..)).collect();
        let name = name::file_name(&key).unwrap();
        assert!(name.is_ascii() && !name.starts_with('.') && !name.contains('/'), "{name}");
        assert_eq!(key_of(&name), Some(key));
    }
    for name in
        ["%61.json", "%4.json", "%zz.json", "%FF.json", "%2f.json", ".json", "a b.json", "a"]
    {
        assert_eq!(key_of(name), None, "{name}");
    }
}

#[test]
fn a_record_cut_at_any_byte_is_moved_aside_and_kept() {
    let (_parent, path) = directory();
    let journal = Journal::open(&path).unwrap();
    journal.put("other", &record(9)).unwrap();
    journal.put("k", &record(1)).unwrap();
    let whole = fs::read(path.join("k.json")).unwrap();
    let unaffected = vec![("other".to_owned(), record(9))];
    for (number, length) in (1..).zip(0..whole.len() - 1) {
        fs::write(path.join("k.json"), &whole[..length]).unwrap();
        let (loaded, corrupt) = journal.load::<Record>().unwrap();
        assert_eq!(loaded, unaffected, "{length}");
        let aside = path.join(format!("k.json.corrupt-{number}"));
        let [corrupt] = corrupt.as_slice() else { panic!("{corrupt:?}") };
        assert_eq!((corrupt.key.as_deref(), &corrupt.path), (Some("k"), &aside));
        assert_eq!(fs::read(&aside).unwrap(), whole[..length]);
        assert!(!path.join("k.json").exists());
    }
    // The line end alone is not needed.
    fs::write(path.join("k.json"), &whole[..whole.len() - 1]).unwrap();
    assert_eq!(journal.load::<Record>().unwrap().0.len(), 2);
}

#[test]
fn a_crash_while_writing_leaves_the_value_before() {
    let (_parent, path) = directory();
    let journal = Journal::open(&path).unwrap();
    journal.put("k", &record(1)).unwrap();
    let whole = fs::read(path.join("k.json")).unwrap();
    for length in 0..=whole.len() {
        fs::write(path.join("k.json.tmp"), &whole[..length]).unwrap();
        let before = (vec![("k".to_owned(), record(1))], vec![]);
        assert_eq!(journal.load::<Record>().unwrap(), before);
    }
    journal.put("k", &record(2)).unwrap();
    fs::write(path.join("k.json.tmp"), "{").unwrap();
    fs::write(path.join("mine.tmp"), "not the journal's").unwrap();
    fs::create_dir(path.join("d.json.tmp")).unwrap();
    drop(journal);
    let journal = Journal::open(&path).unwrap();
    assert_eq!(names(&path), ["d.json.tmp", "k.json", "lock", "mine.tmp"]);
    assert_eq!(journal.load().unwrap(), (vec![("k".to_owned(), record(2))], vec![]));
}

#[test]
fn what_is_not_a_record_of_this_release_is_moved_aside_with_the_cause() {
    let (_parent, path) = directory();
    let journal = Journal::open(&path).unwrap();
    let good = r#"{"version":1,"key":"a","value":{"drain":"d","epoch":1}}"#;
    let cases = [
        ("a", good.replace("\"version\":1", "\"version\":2"), "it has version 2, not 1"),
        ("b", good.to_owned(), "it holds the key \"a\""),
        ("c", good.replace("\"a\"", "\"c\"").replace('d', "e"), "missing field `key`"),
        ("%61", good.to_owned(), "its name is not one of the journal's"),
        (
            "d",
            good.replace("\"a\"", "\"d\"").replace("\"epoch\":1", "\"epoch\":-1"),
            "invalid value",
        ),
    ];
    for (name, text, detail) in cases {
        fs::write(path.join(format!("{name}.json")), text).unwrap();
        let (loaded, corrupt) = journal.load::<Record>().unwrap();
        assert_eq!(loaded, []);
        let [corrupt] = corrupt.as_slice() else { panic!("{name}: {corrupt:?}") };
        assert!(corrupt.detail.starts_with(detail) || name == "c", "{corrupt:?}");
        assert_eq!(corrupt.path, path.join(format!("{name}.json.corrupt-1")));
    }
    fs::write(path.join("a.json"), good).unwrap();
    fs::write(path.join("README"), "mine").unwrap();
    let expected = Record { drain: "d".to_owned(), epoch: 1, pids: vec![] };
    assert_eq!(journal.load().unwrap(), (vec![("a".to_owned(), expected)], vec![]));
    assert!(path.join("README").exists());
}

#[test]
fn links_pipes_and_giants_are_not_read() {
    let (parent, path) = directory();
    let journal = Journal::open(&path).unwrap();
    let secret = parent.path().join("secret");
    fs::write(&secret, r#"{"version":1,"key":"link","value":1}"#).unwrap();
    symlink(&secret, path.join("link.json")).unwrap();
    nix::unistd::mkfifo(&path.join("pipe.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir(path.join("directory.json")).unwrap();
    File::create(path.join("giant.json")).unwrap().set_len(VALUE_BYTES_MAX + 1).unwrap();
    let (loaded, mut corrupt) = journal.load::<u32>().unwrap();
    corrupt.sort_by(|left, right| left.key.cmp(&right.key));
    let keys: Vec<_> = corrupt.iter().filter_map(|corrupt| corrupt.key.as_deref()).collect();
    assert_eq!((loaded, keys), (vec![], vec!["directory", "giant", "link", "pipe"]));
    assert_eq!(corrupt[1].detail, "it is larger than any record");
    assert_eq!(journal.load::<u32>().unwrap(), (vec![], vec![]));
}

#[test]
fn values_too_large_are_refused_and_change_nothing() {
    let (_parent, path) = directory();
    let journal = Journal::open(&path).unwrap();
    journal.put("k", &"small").unwrap();
    let error = journal.put("k", &"x".repeat(1 << 20)).unwrap_err();
    assert!(matches!(error, JournalError::BadValue { .. }), "{error}");
    assert_eq!(journal.load().unwrap(), (vec![("k".to_owned(), "small".to_owned())], vec![]));
    assert_eq!(names(&path), ["k.json", "lock"]);
}

#[test]
fn a_path_that_cannot_hold_a_journal_is_said() {
    let (parent, _) = directory();
    let file = parent.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Journal::open(file.join("state")).unwrap_err();
    assert!(error.to_string().starts_with("could not create "), "{error}");
}
