//! Rules about this repository that no compiler checks. Each has a test that it can fail.
//!
//! They look at what git tracks, so that a forgotten scratch file disturbs nobody. A rule returns what it
//! found, one line each: where, what, and how to put it right.

mod documents;
mod flags;
mod rust;
mod text;

use std::path::Path;
use std::process::Command;

/// A tracked text file.
#[derive(Debug, Clone)]
struct Source {
    /// Relative to the repository's root, with `/`.
    path: String,
    text: String,
}

impl Source {
    /// A made-up file, for showing that a rule can fail.
    fn sample(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Lines with their numbers, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    fn has_extension(&self, extensions: &[&str]) -> bool {
        let found = Path::new(&self.path).extension().and_then(|e| e.to_str());
        found.is_some_and(|found| extensions.contains(&found))
    }

    /// Tests have other needs than the programs.
    fn is_test(&self) -> bool {
        let path = &self.path;
        path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
    }

    fn finding(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every tracked file that is text and still there.
fn sources() -> Vec<Source> {
    let listed = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .current_dir(root())
        .output()
        .expect("git can be started: these rules look at what it tracks");
    let why = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "git ls-files failed: {why}");
    let names = String::from_utf8(listed.stdout).expect("our file names are UTF-8");
    let read = |path: &str| {
        let text = std::fs::read_to_string(root().join(path)).ok()?;
        Some(Source { path: path.to_owned(), text })
    };
    let sources: Vec<Source> =
        names.split('\0').filter(|n| !n.is_empty()).filter_map(read).collect();
    assert!(sources.iter().any(|s| s.path == "Cargo.toml"), "git lists no Cargo.toml");
    sources
}

/// Holds all files of the repository to `rule`.
fn hold(rule: impl Fn(&Source) -> Vec<String>) {
    let found: Vec<String> = sources().iter().flat_map(rule).collect();
    report(&found);
}

fn report(found: &[String]) {
    assert!(found.is_empty(), "{} found:\n{}", found.len(), found.join("\n"));
}
