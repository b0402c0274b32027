//! Rules about documents: links lead somewhere, and every code that a program can print is explained.

use std::collections::BTreeSet;

use super::{Source, hold, report, root, sources};

/// Where codes are explained, one row of a table each: `` | `code` | … | ``.
const REASONS: &str = "docs/reasons.md";

/// What is promised, with the tests that show it.
const SPECIFICATION: &str = "SPECIFICATION.md";

/// Where most codes are declared, by macros.
const DECLARED: [&str; 2] = ["core/src/reason.rs", "core/src/volume/finding.rs"];

/// Every code that a program can print: those of the macro, and what functions named `code` return.
fn codes(sources: &[Source]) -> BTreeSet<String> {
    let programs = sources.iter().filter(|s| s.has_extension(&["rs"]) && !s.is_test());
    programs.flat_map(|s| [declared(s), returned(s)].concat()).collect()
}

fn declared(source: &Source) -> Vec<String> {
    if !DECLARED.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let rows = source.lines().filter(|(_, l)| l.trim_start().starts_with(char::is_uppercase));
    rows.filter_map(|(_, l)| quoted(l.split_once(" = \"")?.1)).collect()
}

/// The literals in bodies of functions named `code`.
fn returned(source: &Source) -> Vec<String> {
    let (mut found, mut end) = (Vec::new(), None);
    for (_, line) in source.lines() {
        if end.as_deref() == Some(line) {
            end = None;
        }
        if end.is_some()
            && let Some(code) = line.split_once("=> \"").and_then(|(_, rest)| quoted(rest))
        {
            found.push(code);
        }
        if line.contains("fn code(") && line.ends_with('{') {
            let indent = line.len() - line.trim_start().len();
            end = Some(format!("{}}}", " ".repeat(indent)));
        }
    }
    found
}

/// What stands before the next quotation mark, if it can be a code.
fn quoted(rest: &str) -> Option<String> {
    let (code, _) = rest.split_once('"')?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (!code.is_empty() && code.chars().all(allowed)).then(|| code.to_owned())
}

/// The first cells of the tables.
fn explained(document: &Source) -> BTreeSet<String> {
    let rows = document.lines().filter_map(|(_, line)| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once('`').map(|(code, _)| code.to_owned())).collect()
}

/// What is missing on either side.
fn differences(sources: &[Source], document: &Source) -> Vec<String> {
    let (codes, explained) = (codes(sources), explained(document));
    let unexplained = codes.difference(&explained);
    let unexplained =
        unexplained.map(|code| format!("{REASONS}: {code} is not explained; add a row"));
    let programs: Vec<&Source> =
        sources.iter().filter(|s| s.has_extension(&["rs"]) && !s.is_test()).collect();
    let is_known = |code: &String| {
        let literal = format!("\"{code}\"");
        codes.contains(code) || programs.iter().any(|s| s.text.contains(&literal))
    };
    let unknown = explained.iter().filter(|code| !is_known(code));
    unexplained
        .chain(unknown.map(|code| format!("{REASONS}: no program prints {code}; remove the row")))
        .collect()
}

/// Tests that the specification names, and that do not exist.
fn unshown(sources: &[Source], document: &Source) -> Vec<String> {
    let is_fact = |word: &str| {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        word.matches('_').count() >= 2 && word.chars().all(allowed)
    };
    let exists = |name: &str| {
        let definition = format!("fn {name}(");
        sources.iter().any(|s| s.has_extension(&["rs"]) && s.text.contains(&definition))
    };
    let named = document
        .lines()
        .flat_map(|(line, text)| text.split('`').skip(1).step_by(2).map(move |word| (line, word)));
    let missing = named.filter(|(_, word)| is_fact(word) && !exists(word));
    missing
        .map(|(line, word)| document.finding(line, &format!("there is no test {word}")))
        .collect()
}

fn links_lead_somewhere(source: &Source) -> Vec<String> {
    if !source.has_extension(&["md"]) {
        return Vec::new();
    }
    let mut in_code = false;
    let mut found = Vec::new();
    for (line, text) in source.lines() {
        in_code ^= text.trim_start().starts_with("```");
        for target in targets(text).filter(|_| !in_code) {
            if let Some(why) = dead(source, target) {
                found.push(
                    source.finding(line, &format!("the link {target:?} leads nowhere: {why}")),
                );
            }
        }
    }
    found
}

/// What the links of a line point to.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// Why a link within the repository cannot be followed.
fn dead(source: &Source, target: &str) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let beside = root().join(&source.path).with_file_name(file);
    if !file.is_empty() && !beside.exists() {
        return Some("there is no such file");
    }
    let text = if file.is_empty() || anchor.is_empty() {
        source.text.clone()
    } else {
        std::fs::read_to_string(beside).unwrap_or_default()
    };
    let mut headings = text.lines().filter(|line| line.starts_with('#'));
    let has = anchor.is_empty() || headings.any(|heading| slug(heading) == anchor);
    (!has).then_some("there is no such heading")
}

/// A heading as it is named in links.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_code_is_explained_and_every_explanation_has_its_code() {
    let sources = sources();
    let document = sources.iter().find(|s| s.path == REASONS);
    let document = document.unwrap_or_else(|| panic!("{REASONS} is not tracked"));
    assert!(codes(&sources).len() > 100, "too few codes were found: the search is broken");
    report(&differences(&sources, document));
}

#[test]
fn a_code_without_its_row_and_a_row_without_its_code_are_found() {
    let macro_rows = "reasons! {\n    Started { attempt: u32 } = \"started\",\n        \"text = \\\"no\\\"\";\n}\n";
    let function = "impl A {\n    fn code(self) -> &'static str {\n        match self {\n            Self::B => \"no-space\",\n        }\n    }\n    fn name() { x => \"not-a-code\" }\n}\n";
    let sources = [Source::sample(DECLARED[0], macro_rows), Source::sample("a.rs", function)];
    let document = Source::sample(
        REASONS,
        "| code | meaning |\n|---|---|\n| `no-space` | x |\n| `gone` | y |\n",
    );
    assert_eq!(
        differences(&sources, &document),
        [
            "docs/reasons.md: started is not explained; add a row",
            "docs/reasons.md: no program prints gone; remove the row"
        ]
    );
}

#[test]
fn every_promise_names_tests_that_exist() {
    let sources = sources();
    let document = sources.iter().find(|s| s.path == SPECIFICATION);
    let document = document.unwrap_or_else(|| panic!("{SPECIFICATION} is not tracked"));
    report(&unshown(&sources, document));
}

#[test]
fn a_promise_without_its_test_is_found() {
    let sources = [Source::sample("a.rs", "fn nothing_is_lost() {}\n")];
    let document = Source::sample("S.md", "| x | `nothing_is_lost`, `all_is_well`, `a_b` |\n");
    assert_eq!(unshown(&sources, &document), ["S.md:1: there is no test all_is_well"]);
}

#[test]
fn all_links_lead_somewhere() {
    hold(links_lead_somewhere);
}

#[test]
fn a_dead_link_is_found() {
    let text = "# One two\n[a](../Cargo.toml) [b](nothing.md) [c](#one-two) [d](#three)\n```\n[e](x.md)\n```\n";
    let found = links_lead_somewhere(&Source::sample("docs/a.md", text));
    assert_eq!(
        found,
        [
            "docs/a.md:2: the link \"nothing.md\" leads nowhere: there is no such file",
            "docs/a.md:2: the link \"#three\" leads nowhere: there is no such heading"
        ]
    );
}
