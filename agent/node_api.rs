//! The agent's own socket: what people, tools and launchers on this node ask, with or without an arbiter.
//!
//! The socket has mode 0660 in a directory of mode 0700: the agent's user and root get in. A launcher of another user
//! needs a `--socket` in a directory that its group may enter.

mod drills;
mod pods;
mod register;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice::net::Listener;
use sluice::wire::pb::node_server::{Node, NodeServer};
use sluice::wire::pb::workers_server::WorkersServer;
use sluice::wire::{DESCRIPTORS, pb};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tracing::error;

use crate::report::Reporter;
use crate::sensor::gpu::GpuSensor;

pub(crate) use self::drills::Drills;
pub(crate) use self::register::WorkersService;

/// Longest a call may take. All answers are ready; registering waits for the journal.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Streams of reports at the same time.
const WATCHERS_MAX: usize = 64;

/// Calls at the same time on one connection.
const CALLS_MAX: u32 = 64;

/// Largest question. The longest is a registration with a path and some device ids.
const QUESTION_BYTES_MAX: usize = 256 << 10;

/// Shortest and longest time between two reports on one stream. Unit: ms.
const WATCH_INTERVAL_MS: std::ops::RangeInclusive<u32> = 100..=3_600_000;

/// Time between two reports where the caller says nothing. Unit: ms.
const WATCH_INTERVAL_MS_DEFAULT: u32 = 1_000;

/// How long GPUs stay released where the caller says nothing, and at most. Unit: ms. A driver's upgrade takes minutes.
const RELEASE_MS_DEFAULT: u64 = 600_000;
const RELEASE_MS_MAX: u64 = 86_400_000;

/// How long a release may take before the caller is told that it is not done: within [`CALL_TIMEOUT`].
const RELEASE_WAIT: Duration = Duration::from_secs(8);

/// Answers from what is known.
#[derive(Debug)]
pub(crate) struct NodeService {
    reporter: Reporter,
    drills: Drills,
    watchers: Arc<Semaphore>,
    stop: watch::Receiver<bool>,
}

impl NodeService {
    pub(crate) fn new(reporter: Reporter, drills: Drills, stop: watch::Receiver<bool>) -> Self {
        Self { reporter, drills, watchers: Arc::new(Semaphore::new(WATCHERS_MAX)), stop }
    }

    fn gpus(&self) -> Result<&GpuSensor, Status> {
        self.reporter.sensors.gpus.as_ref().ok_or_else(|| {
            Status::failed_precondition(
                "this agent asks no GPU's driver, so there is nothing to release; see --nvml",
            )
        })
    }
}

#[tonic::async_trait]
impl Node for NodeService {
    type WatchReportsStream = ReceiverStream<Result<pb::WatchReportsResponse, Status>>;

    async fn get_report(
        &self,
        _: Request<pb::GetReportRequest>,
    ) -> Result<Response<pb::GetReportResponse>, Status> {
        Ok(Response::new(self.reporter.answer()))
    }

