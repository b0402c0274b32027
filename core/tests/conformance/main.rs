//! The decision engine against the conformance corpus (`tests/corpus/README.md` says what a case holds).
//!
//! Every case of a kind is decided and its whole outcome compared with what the corpus expects. No case is treated
//! specially; [`OUTSIDE`] lists those that ask for something Sluice leaves out on purpose, with the reason.

#![allow(clippy::unwrap_used, reason = "a broken corpus file must stop the test")]

mod cycle;
mod flavor;
mod parse;
mod place;
mod queue_order;
mod replace;
mod victim_order;
mod victims;

use std::panic::catch_unwind;
use std::path::PathBuf;

use serde_json::{Value, json};

/// Cases that are not decided, and why.
const OUTSIDE: [(&str, &str); 1] = [(
    "cy-quota-c286450f",
    "expects a workload to be refused for pods whose limits are below their requests, but the case holds no limits",
)];

/// Decides every case of `kind` and compares; prints how many pass and fails if any does not.
fn check_kind(kind: &str, decide: fn(&Value) -> Value) {
    let directory = corpus().join(kind);
    let mut files: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut passed, mut outside, mut missed) = (0, 0, Vec::new());
    for file in files {
        let case: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let id = case["id"].as_str().unwrap();
        if let Some((_, reason)) = OUTSIDE.iter().find(|(outside, _)| *outside == id) {
            println!("{id}: outside: {reason}");
            outside += 1;
            continue;
        }
        // A case that breaks the adaptor or the engine must not hide how the others fare.
        let actual = catch_unwind(|| decide(&case)).unwrap_or_else(|_| json!("panicked"));
        let expected = without_order(&case["expect"]);
        if without_order(&actual) == expected {
            passed += 1;
        } else {
            let difference = format!("{id}:\n  expected {expected}\n  decided  {actual}");
            missed.push(difference);
        }
    }
    println!("{kind}: {passed} pass, {} miss, {outside} outside", missed.len());
    assert!(missed.is_empty(), "{kind}: {} cases miss\n{}", missed.len(), missed.join("\n"));
    assert!(passed > 0, "{kind}: no cases found");
}

/// The corpus of this repository, or the one that `SLUICE_CORPUS` names.
fn corpus() -> PathBuf {
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    std::env::var_os("SLUICE_CORPUS").map_or_else(default, PathBuf::from)
}

/// Lists of victims and evictions have no order; everything else keeps its own.
fn without_order(expect: &Value) -> Value {
    let mut expect = expect.clone();
    for key in ["victims", "evictions"] {
        if let Some(Value::Array(list)) = expect.get_mut(key) {
            list.sort_by_key(|entry| entry["workload"].to_string());
        }
    }
    expect
}

#[test]
fn victims_are_chosen_as_the_corpus_expects() {
    check_kind("victims", victims::decide);
}

#[test]
fn candidates_are_ordered_as_the_corpus_expects() {
    check_kind("victim-order", victim_order::decide);
}

#[test]
fn unfair_queues_are_visited_as_the_corpus_expects() {
    check_kind("queue-order", queue_order::decide);
}

#[test]
fn pods_are_placed_as_the_corpus_expects() {
    check_kind("place", place::decide);
}

#[test]
fn broken_nodes_are_replaced_as_the_corpus_expects() {
    check_kind("replace", replace::decide);
}

#[test]
fn flavors_are_assigned_as_the_corpus_expects() {
    check_kind("flavor", flavor::decide);
}

#[test]
fn cycles_decide_as_the_corpus_expects() {
    check_kind("cycle", cycle::decide);
}
