//! A record replays to the same outputs; what differs is found.

use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use sluice::wire::pb;
use sluice::wire::pb::record_entry::Entry;
use sluice_core::arbiter::{Arbiter, Config, Input};
use sluice_core::protocol::{Device, Health, NodeReport};
use sluice_core::unit::Time;
use sluice_core::workload::WorkloadSpec;

use super::file::{Entries, Files};
use super::replay::{Outcome, ReplayError, replay};
use super::{Recorder, writer};
use sluice_core::queue::Queues;

fn arbiter() -> Arbiter {
    let config = Config { queues: Queues::without_file(), ..Config::default() };
    Arbiter::new(Time(1_000), config, Vec::new(), Vec::new(), None)
}

fn submit(name: &str) -> Input {
    Input::Submit {
        spec: WorkloadSpec {
            name: name.parse().unwrap(),
            queue: "default".parse().unwrap(),
            priority: 0,
            nnodes: 1,
            resources: [("nvidia.com/gpu".parse().unwrap(), 1)].into(),
            topology: None,
            slice: None,
            checkpoint: None,
            save_signal: None,
            is_signal_vouched: false,
            grace_ms: None,
            drain_deadline_ms: 0,
            command: Vec::new(),
        },
        rank: 0,
        launcher: "l".parse().unwrap(),
        nodes: ["n1".parse().unwrap()].into(),
    }
}

/// A node comes up and two workloads ask for its only device.
fn inputs() -> Vec<Input> {
    let node: sluice_core::id::NodeName = "n1".parse().unwrap();
    let device = Device {
        resource: "nvidia.com/gpu".parse().unwrap(),
        index: 0,
        kind: "nvidia-l4".to_owned(),
        simulated: true,
        health: Health::Healthy,
        fault: None,
    };
    let report = NodeReport {
        full: true,
        devices: [("GPU-0".parse().unwrap(), device)].into(),
        ..NodeReport::default()
    };
    let attach = |name: &str| Input::Attach {
        workload: name.parse().unwrap(),
        rank: 0,
        launcher: "l".parse().unwrap(),
    };
    vec![
        Input::AgentConnected { node: node.clone() },
        Input::NodeReport { node: node.clone(), report },
        submit("first"),
        attach("first"),
        submit("second"),
        attach("second"),
        Input::Tick,
        Input::Cancel { workload: "first".parse().unwrap() },
        Input::Freeze { why: "test".to_owned() },
        Input::Unfreeze,
        Input::AgentDisconnected { node },
    ]
}

/// Records `inputs` into `dir`; the files made.
fn record(dir: &Path, arbiter: &mut Arbiter, inputs: &[Input]) -> Vec<PathBuf> {
    let mut recorder = Recorder::start(dir).unwrap();
    for (i, input) in inputs.iter().enumerate() {
        let now = Time(2_000 + 100 * i as u64);
        recorder.begin(arbiter, now, input);
        let outputs = arbiter.step(now, input.clone());
        recorder.end(arbiter, &outputs);
    }
    recorder.finish();
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn a_record_replays_to_the_same_outputs() {
    let dir = tempfile::tempdir().unwrap();
    let files = record(dir.path(), &mut arbiter(), &inputs());
    assert_eq!(files.len(), 1);
    assert_eq!(replay(&files[0]).unwrap(), Outcome::Same { steps: inputs().len() as u64 });
}

#[test]
fn a_record_may_begin_at_any_moment() {
    for at in 0..inputs().len() {
        let dir = tempfile::tempdir().unwrap();
        let mut arbiter = arbiter();
        let (before, after) = (&inputs()[..at], &inputs()[at..]);
        for input in before {
            arbiter.step(Time(1_500), input.clone());
        }
        let files = record(dir.path(), &mut arbiter, after);
        assert_eq!(replay(&files[0]).unwrap(), Outcome::Same { steps: after.len() as u64 });
    }
}

/// Reads a file, changes its entries, and writes it again.
fn rewrite(path: &Path, change: impl FnOnce(&mut Vec<pb::RecordEntry>)) {
    let mut read = Entries::open(path).unwrap();
    let mut entries = Vec::new();
    while let Some(entry) = read.next().unwrap() {
        entries.push(entry);
    }
    change(&mut entries);
    let bytes: Vec<u8> = entries.iter().flat_map(Message::encode_length_delimited_to_vec).collect();
    fs::write(path, bytes).unwrap();
}

#[test]
fn the_first_step_that_differs_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let files = record(dir.path(), &mut arbiter(), &inputs());
    rewrite(&files[0], |entries| {
        let Some(Entry::Step(step)) = &mut entries[3].entry else { panic!("a step") };
        let Some(pb::record_step::Input::Submit(submit)) = &mut step.input else {
            panic!("a submission")
        };
        submit.spec.as_mut().unwrap().priority = 7;
    });
    let Outcome::Differs(difference) = replay(&files[0]).unwrap() else { panic!("it differs") };
    assert_eq!(difference.step, 3);
}

