//! Weights of fair sharing: exact decimals, never floats.

use std::fmt;

/// Nano-units per unit: the finest weight Kueue accepts is just above 10⁻⁹.
const NANO_PER_UNIT: u64 = 1_000_000_000;

/// A non-negative decimal with nine places. Kueue writes it as a Kubernetes quantity, for example `2`, `0.5` or `500m`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FairWeight {
    nano_units: u64,
}

impl FairWeight {
    /// The weight of a queue or cohort that names none.
    pub const ONE: Self = Self { nano_units: NANO_PER_UNIT };
    /// The weight of a queue or cohort that gives way to every other one as soon as it borrows.
    pub const ZERO: Self = Self { nano_units: 0 };

    /// A weight in billionths.
    #[must_use]
    pub fn from_nano_units(nano_units: u64) -> Self {
        Self { nano_units }
    }

    /// The weight in billionths.
    #[must_use]
    pub fn nano_units(self) -> u64 {
        self.nano_units
    }

    /// Reads a weight from its decimal text. What lies below a billionth is rounded up, as Kubernetes does.
    ///
    /// # Errors
    /// [`WeightError`] if the text is no non-negative decimal or too large (above about 1.8 × 10¹⁰).
    pub fn parse(text: &str) -> Result<Self, WeightError> {
        let error = || WeightError { text: text.to_owned() };
        let (mantissa, exponent) = split_exponent(text).ok_or_else(error)?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(error());
        }
        let fraction_len = i32::try_from(fraction.len()).map_err(|_| error())?;
        let mut digits: u128 = 0;
        for digit in whole.chars().chain(fraction.chars()) {
            let value = digit.to_digit(10).ok_or_else(error)?;
            digits = digits
                .checked_mul(10)
                .and_then(|digits| digits.checked_add(u128::from(value)))
                .ok_or_else(error)?;
        }
        let shift = exponent + 9 - fraction_len;
        let nano_units = shift_decimal(digits, shift).ok_or_else(error)?;
        u64::try_from(nano_units).map(Self::from_nano_units).map_err(|_| error())
    }
}

impl fmt::Debug for FairWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.nano_units / NANO_PER_UNIT, self.nano_units % NANO_PER_UNIT)
    }
}

/// A weight that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightError {
    text: String,
}

impl fmt::Display for WeightError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "could not read weight \"{}\": not a non-negative decimal below 1.8e10; write it like \"2\", \"0.5\" or \"500m\"",
            self.text
        )
    }
}

impl std::error::Error for WeightError {}

/// Splits a quantity into its digits and the power of ten that its suffix or exponent stands for.
fn split_exponent(text: &str) -> Option<(&str, i32)> {
    const SUFFIXES: [(char, i32); 6] =
        [('n', -9), ('u', -6), ('m', -3), ('k', 3), ('M', 6), ('G', 9)];
    if let Some((mantissa, exponent)) = text.split_once(['e', 'E']) {
        let exponent: i32 = exponent.parse().ok()?;
        return (-30..=30).contains(&exponent).then_some((mantissa, exponent));
    }
    for (suffix, exponent) in SUFFIXES {
        if let Some(mantissa) = text.strip_suffix(suffix) {
            return Some((mantissa, exponent));
        }
    }
    Some((text, 0))
}

/// `digits` × 10^`shift`, rounded up; `None` if it does not fit.
fn shift_decimal(digits: u128, shift: i32) -> Option<u128> {
    let factor = 10_u128.checked_pow(shift.unsigned_abs());
    if shift >= 0 {
        if digits == 0 { Some(0) } else { digits.checked_mul(factor?) }
    } else {
        // A divisor beyond u128 leaves nothing but the rounding.
        Some(factor.map_or(u128::from(digits > 0), |factor| digits.div_ceil(factor)))
    }
}

#[cfg(test)]
mod tests;
