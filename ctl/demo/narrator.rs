//! Tells the story: short lines with the time, who, what and why; on a terminal also one line at the
//! bottom that shows the accelerators as they are.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use sluice::wire::pb;

use crate::paint;
use crate::text::safe;

/// Reasons of decisions that are over within a moment and tell nothing of the story.
const NOISE: [&str; 3] = ["submitted", "waiting-for-launcher", "node-connected"];

/// Who does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// The person at the keyboard, whom the demo stands in for.
    You,
    /// The arbiter, with its own reasons.
    Arbiter,
    /// The fine-tuning gang.
    Trainer,
    /// A server.
    Server,
    /// Who holds which accelerator, seen in `/proc`.
    Gpus,
    /// The demo itself.
    Stage,
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Self::You => "you",
            Self::Arbiter => "arbiter",
            Self::Trainer => "trainer",
            Self::Server => "server",
            Self::Gpus => "gpus",
            Self::Stage => "demo",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Out {
    Stdout,
    /// Standard error: the story beside a result for programs.
    Stderr,
    Nowhere,
}

/// Writes the story.
#[derive(Debug)]
pub(super) struct Narrator {
    started: Instant,
    out: Out,
    colour: bool,
    is_terminal: bool,
    live: String,
    /// Whoever read has gone.
    pub(super) is_alone: bool,
}

impl Narrator {
    /// The story on standard output.
    pub(super) fn on_stdout(color: paint::When) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        Self::new(Out::Stdout, color.for_stdout(), is_terminal)
    }

    /// The story on standard error if somebody looks at it.
    pub(super) fn on_terminal_only(color: paint::When) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let out = if is_terminal { Out::Stderr } else { Out::Nowhere };
        Self::new(out, color.for_stderr(), is_terminal)
    }

    fn new(out: Out, colour: bool, is_terminal: bool) -> Self {
        let (started, live) = (Instant::now(), String::new());
        Self { started, out, colour, is_terminal, live, is_alone: false }
    }

    /// Time since the beginning.
    pub(super) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A new part of the story.
    pub(super) fn heading(&mut self, text: &str) {
        self.line(&format!("\n{}", paint::bold(text)));
    }

    /// Something that explains.
    pub(super) fn aside(&mut self, text: &str) {
        self.line(text);
    }

    /// `who` does or sees something.
    pub(super) fn say(&mut self, who: Who, text: &str) {
        let time = paint::dim(&seconds(self.started.elapsed()));
        let name = format!("{:<8}", who.name());
        let name = match who {
            Who::Arbiter => paint::warn(&name),
            Who::Trainer | Who::Server => paint::good(&name),
            Who::You => paint::bold(&name),
            Who::Gpus | Who::Stage => paint::dim(&name),
        };
        self.line(&format!("{time}  {name} {text}"));
    }

    /// A decision of the arbiter with its reason; what only fills the log is left out.
    pub(super) fn decision(&mut self, decision: &pb::Decision) {
        let reason = decision.reason.clone().unwrap_or_default();
        if NOISE.contains(&reason.code.as_str()) {
            return;
        }
        let about = if decision.workload.is_empty() { &decision.node } else { &decision.workload };
        let about = paint::bold(&safe(about));
        self.say(
            Who::Arbiter,
            &format!("{} {about}: {}", safe(&decision.kind), safe(&reason.message)),
        );
    }

    /// How things stand now: on a terminal the line at the bottom, elsewhere nothing.
    pub(super) fn live(&mut self, text: &str) {
        if !self.is_terminal || self.live == text {
            return;
        }
        text.clone_into(&mut self.live);
        self.draw_live();
    }

    /// Removes the line at the bottom.
    pub(super) fn clear_live(&mut self) {
        if !std::mem::take(&mut self.live).is_empty() {
            self.write("\r\u{1b}[K");
        }
    }

    /// The end of the story.
    pub(super) fn verdict(&mut self, text: &str) {
        self.clear_live();
        self.line(text);
    }

    fn line(&mut self, text: &str) {
        if !self.live.is_empty() {
            self.write("\r\u{1b}[K");
        }
        self.write(&format!("{text}\n"));
        if !self.live.is_empty() {
            self.draw_live();
        }
    }

    fn draw_live(&mut self) {
        let time = paint::dim(&seconds(self.started.elapsed()));
        // No wrapping: the line is one line also where the terminal is narrow.
        let text = format!("\r\u{1b}[K\u{1b}[?7l{time}  {}\u{1b}[?7h", self.live);
        self.write(&text);
    }

    fn write(&mut self, text: &str) {
        let text = paint::resolve(text, self.colour);
        let written = match self.out {
            Out::Stdout => write_all(&mut std::io::stdout().lock(), &text),
            Out::Stderr => write_all(&mut std::io::stderr().lock(), &text),
            Out::Nowhere => Ok(()),
        };
        self.is_alone |= written.is_err();
    }
}

fn write_all(out: &mut impl std::io::Write, text: &str) -> std::io::Result<()> {
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Seconds with a tenth, in a column.
fn seconds(span: Duration) -> String {
    format!("{:>5}.{}s", span.as_secs(), span.subsec_millis() / 100)
}
