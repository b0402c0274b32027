//! Small, bounded reads below the host's root: the agent may run in a container with the host
//! mounted elsewhere.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Most bytes taken of a sysfs attribute: the kernel gives at most a page.
const ATTRIBUTE_BYTES_MAX: usize = 4096;

/// Reads files below a root, with buffers kept from one read to the next.
#[derive(Debug)]
pub(super) struct HostTree {
    root: PathBuf,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl HostTree {
    /// `root` is where the host's `/` is seen: `/`, or `/host` in a container.
    pub(super) fn new(root: &Path) -> Self {
        HostTree { root: root.to_owned(), path: PathBuf::new(), bytes: Vec::new() }
    }

    /// The first `bytes_max` bytes of a file; `relative` has no leading slash.
    ///
    /// # Errors
    /// Whatever opening or reading answers, with nothing added: absence is often no error at all.
    pub(super) fn read(&mut self, relative: &str, bytes_max: u64) -> io::Result<&[u8]> {
        self.path.clear();
        self.path.push(&self.root);
        self.path.push(relative);
        self.bytes.clear();
        File::open(&self.path)?.take(bytes_max).read_to_end(&mut self.bytes)?;
        Ok(&self.bytes)
    }

    /// A file of at most 4096 bytes that the kernel gives to one `read`, such as a sysfs attribute:
    /// a second `read` to see the end is spared. `None` where it cannot be read.
    pub(super) fn attribute(&mut self, relative: &str) -> Option<&[u8]> {
        self.path.clear();
        self.path.push(&self.root);
        self.path.push(relative);
        self.bytes.resize(ATTRIBUTE_BYTES_MAX, 0);
        let len = File::open(&self.path).ok()?.read(&mut self.bytes).ok()?;
        Some(&self.bytes[..len])
    }

    /// A sysfs attribute as trimmed text. `None`: absent, unreadable, empty or not UTF-8.
    pub(super) fn text(&mut self, relative: &str) -> Option<String> {
        let bytes = self.attribute(relative)?;
        let text =
            std::str::from_utf8(bytes).ok()?.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// A sysfs attribute as a number. `None` as for [`HostTree::text`], and where it is no number
    /// of that type.
    pub(super) fn number<N: FromStr>(&mut self, relative: &str) -> Option<N> {
        let bytes = self.attribute(relative)?;
        std::str::from_utf8(bytes).ok()?.trim().parse().ok()
    }

    /// Whether something is there.
    pub(super) fn exists(&self, relative: &str) -> bool {
        self.root.join(relative).exists()
    }

    /// Up to `names_max` names in a directory, sorted, those that are not UTF-8 left out.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub(super) fn names(&self, relative: &str, names_max: usize) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.root.join(relative))?;
        let names =
            entries.take(names_max).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The last component of what a link points to. `None`: no link, or nothing to be named.
    pub(super) fn link_name(&self, relative: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(relative)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// The name of the directory that the directory `relative` really lies in.
    pub(super) fn parent_name(&self, relative: &str) -> Option<String> {
        let real = fs::canonicalize(self.root.join(relative)).ok()?;
        Some(real.parent()?.file_name()?.to_str()?.to_owned())
    }

    /// The path in the host's tree, for messages and for opening files that are held open.
    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }
}

/// The words of a line, split at runs of spaces and tabs.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// A decimal number of `N`'s range; no sign, no surrounding text.
pub(super) fn decimal<N: FromStr>(word: &[u8]) -> Option<N> {
    if word.is_empty() || !word.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Bytes as text for display.
pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Bytes of a path, owned.
pub(super) fn path_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}
