//! Printing: text to standard output, values as JSON or YAML.

use std::io::{ErrorKind, Write as _};

use serde::Serialize;

use crate::failure::Failure;
use crate::paint;

/// How a list is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// The same with more columns.
    Wide,
    /// JSON, with units in the names of the fields; `apiVersion` names the schema.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Version of the schema of everything that is printed as JSON or YAML. Fields are only added.
pub(crate) const API_VERSION: &str = "sluice.dev/v1";

/// One thing as JSON or YAML.
#[derive(Debug, Serialize)]
pub(crate) struct Document<T> {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    value: T,
}

impl<T: Serialize> Document<T> {
    /// `value` as a thing of `kind`.
    pub(crate) fn new(kind: &'static str, value: T) -> Self {
        Self { api_version: API_VERSION, kind, value }
    }
}

/// Several things as JSON or YAML.
#[derive(Debug, Serialize)]
pub(crate) struct Items<T> {
    /// The things, ordered by name.
    pub(crate) items: Vec<T>,
}

/// `value` as text in `format`; `None` if the format is one for people.
pub(crate) fn encode<T: Serialize>(format: Format, value: &T) -> Result<Option<String>, Failure> {
    let failed = |e: String| Failure::runtime(format!("could not encode the output: {e}"));
    match format {
        Format::Table | Format::Wide => Ok(None),
        Format::Json => {
            let mut text =
                serde_json::to_string_pretty(value).map_err(|e| failed(e.to_string()))?;
            text.push('\n');
            Ok(Some(text))
        }
        Format::Yaml => {
            let text = serde_saphyr::to_string(value).map_err(|e| failed(e.to_string()))?;
            Ok(Some(text))
        }
    }
}

/// Prints text with its colours resolved.
pub(crate) fn print(color: paint::When, text: &str) -> Result<(), Failure> {
    write_stdout(paint::resolve(text, color.for_stdout()).as_bytes())
}

/// Writes to standard output; a reader that has gone (`| head`) ends the command without noise.
pub(crate) fn write_stdout(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::reader_gone()),
        Err(error) => Err(Failure::runtime(format!("could not write to standard output: {error}"))),
    }
}
