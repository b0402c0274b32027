//! `sluice demo-train`: a small trainer that behaves like the fine-tuning scripts people run.
//!
//! It really trains a model on text in this repository, alone or as a gang of two or four
//! workers, saves checkpoints like the Hugging Face Trainer, and resumes from the newest one with
//! bit-identical results: the final loss has the same bits whether or not the run was interrupted
//! and however many ranks shared the work. Demonstrations and tests of draining run against it.
//! It knows nothing of Sluice beyond environment variables.
//!
//! Exit status: 0 finished, or stopped by a signal it handles · 1 failed, for instance on a
//! half-written checkpoint · 64 bad flags · 75 a peer of the gang vanished.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use fastrand::Rng;
use serde_json::json;

use checkpoint::{Layout, LogEntry, Plan, State};
use data::{Corpus, Example, Sampler};
use gang::{Gang, Identity, PeerLost, VOTE_SAVE, VOTE_STOP};
use journal::{Journal, append_to};
use optimizer::AdamW;
use signals::{OnSigterm, OnUsr1, Signals};

pub(crate) mod checkpoint;
pub(crate) mod data;
mod gang;
mod journal;
pub(crate) mod model;
mod optimizer;
mod signals;

/// Examples per step, all ranks together. A power of two, so that dividing by it is exact.
const BATCH_LEN: u8 = 64;
/// Micro-batches per step, summed as a tree: one for each accelerator of the demo's gang of two
/// workers with two each.
const GROUPS: usize = 4;
const GROUP_LEN: usize = BATCH_LEN as usize / GROUPS;

/// A peer vanished: sysexits' `EX_TEMPFAIL`, "try again later".
const EXIT_PEER_LOST: u8 = 75;
/// Bad flags: sysexits' `EX_USAGE`.
const EXIT_USAGE: u8 = 64;

/// Trains a small language model, as a stand-in for a fine-tuning job.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DemoTrainArgs {
    /// Steps to train, 1..=60000.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u16).range(1..=60_000))]
    steps: u16,
    /// Steps between checkpoints; 0 saves only at the end.
    #[arg(long, default_value_t = 10)]
    save_steps: u16,
    /// Least duration of a step, in milliseconds; 0 trains as fast as possible.
    #[arg(long, default_value_t = 150)]
    step_ms: u32,
    /// Time over which writing a checkpoint is spread, in milliseconds.
    #[arg(long, default_value_t = 300)]
    save_ms: u32,
    /// Time spent before the first step, as if loading a model, in milliseconds.
    #[arg(long, default_value_t = 1_500)]
    startup_ms: u32,
    /// Checkpoints kept; the oldest beyond are deleted.
    #[arg(long, default_value_t = 3)]
    save_total_limit: usize,
    /// Where checkpoints and the final model go.
    #[arg(long, env = "SLUICE_CHECKPOINT_DIR")]
    output_dir: PathBuf,
    /// How checkpoints are named and written.
    #[arg(long, value_enum, default_value = "hf")]
    layout: Layout,
    /// Seed of the weights and of the order of the examples.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What SIGTERM does.
    #[arg(long, value_enum, default_value = "default")]
    on_sigterm: OnSigterm,
    /// What SIGUSR1 does.
    #[arg(long, value_enum, default_value = "none")]
    on_usr1: OnUsr1,
    /// Append one JSON line per event to this file.
    #[arg(long)]
    log: Option<PathBuf>,
    /// Append the number of each handled signal to this file, one per line.
    #[arg(long)]
    signal_log: Option<PathBuf>,
    /// Unix socket where the ranks meet; by default beside the output directory.
    #[arg(long, env = "SLUICE_RENDEZVOUS")]
    rendezvous: Option<PathBuf>,
    /// This worker's number, from 0.
    #[arg(long, env = "RANK", default_value_t = 0)]
    rank: usize,
    /// Number of workers: 1, 2 or 4. The result does not depend on it.
    #[arg(long, env = "WORLD_SIZE", default_value_t = 1)]
    world_size: usize,
}

