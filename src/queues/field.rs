//! Reading a document field by field: every problem knows the path, and no field is overlooked.
//!
//! A field that cannot be used is reported and counts as absent, so that reading goes on.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::findings::{Findings, Kind};
use super::problem::{NoteKind, Place, ProblemKind, shorten};
use super::source::describe;
use super::spelling::did_you_mean;

/// Longest name of a field that stands in a path as it is.
const PLAIN_BYTES_MAX: usize = 64;

/// The document that is read, and where findings go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) place: &'a Arc<Place>,
    pub(super) findings: &'a Findings,
}

/// A field that may be absent.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    reader: Reader<'a>,
    path: String,
    value: Option<&'a Value>,
}

impl<'a> Field<'a> {
    /// An object of a document; `path` is empty unless the document is a list of objects.
    pub(super) fn root(reader: Reader<'a>, path: &str, value: &'a Value) -> Self {
        Self { reader, path: path.to_owned(), value: Some(value) }
    }

    /// Reports something about this field.
    pub(super) fn problem(&self, kind: ProblemKind, message: impl FnOnce() -> String) {
        let Reader { place, findings } = self.reader;
        findings.problem(kind, Some(place), &self.path, message);
    }

    /// Reports "is VALUE but must be EXPECTED".
    pub(super) fn must_be(&self, kind: ProblemKind, expected: &str) {
        match self.value {
            None => self
                .problem(ProblemKind::MissingField, || format!("is absent but must be {expected}")),
            Some(_) => self.problem(kind, || format!("is {} but must be {expected}", self.shown())),
        }
    }

    /// Its value, shortened.
    pub(super) fn shown(&self) -> String {
        let text = self.value.map_or_else(|| "absent".to_owned(), Value::to_string);
        shorten(&text)
    }

    /// Tells people something about the document.
    pub(super) fn note(&self, kind: NoteKind, message: &str) {
        let Reader { place, findings } = self.reader;
        findings.note(kind, Some(place), format!("{} {message}", self.path));
    }

    /// Takes down that this field names an object that must exist.
    pub(super) fn refers_to(&self, kind: Kind, name: &str) {
        self.reader.findings.refer(self.reader.place, &self.path, kind, name);
    }

