//! Quantities as Kubernetes writes them, exactly: no floating point anywhere.
//!
//! Grammar: `[sign]<digits>[.<digits>]<suffix>`, the suffix one of `n u m k M G T P E`, `Ki Mi Gi Ti Pi Ei`,
//! `e<number>` or `E<number>`, or none. Source: `apimachinery/pkg/api/resource` of Kubernetes.

use std::fmt;

use sluice_core::kueue::name::ResourceName;

/// Most digits of a number, before and after the point together. Every 64-bit number has that many, and all products
/// below that do not fit in 128 bits are beyond 64 bits in any unit.
const DIGITS_MAX: usize = 19;
/// Largest exponent, for the same reason.
const EXPONENT_MAX: u32 = 18;

/// A number as a fraction that need not be in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity {
    is_negative: bool,
    numerator: u128,
    denominator: u128,
}

/// Why a text is no quantity that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantityError {
    /// It is not written as a quantity.
    Malformed,
    /// It has more than 19 digits or an exponent beyond 18.
    TooLong,
    /// It is below zero.
    Negative,
    /// It does not fit in 63 bits in the unit asked for.
    TooLarge,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => {
                f.write_str("must be a quantity, such as 4, \"1.5\", \"500m\" or \"16Gi\"")
            }
            Self::TooLong => write!(
                f,
                "must have at most {DIGITS_MAX} digits and an exponent of at most {EXPONENT_MAX}"
            ),
            Self::Negative => f.write_str("must be 0 or more"),
            Self::TooLarge => write!(f, "must be below 2^63 ({}) in its unit", i64::MAX),
        }
    }
}

impl std::error::Error for QuantityError {}

/// A quantity in whole units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// Range: 0 or more. A part of a unit counts as a whole one, as in Kubernetes.
    pub value: i64,
    /// Whether nothing was rounded up.
    pub is_exact: bool,
}

impl Quantity {
    /// Reads `text`.
    ///
    /// # Errors
    /// [`QuantityError::Malformed`] and [`QuantityError::TooLong`].
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let (is_negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(QuantityError::Malformed);
        }
        let (times, over) = factor(suffix)?;
        let whole = whole.trim_start_matches('0');
        let fraction = fraction.trim_end_matches('0');
        if whole.len() + fraction.len() > DIGITS_MAX {
            return Err(QuantityError::TooLong);
        }
        let digits = format!("0{whole}{fraction}");
        let mantissa: u128 = digits.parse().map_err(|_| QuantityError::Malformed)?;
        let places = u32::try_from(fraction.len()).map_err(|_| QuantityError::TooLong)?;
        Ok(Self {
            is_negative: is_negative && mantissa > 0,
            numerator: mantissa * times,
            denominator: 10_u128.pow(places) * over,
        })
    }

    /// The quantity in units of which `per_one` make one: 1000 for milli-CPU, 1 for bytes.
    ///
    /// # Errors
    /// [`QuantityError::Negative`] and [`QuantityError::TooLarge`].
    pub fn count(self, per_one: u64) -> Result<Amount, QuantityError> {
        if self.is_negative {
            return Err(QuantityError::Negative);
        }
        let scaled = self.numerator.checked_mul(u128::from(per_one));
        let scaled = scaled.ok_or(QuantityError::TooLarge)?;
        let value = i64::try_from(scaled.div_ceil(self.denominator));
        Ok(Amount {
            value: value.map_err(|_| QuantityError::TooLarge)?,
            is_exact: scaled.is_multiple_of(self.denominator),
        })
    }
}

/// What a suffix multiplies by and divides by.
fn factor(suffix: &str) -> Result<(u128, u128), QuantityError> {
    let binary = |power: u32| Ok((1_u128 << (10 * power), 1));
    let decimal = |power: u32| Ok((10_u128.pow(power), 1));
    let parts = |power: u32| Ok((1, 10_u128.pow(power)));
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

fn exponent(suffix: &str) -> Result<(u128, u128), QuantityError> {
    let number = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Malformed)?;
    let negative = number.strip_prefix('-');
    let digits = negative.or_else(|| number.strip_prefix('+')).unwrap_or(number);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(QuantityError::Malformed);
    }
    let power = digits.parse().ok().filter(|power| *power <= EXPONENT_MAX);
    let value = 10_u128.pow(power.ok_or(QuantityError::TooLong)?);
    Ok(if negative.is_some() { (1, value) } else { (value, 1) })
}

/// The unit in which a resource is counted, everywhere in the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Thousandths of a processor: `cpu`.
    MilliCpu,
    /// Bytes: `memory`, `ephemeral-storage`, `storage` and huge pages.
    Byte,
    /// Whole things: devices, pods, everything else.
    Whole,
}

impl Unit {
    /// The unit of `resource`.
    #[must_use]
    pub fn of(resource: &ResourceName) -> Self {
        match resource.as_str() {
            "cpu" => Self::MilliCpu,
            "memory" | "ephemeral-storage" | "storage" => Self::Byte,
            other if other.starts_with("hugepages-") => Self::Byte,
            _ => Self::Whole,
        }
    }

    /// `quantity` in this unit.
    ///
    /// # Errors
    /// As [`Quantity::count`].
    pub fn amount(self, quantity: Quantity) -> Result<Amount, QuantityError> {
        match self {
            Self::MilliCpu => quantity.count(1_000),
            Self::Byte | Self::Whole => quantity.count(1),
        }
    }

    /// `amount` of this unit as Kubernetes writes it: the shortest text without loss, such as `72`, `500m` or `288Gi`.
    #[must_use]
    pub fn show(self, amount: i64) -> String {
        match self {
            Self::MilliCpu if amount % 1_000 == 0 => (amount / 1_000).to_string(),
            Self::MilliCpu => format!("{amount}m"),
            Self::Byte => show_bytes(amount),
            Self::Whole => amount.to_string(),
        }
    }
}

fn show_bytes(amount: i64) -> String {
    let suffixes = ["Ei", "Pi", "Ti", "Gi", "Mi", "Ki"];
    for (suffix, power) in suffixes.into_iter().zip([60, 50, 40, 30, 20, 10]) {
        if amount != 0 && amount % (1_i64 << power) == 0 {
            return format!("{}{suffix}", amount >> power);
        }
    }
    amount.to_string()
}

/// What `text` means as an amount of `resource`, in the engine's units: milli-CPU, bytes, whole units.
///
/// # Errors
/// [`QuantityError`]: it is no quantity, or one that cannot be counted.
pub fn amount_of(resource: &ResourceName, text: &str) -> Result<Amount, QuantityError> {
    Unit::of(resource).amount(Quantity::parse(text)?)
}
