//! What a worker that cooperates says in its files: plain values, no file is touched here.
//!
//! The agent writes `drain.json`; each process of the worker writes `hello.R.json` when it starts and `ack.R.json` when
//! it saves, has saved, has failed or goes on. What it says is evidence that it works on a save, never that the save
//! is complete: that is looked for from outside.

use std::collections::BTreeMap;
use std::fmt;

use crate::id::DrainId;

/// Most processes of one worker whose files are read. The largest hosts have 16 devices; a process per device and as
/// many again is ample, and a worker that writes more files costs no more.
pub const CLIENT_RANKS_MAX: usize = 64;

/// What the agent asks for in `drain.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientOrder {
    /// Save at the next step boundary and park.
    Save,
    /// Go on.
    Continue,
}

impl ClientOrder {
    /// The word in the file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Save => "save",
            Self::Continue => "continue",
        }
    }
}

/// How far a process says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientPhase {
    /// It is about to write.
    Saving,
    /// It has written and parks.
    Saved,
    /// It could not write.
    Failed,
    /// It goes on after having been asked to.
    Resumed,
}

impl ClientPhase {
    /// All phases, in order.
    pub const ALL: [Self; 4] = [Self::Saving, Self::Saved, Self::Failed, Self::Resumed];

    /// The word in the file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Saving => "saving",
            Self::Saved => "saved",
            Self::Failed => "failed",
            Self::Resumed => "resumed",
        }
    }
}

/// The last word of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// The drain that it is about.
    pub drain: DrainId,
    /// How far it is.
    pub phase: ClientPhase,
    /// The step it speaks of.
    pub step: Option<u64>,
    /// Why it failed, in its own words; empty otherwise.
    pub detail: String,
}

/// Why a file of a worker was not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientProblem {
    /// More than 64 KiB.
    TooLarge,
    /// A link, a pipe, a directory: not a regular file.
    NotAFile,
    /// Not JSON, or not the fields that belong there.
    Malformed,
    /// Its name and what it says do not agree, or the rank is beyond the bound.
    WrongRank,
    /// More entries in the directory than are looked at.
    TooManyFiles,
    /// The system does not let the agent read it.
    Unreadable,
}

impl ClientProblem {
    /// All problems, in order.
    pub const ALL: [Self; 6] = [
        Self::TooLarge,
        Self::NotAFile,
        Self::Malformed,
        Self::WrongRank,
        Self::TooManyFiles,
        Self::Unreadable,
    ];

    /// Stable code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::TooLarge => "client-file-too-large",
            Self::NotAFile => "client-file-not-regular",
            Self::Malformed => "client-file-malformed",
            Self::WrongRank => "client-file-wrong-rank",
            Self::TooManyFiles => "client-too-many-files",
            Self::Unreadable => "client-file-unreadable",
        }
    }
}

impl fmt::Display for ClientProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "a file of the worker is larger than 64 KiB",
            Self::NotAFile => "a file of the worker is no regular file; links are not followed",
            Self::Malformed => "a file of the worker is not the JSON that belongs there",
            Self::WrongRank => "a file of the worker has the name of another rank than its own",
            Self::TooManyFiles => "the worker has put more files there than are looked at",
            Self::Unreadable => "a file of the worker cannot be read",
        })
    }
}

/// What one look at a worker's files found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientSeen {
    /// Processes that have said hello, with their last word; at most [`CLIENT_RANKS_MAX`].
    pub ranks: BTreeMap<u32, Option<Ack>>,
    /// The first thing that was not used.
    pub problem: Option<ClientProblem>,
}

impl ClientSeen {
    /// True if a process has said hello: the worker can be asked through its files.
    #[must_use]
    pub fn is_there(&self) -> bool {
        !self.ranks.is_empty()
    }

    /// The words about `drain`.
    pub fn about(&self, drain: &DrainId) -> impl Iterator<Item = (u32, &Ack)> {
        let acks = self.ranks.iter().filter_map(|(rank, ack)| Some((*rank, ack.as_ref()?)));
        acks.filter(move |(_, ack)| ack.drain == *drain)
    }

    /// True if any process works on the save that `drain` asked for, or says that it has.
    #[must_use]
    pub fn has_begun(&self, drain: &DrainId) -> bool {
        self.about(drain)
            .any(|(_, ack)| matches!(ack.phase, ClientPhase::Saving | ClientPhase::Saved))
    }

    /// True if every process says that it has saved for `drain`: then it parks, and no collective is under way.
    #[must_use]
    pub fn is_parked(&self, drain: &DrainId) -> bool {
        let saved = self.about(drain).filter(|(_, ack)| ack.phase == ClientPhase::Saved).count();
        self.is_there() && saved == self.ranks.len()
    }

    /// A process that says it could not save for `drain`.
    #[must_use]
    pub fn failed(&self, drain: &DrainId) -> Option<(u32, &Ack)> {
        self.about(drain).find(|(_, ack)| ack.phase == ClientPhase::Failed)
    }
}
