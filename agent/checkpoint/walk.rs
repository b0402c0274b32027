//! Looks at directories without ever leaving them, following a link, opening a special file or
//! doing more than a bounded amount of work. What lies there was written by others.
//!
//! Every step goes through the descriptor of the directory above with `O_NOFOLLOW`, so a name
//! that is exchanged for a link between two calls leads nowhere.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use sluice_core::checkpoint::IncompleteReason;

/// Deepest nesting of directories in one checkpoint. Known layouts use 2 (`global_stepN/`,
/// `pytorch_model_fsdp_0/`); one descriptor is held per level.
pub(crate) const DEPTH_MAX: u32 = 6;

/// A file on this machine, whatever path it is reached by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

/// What changes when a file changes. Times serve as a hint that *something* changed, by being
/// different; they are never compared with a clock or with each other's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    /// Size. Unit: bytes.
    pub(crate) bytes: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

/// What an entry is, as far as this program cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Regular,
    Directory,
    SymbolicLink,
    /// Pipe, socket, device or unknown.
    Special,
}

/// One entry, not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: FileId,
    pub(crate) stamp: Stamp,
    pub(crate) kind: Kind,
}

impl Kind {
    fn of(file_type: FileType) -> Self {
        if file_type.is_file() {
            Self::Regular
        } else if file_type.is_dir() {
            Self::Directory
        } else if file_type.is_symlink() {
            Self::SymbolicLink
        } else {
            Self::Special
        }
    }
}

impl FileId {
    /// The identity in a `stat` result.
    pub(crate) fn of(stat: &rustix::fs::Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

impl Entry {
    /// Reads `stat`, as the operating system gave it.
    #[allow(
        clippy::useless_conversion,
        clippy::unnecessary_cast,
        reason = "the types of these fields differ between architectures"
    )]
    fn of(stat: &rustix::fs::Stat) -> Self {
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        let modified = (stat.st_mtime, stat.st_mtime_nsec as u64);
        let changed = (stat.st_ctime, stat.st_ctime_nsec as u64);
        let kind = Kind::of(FileType::from_raw_mode(stat.st_mode));
        Self { id: FileId::of(stat), stamp: Stamp { bytes, modified, changed }, kind }
    }
}

/// The entry `name` of `directory`; a link is shown as a link.
///
/// # Errors
/// What the operating system said: `ENOENT` when it has gone.
pub(crate) fn look(directory: impl AsFd, name: &OsStr) -> Result<Entry, Errno> {
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| Entry::of(&stat))
}

/// Names in `directory`, at most `limit`, in the order of the operating system; `true` where
/// there are more.
///
/// # Errors
/// What the operating system said.
pub(crate) fn names(directory: impl AsFd, limit: u32) -> Result<(Vec<OsString>, bool), Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if names.len() >= limit as usize {
            return Ok((names, true));
        }
        names.push(OsString::from_vec(name.to_vec()));
    }
    Ok((names, false))
}

/// Opens the directory `name` in `directory`, never through a link.
///
/// # Errors
/// What the operating system said.
pub(crate) fn open_directory(directory: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty())
}

/// Opens the regular file `path` below `directory` for reading.
///
/// The file is first taken hold of without opening it, so that a pipe or device that is exchanged
/// for it in between is not opened either.
///
/// # Errors
/// [`IncompleteReason::SymbolicLink`], [`IncompleteReason::SpecialFile`] or
/// [`IncompleteReason::Unreadable`].
pub(crate) fn open_file(directory: impl AsFd, path: &OsStr) -> Result<File, IncompleteReason> {
    let unreadable = |errno| unreadable(path, errno);
    let mut components: Vec<&[u8]> = path.as_bytes().split(|byte| *byte == b'/').collect();
    let name = OsStr::from_bytes(components.pop().unwrap_or_default());
    let mut below: Option<OwnedFd> = None;
    for component in components {
        let above = below.as_ref().map_or(directory.as_fd(), AsFd::as_fd);
        below = Some(open_directory(above, OsStr::from_bytes(component)).map_err(unreadable)?);
    }
    let at = below.as_ref().map_or(directory.as_fd(), AsFd::as_fd);
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = openat(at, name, flags, Mode::empty()).map_err(unreadable)?;
    let stat = rustix::fs::fstat(&held).map_err(unreadable)?;
    match Entry::of(&stat).kind {
        Kind::Regular => {}
        Kind::SymbolicLink => return Err(IncompleteReason::SymbolicLink { file: text(path) }),
        Kind::Directory | Kind::Special => {
            return Err(IncompleteReason::SpecialFile { file: text(path) });
        }
    }
    let reopened = format!("/proc/self/fd/{}", held.as_raw_fd());
    File::open(reopened).map_err(|error| IncompleteReason::Unreadable {
        file: text(path),
        detail: error.to_string(),
    })
}

