//! The host's mount table, from `/proc/1/mountinfo`.
//!
//! Parsed as bytes and line by line: mount points are chosen by whoever may mount, need not be
//! UTF-8, and one odd line must not blind the agent to all the others. (The procfs crate gives up
//! on the whole file and keeps escapes.)

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::path::Path;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
use sluice_core::sample::{DeviceNumber, MountSample, MountTableSample};
use sluice_core::volume::claim::kubelet_mount;

use super::tree::{HostTree, decimal, lossy};

mod vol_data;

#[cfg(test)]
mod tests;

/// Most mounts kept. A full node (256 pods with 8 volumes each, twice mounted) has about 4,000; at
/// 300 bytes each twice that is 2.4 MB.
const MOUNTS_MAX: usize = 8192;

/// Most bytes read: `MOUNTS_MAX` lines of 1,000 bytes, several times the usual length.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Samples in which an unchanged table is not read again, as a guard against a missed notification.
const UNCHANGED_MAX: u32 = 60;

/// Where kubelet keeps its files, unless told otherwise.
pub(crate) const KUBELET_ROOT: &str = "/var/lib/kubelet";

/// Reads the mount table when it has changed.
///
/// The kernel marks an open mountinfo file with `POLLPRI` when the table changes, so an idle node
/// pays one `poll` a sample instead of having thousands of lines printed.
#[derive(Debug)]
pub(crate) struct MountSensor {
    tree: HostTree,
    kubelet_root: Vec<u8>,
    open: Option<OpenTable>,
    bytes: Vec<u8>,
    unchanged: u32,
}

#[derive(Debug)]
struct OpenTable {
    file: File,
    /// Only the real file notifies; a copy of it in a directory tree does not.
    is_procfs: bool,
    table: MountTableSample,
}

impl MountSensor {
    /// `host_root` is where the host's `/` is seen.
    pub(crate) fn new(host_root: &Path) -> Self {
        MountSensor {
            tree: HostTree::new(host_root),
            kubelet_root: KUBELET_ROOT.as_bytes().to_vec(),
            open: None,
            bytes: Vec::new(),
            unchanged: 0,
        }
    }

    /// The same for a kubelet whose root, as the host has it, lies elsewhere.
    pub(crate) fn with_kubelet(mut self, root: &Path) -> Self {
        self.kubelet_root = super::tree::path_bytes(root);
        self
    }

    /// The mount table now.
    ///
    /// # Errors
    /// Neither `/proc/1/mountinfo` nor `/proc/self/mountinfo` can be read.
    pub(crate) fn sample(&mut self) -> Result<MountTableSample, String> {
        if let Some(open) = &self.open
            && open.is_procfs
            && self.unchanged < UNCHANGED_MAX
            && !has_changed(&open.file)
        {
            self.unchanged += 1;
            return Ok(open.table.clone());
        }
        self.unchanged = 0;
        let result = self.read_again();
        if result.is_err() {
            self.open = None;
        }
        result
    }

    fn read_again(&mut self) -> Result<MountTableSample, String> {
        let paths = [self.tree.path("proc/1/mountinfo"), self.tree.path("proc/self/mountinfo")];
        let failed = |error: io::Error| {
            format!(
                "could not read \"{}\": {error}; mount the host's /proc at --host-root",
                paths[0].display()
            )
        };
        let held = self.open.take().filter(|open| open.is_procfs).map(|open| open.file);
        let mut file = match held {
            Some(file) => file,
            None => File::open(&paths[0]).or_else(|_| File::open(&paths[1])).map_err(failed)?,
        };
        self.bytes.clear();
        file.rewind().map_err(failed)?;
        (&file).take(FILE_BYTES_MAX).read_to_end(&mut self.bytes).map_err(failed)?;
        let mut table = parse(&self.bytes);
        for mount in &mut table.mounts {
            attribute(&mut self.tree, &self.kubelet_root, mount);
        }
        let is_procfs = fstatfs(&file).is_ok_and(|fs| fs.filesystem_type() == PROC_SUPER_MAGIC);
        self.open = Some(OpenTable { file, is_procfs, table: table.clone() });
        Ok(table)
    }
}

/// Whose a mount is. Only kubelet's own file is read, on the node's disk, never anything of the volume.
fn attribute(tree: &mut HostTree, kubelet_root: &[u8], mount: &mut MountSample) {
    let Some(known) = kubelet_mount(&mount.mount_point, kubelet_root) else { return };
    mount.data = known.data_dir.map(|dir| vol_data::read(tree, dir));
    mount.role = Some(known.role);
}

fn has_changed(file: &File) -> bool {
    let mut fds = [PollFd::new(file.as_fd(), PollFlags::POLLPRI)];
    let changed = PollFlags::POLLPRI | PollFlags::POLLERR;
    match poll(&mut fds, PollTimeout::ZERO) {
        Ok(_) => fds[0].revents().is_none_or(|events| events.intersects(changed)),
        Err(_) => true,
    }
}

/// All lines of a mountinfo file; unusable ones are counted, and mounts of deleted directories left
/// out.
pub(crate) fn parse(bytes: &[u8]) -> MountTableSample {
    let mut table = MountTableSample::default();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match parse_line(line) {
            Some(mount) if mount.root.ends_with(b"//deleted") => {}
            Some(_) if table.mounts.len() >= MOUNTS_MAX => {
                table.dropped = table.dropped.saturating_add(1);
            }
            Some(mount) => table.mounts.push(mount),
            None => table.malformed_lines = table.malformed_lines.saturating_add(1),
        }
    }
    table
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
///
/// Fields are separated by exactly one space, since the source may be empty. After the dash one
/// more space may follow in odd producers; the filesystem type is never empty, so empty words
/// before it are passed over.
fn parse_line(line: &[u8]) -> Option<MountSample> {
    let mut words = line.split(|byte| *byte == b' ');
    let mount_id = decimal(words.next()?)?;
    let parent_id = decimal(words.next()?)?;
    let number = parse_number(words.next()?)?;
    let root = unescape(words.next()?);
    let mount_point = unescape(words.next()?);
    let options = lossy(words.next()?);
    words.find(|word| *word == b"-")?;
    let fs_type = words.find(|word| !word.is_empty())?;
    let source = words.next().filter(|word| !word.is_empty()).map(unescape);
    let super_options = lossy(words.next()?);
    if mount_point.is_empty() || root.is_empty() {
        return None;
    }
    Some(MountSample {
        mount_id,
        parent_id,
        number,
        root,
        mount_point,
        fs_type: lossy(&unescape(fs_type)),
        source,
        is_read_only: has_option(&options, "ro") || has_option(&super_options, "ro"),
        options,
        super_options,
        role: None,
        data: None,
    })
}

/// `259:3`
pub(super) fn parse_number(word: &[u8]) -> Option<DeviceNumber> {
    let colon = word.iter().position(|byte| *byte == b':')?;
    Some(DeviceNumber { major: decimal(&word[..colon])?, minor: decimal(&word[colon + 1..])? })
}

fn has_option(options: &str, wanted: &str) -> bool {
    options.split(',').any(|option| option == wanted)
}

/// Undoes the kernel's `\ooo` escapes: exactly three octal digits, in one pass, anything else as it
/// stands.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        match (first, after) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', left @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = left;
            }
            (byte, left) => {
                bytes.push(*byte);
                rest = left;
            }
        }
    }
    bytes
}
