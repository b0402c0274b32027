//! A write-ahead journal: what the agent is about to do, kept across its own death.
//!
//! One small JSON file per key in a directory of its own. A file is written under a temporary name,
//! flushed, renamed and the directory flushed, so after a crash a key has its old value or its
//! new one. What cannot be read is moved aside and reported, never deleted: it may be the only
//! trace of a signal that was sent.
//!
//! ```text
//! <directory>/lock                   held by the one agent that uses the directory
//! <directory>/<key>.json             {"version":1,"key":"<key>","value":…}
//! <directory>/<key>.json.tmp         being written; removed at open
//! <directory>/<key>.json.corrupt-N   could not be read
//! ```

mod name;
#[cfg(test)]
mod tests;

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::name::{JSON_SUFFIX, TMP_SUFFIX, file_name, key_of};

/// Version of the envelope. A file of another version was written by another release and is
/// moved aside, since what it orders cannot be known.
const VERSION: u32 = 1;

/// Largest value. A drain record has some 2 KB; the bound keeps a mistake from filling the disk
/// and a foreign file from filling memory.
const VALUE_BYTES_MAX: u64 = 1 << 20;

/// Most files read by one load. An agent has one record per drain and worker, tens at most.
const FILES_MAX: usize = 10_000;

/// Most files moved aside for one key; more are reported and left where they are.
const CORRUPT_MAX: u32 = 1_000;

/// Why the journal could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    /// Another process has the directory.
    #[error(
        "state directory {path:?} is in use by another agent{by}; stop that one or give this one another --state-dir"
    )]
    InUse {
        path: PathBuf,
        /// ` (process N)` where it is known, else empty.
        by: String,
    },
    /// No file can have this name.
    #[error(
        "journal key {key:?} is empty or too long; use at most {} bytes of text",
        name::KEY_BYTES_MAX
    )]
    BadKey { key: String },
    /// The value is too large or cannot be JSON.
    #[error("journal value of {key:?} was not written: {detail}; keep values small and plain")]
    BadValue { key: String, detail: String },
    /// More files than are read.
    #[error(
        "state directory {path:?} has more than {FILES_MAX} files; it is not the agent's own, give it one with --state-dir"
    )]
    TooManyFiles { path: PathBuf },
    /// The operating system refused.
    #[error(
        "could not {action} {path:?}: {source}; check the disk, its free space and that the agent's user owns --state-dir"
    )]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

/// A file that could not be read as a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Corrupt {
    /// The key in its name, where the name is one of ours.
    pub(crate) key: Option<String>,
    /// Where the file is now.
    pub(crate) path: PathBuf,
    /// What was wrong, as a fragment.
    pub(crate) detail: String,
}

/// Records by key, ascending, and what could not be read.
pub(crate) type Loaded<T> = (Vec<(String, T)>, Vec<Corrupt>);

/// What is in a file.
#[derive(Debug, Serialize)]
struct Envelope<'a, T> {
    version: u32,
    key: &'a str,
    value: &'a T,
}

/// What is read of a file before its value is understood.
#[derive(Debug, Deserialize)]
struct ReadEnvelope {
    version: u32,
    key: String,
    value: serde_json::Value,
}

/// An open journal. Only one per directory exists at a time, on one machine.
///
/// Calls block on the disk: some milliseconds, seconds on a bad day. One key is written by one
/// task at a time.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: PathBuf,
    /// Flushing this makes names durable.
    directory_file: File,
    /// Held as long as the journal; the system lets go of it when the process ends, however.
    lock: File,
}

impl Drop for Journal {
    /// Closing alone would not do: a child that was just forked and has not yet executed its program
    /// holds the same lock for a moment.
    fn drop(&mut self) {
        let _ended_with_the_process_at_the_latest = self.lock.unlock();
    }
}

