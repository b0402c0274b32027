//! Registration of workers: who may, and what has to be true of the process.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluice::net::Peer;
use sluice::wire::pb::workers_server::Workers;
use sluice::wire::{WireError, checkpoint, field, pb};
use sluice_core::agent::{Registration, WORKERS_MAX};
use sluice_core::id::{DeviceId, WorkerId};
use tokio::sync::{mpsc, oneshot};
use tonic::{Request, Response, Status};

use crate::executor::{Message, WORKER_NAME_BYTES_MAX, journal_bytes};
use crate::pods::Pods;
use crate::report::Reporter;
use crate::signals::{ProcessIdentity, SignalError, Target};

/// Longest path of a checkpoint directory. Source: `PATH_MAX` of Linux.
const PATH_BYTES_MAX: usize = 4_096;

/// Most devices of one worker; the largest hosts have 16.
const DEVICES_MAX: usize = 64;

/// Longest wait for a checkpoint directory to say what it is. One that hangs is taken as it is named: it may be back
/// when the checkpoint is due.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// Takes registrations.
#[derive(Debug)]
pub(crate) struct WorkersService {
    reporter: Reporter,
    messages: mpsc::Sender<Message>,
    pub(super) pods: Pods,
}

impl WorkersService {
    pub(crate) fn new(reporter: Reporter, messages: mpsc::Sender<Message>, pods: Pods) -> Self {
        Self { reporter, messages, pods }
    }

    pub(super) fn node(&self) -> String {
        self.reporter.identity.node.clone()
    }

    /// Hands a registration to the owner of the state; it is durable on return.
    pub(super) async fn take(
        &self,
        registration: Registration,
        target: Arc<Target>,
    ) -> Result<(), Status> {
        let (reply, replied) = oneshot::channel();
        let message = Message::Register { registration, target, reply };
        let stopping =
            || Status::unavailable("the agent is stopping; register again when it is back");
        self.messages.send(message).await.map_err(|_| stopping())?;
        replied.await.map_err(|_| {
            Status::unavailable(
                "the registration was not taken: the agent is stopping or full; register again",
            )
        })
    }

    /// Checks everything that can be checked without the process.
    pub(super) fn check(&self, request: &pb::RegisterRequest) -> Result<Registration, Status> {
        let worker = field::worker_id(&request.workload, request.attempt, request.rank)?;
        if journal_bytes(&worker.to_string()) > WORKER_NAME_BYTES_MAX {
            return Err(bad("workload", &worker, "a name short enough for a file's name"));
        }
        if request.rank >= request.world_size {
            return Err(bad(
                "rank",
                request.rank,
                format!("below world_size, {}", request.world_size),
            ));
        }
        if request.devices.len() > DEVICES_MAX {
            return Err(bad(
                "devices",
                request.devices.len(),
                format!("at most {DEVICES_MAX} names"),
            ));
        }
        let devices: BTreeSet<DeviceId> = field::names("devices", &request.devices)?;
        self.check_devices(&devices)?;
        let checkpoint_format = checkpoint::format(request.checkpoint_format)?;
        let rules = request.checkpoint_rules.as_ref();
        Ok(Registration {
            worker,
            world_size: request.world_size,
            pid: request.pid,
            start_time_ticks: 0,
            checkpoint_dir: checked_path("checkpoint_dir", &request.checkpoint_dir)?,
            checkpoint_format,
            checkpoint_rules: checkpoint::rules(rules, checkpoint_format)?,
            devices,
            drain_dir: checked_path("drain_dir", &request.drain_dir)?,
            pod: None,
        })
    }

    /// A device that is not on this node is a mistake; before the first sample nothing is known.
    fn check_devices(&self, devices: &BTreeSet<DeviceId>) -> Result<(), Status> {
        let sample = self.reporter.sensors.sample().devices;
        let Some(known) = sample.value else { return Ok(()) };
        match devices.iter().find(|id| !known.iter().any(|device| device.id == id.as_str())) {
            None => Ok(()),
            Some(unknown) => {
                let node = &self.reporter.identity.node;
                Err(bad("devices", unknown, format!("a device of node {node:?}")))
            }
        }
    }

    /// There must be room, and the name must not stand for another live process.
    pub(super) fn check_free(&self, worker: &WorkerId, pid: u32) -> Result<(), Status> {
        let view = self.reporter.view.borrow().clone();
        let known = view.agent.workers();
        match known.get(worker) {
            Some(other) if other.exit.is_none() && other.registration.pid != pid => {
                Err(Status::already_exists(format!(
                    "worker \"{worker}\" is registered with process {}, which runs; end that one or start the worker as another attempt",
                    other.registration.pid
                )))
            }
            None if known.len() >= WORKERS_MAX => Err(Status::resource_exhausted(format!(
                "this node has {WORKERS_MAX} workers already; wait until some have ended"
            ))),
            Some(_) | None => Ok(()),
        }
    }
}

