//! Quantities as Kubernetes writes them, in the units that the engine counts in.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// Largest amount: 2^53, the largest whole number that JSON readers agree on. Sums of it stay far from 64 bits' end.
const AMOUNT_MAX: u128 = 1 << 53;
/// Most digits of a number, so that 128 bits always suffice.
const DIGITS_MAX: usize = 18;

/// What a bad quantity should have been.
pub(super) const EXPECTED: &str = "a quantity such as 8, 500m or 16Gi";

/// A quantity as it was written: `8`, `500m`, `16Gi`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written(pub(super) String);

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = Written;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Written, E> {
                Ok(Written(value.to_string()))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Written, E> {
                Ok(Written(value.to_string()))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Written, E> {
                Ok(Written(value.to_string()))
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Written, E> {
                Ok(Written(value.to_owned()))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

/// `text` in the engine's unit of `resource`: thousandths of a core for `cpu`, whole units for all others.
///
/// What is finer than that is rounded up, as Kubernetes does. `None` where it is no quantity, negative or above 2^53.
pub(super) fn parse(resource: &str, text: &str) -> Option<i64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > DIGITS_MAX || fraction.contains('.') {
        return None;
    }
    let mantissa: u128 = digits.parse().ok()?;
    let (times, over) = factor(suffix)?;
    let per_unit = if resource == "cpu" { 1_000 } else { 1 };
    let over = over * 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let amount = mantissa.checked_mul(times)?.checked_mul(per_unit)?.div_ceil(over);
    (amount <= AMOUNT_MAX).then(|| i64::try_from(amount).ok()).flatten()
}

/// What a suffix multiplies by and divides by.
fn factor(suffix: &str) -> Option<(u128, u128)> {
    let decimal = |power: u32| Some((10_u128.pow(power), 1));
    let binary = |power: u32| Some((1_u128 << (10 * power), 1));
    match suffix {
        "m" => Some((1, 1_000)),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn quantities_are_counted_in_the_unit_of_their_resource() {
        let read = |resource, text| parse(resource, text);
        assert_eq!(read("cpu", "1"), Some(1_000));
        assert_eq!(read("cpu", "1250m"), Some(1_250));
        assert_eq!(read("cpu", "0.5"), Some(500));
        assert_eq!(read("nvidia.com/gpu", "8"), Some(8));
        assert_eq!(read("memory", "256Gi"), Some(256 << 30));
        assert_eq!(read("memory", "1500m"), Some(2));
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "-1", "x", "1x", "1.2.3", ".", "1e3", "9999999999999999999", "100P"] {
            assert_eq!(parse("cpu", text), None, "{text}");
        }
    }
}
