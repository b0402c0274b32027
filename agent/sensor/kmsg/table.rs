//! The data file of codes, as core wants it.

use std::collections::BTreeMap;

use serde::Deserialize;
use sluice_core::health::{NvlinkOutcome, NvlinkRow, Repeat, SwitchRow, Table, XidRow};

/// What codes mean, with source and date.
const CODES: &str = include_str!("xid.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    xid: Vec<Xid>,
    switch: Vec<Switch>,
    nvlink: Vec<Nvlink>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Xid {
    codes: Vec<u32>,
    what: String,
    class: String,
    asks_since: Option<u32>,
    repeat: Option<String>,
    #[serde(default)]
    is_urgent: bool,
    cancels: Option<u32>,
    source: String,
    as_of: String,
    because: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Switch {
    codes: Vec<u32>,
    is_always_fatal: bool,
    source: String,
    as_of: String,
    because: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nvlink {
    code: u32,
    unit: String,
    number: u32,
    errors: u32,
    outcome: String,
    source: String,
    as_of: String,
    because: Option<String>,
}

/// The codes of this version.
///
/// # Panics
/// Where the built-in file cannot be read, which a test keeps from happening.
pub(crate) fn table() -> Table {
    parse(CODES).expect("the built-in table of codes is parsed by a test")
}

pub(super) fn parse(text: &str) -> Result<Table, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut xids = BTreeMap::new();
    for row in &file.xid {
        check(&row.what, &row.source, &row.as_of, row.because.as_deref())?;
        let parsed = XidRow {
            what: row.what.clone(),
            class: row.class.parse()?,
            asks_since: row.asks_since,
            repeat: match row.repeat.as_deref() {
                None => Repeat::Same,
                Some("replace") => Repeat::Replace,
                Some(other) => return Err(format!("{other:?} is nothing that can follow")),
            },
            is_urgent: row.is_urgent,
            cancels: row.cancels,
        };
        for code in &row.codes {
            if xids.insert(*code, parsed.clone()).is_some() {
                return Err(format!("Xid {code} is there twice"));
            }
        }
    }
    let mut switches = BTreeMap::new();
    for row in &file.switch {
        check("switch", &row.source, &row.as_of, row.because.as_deref())?;
        let parsed = SwitchRow { is_always_fatal: row.is_always_fatal };
        switches.extend(row.codes.iter().map(|code| (*code, parsed.clone())));
    }
    let nvlink: Result<Vec<_>, String> = file.nvlink.iter().map(nvlink).collect();
    Ok(Table::new(xids, switches, nvlink?))
}

fn nvlink(row: &Nvlink) -> Result<NvlinkRow, String> {
    check(&row.unit, &row.source, &row.as_of, row.because.as_deref())?;
    let outcome = match row.outcome.as_str() {
        "ignore" => NvlinkOutcome::Ignore,
        "follow-action" => NvlinkOutcome::FollowAction,
        "reset" => NvlinkOutcome::Reset,
        other => return Err(format!("{other:?} is no outcome")),
    };
    let (code, unit) = (row.code, row.unit.clone());
    Ok(NvlinkRow { code, unit, number: row.number, errors: row.errors, outcome })
}

/// Where a row comes from: for people, and checked to be there.
fn check(of: &str, source: &str, as_of: &str, because: Option<&str>) -> Result<(), String> {
    let is_date = as_of.len() == 10 && as_of.bytes().filter(|b| *b == b'-').count() == 2;
    if source.is_empty() || !is_date || because.is_some_and(str::is_empty) {
        return Err(format!(
            "{of:?} needs a source, a date as 2026-08-21, and a reason if one is given"
        ));
    }
    Ok(())
}
