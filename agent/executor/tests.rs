//! Tests of what is journalled.

use sluice_core::agent::{Hand, Registration, Stage};
use sluice_core::checkpoint::{Checkpoint, CheckpointFormat};
use sluice_core::drain::Mode;
use sluice_core::unit::Time;
use sluice_core::workload::{Exit, SaveSignal};

use super::record::{
    DRAIN_NAME_BYTES_MAX, Record, WORKER_NAME_BYTES_MAX, hand_key, journal_bytes, worker_key,
};
use super::recover;
use crate::journal::Journal;

fn hand() -> Hand {
    Hand {
        drain: "drain-7".parse().unwrap(),
        worker: "team/llama/3/1".parse().unwrap(),
        epoch: 4,
        mode: Mode::Signal,
        save_signal: Some(SaveSignal { number: 10, exits_after_save: true }),
        baseline_step: Some(70),
        deadline_at: Time(9_000),
        stage: Stage::Releasing,
        save_intent: true,
        progress_seen: true,
        stall_told: true,
        term_intent: true,
        kill_intent: false,
        durable: Some(Checkpoint {
            step: 80,
            path: "/ckpt/checkpoint-80".to_owned(),
            bytes: 1 << 40,
            files: 3,
            marker: "trainer_state.json".to_owned(),
            grade: sluice_core::checkpoint::Grade::LocalComplete,
        }),
        failure: None,
        exit: Some(Exit::Signal(9)),
        stage_since: Time(5_000),
        released_at: Some(Time(5_000)),
        grace_ms: 30_000,
        release_ms: 0,
    }
}

fn registration() -> Registration {
    Registration {
        worker: hand().worker,
        world_size: 2,
        pid: 4_242,
        start_time_ticks: 77,
        checkpoint_dir: "/ckpt".to_owned(),
        checkpoint_format: CheckpointFormat::HuggingFace,
        checkpoint_rules: Default::default(),
        devices: ["sim-n1-0".parse().unwrap()].into(),
        drain_dir: "/drain".to_owned(),
        pod: None,
    }
}

/// A journal with the two, written in boot `a`.
fn journal(dir: &std::path::Path) -> Journal {
    let journal = Journal::open(dir.join("journal")).unwrap();
    let (hand, registration) = (hand(), registration());
    journal.put(&hand_key(&hand.drain, &hand.worker), &Record::of_hand(&hand, "a")).unwrap();
    journal.put(&worker_key(&hand.worker), &Record::of_worker(&registration, "a")).unwrap();
    journal
}

#[test]
fn what_is_journalled_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let recovered = recover(&journal(dir.path()), "a", Time(6_000)).unwrap();
    assert_eq!(recovered.hands, [hand()]);
    assert_eq!(recovered.registrations, [registration()]);
    assert_eq!(recovered.boot_ids.into_values().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn times_of_another_boot_begin_anew_and_intents_stay() {
    let dir = tempfile::tempdir().unwrap();
    let recovered = recover(&journal(dir.path()), "b", Time(20)).unwrap();
    let expected = Hand {
        deadline_at: Time(30_020),
        stage_since: Time(20),
        released_at: Some(Time(20)),
        ..hand()
    };
    assert_eq!(recovered.hands, [expected]);
    assert_eq!(recovered.boot_ids.into_values().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn a_corrupt_file_is_kept_and_the_others_are_used() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(dir.path());
    let file = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().path();
    let is_drain = |path: &std::path::PathBuf| path.to_string_lossy().contains("drain");
    let files = || std::fs::read_dir(dir.path().join("journal")).unwrap().map(file);
    std::fs::write(files().find(is_drain).unwrap(), "{\"version\":1,").unwrap();
    let recovered = recover(&journal, "a", Time(0)).unwrap();
    assert_eq!(recovered.hands, []);
    assert_eq!(recovered.registrations, [registration()]);
    assert!(files().any(|path| path.to_string_lossy().ends_with(".corrupt-1")));
}

#[test]
fn the_longest_names_fit_into_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path().join("journal")).unwrap();
    let drain = "d".repeat(DRAIN_NAME_BYTES_MAX);
    let worker = format!("{}/1/0", "w".repeat(WORKER_NAME_BYTES_MAX - 8));
    assert_eq!(journal_bytes(&worker), WORKER_NAME_BYTES_MAX);
    let key = hand_key(&drain.parse().unwrap(), &worker.parse().unwrap());
    journal.put(&key, &Record::of_hand(&hand(), "a")).unwrap();
}
