//! What is wrong with an inventory.

use std::fmt;

/// Most problems that are kept: nobody reads more at once.
pub(super) const PROBLEMS_MAX: usize = 50;

/// Something that is wrong: without mending it the inventory is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file's name, as it was given.
    pub file: String,
    /// Line at which its document begins, from 1; `None` for the file as a whole.
    pub line: Option<u64>,
    /// The field, such as `cubes[0].block`; empty for the document as a whole.
    pub path: String,
    /// What is wrong with it and how to mend it. Follows the path in a sentence.
    pub message: String,
}

impl Problem {
    pub(super) fn of_file(file: &str, message: String) -> Self {
        Self { file: file.to_owned(), line: None, path: String::new(), message }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        if !self.path.is_empty() {
            write!(f, "{} ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Everything that is wrong with an inventory, at most [`PROBLEMS_MAX`] of it in full.
pub type Problems = crate::problems::Problems<Problem>;
