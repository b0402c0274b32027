//! `sluice-arbiter replay`: runs recorded inputs again and finds the first that had another outcome.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sluice::wire::pb::record_entry::Entry;
use sluice::wire::{WireError, pb, record};
use sluice_core::arbiter::{Arbiter, Input, Output, Snapshot};
use sluice_core::unit::Time;

use super::digest;
use super::file::{Entries, ReadError};

/// Most outputs shown of a step that differs.
const OUTPUTS_SHOWN_MAX: usize = 100;

/// What a file's replay came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Every step had the outputs that were recorded.
    Same {
        /// Number of steps.
        steps: u64,
    },
    /// A step had others.
    Differs(Box<Difference>),
}

/// The first step that differs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// Its number in the file, from 1.
    pub step: u64,
    /// When it was taken.
    pub at: Time,
    /// Its input.
    pub input: Input,
    /// Number of outputs then.
    pub recorded: u32,
    /// The outputs now.
    pub outputs: Vec<Output>,
    /// Version of the arbiter that recorded it.
    pub version: String,
}

/// Why a file cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReplayError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An entry cannot be used.
    #[error("entry {entry}: {error}; use the version of sluice-arbiter that recorded it")]
    Wire {
        /// Its number in the file, from 0.
        entry: u64,
        /// Which field.
        error: WireError,
    },
    /// It does not begin with a state.
    #[error("it does not begin with a state; is it a file of the arbiter's record directory?")]
    NoStart,
}

/// Replays `files`, prints what came of each; exit status 1 if one differs or cannot be read.
pub(crate) fn main(files: &[PathBuf]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for file in files {
        let text = match replay(file) {
            Ok(Outcome::Same { steps }) => format!("{steps} inputs, same outputs"),
            Ok(Outcome::Differs(difference)) => {
                code = ExitCode::FAILURE;
                describe(&difference)
            }
            Err(error) => {
                code = ExitCode::FAILURE;
                format!("could not be replayed: {error}")
            }
        };
        // Nothing is left to do if the terminal is gone.
        let _ = writeln!(std::io::stdout(), "{}: {text}", file.display());
    }
    code
}

/// Replays one file up to the first difference.
pub(super) fn replay(path: &Path) -> Result<Outcome, ReplayError> {
    let mut entries = Entries::open(path)?;
    let Some(pb::RecordEntry { entry: Some(Entry::Start(start)) }) = entries.next()? else {
        return Err(ReplayError::NoStart);
    };
    let wire = |entry| move |error| ReplayError::Wire { entry, error };
    let mut arbiter = Arbiter::restore(Snapshot::try_from(&start).map_err(wire(0))?);
    let mut steps = 0;
    while let Some(pb::RecordEntry { entry }) = entries.next()? {
        steps += 1;
        let Some(Entry::Step(recorded)) = entry else {
            let error = WireError::new("entry", "no step", "a step");
            return Err(ReplayError::Wire { entry: steps, error });
        };
        let (at, input) = record::step_in(&recorded).map_err(wire(steps))?;
        let outputs = arbiter.step(at, input.clone());
        if digest::of(&arbiter, &outputs) != recorded.digest {
            return Ok(Outcome::Differs(Box::new(Difference {
                step: steps,
                at,
                input,
                recorded: recorded.outputs,
                outputs,
                version: start.version,
            })));
        }
    }
    Ok(Outcome::Same { steps })
}

fn describe(difference: &Difference) -> String {
    let Difference { step, at, input, recorded, outputs, version } = difference;
    let mut text = format!("input {step} at {} ms has other outputs\n  input: {input:?}\n", at.0);
    let now = outputs.len();
    let this = env!("CARGO_PKG_VERSION");
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "  recorded by version {version}: {recorded} outputs; version {this}: {now} outputs"
    );
    for output in outputs.iter().take(OUTPUTS_SHOWN_MAX) {
        let _ = writeln!(text, "    {output:?}");
    }
    text.truncate(text.trim_end().len());
    text
}
