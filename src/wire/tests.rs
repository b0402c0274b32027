//! What goes out and comes back in is the same value.

mod records;
mod refusals;
mod streams;

use std::collections::{BTreeMap, BTreeSet};

use sluice_core::checkpoint::Checkpoint;

fn set<T: std::str::FromStr<Err: std::fmt::Debug> + Ord>(names: &[&str]) -> BTreeSet<T> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn checkpoint(step: u64) -> Checkpoint {
    Checkpoint {
        step,
        path: format!("/ck/checkpoint-{step}"),
        bytes: 123_456_789_012,
        files: 17,
        marker: "trainer_state.json".to_owned(),
    }
}

fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