impl Journal {
    /// Opens the journal in `directory`, making it (mode 0700) if need be. Files that an earlier
    /// agent left half-written are removed: their keys still have the values before.
    ///
    /// # Errors
    /// [`JournalError::InUse`], [`JournalError::TooManyFiles`] or [`JournalError::Io`].
    pub(crate) fn open(directory: impl Into<PathBuf>) -> Result<Self, JournalError> {
        let directory = directory.into();
        let failed = io_error("create", &directory);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(failed)?;
        let mode = fs::metadata(&directory).map_err(io_error("look at", &directory))?;
        if mode.permissions().mode() & 0o077 != 0 {
            let failed = io_error("close to other users", &directory);
            fs::set_permissions(&directory, Permissions::from_mode(0o700)).map_err(failed)?;
        }
        let lock = lock(&directory)?;
        let directory_file = File::open(&directory).map_err(io_error("open", &directory))?;
        let journal = Self { directory, directory_file, lock };
        journal.remove_half_written()?;
        Ok(journal)
    }

    fn remove_half_written(&self) -> Result<(), JournalError> {
        for name in self.names()? {
            let is_ours = name.strip_suffix(TMP_SUFFIX).is_some_and(|name| key_of(name).is_some());
            let path = self.directory.join(name);
            if is_ours && fs::symlink_metadata(&path).is_ok_and(|file| file.is_file()) {
                fs::remove_file(&path).map_err(io_error("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Stores `value` under `key`, in place of what was there. Durable on return.
    ///
    /// # Errors
    /// [`JournalError::BadKey`] and `BadValue`: nothing was changed. `Io`: after a crash the key may
    /// have either value.
    pub(crate) fn put<T: Serialize>(&self, key: &str, value: &T) -> Result<(), JournalError> {
        let bad_value = |detail: String| JournalError::BadValue { key: key.to_owned(), detail };
        let path = self.path(key)?;
        let envelope = Envelope { version: VERSION, key, value };
        let mut text =
            serde_json::to_vec(&envelope).map_err(|error| bad_value(error.to_string()))?;
        text.push(b'\n');
        if text.len() as u64 > VALUE_BYTES_MAX {
            return Err(bad_value(format!("it takes {} bytes", text.len())));
        }
        let mut temporary = path.clone().into_os_string();
        temporary.push(TMP_SUFFIX);
        let temporary = PathBuf::from(temporary);
        if let Err(source) = write_durably(&temporary, &text) {
            // What is left is removed at the next open at the latest.
            let _ = fs::remove_file(&temporary);
            return Err(JournalError::Io { action: "write", path: temporary, source });
        }
        fs::rename(&temporary, &path).map_err(io_error("put in place", &path))?;
        self.flush()
    }

    /// Removes `key`; nothing happens if it is not there. Durable on return.
    ///
    /// # Errors
    /// [`JournalError::BadKey`] or `Io`: after a crash the key may be back.
    pub(crate) fn remove(&self, key: &str) -> Result<(), JournalError> {
        let path = self.path(key)?;
        match fs::remove_file(&path) {
            Ok(()) => self.flush(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(io_error("remove", &path)(error)),
        }
    }

    /// All records by key, ascending. Files that are torn, of another version or not of this type
    /// are moved aside and reported. Files that the journal did not name are left alone.
    ///
    /// # Errors
    /// [`JournalError::TooManyFiles`], or `Io` if the directory itself could not be read.
    pub(crate) fn load<T: DeserializeOwned>(&self) -> Result<Loaded<T>, JournalError> {
        let (mut records, mut corrupt) = (Vec::new(), Vec::new());
        for name in self.names()?.into_iter().filter(|name| name.ends_with(JSON_SUFFIX)) {
            let key = key_of(&name);
            match self.read(&name, key.as_deref()) {
                Ok(record) => records.push(record),
                Err(detail) => corrupt.push(self.move_aside(&name, key, detail)),
            }
        }
        if !corrupt.is_empty() {
            self.flush()?;
        }
        records.sort_by(|(left, _), (right, _)| left.cmp(right));
        Ok((records, corrupt))
    }

    /// The record in the file `name`, which has to be that of `key`.
    fn read<T: DeserializeOwned>(
        &self,
        name: &str,
        key: Option<&str>,
    ) -> Result<(String, T), String> {
        let key = key.ok_or("its name is not one of the journal's")?;
        let text = read_regular(&self.directory.join(name)).map_err(|error| error.to_string())?;
        let envelope: ReadEnvelope =
            serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        if envelope.version != VERSION {
            return Err(format!("it has version {}, not {VERSION}", envelope.version));
        }
        if envelope.key != key {
            return Err(format!("it holds the key {:?}", envelope.key));
        }
        let value = serde_json::from_value(envelope.value).map_err(|error| error.to_string())?;
        Ok((envelope.key, value))
    }

    fn move_aside(&self, name: &str, key: Option<String>, detail: String) -> Corrupt {
        let path = self.directory.join(name);
        let free = (1..=CORRUPT_MAX)
            .map(|number| self.directory.join(format!("{name}.corrupt-{number}")))
            .find(|aside| fs::symlink_metadata(aside).is_err());
        match free.map(|aside| (fs::rename(&path, &aside), aside)) {
            Some((Ok(()), aside)) => Corrupt { key, path: aside, detail },
            Some((Err(error), _)) => {
                Corrupt { key, path, detail: format!("{detail}; it could not be moved: {error}") }
            }
            None => {
                let detail = format!("{detail}; {CORRUPT_MAX} others were moved aside already");
                Corrupt { key, path, detail }
            }
        }
    }

    /// Names in the directory that are text, in no order. The journal gives no others.
    fn names(&self) -> Result<Vec<String>, JournalError> {
        let failed = || io_error("read", &self.directory);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            if names.len() >= FILES_MAX {
                return Err(JournalError::TooManyFiles { path: self.directory.clone() });
            }
            names.extend(entry.file_name().into_string());
        }
        Ok(names)
    }

    fn path(&self, key: &str) -> Result<PathBuf, JournalError> {
        let name = file_name(key).ok_or_else(|| JournalError::BadKey { key: key.to_owned() })?;
        Ok(self.directory.join(name))
    }

    fn flush(&self) -> Result<(), JournalError> {
        self.directory_file.sync_all().map_err(io_error("flush", &self.directory))
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.to_owned();
    move |source| JournalError::Io { action, path, source }
}

/// Takes the lock of `directory`, and leaves this process's id in it for the error of the next.
fn lock(directory: &Path) -> Result<File, JournalError> {
    let path = directory.join("lock");
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(&path);
    let mut lock = opened.map_err(io_error("open", &path))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            let mut text = String::new();
            // Who holds it is a hint only.
            let _unknown = (&lock).take(16).read_to_string(&mut text);
            let by = text.trim().parse::<u32>();
            let by = by.map_or(String::new(), |pid| format!(" (process {pid})"));
            return Err(JournalError::InUse { path: directory.to_owned(), by });
        }
        Err(fs::TryLockError::Error(error)) => return Err(io_error("lock", &path)(error)),
    }
    let pid = format!("{}\n", std::process::id());
    lock.set_len(0)
        .and_then(|()| lock.write_all(pid.as_bytes()))
        .map_err(io_error("write", &path))?;
    Ok(lock)
}

fn write_durably(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.custom_flags(nix::libc::O_NOFOLLOW).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

/// The content of a regular file of bounded size; never waits for a pipe.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let invalid = |detail: &str| io::Error::new(io::ErrorKind::InvalidData, detail);
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(invalid("it is not a regular file"));
    }
    let mut text = Vec::new();
    file.take(VALUE_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > VALUE_BYTES_MAX {
        return Err(invalid("it is larger than any record"));
    }
    Ok(text)
}
