//! Time as core sees it: milliseconds on a clock that the caller provides and that never goes back.

use std::fmt;

/// A point in time. Unit: milliseconds since an origin of the caller's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// The point `ms` milliseconds later (saturating).
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// The point `ms` milliseconds earlier (saturating at the origin).
    #[must_use]
    pub fn minus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// Milliseconds from `earlier` to this point; 0 if `earlier` is later.
    #[must_use]
    pub fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A span of time, printed for people: `850 ms`, `12.3 s`, `4 min 10 s`, `3 h 5 min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0;
        let seconds = ms / 1_000;
        match ms {
            0..1_000 => write!(f, "{ms} ms"),
            1_000..60_000 => write!(f, "{seconds}.{} s", ms % 1_000 / 100),
            60_000..3_600_000 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            3_600_000.. => write!(f, "{} h {} min", seconds / 3_600, seconds / 60 % 60),
        }
    }
}
