//! Quantities as people write them into files and traces, in the units that the engine counts in.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use crate::queues::amount_of;

/// Largest amount: 2^53, the largest whole number that JSON readers agree on.
pub(super) const AMOUNT_MAX: i64 = 1 << 53;

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
/// `None` where it is no quantity, negative or above 2^53.
pub(super) fn parse(resource: &str, text: &str) -> Option<i64> {
    let amount = amount_of(&resource.into(), text).ok()?;
    (amount.value <= AMOUNT_MAX).then_some(amount.value)
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
        for text in ["", "-1", "x", "1x", "1.2.3", ".", "9999999999999999999", "100P"] {
            assert_eq!(parse("cpu", text), None, "{text}");
        }
    }
}
