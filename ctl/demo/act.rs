//! The story: serving and fine-tuning share six accelerators, then serving needs two more.
//!
//! It is played the same way under both policies; only a flag of the arbiter differs. What triggers
//! it is the trainer's own log, so that serving comes at the same step in both.

use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::narrator::{Narrator, Who};
use super::observe::Scene;
use super::setting::{
    self, ASK_STEP, GANG_DEVICES, Policy, SAVE_MS, SAVE_STEPS, SERVER_STARTUP_MS, START_PATIENCE,
    STEP_MS, STEPS, TRAIN_PATIENCE, TRAINER, TRAINER_STARTUP_MS, trainer_flags, words,
};
use super::stage::{Role, Stage};
use super::training::{Finish, Run};
use super::verdict::ActRecord;
use crate::failure::Failure;
use crate::text::{safe, span};
use crate::view::drain::DrainView;

/// How long the second server stays.
const SERVING: Duration = Duration::from_millis(1_500);

/// How long a server may take to be up and a drained gang to be back. Both take about two seconds.
const DRAIN_PATIENCE: Duration = Duration::from_secs(20);
/// How long an answer may take once a server is ready.
const ANSWER_PATIENCE: Duration = Duration::from_secs(3);
/// What a server is asked to continue.
const QUESTION: &str = "fn main() {";
/// Longest answer that is read. Unit: bytes.
const ANSWER_BYTES_MAX: u64 = 4_096;

/// Plays the whole act; what was observed. Its programs still run.
pub(super) async fn perform(
    stage: &mut Stage,
    narrator: &mut Narrator,
    policy: Policy,
) -> Result<ActRecord, Failure> {
    narrator.heading(policy.heading());
    stage.next_act(policy.name())?;
    let mut scene = Scene::new(stage, narrator, STEPS);
    let places = setting::bring_up(&mut scene, policy).await?;
    let mut act = Act { scene, policy, places };
    let record = act.play().await?;
    drop(act);
    narrator.clear_live();
    Ok(record)
}

struct Act<'a> {
    scene: Scene<'a>,
    policy: Policy,
    /// Where the arbiter and the agents are, as flags of `sluice run`.
    places: Vec<String>,
}