/// All files of one checkpoint by path relative to it. Directories are not listed themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Manifest {
    pub(crate) files: BTreeMap<OsString, Entry>,
    /// Size of the regular files. Unit: bytes.
    pub(crate) bytes: u64,
    /// Number of regular files.
    pub(crate) count: u32,
}

impl Manifest {
    /// A checkpoint that is the single file `entry`; its path within itself is empty.
    pub(crate) fn of_file(entry: Entry) -> Self {
        let mut manifest = Self::default();
        manifest.add(OsString::new(), entry);
        manifest
    }

    fn add(&mut self, path: OsString, entry: Entry) {
        if entry.kind == Kind::Regular {
            self.bytes = self.bytes.saturating_add(entry.stamp.bytes);
            self.count = self.count.saturating_add(1);
        }
        self.files.insert(path, entry);
    }

    /// The regular file at `path`.
    pub(crate) fn regular(&self, path: &str) -> Option<&Entry> {
        self.files.get(OsStr::new(path)).filter(|entry| entry.kind == Kind::Regular)
    }

    /// Regular, non-empty files by path.
    pub(crate) fn filled(&self) -> impl Iterator<Item = (&OsStr, &Entry)> {
        let regular = self.files.iter().filter(|(_, entry)| entry.kind == Kind::Regular);
        let filled = regular.filter(|(_, entry)| entry.stamp.bytes > 0);
        filled.map(|(path, entry)| (path.as_os_str(), entry))
    }

    /// A number that differs, but for chance of 1 in 2^64, when any file differs in name, size,
    /// kind or change hints.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (path, entry) in &self.files {
            (path, entry.stamp, entry.kind).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// All files of the directory `name` in `directory`, at most `files_max` with all directories.
///
/// Entries that vanish meanwhile are left out: trainers delete old checkpoints while we look.
///
/// # Errors
/// [`IncompleteReason::TooManyFiles`], [`IncompleteReason::TooDeep`] or
/// [`IncompleteReason::Unreadable`].
pub(crate) fn walk(
    directory: impl AsFd,
    name: &OsStr,
    files_max: u32,
) -> Result<Manifest, IncompleteReason> {
    let top = open_directory(directory, name).map_err(|errno| unreadable(name, errno))?;
    let mut walk = Walk { manifest: Manifest::default(), entries_left: files_max, files_max };
    walk.below(&top, &OsString::new(), 1)?;
    Ok(walk.manifest)
}

/// A walk under way.
struct Walk {
    manifest: Manifest,
    entries_left: u32,
    files_max: u32,
}

impl Walk {
    /// Adds what lies below `directory`, whose path is `prefix`: empty or ending in a slash.
    fn below(
        &mut self,
        directory: &OwnedFd,
        prefix: &OsStr,
        depth: u32,
    ) -> Result<(), IncompleteReason> {
        let (names, more) =
            names(directory, self.entries_left).map_err(|errno| unreadable(prefix, errno))?;
        if more {
            return Err(IncompleteReason::TooManyFiles { limit: self.files_max });
        }
        let count = u32::try_from(names.len()).expect("no more names than the limit, a u32");
        self.entries_left -= count;
        for name in names {
            let mut path = prefix.to_owned();
            path.push(&name);
            self.entry(directory, &name, path, depth)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        directory: &OwnedFd,
        name: &OsStr,
        mut path: OsString,
        depth: u32,
    ) -> Result<(), IncompleteReason> {
        let entry = match look(directory, name) {
            Ok(entry) => entry,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(unreadable(&path, errno)),
        };
        if entry.kind != Kind::Directory {
            self.manifest.add(path, entry);
            return Ok(());
        }
        if depth >= DEPTH_MAX {
            return Err(IncompleteReason::TooDeep { limit: DEPTH_MAX });
        }
        let below = match open_directory(directory, name) {
            Ok(below) => below,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(unreadable(&path, errno)),
        };
        path.push("/");
        self.below(&below, &path, depth + 1)
    }
}

/// A path as text; bytes that are not UTF-8 are replaced.
pub(crate) fn text(path: &OsStr) -> String {
    path.to_string_lossy().into_owned()
}

/// `errno` at `path` as a reason.
pub(crate) fn unreadable(path: &OsStr, errno: Errno) -> IncompleteReason {
    let detail = std::io::Error::from(errno).to_string();
    IncompleteReason::Unreadable { file: text(path), detail }
}
