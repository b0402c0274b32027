//! The demo trainer as a workload, and what it tells: its log of events, the signals it got, its checkpoints.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use sluice::wire::pb::Phase;

use crate::cluster::{Cluster, SLUICE};
use crate::process::{Process, wait_for};

/// Steps of a training that goes on until it is stopped.
const ENDLESS: u32 = 60_000;

/// A trainer that is to be started.
#[derive(Debug, Clone)]
pub(crate) struct Training {
    pub(crate) name: &'static str,
    /// Nodes of its ranks; empty: one rank anywhere.
    pub(crate) nodes: Vec<&'static str>,
    /// Accelerators per rank.
    pub(crate) devices: u32,
    pub(crate) steps: u32,
    pub(crate) save_steps: u32,
    pub(crate) step_ms: u32,
    pub(crate) save_ms: u32,
    /// More flags of `sluice run`, separated by spaces.
    pub(crate) run_flags: String,
    /// More flags of the trainer.
    pub(crate) flags: String,
    /// A shell command before `exec "$@"` in the worker.
    pub(crate) shell: String,
}

impl Training {
    /// One rank with one device that trains until it is stopped and saves every 5 steps of 100 ms.
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            nodes: Vec::new(),
            devices: 1,
            steps: ENDLESS,
            save_steps: 5,
            step_ms: 100,
            save_ms: 50,
            run_flags: String::new(),
            flags: String::new(),
            shell: String::new(),
        }
    }

    /// Starts it.
    pub(crate) fn start(self, cluster: &mut Cluster) -> Trainer {
        let dir = cluster.path(self.name);
        let trainer = Trainer { training: self.clone(), dir };
        let ranks = self.nodes.len().max(1);
        for rank in 0..ranks {
            let mut flags = format!(
                "--resource nvidia.com/gpu={} --checkpoint-dir {} {}",
                self.devices,
                trainer.dir.display(),
                self.run_flags
            );
            if let Some(node) = self.nodes.get(rank) {
                flags.push_str(&format!(" --nnodes {ranks} --node-rank {rank} --node {node}"));
            }
            let command = trainer.command();
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            cluster.run(self.name, &flags, &words);
        }
        trainer
    }
}

/// A trainer that was started.
#[derive(Debug)]
pub(crate) struct Trainer {
    pub(crate) training: Training,
    /// Its checkpoints.
    pub(crate) dir: PathBuf,
}

impl Trainer {
    fn command(&self) -> Vec<String> {
        let t = &self.training;
        let mut command: Vec<String> = Vec::new();
        if !t.shell.is_empty() {
            let script = format!("{}\nexec \"$@\"", t.shell);
            command.extend(["sh", "-c", &script, "shell"].map(str::to_owned));
        }
        command.extend([SLUICE.to_owned(), "demo-train".to_owned()]);
        let mut flag = |name: &str, value: String| command.extend([name.to_owned(), value]);
        flag("--steps", t.steps.to_string());
        flag("--save-steps", t.save_steps.to_string());
        flag("--step-ms", t.step_ms.to_string());
        flag("--save-ms", t.save_ms.to_string());
        flag("--startup-ms", "0".to_owned());
        flag("--log", self.log().display().to_string());
        flag("--signal-log", self.signal_log().display().to_string());
        command.extend(t.flags.split_whitespace().map(str::to_owned));
        command
    }

    fn log(&self) -> PathBuf {
        self.dir.with_extension("log")
    }

    fn signal_log(&self) -> PathBuf {
        self.dir.with_extension("signals")
    }

    /// What it has logged, all ranks and starts together, oldest first.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The logged events of this name.
    pub(crate) fn events_named(&self, event: &str) -> Vec<Value> {
        self.events().into_iter().filter(|e| e["event"] == event).collect()
    }

    /// From which step each start of rank 0 resumed; `None`: from nothing.
    pub(crate) fn resumed_from(&self) -> Vec<Option<u64>> {
        let starts = self.events_named("started").into_iter().filter(|e| e["rank"] == 0);
        starts.map(|e| e["resumed_from"].as_u64()).collect()
    }

    /// The last step that rank 0 logged.
    pub(crate) fn last_step(&self) -> u64 {
        let steps = self.events_named("step").into_iter().filter(|e| e["rank"] == 0);
        steps.filter_map(|e| e["step"].as_u64()).next_back().unwrap_or(0)
    }

