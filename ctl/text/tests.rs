use super::*;

#[test]
fn control_and_invisible_characters_are_escaped() {
    assert_eq!(safe("plain näme/1"), "plain näme/1");
    assert_eq!(safe("a\u{1b}[31mred\n\u{202e}x\u{2061}"), "a\\u{1b}[31mred\\n\\u{202e}x\\u{2061}");
    assert_eq!(or_dash(""), "-");
}

#[test]
fn ages_are_short() {
    let shown = [0, 999, 1_000, 119_000, 120_000, 250_000, 7_200_000, 172_800_000, u64::MAX];
    assert_eq!(
        shown.map(age),
        ["0ms", "999ms", "1s", "119s", "2m0s", "4m10s", "2h0m", "2d0h", "213503982334d14h"]
    );
    assert_eq!(age_or_dash(None), "-");
}

#[test]
fn bytes_have_binary_units() {
    let shown = [0, 1_023, 1_024, 1_536, 10 << 20, 750 << 30, u64::MAX];
    assert_eq!(
        shown.map(bytes),
        ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "10 MiB", "750 GiB", "15 EiB"]
    );
}

#[test]
fn device_time_is_in_seconds() {
    assert_eq!(device_seconds(0), "0.0 GPU-s");
    assert_eq!(device_seconds(12_345), "12.3 GPU-s");
}

#[test]
fn a_time_ahead_of_this_clock_counts_as_now() {
    let at = |ms| Timestamp::from_millisecond(ms).expect("in range");
    assert_eq!(ms_between(at(1_000), at(3_500)), 2_500);
    assert_eq!(ms_between(at(5_000), at(3_500)), 0);
}

#[test]
fn a_nonsensical_timestamp_is_none() {
    let wire = prost_types::Timestamp { seconds: i64::MAX, nanos: 0 };
    assert_eq!(timestamp(Some(&wire)), None);
    assert_eq!(timestamp(None), None);
}

#[test]
fn words_follow_their_number() {
    assert_eq!(count(1, "drain"), "1 drain");
    assert_eq!(count(0, "drain"), "0 drains");
}
