//! The same directory seen a second time.

use sluice_core::checkpoint::Grade;

use super::*;

/// A directory and where it is seen a second time.
fn scenes() -> (Scene, Scene) {
    let there = Scene::new(CheckpointFormat::HuggingFace, 1);
    let mut here = Scene::new(CheckpointFormat::HuggingFace, 1);
    let remote_dir = there.directory.path().to_str().unwrap().to_owned();
    let rules = CheckpointRules { remote_dir, ..CheckpointRules::default() };
    here.watcher =
        CheckpointWatcher::open(here.directory.path(), CheckpointFormat::HuggingFace, &rules, 1);
    here.watcher.settle = std::time::Duration::ZERO;
    here.watcher.remote.as_mut().unwrap().settle(std::time::Duration::ZERO);
    (here, there)
}

/// Why the newest does not count.
fn pending(scan: &CheckpointScan) -> (bool, String) {
    match &scan.incomplete.first().unwrap().reason {
        IncompleteReason::RemotePending { detail, .. } => (scan.saving, detail.clone()),
        other => panic!("{other}"),
    }
}

#[test]
fn s16_a_checkpoint_counts_only_once_it_has_arrived() {
    let (mut here, there) = scenes();
    here.save(10, 1);
    assert_eq!(pending(&here.scan_at_rest()), (true, "it is not there".to_owned()));
    for (name, content) in files_of_save(10, 1) {
        let scan = here.scan_at_rest();
        assert_eq!((steps(&scan), scan.saving), (vec![], true), "before {name}");
        there.write(&format!("checkpoint-10/{name}"), content);
    }
    let scan = here.scan_at_rest();
    assert_eq!((steps(&scan), scan.saving, scan.incomplete.len()), (vec![10], false, 0));
    assert_eq!(scan.complete[0].grade, Grade::RemoteVerified);
    assert_eq!(scan.complete[0].path, here.path("checkpoint-10").to_str().unwrap());
}

#[test]
fn what_has_arrived_has_to_be_the_same() {
    let (mut here, there) = scenes();
    here.save(10, 1);
    there.save(10, 1);
    there.write("checkpoint-10/config.json", "{ }");
    let expected = "there it has 73280 bytes in 7 files, here 73279 in 7".to_owned();
    assert_eq!(pending(&here.scan_at_rest()), (true, expected));
    // Old ones that were removed there do not look like a save.
    here.save(20, 1);
    there.save(20, 1);
    let scan = here.scan_at_rest();
    assert_eq!((steps(&scan), codes(&scan)), (vec![20], vec!["checkpoint_remote_pending"]));
    assert!(!scan.saving);
}

#[test]
fn a_second_look_that_is_not_there_is_said() {
    let (mut here, there) = scenes();
    here.save(10, 1);
    fs::remove_dir_all(there.directory.path()).unwrap();
    assert_eq!(pending(&here.scan_at_rest()), (true, "checkpoint_dir_missing".to_owned()));
}
