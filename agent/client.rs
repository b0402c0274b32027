//! The files through which a worker can be asked to save: reads what it says, writes what it is to do.
//!
//! The directory belongs to the worker, which may be broken or hostile. So each look is bounded: so many entries, so
//! many files, so many bytes; nothing but regular files is opened for reading, no link is followed, and a file that did
//! not change is not read again. What is not used is counted by its reason and never an error of the agent.

#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, fsync, openat, renameat, unlinkat};
use rustix::io::Errno;
use sluice_core::client::{Ack, CLIENT_RANKS_MAX, ClientOrder, ClientProblem, ClientSeen};
use sluice_core::id::DrainId;

/// Largest file that is read. A word has some 200 bytes; the path in it may have 4,096.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Entries of the directory that are looked at: two files of each process, their temporary names, and room for rubbish.
const ENTRIES_MAX: usize = 1_024;
/// The file that the agent writes.
const DRAIN_FILE: &str = "drain.json";
const DRAIN_FILE_NEW: &str = ".drain.json.new";

/// The files of one worker.
#[derive(Debug)]
pub(crate) struct ClientFiles {
    dir: PathBuf,
    read: BTreeMap<Name, Known>,
    /// That it may go on, which could not be written: tried again at each look.
    unsaid: Option<DrainId>,
}

/// A file of a worker by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Hello(u32),
    Ack(u32),
}

/// A file as it was read.
#[derive(Debug)]
struct Known {
    stamp: Stamp,
    said: Result<Said, ClientProblem>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    Hello,
    Ack(Ack),
}

/// Tells one version of a file from the next. Files are renamed into place, so each has an inode of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: i64,
    changed_s: i64,
    changed_ns: u64,
}

/// One look, and what was found for the first time not to be usable.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// What the worker says.
    pub(crate) seen: ClientSeen,
    /// Each file that is newly refused.
    pub(crate) refused: Vec<ClientProblem>,
}

impl ClientFiles {
    /// Files in `dir`, which need not be there. Nothing is opened yet.
    pub(crate) fn new(dir: &str) -> Self {
        Self { dir: dir.into(), read: BTreeMap::new(), unsaid: None }
    }

    /// Looks at all files. A directory that is not there is one in which nobody has said hello.
    pub(crate) fn look(&mut self) -> Look {
        let mut look = Look::default();
        if let Some(drain) = self.unsaid.take() {
            // It waits parked for this; if it fails again it is kept for the next look.
            drop(self.tell(&drain, ClientOrder::Continue));
        }
        let Ok(dir) = open_dir(&self.dir) else {
            self.read.clear();
            return look;
        };
        let (names, are_all) = names(&dir);
        if !are_all {
            look.seen.problem = Some(ClientProblem::TooManyFiles);
        }
        self.read.retain(|name, _| names.contains(name));
        for name in names {
            let before = self.read.get(&name).map(|known| known.stamp);
            match read(&dir, name, before) {
                Ok(None) => {}
                Ok(Some(known)) => {
                    look.refused.extend(known.said.as_ref().err());
                    self.read.insert(name, known);
                }
                // Replaced or removed while it was looked at: the next look sees what came of it.
                Err(Gone) => drop(self.read.remove(&name)),
            }
        }
        self.put_together(&mut look.seen);
        look
    }

    fn put_together(&self, seen: &mut ClientSeen) {
        for (name, known) in &self.read {
            match (name, &known.said) {
                (Name::Hello(rank), Ok(Said::Hello)) => {
                    seen.ranks.insert(*rank, None);
                }
                (Name::Ack(rank), Ok(Said::Ack(ack))) => {
                    if let Some(word) = seen.ranks.get_mut(rank) {
                        *word = Some(ack.clone());
                    }
                }
                (_, Err(problem)) => {
                    seen.problem.get_or_insert(*problem);
                }
                (_, Ok(_)) => {}
            }
        }
    }

    /// Writes what the worker is to do, durably and in one piece. That it may go on is tried again at each look.
    ///
    /// # Errors
    /// The directory is gone or cannot be written.
    pub(crate) fn tell(&mut self, drain: &DrainId, order: ClientOrder) -> io::Result<()> {
        let written = self.write(drain, order);
        let is_unsaid = written.is_err() && order == ClientOrder::Continue;
        self.unsaid = is_unsaid.then(|| drain.clone());
        written
    }

