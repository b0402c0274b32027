//! Sets read-ahead where core says so: the only place of the agent that writes to the host's `/sys`.
//!
//! Runs on a thread of its own, because a write to a device that is lost never returns. What was there before is
//! journalled before the first write, and put back when the agent ends or, if it was killed, when it starts again in the
//! same boot and the same disk still has what was written. Another's value is never overwritten then.

mod device;
mod mapped;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluice_core::sample::{
    DeviceNumber, MountTableSample, VolumeKind, VolumeSample, VolumeTableSample, volume_of,
};
use sluice_core::volume::tune::{Costly, Mounts, Rules, Subject, Tuner, Write};
use sluice_core::volume::{Finding, Mib};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use tracing::{info, warn};

use self::device::Device;
use crate::clock;
use crate::journal::{Journal, JournalError};
use crate::sensor::Reading;

/// Requests to stop that wait: there is one.
const REQUESTS_MAX: usize = 1;

/// What was done or not done about read-ahead, by the device's name.
pub(crate) type Told = BTreeMap<String, Vec<Finding>>;

/// What it works with.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Where the host's `/` is seen.
    pub(crate) root: PathBuf,
    /// Where what was there before is written down.
    pub(crate) journal_dir: PathBuf,
    pub(crate) boot_id: String,
    /// What the operator allows.
    pub(crate) rules: Rules,
    /// Disks that may be tuned, by the name of the cloud disk or of the device.
    pub(crate) opted_in: BTreeSet<String>,
    /// What the machine moves. `None`: not known.
    pub(crate) node_limit: Option<Mib>,
    /// Time between two looks.
    pub(crate) period: Duration,
    pub(crate) volumes: watch::Receiver<Reading<VolumeTableSample>>,
    pub(crate) mounts: watch::Receiver<Reading<MountTableSample>>,
    pub(crate) told: watch::Sender<Told>,
}

/// The running setter. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Setter {
    requests: SyncSender<oneshot::Sender<()>>,
}

impl Setter {
    /// Puts back what a killed agent has left, then starts to look.
    ///
    /// # Errors
    /// The journal cannot be opened, or the system refuses a thread.
    pub(crate) fn start(parts: Parts) -> Result<Self, String> {
        let journal = Journal::open(parts.journal_dir.clone()).map_err(|e| e.to_string())?;
        let (requests, inbox) = sync_channel(REQUESTS_MAX);
        let mut work = Work { parts, journal, known: BTreeMap::new(), mounted: BTreeMap::new() };
        let run = move || work.run(&inbox);
        thread::Builder::new().name("read-ahead".to_owned()).spawn(run).map_err(|error| {
            format!("could not start a thread: {error}; raise the limit on threads")
        })?;
        Ok(Self { requests })
    }

    /// Puts everything back as it was and ends, or gives up after `longest`.
    pub(crate) async fn stop(&self, longest: Duration) {
        let (done, is_done) = oneshot::channel();
        if self.requests.try_send(done).is_ok() && timeout(longest, is_done).await.is_err() {
            warn!(
                "read-ahead is not put back yet: a device does not answer; the next start does it"
            );
        }
    }
}

/// What is written down before a value is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    device: String,
    diskseq: Option<u64>,
    boot_id: String,
    original_kib: u64,
    /// What may be in force of ours.
    set_kib: Vec<u64>,
}

/// A disk as long as it is the same.
#[derive(Debug, Default)]
struct Known {
    diskseq: Option<u64>,
    tuner: Tuner,
}

/// The state of the thread.
#[derive(Debug)]
struct Work {
    parts: Parts,
    journal: Journal,
    known: BTreeMap<String, Known>,
    mounted: BTreeMap<String, Mounts>,
}

/// A volume that is to be looked at.
struct Candidate {
    name: String,
    diskseq: Option<u64>,
    number: Option<DeviceNumber>,
    subject: Subject,
}

