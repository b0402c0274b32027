use super::super::walk::walk;
use super::*;

/// A manifest of real files with these sizes.
fn manifest(files: &[(&str, u64)]) -> Manifest {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = directory.path().join("c").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::File::create(path).unwrap().set_len(*bytes).unwrap();
    }
    let root = std::fs::File::open(directory.path()).unwrap();
    walk(&root, OsStr::new("c"), 100).unwrap()
}

#[test]
fn differences_up_to_five_percent_are_accepted() {
    for (bytes, is_accepted) in [(95_000, true), (105_000, true), (94_999, false), (105_001, false)]
    {
        let mut learned = Learned::new(Compared::Files, 1);
        assert_eq!(learned.check(1, &manifest(&[("m.bin", 100_000)])), Ok(()));
        assert_eq!(
            learned.check(2, &manifest(&[("m.bin", bytes)])).is_ok(),
            is_accepted,
            "{bytes}"
        );
    }
}

#[test]
fn small_files_logs_and_random_states_may_vary() {
    let mut learned = Learned::new(Compared::Files, 10);
    let first = [("args.bin", 10), ("rng_state_9.pth", 100_000), ("log.txt", 100_000), ("m.pt", 1)];
    assert_eq!(learned.check(1, &manifest(&first)), Ok(()));
    assert_eq!(learned.check(2, &manifest(&[("args.bin", 4_106), ("m.pt", 1)])), Ok(()));
}

#[test]
fn ranks_beyond_the_declared_ones_are_expected_once_they_were_there() {
    let mut learned = Learned::new(Compared::Files, 1);
    let ranks = [("m.pt", 1), ("rng_state_0.pth", 1), ("rng_state_1.pth", 1)];
    assert_eq!(learned.check(1, &manifest(&ranks)), Ok(()));
    let file = "rng_state_1.pth".to_owned();
    let missing = Err(IncompleteReason::FileMissing { file });
    assert_eq!(learned.check(2, &manifest(&ranks[..2])), missing);
}

#[test]
fn of_items_only_presence_is_compared() {
    let mut learned = Learned::new(Compared::Items, 1);
    let first = [("default/d/a1", 100_000), ("commit_success.txt", 1)];
    assert_eq!(learned.check(1, &manifest(&first)), Ok(()));
    assert_eq!(
        learned.check(2, &manifest(&[("default/d/b2", 7), ("commit_success.txt", 1)])),
        Ok(())
    );
    let file = "commit_success.txt".to_owned();
    let missing = Err(IncompleteReason::FileMissing { file });
    assert_eq!(learned.check(3, &manifest(&[("default/d/b3", 7)])), missing);
}

#[test]
fn a_directory_that_carries_the_step_is_the_same_file() {
    let mut learned = Learned::new(Compared::Files, 1);
    assert_eq!(learned.check(10, &manifest(&[("global_step10/a.pt", 9)])), Ok(()));
    assert_eq!(learned.check(20, &manifest(&[("global_step20/a.pt", 9)])), Ok(()));
    let file = "global_step*/a.pt".to_owned();
    let missing = Err(IncompleteReason::FileMissing { file });
    assert_eq!(learned.check(30, &manifest(&[("global_step20/a.pt", 9)])), missing);
}

#[test]
fn two_that_agree_are_believed_but_not_the_same_one_twice() {
    let mut learned = Learned::new(Compared::Files, 1);
    let (old, new) = (manifest(&[("m.bin", 100_000)]), manifest(&[("m.bin", 200_000)]));
    let unexpected = Err(IncompleteReason::SizeUnexpected {
        file: "m.bin".to_owned(),
        bytes: 200_000,
        expected_bytes: 100_000,
    });
    assert_eq!(learned.check(10, &old), Ok(()));
    assert_eq!(learned.check(20, &new), unexpected);
    assert_eq!(learned.check(20, &new), unexpected);
    assert_eq!(learned.check(30, &new), Ok(()));
    assert_eq!(learned.check(20, &new), Ok(()));
    assert!(learned.check(40, &old).is_err());
}

#[test]
fn an_older_checkpoint_does_not_replace_what_a_newer_one_taught() {
    let mut learned = Learned::new(Compared::Files, 1);
    assert_eq!(learned.check(20, &manifest(&[("m.bin", 100_000)])), Ok(()));
    assert_eq!(learned.check(10, &manifest(&[("m.bin", 96_000)])), Ok(()));
    assert_eq!(learned.check(30, &manifest(&[("m.bin", 104_000)])), Ok(()));
}
