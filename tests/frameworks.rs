//! Real frameworks: what they write is found complete, and a drain that waits for it loses nothing.
//!
//! They are installed by `tests/frameworks/setup`. Where one is absent its test says so on the terminal, past the
//! capture of the test runner, and passes for that reason alone.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use sluice::wire::pb;
use sluice::wire::pb::{CheckpointGrade, DrainMode, DrainState};

use crate::cluster::{Cluster, Setup};

/// Drains tried until one waits for a checkpoint: one that is ordered just after a save has nothing to wait for.
const TRIES_MAX: u32 = 8;

/// A trainer of `tests/frameworks/`.
struct Framework {
    /// Its virtual environment.
    environment: &'static str,
    script: &'static str,
    ranks: u32,
    /// What shows that its checkpoints are complete.
    marker: &'static str,
    grade: CheckpointGrade,
}

impl Framework {
    /// The interpreter, or why the test cannot be done.
    fn python(&self) -> Result<PathBuf, String> {
        let setup = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/frameworks/setup");
        let output = Command::new(setup).arg("--where").output();
        let output = output.map_err(|e| format!("{setup} does not run: {e}"))?;
        let root = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let environment = root.join(self.environment);
        if environment.join("installed.txt").exists() {
            Ok(environment.join("bin/python"))
        } else {
            Err(format!("{} is not there; run tests/frameworks/setup", environment.display()))
        }
    }

    /// Trains, drains in mode BOUNDARY, and resumes; nothing where the framework is absent.
    fn drain(&self) {
        let python = match self.python() {
            Ok(python) => python,
            Err(why) => {
                let told = format!("skipped: {} needs a framework: {why}\n", self.script);
                std::io::stderr().write_all(told.as_bytes()).unwrap();
                return;
            }
        };
        let nodes: Vec<(&'static str, u32)> =
            [("n1", 1), ("n2", 1)].into_iter().take(self.ranks as usize).collect();
        let mut cluster = Setup::nodes(&nodes).start();
        let run = Run { log: cluster.path("train.log") };
        self.start(&mut cluster, &python, &run);
        // Each wait has its own bound: a framework takes long to start on a busy machine.
        cluster.wait("the trainer to start", |_| (!run.steps("started").is_empty()).then_some(()));
        for saves in 1..=3 {
            let what = format!("save number {saves}");
            cluster.wait(&what, |_| (run.steps("saved").len() >= saves).then_some(()));
        }
        cluster.wait_measured("train");
        let (drain, starts) = run.drain_at_a_boundary(&mut cluster);
        let saved = drain.saved.as_ref().expect("a checkpoint to resume from");
        assert_eq!(saved.marker, self.marker, "{saved:?}");
        assert_eq!(saved.grade(), self.grade, "{saved:?}");
        let steps = run.steps("saved");
        assert!(steps.contains(&Some(saved.step)), "{} was never saved: {steps:?}", saved.step);
        assert_eq!(run.steps("started").len(), starts + 1);
        let resumed = *run.steps("started").last().unwrap();
        assert!(resumed >= Some(saved.step), "resumed from {resumed:?}, saved was {}", saved.step);
        assert_eq!(cluster.drain_of("train").unwrap().state(), DrainState::Resumed);
        let told = format!("{}: {} by {}\n", self.script, drain.mode().as_str_name(), saved.marker);
        std::io::stderr().write_all(told.as_bytes()).unwrap();
    }

    fn start(&self, cluster: &mut Cluster, python: &std::path::Path, run: &Run) {
        let script = format!("{}/tests/frameworks/{}", env!("CARGO_MANIFEST_DIR"), self.script);
        let dir = cluster.path("checkpoints");
        for rank in 0..self.ranks {
            let flags = format!(
                "--resource nvidia.com/gpu=1 --checkpoint-dir {} --nnodes {} --node-rank {rank} --node n{}",
                dir.display(),
                self.ranks,
                rank + 1,
            );
            let log = run.log.display().to_string();
            // Python's bytecode would otherwise be written into the source tree.
            let python = python.display().to_string();
            cluster.run(
                "train",
                &flags,
                &["env", "PYTHONDONTWRITEBYTECODE=1", &python, &script, &log],
            );
        }
    }
}

/// What a trainer tells.
struct Run {
    log: PathBuf,
}

impl Run {
    /// Steps of its events of this name, all starts together, oldest first.
    fn steps(&self, event: &str) -> Vec<Option<u64>> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let events = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|e| e["event"] == event).map(|e| e["step"].as_u64()).collect()
    }

    /// Lets others preempt it until a drain has waited for its next checkpoint; that drain, once the trainer has
    /// resumed, and how many starts there were before.
    fn drain_at_a_boundary(&self, cluster: &mut Cluster) -> (pb::Drain, usize) {
        for number in 0..TRIES_MAX {
            let starts = self.steps("started").len();
            cluster.wait("unsaved work", |cluster| {
                let workload = cluster.workload("train")?;
                let profile = workload.profile?;
                let cost_ms = profile.step_ms? + profile.save_ms.unwrap_or(0);
                (workload.checkpoint_age_ms? > cost_ms + 300).then_some(())
            });
            let name = format!("serve-{number}");
            cluster.serve(&name, 1, "");
            let drain = cluster.wait_drain("train", DrainState::HandedOver);
            cluster.cancel(&name);
            cluster.wait("the trainer to start again", |_| {
                (self.steps("started").len() > starts).then_some(())
            });
            let saves = self.steps("saved").len();
            cluster.wait("the trainer to save again", |_| {
                (self.steps("saved").len() > saves).then_some(())
            });
            cluster.wait_drain("train", DrainState::Resumed);
            if drain.mode() == DrainMode::Boundary {
                return (drain, starts);
            }
        }
        panic!("{TRIES_MAX} drains, and none waited for a checkpoint");
    }
}

#[test]
fn jax_with_orbax_that_saves_on_sigterm_is_drained_at_a_boundary() {
    let framework = Framework {
        environment: "jax",
        script: "jax_orbax.py",
        ranks: 1,
        marker: "commit_success.txt",
        grade: CheckpointGrade::GangComplete,
    };
    framework.drain();
}

#[test]
fn two_ranks_of_torch_distributed_checkpoint_are_drained_at_a_boundary() {
    let framework = Framework {
        environment: "torch",
        script: "torch_distributed.py",
        ranks: 2,
        marker: ".metadata",
        grade: CheckpointGrade::GangComplete,
    };
    framework.drain();
}

#[test]
fn hugging_face_trainer_is_drained_at_a_boundary() {
    let framework = Framework {
        environment: "torch",
        script: "hf_trainer.py",
        ranks: 1,
        marker: "trainer_state.json",
        grade: CheckpointGrade::GangComplete,
    };
    framework.drain();
}
