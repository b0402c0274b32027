//! The host's processes, as far as they concern workers and accelerators.
//!
//! Processes come and go while they are looked at, and not every one lets itself be looked at: both
//! are ordinary and neither ends a pass. What cannot change for a process (its environment) is read
//! once.

mod files;
mod group;
mod table;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sluice_core::pod::PodWorker;
use sluice_core::sample::{
    DeviceFile, ProcessKey, ProcessSample, ProcessState, ProcessTableSample,
};

use crate::nvml::PROBE_NAME;

use self::files::OpenFiles;
use self::table::{Entry, ProcessTable};

/// Passes in which every stranger's open files are listed once. Listing files costs ten times what
/// the rest of a process does, and a device that a stranger took is no news of seconds: at a pass
/// every 5 s it is seen within 30 s.
const STRANGER_PASSES: u64 = 6;

/// A worker the agent was told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchedWorker {
    /// `<workload>/<attempt>/<rank>`: the value of `SLUICE_WORKER` in the environment of its
    /// processes.
    pub(crate) marker: String,
    /// The process that was registered. `None`: found by the marker alone.
    pub(crate) process: Option<ProcessKey>,
    /// Where it writes checkpoints, as it sees the path. `None`: nothing is looked for.
    pub(crate) checkpoint_dir: Option<PathBuf>,
    /// The pod whose container it is. `None`: it is known by its marker and process.
    pub(crate) pod: Option<PodWorker>,
}

/// Looks at the processes of a host. Independent instances (the sensor's and a drain's) share
/// nothing.
#[derive(Debug)]
pub(crate) struct ProcessSensor {
    table: ProcessTable,
    files: OpenFiles,
    strangers: BTreeMap<ProcessKey, ProcessSample>,
    passes: u64,
}

impl ProcessSensor {
    /// `host_root` is where the host's `/` is seen; `devices_dir` where the files of simulated
    /// devices lie, if any.
    pub(crate) fn new(host_root: &Path, devices_dir: Option<&Path>) -> Self {
        ProcessSensor {
            table: ProcessTable::new(host_root),
            files: OpenFiles::new(host_root, devices_dir),
            strangers: BTreeMap::new(),
            passes: 0,
        }
    }

    /// The same, which takes processes that were started for another agent on this machine for strangers.
    pub(crate) fn only_of(mut self, agent_uid: &str) -> Self {
        self.table.only_of(agent_uid);
        self
    }

    /// One pass over all processes: those of `watched` workers, of workers nobody told the agent
    /// of, and others that have an accelerator's file open.
    ///
    /// # Errors
    /// `/proc` cannot be listed.
    pub(crate) fn sample(
        &mut self,
        watched: &[WatchedWorker],
    ) -> Result<ProcessTableSample, String> {
        self.table.look_for_pods(watched.iter().any(|worker| worker.pod.is_some()));
        let (entries, dropped) = self.table.list()?;
        let membership = group::assign(&entries, watched);
        let mut members = Vec::new();
        for (entry, marker) in membership.members(&entries) {
            let dir = watched.iter().find(|worker| worker.marker == marker);
            let dir = dir.and_then(|worker| worker.checkpoint_dir.as_deref());
            if let Some(sample) = self.look_at(entry, dir) {
                members.push((marker.to_owned(), sample));
            }
        }
        let others: Vec<&Entry> = membership.others(&entries).collect();
        self.look_at_strangers(&others);
        self.passes = self.passes.wrapping_add(1);
        Ok(ProcessTableSample {
            workers: group::workers(members, watched, &entries),
            strangers: self.strangers.values().cloned().collect(),
            process_count: count(entries.len()),
            unreadable_count: count(entries.iter().filter(|e| !e.environ.is_readable).count()),
            dropped,
        })
    }

    /// One process now. `None`: it is gone, or was replaced by another while being looked at.
    ///
    /// Files open for writing below `checkpoint_dir` are listed if one is given.
    #[cfg(test)]
    pub(crate) fn inspect(
        &mut self,
        pid: u32,
        checkpoint_dir: Option<&Path>,
    ) -> Option<ProcessSample> {
        let entry = self.table.entry(pid)?;
        self.look_at(&entry, checkpoint_dir)
    }