    /// Signals that all ranks and starts together have handled, oldest first.
    pub(crate) fn signals(&self) -> Vec<i32> {
        let text = std::fs::read_to_string(self.signal_log()).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// How often `signal` was handled.
    pub(crate) fn count_of(&self, signal: Signal) -> usize {
        self.signals().into_iter().filter(|s| *s == signal as i32).count()
    }

    /// The main process of a start of a rank.
    pub(crate) fn pid(&self, cluster: &Cluster, attempt: u32, rank: u32) -> Pid {
        let worker = format!("{}/{attempt}/{rank}", self.training.name);
        let pids = cluster.worker_pids(&worker);
        *pids.first().unwrap_or_else(|| panic!("worker {worker} does not run"))
    }

    /// Makes it save now, as a person would: by USR1 (needs `--on-usr1 save`). Returns when it has.
    pub(crate) fn save_now(&self, cluster: &Cluster, attempt: u32) {
        let before = self.events_named("saved").len();
        kill(self.pid(cluster, attempt, 0), Signal::SIGUSR1).unwrap();
        cluster.wait("a save that was asked for", |_| {
            (self.events_named("saved").len() > before).then_some(())
        });
    }

    /// Makes the arbiter believe that the next periodic checkpoint is at least `interval_ms` away: two saves that were
    /// asked for, that far apart. Then waits until asking for another is worth it: until more work is unsaved than a
    /// step and a save take. A drain with a deadline well below the interval has to use the save signal then. Needs
    /// `--on-usr1 save` and `save_steps: 0`.
    pub(crate) fn make_boundaries_rare(&self, cluster: &Cluster, interval_ms: u64) {
        let name = self.training.name;
        let attempt = cluster.wait_phase(name, Phase::Running).attempt;
        cluster.wait("some steps", |_| (self.last_step() >= 3).then_some(()));
        loop {
            self.save_now(cluster, attempt);
            let profile = cluster.wait("the save to be seen", |cluster| {
                let workload = cluster.workload(name)?;
                let step = workload.checkpoint.as_ref().map_or(0, |c| c.step);
                (Some(&step) == self.complete_checkpoints().last()).then_some(workload.profile?)
            });
            if profile.save_interval_ms >= Some(interval_ms) && profile.save_ms.is_some() {
                let cost_ms = profile.step_ms.unwrap_or(0) + profile.save_ms.unwrap_or(0);
                return self.wait_age(cluster, cost_ms + 300);
            }
            self.wait_age(cluster, interval_ms);
        }
    }

    /// Waits until so much is unsaved that waiting for the next checkpoint is better than the last one.
    pub(crate) fn wait_unsaved(&self, cluster: &Cluster) {
        let name = self.training.name;
        cluster.wait("unsaved work", |cluster| {
            let workload = cluster.workload(name)?;
            let step_ms = workload.profile?.step_ms?;
            (workload.checkpoint_age_ms? >= step_ms + 100).then_some(())
        });
    }

    /// Waits until the newest checkpoint is `age_ms` old.
    fn wait_age(&self, cluster: &Cluster, age_ms: u64) {
        cluster.wait(&format!("the checkpoint to be {age_ms} ms old"), |cluster| {
            let age = cluster.workload(self.training.name)?.checkpoint_age_ms?;
            (age >= age_ms).then_some(())
        });
    }

    /// Steps of the complete checkpoints that are there, ascending, by the trainer's own rule: the seal.
    pub(crate) fn complete_checkpoints(&self) -> Vec<u64> {
        self.checkpoints().into_iter().filter(|(_, whole)| *whole).map(|(step, _)| step).collect()
    }

    /// Steps of all checkpoints that are there, ascending, with whether they are complete.
    pub(crate) fn checkpoints(&self) -> Vec<(u64, bool)> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut found: Vec<(u64, bool)> = entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let step = name.strip_prefix("checkpoint-")?.parse().ok()?;
                Some((step, entry.path().join("trainer_state.json").exists()))
            })
            .collect();
        found.sort_unstable();
        found
    }

    /// Runs the same training to its end without any Sluice, as fast as it goes; its directory.
    pub(crate) fn alone(&self, cluster: &Cluster) -> PathBuf {
        let dir = cluster.path("alone");
        let mut command = cluster.command(SLUICE);
        command.args(["demo-train", "--step-ms", "0", "--save-ms", "0", "--startup-ms", "0"]);
        command.args(["--steps", &self.training.steps.to_string(), "--save-steps", "0"]);
        let mut process = cluster.spawn("alone", command.arg("--output-dir").arg(&dir));
        assert_eq!(process.exit_code(), Some(0), "{}", process.tail());
        dir
    }

    /// Fails unless every step so far had the very loss of the same step of a run that nobody disturbed: then the
    /// weights, the optimizer and the place in the data came through.
    pub(crate) fn assert_undisturbed(&self) {
        let steps = self.events_named("step");
        let undisturbed = undisturbed();
        for event in steps.iter().filter(|e| e["rank"] == 0) {
            let step = usize::try_from(event["step"].as_u64().unwrap()).unwrap();
            let Some(expected) = undisturbed.get(step - 1) else { continue };
            assert_eq!(event["loss"], *expected, "step {step}: {:?}", self.resumed_from());
        }
    }

    /// Fails unless the training was started twice, the second time from its newest checkpoint as it was when
    /// [`Trainer::complete_checkpoints`] was asked for `newest`, which is `saved` or later.
    pub(crate) fn assert_resumed(&self, saved: u64, newest: u64) {
        assert!(newest >= saved, "step {saved} was saved and only {newest} is there");
        assert_eq!(self.resumed_from(), [None, Some(newest)]);
        self.assert_undisturbed();
    }

    /// Step of the newest complete checkpoint.
    pub(crate) fn newest(&self) -> u64 {
        *self.complete_checkpoints().last().expect("a complete checkpoint")
    }
}

/// Losses of the first steps of a training without any disturbance.
fn undisturbed() -> &'static [Value] {
    const STEPS: usize = 60;
    static LOSSES: OnceLock<Vec<Value>> = OnceLock::new();
    LOSSES.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut command = Command::new(SLUICE);
        command.args(["demo-train", "--step-ms", "0", "--save-ms", "0", "--startup-ms", "0"]);
        command.args(["--save-steps", "0", "--rank", "0", "--world-size", "1"]);
        command.args(["--steps", &ENDLESS.to_string(), "--log"]).arg(&log);
        command.arg("--output-dir").arg(dir.path().join("out"));
        let mut process = Process::start("undisturbed", &mut command, dir.path());
        let losses = wait_for("the training that nobody disturbs", || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            let events = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let steps = events.filter(|e| e["event"] == "step").map(|e| e["loss"].clone());
            let losses: Vec<Value> = steps.take(STEPS).collect();
            (losses.len() == STEPS).then_some(losses)
        });
        process.kill();
        losses
    })
}
