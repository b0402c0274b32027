//! Pods as a node sees them: which pod and container a cgroup belongs to, from its path alone.
//!
//! kubelet has two ways of naming cgroups (the drivers systemd and cgroupfs), container runtimes add theirs, and all of
//! it may lie below any prefix (`--cgroup-root` of kubelet, a node that is itself a container, a namespace of cgroups
//! in which paths begin with `/../`). So no path is compared from its start: each part is looked at for itself.
//! Paths are made by programs of others; what does not look like theirs is nobody's pod.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

/// Digits of a container's id, as containerd, CRI-O and Docker make them.
const CONTAINER_DIGITS: usize = 64;

/// Identity of a pod: a UUID; of a static pod the hash of its manifest, 32 digits without dashes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodUid(String);

/// What is no uid of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPodUid;

impl fmt::Display for BadPodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a UUID such as 4d6ec2c1-8a5b-4d3e-9d0a-6f5b1c2d3e4f, or the 32 digits of a static pod",
        )
    }
}

impl std::error::Error for BadPodUid {}

impl FromStr for PodUid {
    type Err = BadPodUid;

    /// Takes the underscores that the driver systemd writes for dashes, too.
    fn from_str(text: &str) -> Result<Self, BadPodUid> {
        let text = text.to_ascii_lowercase().replace('_', "-");
        let is_digit = |b: u8| b.is_ascii_hexdigit();
        let is_uuid = text.len() == 36
            && text.bytes().enumerate().all(|(i, b)| match i {
                8 | 13 | 18 | 23 => b == b'-',
                _ => is_digit(b),
            });
        let is_hash = text.len() == 32 && text.bytes().all(is_digit);
        if is_uuid || is_hash { Ok(Self(text)) } else { Err(BadPodUid) }
    }
}

impl PodUid {
    /// As Kubernetes writes it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whose a cgroup is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCgroup {
    /// The pod.
    pub pod: PodUid,
    /// The container; `None` for the pod's own cgroup, and for what a runtime keeps beside the containers.
    pub container: Option<String>,
}

/// A pod that is a worker: which of its processes, and who ends them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodWorker {
    /// The pod.
    pub uid: PodUid,
    /// The container that trains.
    pub container: String,
    /// For people: `namespace/name`.
    pub name: String,
    /// kubelet ends it, once somebody has deleted or suspended the pod: a second SIGTERM would cut off what it does on
    /// the first, and a container that ends before its pod is taken back is started again in its place.
    pub is_ended_by_kubelet: bool,
}

impl PodWorker {
    /// True if a process with this content of `/proc/PID/cgroup` belongs to it. With the first version of cgroups there
    /// is a line for each hierarchy; one that knows the pod is enough.
    #[must_use]
    pub fn has(&self, cgroups: &str) -> bool {
        let found = of_process(cgroups);
        found.is_some_and(|c| c.pod == self.uid && c.container.as_deref() == Some(&self.container))
    }
}

/// The pod and container of a process, from its `/proc/PID/cgroup`.
#[must_use]
pub fn of_process(cgroups: &str) -> Option<PodCgroup> {
    let paths = cgroups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut found = None;
    for cgroup in paths.filter_map(of_cgroup) {
        if cgroup.container.is_some() {
            return Some(cgroup);
        }
        found.get_or_insert(cgroup);
    }
    found
}

/// The pod and container that the cgroup at `path` belongs to.
#[must_use]
pub fn of_cgroup(path: &str) -> Option<PodCgroup> {
    let mut parts = path.split('/');
    let (pod, joined) = parts.find_map(pod_part)?;
    let container = match joined {
        Some(container) => container_part(container),
        None => parts.next().and_then(container_part),
    };
    Some(PodCgroup { pod, container: container.map(str::to_owned) })
}

/// `kubepods-burstable-pod4d6ec2c1_8a5b_….slice`, `pod4d6ec2c1-8a5b-…`; where the drivers of kubelet and runtime differ
/// also `kubepods-…-pod….slice:cri-containerd:<id>`, which names the container in the same part.
fn pod_part(part: &str) -> Option<(PodUid, Option<&str>)> {
    let (name, container) = match part.split_once(':') {
        Some((name, rest)) => (name, rest.rsplit(':').next()),
        None => (part, None),
    };
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let uid = name.strip_prefix("pod").or_else(|| name.rsplit_once("-pod").map(|(_, uid)| uid))?;
    Some((uid.parse().ok()?, container))
}

/// `cri-containerd-<id>.scope`, `crio-<id>.scope`, `docker-<id>.scope`, `crio-<id>`, `<id>`. What watches a container
/// (`crio-conmon-<id>.scope`) is none.
fn container_part(part: &str) -> Option<&str> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let (runtime, id) = name.rsplit_once('-').unwrap_or(("", name));
    let is_id = id.len() == CONTAINER_DIGITS && id.bytes().all(|b| b.is_ascii_hexdigit());
    (is_id && !runtime.ends_with("conmon")).then_some(id)
}

/// The digits of a container's id as Kubernetes writes it, `containerd://<id>`, or without the scheme.
#[must_use]
pub fn container_id(text: &str) -> Option<&str> {
    container_part(text.rsplit_once("://").map_or(text, |(_, id)| id))
        .filter(|id| text.ends_with(id))
}
