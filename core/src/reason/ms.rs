//! Milliseconds among the values of reasons.

use std::fmt;

use crate::unit::Span;

fn ms(value: u64) -> Span {
    Span(value)
}

/// Milliseconds that print as a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ms(pub u64);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() { write!(f, "{}", ms(self.0)) } else { write!(f, "{}", self.0) }
    }
}

impl std::str::FromStr for Ms {
    type Err = std::num::ParseIntError;

    fn from_str(value: &str) -> Result<Self, Self::Err> {
        value.parse().map(Self)
    }
}
