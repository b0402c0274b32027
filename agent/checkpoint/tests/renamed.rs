//! Checkpoints that are written under a temporary name and renamed.

use super::*;

fn scene() -> Scene {
    Scene::new(CheckpointFormat::Rename, 1)
}

fn newest(scan: &CheckpointScan) -> Option<(u64, &str, u64, u32)> {
    scan.newest().map(|c| (c.step, c.marker.as_str(), c.bytes, c.files))
}

#[test]
fn a_file_seen_under_its_temporary_name_counts_as_soon_as_it_is_renamed() {
    let mut scene = scene();
    scene.write("step-10.pt.tmp", "half");
    let scan = scene.scan();
    let file = "step-10.pt.tmp".to_owned();
    assert_eq!(reasons(&scan), [(Some(10), IncompleteReason::TemporaryName { file })]);
    scene.write("step-10.pt.tmp", "whole file");
    assert_eq!((scene.scan().saving, scene.scan().saving), (true, false));
    fs::rename(scene.path("step-10.pt.tmp"), scene.path("step-10.pt")).unwrap();
    let scan = scene.scan();
    assert_eq!((newest(&scan), scan.saving), (Some((10, "renamed", 10, 1)), false));
    assert_eq!(newest(&scene.scan()), Some((10, "renamed", 10, 1)));
}

#[test]
fn a_directory_seen_under_its_temporary_name_counts_as_soon_as_it_is_renamed() {
    let mut scene = scene();
    scene.write("7.orbax-checkpoint-tmp-99/array/data", "abc");
    scene.write("7.orbax-checkpoint-tmp-99/commit_success.txt", "ok");
    assert_eq!(reasons(&scene.scan()).first().unwrap().0, Some(7));
    fs::rename(scene.path("7.orbax-checkpoint-tmp-99"), scene.path("7")).unwrap();
    assert_eq!(newest(&scene.scan()), Some((7, "renamed", 5, 2)));
}

#[test]
fn a_file_that_simply_appears_needs_two_scans() {
    let mut scene = scene();
    scene.write("ckpt_0000100.pt", "data");
    assert_eq!(codes(&scene.scan()), ["checkpoint_not_at_rest"]);
    assert_eq!(newest(&scene.scan()), Some((100, "size-stable", 4, 1)));
    scene.write("ckpt_0000200.pt", "da");
    assert!(scene.scan().saving);
    scene.write("ckpt_0000200.pt", "data");
    let scan = scene.scan();
    let growing = IncompleteReason::Growing { bytes: 4, bytes_before: 2 };
    assert_eq!((reasons(&scan), scan.saving), (vec![(Some(200), growing)], true));
    assert_eq!(steps(&scene.scan()), [200, 100]);
}

#[test]
fn empty_ones_and_those_with_temporary_files_inside_do_not_count() {
    let mut scene = scene();
    scene.write("step-10.pt", "");
    fs::create_dir(scene.path("step-20")).unwrap();
    scene.write("step-30/__0_0.distcp", "w");
    scene.write("step-30/.metadata.tmp", "w");
    scene.write("step-40/__0_0.distcp", "w");
    let temporary = IncompleteReason::TemporaryName { file: ".metadata.tmp".to_owned() };
    let missing = IncompleteReason::MarkerMissing { marker: ".metadata".to_owned() };
    assert_eq!(
        reasons(&scene.scan_at_rest()),
        [
            (Some(40), missing),
            (Some(30), temporary),
            (Some(20), IncompleteReason::Empty),
            (Some(10), IncompleteReason::Empty),
        ]
    );
    fs::rename(scene.path("step-30/.metadata.tmp"), scene.path("step-30/.metadata")).unwrap();
    scene.write("step-40/.metadata", "w");
    assert_eq!(steps(&scene.scan_at_rest()), [40, 30]);
}

#[test]
fn a_cut_safetensors_file_does_not_count_even_at_rest() {
    let mut scene = scene();
    scene.write("step-10.safetensors", &safetensors(1000)[..900]);
    scene.write("step-5/model.safetensors", &safetensors(1000)[..900]);
    let scan = scene.scan_at_rest();
    assert_eq!(codes(&scan), ["checkpoint_truncated", "checkpoint_truncated"]);
    scene.write("step-10.safetensors", safetensors(1000));
    assert_eq!(steps(&scene.scan_at_rest()), [10]);
}

#[test]
fn what_only_looks_like_a_number_is_no_checkpoint() {
    let mut scene = scene();
    for name in ["log-999.txt", "metrics-7.json", "video.mp4", "notes", ".hidden", "step-3.pt.bak~"]
    {
        scene.write(name, "x");
    }
    scene.write("runs/step-5.pt", "x");
    let scan = scene.scan_at_rest();
    assert_eq!((steps(&scan), codes(&scan)), (vec![], vec!["checkpoint_temporary_name"]));
}
