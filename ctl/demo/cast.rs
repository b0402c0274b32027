//! Which processes belong to the demo, and which accelerators they hold: read from `/proc`.
//!
//! Every program of the demo carries a mark in its environment, which its children inherit. So they
//! are found whoever started them, and none that is not ours is ever signalled.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable that holds the mark.
pub(super) const MARK: &str = "SLUICE_DEMO";
/// Most that is read of an environment. Unit: bytes.
const ENVIRON_BYTES_MAX: u64 = 1 << 20;

/// A live process of the demo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) pid: i32,
    /// What it works on, if `sluice run` started it.
    pub(super) worker: Option<Worker>,
}

/// A worker that holds accelerators.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Worker {
    /// `<workload>/<attempt>/<rank>`.
    pub(super) name: String,
    /// Ids of its accelerators.
    pub(super) devices: Vec<String>,
}

/// Finds the demo's processes again and again.
#[derive(Debug)]
pub(super) struct Lookout {
    mark: String,
    /// Processes seen that are not ours. Ours carry the mark from their first moment.
    strangers: BTreeSet<i32>,
}

impl Lookout {
    pub(super) fn new(mark: &str) -> Self {
        Self { mark: mark.to_owned(), strangers: BTreeSet::new() }
    }

    /// The demo's processes now.
    pub(super) fn look(&mut self) -> Vec<Member> {
        let pids = pids();
        self.strangers.retain(|pid| pids.contains(pid));
        let mut members = Vec::new();
        for pid in pids {
            if self.strangers.contains(&pid) {
                continue;
            }
            match member(pid, &self.mark) {
                Some(member) => members.push(member),
                None => {
                    self.strangers.insert(pid);
                }
            }
        }
        members
    }

    /// Which workers hold each accelerator now. Two are told of one accelerator only if both were
    /// there at the same time: the look is repeated, because it takes a moment itself.
    pub(super) fn holders(&mut self) -> BTreeMap<String, BTreeSet<String>> {
        let members = self.look();
        let holders = holders_of(&members);
        if holders.values().all(|workers| workers.len() < 2) {
            return holders;
        }
        let again = members.iter().filter_map(|m| member(m.pid, &self.mark)).collect::<Vec<_>>();
        holders_of(&again)
    }
}

fn holders_of(members: &[Member]) -> BTreeMap<String, BTreeSet<String>> {
    let mut holders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for worker in members.iter().filter_map(|m| m.worker.as_ref()) {
        for device in &worker.devices {
            holders.entry(device.clone()).or_default().insert(worker.name.clone());
        }
    }
    holders
}

/// Kills every process with this mark, as often as some are found, at most a few times; how many
/// there were.
pub(super) fn kill_all(mark: &str) -> usize {
    const ROUNDS: usize = 5;
    let mut killed = BTreeSet::new();
    for _ in 0..ROUNDS {
        let members = Lookout::new(mark).look();
        if members.is_empty() {
            break;
        }
        killed.extend(members.iter().map(|m| m.pid).filter(|pid| kill(*pid, mark)));
        // The kernel needs a moment to take a killed process apart.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    killed.len()
}

/// Kills one process if it is still one of ours: looked at again once it cannot be mistaken.
fn kill(pid: i32, mark: &str) -> bool {
    let Some(raw) = Pid::from_raw(pid) else { return false };
    let Ok(descriptor) = pidfd_open(raw, PidfdFlags::empty()) else { return false };
    member(pid, mark).is_some() && pidfd_send_signal(&descriptor, Signal::KILL).is_ok()
}

/// All processes but this one.
fn pids() -> BTreeSet<i32> {
    let own = i32::try_from(std::process::id()).ok();
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeSet::new() };
    let numbers = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| Some(*pid) != own).collect()
}

/// The process as one of ours; `None` if it is none, has gone or may not be looked at.
fn member(pid: i32, mark: &str) -> Option<Member> {
    let (is_ours, worker) = read_environ(&environ(pid)?, mark);
    is_ours.then_some(Member { pid, worker })
}

/// The environment of a process; `None` if it has gone or may not be looked at. In the middle of
/// `exec` it is empty for a moment, while the program is there already: so it is read again.
fn environ(pid: i32) -> Option<Vec<u8>> {
    const TRIES: usize = 100;
    let mut bytes = Vec::new();
    for _ in 0..TRIES {
        let file = File::open(format!("/proc/{pid}/environ")).ok()?;
        file.take(ENVIRON_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let has_program = || std::fs::read_link(format!("/proc/{pid}/exe")).is_ok();
        if !bytes.is_empty() || !has_program() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Some(bytes)
}

fn read_environ(bytes: &[u8], mark: &str) -> (bool, Option<Worker>) {
    let text = String::from_utf8_lossy(bytes);
    let variable = |name: &str| {
        let mut found = text.split('\0').filter_map(|v| v.strip_prefix(name)?.strip_prefix('='));
        found.next()
    };
    let worker = variable("SLUICE_WORKER").zip(variable("SLUICE_DEVICES"));
    let worker = worker.map(|(name, devices)| Worker {
        name: name.to_owned(),
        devices: devices.split(',').filter(|d| !d.is_empty()).map(str::to_owned).collect(),
    });
    (variable(MARK) == Some(mark), worker)
}

#[cfg(test)]
mod tests;
