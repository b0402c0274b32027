//! Checks that many fields share.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;

use prost_types::Timestamp;
use sluice_core::id::{NAME_BYTES_MAX, WorkerId};
use sluice_core::unit::Time;

use super::WireError;

/// Parses a name.
///
/// # Errors
/// Where `value` is not a name.
pub fn name<T: FromStr>(field: &str, value: &str) -> Result<T, WireError> {
    value.parse().map_err(|_| WireError::new(field, value, name_expected()))
}

/// Parses a name of which empty means "none".
///
/// # Errors
/// Where `value` is neither empty nor a name.
pub fn optional_name<T: FromStr>(field: &str, value: &str) -> Result<Option<T>, WireError> {
    if value.is_empty() { Ok(None) } else { name(field, value).map(Some) }
}

/// Parses a set of names.
///
/// # Errors
/// At the first that is not a name.
pub fn names<T: FromStr + Ord>(field: &str, values: &[String]) -> Result<BTreeSet<T>, WireError> {
    let parse = |(i, value): (usize, &String)| name(&format!("{field}[{i}]"), value);
    values.iter().enumerate().map(parse).collect()
}

fn name_expected() -> String {
    format!("1 to {NAME_BYTES_MAX} letters, digits, '-', '_', '.', '/' or ':'")
}

/// A set of names, as text.
#[must_use]
pub fn texts<T: Display>(names: &BTreeSet<T>) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// A name of which `None` is written as empty.
#[must_use]
pub fn optional_text<T: Display>(name: Option<&T>) -> String {
    name.map(ToString::to_string).unwrap_or_default()
}

/// Takes a field that has to be there.
///
/// # Errors
/// Where it is absent.
pub fn required<T>(field: &str, value: Option<T>) -> Result<T, WireError> {
    value.ok_or_else(|| WireError::new(field, "absent", "present"))
}

/// The worker that three fields name.
///
/// # Errors
/// Where the workload's name is not a name.
pub fn worker_id(workload: &str, attempt: u32, rank: u32) -> Result<WorkerId, WireError> {
    Ok(WorkerId { workload: name("workload", workload)?, attempt, rank })
}

/// Parses `workload/attempt/rank`.
///
/// # Errors
/// Where it has another form.
pub fn worker_text(field: &str, value: &str) -> Result<WorkerId, WireError> {
    value.parse().map_err(|_| WireError::new(field, value, "workload/attempt/rank"))
}

/// A point in time on the wire.
#[must_use]
pub fn timestamp(time: Time) -> Timestamp {
    let seconds = i64::try_from(time.0 / 1_000).unwrap_or(i64::MAX);
    let nanos = i32::try_from(time.0 % 1_000).unwrap_or(0) * 1_000_000;
    Timestamp { seconds, nanos }
}

/// A point in time from the wire, cut to milliseconds.
///
/// # Errors
/// Before 1970, or beyond what milliseconds in 64 bits can hold, or with a broken fraction.
pub fn time(field: &str, value: &Timestamp) -> Result<Time, WireError> {
    let seconds = u64::try_from(value.seconds).ok();
    let nanos = u64::try_from(value.nanos).ok().filter(|&nanos| nanos < 1_000_000_000);
    let ms = seconds
        .zip(nanos)
        .and_then(|(seconds, nanos)| seconds.checked_mul(1_000)?.checked_add(nanos / 1_000_000));
    let shown = || format!("{} s {} ns", value.seconds, value.nanos);
    ms.map(Time).ok_or_else(|| WireError::new(field, shown(), "a time since 1970"))
}

/// A time that has to be there.
///
/// # Errors
/// Where it is absent or out of range.
pub fn required_time(field: &str, value: Option<&Timestamp>) -> Result<Time, WireError> {
    time(field, required(field, value)?)
}

/// A time that may be absent.
///
/// # Errors
/// Where it is there and out of range.
pub fn optional_time(field: &str, value: Option<&Timestamp>) -> Result<Option<Time>, WireError> {
    value.map(|value| time(field, value)).transpose()
}