    /// All live processes that carry exactly `marker`, ordered by key.
    ///
    /// # Errors
    /// `/proc` cannot be listed.
    #[cfg(test)]
    pub(crate) fn carriers(&mut self, marker: &str) -> Result<Vec<ProcessSample>, String> {
        let (entries, _) = self.table.list()?;
        let carriers = entries.iter().filter(|e| e.environ.marker.as_deref() == Some(marker));
        let mut found: Vec<_> = carriers.filter_map(|entry| self.look_at(entry, None)).collect();
        found.sort_by_key(|sample| sample.key);
        Ok(found)
    }

    /// All live processes that have one of `devices` open, ordered by key, and the number of
    /// processes whose files could not be listed: with any, an empty list proves nothing.
    ///
    /// # Errors
    /// `/proc` cannot be listed.
    pub(crate) fn holders(
        &mut self,
        devices: &BTreeSet<DeviceFile>,
    ) -> Result<(Vec<ProcessSample>, u32), String> {
        let (entries, _) = self.table.list()?;
        let mut found = Vec::new();
        let mut unreadable = 0;
        for entry in entries.iter().filter(|entry| entry.may_hold_files()) {
            match self.files.devices(entry.key.pid) {
                Ok(held) if held.is_disjoint(devices) => {}
                Ok(_) => found.extend(self.look_at(entry, None)),
                Err(error) if is_gone(&error) => {}
                Err(_) => unreadable += 1,
            }
        }
        found.sort_by_key(|sample| sample.key);
        Ok((found, unreadable))
    }

    /// Everything about one process; its identity is checked again afterwards, as its id may have
    /// been reused.
    fn look_at(&mut self, entry: &Entry, checkpoint_dir: Option<&Path>) -> Option<ProcessSample> {
        let pid = entry.key.pid;
        let status = self.table.status(pid);
        let mut devices = Some(BTreeSet::new());
        let mut open_checkpoint_files = Vec::new();
        if entry.may_hold_files() {
            devices = self.files.devices(pid).ok();
            if let Some(dir) = checkpoint_dir {
                open_checkpoint_files = self.files.written_below(pid, dir);
            }
        }
        if self.table.key(pid) != Some(entry.key) {
            return None;
        }
        Some(ProcessSample {
            key: entry.key,
            parent_pid: entry.parent_pid,
            state: entry.state,
            comm: entry.comm.clone(),
            uid: status.as_ref().and_then(|status| status.uid),
            marker: entry.environ.marker.clone(),
            has_local_rank: entry.environ.has_local_rank,
            is_environ_readable: entry.environ.is_readable,
            devices,
            open_checkpoint_files,
            signals: status.and_then(|status| status.signals),
        })
    }

    /// Lists the files of a share of the strangers, and keeps what is known of the others that
    /// still live.
    fn look_at_strangers(&mut self, others: &[&Entry]) {
        let alive: BTreeSet<ProcessKey> = others.iter().map(|entry| entry.key).collect();
        self.strangers.retain(|key, _| alive.contains(key));
        let turn = self.passes % STRANGER_PASSES;
        for entry in others.iter().filter(|entry| entry.may_hold_files()) {
            let is_turn = u64::from(entry.key.pid) % STRANGER_PASSES == turn;
            if self.passes > 0 && !is_turn && !self.strangers.contains_key(&entry.key) {
                continue;
            }
            let holds = self.files.devices(entry.key.pid).is_ok_and(|held| !held.is_empty());
            let sample = if holds { self.look_at(entry, None) } else { None };
            match sample {
                Some(sample) => {
                    self.strangers.insert(entry.key, sample);
                }
                None => {
                    self.strangers.remove(&entry.key);
                }
            }
        }
    }
}

impl Entry {
    /// Kernel threads have no files and zombies have none any more. The agent's own child that asks a driver holds
    /// nothing of anybody's.
    fn may_hold_files(&self) -> bool {
        let is_probe = self.comm == PROBE_NAME && self.parent_pid == std::process::id();
        !self.is_kernel_thread
            && !is_probe
            && self.state != ProcessState::Zombie
            && self.state != ProcessState::Dead
    }
}

/// The process ended: `/proc` answers with either, depending on how far it got.
fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
        || error.raw_os_error() == Some(nix::errno::Errno::ESRCH as i32)
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
