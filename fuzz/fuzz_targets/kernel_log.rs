//! Anything at all as the kernel's log, as a field, and as what the judge is told: nothing fails, nothing grows.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use sluice_core::health::kmsg::{KernelLog, LogCounters, Record, parse_line};
use sluice_core::health::{
    Action, Class, Input, Judge, NvlinkOutcome, NvlinkRow, RecoveryAction, Repeat, SwitchRow,
    Table, XidRow,
};
use sluice_core::sample::PciAddress;
use sluice_core::unit::Time;

/// Most devices and faults that the judge keeps, times what both take at most: see its bounds.
const STANDING_MAX: usize = 256 * 128 + 1_024;

/// Every class is some code's.
fn table() -> Table {
    let mut xids = BTreeMap::new();
    for (code, class) in (0_u32..).zip(Class::ALL.iter().cycle()).take(200) {
        let class = match code {
            144..=150 => Class::Decode,
            154 => Class::Carrier,
            45 => Class::FollowUp,
            _ => *class,
        };
        let row = XidRow {
            what: String::new(),
            class,
            asks_since: (code % 3 == 0).then_some(565),
            repeat: if code % 2 == 0 { Repeat::Replace } else { Repeat::Same },
            is_urgent: code % 5 == 0,
            cancels: (code % 7 == 0).then_some(code + 1),
        };
        xids.insert(code, row);
    }
    let switches = BTreeMap::from([(12_020, SwitchRow { is_always_fatal: true })]);
    let outcome = NvlinkOutcome::Reset;
    let unit = "RLW_REMAP".to_owned();
    Table::new(
        xids,
        switches,
        vec![NvlinkRow { code: 145, unit, number: 4, errors: 0xc0, outcome }],
    )
}

fuzz_target!(|bytes: &[u8]| {
    let mut log = KernelLog::new(None, LogCounters::default(), true);
    let mut judge = Judge::new(Time(0), table());
    let mut now = Time(0);
    for (number, record) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let _ = Record::parse(record);
        let _ = parse_line(record);
        if let Ok(text) = std::str::from_utf8(record) {
            let _ = (text.parse::<PciAddress>(), text.parse::<Action>(), text.parse::<Class>());
            judge.step(now, Input::DriverVersion(text));
        }
        // As it is, and as a message with a header of its own.
        let sequence = 1_000_000 + number as u64;
        let whole = [format!("3,{sequence},{sequence},-;").as_bytes(), record].concat();
        for record in [record, whole.as_slice()] {
            let event = log.take(record);
            let at = Time(event.as_ref().map_or(0, |event| event.uptime_us / 1_000));
            now = now.max(at);
            for event in event.iter().chain(&log.repeats()) {
                assert!(event.count >= 1);
                judge.step(now, Input::Kernel { event, at });
            }
        }
    }
    let counters = log.counters();
    assert!(
        counters.events + counters.alike + counters.unparsed + counters.malformed
            <= counters.records
    );
    let standing = judge.standing();
    assert!(standing.len() <= STANDING_MAX);
    for pci in judge.devices().collect::<Vec<_>>() {
        let verdict = judge.device_verdict(pci);
        assert_eq!(
            verdict.health,
            verdict.faults.iter().map(|f| f.health).max().unwrap_or(verdict.health)
        );
        let _ = RecoveryAction::of(pci.domain).action();
    }
    // What stands comes back the same.
    let mut next = Judge::new(now, table());
    next.restore(standing.clone(), false);
    assert_eq!(next.standing(), standing);
});
