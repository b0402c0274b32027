//! Checkpoints of the demo trainer, laid out and written in the order of the Hugging Face Trainer.
//!
//! | order | file | written by |
//! |---|---|---|
//! | 1 | `config.json`, `model.safetensors`, `training_args.bin`, `optimizer.pt`, `scheduler.pt` | rank 0 |
//! | 1 | `rng_state_<rank>.pth` (`rng_state.pth` in a gang of one) | every rank |
//! | 2 | all ranks wait for each other | |
//! | 3 | `trainer_state.json` | rank 0 |
//! | 4 | all ranks wait for each other, so that none ends or goes on before it is complete | |
//!
//! As there, `checkpoint-<step>` is written in place: a process that dies on the way leaves half
//! a checkpoint, and the next one fails on it, because the highest number is taken unseen. The
//! other layout writes `step-<step>.tmp` and renames it when complete. The names end like
//! PyTorch's, the contents are safetensors and JSON.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::data::Position;
use super::gang::{Gang, Identity};
use super::model;
use super::optimizer::AdamW;

const EXP_AVG: &str = "exp_avg.";
const EXP_AVG_SQ: &str = "exp_avg_sq.";
const SEAL: &str = "trainer_state.json";
/// Pieces into which a paced write is cut, all files together: enough to look continuous to
/// somebody who looks ten times a second.
const PIECES: usize = 64;

/// How a checkpoint comes to its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Layout {
    /// `checkpoint-<step>`, written in place.
    Hf,
    /// `step-<step>.tmp`, renamed to `step-<step>` when complete.
    Rename,
}

impl Layout {
    fn prefix(self) -> &'static str {
        match self {
            Layout::Hf => "checkpoint-",
            Layout::Rename => "step-",
        }
    }
}

/// One line of the training history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LogEntry {
    pub(crate) epoch: f64,
    pub(crate) learning_rate: f32,
    pub(crate) loss: f32,
    pub(crate) step: u16,
}

/// Everything a run needs to go on as if it had never stopped.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    /// Steps done.
    pub(crate) step: u16,
    pub(crate) weights: Vec<f32>,
    pub(crate) optimizer: AdamW,
    pub(crate) position: Position,
    pub(crate) history: Vec<LogEntry>,
}

#[derive(Serialize, Deserialize)]
struct Scheduler {
    last_epoch: u16,
}

#[derive(Serialize, Deserialize)]
struct TrainerState {
    epoch: f64,
    global_step: u16,
    max_steps: u16,
    log_history: Vec<LogEntry>,
}

/// The settings of the run that a checkpoint depends on.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) output_dir: PathBuf,
    pub(crate) layout: Layout,
    /// Time over which rank 0's files are spread.
    pub(crate) save_time: Duration,
    /// Checkpoints kept; the oldest beyond are deleted.
    pub(crate) checkpoints_max: usize,
    pub(crate) max_steps: u16,
    /// The command line's values, for `training_args.bin`.
    pub(crate) arguments: serde_json::Value,
}

type NamedFile = (String, Vec<u8>);

/// Saves `state` together with all other ranks and returns where.
///
/// # Errors
/// If a file cannot be written or a peer is lost; the checkpoint is then incomplete.
pub(crate) fn save(plan: &Plan, state: &State, me: Identity, gang: &mut Gang) -> Result<PathBuf> {
    let name = format!("{}{}", plan.layout.prefix(), state.step);
    let place = plan.output_dir.join(&name);
    let written = match plan.layout {
        Layout::Hf => place.clone(),
        Layout::Rename => plan.output_dir.join(format!("{name}.tmp")),
    };
    fs::create_dir_all(&written)
        .with_context(|| format!("could not create {}", quoted(&written)))?;
    write_files(&written, &files(plan, state, me)?, plan.save_time)?;
    gang.barrier()?;
    if me.rank == 0 {
        write_files(&written, &[seal(plan, state)?], Duration::ZERO)?;
        if plan.layout == Layout::Rename {
            rename(&written, &place)?;
        }
        rotate(plan, state.step)?;
    }
    gang.barrier()?;
    Ok(place)
}

/// The files this rank writes before the barrier, in their order.
fn files(plan: &Plan, state: &State, me: Identity) -> Result<Vec<NamedFile>> {
    let mut files = Vec::new();
    let mut file = |name: &str, bytes| files.push((name.to_owned(), bytes));
    if me.rank == 0 {
        file("config.json", serde_json::to_vec_pretty(&model::config())?);
        file("model.safetensors", model::to_safetensors(&[("", &state.weights)])?);
        file("training_args.bin", serde_json::to_vec(&plan.arguments)?);
        let AdamW { exp_avg, exp_avg_sq } = &state.optimizer;
        let memory: [(&str, &[f32]); 2] = [(EXP_AVG, exp_avg), (EXP_AVG_SQ, exp_avg_sq)];
        file("optimizer.pt", model::to_safetensors(&memory)?);
        file("scheduler.pt", serde_json::to_vec(&Scheduler { last_epoch: state.step })?);
    }
    file(&rng_state_name(me), serde_json::to_vec(&state.position)?);
    Ok(files)
}

fn rng_state_name(me: Identity) -> String {
    if me.world == 1 { "rng_state.pth".to_owned() } else { format!("rng_state_{}.pth", me.rank) }
}

/// The file that is written last.
fn seal(plan: &Plan, state: &State) -> Result<NamedFile> {
    let seal = TrainerState {
        epoch: state.history.last().map_or(0.0, |entry| entry.epoch),
        global_step: state.step,
        max_steps: plan.max_steps,
        log_history: state.history.clone(),
    };
    Ok((SEAL.to_owned(), serde_json::to_vec_pretty(&seal)?))
}

