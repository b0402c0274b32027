//! Tests of the data file, and of reading records from files and pipes.

use std::io::Write as _;
use std::time::Duration;

use sluice_core::health::{Class, Repeat};

use super::source::{Read, Source};
use super::{table, table::parse};

/// Every row of the facts page, with our decisions where the sources disagree: class, driver from which it asks, codes.
const ROWS: &[(&str, Option<u32>, &[u32])] = &[
    (
        "app",
        None,
        &[
            8, 11, 13, 25, 31, 32, 39, 40, 41, 43, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83,
            84, 85, 86, 88, 89, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 126, 127, 128, 129,
            130, 131, 132, 133, 134, 135, 139, 137, 141,
        ],
    ),
    ("app", Some(565), &[94]),
    ("carrier", None, &[154]),
    ("decode", Some(565), &[144, 145, 146, 147, 148, 149, 150]),
    ("degrade", Some(565), &[74]),
    ("degrade", Some(570), &[109]),
    ("follow-up", None, &[45]),
    ("reboot", None, &[54, 151, 168]),
    ("reboot", Some(565), &[79]),
    ("reboot-suspected", None, &[167]),
    ("reset", None, &[46, 119, 140]),
    ("reset", Some(565), &[48, 62, 64, 95, 110, 120, 136, 155, 156, 158]),
    ("reset", Some(575), &[143]),
    ("reset-suspected", None, &[169]),
    ("reset-suspected", Some(565), &[159]),
    ("support", None, &[142, 173]),
    (
        "warn",
        None,
        &[
            14, 37, 66, 67, 78, 92, 93, 106, 107, 108, 152, 153, 157, 162, 163, 164, 165, 166, 170,
            171, 172,
        ],
    ),
    ("warn", Some(565), &[63]),
    ("warn", Some(575), &[160, 161]),
    ("warn-repeated", None, &[38, 44, 121]),
];

#[test]
fn every_code_has_its_class_and_others_have_none() {
    let table = table();
    let mut listed = std::collections::BTreeSet::new();
    for (class, asks_since, codes) in ROWS {
        for code in *codes {
            let row = table.xid(*code).unwrap_or_else(|| panic!("Xid {code} is missing"));
            let expected: Class = class.parse().unwrap();
            assert_eq!((row.class, row.asks_since), (expected, *asks_since), "Xid {code}");
            assert!(listed.insert(*code), "Xid {code} is listed twice");
        }
    }
    for code in (0..2_000).filter(|code| !listed.contains(code)) {
        assert_eq!(table.xid(code), None, "Xid {code}");
    }
    let all: Vec<u32> = (0..2_000).collect();
    let with = |is: fn(&sluice_core::health::XidRow) -> bool| -> Vec<u32> {
        all.iter().copied().filter(|code| table.xid(*code).is_some_and(is)).collect()
    };
    assert_eq!(with(|row| row.repeat == Repeat::Replace), [64, 79]);
    let urgent = with(|row| row.is_urgent);
    assert_eq!(urgent, [79, 136, 144, 145, 146, 147, 148, 149, 150, 155]);
    assert_eq!(with(|row| row.cancels == Some(163)), [162]);
}

#[test]
fn word_of_a_switch_goes_before_its_number() {
    let table = table();
    for (code, says, is_fatal) in [
        (12_028, Some(false), false),
        (20_034, Some(true), true),
        (20_034, None, false),
        (22_011, None, true),
        (23_017, None, true),
        (22_011, Some(false), false),
        (10_001, None, false),
    ] {
        assert_eq!(table.is_switch_fatal(code, says), is_fatal, "SXid {code}, {says:?}");
    }
}

#[test]
fn data_file_with_a_mistake_is_refused() {
    let row = "[[xid]]\ncodes = [1]\nwhat = \"x\"\nclass = \"app\"\nsource = \"s\"\nas_of = \"2026-08-21\"\n";
    let rest = "switch = []\nnvlink = []\n";
    assert!(parse(&format!("{rest}{row}")).is_ok());
    for (from, to) in [
        ("\"app\"", "\"fatal\""),
        ("source = \"s\"\n", "source = \"\"\n"),
        ("2026-08-21", "soon"),
        ("codes = [1]", "codes = [1, 1]"),
        ("what", "wat"),
        ("as_of", "is_new = true\nas_of"),
    ] {
        let text = format!("{rest}{row}").replacen(from, to, 1);
        assert!(parse(&text).is_err(), "{text}");
    }
}

/// All records that are there now.
fn records(source: &mut Source) -> Vec<String> {
    let mut records = Vec::new();
    loop {
        match source.next(Some(Duration::ZERO)).unwrap() {
            Read::Record(record) => records.push(String::from_utf8_lossy(record).into_owned()),
            Read::Nothing => return records,
            Read::Overrun => panic!("only the kernel says so"),
        }
    }
}

#[test]
fn lines_of_a_file_are_records_and_half_ones_are_waited_for() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"6,1,1,-;first\n SUBSYSTEM=pci\n6,2,2,-;sec").unwrap();
    let mut source = Source::open(file.path()).unwrap();
    assert_eq!(records(&mut source), ["6,1,1,-;first"]);
    file.write_all(b"ond\n\n").unwrap();
    assert_eq!(records(&mut source), ["6,2,2,-;second", ""]);
    // A line that is too long is given up, and the next one is read.
    file.write_all(&vec![b'x'; 100_000]).unwrap();
    file.write_all(b"\n6,3,3,-;third\n").unwrap();
    assert_eq!(records(&mut source), ["6,3,3,-;third"]);
}

#[test]
fn pipe_has_no_end_when_a_writer_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut source = Source::open(&path).unwrap();
    assert_eq!(records(&mut source), [""; 0]);
    for number in 1..3 {
        let record = format!("6,{number},1,-;x");
        std::fs::write(&path, format!("{record}\n")).unwrap();
        assert_eq!(records(&mut source), [record]);
    }
}

/// As in containers that put something else in the place of the kernel's log.
#[test]
fn device_that_has_an_end_is_not_taken_for_the_kernels_log() {
    let mut source = Source::open(std::path::Path::new("/dev/null")).unwrap();
    let refused = source.next(None).map(|_| "read").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::UnexpectedEof);
}
