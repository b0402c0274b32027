//! Limits that cgroups have on reads from block devices: `io.max` of the second version, and
//! `blkio.throttle.read_bps_device` of the first.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use sluice_core::sample::DeviceNumber;
use sluice_core::volume::bottleneck::CgroupLimit;

use crate::sensor::mounts::parse_number;
use crate::sensor::tree::{HostTree, decimal, words};

/// Where cgroups may be mounted, and the file that has the limits there.
const TREES: [(&str, &str); 3] = [
    ("sys/fs/cgroup", "io.max"),
    ("sys/fs/cgroup/unified", "io.max"),
    ("sys/fs/cgroup/blkio", "blkio.throttle.read_bps_device"),
];

/// Most cgroups looked at: a full node has about 256 pods with four each.
const CGROUPS_MAX: usize = 4_096;

/// Deepest nesting: kubepods, class, pod and container are four.
const DEPTH_MAX: usize = 8;

/// Longest file of limits: 128 disks with 80 bytes each.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The tightest limit on reads of each device, by any cgroup. Without cgroups there is none.
pub(super) fn read_limits(root: &Path) -> BTreeMap<DeviceNumber, CgroupLimit> {
    let mut tree = HostTree::new(root);
    let mut limits = BTreeMap::new();
    for (top, file) in TREES {
        let mut seen = 0;
        let mut waiting: Vec<(PathBuf, usize)> = vec![(PathBuf::from(top), 0)];
        while let Some((dir, depth)) = waiting.pop() {
            let path = format!("{}/{file}", dir.display());
            if let Ok(bytes) = tree.read(&path, FILE_BYTES_MAX) {
                let name = dir.strip_prefix(top).unwrap_or(&dir).display().to_string();
                keep_tightest(&mut limits, bytes, &name);
            }
            seen += 1;
            if depth < DEPTH_MAX && seen < CGROUPS_MAX {
                waiting.extend(below(&root.join(&dir), &dir).map(|dir| (dir, depth + 1)));
                waiting.truncate(CGROUPS_MAX);
            }
        }
    }
    limits
}

fn below(real: &Path, dir: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(real).into_iter().flatten().filter_map(Result::ok);
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| dir.join(entry.file_name()))
}

fn keep_tightest(limits: &mut BTreeMap<DeviceNumber, CgroupLimit>, bytes: &[u8], cgroup: &str) {
    for (number, read_bytes_per_second) in bytes.split(|byte| *byte == b'\n').filter_map(line) {
        let limit = CgroupLimit { cgroup: format!("/{cgroup}"), read_bytes_per_second };
        let known = limits.entry(number).or_insert_with(|| limit.clone());
        if limit.read_bytes_per_second < known.read_bytes_per_second {
            *known = limit;
        }
    }
}

/// `259:4 rbps=1048576 wbps=max riops=max wiops=max`, or `259:4 1048576`.
fn line(line: &[u8]) -> Option<(DeviceNumber, u64)> {
    let mut words = words(line);
    let number = parse_number(words.next()?)?;
    let limit = words.find_map(|word| decimal(word.strip_prefix(b"rbps=").unwrap_or(word)))?;
    Some((number, limit))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{DeviceNumber, line, read_limits};

    #[test]
    fn limit_on_reads_is_found_in_both_versions() {
        let number = DeviceNumber { major: 259, minor: 4 };
        let check = |text: &str, expected| assert_eq!(line(text.as_bytes()), expected, "{text}");
        check("259:4 rbps=1048576 wbps=max riops=max wiops=max", Some((number, 1_048_576)));
        check("259:4 rbps=max wbps=5 riops=max wiops=max", None);
        check("259:4 1048576", Some((number, 1_048_576)));
        check("259:4", None);
        check("259 5", None);
        check("", None);
    }

    #[test]
    fn tightest_limit_of_all_cgroups_counts() {
        let root = tempfile::tempdir().unwrap();
        let put = |dir: &str, file: &str, text: &str| {
            let dir = root.path().join("sys/fs/cgroup").join(dir);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(file), text).unwrap();
        };
        put("kubepods/pod1", "io.max", "259:4 rbps=500 wbps=max riops=max wiops=max\n8:0 rbps=9\n");
        put("kubepods/pod2/main", "io.max", "259:4 rbps=400 wbps=max riops=max wiops=max\n");
        put("blkio/pod3", "blkio.throttle.read_bps_device", "259:4 450\n");
        let limits = read_limits(root.path());
        let shown: Vec<(String, &str, u64)> = limits
            .iter()
            .map(|(n, limit)| (n.to_string(), &*limit.cgroup, limit.read_bytes_per_second))
            .collect();
        let expected = [("8:0", "/kubepods/pod1", 9), ("259:4", "/kubepods/pod2/main", 400)];
        assert_eq!(shown, expected.map(|(n, cgroup, limit)| (n.to_owned(), cgroup, limit)));
        assert!(read_limits(&root.path().join("nowhere")).is_empty());
    }
}
