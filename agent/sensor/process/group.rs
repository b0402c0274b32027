//! Which process belongs to which worker.
//!
//! By the marker in its own environment; else by descent from a registered process or a carrier of
//! a marker, for programs that clear the environment. A daemon that cleared it *and* left its
//! parent is not found, which is why released devices are also checked by who has them open.

use std::collections::{BTreeMap, BTreeSet};

use sluice_core::pod::PodWorker;
use sluice_core::sample::{ProcessKey, ProcessSample, WorkerProcesses};

use super::WatchedWorker;
use super::table::Entry;

/// Most steps from a process up to its first ancestor. Deeper trees do not occur; a loop, seen in a
/// table that changed while it was read, ends here.
const ANCESTORS_MAX: usize = 256;

/// The worker of each process that has one.
pub(super) struct Membership {
    markers: BTreeMap<u32, String>,
}

impl Membership {
    pub(super) fn members<'a>(
        &'a self,
        entries: &'a [Entry],
    ) -> impl Iterator<Item = (&'a Entry, &'a str)> {
        entries.iter().filter_map(|e| Some((e, self.markers.get(&e.key.pid)?.as_str())))
    }

    pub(super) fn others<'a>(&'a self, entries: &'a [Entry]) -> impl Iterator<Item = &'a Entry> {
        entries.iter().filter(|entry| !self.markers.contains_key(&entry.key.pid))
    }
}

/// Finds the worker of each process; `entries` are in ascending order of their ids.
pub(super) fn assign(entries: &[Entry], watched: &[WatchedWorker]) -> Membership {
    let registered: BTreeMap<ProcessKey, &str> = watched
        .iter()
        .filter_map(|worker| Some((worker.process?, worker.marker.as_str())))
        .collect();
    let of_pod = |entry: &Entry| {
        let is_of = |worker: &&WatchedWorker| worker.pod.as_ref().is_some_and(|p| has(p, entry));
        watched.iter().find(is_of).map(|worker| worker.marker.clone())
    };
    let own = |entry: &Entry| -> Option<String> {
        let registered = registered.get(&entry.key).map(|marker| (*marker).to_owned());
        registered.or_else(|| of_pod(entry)).or_else(|| entry.environ.marker.clone())
    };
    let owned: BTreeMap<u32, String> =
        entries.iter().filter_map(|e| Some((e.key.pid, own(e)?))).collect();
    let mut markers = owned.clone();
    // Most nodes run few workers and many processes: nothing to descend from, nothing to climb.
    if !owned.is_empty() {
        for entry in entries.iter().filter(|entry| !entry.is_kernel_thread) {
            if let Some(marker) = inherited(entry, entries, &owned) {
                markers.insert(entry.key.pid, marker);
            }
        }
    }
    Membership { markers }
}

/// A pod's processes are those in the cgroup of its container, whatever their environment says.
fn has(pod: &PodWorker, entry: &Entry) -> bool {
    let of = entry.environ.pod.as_ref();
    of.is_some_and(|of| of.pod == pod.uid && of.container.as_deref() == Some(&pod.container))
}

/// The marker of the nearest process upwards that has one. Process 1 adopts orphans, so descent
/// ends there.
fn inherited(entry: &Entry, entries: &[Entry], owned: &BTreeMap<u32, String>) -> Option<String> {
    let mut pid = entry.key.pid;
    for _ in 0..ANCESTORS_MAX {
        if let Some(marker) = owned.get(&pid) {
            return Some(marker.clone());
        }
        pid = find(entries, pid)?.parent_pid;
        if pid <= 1 {
            return None;
        }
    }
    None
}

fn find(entries: &[Entry], pid: u32) -> Option<&Entry> {
    let at = entries.binary_search_by_key(&pid, |entry| entry.key.pid).ok()?;
    entries.get(at)
}

