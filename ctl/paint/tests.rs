use super::*;

#[test]
fn marks_become_colours_or_nothing() {
    let text = format!("{} {} x", good("ok"), bad("no"));
    assert_eq!(resolve(&text, false), "ok no x");
    assert_eq!(resolve(&text, true), "\u{1b}[32mok\u{1b}[0m \u{1b}[1m\u{1b}[31mno\u{1b}[0m x");
}

#[test]
fn foreign_text_cannot_hold_a_mark() {
    let name = crate::text::safe(&good("x"));
    assert_eq!(resolve(&name, true), name);
}

#[test]
fn explicit_choice_beats_the_terminal() {
    assert!(When::Always.decide(false));
    assert!(!When::Never.decide(true));
    assert!(!When::Auto.decide(false));
}
