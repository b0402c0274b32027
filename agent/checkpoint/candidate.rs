//! One entry that may be a checkpoint: what is there, and whether it counts.
//!
//! ```text
//! first seen ──unchanged for a while────────▶ at rest ──rules of the layout met──▶ complete
//!     ▲                                         │
//!     └──────────────── changed ◀───────────────┘      seen being renamed into place: at rest
//! ```

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use sluice_core::checkpoint::{Checkpoint, CheckpointRules, Grade, Incomplete, IncompleteReason};

use super::layout::{Layout, Look, Sealed};
use super::learned::Learned;
use super::shown;
use super::surroundings::Surroundings;
use super::walk::{self, Entry, FileId, Kind, Manifest};
use super::writers::WrittenFiles;

/// A name to look at. Ordered by step, then name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    pub(crate) step: Option<u64>,
    pub(crate) name: OsString,
    pub(crate) is_temporary: bool,
}

/// What one scan keeps for the next about one entry.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    entry: Entry,
    /// Of all files below; see [`Manifest::fingerprint`].
    fingerprint: u64,
    bytes: u64,
    files: u32,
    /// When these very files were first seen.
    since: Instant,
    /// It was seen under a temporary name before, so it appeared in one piece.
    is_renamed: bool,
    /// What the rules of the layout say about these very files, with what lay beside them.
    rules: Result<Sealed, IncompleteReason>,
    /// Of what lay beside them; see [`Surroundings::fingerprint`].
    surroundings: u64,
    /// Set once it was complete and as long as it did not change.
    accepted: Option<Checkpoint>,
}

impl Memory {
    pub(crate) fn is_accepted(&self) -> bool {
        self.accepted.is_some()
    }

    /// Whether these are the files remembered, unchanged for at least `settle`.
    pub(crate) fn is_at_rest(&self, id: FileId, manifest: &Manifest, settle: Duration) -> bool {
        self.entry.id == id
            && self.fingerprint == manifest.fingerprint()
            && self.since.elapsed() >= settle
    }

    /// Whether the rules of the layout found nothing missing.
    pub(crate) fn meets_rules(&self) -> bool {
        self.rules.is_ok()
    }

    /// The step of the complete checkpoint.
    pub(crate) fn step(&self) -> Option<u64> {
        self.accepted.as_ref().map(|checkpoint| checkpoint.step)
    }
}

/// What is there under a name.
#[derive(Debug)]
pub(crate) struct Found {
    candidate: Candidate,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// A complete checkpoint that shows no change: not walked.
    Unchanged(Entry),
    Walked(Entry, Manifest),
    /// It cannot be a checkpoint, or not be read.
    Refused(Option<Entry>, IncompleteReason),
}

/// Whether an entry counts.
#[derive(Debug)]
pub(crate) enum Outcome {
    Complete(Checkpoint),
    Incomplete(Incomplete),
}

/// What judging needs to know besides the entry itself.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) root: &'a OwnedFd,
    pub(crate) directory: &'a Path,
    pub(crate) layout: Layout,
    pub(crate) world_size: u32,
    pub(crate) surroundings: &'a Surroundings,
    /// The fingerprint of those.
    pub(crate) surroundings_id: u64,
    pub(crate) declared: &'a CheckpointRules,
    pub(crate) written: &'a WrittenFiles,
    /// When the scan began.
    pub(crate) now: Instant,
    /// For how long files have to be seen unchanged.
    pub(crate) settle: Duration,
    /// Nothing is known of what was there before.
    pub(crate) is_first_scan: bool,
    /// The scan before saw this very file or directory under a temporary name.
    pub(crate) is_renamed: bool,
}

impl Candidate {
    /// What is there now; `None` when it has gone. With `memory` of a complete checkpoint, its
    /// files are left alone as long as the entry itself shows no change.
    pub(crate) fn look(
        &self,
        root: &OwnedFd,
        memory: Option<&Memory>,
        files_max: u32,
    ) -> Option<Found> {
        let found = |content| Some(Found { candidate: self.clone(), content });
        let entry = match walk::look(root, &self.name) {
            Ok(entry) => entry,
            Err(Errno::NOENT) => return None,
            Err(errno) => {
                return found(Content::Refused(None, walk::unreadable(&self.name, errno)));
            }
        };
        if memory.is_some_and(|memory| memory.is_accepted() && memory.entry == entry) {
            return found(Content::Unchanged(entry));
        }
        let file = || walk::text(&self.name);
        match entry.kind {
            Kind::Regular => found(Content::Walked(entry, Manifest::of_file(entry))),
            Kind::Directory => match walk::walk(root, &self.name, files_max) {
                Ok(manifest) => found(Content::Walked(entry, manifest)),
                Err(reason) => found(Content::Refused(Some(entry), reason)),
            },
            Kind::SymbolicLink => found(Content::Refused(
                Some(entry),
                IncompleteReason::SymbolicLink { file: file() },
            )),
            Kind::Special => {
                found(Content::Refused(Some(entry), IncompleteReason::SpecialFile { file: file() }))
            }
        }
    }
}

