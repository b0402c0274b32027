//! Finds out from outside which checkpoints of a worker are complete.
//!
//! [`CheckpointWatcher::scan`] is called again and again: every second, and whenever a
//! [`watch::ChangeWatch`] says that something happened. What it owns is the memory of earlier
//! scans, because rest and renaming can only be seen by looking twice. It decides nothing about
//! drains, and it never trusts a clock: file times serve only to notice that something differs,
//! and steps, not times, say which checkpoint is newer.
//!
//! The directory is written by others and may hold anything: links that lead elsewhere, a million
//! entries, names that are not text. The work of one scan is bounded, nothing outside the
//! directory is looked at, and whatever was left out is said in [`CheckpointScan::problem`].

mod candidate;
mod deep_speed;
mod distributed;
mod generic;
mod hugging_face;
mod intact;
mod layout;
mod learned;
mod lightning;
mod megatron;
mod mend;
mod orbax;
mod quarantine;
mod remote;
mod rename;
mod surroundings;
#[cfg(test)]
mod tests;
mod trainer_state;
mod walk;
pub(crate) mod watch;
mod writers;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sluice_core::checkpoint::{
    COMPLETE_MAX, CheckpointFormat, CheckpointRules, CheckpointScan, INCOMPLETE_MAX, ScanProblem,
};

use self::candidate::{Candidate, Found, Memory, Outcome};
use self::layout::{Layout, Name};
use self::learned::{Compared, Learned};
#[cfg(test)]
pub(crate) use self::quarantine::QuarantineError;
use self::remote::Remote;
use self::surroundings::Surroundings;
use self::walk::FileId;
pub(crate) use self::writers::WrittenFiles;

/// How much work one scan does at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    /// Entries of the checkpoint directory.
    entries: u32,
    /// Files and directories in one checkpoint.
    files_per_checkpoint: u32,
    /// Files in all checkpoints together, compared before each checkpoint.
    files_per_scan: u32,
}

/// A training run's output directory has tens of entries; reading 20,000 takes some 10 ms, which is
/// what a directory may cost each second. A sharded save of 1,024 ranks writes some 3 files per
/// rank, so 16,384 leaves room for 5 times that. 131,072 is 32 such checkpoints with 4 files per
/// rank, which are looked at on the first two scans only; it takes some 200 ms.
const LIMITS: Limits =
    Limits { entries: 20_000, files_per_checkpoint: 16_384, files_per_scan: 131_072 };

/// For how long files have to be seen unchanged. Less than the period of scans, so it costs no time
/// in a drain; it is there for scans that events make follow each other at once. The pause between
/// the files of one save is a few ms; a longer one is covered by what else has to be there.
const SETTLE: Duration = Duration::from_millis(500);

/// Watches the checkpoint directory of one worker group.
#[derive(Debug)]
pub(crate) struct CheckpointWatcher {
    directory: PathBuf,
    format: CheckpointFormat,
    rules: CheckpointRules,
    world_size: u32,
    /// Layout of the last scan. What was recognised stays.
    layout: Option<Layout>,
    /// What is remembered of each checkpoint, by name.
    memory: BTreeMap<OsString, Memory>,
    /// Entries seen under a temporary name by the last scan that saw any.
    temporary: BTreeSet<FileId>,
    learned: Learned,
    /// The second look, where one was declared.
    remote: Option<Remote>,
    limits: Limits,
    settle: Duration,
    /// When it was first known what lies in the directory, or that it does not exist.
    first_scan_at: Option<Instant>,
    /// When the latest scan began that could tell.
    last_scan_at: Option<Instant>,
    /// Whether the latest scan knew of every writer.
    was_certain: bool,
    /// Scans so far. Picks which old checkpoint is looked at anew.
    scans: u64,
}

impl CheckpointWatcher {
    /// Watches `directory`, which need not exist yet, for checkpoints of `world_size` ranks.
    ///
    /// Nothing is touched before the first [`Self::scan`].
    pub(crate) fn open(
        directory: impl Into<PathBuf>,
        format: CheckpointFormat,
        rules: &CheckpointRules,
        world_size: u32,
    ) -> Self {
        Self {
            directory: directory.into(),
            format,
            rules: rules.clone(),
            world_size: world_size.max(1),
            layout: None,
            memory: BTreeMap::new(),
            temporary: BTreeSet::new(),
            learned: Learned::new(Compared::Files, world_size.max(1)),
            remote: Remote::open(format, rules, world_size),
            limits: LIMITS,
            settle: SETTLE,
            first_scan_at: None,
            last_scan_at: None,
            was_certain: false,
            scans: 0,
        }
    }

