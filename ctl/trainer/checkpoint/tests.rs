use std::os::unix::net::UnixStream;

use super::super::gang::PeerLost;
use super::*;

const ALONE: Identity = Identity { rank: 0, world: 1, step: 0 };

fn plan(output_dir: &Path, layout: Layout) -> Plan {
    Plan {
        output_dir: output_dir.to_owned(),
        layout,
        save_time: Duration::ZERO,
        checkpoints_max: 3,
        max_steps: 100,
        arguments: serde_json::json!({ "seed": 1 }),
    }
}

fn state(step: u16) -> State {
    let mut rng = fastrand::Rng::with_seed(step.into());
    let mut optimizer = AdamW::new();
    optimizer.exp_avg[3] = 0.1 + f32::from(step);
    State {
        step,
        weights: model::initial(&mut rng),
        optimizer,
        position: Position { epoch_seed: u64::MAX - 7, used: 64 },
        history: vec![LogEntry { epoch: 0.1, learning_rate: 0.02, loss: 1.0 / 3.0, step }],
    }
}

fn save_alone(plan: &Plan, step: u16) {
    save(plan, &state(step), ALONE, &mut Gang::Alone).unwrap();
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<String> = entries.map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

#[test]
fn files_are_written_in_the_order_of_the_hugging_face_trainer() {
    let plan = plan(Path::new("unused"), Layout::Hf);
    let order = |rank, world| {
        let files = files(&plan, &state(10), Identity { rank, world, step: 0 }).unwrap();
        files.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    let shared =
        ["config.json", "model.safetensors", "training_args.bin", "optimizer.pt", "scheduler.pt"];
    assert_eq!(order(0, 1), [&shared[..], &["rng_state.pth"]].concat());
    assert_eq!(order(0, 2), [&shared[..], &["rng_state_0.pth"]].concat());
    assert_eq!(order(1, 2), ["rng_state_1.pth"]);
    assert_eq!(seal(&plan, &state(10)).unwrap().0, "trainer_state.json");
}

#[test]
fn saved_state_is_resumed_whole() {
    for layout in [Layout::Hf, Layout::Rename] {
        let directory = tempfile::tempdir().unwrap();
        let plan = plan(directory.path(), layout);
        assert_eq!(resume(&plan, ALONE).unwrap(), None);
        // 100 comes before 20 in the alphabet, but not here.
        for step in [20, 100] {
            save_alone(&plan, step);
        }
        assert_eq!(resume(&plan, ALONE).unwrap(), Some(state(100)));
    }
}

#[test]
fn lost_peer_leaves_the_checkpoint_unsealed() {
    for (layout, left) in [(Layout::Hf, "checkpoint-10"), (Layout::Rename, "step-10.tmp")] {
        let directory = tempfile::tempdir().unwrap();
        let (gone, stream) = UnixStream::pair().unwrap();
        drop(gone);
        let me = Identity { rank: 0, world: 2, step: 0 };
        let mut gang = Gang::Root(vec![stream]);
        let error = save(&plan(directory.path(), layout), &state(10), me, &mut gang).unwrap_err();
        assert!(error.is::<PeerLost>());
        assert_eq!(names(directory.path()), [left]);
        assert_eq!(
            names(&directory.path().join(left)),
            [
                "config.json",
                "model.safetensors",
                "optimizer.pt",
                "rng_state_0.pth",
                "scheduler.pt",
                "training_args.bin"
            ]
        );
    }
}

#[test]
fn half_written_checkpoint_fails_the_resume_and_hides_the_one_before() {
    let needed = [
        "model.safetensors",
        "optimizer.pt",
        "scheduler.pt",
        "rng_state.pth",
        "trainer_state.json",
    ];
    for name in needed {
        let directory = tempfile::tempdir().unwrap();
        let plan = plan(directory.path(), Layout::Hf);
        save_alone(&plan, 10);
        save_alone(&plan, 20);
        let newest = directory.path().join("checkpoint-20");
        let path = newest.join(name);
        let failed = |why: &str| {
            format!(
                "could not resume from \"{}\" (delete it to resume from the one before): \
                 \"{name}\" {why}",
                newest.display()
            )
        };

        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let error = format!("{:#}", resume(&plan, ALONE).unwrap_err());
        assert!(error.starts_with(&failed("is damaged: ")), "{error}");

        fs::remove_file(&path).unwrap();
        let error = format!("{:#}", resume(&plan, ALONE).unwrap_err());
        assert_eq!(error, failed("cannot be read: No such file or directory (os error 2)"));

        fs::remove_dir_all(newest).unwrap();
        assert_eq!(resume(&plan, ALONE).unwrap(), Some(state(10)));
    }
}

#[test]
fn leftover_under_a_temporary_name_is_ignored_and_cleared() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(directory.path(), Layout::Rename);
    save_alone(&plan, 10);
    fs::create_dir(directory.path().join("step-20.tmp")).unwrap();
    assert_eq!(resume(&plan, ALONE).unwrap(), Some(state(10)));
    clear_leftovers(directory.path()).unwrap();
    assert_eq!(names(directory.path()), ["step-10"]);
}

#[test]
fn oldest_checkpoints_beyond_the_limit_are_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(directory.path(), Layout::Hf);
    fs::create_dir(directory.path().join("checkpoint-best")).unwrap();
    for step in [80, 90, 100, 110] {
        save_alone(&plan, step);
    }
    assert_eq!(
        names(directory.path()),
        ["checkpoint-100", "checkpoint-110", "checkpoint-90", "checkpoint-best"]
    );
}

#[test]
fn paced_write_loses_no_byte() {
    let directory = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..=250).cycle().take(10_001).collect();
    let files = [("a".to_owned(), bytes.clone()), ("b".to_owned(), Vec::new())];
    write_files(directory.path(), &files, Duration::from_millis(1)).unwrap();
    assert_eq!(fs::read(directory.path().join("a")).unwrap(), bytes);
    assert_eq!(fs::read(directory.path().join("b")).unwrap(), b"");
}
