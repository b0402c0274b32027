//! Logs: one line per event on stderr, for people on a terminal and as JSON anywhere else.

use std::fmt;
use std::io::{self, IsTerminal};
use std::str::FromStr;

use tracing::error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// Environment variable that [`LogFilter`] is read from where no flag is given.
pub const LOG_VARIABLE: &str = "SLUICE_LOG";

/// What is logged unless told otherwise.
pub const LOG_DEFAULT: &str = "info";

/// Which events are logged: a level, or levels by module, such as `info,sluice_agent::uplink=debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter(String);

impl Default for LogFilter {
    fn default() -> Self {
        Self(LOG_DEFAULT.to_owned())
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is no filter.
#[derive(Debug, thiserror::Error)]
#[error(
    "log filter {text:?} cannot be used: {why}; write a level (error, warn, info, debug, trace) or levels by module, \
     such as \"info,sluice_agent=debug\""
)]
pub struct LogFilterError {
    text: String,
    why: ParseError,
}

impl FromStr for LogFilter {
    type Err = LogFilterError;

    fn from_str(text: &str) -> Result<Self, LogFilterError> {
        match EnvFilter::try_new(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(why) => Err(LogFilterError { text: text.to_owned(), why }),
        }
    }
}

/// Starts logging. Called once, by `main`; a second call does nothing.
///
/// Panics are logged as errors too, so that they appear in the same place and form as everything else.
pub fn init(filter: &LogFilter) {
    let filter = EnvFilter::new(&filter.0);
    let is_terminal = io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let result = if is_terminal {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        builder.with_ansi(!plain).compact().try_init()
    } else {
        builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    };
    if result.is_ok() {
        std::panic::set_hook(Box::new(|info| {
            let at = info.location().map(ToString::to_string).unwrap_or_default();
            let why = info.payload_as_str().unwrap_or("unknown");
            error!(at, "this is a bug, please report it: {why}");
        }));
    }
}
