//! Names a checkpoint again where the file that should do so was torn.
//!
//! Megatron-LM and DeepSpeed write in place which checkpoint to resume from. A trainer that is killed between emptying
//! that file and writing it does not start again, or starts from nothing. The file is emptied after all shards are
//! there, so what it was about to name is whole. Opt-in, as putting torn checkpoints aside is.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, fchmod, openat, renameat, statat, unlinkat};
use sluice_core::checkpoint::IncompleteReason;

use super::layout::{Layout, Look, Name};
use super::learned::Learned;
use super::surroundings::{Surroundings, Tracker};
use super::walk::{self, Kind};
use super::{CheckpointWatcher, megatron, shown};

/// Newest checkpoints that are tried. More torn ones in a row have a cause that this does not cure.
const TRIED_MAX: usize = 8;

impl CheckpointWatcher {
    /// Writes the tracker anew if it cannot be understood: it names the newest checkpoint that has all files. To be
    /// called after a scan, when no worker lives. Returns its path and the step, or `None` where nothing was to do.
    ///
    /// # Errors
    /// What the operating system said; the tracker is as it was then.
    pub(crate) fn mend_tracker(&self) -> io::Result<Option<(String, u64)>> {
        let Some((layout, tracker)) = self.layout.and_then(|l| Some((l, l.tracker()?))) else {
            return Ok(None);
        };
        let root =
            self.open_directory().map_err(|problem| io::Error::other(problem.to_string()))?;
        let (names, _) = walk::names(&root, self.limits.entries)?;
        let surroundings = Surroundings::look(layout, &root, &names, &self.rules);
        let is_file = walk::look(&root, OsStr::new(tracker)).is_ok_and(|e| e.kind == Kind::Regular);
        if !is_file || !matches!(surroundings.tracker, Tracker::Invalid(_)) {
            return Ok(None);
        }
        let steps = names.iter().filter_map(|name| match layout.classify(name, &self.rules) {
            Name::Final { step } => Some((step, name.as_os_str())),
            Name::Temporary { .. } | Name::Other => None,
        });
        let mut steps: Vec<(u64, &OsStr)> = steps.collect();
        steps.sort_unstable();
        let oldest = steps.len().saturating_sub(TRIED_MAX);
        let mut learned = Learned::new(layout.compared(), self.world_size);
        let mut whole = None;
        for (step, name) in &steps[oldest..] {
            let look = |manifest: &walk::Manifest| {
                let look = Look {
                    layout,
                    root: &root,
                    name,
                    manifest,
                    step: *step,
                    world_size: self.world_size,
                    is_renamed: false,
                    surroundings: &surroundings,
                    declared: &self.rules,
                };
                look.judge_files()
            };
            let manifest = walk::walk(&root, name, self.limits.files_per_checkpoint);
            let verdict: Result<(), IncompleteReason> = manifest.and_then(|manifest| {
                look(&manifest)?;
                learned.check(*step, &manifest)
            });
            if verdict.is_ok() {
                whole = Some((*step, *name));
            }
        }
        let Some((step, name)) = whole else { return Ok(None) };
        write(&root, tracker, text(layout, step, name).as_bytes())?;
        Ok(Some((shown(self.directory(), OsStr::new(tracker)), step)))
    }
}

/// What the tracker of `layout` says to name a checkpoint.
fn text(layout: Layout, step: u64, name: &OsStr) -> String {
    match layout {
        Layout::Megatron => megatron::tracker_for(step),
        Layout::HuggingFace
        | Layout::TorchDistributed
        | Layout::DeepSpeed
        | Layout::Orbax
        | Layout::Lightning
        | Layout::Rename
        | Layout::Generic => walk::text(name),
    }
}

/// Puts a new file in the place of `name` in one step, with its owner and mode: the trainer writes it again. Durable on
/// return.
fn write(root: &OwnedFd, name: &str, content: &[u8]) -> io::Result<()> {
    let new = format!(".{name}.sluice-new");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    // Left by an agent that was killed here.
    let _absent = unlinkat(root, new.as_str(), AtFlags::empty());
    let mut file = File::from(openat(root, new.as_str(), flags, mode)?);
    let old = statat(root, name, AtFlags::SYMLINK_NOFOLLOW)?;
    fchmod(&file, Mode::from_raw_mode(old.st_mode))?;
    std::os::unix::fs::fchown(&file, Some(old.st_uid), Some(old.st_gid))?;
    file.write_all(content)?;
    file.sync_all()?;
    renameat(root, new.as_str(), root, name)?;
    rustix::fs::fsync(root)?;
    Ok(())
}
