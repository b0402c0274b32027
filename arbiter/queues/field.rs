//! Reading a document field by field: every error knows the path, and no field is overlooked.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

/// Longest part of a bad value that is repeated. Unit: characters.
const SHOWN_CHARS_MAX: usize = 80;

/// A field that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldError {
    /// Such as `spec.resourceGroups[0].flavors[1].name`.
    pub path: String,
    /// What is wrong with it and how to mend it.
    pub problem: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "it" } else { &self.path };
        write!(f, "{path} {}", self.problem)
    }
}

/// A field that may be absent.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    path: String,
    value: Option<&'a Value>,
}

impl<'a> Field<'a> {
    /// The root of a document.
    pub(super) fn root(value: &'a Value) -> Self {
        Self { path: String::new(), value: Some(value) }
    }

    /// An error about this field.
    pub(super) fn error(&self, problem: impl Into<String>) -> FieldError {
        FieldError { path: self.path.clone(), problem: problem.into() }
    }

    /// "is VALUE but must be EXPECTED".
    pub(super) fn must_be(&self, expected: &str) -> FieldError {
        let shown: String = match self.value {
            None => return self.error(format!("is absent but must be {expected}")),
            Some(value) => value.to_string().chars().take(SHOWN_CHARS_MAX).collect(),
        };
        self.error(format!("is {shown} but must be {expected}"))
    }

    /// True where the field is absent, null, or an empty list, object or text.
    pub(super) fn is_empty(&self) -> bool {
        match self.value {
            None | Some(Value::Null) => true,
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Bool(_) | Value::Number(_)) => false,
        }
    }

    /// Its text; `None` where it is absent.
    pub(super) fn text(&self) -> Result<Option<&'a str>, FieldError> {
        match self.value {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                Err(self.must_be("a text"))
            }
        }
    }

    /// Its text, which has to be there.
    pub(super) fn required_text(&self) -> Result<&'a str, FieldError> {
        self.text()?.ok_or_else(|| self.must_be("a text"))
    }

    /// A number or a text, as text: quantities are written either way. `None` where it is absent.
    pub(super) fn scalar(&self) -> Result<Option<String>, FieldError> {
        match self.value {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                Err(self.must_be("a number or a text"))
            }
        }
    }

    /// Its whole number, which has to be there.
    pub(super) fn required_integer(&self) -> Result<i64, FieldError> {
        let number = self.value.and_then(Value::as_i64);
        number.ok_or_else(|| self.must_be("a whole number"))
    }

    /// One of `words`; `default` where it is absent.
    pub(super) fn word(
        &self,
        words: &[&'static str],
        default: &'static str,
    ) -> Result<&'static str, FieldError> {
        let Some(text) = self.text()? else { return Ok(default) };
        let found = words.iter().find(|word| **word == text).copied();
        found.ok_or_else(|| self.must_be(&format!("one of {}", words.join(", "))))
    }

    /// Its elements; none where it is absent.
    pub(super) fn list(&self) -> Result<Vec<Field<'a>>, FieldError> {
        let list = match self.value {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
                return Err(self.must_be("a list"));
            }
        };
        let element =
            |(i, value)| Field { path: format!("{}[{i}]", self.path), value: Some(value) };
        Ok(list.iter().enumerate().map(element).collect())
    }

    /// Its fields; none where it is absent.
    pub(super) fn object(&self) -> Result<Object<'a>, FieldError> {
        let map = match self.value {
            None | Some(Value::Null) => None,
            Some(Value::Object(map)) => Some(map),
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                return Err(self.must_be("an object"));
            }
        };
        Ok(Object { path: self.path.clone(), map, known: BTreeSet::new() })
    }
}

/// The fields of an object, taken one after the other.
#[derive(Debug)]
pub(super) struct Object<'a> {
    path: String,
    map: Option<&'a Map<String, Value>>,
    known: BTreeSet<&'static str>,
}

impl<'a> Object<'a> {
    /// The field `name`, which is thereby known.
    pub(super) fn take(&mut self, name: &'static str) -> Field<'a> {
        self.known.insert(name);
        let dot = if self.path.is_empty() { "" } else { "." };
        let path = format!("{}{dot}{name}", self.path);
        Field { path, value: self.map.and_then(|map| map.get(name)) }
    }

    /// Ends reading.
    ///
    /// # Errors
    /// Where there is a field that was not taken: a misspelt one would otherwise do nothing.
    pub(super) fn finish(self) -> Result<(), FieldError> {
        let Some(map) = self.map else { return Ok(()) };
        let Some(unknown) = map.keys().find(|key| !self.known.contains(key.as_str())) else {
            return Ok(());
        };
        let dot = if self.path.is_empty() { "" } else { "." };
        let path = format!("{}{dot}{unknown}", self.path);
        let known: Vec<_> = self.known.into_iter().collect();
        let problem = format!("is not a field known here; known are {}", known.join(", "));
        Err(FieldError { path, problem })
    }
}