#[test]
fn a_record_cut_off_by_a_kill_replays_as_far_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let files = record(dir.path(), &mut arbiter(), &inputs());
    let whole = fs::read(&files[0]).unwrap();
    for cut in [1, 5, 20] {
        fs::write(&files[0], &whole[..whole.len() - cut]).unwrap();
        let Outcome::Same { steps } = replay(&files[0]).unwrap() else { panic!("it differs") };
        assert!(steps < inputs().len() as u64);
    }
}

#[test]
fn a_file_without_a_start_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.rec");
    for content in [&b""[..], b"\x01", b"\x00", b"hello, this is no record at all"] {
        fs::write(&path, content).unwrap();
        let error = replay(&path).unwrap_err();
        assert!(matches!(error, ReplayError::NoStart | ReplayError::Read(_)), "{error}");
    }
}

#[test]
fn old_files_are_removed_and_numbers_go_on() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let mut files = Files::open(dir.path()).unwrap();
        for _ in 0..6 {
            files.begin(pb::RecordStart::default()).unwrap();
        }
        files.flush().unwrap();
    }
    let mut names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names.len(), 8);
    assert_eq!(names.last().unwrap(), "00000012.rec");
}

#[test]
fn a_full_file_asks_for_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = Files::open(dir.path()).unwrap();
    files.begin(pb::RecordStart::default()).unwrap();
    let why = "x".repeat(1 << 20);
    let step = pb::RecordStep {
        input: Some(pb::record_step::Input::Freeze(pb::FreezeRequest { why })),
        ..Default::default()
    };
    let full = (0..16).map(|_| files.append(step.clone()).unwrap()).collect::<Vec<_>>();
    assert_eq!((full.iter().filter(|f| **f).count(), full.last()), (1, Some(&true)));
}

#[test]
fn a_gap_is_followed_by_a_new_start() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = std::sync::mpsc::sync_channel(2);
    let mut arbiter = arbiter();
    let files = Files::open(dir.path()).unwrap();
    let is_full = std::sync::Arc::<std::sync::atomic::AtomicBool>::default();
    let writer = std::thread::spawn(|| {});
    let mut recorder =
        Recorder { sender, writer, is_full: is_full.clone(), has_gap: true, step: None };
    // Room for a start and one step: the second step is lost.
    for now in [10, 20, 30] {
        recorder.begin(&mut arbiter, Time(now), &Input::Tick);
        let outputs = arbiter.step(Time(now), Input::Tick);
        recorder.end(&arbiter, &outputs);
    }
    assert!(recorder.has_gap);
    recorder.finish();
    writer::run(&receiver, files, &is_full);
    assert_eq!(replay(&dir.path().join("00000001.rec")).unwrap(), Outcome::Same { steps: 1 });
}
