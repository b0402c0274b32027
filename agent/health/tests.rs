//! Tests of what is kept over a restart, and of injected records.

use std::collections::BTreeMap;

use sluice_core::health::kmsg::{KernelLog, LogCounters, Occurrence};
use sluice_core::health::{Input, Judge};
use sluice_core::sample::PciAddress;
use sluice_core::unit::Time;

use super::inject::Injected;
use super::keep::{Keeper, Kept};
use crate::sensor::kmsg::table;

const PCI: PciAddress = PciAddress { domain: 0x00ff_ff00, bus: 3, device: 0, function: 0 };

/// What stands after these messages.
fn kept(messages: &[&str]) -> Kept {
    let mut log = KernelLog::new(None, LogCounters::default(), false);
    let mut judge = Judge::new(Time(9_000), table());
    for (sequence, message) in (1..).zip(messages) {
        let record = format!("6,{sequence},5000000,-;{message}");
        let Some(event) = log.take(record.as_bytes()) else { continue };
        judge.step(Time(9_000), Input::Kernel { event: &event, at: Time(5_000) });
    }
    Kept {
        last: log.last(),
        counters: log.counters(),
        xids: BTreeMap::from([((PCI, 119), 7)]),
        standing: judge.standing(),
        has_rebooted: false,
    }
}

#[test]
fn what_is_kept_comes_back_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("health.json");
    let messages = [
        "NVRM: Xid (PCI:ffff00:03:00): 119, pid=7, name=x, Timeout",
        "NVRM: Xid (PCI:ffff00:03:00): 120, GSP task timeout",
        "NVRM: Xid (PCI:ffff00:03:00): 999, x",
        "NVRM: Xid (PCI:ffff00:03:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
        "NVRM: Xid (PCI:ffff00:03:00): 154, GPU recovery action changed from 0x0 (None) to 0x9 (X)",
        "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    ];
    let first = kept(&messages);
    assert_eq!(first.standing.len(), 7);
    assert_eq!(first.standing.iter().filter(|s| s.awaits_request).count(), 1);
    let (keeper, nothing) = Keeper::open(path.clone(), "boot-1".to_owned()).unwrap();
    assert_eq!(nothing, Kept::default());
    assert!(keeper.submit(Kept::default()));
    assert!(!keeper.submit(first.clone()));
    keeper.write_all();
    let (_, same_boot) = Keeper::open(path.clone(), "boot-1".to_owned()).unwrap();
    assert_eq!(same_boot, first);
    let (_, next_boot) = Keeper::open(path, "boot-2".to_owned()).unwrap();
    let standing = first.standing;
    assert_eq!(next_boot, Kept { standing, has_rebooted: true, ..Kept::default() });
}

#[test]
fn injected_fault_is_a_record_like_the_kernels() {
    let read = |fault: Injected| {
        let mut log = KernelLog::new(None, LogCounters::default(), false);
        match log.take(fault.record(1, 1).as_bytes()).unwrap().what {
            Occurrence::Xid { line, .. } => line,
            other => panic!("{other:?}"),
        }
    };
    let line = read(Injected::new(PCI, 94, Some(7), "Contained".to_owned()).unwrap());
    assert_eq!(
        (line.pci, line.code, line.pid, line.text.as_str()),
        (PCI, 94, Some(7), "Contained")
    );
    let line = read(Injected::new(PCI, 79, None, String::new()).unwrap());
    assert_eq!((line.code, line.pid), (79, None));
    let line = read(Injected::recovery_action(PCI, 4));
    assert_eq!((line.code, line.action), (154, Some(Some(4))));
    for (xid, text) in [(0, ""), (10_000, ""), (79, "a\nb"), (79, &"x".repeat(201))] {
        assert!(Injected::new(PCI, xid, None, text.to_owned()).is_err(), "{xid} {text:?}");
    }
}
