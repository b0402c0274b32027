//! The record's files: numbered, bounded in size and number, the oldest removed.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use prost::Message as _;
use sluice::paths::create_private_dir;
use sluice::wire::pb;

/// Size from which a file is full, its start not counted. Unit: bytes.
pub(super) const FILE_BYTES_MAX: u64 = 16 << 20;
/// Most files kept: with the size above 128 MiB and the starts, days of a busy cluster.
const FILES_MAX: usize = 8;
/// Largest entry read back. A start of 50,000 workloads has some 50 MB.
const ENTRY_BYTES_MAX: u64 = 1 << 30;
const SUFFIX: &str = "rec";

/// The directory and the file being written.
#[derive(Debug)]
pub(super) struct Files {
    dir: PathBuf,
    next: u64,
    current: Option<BufWriter<File>>,
    /// Bytes of the current file after its start.
    bytes: u64,
}

impl Files {
    /// Prepares `dir`; files that are there are kept and counted.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        create_private_dir(dir)?;
        let last = numbered(dir)?.last().map_or(0, |(number, _)| *number);
        Ok(Self { dir: dir.to_owned(), next: last + 1, current: None, bytes: 0 })
    }

    /// Ends the current file and begins another.
    pub(super) fn begin(&mut self, start: pb::RecordStart) -> io::Result<()> {
        self.flush()?;
        self.current = None;
        let files = numbered(&self.dir)?;
        let surplus = (files.len() + 1).saturating_sub(FILES_MAX);
        for (_, path) in files.into_iter().take(surplus) {
            fs::remove_file(path)?;
        }
        let path = self.dir.join(format!("{:08}.{SUFFIX}", self.next));
        self.next += 1;
        self.current = Some(BufWriter::new(File::create_new(path)?));
        let entry = pb::record_entry::Entry::Start(start);
        self.write(&pb::RecordEntry { entry: Some(entry) })?;
        self.bytes = 0;
        Ok(())
    }

    /// Appends a step; true if the file is full now. Without a file it is dropped.
    pub(super) fn append(&mut self, step: pb::RecordStep) -> io::Result<bool> {
        let entry = pb::record_entry::Entry::Step(step);
        self.write(&pb::RecordEntry { entry: Some(entry) })?;
        Ok(self.bytes >= FILE_BYTES_MAX)
    }

    fn write(&mut self, entry: &pb::RecordEntry) -> io::Result<()> {
        let Some(file) = &mut self.current else { return Ok(()) };
        let bytes = entry.encode_length_delimited_to_vec();
        self.bytes += bytes.len() as u64;
        file.write_all(&bytes)
    }

    /// Hands what was written to the system: then it survives the arbiter, though not a power cut.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.current.as_mut().map_or(Ok(()), Write::flush)
    }
}

/// Record files in `dir` with their numbers, oldest first.
fn numbered(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|suffix| suffix == SUFFIX)
            && let Some(number) = path.file_stem().and_then(|s| s.to_str()?.parse().ok())
        {
            files.push((number, path));
        }
    }
    files.sort();
    Ok(files)
}

/// Reads the entries of one file.
#[derive(Debug)]
pub(super) struct Entries {
    reader: BufReader<File>,
    offset: u64,
    size_bytes: u64,
}

/// Why reading ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The system refuses.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The bytes make no sense.
    #[error("at byte {offset}: {why}")]
    Bad {
        /// Where the entry begins.
        offset: u64,
        /// What is wrong.
        why: String,
    },
}

impl Entries {
    /// Opens `path`.
    pub(super) fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path)?;
        let size_bytes = file.metadata()?.len();
        Ok(Self { reader: BufReader::new(file), offset: 0, size_bytes })
    }

    /// The next entry. `None` at the end, and where the last entry is cut off: the arbiter was
    /// killed while it wrote.
    pub(super) fn next(&mut self) -> Result<Option<pb::RecordEntry>, ReadError> {
        let offset = self.offset;
        let bad = |why: String| ReadError::Bad { offset, why };
        let Some(length) = self.length()? else { return Ok(None) };
        if length > ENTRY_BYTES_MAX {
            return Err(bad(format!("an entry of {length} bytes; the limit is {ENTRY_BYTES_MAX}")));
        }
        if self.offset + length > self.size_bytes {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.reader.by_ref().take(length).read_to_end(&mut bytes)?;
        self.offset += length;
        let entry = pb::RecordEntry::decode(bytes.as_slice());
        entry.map(Some).map_err(|error| bad(error.to_string()))
    }

    /// A length as protobuf writes it: seven bits a byte, the lowest first.
    fn length(&mut self) -> Result<Option<u64>, ReadError> {
        let offset = self.offset;
        let mut length = 0u64;
        for shift in (0..35).step_by(7) {
            let mut byte = [0u8];
            if self.reader.read(&mut byte)? == 0 {
                return Ok(None);
            }
            self.offset += 1;
            length |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] & 0x80 == 0 {
                return Ok(Some(length));
            }
        }
        Err(ReadError::Bad { offset, why: "not the length of an entry".to_owned() })
    }
}
