use super::{Case, Intent, Mounted, State, Verdict, intent, judge};
use crate::volume::Finding;

/// A shared model volume: read-only ext4 on a Persistent Disk that was asked to have 4 MiB.
fn case(actual_kib: u64) -> Case {
    Case {
        intent: Some(Intent { asked_kib: 4_096 }),
        actual_kib: Some(actual_kib),
        logical_sector_bytes: Some(512),
        is_persistent_disk: true,
        holder: None,
        mounted: Mounted {
            fs_type: Some("ext4".to_owned()),
            is_read_only: true,
            is_without_journal: false,
            is_block: false,
        },
        was_as_asked: false,
    }
}

fn drift(case: &Case) -> Finding {
    let verdict = judge(case);
    assert_eq!((verdict.state, verdict.findings.len()), (State::Drifted, 1), "{verdict:?}");
    verdict.findings[0].clone()
}

#[test]
fn what_was_asked_for_and_is_set_needs_nothing() {
    let fine = Verdict { state: State::AsAsked, expected_kib: Some(4_096), findings: vec![] };
    assert_eq!(judge(&case(4_096)), fine);
}

#[test]
fn eighth_of_what_was_asked_for_on_4096_byte_sectors_is_the_drivers_unit() {
    let large_sectors = Case { logical_sector_bytes: Some(4_096), ..case(512) };
    let expected =
        Finding::ReadAheadDriverUnit { expected_kib: 4_096, actual_kib: 512, sector_bytes: 4_096 };
    assert_eq!(drift(&large_sectors), expected);
    let same_on_512 = Finding::ReadAheadNeverSet { expected_kib: 4_096, actual_kib: 512 };
    assert_eq!(drift(&case(512)), same_on_512);
}

#[test]
fn default_on_a_mount_without_journal_is_the_drivers_second_attempt() {
    let mut dirty = case(128);
    dirty.mounted.is_without_journal = true;
    assert_eq!(drift(&dirty), Finding::ReadAheadNoload { expected_kib: 4_096, actual_kib: 128 });
}

#[test]
fn value_that_was_right_and_is_not_was_reset() {
    let reset = Case { was_as_asked: true, ..case(128) };
    assert_eq!(drift(&reset), Finding::ReadAheadReset { expected_kib: 4_096, actual_kib: 128 });
}

#[test]
fn default_without_any_other_sign_was_never_set() {
    assert_eq!(
        drift(&case(128)),
        Finding::ReadAheadNeverSet { expected_kib: 4_096, actual_kib: 128 }
    );
}

#[test]
fn block_volumes_btrfs_and_layers_have_their_own_rules() {
    let (expected_kib, actual_kib) = (4_096, 128);
    let mut block = case(128);
    block.mounted.is_block = true;
    assert_eq!(drift(&block), Finding::ReadAheadOfBlock { expected_kib, actual_kib });
    let mut btrfs = case(128);
    btrfs.mounted.fs_type = Some("btrfs".to_owned());
    assert_eq!(drift(&btrfs), Finding::ReadAheadOfBtrfs { expected_kib, actual_kib });
    let cached = Case { holder: Some("dm-0".to_owned()), ..case(128) };
    let holder = "dm-0".to_owned();
    assert_eq!(drift(&cached), Finding::ReadAheadOfLayer { expected_kib, actual_kib, holder });
}

#[test]
fn mount_option_is_read_as_the_driver_reads_it() {
    let read = |text: &str| intent(text.split(',')).map_err(|finding| finding.code());
    let asked = |asked_kib| Ok(Some(Intent { asked_kib }));
    assert_eq!(read("ro,read_ahead_kb=4096"), asked(4_096));
    assert_eq!(read("read_ahead_kb=4096,read_ahead_kb=8192"), asked(4_096));
    assert_eq!(read("ro,noatime"), Ok(None));
    assert_eq!(read("btrfs-bdi-read_ahead_kb=64"), Ok(None));
    for malformed in
        ["read_ahead_kb=-4096", "read_ahead_kb=abc", "read_ahead_kb=", "read_ahead_kb=+1"]
    {
        assert_eq!(read(malformed), Err("read-ahead-malformed"), "{malformed}");
    }
    assert_eq!(read("read_ahead_kb=99999999999999999999"), Err("read-ahead-malformed"));
}

#[test]
fn odd_values_are_remarked_on() {
    let remark = |asked_kib| Intent { asked_kib }.remark().map(|finding| finding.code());
    assert_eq!(remark(0), Some("read-ahead-asked-off"));
    assert_eq!(remark(1), Some("read-ahead-rounds-to-off"));
    assert_eq!(remark(3), Some("read-ahead-rounds-to-off"));
    assert_eq!((remark(4), remark(16_384)), (None, None));
    assert_eq!(remark(99_999_999), Some("read-ahead-asked-huge"));
}

#[test]
fn kernel_keeps_whole_pages() {
    let expected = |asked_kib| Intent { asked_kib }.expected_kib();
    assert_eq!([1, 3, 4, 5, 4_097].map(expected), [0, 0, 4, 4, 4_096]);
    let rounded = Case { intent: Some(Intent { asked_kib: 4_097 }), ..case(4_096) };
    assert_eq!(judge(&rounded).state, State::AsAsked);
    let off = Case { intent: Some(Intent { asked_kib: 3 }), ..case(0) };
    let verdict = judge(&off);
    assert_eq!((verdict.state, verdict.expected_kib), (State::AsAsked, Some(0)));
    assert_eq!(verdict.findings, [Finding::ReadAheadRoundsToOff { kib: 3 }]);
}

#[test]
fn read_only_model_volume_that_asks_for_nothing_is_advised() {
    let codes = |case: &Case| {
        let verdict = judge(case);
        let codes: Vec<&str> = verdict.findings.iter().map(Finding::code).collect();
        (verdict.state, codes)
    };
    let unasked = |actual_kib| Case { intent: None, ..case(actual_kib) };
    assert_eq!(codes(&unasked(128)), (State::Unasked, vec!["read-ahead-default"]));
    assert_eq!(codes(&unasked(0)), (State::Unasked, vec!["read-ahead-off"]));
    assert_eq!(codes(&unasked(32_768)), (State::Unasked, vec!["read-ahead-huge"]));
    assert_eq!(codes(&unasked(1_024)), (State::Unasked, vec![]));
    let mut database = unasked(128);
    database.mounted.is_read_only = false;
    assert_eq!(codes(&database), (State::Unasked, vec![]), "a writable volume may be a database");
    let own = Case { is_persistent_disk: false, ..unasked(128) };
    assert_eq!(codes(&own), (State::Unasked, vec![]));
    let unmounted = Case { mounted: Mounted::default(), ..unasked(0) };
    assert_eq!(codes(&unmounted), (State::Unasked, vec![]));
}

#[test]
fn what_is_not_known_is_not_judged() {
    let blind = Case { actual_kib: None, ..case(0) };
    let verdict = judge(&blind);
    assert_eq!((verdict.state, verdict.findings.len()), (State::Unknown, 0));
    let odd = Case { logical_sector_bytes: Some(0), ..case(u64::MAX) };
    assert_eq!(judge(&odd).state, State::Drifted);
}
