//! Opening the file: or saying exactly why not, and leaving it as it is.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use redb::{
    Builder, Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, StorageError,
    TableError,
};
use sluice::paths::create_private_dir;
use sluice::wire::WireError;

use super::{DRAINS, META, Store, Stored, TEXTS, VERSION, WORKLOADS, decisions, read};

/// Memory for pages. The file of a large cluster has some 100 MB; what is hot is far less.
const CACHE_BYTES: usize = 64 << 20;

/// Why there is no store, or no write to it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The directory or file cannot be used.
    #[error("could not {verb} \"{}\": {why}; check that the directory exists, is writable and has space", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What was tried.
        verb: &'static str,
        /// What the system says.
        why: io::Error,
    },
    /// The directory cannot be made.
    #[error(transparent)]
    Directory(io::Error),
    /// Another process has it open.
    #[error(
        "state file \"{}\" is in use by another arbiter; stop that one, or give this one another --state-dir",
        path.display()
    )]
    Locked {
        /// Which file.
        path: PathBuf,
    },
    /// It is not what it should be.
    #[error(
        "state file \"{}\" cannot be used: {why}; nothing was changed; restore it from a backup, or move it away \
         to start with no workloads",
        path.display()
    )]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It is of another version.
    #[error(
        "state file \"{}\" has version {found}; this arbiter reads version {VERSION}; use the version of \
         sluice-arbiter that wrote it, or move it away to start with no workloads",
        path.display()
    )]
    Version {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// One record cannot be read.
    #[error(
        "state file \"{}\" has a {what} that cannot be read: {error}; nothing was changed; use the version of \
         sluice-arbiter that wrote it",
        path.display()
    )]
    BadRecord {
        /// Which file.
        path: PathBuf,
        /// Which record.
        what: String,
        /// What is wrong with it.
        error: WireError,
    },
    /// The state in a cluster cannot be written.
    #[cfg(feature = "kubernetes")]
    #[error(transparent)]
    Cluster(#[from] crate::k8s::StateError),
    /// Reading or writing failed.
    #[error("could not {verb} state file \"{}\": {why}", path.display())]
    Failed {
        /// Which file.
        path: PathBuf,
        /// What was tried.
        verb: &'static str,
        /// What redb says.
        why: String,
    },
}

impl Store {
    /// Opens the store at `path`, or makes it if there is none, and raises the epoch.
    ///
    /// # Errors
    /// See [`StoreError`]. An existing file is left as it is.
    pub(crate) fn open(path: &Path) -> Result<(Self, Stored), StoreError> {
        let io = |verb| move |why| StoreError::Io { path: path.to_owned(), verb, why };
        if let Some(dir) = path.parent() {
            create_private_dir(dir).map_err(StoreError::Directory)?;
        }
        match fs::metadata(path) {
            Ok(meta) => check_size(path, meta.len())?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(path)?,
            Err(error) => return Err(io("look at")(error)),
        }
        let database = builder().open(path).map_err(|error| explain(path, error))?;
        check_version(&database, path)?;
        let failed = |error: redb::Error| StoreError::Failed {
            path: path.to_owned(),
            verb: "write",
            why: error.to_string(),
        };
        // Read before it is written: a file with a bad record is left as it is.
        read(&database, path, 0)?;
        let epoch = raise_epoch(&database).map_err(failed)?;
        let stored = read(&database, path, epoch)?;
        let decisions_max = decisions::DECISIONS_MAX;
        let store = Self {
            database,
            path: path.to_owned(),
            decisions_max,
            #[cfg(feature = "kubernetes")]
            remote: None,
        };
        Ok((store, stored))
    }
}

pub(super) fn builder() -> Builder {
    let mut builder = Database::builder();
    // Checked as a whole, because redb may panic on a page that was damaged.
    builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
    builder
}

/// redb would take an empty file for a new one: it was not, it has lost its content.
fn check_size(path: &Path, bytes: u64) -> Result<(), StoreError> {
    if bytes > 0 {
        return Ok(());
    }
    Err(StoreError::Unusable { path: path.to_owned(), why: "it is empty".to_owned() })
}

/// Makes an empty store under another name and renames it, so that there is never half a file.
fn create(path: &Path) -> Result<(), StoreError> {
    let draft = path.with_extension("redb.new");
    let io = |verb| {
        let path = draft.clone();
        move |why| StoreError::Io { path, verb, why }
    };
    match fs::remove_file(&draft) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io("remove")(error)),
    }
    let database = builder().create(&draft).map_err(|error| explain(&draft, error))?;
    initialize(&database).map_err(|error| StoreError::Failed {
        path: draft.clone(),
        verb: "write",
        why: error.to_string(),
    })?;
    drop(database);
    fs::rename(&draft, path).map_err(io("rename"))?;
    let dir = path.parent().unwrap_or(Path::new("."));
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io("sync the directory of"))
}

pub(super) fn initialize(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut meta = transaction.open_table(META)?;
        for (name, value) in [("version", VERSION), ("epoch", 0), ("next_sequence", 1)] {
            meta.insert(name, value)?;
        }
        transaction.open_table(TEXTS)?;
        transaction.open_table(WORKLOADS)?;
        transaction.open_table(DRAINS)?;
    }
    decisions::create(&transaction)?;
    transaction.commit()?;
    Ok(())
}

/// The last epoch.
#[cfg(test)]
pub(super) fn read_epoch(database: &Database) -> Result<u64, redb::Error> {
    let table = database.begin_read()?.open_table(META)?;
    Ok(table.get("epoch")?.map_or(0, |value| value.value()))
}

fn raise_epoch(database: &Database) -> Result<u64, redb::Error> {
    let transaction = database.begin_write()?;
    let epoch = {
        let mut meta = transaction.open_table(META)?;
        let last = meta.get("epoch")?.map_or(0, |value| value.value());
        meta.insert("epoch", last + 1)?;
        last + 1
    };
    transaction.commit()?;
    Ok(epoch)
}

fn check_version(database: &Database, path: &Path) -> Result<(), StoreError> {
    let unusable = |why: String| StoreError::Unusable { path: path.to_owned(), why };
    let found = match read_version(database) {
        Ok(found) => found,
        Err(redb::Error::TableDoesNotExist(_) | redb::Error::TableTypeMismatch { .. }) => None,
        Err(error) => return Err(unusable(error.to_string())),
    };
    match found {
        Some(VERSION) => Ok(()),
        Some(found) => Err(StoreError::Version { path: path.to_owned(), found }),
        None => Err(unusable("it is a database of another program".to_owned())),
    }
}

fn read_version(database: &Database) -> Result<Option<u64>, redb::Error> {
    let transaction = database.begin_read()?;
    let table = transaction.open_table(META).map_err(|error: TableError| error)?;
    Ok(table.get("version")?.map(|value| value.value()))
}

fn explain(path: &Path, error: DatabaseError) -> StoreError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
            StoreError::Locked { path }
        }
        DatabaseError::Storage(StorageError::Io(why)) if is_of_the_system(&why) => {
            StoreError::Io { path, verb: "open", why }
        }
        other => StoreError::Unusable { path, why: other.to_string() },
    }
}

/// The system refuses (no permission, no space, read-only) as opposed to: the content makes no sense.
fn is_of_the_system(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}