    /// The directory watched.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether what lay in the directory at the first scan has had the time to be seen at rest.
    ///
    /// Until then, old checkpoints are still missing from the scans. Who takes a checkpoint that
    /// appears for a new one has to wait for this before believing any scan.
    pub(crate) fn is_settled(&self) -> bool {
        let (Some(first), Some(last)) = (self.first_scan_at, self.last_scan_at) else {
            return false;
        };
        let is_long_enough = last.saturating_duration_since(first) >= self.settle;
        let is_here = self.scans >= 2 && (self.was_certain || is_long_enough);
        is_here && self.remote.as_ref().is_none_or(Remote::is_settled)
    }

    /// Looks at the directory and says which checkpoints are complete. `written` is what the
    /// processes of the worker have open for writing, taken just before.
    ///
    /// Blocks on the file system: call it where that does no harm. A checkpoint is complete at
    /// the earliest at the second scan that finds it unchanged, [`SETTLE`] after the first; at once
    /// if it was seen being renamed into place, or if what is written last is there and every writer
    /// is known.
    pub(crate) fn scan(&mut self, written: &WrittenFiles) -> CheckpointScan {
        let now = Instant::now();
        self.was_certain = written.is_certain() && self.layout.is_some_and(Layout::is_sealed);
        let root = match self.open_directory() {
            Ok(root) => root,
            Err(problem) => {
                if matches!(problem, ScanProblem::Missing { .. }) {
                    self.note_scan(now);
                }
                return CheckpointScan { problem: Some(problem), ..CheckpointScan::default() };
            }
        };
        let (names, more) = match walk::names(&root, self.limits.entries) {
            Ok(names) => names,
            Err(errno) => {
                let problem = Some(self.unreadable(errno));
                return CheckpointScan { problem, ..CheckpointScan::default() };
            }
        };
        if let Err(problem) = self.find_layout(&root, &names) {
            return CheckpointScan { problem: Some(problem), ..CheckpointScan::default() };
        }
        let layout = self.layout.unwrap_or(Layout::Rename);
        let surroundings = Surroundings::look(layout, &root, &names, &self.rules);
        let (finals, temporaries) = self.candidates(names);
        let due = self.due();
        let mut found = Vec::new();
        let (mut files, mut is_cut) = (0, false);
        for candidate in finals.iter().chain(&temporaries) {
            if files >= self.limits.files_per_scan {
                is_cut = true;
                break;
            }
            let memory = self.memory.get(&candidate.name);
            let memory = memory.filter(|_| !due.contains(&candidate.name));
            let files_max = self.limits.files_per_checkpoint;
            let Some(looked_at) = candidate.look(&root, memory, files_max) else { continue };
            files = files.saturating_add(looked_at.files_walked());
            if !(layout.only_directories() && looked_at.is_no_directory()) {
                found.push(looked_at);
            }
        }
        let mut scan = self.judge_all(&root, found, &surroundings, written, now);
        if let Some(remote) = &mut self.remote {
            remote.confirm(&mut scan);
        }
        if more || is_cut {
            let limit = if more { self.limits.entries } else { self.limits.files_per_scan };
            scan.problem = Some(ScanProblem::TooManyEntries { path: self.path(), limit });
        }
        self.note_scan(now);
        scan
    }

    /// Bytes an unprivileged process can still write where checkpoints go; of the nearest existing
    /// directory above while the checkpoint directory does not exist.
    ///
    /// # Errors
    /// What the operating system said.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        for directory in self.directory.ancestors() {
            // A relative path ends in an empty ancestor, which means the current directory.
            let is_here = directory.as_os_str().is_empty();
            match rustix::fs::statvfs(if is_here { Path::new(".") } else { directory }) {
                Ok(stat) => return Ok(stat.f_bavail.saturating_mul(stat.f_frsize)),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(Errno::NOENT.into())
    }

    fn note_scan(&mut self, now: Instant) {
        self.first_scan_at.get_or_insert(now);
        self.last_scan_at = Some(now);
        self.scans = self.scans.wrapping_add(1);
    }