    fn write(&self, drain: &DrainId, order: ClientOrder) -> io::Result<()> {
        let dir = open_dir(&self.dir)?;
        // What a killed agent left. A link is removed, not followed.
        match unlinkat(&dir, DRAIN_FILE_NEW, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file: std::fs::File =
            openat(&dir, DRAIN_FILE_NEW, flags, Mode::from_raw_mode(0o644))?.into();
        file.write_all(words::order(drain, order).as_bytes())?;
        file.sync_all()?;
        renameat(&dir, DRAIN_FILE_NEW, &dir, DRAIN_FILE)?;
        fsync(&dir)?;
        Ok(())
    }
}

/// Opens the directory itself: a link in its place is not followed.
fn open_dir(dir: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(dir, flags, Mode::empty())?)
}

/// The files that belong there, hellos first, of at most so many ranks; and whether all entries were looked at.
fn names(dir: &OwnedFd) -> (Vec<Name>, bool) {
    let Ok(entries) = Dir::read_from(dir) else { return (Vec::new(), true) };
    let (mut hellos, mut acks, mut count) = (Vec::new(), Vec::new(), 0);
    for entry in entries {
        let Ok(entry) = entry else { break };
        count += 1;
        if count > ENTRIES_MAX {
            break;
        }
        match entry.file_name().to_str().ok().and_then(name) {
            Some(hello @ Name::Hello(_)) => hellos.push(hello),
            Some(ack @ Name::Ack(_)) => acks.push(ack),
            None => {}
        }
    }
    let are_all = count <= ENTRIES_MAX && hellos.len() <= CLIENT_RANKS_MAX;
    hellos.sort_unstable();
    hellos.truncate(CLIENT_RANKS_MAX);
    // A word of somebody who has not said hello is not listened to.
    acks.retain(|ack| matches!(ack, Name::Ack(rank) if hellos.contains(&Name::Hello(*rank))));
    acks.sort_unstable();
    hellos.extend(acks);
    (hellos, are_all)
}

/// `hello.R.json` or `ack.R.json`, R as numbers are usually written.
fn name(text: &str) -> Option<Name> {
    let rank = |text: &str| {
        let rank: u32 = text.parse().ok()?;
        (rank.to_string() == text).then_some(rank)
    };
    let stem = text.strip_suffix(".json")?;
    let hello = || stem.strip_prefix("hello.").and_then(rank).map(Name::Hello);
    let ack = || stem.strip_prefix("ack.").and_then(rank).map(Name::Ack);
    hello().or_else(ack)
}

/// The file is not there any more.
struct Gone;

/// Reads a file; `None` if it is as it was `before`.
fn read(dir: &OwnedFd, name: Name, before: Option<Stamp>) -> Result<Option<Known>, Gone> {
    let file = match name {
        Name::Hello(rank) => format!("hello.{rank}.json"),
        Name::Ack(rank) => format!("ack.{rank}.json"),
    };
    // A pipe would block without NONBLOCK.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match openat(dir, &file, flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::NOENT) => return Err(Gone),
        Err(errno) => return Ok(unopened(errno, before)),
    };
    let Ok(stat) = fstat(&opened) else { return Err(Gone) };
    let stamp = Stamp {
        inode: stat.st_ino,
        bytes: stat.st_size,
        changed_s: stat.st_ctime,
        changed_ns: stat.st_ctime_nsec,
    };
    if before == Some(stamp) {
        return Ok(None);
    }
    let said = if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        contents(opened).and_then(|bytes| parse(name, &bytes))
    } else {
        Err(ClientProblem::NotAFile)
    };
    Ok(Some(Known { stamp, said }))
}

/// What cannot be opened is told once.
fn unopened(errno: Errno, before: Option<Stamp>) -> Option<Known> {
    let problem = match errno {
        // A link; a socket.
        Errno::LOOP | Errno::NXIO => ClientProblem::NotAFile,
        _ => ClientProblem::Unreadable,
    };
    let stamp = Stamp { inode: 0, bytes: 0, changed_s: 0, changed_ns: 0 };
    (before != Some(stamp)).then_some(Known { stamp, said: Err(problem) })
}

fn contents(file: OwnedFd) -> Result<Vec<u8>, ClientProblem> {
    let mut bytes = Vec::new();
    let file = std::fs::File::from(file);
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|_| ClientProblem::Unreadable)?;
    let is_too_large = u64::try_from(bytes.len()).is_ok_and(|length| length > FILE_BYTES_MAX);
    if is_too_large { Err(ClientProblem::TooLarge) } else { Ok(bytes) }
}

fn parse(name: Name, bytes: &[u8]) -> Result<Said, ClientProblem> {
    match name {
        Name::Hello(rank) => words::hello(bytes, rank).map(|()| Said::Hello),
        Name::Ack(rank) => words::ack(bytes, rank).map(Said::Ack),
    }
}
