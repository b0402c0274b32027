//! Errors on the wire: a field that cannot be used, and a refusal with its reason.

use std::collections::HashMap;
use std::fmt;

use sluice_core::reason::Reason;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::pb;

/// Domain of `google.rpc.ErrorInfo`: tells our reason codes from those of other services.
pub const ERROR_DOMAIN: &str = "sluice.v1";

/// Longest part of a bad value that is repeated in an error. Unit: characters.
const SHOWN_CHARS_MAX: usize = 128;

/// A message from outside that cannot be used: which field, what it holds, what it should hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireError {
    /// Path to the field, such as `spec.resources["nvidia.com/gpu"]`.
    pub field: String,
    /// What was there, shortened to 128 characters.
    pub value: String,
    /// What would be accepted.
    pub expected: String,
}

impl WireError {
    /// An error about `field`.
    pub fn new(
        field: impl Into<String>,
        value: impl fmt::Display,
        expected: impl fmt::Display,
    ) -> Self {
        let value = value.to_string().chars().take(SHOWN_CHARS_MAX).collect();
        Self { field: field.into(), value, expected: expected.to_string() }
    }

    /// The same error seen from the message around: `parent.field`.
    #[must_use]
    pub fn within(mut self, parent: &str) -> Self {
        self.field = format!("{parent}.{}", self.field);
        self
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {:?} but must be {}", self.field, self.value, self.expected)
    }
}

impl std::error::Error for WireError {}

impl From<WireError> for Status {
    /// `INVALID_ARGUMENT` with `google.rpc.BadRequest`.
    fn from(error: WireError) -> Self {
        let description = format!("is {:?} but must be {}", error.value, error.expected);
        let details = ErrorDetails::with_bad_request_violation(error.field.clone(), description);
        Self::with_error_details(Code::InvalidArgument, error.to_string(), details)
    }
}

/// The status for a refusal: "what; hint" as its message, `google.rpc.ErrorInfo` with the reason's
/// code and values as its details, from which [`reason_of`] makes the reason again.
#[must_use]
pub fn refusal(reason: &Reason) -> Status {
    let values: HashMap<String, String> =
        reason.values().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let details = ErrorDetails::with_error_info(reason.code(), ERROR_DOMAIN, values);
    let message = match reason.hint() {
        "" => reason.to_string(),
        hint => format!("{reason}; {hint}"),
    };
    Status::with_error_details(status_code(reason), message, details)
}

/// The reason inside a status made by [`refusal`]; `None` for any other status.
///
/// A reason of another version is kept with its code and the status's message.
#[must_use]
pub fn reason_of(status: &Status) -> Option<pb::Reason> {
    let info = status.get_details_error_info().filter(|info| info.domain == ERROR_DOMAIN)?;
    let values = info.metadata.into_iter().collect();
    Some(match Reason::from_parts(&info.reason, &values) {
        Some(reason) => pb::Reason::from(&reason),
        None => pb::Reason {
            code: info.reason,
            message: status.message().to_owned(),
            hint: String::new(),
            values,
        },
    })
}

/// The gRPC code for a refusal. By the reason's code, as most reasons refuse nothing; what is not
/// named here means "not in this state".
fn status_code(reason: &Reason) -> Code {
    match reason.code() {
        "no-such-workload" | "queue-unknown" => Code::NotFound,
        "spec-conflict" | "rank-taken" => Code::AlreadyExists,
        "queue-ambiguous" | "exceeds-quota" | "resource-unknown" | "rank-out-of-range"
        | "bad-what-if" => Code::InvalidArgument,
        "limit-reached" => Code::ResourceExhausted,
        _ => Code::FailedPrecondition,
    }
}
