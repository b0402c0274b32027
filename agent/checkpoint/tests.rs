//! The directory of an imitated trainer, and the facts that hold in all layouts.

mod frameworks;
mod hostile;
mod quarantined;
mod remote;
mod renamed;
mod trainer;
mod writing;

use std::fs;
use std::path::{Path, PathBuf};

use sluice_core::checkpoint::{Checkpoint, CheckpointFormat, CheckpointScan, IncompleteReason};

use super::{CheckpointRules, CheckpointWatcher, WrittenFiles};

/// A checkpoint directory with its watcher.
struct Scene {
    directory: tempfile::TempDir,
    watcher: CheckpointWatcher,
    written: WrittenFiles,
}

impl Scene {
    fn new(format: CheckpointFormat, world_size: u32) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut watcher =
            CheckpointWatcher::open(directory.path(), format, &Default::default(), world_size);
        watcher.settle = std::time::Duration::ZERO;
        Self { directory, watcher, written: WrittenFiles::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn scan(&mut self) -> CheckpointScan {
        self.watcher.scan(&self.written)
    }

    /// The second of two scans: what is at rest has been seen to be.
    fn scan_at_rest(&mut self) -> CheckpointScan {
        self.scan();
        self.scan()
    }

    /// Everything the Trainer writes at `step`, in its order.
    fn save(&self, step: u64, world_size: u32) {
        for (name, content) in files_of_save(step, world_size) {
            self.write(&format!("checkpoint-{step}/{name}"), content);
        }
    }

    /// The newest checkpoint as it has to be seen when all of [`files_of_save`] are there.
    fn saved(&self, step: u64, world_size: u32) -> Checkpoint {
        let files = files_of_save(step, world_size);
        Checkpoint {
            step,
            path: self.path(&format!("checkpoint-{step}")).to_str().unwrap().to_owned(),
            bytes: files.iter().map(|(_, content)| content.len() as u64).sum(),
            files: u32::try_from(files.len()).unwrap(),
            marker: "trainer_state.json".to_owned(),
            grade: sluice_core::checkpoint::Grade::LocalComplete,
        }
    }
}

/// Names and contents of one save of the Hugging Face Trainer, in the order of writing.
fn files_of_save(step: u64, world_size: u32) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![
        ("config.json".to_owned(), b"{}".to_vec()),
        ("model.safetensors".to_owned(), safetensors(20_000)),
        ("training_args.bin".to_owned(), zip(3_000)),
        ("optimizer.pt".to_owned(), zip(40_000)),
        ("scheduler.pt".to_owned(), zip(1_000)),
    ];
    match world_size {
        1 => files.push(("rng_state.pth".to_owned(), zip(9_000))),
        ranks => files.extend((0..ranks).map(|rank| (format!("rng_state_{rank}.pth"), zip(9_000)))),
    }
    files.push(("trainer_state.json".to_owned(), trainer_state(step)));
    files
}

fn trainer_state(step: u64) -> Vec<u8> {
    format!("{{\n  \"epoch\": 0.5,\n  \"global_step\": {step},\n  \"log_history\": [{{\"loss\": NaN}}]\n}}")
        .into_bytes()
}

/// A safetensors file with one tensor of `data_bytes`.
fn safetensors(data_bytes: usize) -> Vec<u8> {
    let header = format!(
        "{{\"__metadata__\":{{\"format\":\"pt\"}},\"w\":{{\"dtype\":\"U8\",\"shape\":[{data_bytes}],\"data_offsets\":[0,{data_bytes}]}}}}"
    );
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + data_bytes, 7);
    file
}

/// Something that begins and ends as a zip file does, as `torch.save` writes.
fn zip(data_bytes: usize) -> Vec<u8> {
    let mut file = b"PK\x03\x04".to_vec();
    file.resize(file.len() + data_bytes, 7);
    file.extend(b"PK\x05\x06");
    file.resize(file.len() + 18, 0);
    file
}

fn steps(scan: &CheckpointScan) -> Vec<u64> {
    scan.complete.iter().map(|checkpoint| checkpoint.step).collect()
}

/// Steps and reasons of what does not count.
fn reasons(scan: &CheckpointScan) -> Vec<(Option<u64>, IncompleteReason)> {
    scan.incomplete.iter().map(|entry| (entry.step, entry.reason.clone())).collect()
}

fn codes(scan: &CheckpointScan) -> Vec<&'static str> {
    scan.incomplete.iter().map(|entry| entry.reason.code()).collect()
}