#[tonic::async_trait]
impl Workers for WorkersService {
    async fn register(
        &self,
        request: Request<pb::RegisterRequest>,
    ) -> Result<Response<pb::RegisterResponse>, Status> {
        let peer = request.extensions().get::<Peer>().copied();
        let mut registration = self.check(request.get_ref())?;
        let target = find(registration.pid).map_err(|why| status(&why))?;
        check_peer(peer, &target)?;
        self.check_free(&registration.worker, registration.pid)?;
        check_dir(&registration.checkpoint_dir).await?;
        check_drain_dir(&registration.drain_dir, &target).await?;
        registration.start_time_ticks = target.identity().start_time_ticks;
        self.take(registration, Arc::new(target)).await?;
        Ok(Response::new(pb::RegisterResponse { node: self.node() }))
    }

    async fn register_pod(
        &self,
        request: Request<pb::RegisterPodRequest>,
    ) -> Result<Response<pb::RegisterPodResponse>, Status> {
        let peer = request.extensions().get::<Peer>().copied();
        self.register_found(peer, request.into_inner()).await.map(Response::new)
    }
}

/// An absolute path, or none.
fn checked_path(field: &str, dir: &str) -> Result<String, Status> {
    let is_usable = dir.is_empty()
        || Path::new(dir).is_absolute() && dir.len() <= PATH_BYTES_MAX && !dir.contains('\0');
    if is_usable {
        return Ok(dir.to_owned());
    }
    Err(bad(field, dir, "an absolute path, or empty if there is none"))
}

pub(super) fn bad(
    field: &str,
    value: impl std::fmt::Display,
    expected: impl std::fmt::Display,
) -> Status {
    WireError::new(field, value, expected).into()
}

fn find(pid: u32) -> Result<Target, SignalError> {
    let identity = ProcessIdentity::read(pid)?;
    Target::open(pid, identity.start_time_ticks)
}

pub(super) fn status(why: &SignalError) -> Status {
    let text = why.to_string();
    match why {
        SignalError::NoSuchProcess { .. } | SignalError::StaleTarget { .. } => {
            Status::not_found(text)
        }
        SignalError::NotPermitted { .. } => Status::permission_denied(text),
        SignalError::NoHandler { .. } | SignalError::System { .. } => Status::internal(text),
    }
}

/// Who registers a process makes it a target of signals: only its own user and root may.
fn check_peer(peer: Option<Peer>, target: &Target) -> Result<(), Status> {
    let owner = target.owner_uid();
    match peer {
        Some(Peer::Unix { uid, .. }) if uid == 0 || uid == owner => Ok(()),
        Some(Peer::Unix { uid, .. }) => Err(Status::permission_denied(format!(
            "process {} belongs to user {owner} and user {uid} may not register it; register it as its own user",
            target.identity().pid
        ))),
        Some(Peer::Tcp(_) | Peer::Nameless) | None => Err(Status::permission_denied(
            "it is not known who registers this process; use the agent's unix socket",
        )),
    }
}

async fn check_dir(dir: &str) -> Result<(), Status> {
    if dir.is_empty() {
        return Ok(());
    }
    let path = dir.to_owned();
    let look = tokio::task::spawn_blocking(move || std::fs::metadata(path));
    match tokio::time::timeout(LOOK_TIMEOUT, look).await {
        Ok(Ok(Ok(metadata))) if !metadata.is_dir() => {
            Err(bad("checkpoint_dir", dir, "a directory; a file is there"))
        }
        Ok(Ok(Err(why))) if why.kind() == io::ErrorKind::PermissionDenied => Err(bad(
            "checkpoint_dir",
            dir,
            "readable for the agent; run the agent as the worker's user or as root",
        )),
        // It need not exist yet; what else keeps it from being read is told with each look.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The agent writes there: it has to be the worker's own directory, and no link to another.
async fn check_drain_dir(dir: &str, target: &Target) -> Result<(), Status> {
    if dir.is_empty() {
        return Ok(());
    }
    let owner = target.owner_uid();
    let path = dir.to_owned();
    let look = tokio::task::spawn_blocking(move || std::fs::symlink_metadata(path));
    match tokio::time::timeout(LOOK_TIMEOUT, look).await {
        Ok(Ok(Ok(metadata))) if metadata.is_dir() && metadata.uid() == owner => Ok(()),
        _ => Err(bad("drain_dir", dir, format!("a directory of user {owner}, and no link to one"))),
    }
}