impl Found {
    pub(crate) fn name(&self) -> &OsStr {
        &self.candidate.name
    }

    /// Whether it is a file, pipe or link, not a directory.
    pub(crate) fn is_no_directory(&self) -> bool {
        match &self.content {
            Content::Unchanged(entry) | Content::Walked(entry, _) => entry.kind != Kind::Directory,
            Content::Refused(entry, _) => entry.is_some_and(|entry| entry.kind == Kind::Regular),
        }
    }

    /// The identity of what is there, where it could be seen.
    pub(crate) fn id(&self) -> Option<FileId> {
        match &self.content {
            Content::Unchanged(entry) | Content::Walked(entry, _) => Some(entry.id),
            Content::Refused(entry, _) => entry.map(|entry| entry.id),
        }
    }

    /// The identity of an entry under a temporary name.
    pub(crate) fn temporary_id(&self) -> Option<FileId> {
        self.id().filter(|_| self.candidate.is_temporary)
    }

    /// How many files were looked at. What was refused may have cost as much as allowed.
    pub(crate) fn files_walked(&self) -> u32 {
        match &self.content {
            Content::Unchanged(_) => 1,
            Content::Walked(_, manifest) => u32::try_from(manifest.files.len()).unwrap_or(u32::MAX),
            Content::Refused(_, IncompleteReason::TooManyFiles { limit }) => *limit,
            Content::Refused(..) => 1,
        }
    }

    /// Whether it counts, and what to remember of it.
    pub(crate) fn judge(
        self,
        context: &Context<'_>,
        before: Option<&Memory>,
        learned: &mut Learned,
    ) -> (Outcome, Option<Memory>) {
        let path = shown(context.directory, &self.candidate.name);
        let step = self.candidate.step;
        match self.content {
            Content::Unchanged(_) => {
                let memory = before.expect("only what is remembered is left alone").clone();
                let accepted = memory.accepted.clone();
                let checkpoint = accepted.expect("only a complete checkpoint is left alone");
                (Outcome::Complete(checkpoint), Some(memory))
            }
            Content::Refused(_, reason) => {
                let refused = Incomplete { path, step, bytes: 0, files: 0, saving: false, reason };
                (Outcome::Incomplete(refused), None)
            }
            Content::Walked(entry, manifest) => {
                let walked = Walked { candidate: self.candidate, path, entry, manifest };
                walked.judge(context, before, learned)
            }
        }
    }
}

/// An entry with all its files.
#[derive(Debug)]
struct Walked {
    candidate: Candidate,
    path: String,
    entry: Entry,
    manifest: Manifest,
}

