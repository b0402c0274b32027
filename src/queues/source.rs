//! From files to documents, within limits.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use serde_saphyr::{Options, Spanned};

use super::findings::Findings;
use super::problem::{Place, ProblemKind, shorten};

/// Largest file. A queue takes about 1 kB, a node half of that.
pub const FILE_BYTES_MAX: u64 = 8 << 20;
/// Most documents of a file: ten thousand queues with all that belongs to them.
const DOCUMENTS_MAX: usize = 100_000;
/// Most values of a file, at less than three bytes each: what the largest file can have.
const VALUES_MAX: usize = 3_000_000;
/// Most values that aliases may repeat, all together.
const REPEATED_MAX: usize = 100_000;

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// How people know it.
    pub name: Arc<str>,
    /// What it says.
    pub text: String,
}

/// Reads a file, or standard input for `-`; `None` once a problem is told.
pub(super) fn open(path: &Path, findings: &Findings) -> Option<Source> {
    let name: Arc<str> = Arc::from(path.to_string_lossy());
    let place = Arc::new(Place::file(&name));
    let fail = |message: String| {
        findings.problem(ProblemKind::UnreadableFile, Some(&place), "", || message);
        None
    };
    let mut bytes = Vec::new();
    // One byte more than allowed shows that there is more; files without an end are no danger.
    let most = FILE_BYTES_MAX + 1;
    let read = if &*name == "-" {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    if let Err(error) = read {
        return fail(format!("cannot be read: {error}"));
    }
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return fail(format!("is larger than {FILE_BYTES_MAX} bytes; split it"));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Some(Source { name, text }),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            fail(format!("is not UTF-8 text: the byte at {at} is wrong"))
        }
    }
}

/// The documents of a file with their places; none once a problem is told.
pub(super) fn documents(source: &Source, findings: &Findings) -> Vec<(Arc<Place>, Value)> {
    let options = options();
    let parsed: Result<Vec<Spanned<Value>>, _> =
        serde_saphyr::from_multiple_with_options(&source.text, options);
    let documents = match parsed {
        Ok(documents) => documents,
        Err(error) => {
            let place = Arc::new(Place::file(&source.name));
            findings.problem(ProblemKind::BadYaml, Some(&place), "", || {
                let error = error.without_snippet().to_string();
                format!("is not YAML that can be read: {}", error.replace('\n', " "))
            });
            return Vec::new();
        }
    };
    let place = |(i, document): (usize, Spanned<Value>)| {
        let value = document.value;
        let (kind, name) = describe(&value);
        let line = document.referenced.line();
        let place = Place { source: source.name.clone(), document: i + 1, line, kind, name };
        (Arc::new(place), value)
    };
    documents.into_iter().enumerate().map(place).collect()
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: DOCUMENTS_MAX,
            max_nodes: VALUES_MAX,
            max_events: 3 * VALUES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: REPEATED_MAX,
        },
        with_snippet: false,
    }
}

/// Kind and name, as far as the object says so; only the beginning of long ones.
pub(super) fn describe(value: &Value) -> (Option<String>, Option<String>) {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(shorten);
    let name = value.get("metadata").and_then(|metadata| metadata.get("name"));
    (text(value.get("kind")), text(name))
}