impl Act<'_> {
    async fn play(&mut self) -> Result<ActRecord, Failure> {
        self.you(
            "starts one replica of the server: 2 GPUs, priority 30, a model that knows nothing yet",
        );
        self.serve("serve-1", None)?;
        self.first_answer("serve-1").await?;
        self.you(
            "starts fine-tuning: two workers of 2 GPUs, priority 20, a checkpoint every 10 steps",
        );
        self.train()?;
        let asked_at_step = self.until_step(ASK_STEP).await?;
        self.you(&format!(
            "scales serving from 1 to 2 replicas; the trainer has done step {asked_at_step}"
        ));
        let model = format!("checkpoint-{}", ASK_STEP / SAVE_STEPS * SAVE_STEPS);
        let submitted = Instant::now();
        self.serve("serve-2", Some(self.checkpoints().join(&model)))?;
        let serving_answer = self.first_answer("serve-2").await?;
        let serving_wait_ms = ms(submitted.elapsed());
        let waited = format!(
            "serve-2 (with the model of {model}) answered {} after it was asked for",
            span(serving_wait_ms)
        );
        self.scene.narrator.say(Who::Server, &waited);
        self.scene.linger(SERVING).await?;
        self.you("scales serving back from 2 to 1");
        self.scale_down().await?;
        self.until_resumed().await?;
        let finish = self.until_finished().await?;
        let drain = self.scene.drain().await?;
        let seen = Seen { asked_at_step, serving_wait_ms, serving_answer, finish };
        self.record(seen, drain)
    }

    fn you(&mut self, text: &str) {
        self.scene.narrator.say(Who::You, text);
    }

    fn checkpoints(&self) -> PathBuf {
        self.scene.stage.act_dir().join("checkpoints")
    }

    /// Starts `sluice run` with `flags`, and `command` as its command.
    fn run(&mut self, name: &str, flags: Vec<String>, command: Vec<String>) -> Result<(), Failure> {
        let program = self.scene.stage.programs.sluice.clone();
        let mut all = words("run --queue lq --resource nvidia.com/gpu=2");
        all.extend(self.places.iter().cloned());
        all.extend(flags);
        all.extend(["--".to_owned(), program.display().to_string()]);
        all.extend(command);
        self.scene.stage.start(name, Role::Launcher, &program, &all)
    }

    fn serve(&mut self, name: &str, model: Option<PathBuf>) -> Result<(), Failure> {
        let flags = words(&format!("--name {name} --priority 30 --drain-deadline 20s"));
        let mut command = words(&format!("demo-serve --startup-ms {SERVER_STARTUP_MS}"));
        if let Some(model) = model {
            command.extend(["--model".to_owned(), model.display().to_string()]);
        }
        self.run(name, flags, command)
    }

    fn train(&mut self) -> Result<(), Failure> {
        let log = self.scene.stage.act_dir().join("training.jsonl");
        for rank in 0..2 {
            let mut flags = words(&format!(
                "--name {TRAINER} --priority 20 --nnodes 2 --node-rank {rank} \
                 --checkpoint-format hugging-face --checkpoint-dir"
            ));
            flags.push(self.checkpoints().display().to_string());
            let command = trainer_flags(&log, STEP_MS, SAVE_MS, TRAINER_STARTUP_MS);
            self.run(&rank_name(rank), flags, command)?;
        }
        Ok(())
    }

    /// Waits until the server answers a question; the answer.
    async fn first_answer(&mut self, name: &str) -> Result<String, Failure> {
        let what = format!("{name} gets its GPUs and starts");
        let look = |scene: &mut Scene<'_>| {
            still_runs(scene, name)?;
            Ok(scene.stage.said(name, "ready "))
        };
        let address = self.scene.until(&what, name, DRAIN_PATIENCE, look).await?;
        let asking = timeout(ANSWER_PATIENCE, ask(&address, QUESTION));
        let answer = asking.await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        let answer = answer.map_err(|e| {
            let tail = self.scene.stage.tail(name);
            Failure::runtime(format!("{name} at {} gave no answer: {e}{tail}", safe(&address)))
        })?;
        let shown: String = safe(&answer).chars().take(48).collect();
        self.scene
            .narrator
            .say(Who::Server, &format!("{name} answers \"fn main() {{\" with {shown:?}"));
        Ok(answer)
    }

    async fn until_step(&mut self, step: u64) -> Result<u64, Failure> {
        let what = format!("the trainer does step {step}");
        let look = |scene: &mut Scene<'_>| {
            ranks_still_run(scene)?;
            let done = scene.training.last_run().map_or(0, Run::step);
            Ok((done >= step).then_some(done))
        };
        self.scene.until(&what, &rank_name(0), TRAIN_PATIENCE, look).await
    }

    async fn scale_down(&mut self) -> Result<(), Failure> {
        self.scene.stage.terminate("serve-2");
        let look = |scene: &mut Scene<'_>| Ok(scene.stage.ended("serve-2"));
        let status = self.scene.until("serve-2 ends", "serve-2", START_PATIENCE, look).await?;
        if status.success() {
            return Ok(());
        }
        let tail = self.scene.stage.tail("serve-2");
        Err(Failure::runtime(format!("serve-2 did not end well, {status}{tail}")))
    }

    async fn until_resumed(&mut self) -> Result<(), Failure> {
        let look = |scene: &mut Scene<'_>| {
            ranks_still_run(scene)?;
            let resumed = scene.training.runs.get(1).map(|run| run.resumed_from);
            Ok(resumed)
        };
        let what = "the trainer gets its GPUs back and starts again";
        let from = self.scene.until(what, &rank_name(0), DRAIN_PATIENCE, look).await?;
        let last = self.scene.training.runs[0].step();
        let from = from.map_or("the very beginning".to_owned(), |step| format!("step {step}"));
        let text = format!("starts again from {from}; it had been at step {last}");
        self.scene.narrator.say(Who::Trainer, &text);
        Ok(())
    }

    async fn until_finished(&mut self) -> Result<Finish, Failure> {
        let look = |scene: &mut Scene<'_>| {
            let mut are_over = true;
            for rank in 0..2 {
                match scene.stage.ended(&rank_name(rank)) {
                    Some(status) if !status.success() => return Err(rank_failed(scene, rank)),
                    Some(_) => {}
                    None => are_over = false,
                }
            }
            let finish = scene.training.last_run().and_then(|run| run.finished);
            Ok(finish.filter(|_| are_over))
        };
        let finish =
            self.scene.until("the training ends", &rank_name(0), TRAIN_PATIENCE, look).await?;
        let (loss, bits) = (finish.loss, finish.loss_bits);
        let text = format!("{} steps done, loss {loss:.6} (bits {bits:#010x})", finish.step);
        self.scene.narrator.say(Who::Trainer, &text);
        Ok(finish)
    }

    fn record(&mut self, seen: Seen, drain: DrainView) -> Result<ActRecord, Failure> {
        let runs = &self.scene.training.runs;
        let [first, second] = runs.as_slice() else {
            let starts = runs.len();
            let what = format!("the trainer was started {starts} times, where the story has two");
            return Err(Failure::runtime(what));
        };
        let held_twice = self.scene.held_twice.iter().cloned().collect();
        Ok(ActRecord {
            policy: self.policy.name(),
            devices: GANG_DEVICES,
            asked_at_step: seen.asked_at_step,
            last_step: first.last_step,
            resumed_from_step: second.resumed_from,
            resumed_from: first.saved.iter().copied().find(|p| Some(p.step) == second.resumed_from),
            first_new_step: second.first_step,
            serving_wait_ms: seen.serving_wait_ms,
            serving_answer: seen.serving_answer,
            finish: seen.finish,
            samples: self.scene.samples,
            held_twice,
            left_running: Vec::new(),
            drain,
        })
    }
}

/// What the story itself has noted.
struct Seen {
    asked_at_step: u64,
    serving_wait_ms: u64,
    serving_answer: String,
    finish: Finish,
}

fn rank_name(rank: u32) -> String {
    format!("{TRAINER}-{rank}")
}

fn rank_failed(scene: &mut Scene<'_>, rank: u32) -> Failure {
    let name = rank_name(rank);
    let tail = scene.stage.tail(&name);
    Failure::runtime(format!("rank {rank} of the training failed{tail}"))
}

fn still_runs(scene: &mut Scene<'_>, name: &str) -> Result<(), Failure> {
    let Some(status) = scene.stage.ended(name) else { return Ok(()) };
    let tail = scene.stage.tail(name);
    Err(Failure::runtime(format!("{name} ended too early, {status}{tail}")))
}

fn ranks_still_run(scene: &mut Scene<'_>) -> Result<(), Failure> {
    (0..2).try_for_each(|rank| still_runs(scene, &rank_name(rank)))
}

/// Asks a server for the continuation of a line.
async fn ask(address: &str, question: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address.trim()).await?;
    stream.write_all(format!("{question}\n").as_bytes()).await?;
    let mut answer = String::new();
    let mut reader = BufReader::new(stream).take(ANSWER_BYTES_MAX);
    reader.read_line(&mut answer).await?;
    if answer.trim().is_empty() {
        return Err(std::io::Error::other("the answer is empty"));
    }
    Ok(answer.trim_end().to_owned())
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
