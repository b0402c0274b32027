//! Directories of a pod as this agent sees them.
//!
//! A path means something else in a container, and what it means is gone with the process. So a directory is looked up
//! through the process, without leaving its root by any link, and then found again among the mounts of the host: there
//! it stays for as long as the volume is mounted.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use sluice_core::pod::PodUid;
use sluice_core::sample::MountSample;

use super::PodError;
use crate::sensor::mounts;

/// Longest name of a volume: a DNS label.
const VOLUME_BYTES_MAX: usize = 63;

/// Most bytes of a process's mount table: some thousand lines.
const MOUNTS_BYTES_MAX: u64 = 8 << 20;

/// An absolute path of the host below where its `/` is seen. Steps upwards are left out.
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
    parts.fold(root.to_owned(), |path, part| path.join(part))
}

pub(super) fn directory(host_root: &Path, pid: u32, path: &str) -> Result<String, PodError> {
    let failed = |source| PodError::NoDirectory { pid, path: path.to_owned(), source };
    let process = host_root.join(format!("proc/{pid}"));
    let (inside, meta) = open(&process.join("root"), path).map_err(failed)?;
    let on_host = on_host(host_root, &process, &inside).filter(|path| is_same(path, &meta));
    let place = on_host.unwrap_or_else(|| below(&process.join("root"), &inside));
    if !is_same(&place, &meta) {
        return Err(failed(io::Error::other("it cannot be found from outside of the pod")));
    }
    let text = place.into_os_string().into_string();
    text.map_err(|_| failed(io::Error::other("its name outside of the pod is not UTF-8")))
}

pub(super) fn empty_dir(root: &Path, pod: &PodUid, volume: &str) -> Result<String, PodError> {
    let is_label = !volume.is_empty()
        && volume.len() <= VOLUME_BYTES_MAX
        && volume.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !is_label {
        return Err(PodError::BadVolume { volume: volume.to_owned() });
    }
    let dir = root.join(format!("pods/{pod}/volumes/kubernetes.io~empty-dir/{volume}"));
    let failed = |source| PodError::NoVolume {
        uid: pod.clone(),
        volume: volume.to_owned(),
        path: dir.display().to_string(),
        source,
    };
    let meta = fs::symlink_metadata(&dir).map_err(failed)?;
    if !meta.is_dir() {
        return Err(failed(io::Error::from(io::ErrorKind::NotADirectory)));
    }
    dir.to_str().map(str::to_owned).ok_or_else(|| failed(io::Error::other("it is not UTF-8")))
}

/// Opens `path` as the process would, and says what it is there without links, and which directory it is.
fn open(root: &Path, path: &str) -> io::Result<(PathBuf, Metadata)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags, Mode::empty())?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let dir = rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve)?;
    let inside = fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd()))?;
    let from_root = fs::read_link(format!("/proc/self/fd/{}", root.as_raw_fd()))?;
    // A process that has changed its root sees less than its mount table.
    let inside = inside.strip_prefix(&from_root).map(|p| Path::new("/").join(p)).unwrap_or(inside);
    Ok((inside, fs::File::from(dir).metadata()?))
}

/// Where the host has what the process has at `inside`: by the file system that is mounted there, and the part of it.
fn on_host(host_root: &Path, process: &Path, inside: &Path) -> Option<PathBuf> {
    let theirs = mounts_of(process)?;
    let ours =
        mounts_of(&host_root.join("proc/1")).or_else(|| mounts_of(&host_root.join("proc/self")))?;
    let mounted = deepest(&theirs, inside, |mount| &mount.mount_point)?;
    let rest = inside.strip_prefix(path(&mounted.mount_point)).ok()?;
    let real = path(&mounted.root).join(rest);
    let same: Vec<MountSample> =
        ours.into_iter().filter(|mount| mount.number == mounted.number).collect();
    let host = deepest(&same, &real, |mount| &mount.root)?;
    let rest = real.strip_prefix(path(&host.root)).ok()?;
    Some(below(host_root, &path(&host.mount_point).join(rest)))
}

fn mounts_of(process: &Path) -> Option<Vec<MountSample>> {
    use io::Read as _;
    let mut bytes = Vec::new();
    let file = fs::File::open(process.join("mountinfo")).ok()?;
    file.take(MOUNTS_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(mounts::parse(&bytes).mounts)
}

/// The mount of which `part` is the longest beginning of `wanted`; of several the one mounted last.
fn deepest<'a>(
    mounts: &'a [MountSample],
    wanted: &Path,
    part: impl Fn(&MountSample) -> &Vec<u8>,
) -> Option<&'a MountSample> {
    let begins = mounts.iter().filter(|mount| wanted.starts_with(path(part(mount))));
    begins.max_by_key(|mount| part(mount).len())
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn is_same(path: &Path, meta: &Metadata) -> bool {
    let there = fs::metadata(path);
    there.is_ok_and(|there| (there.dev(), there.ino()) == (meta.dev(), meta.ino()))
}
