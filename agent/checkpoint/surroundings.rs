//! What lies beside the checkpoints and says which of them count: the file that names the newest, and marks.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use sluice_core::checkpoint::{CheckpointRules, IncompleteReason};

use super::layout::{Layout, Name};
use super::walk::{self, Kind, text};
use super::{deep_speed, lightning, megatron, orbax};

/// Most text of a tracker that is read: names of directories are shorter.
const TRACKER_BYTES_MAX: u64 = 256;

/// Most marks that are kept. There is one per save that goes on or was torn; the bound keeps rubbish from filling
/// memory.
const MARKS_MAX: usize = 1_024;

/// Newest steps that are looked into to learn whether this directory's writer leaves a commit file.
const COMMITS_LOOKED_AT_MAX: usize = 8;

/// The small file in which Megatron-LM and DeepSpeed name the checkpoint to resume from.
///
/// It is written in place, so it may be seen half-written. Half of a number is a smaller one, so a checkpoint is named
/// too late, never too early.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) enum Tracker {
    /// There is none, or none yet.
    #[default]
    Missing,
    /// It is there and cannot be understood: empty between truncation and write, or rubbish. Says why.
    Invalid(String),
    /// What it names.
    Names(String),
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Surroundings {
    pub(crate) tracker: Tracker,
    /// Names beside the checkpoints that say something about one of them.
    pub(crate) marks: BTreeSet<OsString>,
    /// Some checkpoint here was closed with a commit file, so its writer leaves one in each.
    pub(crate) commits: bool,
}

impl Surroundings {
    /// Looks at what `layout` needs to know beside the checkpoints of `directory`, which holds `names`.
    pub(crate) fn look(
        layout: Layout,
        directory: &OwnedFd,
        names: &[OsString],
        rules: &CheckpointRules,
    ) -> Self {
        let is_mark = |name: &OsStr| match layout {
            Layout::Lightning => lightning::is_mark(name),
            Layout::Generic => {
                let marker = rules.marker.as_bytes();
                !marker.is_empty() && name.as_bytes().ends_with(marker)
            }
            Layout::HuggingFace
            | Layout::TorchDistributed
            | Layout::Megatron
            | Layout::DeepSpeed
            | Layout::Orbax
            | Layout::Rename => false,
        };
        let tracker = match layout {
            Layout::Megatron => Tracker::read(directory, megatron::TRACKER, megatron::tracked),
            Layout::DeepSpeed => Tracker::read(directory, deep_speed::TRACKER, deep_speed::tracked),
            Layout::HuggingFace
            | Layout::TorchDistributed
            | Layout::Orbax
            | Layout::Lightning
            | Layout::Rename
            | Layout::Generic => Tracker::Missing,
        };
        Self {
            tracker,
            marks: names.iter().filter(|name| is_mark(name)).take(MARKS_MAX).cloned().collect(),
            commits: layout == Layout::Orbax && has_commit(directory, names, rules),
        }
    }

    /// A number that differs when anything here differs.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

impl Tracker {
    /// The file `name` in `directory`. `tracked` says which entry its text names, if one.
    fn read(
        directory: &OwnedFd,
        name: &str,
        tracked: fn(&str) -> Result<Option<String>, String>,
    ) -> Self {
        match walk::look(directory, OsStr::new(name)) {
            Err(Errno::NOENT) => return Self::Missing,
            Err(errno) => return Self::Invalid(std::io::Error::from(errno).to_string()),
            Ok(entry) if entry.kind != Kind::Regular => {
                return Self::Invalid("it is no regular file".to_owned());
            }
            Ok(entry) if entry.stamp.bytes > TRACKER_BYTES_MAX => {
                let bytes = entry.stamp.bytes;
                return Self::Invalid(format!(
                    "it has {bytes} bytes, {TRACKER_BYTES_MAX} at most are read"
                ));
            }
            Ok(_) => {}
        }
        let file = match walk::open_file(directory, OsStr::new(name)) {
            Ok(file) => file,
            Err(reason) => return Self::Invalid(reason.code().to_owned()),
        };
        let mut content = String::new();
        if let Err(error) = file.take(TRACKER_BYTES_MAX).read_to_string(&mut content) {
            return Self::Invalid(error.to_string());
        }
        let content = content.trim();
        if content.is_empty() {
            return Self::Invalid("it is empty".to_owned());
        }
        match tracked(content) {
            Ok(Some(entry)) if walk::look(directory, OsStr::new(&entry)).is_err() => {
                Self::Invalid(format!("it names {entry:?}, which is not there"))
            }
            Ok(_) => Self::Names(content.to_owned()),
            Err(why) => Self::Invalid(why),
        }
    }

    /// What the tracker, whose name is `marker`, says about the checkpoint of `step`; `step_of` is the step in what it
    /// names. One that it has passed over was complete when it went on.
    ///
    /// # Errors
    /// It is missing, cannot be understood, or names an earlier one.
    pub(crate) fn check(
        &self,
        marker: &str,
        step: u64,
        step_of: impl Fn(&str) -> Option<u64>,
    ) -> Result<(), IncompleteReason> {
        let marker = marker.to_owned();
        match self {
            Self::Missing => Err(IncompleteReason::MarkerMissing { marker }),
            Self::Invalid(detail) => {
                Err(IncompleteReason::MarkerInvalid { marker, detail: detail.clone() })
            }
            Self::Names(named) if step_of(named).is_some_and(|named| named >= step) => Ok(()),
            Self::Names(named) => Err(IncompleteReason::NotNamed { marker, named: named.clone() }),
        }
    }
}

/// Whether one of the newest steps holds a commit file.
fn has_commit(directory: &OwnedFd, names: &[OsString], rules: &CheckpointRules) -> bool {
    let steps = names.iter().filter_map(|name| match Layout::Orbax.classify(name, rules) {
        Name::Final { step } => Some((step, name)),
        Name::Temporary { .. } | Name::Other => None,
    });
    let mut steps: Vec<(u64, &OsString)> = steps.collect();
    steps.sort_unstable_by(|left, right| right.cmp(left));
    steps.iter().take(COMMITS_LOOKED_AT_MAX).any(|(_, name)| {
        let step = walk::open_directory(directory, name);
        step.is_ok_and(|step| walk::look(&step, OsStr::new(orbax::COMMIT)).is_ok())
    })
}

/// The reason that a mark gives.
pub(crate) fn unfinished(mark: &OsStr) -> IncompleteReason {
    IncompleteReason::Unfinished { marker: text(mark) }
}
