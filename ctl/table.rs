//! Columns without borders, as kubectl prints them, and sheets of named values.

#[cfg(test)]
mod tests;

use comfy_table::{Cell, Table, presets};

use crate::paint;

/// A column of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its heading.
    pub(crate) title: &'static str,
    /// Whether only `-o wide` shows it.
    pub(crate) is_wide: bool,
    /// Whether it changes by itself as time passes: `--watch` does not take that for a change.
    pub(crate) is_age: bool,
}

impl Column {
    /// A column that is always shown.
    pub(crate) const fn new(title: &'static str) -> Self {
        Self { title, is_wide: false, is_age: false }
    }

    /// A column that only `-o wide` shows.
    pub(crate) const fn wide(title: &'static str) -> Self {
        Self { title, is_wide: true, is_age: false }
    }

    /// A column with an age.
    pub(crate) const fn age(title: &'static str) -> Self {
        Self { title, is_wide: false, is_age: true }
    }

    /// A column with an age that only `-o wide` shows.
    pub(crate) const fn wide_age(title: &'static str) -> Self {
        Self { title, is_wide: true, is_age: true }
    }
}

/// Space between columns.
const GAP: u16 = 3;

/// Columns with a heading; nothing if there are no rows.
pub(crate) fn columns(titles: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    lay_out(titles, rows)
}

/// Columns with a heading.
pub(crate) fn lay_out(titles: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(titles.iter().map(Cell::new));
    for row in rows {
        table.add_row(row.iter().map(Cell::new));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Named values, in sections.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    text: String,
    fields: Vec<(String, String)>,
}

impl Sheet {
    /// An empty sheet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A named value.
    pub(crate) fn field(&mut self, name: &str, value: impl Into<String>) -> &mut Self {
        self.fields.push((format!("{name}:"), value.into()));
        self
    }

    /// A named value, if there is one.
    pub(crate) fn optional(&mut self, name: &str, value: Option<String>) -> &mut Self {
        if let Some(value) = value {
            self.field(name, value);
        }
        self
    }

    /// A heading, after an empty line.
    pub(crate) fn section(&mut self, title: &str) -> &mut Self {
        self.flush();
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&paint::bold(title));
        self.text.push('\n');
        self
    }

    /// Lines of text as they are, indented.
    pub(crate) fn lines(&mut self, text: &str) -> &mut Self {
        self.flush();
        for line in text.lines() {
            let indent = if line.is_empty() { "" } else { "  " };
            self.text.push_str(&format!("{indent}{line}\n"));
        }
        self
    }

    /// Columns, or `none` where there are no rows.
    pub(crate) fn table(&mut self, titles: &[&str], rows: &[Vec<String>]) -> &mut Self {
        if rows.is_empty() { self.lines("none") } else { self.lines(&columns(titles, rows)) }
    }

    /// The text.
    pub(crate) fn finish(mut self) -> String {
        self.flush();
        self.text
    }

    fn flush(&mut self) {
        let fields = std::mem::take(&mut self.fields);
        let width = fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let indent = if self.text.is_empty() { "" } else { "  " };
        for (name, value) in fields {
            self.text.push_str(&format!("{indent}{name:width$}  {value}\n"));
        }
    }
}
