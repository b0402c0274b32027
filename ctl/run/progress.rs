//! What `sluice run` tells people on standard error: each change once, and nothing twice.

use std::io::{IsTerminal as _, Write as _};
use std::time::Instant;

use crate::paint;
use crate::text::age;

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Nothing but errors.
    Quiet,
    /// A line for each change.
    Lines,
    /// The same, and on the terminal one line that shows the time waited.
    Terminal,
}

/// Writes to standard error.
#[derive(Debug)]
pub(crate) struct Progress {
    manner: Manner,
    colour: bool,
    last: String,
    waiting_since: Option<Instant>,
    line_open: bool,
}

impl Progress {
    /// A writer; `quiet` leaves only what [`Progress::error`] says.
    pub(crate) fn new(quiet: bool, color: paint::When) -> Self {
        let manner = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Manner::Quiet,
            (false, false) => Manner::Lines,
            (false, true) => Manner::Terminal,
        };
        Self {
            manner,
            colour: color.for_stderr(),
            last: String::new(),
            waiting_since: None,
            line_open: false,
        }
    }

    /// Says `text`, unless it was the last thing said.
    pub(crate) fn say(&mut self, text: &str) {
        if self.manner != Manner::Quiet && self.last != text {
            text.clone_into(&mut self.last);
            self.write(text);
        }
    }

    /// Says `text` even if told to be quiet.
    pub(crate) fn error(&mut self, text: &str) {
        if self.last != text {
            text.clone_into(&mut self.last);
            self.write(&format!("{} {text}", paint::bad("error:")));
        }
    }

    /// The wait has begun or goes on: on a terminal one line shows for how long.
    pub(crate) fn waiting(&mut self) {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        if self.manner == Manner::Terminal {
            let ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
            let line = paint::dim(&format!("waiting for {}", age(ms)));
            self.raw(&format!("\r{}\u{1b}[K", paint::resolve(&line, self.colour)));
            self.line_open = true;
        }
    }

    /// The wait is over: the terminal belongs to the worker now.
    pub(crate) fn done_waiting(&mut self) {
        self.waiting_since = None;
        self.last.clear();
        self.close_line();
    }

    fn close_line(&mut self) {
        if std::mem::take(&mut self.line_open) {
            self.raw("\r\u{1b}[K");
        }
    }

    fn write(&mut self, text: &str) {
        self.close_line();
        let line = format!("{} {text}\n", paint::dim("sluice:"));
        self.raw(&paint::resolve(&line, self.colour));
    }

    fn raw(&mut self, text: &str) {
        // A launcher whose terminal has gone still does its work.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}
