//! Why a pod cannot be taken for a worker.

use std::io;

use sluice_core::pod::PodUid;

/// What is wrong with a pod, or with where it was looked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PodError {
    /// No cgroup has its uid.
    #[error(
        "no cgroup of pod {uid} is below \"{root}\"; is it on this node, and is --cgroup-root where the host's cgroups are mounted?"
    )]
    NoSuchPod { uid: PodUid, root: String },
    /// Its cgroups are there without a process.
    #[error("no process runs in pod {uid}; register it once its container has started")]
    Empty { uid: PodUid },
    /// There are processes, and this agent cannot see them.
    #[error(
        "the processes of pod {uid} have no ids here; the agent needs the host's process namespace (hostPID: true)"
    )]
    Hidden { uid: PodUid },
    /// The container named is not there.
    #[error("pod {uid} has no container {wanted} with processes; it has: {known}")]
    NoSuchContainer { uid: PodUid, wanted: String, known: String },
    /// Several could be meant.
    #[error(
        "pod {uid} has {count} containers that may be the worker ({known}); name it in container_id"
    )]
    SeveralContainers { uid: PodUid, count: usize, known: String },
    /// A directory of its is not there.
    #[error(
        "directory {path:?} of process {pid} cannot be opened: {source}; it must be there when the pod is registered"
    )]
    NoDirectory { pid: u32, path: String, source: io::Error },
    /// The volume's name is none.
    #[error("drain_volume is {volume:?} but must be the name of an emptyDir of the pod")]
    BadVolume { volume: String },
    /// The volume is not there.
    #[error(
        "pod {uid} has no emptyDir {volume:?} at \"{path}\": {source}; declare it, or say with --kubelet-root where kubelet keeps its files"
    )]
    NoVolume { uid: PodUid, volume: String, path: String, source: io::Error },
}
