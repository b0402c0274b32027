//! Which files the processes of a worker have open for writing.
//!
//! Files are known by device and inode, not by path: a worker in a container sees other paths
//! than the agent does.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::walk::{FileId, Manifest, text};

/// Most descriptors looked at in one call, all processes together. A trainer has some hundred per
/// rank; each costs some 5 µs.
const DESCRIPTORS_MAX: usize = 65_536;

/// `O_WRONLY | O_RDWR` in the `flags:` line of `/proc/<pid>/fdinfo/<fd>`. Source: fcntl.h, the same
/// on all Linux architectures.
const WRITING_FLAGS: u32 = 0o3;

/// Files open for writing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WrittenFiles {
    files: BTreeSet<FileId>,
    /// Processes that could not be looked into, or not to the end: whether *they* write is unknown.
    pub(crate) unseen_pids: Vec<u32>,
    /// Processes that were looked into.
    seen: u32,
}

impl WrittenFiles {
    /// Regular files and directories that any of `pids` has open for writing now.
    ///
    /// A process that has ended writes nothing and is no error. Looking into a process takes its
    /// own user or `CAP_SYS_PTRACE`.
    pub(crate) fn of_processes(pids: impl IntoIterator<Item = u32>) -> Self {
        let mut written = Self::default();
        let mut budget = DESCRIPTORS_MAX;
        for pid in pids {
            let process = format!("/proc/{pid}");
            let is_seen = written.add_process(Path::new(&process), &mut budget);
            if is_seen {
                written.seen += 1;
            } else if Path::new(&process).exists() {
                written.unseen_pids.push(pid);
            }
        }
        written
    }

    /// Whether every process was looked into, and there was one: then a file that is not here is not being written.
    pub(crate) fn is_certain(&self) -> bool {
        self.seen > 0 && self.unseen_pids.is_empty()
    }

    /// Whether the whole of `process` was seen.
    fn add_process(&mut self, process: &Path, budget: &mut usize) -> bool {
        let Ok(descriptors) = fs::read_dir(process.join("fdinfo")) else { return false };
        for descriptor in descriptors {
            let Ok(descriptor) = descriptor else { return false };
            if *budget == 0 {
                return false;
            }
            *budget -= 1;
            // A descriptor may be closed at any moment: it writes no more.
            let Ok(info) = fs::read_to_string(descriptor.path()) else { continue };
            if flags(&info).is_none_or(|flags| flags & WRITING_FLAGS == 0) {
                continue;
            }
            let file = process.join("fd").join(descriptor.file_name());
            // This follows the kernel's own link to the open file and opens nothing.
            if let Ok(stat) = rustix::fs::stat(&file) {
                self.files.insert(FileId::of(&stat));
            }
        }
        true
    }

    /// The first file of `manifest` that is open for writing, by path.
    pub(crate) fn first_in(&self, manifest: &Manifest) -> Option<String> {
        if self.files.is_empty() {
            return None;
        }
        let mut files = manifest.files.iter();
        files.find(|(_, entry)| self.files.contains(&entry.id)).map(|(path, _)| text(path))
    }
}

/// The open flags in a file of `/proc/<pid>/fdinfo/`.
fn flags(info: &str) -> Option<u32> {
    let octal = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    u32::from_str_radix(octal.trim(), 8).ok()
}