impl DemoTrainArgs {
    /// What is wrong with the flags taken together.
    fn problem(&self) -> Option<String> {
        let Self { rank, world_size, .. } = self;
        if !matches!(world_size, 1 | 2 | 4) {
            return Some(format!("--world-size is {world_size} but must be 1, 2 or 4"));
        }
        if rank >= world_size {
            return Some(format!("--rank is {rank} but must be below --world-size {world_size}"));
        }
        None
    }

    fn plan(&self) -> Plan {
        let arguments = json!({
            "max_steps": self.steps,
            "save_steps": self.save_steps,
            "save_total_limit": self.save_total_limit,
            "seed": self.seed,
            "per_device_train_batch_size": GROUP_LEN,
            "world_size": self.world_size,
        });
        Plan {
            output_dir: self.output_dir.clone(),
            layout: self.layout,
            save_time: Duration::from_millis(self.save_ms.into()),
            checkpoints_max: self.save_total_limit,
            max_steps: self.steps,
            arguments,
        }
    }

    fn rendezvous(&self) -> PathBuf {
        let beside_output = || {
            let mut path = self.output_dir.clone().into_os_string();
            path.push(".rendezvous");
            PathBuf::from(path)
        };
        self.rendezvous.clone().unwrap_or_else(beside_output)
    }
}

/// Runs `sluice demo-train`.
pub(crate) fn run(args: &DemoTrainArgs) -> ExitCode {
    if let Some(problem) = args.problem() {
        eprintln!("sluice demo-train: {problem}");
        return ExitCode::from(EXIT_USAGE);
    }
    match start(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sluice demo-train: rank {}: {error:#}", args.rank);
            let is_peer_lost = error.downcast_ref::<PeerLost>().is_some();
            if is_peer_lost { ExitCode::from(EXIT_PEER_LOST) } else { ExitCode::FAILURE }
        }
    }
}

