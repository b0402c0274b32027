//! Many records: one fault each, with a count, and memory that does not grow.

use std::io::Write as _;

use nix::unistd::Pid;
use sluice::wire::pb::{Action, DrainNeed, Health};

use super::{FIRST, Log};

fn resident_kib(pid: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

impl Log {
    /// Writes many messages at once.
    fn storm(&mut self, messages: impl Iterator<Item = String>) {
        let mut records = Vec::new();
        for message in messages {
            self.sequence += 1;
            let at_us = self.began_us + self.sequence * 10;
            writeln!(records, "6,{},{at_us},-;{message}", self.sequence).unwrap();
        }
        self.append(&records);
    }

    fn wait_count(&self, count: u64) {
        self.cluster.wait(&format!("{count} messages to be counted"), |_| {
            (self.device(0).faults.first()?.count == count).then_some(())
        });
    }
}

#[test]
fn case_9_and_14_cleanup_is_attached_to_the_fault_before_it() {
    let mut log = Log::new(&[]);
    log.xid("62, pid='<unknown>', name=<unknown>, 1d1b 0000 00000000");
    log.storm((0..200).map(|n| format!("NVRM: Xid ({FIRST}): 45, pid=7, name=x, Ch {n:08x}")));
    log.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
    log.xid("149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x025001c6 0x00000000)");
    log.storm((0..200).map(|n| format!("NVRM: Xid ({FIRST}): 45, pid=7, name=x, Ch {n:08x}")));
    log.expect(Health::Unhealthy, Action::Reset, DrainNeed::Hurry, 2);
    // One event for each fault, and one for all the cleanup after it.
    assert_eq!(log.settle().events, 4);
}

#[test]
fn case_10_thousands_of_cleanups_alone_are_one_warning() {
    let mut log = Log::new(&[]);
    log.storm((0..11_760).map(|n| format!("NVRM: Xid ({FIRST}): 45, pid=7, name=x, Ch {n:08x}")));
    log.settle();
    log.wait_count(11_760);
    log.expect(Health::Healthy, Action::RestartFabricManager, DrainNeed::None, 1);
}

#[test]
fn case_21_records_that_were_overwritten_are_counted_and_those_after_them_read() {
    let mut log = Log::new(&[]);
    log.storm((0..1_000).map(|n| format!("usb 1-1: message {n}")));
    log.settle();
    log.sequence += 55_000;
    log.xid("119, pid=7, name=x, Timeout");
    log.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
    assert_eq!((log.counters().missed, log.counters().records), (55_000, 1_001));
}

#[test]
fn case_22_storm_of_one_message_is_one_event_and_memory_stays_flat() {
    let mut log = Log::new(&[]);
    log.xid("95, pid=7, name=x, Uncontained: LTC TAG (0x2,0x0)");
    log.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
    let pid = log.cluster.agent("n1").pid();
    let before_kib = resident_kib(pid);
    for _ in 0..80 {
        let message =
            format!("NVRM: Xid ({FIRST}): 95, pid=7, name=x, Uncontained: LTC TAG (0x2,0x0)");
        log.storm(std::iter::repeat_n(message, 10_000));
        log.settle();
    }
    log.wait_count(800_001);
    let after_kib = resident_kib(pid);
    assert!(after_kib < before_kib + 4_096, "{before_kib} KiB before, {after_kib} KiB after");
    let counters = log.settle();
    assert_eq!((counters.events, counters.alike, counters.records), (1, 800_000, 800_001));
    log.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
}
