//! Rules about Rust code (and the contract): sizes, units in names, what may not be left behind.
//!
//! The code is formatted by rustfmt, which is what makes looking at lines enough.

use super::{Source, hold};

/// Most lines of a file. Beyond it nobody reads it as a whole.
const FILE_LINES_MAX: usize = 400;

/// Most lines of a function, from `fn` to its last brace: one screen.
const FUNCTION_LINES_MAX: usize = 70;

/// Files that may be longer, and why.
const LONG_FILES: [(&str, &str); 0] = [];

/// Functions that may be longer: file, name, why.
const LONG_FUNCTIONS: [(&str, &str, &str); 1] =
    [("ctl/get/tests.rs", "json_has_units_and_a_version", "the document is shown whole")];

/// Number fields whose names look as if a unit were missing: where, name, what it counts.
const COUNTS: [(&str, &str, &str); 5] = [
    ("", "world_size", "ranks: PyTorch's own name"),
    ("core/src/kueue/", "size", "pods of a slice: Kueue's own name"),
    ("core/src/kueue/", "slice_size", "pods of a slice: Kueue's own name"),
    ("core/src/kueue/", "outer_size", "pods of the slice around: Kueue's own name"),
    ("ctl/trainer/", "learning_rate", "no unit: the optimizer's own name"),
];

/// Words after which a number needs a unit.
const MEASURES: [&str; 12] = [
    "age", "deadline", "delay", "duration", "interval", "latency", "memory", "period", "rate",
    "size", "time", "timeout",
];

/// Marks that work was left undone. Put together here so that this file does not have them.
const LEFTOVERS: [&str; 4] = [
    concat!("#[", "ignore"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("db", "g!("),
];

fn is_rust(source: &Source) -> bool {
    source.has_extension(&["rs"])
}

fn file_is_short(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    let excused = LONG_FILES.iter().any(|(path, _)| *path == source.path);
    if !is_rust(source) || excused || lines <= FILE_LINES_MAX {
        return Vec::new();
    }
    vec![source.finding(lines, &format!("more than {FILE_LINES_MAX} lines; split it"))]
}

/// A function's name, first line and number of lines.
fn functions(source: &Source) -> Vec<(&str, usize, usize)> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        if line.ends_with('}') || line.ends_with(';') {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let end = format!("{}}}", " ".repeat(indent));
        let length = lines[index..].iter().position(|l| **l == end).map_or(1, |n| n + 1);
        found.push((name, index + 1, length));
    }
    found
}

/// The name, if a function begins on this line.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    for word in ["pub(crate) ", "pub(super) ", "pub ", "const ", "async ", "unsafe "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let rest = rest.strip_prefix("fn ")?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some(&rest[..end])
}

fn functions_fit_a_screen(source: &Source) -> Vec<String> {
    if !is_rust(source) {
        return Vec::new();
    }
    let excused =
        |name: &str| LONG_FUNCTIONS.iter().any(|(p, n, _)| *p == source.path && *n == name);
    let long = functions(source)
        .into_iter()
        .filter(|(name, _, lines)| *lines > FUNCTION_LINES_MAX && !excused(name));
    long.map(|(name, line, lines)| {
        source.finding(line, &format!("{name} has {lines} lines; at most {FUNCTION_LINES_MAX}"))
    })
    .collect()
}

fn numbers_name_their_unit(source: &Source) -> Vec<String> {
    let lacking = source.lines().filter_map(|(line, text)| {
        let name = if is_rust(source) { rust_number(text)? } else { proto_number(text)? };
        let lower = name.to_lowercase();
        let last = lower.rsplit('_').next().unwrap_or(&lower);
        let excused =
            COUNTS.iter().any(|(path, n, _)| source.path.starts_with(path) && *n == lower);
        let lacks = MEASURES.contains(&last) && !excused;
        lacks
            .then(|| source.finding(line, &format!("{name} lacks its unit, such as _ms or _bytes")))
    });
    if is_rust(source) || source.has_extension(&["proto"]) { lacking.collect() } else { Vec::new() }
}

/// The name of a field, parameter or constant whose type is a number.
fn rust_number(line: &str) -> Option<&str> {
    let (left, right) = line.split_once(": ")?;
    let number = right.strip_prefix("Option<").unwrap_or(right);
    let digits = number.strip_prefix(['u', 'i', 'f'])?;
    let width =
        ["8", "16", "32", "64", "128", "size"].into_iter().find(|w| digits.starts_with(w))?;
    let after = digits[width.len()..].chars().next();
    if after.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
        return None;
    }
    let name = left.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (!name.is_empty()).then_some(name)
}

/// The name of a number field of a message.
fn proto_number(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().filter(|w| *w != "optional" && *w != "repeated");
    let kind = words.next()?;
    let is_number = ["uint", "int", "sint", "fixed", "sfixed"]
        .iter()
        .any(|k| kind.strip_prefix(k).is_some_and(|w| w == "32" || w == "64"));
    if is_number || kind == "double" || kind == "float" { words.next() } else { None }
}

