//! Why a command did not do what it was asked for, and with which exit status that ends.

#[cfg(test)]
mod tests;

use std::fmt;

use tonic::{Code, Status};

use sluice::wire::error::reason_of;

use crate::paint;
use crate::text::safe;

/// A runtime failure.
pub(crate) const EXIT_FAILURE: u8 = 1;
/// Bad flags or configuration: sysexits' `EX_USAGE`.
pub(crate) const EXIT_USAGE: u8 = 64;
/// The arbiter or an agent is not reachable: sysexits' `EX_UNAVAILABLE`.
pub(crate) const EXIT_UNREACHABLE: u8 = 69;
/// The command cannot be executed, as shells say it.
pub(crate) const EXIT_NOT_EXECUTABLE: u8 = 126;
/// The command does not exist, as shells say it.
pub(crate) const EXIT_NOT_FOUND: u8 = 127;

/// Why a command failed. Printed as one line, with a hint on a second one where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Exit status of the process.
    pub(crate) exit: u8,
    /// What failed and why; empty if nothing is to be printed.
    pub(crate) message: String,
    /// What to do about it; may be empty.
    pub(crate) hint: String,
}

impl Failure {
    /// Something went wrong at run time.
    pub(crate) fn runtime(message: impl Into<String>) -> Self {
        Self { exit: EXIT_FAILURE, message: message.into(), hint: String::new() }
    }

    /// A flag or an argument cannot be used.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: EXIT_USAGE, ..Self::runtime(message) }
    }

    /// Nobody answers.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self { exit: EXIT_UNREACHABLE, ..Self::runtime(message) }
    }

    /// Whoever read the output has gone: nothing to say, and not a failure of ours.
    pub(crate) fn reader_gone() -> Self {
        Self { exit: 0, ..Self::runtime("") }
    }

    /// The same with a hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// What a server answered when it was asked to do `what`.
    ///
    /// A reason that the server gave is printed with its hint; a server that does not answer is
    /// [`EXIT_UNREACHABLE`].
    pub(crate) fn of_status(what: &str, server: &str, status: &Status) -> Self {
        if let Some(reason) = reason_of(status) {
            let message = format!("{what}: {} [{}]", safe(&reason.message), safe(&reason.code));
            return Self::runtime(message).hint(safe(&reason.hint));
        }
        let said = match status.message() {
            "" => status.code().description().to_owned(),
            message => safe(message),
        };
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded => {
                Self::unreachable(format!("{what}: {server} does not answer: {said}"))
            }
            Code::Unimplemented => Self::runtime(format!("{what}: {server} cannot do this"))
                .hint("its version differs from this one; see sluice version and sluice doctor"),
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::OutOfRange
            | Code::Internal
            | Code::DataLoss
            | Code::Unauthenticated => Self::runtime(format!("{what}: {said}")),
        }
    }

    /// The text to print, without colours resolved; empty if there is nothing to say.
    pub(crate) fn text(&self) -> String {
        match (self.message.as_str(), self.hint.as_str()) {
            ("", _) => String::new(),
            (message, "") => format!("{} {message}\n", paint::bad("sluice:")),
            (message, hint) => {
                format!("{} {message}\n        hint: {hint}\n", paint::bad("sluice:"))
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Whether the same question may get another answer later: the server is away, starting or busy.
pub(crate) fn is_transient(status: &Status) -> bool {
    if reason_of(status).is_some() {
        return false;
    }
    match status.code() {
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Unknown
        | Code::Aborted
        | Code::Internal
        | Code::ResourceExhausted => true,
        Code::Ok
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::DataLoss
        | Code::Unauthenticated => false,
    }
}
