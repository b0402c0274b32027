//! The files a process has open, from `/proc/<pid>/fd`.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sluice_core::sample::DeviceFile;

use crate::sensor::tree::{HostTree, decimal, path_bytes};

/// Most open files looked at in one process; the usual hard limit of a process is 1,048,576, the
/// usual use under 100.
const FILES_MAX: usize = 65_536;

/// Most names of open checkpoint files kept for one process: a saver writes a few dozen at a time.
const CHECKPOINT_FILES_MAX: usize = 256;

/// The kernel marks the name of an open file that was removed.
const DELETED: &[u8] = b" (deleted)";

/// Lists open files by what their links name.
#[derive(Debug)]
pub(super) struct OpenFiles {
    tree: HostTree,
    /// Where simulated devices' files lie, without symbolic links, as the kernel names open files.
    devices_dir: Option<PathBuf>,
}

impl OpenFiles {
    pub(super) fn new(host_root: &Path, devices_dir: Option<&Path>) -> Self {
        let real = |dir: &Path| fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        OpenFiles { tree: HostTree::new(host_root), devices_dir: devices_dir.map(real) }
    }

    /// The accelerator files a process has open.
    ///
    /// # Errors
    /// Its files cannot be listed: it ended, or permission is missing.
    pub(super) fn devices(&self, pid: u32) -> io::Result<BTreeSet<DeviceFile>> {
        let files = self.open_files(pid)?;
        Ok(files.filter_map(|(_, target)| self.device(&path_bytes(&target))).collect())
    }

    /// Files below `dir` that a process has open for writing, sorted. None where they cannot be
    /// listed.
    pub(super) fn written_below(&mut self, pid: u32, dir: &Path) -> Vec<Vec<u8>> {
        let Ok(files) = self.open_files(pid) else { return Vec::new() };
        let below: Vec<(u32, PathBuf)> = files
            .filter(|(_, target)| target.starts_with(dir) && target.as_path() != dir)
            .take(CHECKPOINT_FILES_MAX)
            .collect();
        let mut written: Vec<Vec<u8>> = below
            .into_iter()
            .filter(|(fd, _)| self.is_open_for_writing(pid, *fd))
            .map(|(_, target)| path_bytes(&target))
            .collect();
        written.sort_unstable();
        written.dedup();
        written
    }

    fn open_files(&self, pid: u32) -> io::Result<impl Iterator<Item = (u32, PathBuf)> + use<>> {
        let entries = fs::read_dir(self.tree.path(&format!("proc/{pid}/fd")))?;
        Ok(entries.take(FILES_MAX).filter_map(|entry| {
            let entry = entry.ok()?;
            let fd = decimal(entry.file_name().as_bytes())?;
            Some((fd, fs::read_link(entry.path()).ok()?))
        }))
    }

    /// `flags:` is octal; its lowest two bits are 1 for writing and 2 for both.
    fn is_open_for_writing(&mut self, pid: u32, fd: u32) -> bool {
        let Some(text) = self.tree.text(&format!("proc/{pid}/fdinfo/{fd}")) else { return false };
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u64::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| matches!(flags & 0o3, 1 | 2))
    }

    fn device(&self, target: &[u8]) -> Option<DeviceFile> {
        let target = target.strip_suffix(DELETED).unwrap_or(target);
        if let Some(rest) = target.strip_prefix(b"/dev/") {
            let numbered = |prefix: &[u8]| rest.strip_prefix(prefix).and_then(decimal);
            return numbered(b"nvidia")
                .map(DeviceFile::Nvidia)
                .or_else(|| numbered(b"nvidia-caps/nvidia-cap").map(DeviceFile::NvidiaCap))
                .or_else(|| numbered(b"accel").map(DeviceFile::Accel))
                .or_else(|| numbered(b"vfio/").map(DeviceFile::Vfio));
        }
        let dir = self.devices_dir.as_ref()?.as_os_str().as_bytes();
        let name = target.strip_prefix(dir)?.strip_prefix(b"/")?;
        if name.contains(&b'/') {
            return None;
        }
        Some(DeviceFile::Simulated(String::from_utf8(name.to_vec()).ok()?))
    }
}