impl Walked {
    fn judge(
        self,
        context: &Context<'_>,
        before: Option<&Memory>,
        learned: &mut Learned,
    ) -> (Outcome, Option<Memory>) {
        // A directory that took another's place under the same name is a new one.
        let before = before.filter(|before| before.entry.id == self.entry.id);
        let fingerprint = self.manifest.fingerprint();
        let unchanged = before.filter(|before| before.fingerprint == fingerprint);
        let is_renamed = context.layout != Layout::HuggingFace
            && (context.is_renamed || before.is_some_and(|before| before.is_renamed));
        // What was complete stays so while it does not change, also when what named it is being rewritten.
        let judged = unchanged.filter(|before| {
            before.is_accepted() || before.surroundings == context.surroundings_id
        });
        let rules = match judged {
            Some(judged) => judged.rules.clone(),
            None => self.rules(context, is_renamed),
        };
        let open = context.written.first_in(&self.manifest);
        let is_saving = open.is_some() || self.is_growing(context, before, unchanged.is_some());
        let verdict = rules.clone().and_then(|sealed| match open {
            Some(file) => Err(IncompleteReason::OpenForWriting { file: self.file(file) }),
            None => self
                .at_rest(context, before, unchanged, is_renamed, sealed.is_some())
                .map(|()| sealed),
        });
        let is_known = unchanged.is_some_and(Memory::is_accepted);
        // What was renamed is there in one piece, whatever it looks like.
        let is_compared = !is_known && !is_renamed;
        let verdict = verdict.and_then(|sealed| match self.candidate.step {
            Some(step) if is_compared => learned.check(step, &self.manifest).map(|()| sealed),
            Some(_) | None => Ok(sealed),
        });
        let outcome = match verdict {
            Ok(sealed) => Outcome::Complete(self.checkpoint(sealed, is_renamed)),
            Err(reason) => Outcome::Incomplete(Incomplete {
                path: self.path.clone(),
                step: self.candidate.step,
                bytes: self.manifest.bytes,
                files: self.manifest.count,
                // Logs that grow beside the checkpoints are no save.
                saving: is_saving && !matches!(reason, IncompleteReason::NotOfFormat { .. }),
                reason,
            }),
        };
        let accepted = match &outcome {
            Outcome::Complete(checkpoint) => Some(checkpoint.clone()),
            Outcome::Incomplete(_) => None,
        };
        let memory = Memory {
            entry: self.entry,
            fingerprint,
            bytes: self.manifest.bytes,
            files: self.manifest.count,
            since: unchanged.map_or(context.now, |unchanged| unchanged.since),
            is_renamed,
            rules,
            surroundings: context.surroundings_id,
            accepted,
        };
        (outcome, Some(memory))
    }

    fn rules(&self, context: &Context<'_>, is_renamed: bool) -> Result<Sealed, IncompleteReason> {
        let name = &self.candidate.name;
        let step = match self.candidate.step {
            Some(step) if !self.candidate.is_temporary => step,
            Some(_) | None => {
                return Err(IncompleteReason::TemporaryName { file: walk::text(name) });
            }
        };
        let look = Look {
            layout: context.layout,
            root: context.root,
            name,
            manifest: &self.manifest,
            step,
            world_size: context.world_size,
            is_renamed,
            surroundings: context.surroundings,
            declared: context.declared,
        };
        look.judge()
    }

    /// Whether it changed or appeared since the scan before, other than by losing something:
    /// trainers delete old checkpoints while they save new ones.
    fn is_growing(
        &self,
        context: &Context<'_>,
        before: Option<&Memory>,
        is_unchanged: bool,
    ) -> bool {
        match before {
            Some(before) => {
                let is_less =
                    self.manifest.bytes < before.bytes || self.manifest.count < before.files;
                !is_unchanged && !is_less
            }
            None => !context.is_first_scan,
        }
    }

    /// Scans may follow each other within a millisecond, woken by the writes of a save. So two
    /// that agree show rest only if enough time passed between them.
    fn at_rest(
        &self,
        context: &Context<'_>,
        before: Option<&Memory>,
        unchanged: Option<&Memory>,
        is_renamed: bool,
        is_sealed: bool,
    ) -> Result<(), IncompleteReason> {
        if let Some(unchanged) = unchanged {
            let rest = context.now.saturating_duration_since(unchanged.since);
            let is_known = unchanged.is_accepted() || is_renamed;
            // Everything is there, the file written last among it, and between two looks that agree
            // nobody here had any of it open: no pause can be one between two writes. A rank on
            // another node is seen there.
            let is_closed = is_sealed && context.written.is_certain();
            let is_at_rest = is_known || is_closed || rest >= context.settle;
            return is_at_rest.then_some(()).ok_or(IncompleteReason::NotAtRest);
        }
        match before {
            Some(before) => Err(IncompleteReason::Growing {
                bytes: self.manifest.bytes,
                bytes_before: before.bytes,
            }),
            None if is_renamed => Ok(()),
            None => Err(IncompleteReason::NotAtRest),
        }
    }

    fn checkpoint(&self, sealed: Sealed, is_renamed: bool) -> Checkpoint {
        let appeared = if is_renamed { "renamed" } else { "size-stable" };
        Checkpoint {
            step: self.candidate.step.expect("only a final name, which has a step, is complete"),
            path: self.path.clone(),
            bytes: self.manifest.bytes,
            files: self.manifest.count,
            marker: sealed.unwrap_or_else(|| appeared.to_owned()),
            grade: Grade::LocalComplete,
        }
    }

    /// A path within the checkpoint; that of a checkpoint which is one file is its name.
    fn file(&self, path: String) -> String {
        if path.is_empty() { walk::text(&self.candidate.name) } else { path }
    }
}
