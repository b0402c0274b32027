//! Checks and their outcomes, as text and as values.

use serde::Serialize;

use crate::paint::{bad, bold, good, warn};
use crate::text::{count, safe};

/// How a check went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Fine.
    Fine,
    /// Something that somebody should know.
    Warning {
        /// What and why.
        why: String,
        /// What to do; may be empty.
        hint: String,
    },
    /// Something that keeps Sluice from working.
    Failure {
        /// What and why.
        why: String,
        /// What to do; may be empty.
        hint: String,
    },
}

impl Outcome {
    /// A warning.
    pub(super) fn warning(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Warning { why: why.into(), hint: hint.into() }
    }

    /// A failure.
    pub(super) fn failure(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Failure { why: why.into(), hint: hint.into() }
    }
}

/// A check that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Check {
    category: &'static str,
    description: String,
    outcome: Outcome,
}

/// All checks in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    checks: Vec<Check>,
}

impl Report {
    /// Notes a check; `description` says what is so if all is well.
    pub(super) fn check(
        &mut self,
        category: &'static str,
        description: impl Into<String>,
        outcome: Outcome,
    ) {
        self.checks.push(Check { category, description: description.into(), outcome });
    }

    /// Whether any check failed.
    pub(super) fn has_failed(&self) -> bool {
        self.checks.iter().any(|c| matches!(c.outcome, Outcome::Failure { .. }))
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut category = "";
        for check in &self.checks {
            if check.category != category {
                let gap = if category.is_empty() { "" } else { "\n" };
                text.push_str(&format!("{gap}{}\n", bold(check.category)));
                category = check.category;
            }
            text.push_str(&lines(check));
        }
        let number = |wanted: fn(&Outcome) -> bool| {
            self.checks.iter().filter(|c| wanted(&c.outcome)).count()
        };
        let failures = number(|o| matches!(o, Outcome::Failure { .. }));
        let warnings = number(|o| matches!(o, Outcome::Warning { .. }));
        let summary = match (failures, warnings) {
            (0, 0) => good("everything is fine"),
            (0, warnings) => warn(&format!("nothing failed; {}", count(warnings, "warning"))),
            (failures, warnings) => {
                let warnings = count(warnings, "warning");
                bad(&format!("{} failed; {warnings}", count(failures, "check")))
            }
        };
        text + &format!("\n{summary}\n")
    }
}

fn lines(check: &Check) -> String {
    let (mark, why, hint) = match &check.outcome {
        Outcome::Fine => (good("√"), "", ""),
        Outcome::Warning { why, hint } => (warn("‼"), why.as_str(), hint.as_str()),
        Outcome::Failure { why, hint } => (bad("×"), why.as_str(), hint.as_str()),
    };
    let mut lines = format!("  {mark} {}\n", safe(&check.description));
    if !why.is_empty() {
        lines.push_str(&format!("      {}\n", safe(why)));
    }
    if !hint.is_empty() {
        lines.push_str(&format!("      hint: {}\n", safe(hint)));
    }
    lines
}

/// The report as JSON or YAML.
#[derive(Debug, Serialize)]
pub(super) struct ReportView<'a> {
    /// Whether no check failed.
    success: bool,
    /// Checks by category, in order.
    categories: Vec<CategoryView<'a>>,
}

#[derive(Debug, Serialize)]
struct CategoryView<'a> {
    name: &'static str,
    checks: Vec<CheckView<'a>>,
}

#[derive(Debug, Serialize)]
struct CheckView<'a> {
    /// What is so if all is well.
    description: &'a str,
    /// `success`, `warning` or `failure`.
    result: &'static str,
    /// What is wrong; `null` if nothing is.
    error: Option<&'a str>,
    /// What to do; `null` if nothing need be done.
    hint: Option<&'a str>,
}

impl<'a> ReportView<'a> {
    /// The report as a value.
    pub(super) fn of(report: &'a Report) -> Self {
        let mut categories: Vec<CategoryView<'a>> = Vec::new();
        for check in &report.checks {
            if categories.last().is_none_or(|c| c.name != check.category) {
                categories.push(CategoryView { name: check.category, checks: Vec::new() });
            }
            let category = categories.last_mut().expect("one was pushed if there was none");
            category.checks.push(CheckView::of(check));
        }
        Self { success: !report.has_failed(), categories }
    }
}

impl<'a> CheckView<'a> {
    fn of(check: &'a Check) -> Self {
        let (result, error, hint) = match &check.outcome {
            Outcome::Fine => ("success", None, None),
            Outcome::Warning { why, hint } => ("warning", Some(why.as_str()), Some(hint.as_str())),
            Outcome::Failure { why, hint } => ("failure", Some(why.as_str()), Some(hint.as_str())),
        };
        let hint = hint.filter(|h| !h.is_empty());
        Self { description: &check.description, result, error, hint }
    }
}