    /// The document it belongs to.
    pub(super) fn reader(&self) -> Reader<'a> {
        self.reader
    }

    /// The place of an object in a list, which has a kind and a name of its own.
    pub(super) fn named_place(&self, place: &Place) -> Place {
        let (kind, name) = self.value.map_or((None, None), describe);
        Place { kind, name, ..place.clone() }
    }

    /// The same field, as one of the document of `reader`.
    pub(super) fn in_reader<'b>(self, reader: Reader<'b>) -> Field<'b>
    where
        'a: 'b,
    {
        Field { reader, path: self.path, value: self.value }
    }

    /// True where the field is absent or null.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self.value, None | Some(Value::Null))
    }

    /// True where the field is absent, null or an empty list.
    pub(super) fn is_empty(&self) -> bool {
        self.is_absent() || matches!(self.value, Some(Value::Array(list)) if list.is_empty())
    }

    /// True where the field is an empty text.
    pub(super) fn is_empty_text(&self) -> bool {
        matches!(self.value, Some(Value::String(text)) if text.is_empty())
    }

    /// Its text; `None` where it is absent.
    pub(super) fn text(&self) -> Option<&'a str> {
        match self.value {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text),
            Some(Value::Bool(_) | Value::Number(_)) => {
                self.must_be(ProblemKind::WrongType, "a text; put it in quotes");
                None
            }
            Some(Value::Array(_) | Value::Object(_)) => {
                self.must_be(ProblemKind::WrongType, "a text");
                None
            }
        }
    }

    /// Its text, which has to be there.
    pub(super) fn required_text(&self) -> Option<&'a str> {
        if self.is_absent() {
            self.must_be(ProblemKind::MissingField, "a text");
        }
        self.text()
    }

    /// A number or a text, as text: quantities are written either way. `None` where it is absent.
    pub(super) fn scalar(&self) -> Option<String> {
        match self.value {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                self.must_be(ProblemKind::WrongType, "a number or a text");
                None
            }
        }
    }

    /// Its whole number; `None` where it is absent.
    pub(super) fn whole_number(&self, range: &RangeInclusive<i64>) -> Option<i64> {
        if self.is_absent() {
            return None;
        }
        let number = self.value.and_then(Value::as_i64);
        let (from, to) = (range.start(), range.end());
        match number {
            Some(number) if range.contains(&number) => Some(number),
            Some(_) => {
                self.must_be(ProblemKind::BadValue, &format!("from {from} to {to}"));
                None
            }
            None => {
                let expected = format!("a whole number from {from} to {to}");
                self.must_be(ProblemKind::WrongType, &expected);
                None
            }
        }
    }

    /// A priority, a number of 32 bits; `None` where it is absent.
    pub(super) fn priority(&self) -> Option<i32> {
        let number = self.whole_number(&(i64::from(i32::MIN)..=i64::from(i32::MAX)))?;
        i32::try_from(number).ok()
    }

    /// True or false; false where it is absent.
    pub(super) fn flag(&self) -> bool {
        match self.value {
            None | Some(Value::Null) => false,
            Some(Value::Bool(flag)) => *flag,
            Some(Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => {
                self.must_be(ProblemKind::WrongType, "true or false");
                false
            }
        }
    }

    /// What one of `words` stands for; `None` where it is absent.
    pub(super) fn word<T: Copy>(&self, words: &[(&'static str, T)]) -> Option<T> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let meant = did_you_mean(text, all.iter().copied());
            let expected = format!("one of {}{meant}", all.join(", "));
            self.must_be(ProblemKind::BadValue, &expected);
        }
        found.map(|(_, value)| *value)
    }

    /// Its elements; none where it is absent. More than `most` are a problem.
    pub(super) fn list(&self, most: usize) -> Vec<Field<'a>> {
        let list = match self.value {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(list)) => list,
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
                self.must_be(ProblemKind::WrongType, "a list");
                return Vec::new();
            }
        };
        if list.len() > most {
            self.problem(ProblemKind::TooMany, || {
                format!("has {} entries; at most {most} are possible", list.len())
            });
        }
        let element = |(i, value)| Field {
            reader: self.reader,
            path: format!("{}[{i}]", self.path),
            value: Some(value),
        };
        list.iter().take(most).enumerate().map(element).collect()
    }

    /// Its fields; none where it is absent.
    pub(super) fn object(&self) -> Object<'a> {
        let map = self.map();
        Object { reader: self.reader, path: self.path.clone(), map, known: BTreeSet::new() }
    }

    /// Its fields, which have to be there.
    pub(super) fn required_object(&self) -> Option<Object<'a>> {
        if self.is_absent() {
            self.must_be(ProblemKind::WrongType, "an object");
        }
        self.map().map(|_| self.object())
    }

    /// Its entries where the keys are free, as those of labels.
    pub(super) fn entries(&self) -> Vec<(&'a str, Field<'a>)> {
        let entry = |(key, value): (&'a String, &'a Value)| {
            let path = join(&self.path, key);
            (key.as_str(), Field { reader: self.reader, path, value: Some(value) })
        };
        self.map().into_iter().flatten().map(entry).collect()
    }

    fn map(&self) -> Option<&'a Map<String, Value>> {
        match self.value {
            None | Some(Value::Null) => None,
            Some(Value::Object(map)) => Some(map),
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                self.must_be(ProblemKind::WrongType, "an object");
                None
            }
        }
    }
}

/// The fields of an object, taken one after the other.
#[derive(Debug)]
pub(super) struct Object<'a> {
    reader: Reader<'a>,
    path: String,
    map: Option<&'a Map<String, Value>>,
    known: BTreeSet<&'static str>,
}

impl<'a> Object<'a> {
    /// The field `name`, which is thereby known.
    pub(super) fn take(&mut self, name: &'static str) -> Field<'a> {
        self.known.insert(name);
        let value = self.map.and_then(|map| map.get(name));
        Field { reader: self.reader, path: join(&self.path, name), value }
    }

    /// The document it belongs to.
    pub(super) fn reader(&self) -> Reader<'a> {
        self.reader
    }

    /// A field that is not there.
    pub(super) fn missing(&self) -> Field<'a> {
        Field { reader: self.reader, path: self.path.clone(), value: None }
    }

    /// Takes fields that decide nothing.
    pub(super) fn pass_over(&mut self, names: &[&'static str]) {
        self.known.extend(names);
    }

    /// Reports the fields that were not taken: a misspelt one would otherwise do nothing.
    pub(super) fn finish(self) {
        let unknown = self.map.into_iter().flat_map(Map::keys);
        for name in unknown.filter(|name| !self.known.contains(name.as_str())) {
            let path = join(&self.path, name);
            let message = || {
                let meant = did_you_mean(name, self.known.iter().copied());
                let known: Vec<_> = self.known.iter().copied().collect();
                let known = match known.as_slice() {
                    [] => String::new(),
                    _ if !meant.is_empty() => String::new(),
                    known => format!("; known are {}", known.join(", ")),
                };
                format!("is not a field known here{meant}{known}")
            };
            let place = Some(self.reader.place);
            self.reader.findings.problem(ProblemKind::UnknownField, place, &path, message);
        }
    }
}

/// The path of a field within `path`.
fn join(path: &str, name: &str) -> String {
    let is_plain = (1..=PLAIN_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match (path, is_plain) {
        ("", true) => name.to_owned(),
        (_, true) => format!("{path}.{name}"),
        (_, false) => format!("{path}[{}]", shorten(&format!("{name:?}"))),
    }
}
