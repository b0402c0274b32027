//! What the trainer says about itself: its log, read as it grows.
//!
//! One JSON line per event. Rank 0 speaks for the gang, whose ranks do every step together.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::failure::Failure;

/// Most that is read of the log at once; the rest is read at the next look. Unit: bytes.
const READ_BYTES_MAX: u64 = 1 << 20;

/// A step, and when it was done on the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) step: u64,
    /// Unit: ms since 1970.
    pub(super) unix_ms: u64,
}

/// The end of a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Finish {
    pub(super) step: u64,
    pub(super) loss: f32,
    /// The same, bit for bit.
    pub(super) loss_bits: u32,
}

/// One start of the trainer.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Run {
    /// Step of the checkpoint that it began with; `None` from scratch.
    pub(super) resumed_from: Option<u64>,
    pub(super) first_step: Option<Point>,
    pub(super) last_step: Option<Point>,
    pub(super) last_loss: Option<f32>,
    /// Checkpoints that it has written, oldest first.
    pub(super) saved: Vec<Point>,
    pub(super) finished: Option<Finish>,
}

impl Run {
    /// The last step done: of this run, or of the checkpoint that it began with.
    pub(super) fn step(&self) -> u64 {
        self.last_step.map_or(self.resumed_from.unwrap_or(0), |p| p.step)
    }
}

/// Everything of interest in the log so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Training {
    /// Starts of the trainer, oldest first.
    pub(super) runs: Vec<Run>,
}

#[derive(Debug, Deserialize)]
struct Line {
    event: String,
    rank: u64,
    unix_ms: u64,
    resumed_from: Option<u64>,
    step: Option<u64>,
    loss: Option<f32>,
    loss_bits: Option<u32>,
}

impl Training {
    /// The newest start.
    pub(super) fn last_run(&self) -> Option<&Run> {
        self.runs.last()
    }

    /// Takes in one line.
    ///
    /// # Errors
    /// It is not one of the trainer's.
    fn take(&mut self, line: &str) -> Result<(), String> {
        let line: Line = serde_json::from_str(line).map_err(|e| e.to_string())?;
        if line.rank != 0 {
            return Ok(());
        }
        if line.event == "started" {
            self.runs.push(Run { resumed_from: line.resumed_from, ..Run::default() });
            return Ok(());
        }
        let run = self.runs.last_mut().ok_or("an event before the first start")?;
        let step = line.step.ok_or("an event without a step")?;
        let point = Point { step, unix_ms: line.unix_ms };
        match line.event.as_str() {
            "step" => {
                run.first_step.get_or_insert(point);
                run.last_step = Some(point);
                run.last_loss = line.loss;
            }
            "saved" => run.saved.push(point),
            "finished" => {
                let loss_bits = line.loss_bits.ok_or("an end without its loss")?;
                run.finished = Some(Finish { step, loss: f32::from_bits(loss_bits), loss_bits });
            }
            // What else it tells (that it was stopped) is not needed.
            _ => {}
        }
        Ok(())
    }
}

/// The log file, read as it grows.
#[derive(Debug)]
pub(super) struct Follower {
    path: PathBuf,
    offset: u64,
    /// The beginning of a line whose end is not written yet.
    partial: Vec<u8>,
}

impl Follower {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), offset: 0, partial: Vec::new() }
    }

    /// Adds what is new to `training`. A log that is not there yet has nothing new.
    ///
    /// # Errors
    /// The log cannot be read, or holds something else than the trainer's lines.
    pub(super) fn follow(&mut self, training: &mut Training) -> Result<(), Failure> {
        let shown = self.path.display().to_string();
        let failed = |why: String| Failure::runtime(format!("trainer's log \"{shown}\": {why}"));
        match self.read_new() {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(failed(e.to_string())),
        }
        let Some(end) = self.partial.iter().rposition(|b| *b == b'\n') else { return Ok(()) };
        let rest = self.partial.split_off(end + 1);
        let whole = std::mem::replace(&mut self.partial, rest);
        for line in String::from_utf8_lossy(&whole).lines() {
            training.take(line).map_err(|why| failed(format!("{why}: {line:?}")))?;
        }
        Ok(())
    }

    fn read_new(&mut self) -> std::io::Result<()> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let read = file.take(READ_BYTES_MAX).read_to_end(&mut self.partial)?;
        self.offset += read as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
