//! Pods of this node: their cgroups, the process of a container that is the worker, and its directories as this agent
//! sees them.
//!
//! Processes are taken from cgroups and never from names or parents: whatever a container starts stays in its cgroup,
//! and nothing else gets in. Found is what is there now; who is signalled is checked again each time.

mod choose;
mod error;
mod place;
#[cfg(test)]
mod tests;
mod tree;

use std::path::{Path, PathBuf};

use sluice_core::pod::{PodUid, PodWorker};
use sluice_core::sample::ProcessKey;

use crate::sensor::process::ProcessSensor;

pub(crate) use self::error::PodError;
pub(crate) use self::tree::CgroupTree;

/// Where cgroups are mounted, unless told otherwise.
pub(crate) const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// Where the host has what pods leave.
#[derive(Debug, Clone)]
pub(crate) struct Pods {
    host_root: PathBuf,
    kubelet_root: PathBuf,
    cgroups: CgroupTree,
}

/// A container that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundPod {
    /// Its id.
    pub(crate) container: String,
    /// Its cgroup, below the mount.
    pub(crate) cgroup: String,
    /// Its first process, which gets SIGTERM when it is ended.
    pub(crate) main: ProcessKey,
    /// Those that train.
    pub(crate) ranks: Vec<ProcessKey>,
}

impl Pods {
    /// `kubelet_root` and `cgroup_root` as the host has them, whose `/` is at `host_root`.
    pub(crate) fn new(host_root: &Path, kubelet_root: &Path, cgroup_root: &Path) -> Self {
        let cgroups = CgroupTree::new(&place::below(host_root, cgroup_root));
        Self { host_root: host_root.to_owned(), kubelet_root: kubelet_root.to_owned(), cgroups }
    }

    /// Finds the container of `pod` that trains: the one named, or the only one that looks like it. Blocks: the whole
    /// process table is read.
    ///
    /// # Errors
    /// It is not there, has no processes, or is one of several that look alike.
    pub(crate) fn find(&self, pod: &PodUid, container: Option<&str>) -> Result<FoundPod, PodError> {
        let containers = self.cgroups.containers(pod)?;
        let mut sensor = ProcessSensor::new(&self.host_root, None);
        choose::container(pod, container, &containers, &mut sensor)
    }

    /// Whether a process is left in the container's cgroups, by what the cgroups themselves say.
    pub(crate) fn is_populated(&self, pod: &PodWorker) -> bool {
        let containers = self.cgroups.containers(&pod.uid).unwrap_or_default();
        containers.get(&pod.container).is_some_and(|c| c.process_count() > 0)
    }

    /// A directory that process `pid` knows as `path`, as this agent can open it for as long as the volume is there.
    ///
    /// # Errors
    /// It is not there, or is no directory.
    pub(crate) fn directory(&self, pid: u32, path: &str) -> Result<String, PodError> {
        place::directory(&self.host_root, pid, path)
    }

    /// The directory of an `emptyDir` of `pod`.
    ///
    /// # Errors
    /// `volume` is no name of a volume; it is not there.
    pub(crate) fn empty_dir(&self, pod: &PodUid, volume: &str) -> Result<String, PodError> {
        let root = place::below(&self.host_root, &self.kubelet_root);
        place::empty_dir(&root, pod, volume)
    }
}
