//! Rules about any text: blanks, and what must not stand in a public repository.

use super::{Source, hold};

/// Kinds of files that people write.
const WRITTEN: [&str; 7] = ["md", "proto", "py", "rs", "toml", "yaml", "yml"];

/// What a sensor is given to read is kept as the kernel writes it.
const AS_FOUND: [&str; 2] = ["tests/fixtures/", "core/tests/corpus/"];

/// Paths of single machines. Put together here so that this file does not have them.
const MACHINE_PATHS: [&str; 4] = [
    concat!("/wor", "k/"),
    concat!("/tmp/tar", "get"),
    concat!("/tmp/bri", "ef"),
    concat!("/ro", "ot/"),
];

/// Where every crate comes from: a lock file made behind a mirror would name the mirror.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn is_written(source: &Source) -> bool {
    let is_script = source.path == ".ci/run" || source.text.starts_with("#!");
    (source.has_extension(&WRITTEN) || is_script)
        && !AS_FOUND.iter().any(|path| source.path.starts_with(path))
}

fn blanks_are_in_order(source: &Source) -> Vec<String> {
    if !is_written(source) {
        return Vec::new();
    }
    let mut found: Vec<String> =
        source.lines().filter_map(|(n, l)| stray_blank(source, n, l)).collect();
    if !source.text.is_empty() && !source.text.ends_with('\n') {
        found.push(source.finding(source.text.lines().count(), "the last line has no end"));
    }
    found
}

fn stray_blank(source: &Source, line: usize, text: &str) -> Option<String> {
    if text.contains('\t') {
        return Some(source.finding(line, "a tab; use spaces"));
    }
    text.ends_with([' ', '\r']).then(|| source.finding(line, "a blank at the end of the line"))
}

fn no_machine_is_named(source: &Source) -> Vec<String> {
    let named = source.lines().filter_map(|(line, text)| {
        let path = MACHINE_PATHS.iter().find(|path| text.contains(**path))?;
        Some(source.finding(line, &format!("{path:?} is a path of one machine; leave it out")))
    });
    named.collect()
}

fn crates_come_from_crates_io(source: &Source) -> Vec<String> {
    let is_lock = source.path.ends_with("Cargo.lock");
    let is_config = source.path.starts_with(".cargo/");
    let foreign = source.lines().filter(|(_, text)| {
        let other_source =
            text.strip_prefix("source = ").is_some_and(|s| s.trim_matches('"') != CRATES_IO);
        let replaced = text.starts_with("[source") || text.starts_with("[registr");
        (is_lock && other_source) || (is_config && replaced)
    });
    foreign
        .map(|(line, _)| source.finding(line, "crates come from crates.io and nowhere else"))
        .collect()
}

#[test]
fn blanks_are_where_they_belong() {
    hold(blanks_are_in_order);
}

#[test]
fn a_stray_blank_is_found() {
    let found = blanks_are_in_order(&Source::sample("a.md", "one \n\ttwo\nthree"));
    assert_eq!(
        found,
        [
            "a.md:1: a blank at the end of the line",
            "a.md:2: a tab; use spaces",
            "a.md:3: the last line has no end"
        ]
    );
    let kernel = Source::sample("tests/fixtures/a.md", "a \n");
    assert_eq!(blanks_are_in_order(&kernel), Vec::<String>::new());
}

#[test]
fn no_file_names_a_machine() {
    hold(no_machine_is_named);
}

#[test]
fn a_path_of_one_machine_is_found() {
    for path in MACHINE_PATHS {
        let found = no_machine_is_named(&Source::sample("a.md", &format!("see\n{path}x\n")));
        assert_eq!(found, [format!("a.md:2: {path:?} is a path of one machine; leave it out")]);
    }
}

#[test]
fn all_crates_come_from_crates_io() {
    hold(crates_come_from_crates_io);
}

#[test]
fn a_mirror_is_found() {
    let lock =
        format!("source = \"{CRATES_IO}\"\nsource = \"registry+https://mirror.example/index\"\n");
    let found = crates_come_from_crates_io(&Source::sample("Cargo.lock", &lock));
    assert_eq!(found, ["Cargo.lock:2: crates come from crates.io and nowhere else"]);
    let config = Source::sample(".cargo/config.toml", "[source.crates-io]\n");
    assert_eq!(crates_come_from_crates_io(&config).len(), 1);
}
