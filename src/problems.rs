//! Everything that is wrong with what somebody wrote, told at once.

use std::fmt;

/// Everything that is wrong: at least one problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems<P> {
    /// In the order in which they were found, at most as many as its reader keeps.
    pub problems: Vec<P>,
    /// How many more there are.
    pub left_out: usize,
}

impl<P> Problems<P> {
    pub(crate) fn one(problem: P) -> Self {
        Self { problems: vec![problem], left_out: 0 }
    }

    /// How many problems there are, those left out, too.
    #[must_use]
    pub fn count(&self) -> usize {
        self.problems.len().saturating_add(self.left_out)
    }
}

/// All of them, one a line.
impl<P: fmt::Display> fmt::Display for Problems<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let end = if i == 0 { "" } else { "\n" };
            write!(f, "{end}{problem}")?;
        }
        match self.left_out {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl<P: fmt::Debug + fmt::Display> std::error::Error for Problems<P> {}