    async fn watch_reports(
        &self,
        request: Request<pb::WatchReportsRequest>,
    ) -> Result<Response<Self::WatchReportsStream>, Status> {
        let interval_ms = match request.get_ref().min_interval_ms {
            0 => WATCH_INTERVAL_MS_DEFAULT,
            ms => ms.clamp(*WATCH_INTERVAL_MS.start(), *WATCH_INTERVAL_MS.end()),
        };
        let permit = self.watchers.clone().try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!(
                "{WATCHERS_MAX} callers watch this agent already; end some or ask with GetReport"
            ))
        })?;
        // One place: a reader that is slow gets the newest report when it comes for it, not all that it missed.
        let (sender, receiver) = mpsc::channel(1);
        let watcher = Watcher {
            reporter: self.reporter.clone(),
            interval: Duration::from_millis(interval_ms.into()),
            sender,
            stop: self.stop.clone(),
            _permit: permit,
        };
        tokio::spawn(watcher.run());
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn list_workers(
        &self,
        _: Request<pb::ListWorkersRequest>,
    ) -> Result<Response<pb::ListWorkersResponse>, Status> {
        let workers = self.reporter.report().workers;
        Ok(Response::new(pb::ListWorkersResponse { workers }))
    }

    async fn list_volumes(
        &self,
        _: Request<pb::ListVolumesRequest>,
    ) -> Result<Response<pb::ListVolumesResponse>, Status> {
        let volumes = self.reporter.report().volumes;
        Ok(Response::new(pb::ListVolumesResponse { volumes }))
    }

    async fn list_drains(
        &self,
        _: Request<pb::ListDrainsRequest>,
    ) -> Result<Response<pb::ListDrainsResponse>, Status> {
        Ok(Response::new(pb::ListDrainsResponse { drains: self.reporter.drains() }))
    }

    async fn release_gpus(
        &self,
        request: Request<pb::ReleaseGpusRequest>,
    ) -> Result<Response<pb::ReleaseGpusResponse>, Status> {
        let timeout_ms = match request.get_ref().timeout_ms {
            0 => RELEASE_MS_DEFAULT,
            ms if ms <= RELEASE_MS_MAX => ms,
            ms => {
                let text = format!("timeout_ms is {ms} but must be at most {RELEASE_MS_MAX}");
                return Err(Status::invalid_argument(text));
            }
        };
        let until = Instant::now() + Duration::from_millis(timeout_ms);
        if self.gpus()?.release(until, RELEASE_WAIT).await {
            return Ok(Response::new(pb::ReleaseGpusResponse {}));
        }
        Err(Status::deadline_exceeded(
            "a call into the GPUs' driver does not end, so that its files are still open; the release stands: ask again \
             in some seconds, or restart the node if it hangs in the kernel",
        ))
    }

    async fn resume_gpus(
        &self,
        _: Request<pb::ResumeGpusRequest>,
    ) -> Result<Response<pb::ResumeGpusResponse>, Status> {
        self.gpus()?.resume();
        Ok(Response::new(pb::ResumeGpusResponse {}))
    }

    async fn inject_fault(
        &self,
        request: Request<pb::InjectFaultRequest>,
    ) -> Result<Response<pb::InjectFaultResponse>, Status> {
        self.drills.inject(&self.reporter, request.into_inner()).await.map(Response::new)
    }

    async fn clear_faults(
        &self,
        request: Request<pb::ClearFaultsRequest>,
    ) -> Result<Response<pb::ClearFaultsResponse>, Status> {
        self.drills.clear(&self.reporter, &request.into_inner().device).await.map(Response::new)
    }
}

/// Sends reports to one caller until it goes.
struct Watcher {
    reporter: Reporter,
    interval: Duration,
    sender: mpsc::Sender<Result<pb::WatchReportsResponse, Status>>,
    stop: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
}

impl Watcher {
    async fn run(mut self) {
        while let Ok(place) = self.sender.reserve().await {
            let pb::GetReportResponse { report, status } = self.reporter.answer();
            place.send(Ok(pb::WatchReportsResponse { report, status }));
            tokio::select! {
                () = next_change(&mut self.reporter, self.interval) => {}
                () = self.sender.closed() => return,
                _ = self.stop.wait_for(|stop| *stop) => return,
            }
        }
    }
}

/// Waits until something has changed, and at least `interval`.
async fn next_change(reporter: &mut Reporter, interval: Duration) {
    tokio::time::sleep(interval).await;
    let Reporter { sensors, view, uplink, health, .. } = reporter;
    tokio::select! {
        () = sensors.changed() => {}
        _ = view.changed() => {}
        _ = uplink.changed() => {}
        _ = health.changed() => {}
    }
}

/// Serves the socket until `stopped`; then lets calls finish.
pub(crate) async fn serve(
    listener: Listener,
    node: NodeService,
    workers: WorkersService,
    stopped: impl Future<Output = ()>,
) {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<NodeServer<NodeService>>().await;
    health.set_serving::<WorkersServer<WorkersService>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .expect("the descriptors come from the same build");
    let served = Server::builder()
        .timeout(CALL_TIMEOUT)
        .max_concurrent_streams(CALLS_MAX)
        .http2_keepalive_interval(Some(Duration::from_secs(60)))
        .add_service(NodeServer::new(node).max_decoding_message_size(QUESTION_BYTES_MAX))
        .add_service(WorkersServer::new(workers).max_decoding_message_size(QUESTION_BYTES_MAX))
        .add_service(health_service)
        .add_service(reflection)
        .serve_with_incoming_shutdown(listener.incoming(), stopped)
        .await;
    if let Err(why) = served {
        error!("the agent's socket is no longer served: {why}; restart the agent");
    }
}
