//! What the demo trainer tells: an append-only log of JSON lines, and its standard output.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::{Value, json};

/// Opens a file for appending, creating it if need be.
///
/// # Errors
/// If the file cannot be opened; the path is named.
pub(crate) fn append_to(path: &Path) -> Result<File> {
    let opened = File::options().create(true).append(true).open(path);
    opened.with_context(|| format!("could not open \"{}\" for appending", path.display()))
}

#[derive(Serialize)]
struct StepLine {
    step: u16,
    loss: f32,
}

/// Where a rank reports its progress.
#[derive(Debug)]
pub(crate) struct Journal {
    log: Option<File>,
    rank: usize,
    /// Rank 0 alone prints, as in every distributed trainer.
    prints: bool,
    is_terminal: bool,
}

impl Journal {
    pub(crate) fn new(log: Option<File>, rank: usize, prints: bool) -> Journal {
        Journal { log, rank, prints, is_terminal: std::io::stderr().is_terminal() }
    }

    /// Appends `{"event":…, …}` to the log, together with the rank, the process and the time.
    ///
    /// Each line is one `write`, so that a line that was written survives the death of the
    /// process and lines of several ranks never mix.
    ///
    /// # Errors
    /// If the log cannot be written.
    pub(crate) fn event(&mut self, event: &str, fields: Value) -> Result<()> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis());
        let mut line = json!({ "event": event, "rank": self.rank, "pid": std::process::id() });
        line["unix_ms"] = json!(u64::try_from(now_ms).unwrap_or(u64::MAX));
        if let (Some(line), Value::Object(fields)) = (line.as_object_mut(), fields) {
            line.extend(fields);
        }
        log.write_all(format!("{line}\n").as_bytes()).context("could not write the --log file")
    }

    /// Reports one step: an event, a JSON line on standard output, and a line for people on
    /// standard error where that is a terminal.
    ///
    /// # Errors
    /// If the log cannot be written.
    pub(crate) fn step(&mut self, step: u16, steps: u16, loss: f32) -> Result<()> {
        if self.prints {
            let line = serde_json::to_string(&StepLine { step, loss })?;
            // A reader that went away ends the printing, never the training.
            self.prints = writeln!(std::io::stdout(), "{line}").is_ok();
            if self.is_terminal {
                let _ = writeln!(std::io::stderr(), "step {step:>4} of {steps}: loss {loss:.3}");
            }
        }
        self.event("step", json!({ "step": step, "loss": loss }))
    }

    /// Tells people something worth a line.
    pub(crate) fn note(&self, text: &str) {
        if self.prints && self.is_terminal {
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }
}