/// The workers with the processes found for them, ordered by marker; watched ones without any
/// included.
pub(super) fn workers(
    members: Vec<(String, ProcessSample)>,
    watched: &[WatchedWorker],
    entries: &[Entry],
) -> Vec<WorkerProcesses> {
    let mut by_marker: BTreeMap<String, Vec<ProcessSample>> =
        watched.iter().map(|worker| (worker.marker.clone(), Vec::new())).collect();
    for (marker, sample) in members {
        by_marker.entry(marker).or_default().push(sample);
    }
    by_marker
        .into_iter()
        .map(|(marker, mut processes)| {
            processes.sort_by_key(|process| process.key);
            let registered = watched.iter().find(|worker| worker.marker == marker);
            WorkerProcesses {
                is_watched: registered.is_some(),
                main: main_process(&processes, registered),
                ranks: ranks(&processes, entries),
                devices: processes
                    .iter()
                    .filter_map(|p| p.devices.as_ref())
                    .flatten()
                    .cloned()
                    .collect(),
                are_devices_certain: processes.iter().all(|process| process.devices.is_some()),
                processes,
                marker,
            }
        })
        .collect()
}

/// The registered process while it lives, else the oldest carrier that no other carrier started; in a container, the
/// oldest that came from outside of it.
fn main_process(
    processes: &[ProcessSample],
    watched: Option<&WatchedWorker>,
) -> Option<ProcessKey> {
    let registered = watched.and_then(|worker| worker.process);
    let registered = registered.filter(|key| processes.iter().any(|process| process.key == *key));
    let is_pod = watched.is_some_and(|worker| worker.pod.is_some());
    let pids: BTreeSet<u32> = processes.iter().map(|process| process.key.pid).collect();
    registered.or_else(|| {
        let carries = |process: &&ProcessSample| process.marker.is_some() || is_pod;
        processes
            .iter()
            .filter(|process| carries(process) && !pids.contains(&process.parent_pid))
            .map(|process| process.key)
            .min_by_key(|key| (key.start_time_ticks, key.pid))
    })
}

/// The processes that train. Children inherit `LOCAL_RANK` (data loaders have it too), so it is the first that has it;
/// where that one is a launcher, as in a pod that gives it to everybody, those below it that hold a device. Without
/// any, whoever holds a device and has not inherited it.
fn ranks(processes: &[ProcessSample], entries: &[Entry]) -> Vec<ProcessKey> {
    let is_first = |process: &&ProcessSample| {
        let parent = find(entries, process.parent_pid);
        process.has_local_rank && parent.is_none_or(|parent| !parent.environ.has_local_rank)
    };
    let holds = |pid: u32| {
        let process = processes.iter().find(|process| process.key.pid == pid);
        process.is_some_and(|p| p.devices.as_ref().is_some_and(|devices| !devices.is_empty()))
    };
    let is_below =
        |process: &ProcessSample, top: &dyn Fn(u32) -> bool| above(process, processes).any(top);
    let holders: Vec<&ProcessSample> =
        processes.iter().filter(|p| holds(p.key.pid) && !is_below(p, &holds)).collect();
    let firsts: Vec<&ProcessSample> = processes.iter().filter(is_first).collect();
    if firsts.is_empty() {
        return holders.iter().map(|process| process.key).collect();
    }
    let mut ranks = Vec::new();
    for first in firsts {
        let is_it = |pid: u32| pid == first.key.pid;
        let mut below = holders.iter().filter(|p| is_below(p, &is_it)).peekable();
        if holds(first.key.pid) || below.peek().is_none() {
            ranks.push(first.key);
        } else {
            ranks.extend(below.map(|process| process.key));
        }
    }
    ranks
}

/// The pids above a process, nearest first, as far as they are among `processes`. No more steps than those: a table that
/// changed while it was read may lead in a circle.
fn above<'a>(
    process: &ProcessSample,
    processes: &'a [ProcessSample],
) -> impl Iterator<Item = u32> + 'a {
    let known = |pid: u32| processes.iter().find(move |process| process.key.pid == pid);
    let parent = known(process.parent_pid);
    std::iter::successors(parent, move |process| known(process.parent_pid))
        .map(|process| process.key.pid)
        .take(processes.len())
}