#[test]
fn the_format_is_told_from_the_files() {
    let mut scene = Scene::new(CheckpointFormat::Auto, 1);
    scene.save(10, 1);
    assert_eq!(scene.scan_at_rest().complete, [scene.saved(10, 1)]);

    let mut scene = Scene::new(CheckpointFormat::Auto, 1);
    scene.write("checkpoint-10/weights.npz", "w");
    let scan = scene.scan_at_rest();
    let markers: Vec<_> = scan.complete.iter().map(|c| (c.step, c.marker.as_str())).collect();
    assert_eq!(markers, [(10, "size-stable")]);
}

#[test]
fn a_first_save_seen_from_its_first_file_is_never_taken_for_renamed() {
    let mut scene = Scene::new(CheckpointFormat::Auto, 1);
    assert_eq!(scene.scan(), CheckpointScan::default());
    fs::create_dir(scene.path("checkpoint-10")).unwrap();
    assert_eq!(codes(&scene.scan_at_rest()), ["checkpoint_empty"]);
    for (name, content) in files_of_save(10, 1) {
        assert!(steps(&scene.scan_at_rest()).is_empty(), "before {name}");
        scene.write(&format!("checkpoint-10/{name}"), content);
    }
    assert_eq!(scene.scan_at_rest().complete, [scene.saved(10, 1)]);
}

#[test]
fn free_space_is_known_before_the_directory_exists() {
    let scene = Scene::new(CheckpointFormat::Auto, 1);
    let deep = scene.path("a/b/c");
    let watcher = CheckpointWatcher::open(deep, CheckpointFormat::Auto, &Default::default(), 1);
    assert!(watcher.free_bytes().unwrap() > 0);
    let watcher = CheckpointWatcher::open(
        Path::new("not/there"),
        CheckpointFormat::Auto,
        &Default::default(),
        1,
    );
    assert!(watcher.free_bytes().unwrap() > 0);
}

#[test]
fn twenty_checkpoints_at_rest_are_scanned_without_walking_most_of_them() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 8);
    for step in 1..=20 {
        scene.save(step * 10, 8);
    }
    let expected: Vec<u64> = (1..=20).rev().map(|step| step * 10).collect();
    assert_eq!(steps(&scene.scan_at_rest()), expected);
    let rounds = 200;
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        assert_eq!(scene.scan().complete.len(), 20);
    }
    let mean = start.elapsed() / rounds;
    println!("quiet scan of 20 checkpoints with 14 files each: {mean:?}");
    // 0.4 ms in a debug build on 2 busy cores; the promise is 1 ms, with room for a busy machine.
    assert!(mean < std::time::Duration::from_millis(10), "{mean:?}");
}

#[test]
fn scans_in_quick_succession_do_not_show_rest() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
    scene.watcher.settle = std::time::Duration::from_secs(3600);
    scene.save(10, 1);
    for _ in 0..3 {
        assert_eq!(codes(&scene.scan()), ["checkpoint_not_at_rest"]);
    }
    scene.watcher.settle = std::time::Duration::ZERO;
    assert_eq!(scene.scan().complete, [scene.saved(10, 1)]);
    // Once complete, it stays so.
    scene.watcher.settle = std::time::Duration::from_secs(3600);
    assert_eq!(steps(&scene.scan()), [10]);
}

#[test]
fn a_watcher_is_settled_once_old_checkpoints_could_be_seen_at_rest() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
    scene.save(10, 1);
    assert!(!scene.watcher.is_settled());
    let scan = scene.scan();
    assert_eq!((scene.watcher.is_settled(), steps(&scan)), (false, vec![]));
    let scan = scene.scan();
    assert_eq!((scene.watcher.is_settled(), steps(&scan)), (true, vec![10]));
    scene.watcher.settle = std::time::Duration::from_secs(3600);
    assert!(!scene.watcher.is_settled());
}

#[test]
fn what_appears_in_a_directory_that_was_missing_is_a_save() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
    let directory = scene.path("out");
    let mut watcher =
        CheckpointWatcher::open(&directory, CheckpointFormat::Auto, &Default::default(), 1);
    watcher.scan(&scene.written);
    scene.write("out/checkpoint-10/config.json", "{}");
    let scan = watcher.scan(&scene.written);
    assert_eq!((codes(&scan), scan.saving), (vec!["checkpoint_marker_missing"], true));
    // The same at the very first sight may be the rest of an earlier run.
    scene.write("checkpoint-20/config.json", "{}");
    assert!(!scene.scan().saving);
}
