//! Names, label keys and values as Kubernetes takes them.

use super::field::Field;
use super::problem::{ProblemKind, shorten};

/// Longest name of an object. Unit: characters.
const NAME_CHARS_MAX: usize = 253;
/// Longest label value, and longest key without its prefix. Unit: characters.
const LABEL_CHARS_MAX: usize = 63;

const OBJECT_NAME: &str = "a name of at most 253 lower-case letters, digits, '-' and '.', with a letter or digit at both ends";
const NAMESPACE: &str =
    "a name of at most 63 lower-case letters, digits and '-', with a letter or digit at both ends";
const QUALIFIED_NAME: &str = "a name such as \"cpu\" or \"nvidia.com/gpu\": letters, digits, '-', '_' and '.', at most 63, after at most one prefix and '/'";
const LABEL_VALUE: &str = "a label value: at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends";

fn is_word(text: &str, inside: &[u8]) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || inside.contains(&byte);
    is_end(text.bytes().next()) && is_end(text.bytes().last()) && text.bytes().all(is_inside)
}

fn is_label(text: &str) -> bool {
    text.len() <= LABEL_CHARS_MAX
        && is_word(text, b"-")
        && !text.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// A DNS subdomain: labels between points.
fn is_object_name(text: &str) -> bool {
    let is_part =
        |part: &str| is_word(part, b"-") && !part.bytes().any(|byte| byte.is_ascii_uppercase());
    text.len() <= NAME_CHARS_MAX && text.split('.').all(is_part)
}

/// `[prefix/]name`.
fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    name.len() <= LABEL_CHARS_MAX && is_word(name, b"-_.") && prefix.is_none_or(is_object_name)
}

/// The text of `field`, if it is one that `is_good`.
fn checked<'a>(field: &Field<'a>, is_good: fn(&str) -> bool, expected: &str) -> Option<&'a str> {
    let text = field.text()?;
    if !is_good(text) {
        field.must_be(ProblemKind::BadName, expected);
        return None;
    }
    Some(text)
}

/// The name of an object; `None` where it is absent or bad.
pub(super) fn object_name<'a>(field: &Field<'a>) -> Option<&'a str> {
    checked(field, is_object_name, OBJECT_NAME)
}

/// The name of an object, which has to be there.
pub(super) fn required_object_name<'a>(field: &Field<'a>) -> Option<&'a str> {
    if field.is_absent() {
        field.must_be(ProblemKind::MissingField, OBJECT_NAME);
    }
    object_name(field)
}

/// The name of a namespace; `None` where it is absent or bad.
pub(super) fn namespace<'a>(field: &Field<'a>) -> Option<&'a str> {
    checked(field, is_label, NAMESPACE)
}

/// The name of a resource or a label key, which has to be there.
pub(super) fn qualified_name<'a>(field: &Field<'a>) -> Option<&'a str> {
    if field.is_absent() {
        field.must_be(ProblemKind::MissingField, QUALIFIED_NAME);
    }
    checked(field, is_qualified_name, QUALIFIED_NAME)
}

/// A label value; an absent one is empty.
pub(super) fn label_value<'a>(field: &Field<'a>) -> Option<&'a str> {
    if field.is_absent() {
        return Some("");
    }
    let is_value =
        |text: &str| text.is_empty() || (text.len() <= LABEL_CHARS_MAX && is_word(text, b"-_."));
    checked(field, is_value, LABEL_VALUE)
}

/// Reports `key` of `field`, an entry of labels, if it cannot be a label key.
pub(super) fn is_label_key(field: &Field<'_>, key: &str) -> bool {
    let is_good = is_qualified_name(key);
    if !is_good {
        field.problem(ProblemKind::BadName, || {
            format!("has the key {:?}, which must be {QUALIFIED_NAME}", shorten(key))
        });
    }
    is_good
}
