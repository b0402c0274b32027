//! The same directory seen a second time, past the cache that the worker writes into.
//!
//! A bucket mounted on the node shows a file to those who wrote it before the bucket has it. A second mount of it, or
//! the place a replicator writes to, does not. What is complete here counts only once the same name is complete there,
//! with as many files and bytes.

use std::path::Path;

use sluice_core::checkpoint::{
    Checkpoint, CheckpointFormat, CheckpointRules, CheckpointScan, Grade, Incomplete,
    IncompleteReason,
};

use super::{CheckpointWatcher, WrittenFiles};

/// The second look.
#[derive(Debug)]
pub(crate) struct Remote {
    watcher: Box<CheckpointWatcher>,
    /// The latest look there saw nothing. What comes later has arrived later.
    is_blind: bool,
}

impl Remote {
    /// `None` where none was declared.
    pub(crate) fn open(
        format: CheckpointFormat,
        rules: &CheckpointRules,
        world_size: u32,
    ) -> Option<Self> {
        let is_declared = !rules.remote_dir.is_empty();
        let here = CheckpointRules { remote_dir: String::new(), ..rules.clone() };
        is_declared.then(|| {
            let watcher = CheckpointWatcher::open(&rules.remote_dir, format, &here, world_size);
            Self { watcher: Box::new(watcher), is_blind: false }
        })
    }

    /// Whether what lay there at the first look has had the time to be seen at rest.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_blind || self.watcher.is_settled()
    }

    /// For how long files there have to be seen unchanged.
    #[cfg(test)]
    pub(crate) fn settle(&mut self, settle: std::time::Duration) {
        self.watcher.settle = settle;
    }

    /// Looks there, and takes what is not complete there out of what is complete in `scan`.
    pub(crate) fn confirm(&mut self, scan: &mut CheckpointScan) {
        // Who writes there is not known, so rest has to show that nobody does.
        let there = self.watcher.scan(&WrittenFiles::default());
        self.is_blind = there.problem.is_some();
        let newest = scan.newest().map(|checkpoint| checkpoint.path.clone());
        let mut pending = Vec::new();
        scan.complete.retain_mut(|here| match self.difference(here, &there) {
            None => {
                here.grade = Grade::RemoteVerified;
                true
            }
            Some(detail) => {
                let path = self.path_of(here);
                pending.push(Incomplete {
                    path: here.path.clone(),
                    step: Some(here.step),
                    bytes: here.bytes,
                    files: here.files,
                    // The save goes on until it has arrived. Older ones may have been removed there.
                    saving: Some(&here.path) == newest.as_ref(),
                    reason: IncompleteReason::RemotePending { path, detail },
                });
                false
            }
        });
        scan.saving |= pending.iter().any(|incomplete| incomplete.saving);
        scan.incomplete.extend(pending);
        scan.incomplete
            .sort_by(|left, right| (right.step, &right.path).cmp(&(left.step, &left.path)));
    }

    fn path_of(&self, here: &Checkpoint) -> String {
        let name = Path::new(&here.path).file_name().unwrap_or_default();
        super::shown(self.watcher.directory(), name)
    }

    /// Why `here` does not count there yet.
    fn difference(&self, here: &Checkpoint, there: &CheckpointScan) -> Option<String> {
        let path = self.path_of(here);
        if let Some(found) = there.complete.iter().find(|found| found.path == path) {
            let is_same =
                (found.step, found.bytes, found.files) == (here.step, here.bytes, here.files);
            let sizes = || {
                format!(
                    "there it has {} bytes in {} files, here {} in {}",
                    found.bytes, found.files, here.bytes, here.files
                )
            };
            return (!is_same).then(sizes);
        }
        let found = there.incomplete.iter().find(|found| found.path == path);
        let why = found.map(|found| found.reason.code().to_owned());
        let why = why.or_else(|| there.problem.as_ref().map(|problem| problem.code().to_owned()));
        Some(why.unwrap_or_else(|| "it is not there".to_owned()))
    }
}
