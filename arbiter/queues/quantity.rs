//! Quantities as Kubernetes writes them, exactly: no floating point anywhere.
//!
//! Grammar: `<digits>[.<digits>]<suffix>`, the suffix one of `n u m k M G T P E`, `Ki Mi Gi Ti Pi Ei`,
//! `e<number>` or `E<number>`, or none. Source: `apimachinery/pkg/api/resource` of Kubernetes.

/// Most digits of a number, before and after the point together. 18 digits times 2^60 fit in 128 bits;
/// Kubernetes itself rounds beyond that.
const DIGITS_MAX: usize = 18;
/// Largest exponent, for the same reason.
const EXPONENT_MAX: u32 = 18;

/// A number as a fraction that need not be in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quantity {
    numerator: u128,
    denominator: u128,
}

impl Quantity {
    /// Parses `text`; `None` where it is no quantity, is negative or has too many digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || digits.len() > DIGITS_MAX || fraction.contains('.') {
            return None;
        }
        let mantissa: u128 = digits.parse().ok()?;
        let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
        let (times, over) = factor(suffix)?;
        Some(Self { numerator: mantissa * times, denominator: scale * over })
    }

    /// The number of whole units; `None` where a part of a unit would be lost or 64 bits are too few.
    pub(super) fn whole(self) -> Option<u64> {
        let exact = self.numerator.is_multiple_of(self.denominator);
        exact.then(|| u64::try_from(self.numerator / self.denominator).ok()).flatten()
    }
}

/// What a suffix multiplies by and divides by.
fn factor(suffix: &str) -> Option<(u128, u128)> {
    let binary = |power: u32| Some((1u128 << (10 * power), 1));
    let decimal = |power: u32| Some((10u128.pow(power), 1));
    let parts = |power: u32| Some((1, 10u128.pow(power)));
    match suffix {
        "" => decimal(0),
        "n" => parts(9),
        "u" => parts(6),
        "m" => parts(3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => exponent(suffix),
    }
}

fn exponent(suffix: &str) -> Option<(u128, u128)> {
    let number = suffix.strip_prefix(['e', 'E'])?;
    let negative = number.strip_prefix('-');
    let digits = negative.or_else(|| number.strip_prefix('+')).unwrap_or(number);
    let power: u32 = digits.parse().ok().filter(|power| *power <= EXPONENT_MAX)?;
    let value = 10u128.pow(power);
    Some(if negative.is_some() { (1, value) } else { (value, 1) })
}
