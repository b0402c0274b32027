//! The trees of cgroups: where a pod's containers are in them, and which processes those hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use sluice_core::pod::{PodUid, of_cgroup};

use super::PodError;

/// Directories looked at in one search: 256 pods with four cgroups each are a full node; the first version has them in
/// each of a dozen hierarchies, of which one is looked through at a time.
const DIRS_MAX: usize = 65_536;

/// Deepest nesting. kubelet's own is four below its root; who nests further in a container gets some more.
const DEPTH_MAX: usize = 24;

/// Longest list of processes that is read: a million of them.
const PROCS_BYTES_MAX: u64 = 8 << 20;

/// Hierarchies of the first version in the order in which they are looked through: every one has all containers, and
/// those come first into which runtimes put processes before they let them run.
const FIRST: [&str; 7] =
    ["unified", "systemd", "pids", "memory", "freezer", "cpu,cpuacct", "devices"];

/// The mounted trees.
#[derive(Debug, Clone)]
pub(crate) struct CgroupTree {
    root: PathBuf,
}

/// A container's cgroup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Container {
    /// Where it is, below the root.
    pub(crate) path: String,
    /// Its processes and those of all cgroups within it.
    pub(crate) pids: BTreeSet<u32>,
    /// Processes without an id in this agent's namespace.
    pub(crate) hidden: usize,
}

impl Container {
    pub(crate) fn process_count(&self) -> usize {
        self.pids.len().saturating_add(self.hidden)
    }
}

impl CgroupTree {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The containers of `pod` by id, with the processes they hold now.
    ///
    /// # Errors
    /// No hierarchy knows the pod.
    pub(crate) fn containers(&self, pod: &PodUid) -> Result<BTreeMap<String, Container>, PodError> {
        let mut is_known = false;
        let mut best: BTreeMap<String, Container> = BTreeMap::new();
        for hierarchy in self.hierarchies() {
            let Some(found) = self.search(&hierarchy, pod) else { continue };
            is_known = true;
            for (id, container) in found {
                let known = best.entry(id).or_insert_with(|| container.clone());
                // A hierarchy that a runtime does not use has the cgroup without the processes.
                if known.process_count() == 0 {
                    *known = container;
                }
            }
            if best.values().any(|container| container.process_count() > 0) {
                break;
            }
        }
        if is_known {
            Ok(best)
        } else {
            let root = self.root.display().to_string();
            Err(PodError::NoSuchPod { uid: pod.clone(), root })
        }
    }

    /// One tree of the second version, or the hierarchies of the first, which may have one of the second beside them.
    fn hierarchies(&self) -> Vec<PathBuf> {
        if self.root.join("cgroup.controllers").exists() {
            return vec![self.root.clone()];
        }
        let mut names: Vec<String> = directories(&self.root).collect();
        let place = |name: &String| FIRST.iter().position(|first| first == name);
        names.sort_by_key(|name| (place(name).unwrap_or(FIRST.len()), name.clone()));
        names.iter().map(|name| self.root.join(name)).collect()
    }

    /// The containers of `pod` in one hierarchy; `None` if it does not know the pod.
    fn search(&self, hierarchy: &Path, pod: &PodUid) -> Option<BTreeMap<String, Container>> {
        let mut found = None;
        let mut waiting = vec![(hierarchy.to_owned(), String::new(), 0)];
        let mut seen = 0;
        while let Some((dir, path, depth)) = waiting.pop() {
            for name in directories(&dir) {
                seen += 1;
                let (child, path) = (dir.join(&name), format!("{path}/{name}"));
                let whose = of_cgroup(&path);
                if whose.as_ref().is_some_and(|whose| whose.pod != *pod) || seen > DIRS_MAX {
                    continue;
                }
                let containers = whose.as_ref().map(|_| found.get_or_insert_with(BTreeMap::new));
                match containers.zip(whose.and_then(|whose| whose.container)) {
                    Some((containers, id)) => {
                        let below = self.shown(&child);
                        let container = containers
                            .entry(id)
                            .or_insert_with(|| Container { path: below, ..Container::default() });
                        gather(&child, container);
                    }
                    None if depth < DEPTH_MAX => waiting.push((child, path, depth + 1)),
                    None => {}
                }
            }
        }
        found
    }

    fn shown(&self, dir: &Path) -> String {
        let below = dir.strip_prefix(&self.root).unwrap_or(dir);
        format!("/{}", below.display())
    }
}

/// Adds the processes of a cgroup and of all within it.
fn gather(dir: &Path, container: &mut Container) {
    let mut waiting = vec![(dir.to_owned(), 0)];
    let mut seen = 0;
    while let Some((dir, depth)) = waiting.pop() {
        seen += 1;
        let mut text = String::new();
        let file = File::open(dir.join("cgroup.procs"));
        let read = file.and_then(|f| f.take(PROCS_BYTES_MAX).read_to_string(&mut text));
        if read.is_ok() {
            for pid in text.lines().filter_map(|line| line.parse::<u32>().ok()) {
                if pid == 0 {
                    container.hidden += 1;
                } else {
                    container.pids.insert(pid);
                }
            }
        }
        if depth < DEPTH_MAX && seen < DIRS_MAX {
            waiting.extend(directories(&dir).map(|name| (dir.join(name), depth + 1)));
        }
    }
}

/// Names of directories in `dir`; links are not followed. What has gone meanwhile has none.
fn directories(dir: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.take(DIRS_MAX).map(|entry| entry.file_name().to_string_lossy().into_owned())
}