fn start(args: &DemoTrainArgs) -> Result<()> {
    // First of all, as scripts do it on import: a signal during the long start must not kill.
    let signal_log = args.signal_log.as_deref().map(append_to).transpose()?;
    let signals = signals::install(args.on_sigterm, args.on_usr1, signal_log)?;
    train(args, &signals, true).map(drop)
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
enum Outcome {
    Finished(State),
    /// A signal asked for it; the step is the last one saved.
    Stopped(u16),
}

fn train(args: &DemoTrainArgs, signals: &Signals, prints: bool) -> Result<Outcome> {
    let output_dir = &args.output_dir;
    std::fs::create_dir_all(output_dir)
        .with_context(|| format!("could not create \"{}\"", output_dir.display()))?;
    let log = args.log.as_deref().map(append_to).transpose()?;
    let mut journal = Journal::new(log, args.rank, prints && args.rank == 0);
    std::thread::sleep(Duration::from_millis(args.startup_ms.into()));

    let (plan, corpus) = (args.plan(), Corpus::built_in());
    let mut me = Identity { rank: args.rank, world: args.world_size, step: 0 };
    if me.rank == 0 {
        checkpoint::clear_leftovers(output_dir)?;
    }
    let resumed = checkpoint::resume(&plan, me)?;
    let resumed_from = resumed.as_ref().map(|state| state.step);
    me.step = resumed_from.unwrap_or(0);
    journal.note(&format!("starting from step {}", me.step));
    let Some(gang) = Gang::join(&args.rendezvous(), me, || signals.is_stopping())? else {
        journal.event("stopped", json!({ "step": me.step }))?;
        return Ok(Outcome::Stopped(me.step));
    };
    let worker = std::env::var("SLUICE_WORKER").ok();
    let fields = json!({ "attempt": attempt(worker.as_deref()), "resumed_from": resumed_from });
    journal.event("started", fields)?;

    let (state, sampler) = match resumed {
        Some(state) => {
            let sampler = Sampler::at(state.position, corpus.len())?;
            (state, sampler)
        }
        None => fresh(args.seed, &corpus),
    };
    let trainer = Trainer { plan, corpus, sampler, state, me, gang, journal };
    trainer.run(args, signals)
}

/// The attempt in a worker's name, `<workload>/<attempt>/<rank>`.
fn attempt(worker: Option<&str>) -> Option<u64> {
    worker?.rsplit('/').nth(1)?.parse().ok()
}

fn fresh(seed: u64, corpus: &Corpus) -> (State, Sampler) {
    let mut rng = Rng::with_seed(seed);
    let weights = model::initial(&mut rng);
    let sampler = Sampler::new(rng, corpus.len());
    let position = sampler.position();
    let state = State { step: 0, weights, optimizer: AdamW::new(), position, history: Vec::new() };
    (state, sampler)
}

struct Trainer {
    plan: Plan,
    corpus: Corpus,
    sampler: Sampler,
    state: State,
    me: Identity,
    gang: Gang,
    journal: Journal,
}

impl Trainer {
    fn run(mut self, args: &DemoTrainArgs, signals: &Signals) -> Result<Outcome> {
        let steps = self.plan.max_steps;
        while self.state.step < steps {
            let votes = self.step(Duration::from_millis(args.step_ms.into()), signals)?;
            let step = self.state.step;
            let is_due = step.checked_rem(args.save_steps) == Some(0) || step == steps;
            if is_due || votes != 0 {
                self.save()?;
            }
            if votes & VOTE_STOP != 0 {
                self.journal.event("stopped", json!({ "step": step }))?;
                return Ok(Outcome::Stopped(step));
            }
        }
        if self.me.rank == 0 {
            checkpoint::export(&self.plan.output_dir, &self.state.weights)?;
        }
        // A rank that ends early looks like a failure to launchers, which then end the others.
        self.gang.barrier()?;
        let loss = self.state.history.last().map_or(f32::NAN, |entry| entry.loss);
        let fields = json!({ "step": self.state.step, "loss": loss, "loss_bits": loss.to_bits() });
        self.journal.event("finished", fields)?;
        self.journal.note(&format!("finished with loss {loss:.3}"));
        Ok(Outcome::Finished(self.state))
    }

    /// Trains one step that takes at least `pace`; returns the gang's votes.
    fn step(&mut self, pace: Duration, signals: &Signals) -> Result<u8> {
        let started = Instant::now();
        let step = self.state.step + 1;
        let share: Vec<usize> = {
            let batch = self.sampler.next_batch(BATCH_LEN.into());
            let share_len = batch.len() / self.me.world;
            batch.iter().copied().skip(self.me.rank * share_len).take(share_len).collect()
        };
        let sums = share.chunks_exact(GROUP_LEN).map(|group| {
            let examples: Vec<Example> = group.iter().map(|&i| self.corpus.example(i)).collect();
            model::gradient_and_loss(&self.state.weights, &examples)
        });
        let sums = gang::tree_sum(sums.collect());
        std::thread::sleep(pace.saturating_sub(started.elapsed()));

        // Read as late as possible, so that a signal is served at the end of its own step.
        let stop = if signals.is_stopping() { VOTE_STOP } else { 0 };
        let save = if signals.take_save() { VOTE_SAVE } else { 0 };
        let (mut mean, votes) = self.gang.reduce(sums, stop | save)?;
        for value in &mut mean {
            *value /= f32::from(BATCH_LEN);
        }
        self.apply(step, &mean)?;
        Ok(votes)
    }

    fn apply(&mut self, step: u16, mean: &[f32]) -> Result<()> {
        let (gradient, loss) = mean.split_at(model::PARAMETERS);
        let learning_rate = optimizer::learning_rate(step, self.plan.max_steps);
        let state = &mut self.state;
        state.optimizer.apply(&mut state.weights, gradient, step, learning_rate);
        state.step = step;
        state.position = self.sampler.position();
        let examples = f64::from(u32::try_from(self.corpus.len()).unwrap_or(u32::MAX));
        let epoch = f64::from(step) * f64::from(BATCH_LEN) / examples;
        state.history.push(LogEntry { epoch, learning_rate, loss: loss[0], step });
        self.journal.step(step, self.plan.max_steps, loss[0])
    }

    fn save(&mut self) -> Result<()> {
        let place = checkpoint::save(&self.plan, &self.state, self.me, &mut self.gang)?;
        let fields = json!({ "step": self.state.step, "path": display(&place) });
        self.journal.event("saved", fields)
    }
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
