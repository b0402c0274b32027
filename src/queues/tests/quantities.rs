//! Quantities: exact, in the engine's units.

use sluice_core::kueue::name::ResourceName;

use crate::queues::{Amount, Quantity, QuantityError, Unit, amount_of};

fn amount(resource: &str, text: &str) -> Result<(i64, bool), QuantityError> {
    amount_of(&ResourceName::from(resource), text)
        .map(|Amount { value, is_exact }| (value, is_exact))
}

#[test]
fn each_resource_has_its_unit() {
    for (resource, text, expected) in [
        ("cpu", "72", 72_000),
        ("cpu", "1500m", 1_500),
        ("cpu", "0.1", 100),
        ("cpu", "9999999", 9_999_999_000),
        ("memory", "288Gi", 309_237_645_312),
        ("memory", "999999T", 999_999_000_000_000_000),
        ("ephemeral-storage", "1e3", 1_000),
        ("hugepages-2Mi", "4Mi", 4_194_304),
        ("nvidia.com/gpu", "6", 6),
        ("nvidia.com/gpu", "4000m", 4),
        ("example.com/credits", "9007199254740992", 1 << 53),
        ("example.com/credits", "9223372036854775807", i64::MAX),
        ("pods", "+110", 110),
    ] {
        assert_eq!(amount(resource, text), Ok((expected, true)), "{resource}: {text}");
    }
}

#[test]
fn suffixes_are_exact() {
    for (text, expected) in [
        ("0", 0),
        ("-0", 0),
        ("00000000000000000000000012", 12),
        ("1.50000000000000000000000000", 2),
        ("1.5k", 1_500),
        ("0.5Ki", 512),
        (".5Ki", 512),
        ("1.Ki", 1_024),
        ("2e3", 2_000),
        ("2E3", 2_000),
        ("2E", 2_000_000_000_000_000_000),
        ("20e-1", 2),
        ("1000000000n", 1),
        ("7Ei", 8_070_450_532_247_928_832),
    ] {
        assert_eq!(amount("x", text).map(|(value, _)| value), Ok(expected), "{text}");
    }
}

#[test]
fn parts_of_a_unit_count_as_a_whole_one() {
    for (resource, text, expected) in
        [("x", "500m", 1), ("x", "1.5", 2), ("memory", "1.1Gi", 1_181_116_007), ("cpu", "100u", 1)]
    {
        assert_eq!(amount(resource, text), Ok((expected, false)), "{resource}: {text}");
    }
}

#[test]
fn what_is_no_quantity_is_refused() {
    for text in [
        "", ".", "+", "1.2.3", "1 Gi", "1gi", "e3", "1e", "1e1.5", "1e--1", "1e+-1", "Gi", "١",
        "0x10", "--1", "NaN",
    ] {
        assert_eq!(amount("x", text), Err(QuantityError::Malformed), "{text}");
    }
    for text in ["1e99", "1e-19", "1e99999999999", "12345678901234567890", "0.00000000000000000001"]
    {
        assert_eq!(amount("x", text), Err(QuantityError::TooLong), "{text}");
    }
    for text in ["-1", "-0.001"] {
        assert_eq!(amount("x", text), Err(QuantityError::Negative), "{text}");
    }
    for (resource, text) in [
        ("x", "9223372036854775808"),
        ("x", "8Ei"),
        ("x", "9999999999999999999Ei"),
        ("cpu", "9223372036854775.808"),
        ("cpu", "9999999999999999999E"),
    ] {
        assert_eq!(amount(resource, text), Err(QuantityError::TooLarge), "{text}");
    }
}

#[test]
fn what_is_shown_reads_back_the_same() {
    for (resource, value, shown) in [
        ("cpu", 72_000, "72"),
        ("cpu", 1_500, "1500m"),
        ("memory", 309_237_645_312, "288Gi"),
        ("memory", 1_000, "1000"),
        ("memory", 0, "0"),
        ("memory", i64::MAX, "9223372036854775807"),
        ("nvidia.com/gpu", 1_024, "1024"),
    ] {
        let unit = Unit::of(&ResourceName::from(resource));
        assert_eq!(unit.show(value), shown);
        assert_eq!(amount(resource, shown), Ok((value, true)));
    }
}

#[test]
fn a_plus_changes_nothing() {
    let letters: Vec<char> = "019.-+eEKimnk".chars().collect();
    let mut read = 0;
    for n in 0..letters.len().pow(4) {
        let at = |place: u32| letters[n / letters.len().pow(place) % letters.len()];
        let text: String = [at(0), at(1), at(2), at(3)].iter().collect();
        if text.starts_with(['+', '-']) {
            continue;
        }
        assert_eq!(Quantity::parse(&format!("+{text}")), Quantity::parse(&text), "{text}");
        read += usize::from(Quantity::parse(&text).is_ok());
    }
    assert_ne!(read, 0);
}
