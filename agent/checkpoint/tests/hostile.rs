//! Directories made to hang, crash or mislead the one who looks.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use nix::sys::stat::Mode;
use sluice_core::checkpoint::ScanProblem;

use super::*;

fn problem(scan: CheckpointScan) -> &'static str {
    scan.problem.expect("there is a problem").code()
}

#[test]
fn what_cannot_be_a_checkpoint_directory_is_said() {
    let mut scene = Scene::new(CheckpointFormat::Auto, 1);
    let missing = scene.path("missing");
    let mut watcher =
        CheckpointWatcher::open(&missing, CheckpointFormat::Auto, &Default::default(), 1);
    let path = missing.to_str().unwrap().to_owned();
    let expected = CheckpointScan {
        problem: Some(ScanProblem::Missing { path }),
        ..CheckpointScan::default()
    };
    assert_eq!(watcher.scan(&scene.written), expected);

    scene.write("file", "");
    let mut watcher =
        CheckpointWatcher::open(scene.path("file"), CheckpointFormat::Auto, &Default::default(), 1);
    assert_eq!(problem(watcher.scan(&scene.written)), "checkpoint_dir_not_a_directory");

    symlink(scene.path("loop"), scene.path("loop")).unwrap();
    let mut watcher =
        CheckpointWatcher::open(scene.path("loop"), CheckpointFormat::Auto, &Default::default(), 1);
    assert_eq!(problem(watcher.scan(&scene.written)), "checkpoint_dir_unreadable");
    assert_eq!(scene.scan().problem, None);
}

#[test]
fn links_are_never_followed() {
    let outside = Scene::new(CheckpointFormat::HuggingFace, 1);
    outside.save(10, 1);
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
    symlink(outside.path("checkpoint-10"), scene.path("checkpoint-10")).unwrap();
    scene.save(20, 1);
    let marker = "trainer_state.json";
    let real = scene.path("checkpoint-20").join(marker);
    fs::rename(&real, outside.path("state")).unwrap();
    symlink(outside.path("state"), &real).unwrap();
    scene.save(30, 1);
    symlink(scene.path("checkpoint-30"), scene.path("checkpoint-30/loop")).unwrap();
    symlink("..", scene.path("checkpoint-30/up")).unwrap();
    let scan = scene.scan_at_rest();
    let link = |file: &str| IncompleteReason::SymbolicLink { file: file.to_owned() };
    let expected = vec![(Some(20), link(marker)), (Some(10), link("checkpoint-10"))];
    assert_eq!((steps(&scan), reasons(&scan)), (vec![30], expected));
}

#[test]
fn pipes_are_never_opened() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
    scene.save(20, 1);
    let marker = scene.path("checkpoint-20/trainer_state.json");
    fs::remove_file(&marker).unwrap();
    nix::unistd::mkfifo(&marker, Mode::S_IRWXU).unwrap();
    nix::unistd::mkfifo(&scene.path("checkpoint-30"), Mode::S_IRWXU).unwrap();
    let special = |file: &str| IncompleteReason::SpecialFile { file: file.to_owned() };
    let expected =
        vec![(Some(30), special("checkpoint-30")), (Some(20), special("trainer_state.json"))];
    assert_eq!(reasons(&scene.scan_at_rest()), expected);
}

#[test]
fn names_that_are_not_text_are_shown_and_harm_nothing() {
    let mut scene = Scene::new(CheckpointFormat::Rename, 1);
    let strange = OsStr::from_bytes(b"a\n\xff-10.pt");
    fs::write(scene.directory.path().join(strange), "x").unwrap();
    let scan = scene.scan_at_rest();
    let path = scene.path("a\n\u{fffd}-10.pt").to_str().unwrap().to_owned();
    assert_eq!(scan.newest().map(|c| (c.step, c.path.clone())), Some((10, path)));
}

#[test]
fn numbers_too_large_or_signed_are_no_steps() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
    let names =
        ["checkpoint-99999999999999999999", "checkpoint-+5", "checkpoint--5", "checkpoint-"];
    for name in names {
        fs::create_dir(scene.path(name)).unwrap();
    }
    assert_eq!(scene.scan(), CheckpointScan::default());
}

#[test]
fn work_is_bounded_and_what_was_left_out_is_said() {
    let mut scene = Scene::new(CheckpointFormat::Rename, 1);
    scene.watcher.limits.entries = 100;
    for number in 0..100 {
        scene.write(&number.to_string(), "");
    }
    let scan = scene.scan_at_rest();
    assert_eq!((scan.complete.len(), scan.incomplete.len(), scan.problem), (0, 32, None));
    scene.write("100", "");
    assert_eq!(problem(scene.scan()), "checkpoint_dir_too_many_entries");
}

#[test]
fn when_the_work_of_a_scan_is_used_up_the_newest_were_looked_at() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
    scene.watcher.limits.files_per_scan = 14;
    for step in 1..=4 {
        scene.save(step, 1);
    }
    let scan = scene.scan_at_rest();
    assert_eq!(steps(&scan), [4, 3]);
    assert_eq!(problem(scan), "checkpoint_dir_too_many_entries");
}

#[test]
fn checkpoints_too_large_or_too_deep_are_refused() {
    let mut scene = Scene::new(CheckpointFormat::Rename, 1);
    scene.watcher.limits.files_per_checkpoint = 100;
    fs::create_dir_all(scene.path("step-1/a/b/c/d/e/f/g")).unwrap();
    for number in 0..99 {
        scene.write(&format!("step-2/a/{number}"), "x");
        scene.write(&format!("step-3/a/{number}"), "x");
    }
    scene.write("step-3/b", "x");
    let scan = scene.scan_at_rest();
    let expected = vec![
        (Some(3), IncompleteReason::TooManyFiles { limit: 100 }),
        (Some(1), IncompleteReason::TooDeep { limit: 6 }),
    ];
    assert_eq!((steps(&scan), reasons(&scan)), (vec![2], expected));
}

#[test]
fn an_absurd_world_size_costs_nothing() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, u32::MAX);
    scene.save(20, 2);
    let file = "rng_state_2.pth".to_owned();
    let missing_ranks = u32::MAX - 2;
    let missing = IncompleteReason::RankMissing { file, missing_ranks, world_size: u32::MAX };
    assert_eq!(reasons(&scene.scan()), [(Some(20), missing)]);
}

#[test]
fn a_checkpoint_that_may_not_be_read_is_said() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
    scene.save(20, 1);
    let closed = scene.path("checkpoint-20");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let scan = scene.scan_at_rest();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    if nix::unistd::geteuid().is_root() {
        println!("skipped: root may read everything");
        return;
    }
    assert_eq!(codes(&scan), ["checkpoint_unreadable"]);
}

#[test]
fn a_directory_that_comes_and_goes_under_the_scanner_never_stops_it() {
    let mut scene = Scene::new(CheckpointFormat::Auto, 1);
    let directory = scene.directory.path().to_owned();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = stop.clone();
    let writer = std::thread::spawn(move || {
        let path = directory.join("checkpoint-10");
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            fs::create_dir_all(path.join("sub")).unwrap();
            fs::write(path.join("model.safetensors"), safetensors(10)).unwrap();
            fs::write(path.join("sub/x"), "x").unwrap();
            fs::remove_dir_all(&path).unwrap();
            symlink("/", &path).unwrap();
            fs::remove_file(&path).unwrap();
        }
    });
    for _ in 0..300 {
        assert!(steps(&scene.scan()).is_empty());
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().unwrap();
}
