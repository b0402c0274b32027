//! Putting torn checkpoints aside.

use super::super::QuarantineError;
use super::*;

/// A torn step 20 after a complete step 10, seen at rest.
fn torn() -> (Scene, CheckpointScan) {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
    scene.save(10, 1);
    scene.save(20, 1);
    fs::remove_file(scene.path("checkpoint-20/trainer_state.json")).unwrap();
    let scan = scene.scan_at_rest();
    assert_eq!((steps(&scan), codes(&scan)), (vec![10], vec!["checkpoint_marker_missing"]));
    (scene, scan)
}

fn code(result: Result<String, QuarantineError>) -> Result<String, &'static str> {
    result.map_err(|error| error.code())
}

#[test]
fn a_torn_checkpoint_is_renamed_and_nothing_of_it_is_lost() {
    let (mut scene, scan) = torn();
    let shown = |scene: &Scene, name: &str| scene.path(name).to_str().unwrap().to_owned();
    let moved = scene.watcher.quarantine(&scan.incomplete[0], &scene.written);
    assert_eq!(code(moved), Ok(shown(&scene, "checkpoint-20.sluice-incomplete")));
    assert!(scene.path("checkpoint-20.sluice-incomplete/optimizer.pt").exists());
    let after = scene.scan();
    assert_eq!((steps(&after), codes(&after), after.saving), (vec![10], vec![], false));

    // The same step is torn again.
    scene.write("checkpoint-20/config.json", "{}");
    let scan = scene.scan_at_rest();
    let moved = scene.watcher.quarantine(&scan.incomplete[0], &scene.written);
    assert_eq!(code(moved), Ok(shown(&scene, "checkpoint-20.sluice-incomplete-2")));
}

#[test]
fn complete_ones_are_never_touched_not_even_by_a_stale_finding() {
    let (mut scene, scan) = torn();
    scene.write("checkpoint-20/trainer_state.json", trainer_state(20));
    let moved = scene.watcher.quarantine(&scan.incomplete[0], &scene.written);
    assert_eq!(code(moved), Err("quarantine_being_written"));
    scene.scan_at_rest();
    let moved = scene.watcher.quarantine(&scan.incomplete[0], &scene.written);
    assert_eq!(code(moved), Err("quarantine_may_be_complete"));
    assert_eq!(steps(&scene.scan()), [20, 10]);
}

#[test]
fn one_that_is_not_at_rest_is_left_alone() {
    let (mut scene, _) = torn();
    scene.write("checkpoint-20/more.bin", "x");
    let scan = scene.scan();
    assert!(scan.incomplete[0].saving);
    let moved = scene.watcher.quarantine(&scan.incomplete[0], &scene.written);
    assert_eq!(code(moved), Err("quarantine_being_written"));
}

#[test]
fn only_entries_of_the_directory_can_be_put_aside() {
    let (mut scene, scan) = torn();
    for path in ["/etc/checkpoint-20", "checkpoint-20", "", "..", "/"] {
        let mut foreign = scan.incomplete[0].clone();
        foreign.path = path.to_owned();
        let moved = scene.watcher.quarantine(&foreign, &scene.written);
        assert_eq!(code(moved), Err("quarantine_not_a_checkpoint"), "{path:?}");
    }
    let mut other = scan.incomplete[0].clone();
    other.path = scene.path("checkpoint-20/config.json").to_str().unwrap().to_owned();
    let moved = scene.watcher.quarantine(&other, &scene.written);
    assert_eq!(code(moved), Err("quarantine_not_a_checkpoint"));
}