/// Writes the files one after another, in pieces spread evenly over `time`.
fn write_files(directory: &Path, files: &[NamedFile], time: Duration) -> Result<()> {
    let total: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    let piece_len = total.div_ceil(PIECES).max(1);
    let pieces: usize = files.iter().map(|(_, bytes)| bytes.len().div_ceil(piece_len)).sum();
    let pause = time / u32::try_from(pieces.max(1)).unwrap_or(u32::MAX);
    for (name, bytes) in files {
        let path = directory.join(name);
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&path)?;
            for piece in bytes.chunks(piece_len) {
                file.write_all(piece)?;
                file.flush()?;
                thread::sleep(pause);
            }
            file.sync_all()
        };
        write().with_context(|| format!("could not write {}", quoted(&path)))?;
    }
    Ok(())
}

fn rename(written: &Path, place: &Path) -> Result<()> {
    let rename = || -> std::io::Result<()> {
        File::open(written)?.sync_all()?;
        fs::rename(written, place)
    };
    rename().with_context(|| format!("could not rename {} to {}", quoted(written), quoted(place)))
}

/// Deletes the oldest checkpoints beyond the limit, never the one just written.
fn rotate(plan: &Plan, just_written: u16) -> Result<()> {
    let mut found = checkpoints(&plan.output_dir, plan.layout)?;
    found.retain(|(step, _)| *step != just_written);
    let surplus = (found.len() + 1).saturating_sub(plan.checkpoints_max.max(1));
    for (_, path) in found.iter().take(surplus) {
        fs::remove_dir_all(path).with_context(|| format!("could not delete {}", quoted(path)))?;
    }
    Ok(())
}

/// All checkpoints by their names alone, complete or not, in the order of their steps.
fn checkpoints(output_dir: &Path, layout: Layout) -> Result<Vec<(u16, PathBuf)>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(output_dir);
    for entry in entries.with_context(|| format!("could not list {}", quoted(output_dir)))? {
        let path = entry.with_context(|| format!("could not list {}", quoted(output_dir)))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let digits = name.and_then(|name| name.strip_prefix(layout.prefix()));
        if let Some(step) = digits.and_then(|digits| digits.parse().ok()).filter(|_| path.is_dir())
        {
            found.push((step, path));
        }
    }
    found.sort();
    Ok(found)
}

/// Reads the checkpoint with the highest number; `None` where there is none.
///
/// # Errors
/// If it is incomplete. Older ones are deliberately not tried: no common trainer does.
pub(crate) fn resume(plan: &Plan, me: Identity) -> Result<Option<State>> {
    let Some((step, path)) = checkpoints(&plan.output_dir, plan.layout)?.pop() else {
        return Ok(None);
    };
    let state = load(&path, step, me).with_context(|| {
        let path = quoted(&path);
        format!("could not resume from {path} (delete it to resume from the one before)")
    })?;
    Ok(Some(state))
}

fn load(path: &Path, step: u16, me: Identity) -> Result<State> {
    let model = read(path, "model.safetensors")?;
    let weights =
        model::from_safetensors(&model, "").context("\"model.safetensors\" is damaged")?;
    let memory = read(path, "optimizer.pt")?;
    let memory =
        |prefix| model::from_safetensors(&memory, prefix).context("\"optimizer.pt\" is damaged");
    let optimizer = AdamW { exp_avg: memory(EXP_AVG)?, exp_avg_sq: memory(EXP_AVG_SQ)? };
    let scheduler: Scheduler = read_json(path, "scheduler.pt")?;
    let position = read_json(path, &rng_state_name(me))?;
    let seal: TrainerState = read_json(path, SEAL)?;
    ensure!(
        seal.global_step == step && scheduler.last_epoch == step,
        "its name says step {step}, \"{SEAL}\" {} and \"scheduler.pt\" {}",
        seal.global_step,
        scheduler.last_epoch
    );
    Ok(State { step, weights, optimizer, position, history: seal.log_history })
}

fn read(directory: &Path, name: &str) -> Result<Vec<u8>> {
    fs::read(directory.join(name)).with_context(|| format!("\"{name}\" cannot be read"))
}

fn read_json<T: DeserializeOwned>(directory: &Path, name: &str) -> Result<T> {
    let bytes = read(directory, name)?;
    serde_json::from_slice(&bytes).with_context(|| format!("\"{name}\" is damaged"))
}

/// Removes what an earlier attempt left half-written under a temporary name.
///
/// # Errors
/// If a directory cannot be listed or deleted.
pub(crate) fn clear_leftovers(output_dir: &Path) -> Result<()> {
    let listed = fs::read_dir(output_dir);
    for entry in listed.with_context(|| format!("could not list {}", quoted(output_dir)))? {
        let path = entry.with_context(|| format!("could not list {}", quoted(output_dir)))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(Layout::Rename.prefix()) && name.ends_with(".tmp") {
            fs::remove_dir_all(&path)
                .with_context(|| format!("could not delete {}", quoted(&path)))?;
        }
    }
    Ok(())
}

/// Writes the finished model to `<output_dir>/final`.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn export(output_dir: &Path, weights: &[f32]) -> Result<()> {
    let place = output_dir.join("final");
    fs::create_dir_all(&place).with_context(|| format!("could not create {}", quoted(&place)))?;
    let config = serde_json::to_vec_pretty(&model::config())?;
    let weights = model::to_safetensors(&[("", weights)])?;
    let files = [("config.json".to_owned(), config), ("model.safetensors".to_owned(), weights)];
    write_files(&place, &files, Duration::ZERO)
}

fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display())
}

#[cfg(test)]
mod tests;
