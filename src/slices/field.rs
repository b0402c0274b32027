//! Fields of a document with their paths, so that every problem says where it is.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::str::FromStr;

use serde_json::Value;

use super::problem::{PROBLEMS_MAX, Problem, Problems};

/// Most entries of one list.
const ITEMS_MAX: usize = 100_000;
/// Longest part of a bad value that is repeated. Unit: characters.
const SHOWN_CHARS_MAX: usize = 80;

/// One file, and what is wrong with it.
#[derive(Debug)]
pub(super) struct Reader {
    name: String,
    line: Cell<u64>,
    problems: RefCell<Vec<Problem>>,
    left_out: Cell<usize>,
}

impl Reader {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            line: Cell::new(0),
            problems: RefCell::default(),
            left_out: Cell::new(0),
        }
    }

    /// A document begins on `line`; 0 for the file as a whole.
    pub(super) fn begin(&self, line: u64) {
        self.line.set(line);
    }

    pub(super) fn line(&self) -> u64 {
        self.line.get()
    }

    pub(super) fn problem(&self, path: &str, message: impl Into<String>) {
        let mut problems = self.problems.borrow_mut();
        if problems.len() == PROBLEMS_MAX {
            self.left_out.set(self.left_out.get() + 1);
            return;
        }
        let line = Some(self.line.get()).filter(|line| *line > 0);
        let (file, path, message) = (self.name.clone(), path.to_owned(), message.into());
        problems.push(Problem { file, line, path, message });
    }

    /// Nothing if all is well.
    pub(super) fn finish(&self) -> Result<(), Problems> {
        let problems = self.problems.take();
        if problems.is_empty() {
            return Ok(());
        }
        Err(Problems { problems, left_out: self.left_out.get() })
    }
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    pub(super) reader: &'a Reader,
    path: String,
    value: Option<&'a Value>,
}

impl<'a> Field<'a> {
    pub(super) fn root(reader: &'a Reader, value: &'a Value) -> Self {
        Self { reader, path: String::new(), value: Some(value) }
    }

    pub(super) fn problem(&self, message: impl Into<String>) {
        self.reader.problem(&self.path, message);
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The field `name` of this object; absent if this is no object.
    pub(super) fn get(&self, name: &str) -> Self {
        let value = self.value.and_then(|value| value.get(name)).filter(|value| !value.is_null());
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { reader: self.reader, path: format!("{}{dot}{name}", self.path), value }
    }

    pub(super) fn is_there(&self) -> bool {
        self.value.is_some()
    }

    /// Says which fields there are no such of; false if this is no object.
    pub(super) fn has_only(&self, known: &[&str]) -> bool {
        let Some(object) = self.value.and_then(Value::as_object) else {
            self.problem(format!(
                "is {}, but must have the fields {}",
                self.shown(),
                known.join(", ")
            ));
            return false;
        };
        for name in object.keys().filter(|name| !known.contains(&name.as_str())) {
            self.get(name).problem(format!("is not known; there are {}", known.join(", ")));
        }
        true
    }

    /// Its entries; none if it is absent, a problem if it is no list.
    pub(super) fn items(&self) -> Vec<Self> {
        let Some(value) = self.value else { return Vec::new() };
        let Some(items) = value.as_array() else {
            self.problem(format!("is {}, but must be a list", self.shown()));
            return Vec::new();
        };
        if items.len() > ITEMS_MAX {
            self.problem(format!("has {} entries; at most {ITEMS_MAX} are read", items.len()));
            return Vec::new();
        }
        let item = |(at, value)| Self {
            reader: self.reader,
            path: format!("{}[{at}]", self.path),
            value: Some(value),
        };
        items.iter().enumerate().map(item).collect()
    }

    /// Names and values of its fields; none if it is absent.
    pub(super) fn entries(&self) -> Vec<(String, Self)> {
        let Some(value) = self.value else { return Vec::new() };
        let Some(object) = value.as_object() else {
            self.problem(format!("is {}, but must have fields", self.shown()));
            return Vec::new();
        };
        object.keys().map(|name| (name.clone(), self.get(name))).collect()
    }

    /// Its text; `None` if it is absent, a problem if it is no text.
    pub(super) fn text(&self) -> Option<&'a str> {
        let value = self.value?;
        let text = value.as_str();
        if text.is_none() {
            self.problem(format!("is {}, but must be a text", self.shown()));
        }
        text
    }

    /// Its text, which has to be there and not to be empty.
    pub(super) fn required_text(&self) -> Option<&'a str> {
        if !self.is_there() {
            self.problem("is missing");
        }
        let text = self.text()?;
        if text.is_empty() {
            self.problem("is empty");
            return None;
        }
        Some(text)
    }

    /// What its text means; a problem if it means nothing.
    pub(super) fn parsed<T: FromStr<Err: Display>>(&self) -> Option<T> {
        let text = self.text()?;
        text.parse().map_err(|error| self.problem(format!("cannot be used: {error}"))).ok()
    }

    /// Whether it is true; false if it is absent.
    pub(super) fn flag(&self) -> bool {
        let Some(value) = self.value else { return false };
        value.as_bool().unwrap_or_else(|| {
            self.problem(format!("is {}, but must be true or false", self.shown()));
            false
        })
    }

    /// Its number; `None` if it is absent, a problem if it is none from `least` to `most`.
    pub(super) fn number(&self, least: i64, most: i64) -> Option<i64> {
        let value = self.value?;
        let number = value.as_i64().filter(|number| (least..=most).contains(number));
        if number.is_none() {
            self.problem(format!(
                "is {}, but must be a number from {least} to {most}",
                self.shown()
            ));
        }
        number
    }

    /// A span such as `45m`. Unit: ms.
    pub(super) fn span_ms(&self) -> Option<u64> {
        let text = self.text()?;
        let span: Option<jiff::SignedDuration> = text.parse().ok();
        let ms = span.and_then(|span| u64::try_from(span.as_millis()).ok());
        if ms.is_none() {
            self.problem(format!(
                "is {}, but must be a span such as 45s, 20m or 1h30m",
                self.shown()
            ));
        }
        ms
    }

    /// The value as JSON, shortened.
    pub(super) fn shown(&self) -> String {
        let Some(value) = self.value else { return "missing".to_owned() };
        let text = value.to_string();
        let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        shown
    }
}
