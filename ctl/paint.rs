//! Colours, decided once at the very end.
//!
//! Text is built with invisible marks around what has a meaning ([`good`], [`warn`], ...); tables
//! can be laid out with them because a mark has no width, and foreign text cannot hold one because
//! [`crate::text::safe`] escapes them. [`resolve`] turns the marks into colours or removes them.

#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;

use anstyle::{AnsiColor, Style};

const END: char = '\u{2060}';
const GOOD: char = '\u{2061}';
const WARN: char = '\u{2062}';
const BAD: char = '\u{2063}';
const DIM: char = '\u{2064}';
const BOLD: char = '\u{206a}';

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless NO_COLOR is set or TERM is "dumb".
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl When {
    /// Whether text for standard output is coloured.
    pub(crate) fn for_stdout(self) -> bool {
        self.decide(std::io::stdout().is_terminal())
    }

    /// Whether text for standard error is coloured.
    pub(crate) fn for_stderr(self) -> bool {
        self.decide(std::io::stderr().is_terminal())
    }

    fn decide(self, is_terminal: bool) -> bool {
        let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
        match self {
            Self::Auto => is_terminal && !set("NO_COLOR") && !dumb,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

fn wrap(mark: char, text: &str) -> String {
    format!("{mark}{text}{END}")
}

/// Text that says that all is well.
pub(crate) fn good(text: &str) -> String {
    wrap(GOOD, text)
}

/// Text that somebody should look at.
pub(crate) fn warn(text: &str) -> String {
    wrap(WARN, text)
}

/// Text that says that something is wrong.
pub(crate) fn bad(text: &str) -> String {
    wrap(BAD, text)
}

/// Text of less importance.
pub(crate) fn dim(text: &str) -> String {
    wrap(DIM, text)
}

/// A heading.
pub(crate) fn bold(text: &str) -> String {
    wrap(BOLD, text)
}

/// `text` with its marks as colours, or without them.
pub(crate) fn resolve(text: &str, colour: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let style = match c {
            GOOD => AnsiColor::Green.on_default(),
            WARN => AnsiColor::Yellow.on_default(),
            BAD => AnsiColor::Red.on_default().bold(),
            DIM => Style::new().dimmed(),
            BOLD => Style::new().bold(),
            END => {
                if colour {
                    shown.push_str("\u{1b}[0m");
                }
                continue;
            }
            _ => {
                shown.push(c);
                continue;
            }
        };
        if colour {
            shown.push_str(&style.render().to_string());
        }
    }
    shown
}