fn nothing_is_left_undone(source: &Source) -> Vec<String> {
    let rust = source.lines().filter(|_| is_rust(source));
    rust.filter_map(|(line, text)| {
        let left = LEFTOVERS.iter().find(|left| text.contains(**left))?;
        Some(source.finding(line, &format!("{left} is left; finish it or take it out")))
    })
    .collect()
}

/// A fixed pause is either too short on a busy machine or too long on every other. One between two looks for a state,
/// in a function that has a `deadline` or looks a bounded number of times, is neither.
fn tests_do_not_sleep(source: &Source) -> Vec<String> {
    if !is_rust(source) || !source.is_test() {
        return Vec::new();
    }
    let is_bound = |line: &str| line.contains("deadline") || line.contains("for _ in 0..");
    let lines: Vec<&str> = source.text.lines().collect();
    let functions = functions(source);
    let has_bound = |line: usize| {
        let around = functions.iter().rev().find(|(_, at, n)| (*at..at + n).contains(&line));
        let body = around.and_then(|(_, at, n)| lines.get(at - 1..at - 1 + n));
        body.is_some_and(|body| body.iter().any(|l| is_bound(l)))
    };
    let call = concat!("sle", "ep(");
    let sleeps = source.lines().filter(|(line, text)| text.contains(call) && !has_bound(*line));
    sleeps
        .map(|(line, _)| {
            source.finding(line, "a pause in a test; wait for a state, with a deadline")
        })
        .collect()
}

#[test]
fn files_are_short() {
    hold(file_is_short);
}

#[test]
fn a_long_file_is_found() {
    let long = Source::sample("a.rs", &"x\n".repeat(FILE_LINES_MAX + 1));
    assert_eq!(file_is_short(&long), ["a.rs:401: more than 400 lines; split it"]);
    let data = Source::sample("a.json", &long.text);
    assert_eq!(file_is_short(&data), Vec::<String>::new());
}

#[test]
fn functions_are_short() {
    hold(functions_fit_a_screen);
}

#[test]
fn a_long_function_is_found() {
    let body = "        let x = 1;\n".repeat(FUNCTION_LINES_MAX - 1);
    let text = format!(
        "impl A {{\n    pub(crate) async fn long(\n        self,\n    ) {{\n{body}    }}\n}}\n"
    );
    let long = Source::sample("a.rs", &text);
    assert_eq!(functions_fit_a_screen(&long), ["a.rs:2: long has 73 lines; at most 70"]);
    let short = Source::sample("a.rs", "fn one() {\n}\nfn two() {}\n");
    assert_eq!(functions(&short), [("one", 1, 2)]);
}

#[test]
fn units_stand_in_names() {
    hold(numbers_name_their_unit);
}

#[test]
fn a_number_without_a_unit_is_found() {
    // Put together from types and names, so that this file does not have such fields.
    let field = |name: &str, kind: &str| format!("    {name}: {kind},\n");
    let fields = [
        ("pub start_time", "u64"),
        ("timeout", "Option<u32>"),
        ("age_ms", "u64"),
        ("time", "Time"),
    ];
    let rust: String = fields.iter().map(|(name, kind)| field(name, kind)).collect();
    let found = numbers_name_their_unit(&Source::sample("a.rs", &rust));
    assert_eq!(
        found,
        [
            "a.rs:1: start_time lacks its unit, such as _ms or _bytes",
            "a.rs:2: timeout lacks its unit, such as _ms or _bytes"
        ]
    );
    let proto = "  optional uint64 delay = 1;\n  uint32 delay_ms = 2;\n  string time = 3;\n";
    let found = numbers_name_their_unit(&Source::sample("a.proto", proto));
    assert_eq!(found, ["a.proto:1: delay lacks its unit, such as _ms or _bytes"]);
}

#[test]
fn no_work_is_left_undone() {
    hold(nothing_is_left_undone);
}

#[test]
fn undone_work_is_found() {
    for left in LEFTOVERS {
        let found =
            nothing_is_left_undone(&Source::sample("a.rs", &format!("fn a() {{\n    {left}\n")));
        assert_eq!(found, [format!("a.rs:2: {left} is left; finish it or take it out")]);
    }
}

#[test]
fn no_test_sleeps() {
    hold(tests_do_not_sleep);
}

#[test]
fn a_sleeping_test_is_found() {
    let call = concat!("    thread::sle", "ep(PAUSE);\n");
    let text = format!("fn fact() {{\n{call}}}\n\nfn wait(deadline: Instant) {{\n{call}}}\n");
    let found = tests_do_not_sleep(&Source::sample("a/tests.rs", &text));
    assert_eq!(found, ["a/tests.rs:2: a pause in a test; wait for a state, with a deadline"]);
    assert_eq!(tests_do_not_sleep(&Source::sample("a.rs", &text)), Vec::<String>::new());
}
