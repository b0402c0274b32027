//! Registration of pods: a container's processes become a worker.

use std::sync::Arc;
use std::time::Duration;

use sluice::net::Peer;
use sluice::wire::{WireError, pb};
use sluice_core::agent::Registration;
use sluice_core::pod::{self, PodUid, PodWorker};
use tonic::Status;

use super::register::{WorkersService, bad, status};
use crate::pods::{FoundPod, PodError, Pods};
use crate::signals::Target;

/// Longest search: the process table and the trees of cgroups of a full node take some ten milliseconds; one that hangs
/// in the kernel for this long does not come back soon.
const FIND_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest names of a pod and its namespace in Kubernetes.
const NAME_BYTES_MAX: usize = 253;

/// A pod that was found, ready to be registered.
struct Ready {
    found: FoundPod,
    target: Target,
    checkpoint_dir: String,
    drain_dir: String,
}

impl WorkersService {
    /// Finds the pod's processes and registers them.
    pub(super) async fn register_found(
        &self,
        peer: Option<Peer>,
        request: pb::RegisterPodRequest,
    ) -> Result<pb::RegisterPodResponse, Status> {
        check_peer(peer)?;
        let uid: PodUid = request.pod_uid.parse().map_err(|expected| {
            Status::from(WireError::new("pod_uid", &request.pod_uid, expected))
        })?;
        let container = match request.container_id.as_str() {
            "" => None,
            id => Some(pod::container_id(id).map(str::to_owned).ok_or_else(|| {
                bad("container_id", id, "a container's id as in status.containerStatuses, or empty")
            })?),
        };
        let name = name(&request)?;
        let mut registration = self.check(&as_register(&request))?;
        let ready = self.look(uid.clone(), container, &registration, request.drain_volume).await?;
        let Ready { found, target, checkpoint_dir, drain_dir } = ready;
        registration.pid = found.main.pid;
        registration.start_time_ticks = found.main.start_time_ticks;
        registration.checkpoint_dir = checkpoint_dir;
        registration.drain_dir = drain_dir;
        let is_ended_by_kubelet = request.ending == i32::from(pb::PodEnding::Kubelet);
        let container = found.container.clone();
        registration.pod = Some(PodWorker { uid, container, name, is_ended_by_kubelet });
        self.check_free(&registration.worker, registration.pid)?;
        let response = pb::RegisterPodResponse {
            node: self.node(),
            container_id: found.container,
            cgroup: found.cgroup,
            pid: registration.pid,
            rank_pids: found.ranks.iter().map(|rank| rank.pid).collect(),
            checkpoint_dir: registration.checkpoint_dir.clone(),
            drain_dir: registration.drain_dir.clone(),
        };
        self.take(registration, Arc::new(target)).await?;
        Ok(response)
    }

    /// What has to be looked up, on a thread that may block.
    async fn look(
        &self,
        uid: PodUid,
        container: Option<String>,
        registration: &Registration,
        drain_volume: String,
    ) -> Result<Ready, Status> {
        let (pods, dir) = (self.pods.clone(), registration.checkpoint_dir.clone());
        let looking = tokio::task::spawn_blocking(move || {
            look(&pods, &uid, container.as_deref(), &dir, &drain_volume)
        });
        match tokio::time::timeout(FIND_TIMEOUT, looking).await {
            Ok(Ok(ready)) => ready,
            Ok(Err(_)) => Err(Status::unavailable("the agent is stopping; register again")),
            Err(_) => Err(Status::deadline_exceeded(
                "the pod's processes or directories do not answer; look for a hung file system, and register again",
            )),
        }
    }
}

fn look(
    pods: &Pods,
    uid: &PodUid,
    container: Option<&str>,
    checkpoint_dir: &str,
    drain_volume: &str,
) -> Result<Ready, Status> {
    let refused = |error: PodError| match error {
        PodError::BadVolume { .. } => Status::invalid_argument(error.to_string()),
        PodError::NoSuchPod { .. } | PodError::NoSuchContainer { .. } => {
            Status::not_found(error.to_string())
        }
        PodError::Empty { .. }
        | PodError::Hidden { .. }
        | PodError::SeveralContainers { .. }
        | PodError::NoDirectory { .. }
        | PodError::NoVolume { .. } => Status::failed_precondition(error.to_string()),
    };
    let found = pods.find(uid, container).map_err(refused)?;
    let (pid, ticks) = (found.main.pid, found.main.start_time_ticks);
    let target = Target::open(pid, ticks).map_err(|why| status(&why))?;
    let of = PodWorker {
        uid: uid.clone(),
        container: found.container.clone(),
        name: String::new(),
        is_ended_by_kubelet: false,
    };
    target.check_pod(&of).map_err(|why| status(&why))?;
    let checkpoint_dir = match checkpoint_dir {
        "" => String::new(),
        dir => pods.directory(pid, dir).map_err(refused)?,
    };
    let drain_dir = match drain_volume {
        "" => String::new(),
        volume => pods.empty_dir(uid, volume).map_err(refused)?,
    };
    Ok(Ready { found, target, checkpoint_dir, drain_dir })
}

/// What both kinds of registration have in common.
fn as_register(request: &pb::RegisterPodRequest) -> pb::RegisterRequest {
    pb::RegisterRequest {
        workload: request.workload.clone(),
        attempt: request.attempt,
        rank: request.rank,
        world_size: request.world_size,
        pid: 0,
        checkpoint_dir: request.checkpoint_dir.clone(),
        checkpoint_format: request.checkpoint_format,
        devices: request.devices.clone(),
        checkpoint_rules: request.checkpoint_rules.clone(),
        drain_dir: String::new(),
    }
}

fn name(request: &pb::RegisterPodRequest) -> Result<String, Status> {
    let check = |field: &str, text: &str| {
        let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
        if text.len() <= NAME_BYTES_MAX && text.bytes().all(is_name) {
            return Ok(());
        }
        let shown: String = text.chars().take(64).collect();
        Err(bad(field, shown.escape_default(), "a name as Kubernetes has them"))
    };
    check("pod_namespace", &request.pod_namespace)?;
    check("pod_name", &request.pod_name)?;
    Ok(format!("{}/{}", request.pod_namespace, request.pod_name))
}

/// Whoever registers a pod makes processes of any user targets of signals.
fn check_peer(peer: Option<Peer>) -> Result<(), Status> {
    let own = rustix::process::geteuid().as_raw();
    match peer {
        Some(Peer::Unix { uid, .. }) if uid == 0 || uid == own => Ok(()),
        Some(_) | None => Err(Status::permission_denied(
            "only root and the agent's own user may register pods, on the agent's unix socket",
        )),
    }
}
