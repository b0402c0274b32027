//! One device's read-ahead in sysfs.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A device below a host's root, as long as it is the same disk.
#[derive(Debug)]
pub(super) struct Device {
    dir: PathBuf,
    diskseq: Option<u64>,
}

impl Device {
    /// `name` as the kernel has it; it may come from a file, so it must not lead elsewhere.
    ///
    /// # Errors
    /// It is no name of a device.
    pub(super) fn new(root: &Path, name: &str, diskseq: Option<u64>) -> Result<Self, String> {
        let name = name.replace('/', "!");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '!' | '-' | '_' | '.');
        if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
            return Err(format!("\"{}\" is no name of a device", name.escape_debug()));
        }
        Ok(Self { dir: root.join("sys/class/block").join(name), diskseq })
    }

    /// Whether the name still means the disk that it meant.
    pub(super) fn is_same(&self) -> bool {
        let text = fs::read_to_string(self.dir.join("diskseq")).ok();
        self.dir.exists() && text.and_then(|text| text.trim().parse().ok()) == self.diskseq
    }

    /// What is in force. Unit: KiB.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(&self) -> Result<u64, String> {
        let file = self.file();
        let text = fs::read_to_string(&file).map_err(|error| failed("read", &file, &error))?;
        text.trim().parse().map_err(|_| format!("\"{}\" holds no number", file.display()))
    }

    /// Writes a value. Returns what is in force then. Unit: KiB.
    ///
    /// # Errors
    /// Another disk has taken the name, or the value cannot be written or read back.
    pub(super) fn write(&self, kib: u64) -> Result<u64, String> {
        if !self.is_same() {
            return Err("another disk has taken its name".to_owned());
        }
        let file = self.file();
        // Not made if it is not there, not cut off: it is the kernel's.
        let opened = OpenOptions::new().write(true).open(&file);
        let written = opened.and_then(|mut opened| opened.write_all(format!("{kib}\n").as_bytes()));
        written.map_err(|error| failed("write", &file, &error))?;
        self.read()
    }

    fn file(&self) -> PathBuf {
        self.dir.join("queue/read_ahead_kb")
    }
}

fn failed(action: &str, file: &Path, error: &io::Error) -> String {
    format!("could not {action} \"{}\": {error}", file.display())
}
