//! The log as a whole: what is new, what is a repetition, what was missed.

use std::collections::BTreeMap;

use super::line::{Line, SwitchLine, XidLine, parse_line};
use super::record::Record;
use crate::sample::PciAddress;

/// Messages alike within this time of the one before are one event with a count. The time other node agents use too;
/// doubling it would join faults that have nothing to do with each other.
const ALIKE_US: u64 = 60_000_000;

/// How long after a GPU's fault its channels' cleanup (Xid 45) counts as the consequence of it. Large jobs take
/// minutes to be torn down.
const FOLLOWS_US: u64 = 300_000_000;

/// Kinds of messages that are counted at the same time. One node in trouble printed 29 kinds; each takes up to a KiB.
const ALIKE_MAX: usize = 256;

/// GPUs of which the last fault is remembered.
const GPUS_MAX: usize = 256;

/// Other records that may stand between the first and the last of three that belong together.
const BETWEEN_MAX: u32 = 16;

/// Xid of a GPU that does not answer any more.
const FALLEN_OFF: u32 = 79;
/// Xid of a program's error, of which the driver prints one line for each processor of the GPU.
const GRAPHICS: u32 = 13;
/// Xid of the cleanup after a fault.
const CLEANUP: u32 = 45;
/// Xid by which the driver says what it wants to be done.
const ACTION_CHANGED: u32 = 154;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// Something with a GPU.
    Xid {
        /// The message.
        line: XidLine,
        /// For a cleanup (45): the fault that it follows. `None`: it stands alone.
        follows: Option<u32>,
    },
    /// Something with a switch.
    Switch(SwitchLine),
    /// A GPU was reset.
    Reset {
        /// Where it is, if the log has told. `None`: ask who knows its name.
        pci: Option<PciAddress>,
        /// `GPU-` and a UUID.
        uuid: String,
        /// It worked.
        has_succeeded: bool,
    },
    /// A task has hung for long.
    Blocked {
        /// Its name.
        task: String,
        /// Its id.
        pid: u32,
        /// For how long. Unit: seconds.
        seconds: u64,
    },
}

/// One thing that happened, or that it happened again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelEvent {
    /// Number of its record.
    pub sequence: u64,
    /// Since boot. Unit: microseconds.
    pub uptime_us: u64,
    /// How many messages said so. At least 1.
    pub count: u64,
    /// It has been told before; `count` more messages said the same.
    pub is_repeat: bool,
    /// What.
    pub what: Occurrence,
}

/// Numbers that only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounters {
    /// Records read.
    pub records: u64,
    /// Records that are no records.
    pub malformed: u64,
    /// Messages that begin as the driver's and go on otherwise.
    pub unparsed: u64,
    /// Messages that did not come from the kernel, and were not looked at.
    pub foreign: u64,
    /// Records that were overwritten before they could be read.
    pub missed: u64,
    /// Times the kernel said so.
    pub overruns: u64,
    /// Messages that only raised the count of an event.
    pub alike: u64,
    /// Events.
    pub events: u64,
}

/// Messages alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    pci: PciAddress,
    is_switch: bool,
    code: u32,
    /// Of what else has to be the same.
    hash: u64,
}

#[derive(Clone, Debug)]
struct Alike {
    last: u64,
    last_us: u64,
    /// Messages since the last flush.
    untold: u64,
    what: Occurrence,
}

/// Reads the log. Its memory is bounded whatever it is given.
#[derive(Clone, Debug, Default)]
pub struct KernelLog {
    accepts_all: bool,
    last: Option<u64>,
    /// The first of three messages was read; so many others may still come between.
    first_of_three: Option<(PciAddress, u32)>,
    alike: BTreeMap<Key, Alike>,
    faults: BTreeMap<PciAddress, (u32, u64)>,
    names: BTreeMap<String, PciAddress>,
    counters: LogCounters,
}

impl KernelLog {
    /// A log of which everything up to record `last` has been seen. `accepts_all`: also what programs wrote into it.
    #[must_use]
    pub fn new(last: Option<u64>, counters: LogCounters, accepts_all: bool) -> Self {
        Self { accepts_all, last, counters, ..Self::default() }
    }

