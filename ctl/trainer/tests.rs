use clap::Parser;

use super::*;

#[derive(Parser)]
#[command(args_override_self = true)]
struct Line {
    #[command(flatten)]
    args: DemoTrainArgs,
}

/// The flags of a run of six steps without pauses that saves every second one.
fn args(directory: &Path, rank: usize, world_size: usize, more: &str) -> DemoTrainArgs {
    let output_dir = directory.join("out");
    let rest = format!(
        "--step-ms=0 --save-ms=0 --startup-ms=0 --rank={rank} --world-size={world_size} {more}"
    );
    let line = ["demo-train", "--output-dir", output_dir.to_str().unwrap()];
    let line = line.into_iter().chain("--steps=6 --save-steps=2".split_whitespace());
    Line::parse_from(line.chain(rest.split_whitespace())).args
}

fn state(outcome: Outcome) -> State {
    match outcome {
        Outcome::Finished(state) => state,
        Outcome::Stopped(step) => panic!("stopped at step {step}"),
    }
}

fn train_quietly(args: &DemoTrainArgs) -> State {
    state(train(args, &Signals::default(), false).unwrap())
}

/// Runs a whole gang, one thread per rank, and returns every rank's outcome.
fn train_gang(directory: &Path, signals: &[Signals], more: &str) -> Vec<Outcome> {
    std::thread::scope(|scope| {
        let ranks: Vec<_> = signals.iter().enumerate().collect();
        let start = |(rank, signals)| {
            let args = args(directory, rank, ranks.len(), more);
            scope.spawn(move || train(&args, signals, false).unwrap())
        };
        let threads: Vec<_> = ranks.iter().copied().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn undisturbed() -> State {
    let directory = tempfile::tempdir().unwrap();
    train_quietly(&args(directory.path(), 0, 1, ""))
}

#[test]
fn loss_falls_while_training() {
    let directory = tempfile::tempdir().unwrap();
    let history = train_quietly(&args(directory.path(), 0, 1, "--steps=40")).history;
    let (first, last) = (history[0].loss, history[39].loss);
    assert!(first > 4.5 && last < 3.0, "{first} to {last}");
}

#[test]
fn result_does_not_depend_on_the_number_of_ranks() {
    let expected = undisturbed();
    for world in [2, 4] {
        let directory = tempfile::tempdir().unwrap();
        let signals = vec![Signals::default(); world];
        for outcome in train_gang(directory.path(), &signals, "") {
            assert!(state(outcome) == expected, "world {world}");
        }
    }
}

#[test]
fn resumed_run_ends_with_the_same_bits() {
    let expected = undisturbed();
    let directory = tempfile::tempdir().unwrap();
    let args = args(directory.path(), 0, 1, "");
    let signals = Signals::default();
    signals.raise_stop();
    assert_eq!(train(&args, &signals, false).unwrap(), Outcome::Stopped(1));
    assert!(args.output_dir.join("checkpoint-1/trainer_state.json").exists());
    assert!(train_quietly(&args) == expected, "resumed from step 1");

    // As if the process had been killed at step 5: what it did after step 4 is lost.
    std::fs::remove_dir_all(args.output_dir.join("checkpoint-6")).unwrap();
    assert!(train_quietly(&args) == expected, "resumed from step 4");
    assert!(train_quietly(&args) == expected, "resumed from the end");
}

#[test]
fn one_rank_asked_to_save_makes_the_whole_gang_save() {
    let directory = tempfile::tempdir().unwrap();
    let signals = [Signals::default(), Signals::default()];
    signals[1].raise_save();
    let outcomes = train_gang(directory.path(), &signals, "--steps=3 --save-steps=0");
    assert_eq!(outcomes[0], outcomes[1]);
    let out = directory.path().join("out");
    for file in ["rng_state_0.pth", "rng_state_1.pth", "trainer_state.json"] {
        assert!(out.join("checkpoint-1").join(file).exists(), "{file}");
    }
    assert!(!out.join("checkpoint-2").exists());
    assert!(!signals[1].take_save(), "one signal must cause one save");
}

#[test]
fn log_tells_the_story_of_two_attempts() {
    let directory = tempfile::tempdir().unwrap();
    let mut args = args(directory.path(), 0, 1, "--steps=2 --save-steps=0");
    let log = directory.path().join("log");
    args.log = Some(log.clone());
    let signals = Signals::default();
    signals.raise_stop();
    train(&args, &signals, false).unwrap();
    let state = train_quietly(&args);

    let text = std::fs::read_to_string(log).unwrap();
    let parse = |line: &str| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["unix_ms"].take().as_u64() > Some(1_700_000_000_000));
        assert_eq!(line["pid"].take(), json!(std::process::id()));
        assert_eq!(line["rank"].take(), json!(0));
        line
    };
    let lines: Vec<serde_json::Value> = text.lines().map(parse).collect();
    let event = |event: &str, fields: serde_json::Value| {
        let mut line = json!({ "event": event, "pid": null, "rank": null, "unix_ms": null });
        line.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        line
    };
    let path = |step| args.output_dir.join(format!("checkpoint-{step}"));
    let [first, last] = [0, 1].map(|index| state.history[index].loss);
    let expected = [
        event("started", json!({ "attempt": null, "resumed_from": null })),
        event("step", json!({ "step": 1, "loss": first })),
        event("saved", json!({ "step": 1, "path": path(1) })),
        event("stopped", json!({ "step": 1 })),
        event("started", json!({ "attempt": null, "resumed_from": 1 })),
        event("step", json!({ "step": 2, "loss": last })),
        event("saved", json!({ "step": 2, "path": path(2) })),
        event("finished", json!({ "step": 2, "loss": last, "loss_bits": last.to_bits() })),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn attempt_is_read_from_the_name_of_the_worker() {
    assert_eq!(attempt(Some("team/run/3/0")), Some(3));
    assert_eq!(attempt(Some("run")), None);
    assert_eq!(attempt(None), None);
}

#[test]
fn impossible_gangs_are_refused() {
    let problem = |rank, world_size| args(Path::new("x"), rank, world_size, "").problem();
    assert_eq!(problem(3, 4), None);
    let expected = "--world-size is 3 but must be 1, 2 or 4";
    assert_eq!(problem(0, 3).as_deref(), Some(expected));
    let expected = "--rank is 2 but must be below --world-size 2";
    assert_eq!(problem(2, 2).as_deref(), Some(expected));
}