    /// The directory itself may be reached through links: it was declared by its owner.
    fn open_directory(&self) -> Result<OwnedFd, ScanProblem> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::open(&self.directory, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT => ScanProblem::Missing { path: self.path() },
            Errno::NOTDIR => ScanProblem::NotADirectory { path: self.path() },
            other => self.unreadable(other),
        })
    }

    /// # Errors
    /// [`ScanProblem::Ambiguous`].
    fn find_layout(&mut self, root: &OwnedFd, names: &[OsString]) -> Result<(), ScanProblem> {
        if self.layout.is_some_and(|layout| layout != Layout::Rename) {
            return Ok(());
        }
        let layout = match Layout::of(self.format) {
            Some(layout) => layout,
            None => layout::find(root, names).map_err(|layout::Ambiguous(formats)| {
                ScanProblem::Ambiguous { path: self.path(), formats }
            })?,
        };
        if self.layout.replace(layout) != Some(layout) {
            // What was concluded under another layout does not hold under this one.
            self.memory.clear();
            self.learned = Learned::new(layout.compared(), self.world_size);
        }
        Ok(())
    }

    /// The newest checkpoints by step, and the newest temporary entries, both descending.
    fn candidates(&self, names: Vec<OsString>) -> (Vec<Candidate>, Vec<Candidate>) {
        let layout = self.layout.unwrap_or(Layout::Rename);
        let (mut finals, mut temporaries) = (Vec::new(), Vec::new());
        for name in names {
            match layout.classify(&name, &self.rules) {
                Name::Final { step } => {
                    finals.push(Candidate { step: Some(step), name, is_temporary: false });
                }
                Name::Temporary { step } => {
                    temporaries.push(Candidate { step, name, is_temporary: true });
                }
                Name::Other => {}
            }
        }
        finals.sort_unstable_by(|left, right| right.cmp(left));
        finals.truncate(COMPLETE_MAX + INCOMPLETE_MAX);
        temporaries.sort_unstable_by(|left, right| right.cmp(left));
        temporaries.truncate(INCOMPLETE_MAX);
        (finals, temporaries)
    }

    /// The complete checkpoints that are walked even though they show no change: the newest, which
    /// matters, and in turn one of the others. A change deeper down does not show at the top.
    fn due(&self) -> Vec<OsString> {
        let accepted = self.memory.iter().filter(|(_, memory)| memory.is_accepted());
        let accepted: Vec<(&OsString, &Memory)> = accepted.collect();
        let newest = accepted.iter().max_by_key(|(name, memory)| (memory.step(), *name));
        let count = u64::try_from(accepted.len()).unwrap_or(u64::MAX).max(1);
        let turn = usize::try_from(self.scans % count).unwrap_or(0);
        let due = newest.into_iter().chain(accepted.get(turn));
        due.map(|(name, _)| (*name).clone()).collect()
    }

    /// Judges from the oldest to the newest, so that each is compared with what is known by then.
    fn judge_all(
        &mut self,
        root: &OwnedFd,
        found: Vec<Found>,
        surroundings: &Surroundings,
        written: &WrittenFiles,
        now: Instant,
    ) -> CheckpointScan {
        let mut scan = CheckpointScan::default();
        let mut memory = BTreeMap::new();
        let surroundings_id = surroundings.fingerprint();
        let temporary: BTreeSet<FileId> = found.iter().filter_map(Found::temporary_id).collect();
        for found in found.into_iter().rev() {
            let before = self.memory.get(found.name());
            let is_renamed = found.id().is_some_and(|id| self.temporary.contains(&id));
            let context = candidate::Context {
                root,
                directory: &self.directory,
                layout: self.layout.unwrap_or(Layout::Rename),
                world_size: self.world_size,
                surroundings,
                surroundings_id,
                declared: &self.rules,
                written,
                now,
                settle: self.settle,
                is_first_scan: self.first_scan_at.is_none(),
                is_renamed,
            };
            let name = found.name().to_owned();
            let (outcome, now) = found.judge(&context, before, &mut self.learned);
            memory.extend(now.map(|now| (name, now)));
            match outcome {
                Outcome::Complete(checkpoint) => scan.complete.push(checkpoint),
                Outcome::Incomplete(incomplete) => scan.incomplete.push(incomplete),
            }
        }
        self.memory = memory;
        self.temporary = temporary;
        scan.complete
            .sort_by(|left, right| (right.step, &right.path).cmp(&(left.step, &left.path)));
        scan.incomplete
            .sort_by(|left, right| (right.step, &right.path).cmp(&(left.step, &left.path)));
        scan.saving = scan.incomplete.iter().any(|incomplete| incomplete.saving);
        scan.complete.truncate(COMPLETE_MAX);
        scan.incomplete.truncate(INCOMPLETE_MAX);
        scan
    }

    fn path(&self) -> String {
        self.directory.to_string_lossy().into_owned()
    }

    fn unreadable(&self, errno: Errno) -> ScanProblem {
        ScanProblem::Unreadable { path: self.path(), detail: io::Error::from(errno).to_string() }
    }
}

/// The path of `name` in `directory` as text; bytes that are not UTF-8 are replaced.
fn shown(directory: &Path, name: &OsStr) -> String {
    directory.join(name).to_string_lossy().into_owned()
}