    /// Number of the newest record that was read.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> LogCounters {
        self.counters
    }

    /// The kernel says that records were overwritten before they were read. How many shows in the next one's number.
    pub fn overrun(&mut self) {
        bump(&mut self.counters.overruns, 1);
    }

    /// Takes one record. Returns what is new in it; that something happened again is told by [`Self::repeats`].
    pub fn take(&mut self, bytes: &[u8]) -> Option<KernelEvent> {
        bump(&mut self.counters.records, 1);
        let Some(record) = Record::parse(bytes) else {
            bump(&mut self.counters.malformed, 1);
            return None;
        };
        if !self.is_new(record.sequence) {
            return None;
        }
        if record.facility() != 0 && !self.accepts_all {
            bump(&mut self.counters.foreign, 1);
            return None;
        }
        let line = self.joined(parse_line(record.message));
        let what = self.occurrence(line, record.uptime_us)?;
        self.counted(&record, what)
    }

    fn is_new(&mut self, sequence: u64) -> bool {
        match self.last {
            Some(last) if sequence <= last => return false,
            Some(last) => bump(&mut self.counters.missed, sequence - last - 1),
            None => {}
        }
        self.last = Some(sequence);
        true
    }

    /// Puts three messages that belong together into one.
    fn joined(&mut self, line: Line) -> Line {
        let pending = self.first_of_three.take();
        match line {
            Line::FallenOffFirst(pci) => {
                self.first_of_three = Some((pci, BETWEEN_MAX));
                Line::Other
            }
            Line::FallenOffLast => pending.map_or(Line::Other, |(pci, _)| Line::FallenOff(pci)),
            other => {
                let left = pending.filter(|(_, left)| *left > 0);
                self.first_of_three = left.map(|(pci, left)| (pci, left - 1));
                other
            }
        }
    }

    fn occurrence(&mut self, line: Line, uptime_us: u64) -> Option<Occurrence> {
        match line {
            Line::Xid(line) => Some(self.xid(line, uptime_us)),
            Line::FallenOff(pci) => {
                let pci = PciAddress { function: 0, ..pci };
                let text = "GPU has fallen off the bus.".to_owned();
                let code = FALLEN_OFF;
                let line = XidLine { pci, code, pid: None, text, nvlink: None, action: None };
                Some(self.xid(line, uptime_us))
            }
            Line::Switch(line) => Some(Occurrence::Switch(line)),
            Line::Identity { pci, uuid } => {
                if self.names.len() < GPUS_MAX {
                    self.names.insert(uuid, PciAddress { function: 0, ..pci });
                }
                None
            }
            Line::Reset { uuid, has_succeeded } => {
                let pci = self.names.get(&uuid).copied();
                Some(Occurrence::Reset { pci, uuid, has_succeeded })
            }
            Line::Blocked { task, pid, seconds } => {
                Some(Occurrence::Blocked { task, pid, seconds })
            }
            Line::Unparsed => {
                bump(&mut self.counters.unparsed, 1);
                None
            }
            Line::SwitchDetail | Line::FallenOffFirst(_) | Line::FallenOffLast | Line::Other => {
                None
            }
        }
    }

    fn xid(&mut self, line: XidLine, uptime_us: u64) -> Occurrence {
        if line.code == CLEANUP {
            let fault = self.faults.get(&line.pci);
            let recent = fault.filter(|(_, at)| uptime_us.saturating_sub(*at) <= FOLLOWS_US);
            return Occurrence::Xid { follows: recent.map(|(code, _)| *code), line };
        }
        if self.faults.len() < GPUS_MAX || self.faults.contains_key(&line.pci) {
            self.faults.insert(line.pci, (line.code, uptime_us));
        }
        Occurrence::Xid { line, follows: None }
    }

    /// The event, unless it is like one that was told not long ago.
    fn counted(&mut self, record: &Record<'_>, what: Occurrence) -> Option<KernelEvent> {
        let (sequence, uptime_us) = (record.sequence, record.uptime_us);
        let Some(key) = key_of(&what) else {
            bump(&mut self.counters.events, 1);
            return Some(KernelEvent { sequence, uptime_us, count: 1, is_repeat: false, what });
        };
        if let Some(alike) = self.alike.get_mut(&key)
            && uptime_us.saturating_sub(alike.last_us) <= ALIKE_US
            // A recovery action is alike only while it is the same: "to 1, to 0, to 1" must not end as 0.
            && (key.code != ACTION_CHANGED || alike.what == what)
        {
            (alike.last, alike.last_us) = (sequence, uptime_us);
            alike.untold += 1;
            bump(&mut self.counters.alike, 1);
            return None;
        }
        if self.alike.len() >= ALIKE_MAX && !self.alike.contains_key(&key) {
            let oldest = self.alike.iter().min_by_key(|(_, alike)| alike.last);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.alike.remove(&oldest);
            }
        }
        let alike = Alike { last: sequence, last_us: uptime_us, untold: 0, what: what.clone() };
        self.alike.insert(key, alike);
        bump(&mut self.counters.events, 1);
        Some(KernelEvent { sequence, uptime_us, count: 1, is_repeat: false, what })
    }

    /// What has happened again since this was last asked: ask now and then, not after each record.
    pub fn repeats(&mut self) -> Vec<KernelEvent> {
        let untold = self.alike.values_mut().filter(|alike| alike.untold > 0);
        untold
            .map(|alike| KernelEvent {
                sequence: alike.last,
                uptime_us: alike.last_us,
                count: std::mem::take(&mut alike.untold),
                is_repeat: true,
                what: alike.what.clone(),
            })
            .collect()
    }
}

/// `None`: each one counts.
fn key_of(what: &Occurrence) -> Option<Key> {
    match what {
        Occurrence::Xid { line, follows } => {
            let hash = match line.code {
                FALLEN_OFF => 0,
                CLEANUP => u64::from(follows.unwrap_or(0)),
                GRAPHICS => u64::from(line.pid.unwrap_or(0)),
                ACTION_CHANGED => 0,
                _ => hash(&line.text, line.pid),
            };
            Some(Key { pci: line.pci, is_switch: false, code: line.code, hash })
        }
        Occurrence::Switch(line) => {
            let hash = hash(&line.text, line.is_fatal.map(u32::from));
            Some(Key { pci: line.pci, is_switch: true, code: line.code, hash })
        }
        Occurrence::Reset { .. } | Occurrence::Blocked { .. } => None,
    }
}

/// Counters may have come from a file: they stop at their end.
fn bump(counter: &mut u64, by: u64) {
    *counter = counter.saturating_add(by);
}

/// FNV-1a.
fn hash(text: &str, number: Option<u32>) -> u64 {
    let number = number.map_or(u64::MAX, u64::from).to_le_bytes();
    let bytes = text.as_bytes().iter().chain(&number);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
