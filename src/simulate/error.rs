//! Why a simulation could not be read or run.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a simulation could not be read or run.
#[derive(Debug, Error)]
pub enum Error {
    /// A file could not be read.
    #[error("could not read \"{}\": {source}; check the path and its permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file says something that cannot be used.
    #[error("{}: {problem}", place(path, *line))]
    Input {
        /// The file.
        path: PathBuf,
        /// The line, from 1; `None` where none is known.
        line: Option<u64>,
        /// What is wrong with which field, and how to put it right.
        problem: String,
    },
    /// The files of queues cannot be used.
    #[error("{problem}")]
    Queues {
        /// The first thing that is wrong, and how many more there are.
        problem: String,
    },
    /// The simulation went round in circles.
    #[error("the simulation was stopped at {at_ms} ms of virtual time: {problem}")]
    Endless {
        /// Virtual time. Unit: milliseconds.
        at_ms: u64,
        /// What did not end, and how to put it right.
        problem: String,
    },
}

impl Error {
    /// `problem` in the file `path`, at `line` if it is known.
    pub(super) fn input(path: &Path, line: Option<u64>, problem: impl Into<String>) -> Self {
        Self::Input { path: path.to_owned(), line, problem: problem.into() }
    }

    /// The same for an error of the YAML reader, without its picture of the source.
    pub(super) fn yaml(path: &Path, error: &serde_saphyr::Error) -> Self {
        let line = error.location().map(|location| location.line()).filter(|line| *line > 0);
        let text = error.without_snippet().to_string().replace('\n', " ");
        Self::input(path, line, text)
    }
}

fn place(path: &Path, line: Option<u64>) -> String {
    match line {
        Some(line) => format!("{}:{line}", path.display()),
        None => path.display().to_string(),
    }
}

/// Reads a text file of at most `bytes_max` bytes.
pub(super) fn read_text(path: &Path, bytes_max: u64) -> Result<String, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > bytes_max {
        let problem = format!("has {bytes} bytes, but at most {bytes_max} are read; split it");
        return Err(Error::input(path, None, problem));
    }
    std::fs::read_to_string(path).map_err(failed)
}
