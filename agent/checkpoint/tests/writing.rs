//! Files that real processes have open for writing, and saves cut off by killing them.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::*;

/// A shell running `script`, killed with the test. Waits for the line `ready`.
struct Writer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Writer {
    fn start(scene: &Scene, script: &str) -> Self {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).current_dir(scene.directory.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut writer = Self { child, output };
        writer.wait_ready();
        writer
    }

    fn wait_ready(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_checkpoint_with_a_file_open_for_writing_is_not_complete() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
    scene.save(10, 1);
    scene.scan_at_rest();
    scene.save(20, 1);
    let script = "exec 3>>checkpoint-20/optimizer.pt; echo ready; read line";
    let writer = Writer::start(&scene, script);
    scene.written = WrittenFiles::of_processes([writer.child.id()]);
    let scan = scene.scan_at_rest();
    let open = IncompleteReason::OpenForWriting { file: "optimizer.pt".to_owned() };
    assert_eq!((reasons(&scan), scan.saving), (vec![(Some(20), open)], true));
    drop(writer);
    scene.written = WrittenFiles::default();
    assert_eq!(steps(&scene.scan()), [20, 10]);
}

#[test]
fn a_file_open_for_reading_is_no_save() {
    let mut scene = Scene::new(CheckpointFormat::Rename, 1);
    scene.write("step-10.pt", "data");
    let writer = Writer::start(&scene, "exec 3<step-10.pt; echo ready; read line");
    scene.written = WrittenFiles::of_processes([writer.child.id()]);
    assert_eq!(steps(&scene.scan_at_rest()), [10]);
    drop(writer);
}

#[test]
fn a_renamed_file_still_open_for_writing_is_not_complete() {
    let mut scene = Scene::new(CheckpointFormat::Rename, 1);
    let script = "exec 3>step-10.pt.tmp; echo half >&3; echo ready; read line
                  mv step-10.pt.tmp step-10.pt; echo ready; read line";
    let mut writer = Writer::start(&scene, script);
    scene.scan();
    use std::io::Write as _;
    writer.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    writer.wait_ready();
    scene.written = WrittenFiles::of_processes([writer.child.id()]);
    let open = IncompleteReason::OpenForWriting { file: "step-10.pt".to_owned() };
    assert_eq!(reasons(&scene.scan()), [(Some(10), open)]);
}

#[test]
fn processes_that_have_ended_write_nothing() {
    let scene = Scene::new(CheckpointFormat::Rename, 1);
    let writer = Writer::start(&scene, "exec 3>step-10.pt; echo ready; read line");
    let pid = writer.child.id();
    assert_ne!(WrittenFiles::of_processes([pid]), WrittenFiles::default());
    drop(writer);
    assert_eq!(WrittenFiles::of_processes([pid, u32::MAX, 0]), WrittenFiles::default());
}

#[test]
fn a_worker_killed_in_a_save_leaves_a_torn_checkpoint_and_no_save() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
    scene.save(10, 1);
    scene.scan_at_rest();
    for (name, content) in files_of_save(20, 1) {
        scene.write(&format!("source/{name}"), content);
    }
    let script = "mkdir checkpoint-20; cd checkpoint-20
                  cp ../source/config.json ../source/model.safetensors ../source/training_args.bin .
                  exec 3>optimizer.pt; head -c 20000 ../source/optimizer.pt >&3; echo ready; read line";
    let writer = Writer::start(&scene, script);
    scene.written = WrittenFiles::of_processes([writer.child.id()]);
    assert!(scene.scan().saving);
    drop(writer);
    scene.written = WrittenFiles::default();
    let scan = scene.scan();
    let expected = (vec![10], vec!["checkpoint_marker_missing"], false);
    assert_eq!((steps(&scan), codes(&scan), scan.saving), expected);
}
