use super::*;

fn check(text: &str, expected_nano_units: Option<u64>) {
    assert_eq!(
        FairWeight::parse(text).ok().map(FairWeight::nano_units),
        expected_nano_units,
        "{text}"
    );
}

#[test]
fn decimals_suffixes_and_exponents_are_read_exactly() {
    check("1", Some(1_000_000_000));
    check("0.5", Some(500_000_000));
    check("500m", Some(500_000_000));
    check("2.0", Some(2_000_000_000));
    check("1e-9", Some(1));
    check(".25", Some(250_000_000));
    check("3k", Some(3_000_000_000_000));
    check("0", Some(0));
    check("0e30", Some(0));
}

#[test]
fn what_lies_below_a_billionth_is_rounded_up() {
    check("0.0000000001", Some(1));
    check("1e-30", Some(1));
}

#[test]
fn other_text_is_refused() {
    for text in [
        "",
        ".",
        "-1",
        "+1",
        "one",
        "1.2.3",
        "1e",
        "1e99",
        "1e20",
        "99999999999999999999999999999999999999999",
    ] {
        check(text, None);
    }
}
