//! Directories that should hold what a framework writes and hold something else.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use nix::sys::stat::Mode;

use super::*;

/// A whole save of step 20, seen complete, and what showed it.
fn saved(framework: &Framework) -> (Scene, String) {
    let mut scene = framework.scene(framework.format);
    save(&scene, framework, 20);
    let scan = scene.scan_at_rest();
    assert_eq!(steps(&scan), [20], "{} {scan:?}", framework.name);
    let marker = scan.complete[0].marker.clone();
    (scene, marker)
}

/// The same files, looked at by one who has not seen them before.
fn anew(scene: &mut Scene, framework: &Framework) -> CheckpointScan {
    let mut fresh = framework.scene(framework.format);
    std::mem::swap(&mut fresh.directory, &mut scene.directory);
    fresh.watcher.directory = fresh.directory.path().to_owned();
    let scan = fresh.scan_at_rest();
    std::mem::swap(&mut fresh.directory, &mut scene.directory);
    scan
}

#[test]
fn a_checkpoint_that_is_a_link_to_one_never_counts() {
    for framework in table::all() {
        let (outside, _) = saved(&framework);
        let mut scene = framework.scene(framework.format);
        for entry in fs::read_dir(outside.directory.path()).unwrap() {
            let entry = entry.unwrap();
            symlink(entry.path(), scene.directory.path().join(entry.file_name())).unwrap();
        }
        let scan = scene.scan_at_rest();
        assert_eq!(steps(&scan), Vec::<u64>::new(), "{} {scan:?}", framework.name);
    }
}

/// A loop, and a pipe that would hang whoever opens it.
#[test]
fn what_stands_for_the_end_of_a_save_has_to_be_a_file() {
    for framework in table::all().into_iter().filter(|f| f.format != CheckpointFormat::Generic) {
        for kind in ["link", "loop", "pipe", "directory"] {
            let (mut scene, marker) = saved(&framework);
            let outside = scene.directory.path().with_extension("outside");
            let found: Vec<String> = tree(scene.directory.path()).into_keys().collect();
            let is_marker =
                |path: &&String| *path == &marker || path.ends_with(&format!("/{marker}"));
            for path in found.iter().filter(is_marker).map(|path| scene.path(path)) {
                fs::rename(&path, &outside).unwrap();
                match kind {
                    "link" => symlink(&outside, &path).unwrap(),
                    "loop" => symlink(&path, &path).unwrap(),
                    "pipe" => nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap(),
                    _ => fs::create_dir(&path).unwrap(),
                }
            }
            let is_marked = found.iter().any(|path| is_marker(&path));
            let scan = anew(&mut scene, &framework);
            let expected = if is_marked { vec![] } else { vec![20] };
            assert_eq!(steps(&scan), expected, "{} {kind} {scan:?}", framework.name);
            let _none = fs::remove_file(&outside);
        }
    }
}

#[test]
fn a_clock_that_is_ahead_and_names_that_are_not_text_change_nothing() {
    let ahead = std::time::SystemTime::now() + std::time::Duration::from_secs(80 * 365 * 86_400);
    for framework in table::all() {
        let (mut scene, _) = saved(&framework);
        for path in tree(scene.directory.path()).keys() {
            fs::File::open(scene.path(path)).unwrap().set_modified(ahead).unwrap();
        }
        for name in [&b"\xff\n-30"[..], b"a\nb", b"step-\xc3\x28", b"\x1b[31m_7"] {
            fs::create_dir(scene.directory.path().join(OsStr::from_bytes(name))).unwrap();
        }
        let scan = anew(&mut scene, &framework);
        assert_eq!(steps(&scan), [20], "{} {scan:?}", framework.name);
    }
}

#[test]
fn a_tracker_that_holds_rubbish_names_nothing_and_is_mended_when_nobody_lives() {
    let large = vec![b'7'; 300];
    let rubbish: [&[u8]; 11] = [
        b"",
        b"-20",
        b"+20",
        b"20.5",
        b"99999999999999999999",
        b"../../../etc",
        b"global_step20\n20",
        b"2",
        b"\xff\xfe",
        b"\0\0",
        &large,
    ];
    for framework in table::all() {
        let tracker = match framework.format {
            CheckpointFormat::Megatron => "latest_checkpointed_iteration.txt",
            CheckpointFormat::DeepSpeed => "latest",
            _ => continue,
        };
        for content in rubbish {
            let (mut scene, _) = saved(&framework);
            scene.write(tracker, content);
            let scan = anew(&mut scene, &framework);
            let told = format!("{} {:?}", framework.name, String::from_utf8_lossy(content));
            assert_eq!(codes(&scan), ["checkpoint_marker_invalid"], "{told} {scan:?}");
            // Who saw it complete keeps what it saw; at the end it is named again.
            assert_eq!(steps(&scene.scan_at_rest()), [20], "{told}");
            put_aside(&mut scene);
            assert_eq!(framework.resumed(&scene), Ok(Some(20)), "{told}");
            assert_eq!(steps(&anew(&mut scene, &framework)), [20], "{told}");
        }
        let (mut scene, _) = saved(&framework);
        fs::File::create(scene.path(tracker)).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(codes(&anew(&mut scene, &framework)), ["checkpoint_marker_invalid"]);
    }
}

#[test]
fn other_things_with_a_number_are_no_checkpoints_and_are_left_where_they_are() {
    for framework in table::all() {
        let (mut scene, _) = saved(&framework);
        if matches!(framework.format, CheckpointFormat::Rename) {
            continue;
        }
        scene.write("logs-2026/events.out", "log");
        scene.write("run_99/notes", "note");
        let scan = scene.scan();
        assert!(!scan.saving, "{} {scan:?}", framework.name);
        put_aside(&mut scene);
        let there = ["logs-2026/events.out", "run_99/notes"].map(|path| scene.path(path).exists());
        assert_eq!(there, [true, true], "{}", framework.name);
        assert_eq!(scene.scan_at_rest().newest().map(|c| c.step), Some(20), "{}", framework.name);
    }
}

#[test]
fn what_comes_and_goes_under_the_scanner_never_stops_it() {
    for framework in table::all() {
        let mut scene = framework.scene(framework.format);
        let other = framework.scene(framework.format);
        let place = scene.directory.path().to_owned();
        save(&other, &framework, 20);
        let files = tree(other.directory.path());
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    for (path, content) in files.iter().filter(|(path, _)| !path.ends_with('/')) {
                        let path = place.join(path);
                        fs::create_dir_all(path.parent().unwrap()).unwrap();
                        fs::write(path, content).unwrap();
                    }
                    for path in
                        files.keys().filter(|path| !path.trim_end_matches('/').contains('/'))
                    {
                        let path = place.join(path);
                        let _gone = fs::remove_dir_all(&path);
                        let _gone = fs::remove_file(&path);
                    }
                }
            });
            for _ in 0..40 {
                scene.scan();
                scene.watcher.mend_tracker().unwrap_or_default();
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
