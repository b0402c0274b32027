//! Reasons on the wire.

use std::collections::BTreeMap;

use sluice_core::reason::Reason;

use super::{WireError, field, pb};

impl From<&Reason> for pb::Reason {
    fn from(reason: &Reason) -> Self {
        if let Reason::Unrecognized { code, message } = reason {
            // Handed on as it was told, so that a newer reader sees what a newer writer said.
            return Self {
                code: code.clone(),
                message: message.clone(),
                hint: String::new(),
                values: BTreeMap::new(),
            };
        }
        Self {
            code: reason.code().to_owned(),
            message: reason.to_string(),
            hint: reason.hint().to_owned(),
            values: reason.values().into_iter().map(|(name, v)| (name.to_owned(), v)).collect(),
        }
    }
}

impl From<&pb::Reason> for Reason {
    /// A code or values that this version does not know lose nothing but their type.
    fn from(reason: &pb::Reason) -> Self {
        Self::from_parts(&reason.code, &reason.values).unwrap_or_else(|| Self::Unrecognized {
            code: reason.code.clone(),
            message: reason.message.clone(),
        })
    }
}

/// A reason that has to be there.
///
/// # Errors
/// Where it is absent.
pub fn required(name: &str, reason: Option<&pb::Reason>) -> Result<Reason, WireError> {
    field::required(name, reason).map(Reason::from)
}