impl Work {
    fn run(&mut self, inbox: &Receiver<oneshot::Sender<()>>) {
        self.recover();
        loop {
            match inbox.recv_timeout(self.parts.period) {
                Ok(done) => {
                    self.give_all_back();
                    // Whoever asked may have given up.
                    let _ = done.send(());
                    return;
                }
                Err(RecvTimeoutError::Timeout) => self.turn(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// What an agent that was killed has left is put back, if it is still there.
    fn recover(&self) {
        let (records, corrupt) = match self.journal.load::<Record>() {
            Ok(loaded) => loaded,
            Err(why) => return warn!("read-ahead of an earlier run is not put back: {why}"),
        };
        for record in corrupt {
            warn!(path = %record.path.display(), "what read-ahead was before cannot be read: {}", record.detail);
        }
        for (key, record) in records {
            match self.put_back(&record) {
                Ok(Some(kib)) => {
                    info!(device = record.device, kib, "read-ahead of an earlier run put back");
                }
                Ok(None) => {}
                Err(why) => {
                    warn!(device = record.device, "read-ahead is not put back: {why}");
                    continue;
                }
            }
            self.forget(&key);
        }
    }

    /// `None`: another boot, another disk or another's value.
    fn put_back(&self, record: &Record) -> Result<Option<u64>, String> {
        let device = Device::new(&self.parts.root, &record.device, record.diskseq)?;
        if record.boot_id != self.parts.boot_id || !device.is_same() {
            return Ok(None);
        }
        let actual_kib = device.read()?;
        if actual_kib == record.original_kib || !record.set_kib.contains(&actual_kib) {
            return Ok(None);
        }
        device.write(record.original_kib).map(Some)
    }

    /// One look at all volumes, if there is something new.
    fn turn(&mut self) {
        if !self.parts.volumes.has_changed().unwrap_or(false) {
            return;
        }
        let candidates = self.candidates();
        let is_there =
            |name: &str, diskseq| candidates.iter().any(|c| c.name == name && c.diskseq == diskseq);
        let (known, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.known)
            .into_iter()
            .partition(|(name, known)| is_there(name, known.diskseq));
        self.known = known;
        for name in gone.keys() {
            // Its read-ahead went with it.
            self.forget(name);
        }
        let mut told = Told::new();
        for candidate in candidates {
            self.look(&candidate);
            let findings: Vec<Finding> = self
                .known
                .get(&candidate.name)
                .map_or_else(Vec::new, |known| known.tuner.findings().cloned().collect());
            if !findings.is_empty() {
                told.insert(candidate.name, findings);
            }
        }
        self.parts.told.send_if_modified(|before| std::mem::replace(before, told.clone()) != told);
    }

    /// Volumes for which something was asked, or that may be tuned, or of which something of ours is in force.
    fn candidates(&mut self) -> Vec<Candidate> {
        let reading = self.parts.volumes.borrow_and_update().clone();
        let Some(table) = reading.value else { return Vec::new() };
        let volumes = &table.volumes;
        let partitioned: BTreeSet<&str> = volumes.iter().filter_map(parent).collect();
        let mut candidates = Vec::new();
        for volume in volumes {
            let identity = &volume.identity;
            let judged = table.judged.get(&identity.name);
            let expected_kib = judged.and_then(|judged| judged.read_ahead.expected_kib);
            let is_opted_in = self.is_opted_in(volume);
            if expected_kib.is_none() && !is_opted_in && !self.known.contains_key(&identity.name) {
                continue;
            }
            // The sample may be older than the last write.
            let device = Device::new(&self.parts.root, &identity.name, identity.diskseq);
            let actual_kib = device.and_then(|device| device.read()).ok();
            let subject = Subject {
                actual_kib: volume.read_ahead_kb.and(actual_kib),
                is_partitioned: partitioned.contains(identity.name.as_str()),
                expected_kib,
                is_opted_in,
                node_limit: self.parts.node_limit,
                bottleneck: judged.map(|judged| judged.bottleneck).unwrap_or_default(),
                ..Subject::of(volume)
            };
            let (name, diskseq, number) =
                (identity.name.clone(), identity.diskseq, identity.number);
            candidates.push(Candidate { name, diskseq, number, subject });
        }
        self.look_at_mounts(volumes, &candidates);
        for candidate in &mut candidates {
            candidate.subject.mounts =
                self.mounted.get(&candidate.name).copied().unwrap_or_default();
        }
        candidates
    }

    fn is_opted_in(&self, volume: &VolumeSample) -> bool {
        let identity = &volume.identity;
        let cloud = identity.google.as_ref().and_then(|google| google.device_name.as_ref());
        let is_named = |name: &String| self.parts.opted_in.contains(name);
        is_named(&identity.name) || cloud.is_some_and(is_named)
    }

    /// A node has thousands of mounts; they are joined to volumes when either has changed.
    fn look_at_mounts(&mut self, volumes: &[VolumeSample], candidates: &[Candidate]) {
        let is_known = candidates.iter().all(|c| self.mounted.contains_key(&c.name))
            && candidates.len() == self.mounted.len();
        if is_known && !self.parts.mounts.has_changed().unwrap_or(false) {
            return;
        }
        self.mounted = candidates.iter().map(|c| (c.name.clone(), Mounts::default())).collect();
        let reading = self.parts.mounts.borrow_and_update();
        let mounts = reading.value.as_ref().map_or(&[][..], |table| &table.mounts);
        for mount in mounts {
            let volume = volume_of(mount, volumes);
            if let Some(mounts) = volume.and_then(|v| self.mounted.get_mut(&v.identity.name)) {
                mounts.add(mount);
            }
        }
    }

    fn look(&mut self, candidate: &Candidate) {
        let now_ms = clock::now().0;
        let known = self.known.entry(candidate.name.clone()).or_default();
        known.diskseq = candidate.diskseq;
        let root = &self.parts.root;
        let costly = || costly(root, candidate.number);
        let write = known.tuner.look(now_ms, self.parts.rules, &candidate.subject, costly);
        match write {
            Some(Write::Set { before_kib, kib }) => self.set(&candidate.name, before_kib, kib),
            Some(Write::Restore { kib }) => self.restore(&candidate.name, kib),
            None => {}
        }
    }

    /// Writes down what there was, writes, reads back.
    fn set(&mut self, name: &str, before_kib: u64, kib: u64) {
        let Some(known) = self.known.get_mut(name) else { return };
        let original_kib = known.tuner.original_kib().unwrap_or(before_kib);
        let record = Record {
            device: name.to_owned(),
            diskseq: known.diskseq,
            boot_id: self.parts.boot_id.clone(),
            original_kib,
            set_kib: vec![before_kib, kib],
        };
        let device = Device::new(&self.parts.root, name, known.diskseq);
        let journalled = self.journal.put(name, &record).map_err(|why: JournalError| {
            format!("what was there before cannot be written down: {why}")
        });
        let read_back = journalled.and_then(|()| device?.write(kib));
        match &read_back {
            Ok(actual_kib) => {
                info!(device = name, before_kib, kib, actual_kib, "read-ahead set");
            }
            Err(why) => warn!(device = name, kib, "read-ahead is not set: {why}"),
        }
        known.tuner.was_set(clock::now().0, before_kib, kib, read_back);
        if !known.tuner.has_set() {
            self.forget(name);
        }
    }

    fn restore(&mut self, name: &str, kib: u64) {
        let Some(known) = self.known.get_mut(name) else { return };
        let device = Device::new(&self.parts.root, name, known.diskseq);
        let read_back = device.and_then(|device| device.write(kib));
        match &read_back {
            Ok(_) => info!(device = name, kib, "read-ahead put back"),
            Err(why) => warn!(device = name, kib, "read-ahead is not put back: {why}"),
        }
        let is_done = read_back.is_ok();
        known.tuner.was_restored(clock::now().0, kib, read_back);
        if is_done {
            self.forget(name);
        }
    }

    fn give_all_back(&mut self) {
        let names: Vec<String> = self.known.keys().cloned().collect();
        for name in names {
            let Some(known) = self.known.get(&name) else { continue };
            let device = Device::new(&self.parts.root, &name, known.diskseq);
            let actual_kib = device.and_then(|device| device.read());
            let write = actual_kib.ok().and_then(|actual_kib| known.tuner.give_back(actual_kib));
            match write {
                Some(Write::Restore { kib }) => self.restore(&name, kib),
                // Another's value stays, and there is nothing left to put back.
                Some(Write::Set { .. }) | None => self.forget(&name),
            }
        }
    }

    fn forget(&self, key: &str) {
        if let Err(why) = self.journal.remove(key) {
            warn!(device = key, "what read-ahead was before stays written down: {why}");
        }
    }
}

fn parent(volume: &VolumeSample) -> Option<&str> {
    match &volume.identity.kind {
        VolumeKind::Partition { parent, .. } => Some(parent),
        VolumeKind::Disk
        | VolumeKind::Nvme
        | VolumeKind::NvmePath
        | VolumeKind::Loop { .. }
        | VolumeKind::DeviceMapper { .. }
        | VolumeKind::Raid
        | VolumeKind::Memory
        | VolumeKind::Optical => None,
    }
}

fn costly(root: &Path, number: Option<DeviceNumber>) -> Costly {
    Costly {
        is_mapped: number.and_then(|number| mapped::is_mapped(root, number)),
        available_kib: mapped::available_kib(root),
    }
}
