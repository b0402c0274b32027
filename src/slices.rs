//! Inventories of TPU slices from YAML files, as core's `slice` takes them.
//!
//! A file has documents of two kinds. An **inventory** says which generation it is about, which cubes there are (or
//! nodes), and which workloads run, with what draining them would lose; it has no `kind`. **Objects of Kubernetes** are
//! taken as `kubectl get nodes,slices -o yaml` prints them: a List, or single Nodes and Slices; cubes are built from the
//! labels of nodes. What is wrong is told all at once, with file, line of the document, and path.
//!
//! Which shapes there are is in `generations.json`, with source and date.

mod assemble;
mod declared;
mod field;
mod objects;
mod problem;
mod table;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;
use serde_saphyr::Spanned;
use sluice_core::slice::Fleet;
use sluice_core::topology::Generation;

pub use declared::ASSUMED_LOST_MS;
pub use problem::{Problem, Problems};
pub use table::table;

use declared::Declared;
use field::{Field, Reader};

/// Largest file. A node as `kubectl` prints it takes about 8 kB, so this is a pod of 144 cubes.
pub const FILE_BYTES_MAX: u64 = 32 << 20;
/// Most documents of a file.
const DOCUMENTS_MAX: usize = 100_000;
/// Most values of a file.
const VALUES_MAX: usize = 4_000_000;

/// What there is.
#[derive(Debug, Clone)]
pub struct Inventory {
    /// Of which TPUs.
    pub generation: Generation,
    /// Cubes, and what runs on them.
    pub fleet: Fleet,
    /// What people should know: what was left out or assumed.
    pub notes: Vec<String>,
}

/// Reads an inventory; `-` is standard input.
///
/// `generation` is taken if the file names none. Points in time become milliseconds since 1970; those that a file gives
/// from now on are added to `now_ms`.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(path: &Path, generation: Option<&str>, now_ms: u64) -> Result<Inventory, Problems> {
    let name = path.to_string_lossy();
    let mut bytes = Vec::new();
    let most = FILE_BYTES_MAX + 1;
    let read = if name == "-" {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    let fail = |message: String| Problems::one(Problem::of_file(&name, message));
    read.map_err(|error| fail(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(fail(format!("is larger than {FILE_BYTES_MAX} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| fail("is not UTF-8 text".to_owned()))?;
    parse(&name, &text, generation, now_ms)
}

/// Reads the inventory `text`, which problems call `name`.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(
    name: &str,
    text: &str,
    generation: Option<&str>,
    now_ms: u64,
) -> Result<Inventory, Problems> {
    let documents: Vec<Spanned<Value>> = serde_saphyr::from_multiple_with_options(text, options())
        .map_err(|error| {
            let line = error.location().map(|at| at.line()).filter(|line| *line > 0);
            let message = error.without_snippet().to_string().replace('\n', " ");
            let message = format!("is not YAML that can be read: {message}");
            Problems::one(Problem { line, ..Problem::of_file(name, message) })
        })?;
    let reader = Reader::new(name);
    let mut declared = Declared::default();
    for document in &documents {
        let line = document.referenced.line();
        reader.begin(line);
        let root = Field::root(&reader, &document.value);
        match document.value.get("kind") {
            Some(_) => objects::read(&mut declared, &root),
            None => declared::read(&mut declared, &root),
        }
    }
    reader.begin(0);
    assemble::assemble(declared, &reader, generation, now_ms)
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: DOCUMENTS_MAX,
            max_nodes: VALUES_MAX,
            max_events: 3 * VALUES_MAX,
        },
        with_snippet: false,
    }
}
