//! An arbiter and an agent that say what a test tells them, at their sockets.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use sluice::net::{self, Address};
use sluice::wire::pb;
use sluice::wire::pb::admin_server::{Admin, AdminServer};
use sluice::wire::pb::node_server::{Node, NodeServer};
use sluice::wire::pb::workers_server::{Workers, WorkersServer};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};

type Answer<T> = Result<Response<T>, Status>;
type Streamed<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What the fakes have been asked.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) submitted: Vec<pb::SubmitRequest>,
    pub(super) registered: Vec<pb::RegisterRequest>,
    pub(super) exits: Vec<pb::ReportExitRequest>,
    pub(super) cancelled: Vec<String>,
}

/// What tests drive: the workload that is shown, and the verdicts on exits.
#[derive(Debug, Clone)]
pub(super) struct Fake {
    asked: Arc<Mutex<Asked>>,
    verdict: Arc<Mutex<pb::ExitVerdict>>,
    shown: watch::Sender<pb::Workload>,
    changes: watch::Sender<u64>,
}

impl Fake {
    pub(super) fn new(first: pb::Workload) -> Self {
        Self {
            asked: Arc::default(),
            verdict: Arc::new(Mutex::new(pb::ExitVerdict::Finished)),
            shown: watch::Sender::new(first),
            changes: watch::Sender::new(0),
        }
    }

    /// Shows another workload to whoever watches.
    pub(super) fn show(&self, workload: pb::Workload) {
        self.shown.send_replace(workload);
    }

    /// What every exit is answered with from now on.
    pub(super) fn answer(&self, verdict: pb::ExitVerdict) {
        *self.verdict.lock().expect("no test panics with it") = verdict;
    }

    pub(super) fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().expect("no test panics with it")
    }

    /// Waits until what was asked satisfies `is_so`.
    pub(super) async fn until(&self, mut is_so: impl FnMut(&Asked) -> bool) {
        let mut changes = self.changes.subscribe();
        let waiting = changes.wait_for(|_| is_so(&self.asked()));
        let waited = tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await;
        waited.expect("it happens within 30 s").expect("the fake holds the sender");
    }

    fn note(&self, note: impl FnOnce(&mut Asked)) {
        note(&mut self.asked());
        self.changes.send_modify(|count| *count += 1);
    }

    /// Serves as the arbiter at `socket` until the task is aborted.
    pub(super) async fn serve_arbiter(&self, socket: &Path) -> JoinHandle<()> {
        let server =
            tonic::transport::Server::builder().add_service(AdminServer::new(self.clone()));
        let incoming = incoming(socket).await;
        tokio::spawn(async move { server.serve_with_incoming(incoming).await.expect("serves") })
    }

    /// Serves as the agent at `socket` until the task is aborted.
    pub(super) async fn serve_agent(&self, socket: &Path) -> JoinHandle<()> {
        let server = tonic::transport::Server::builder()
            .add_service(NodeServer::new(self.clone()))
            .add_service(WorkersServer::new(self.clone()));
        let incoming = incoming(socket).await;
        tokio::spawn(async move { server.serve_with_incoming(incoming).await.expect("serves") })
    }
}

async fn incoming(socket: &Path) -> net::Incoming {
    let listener = net::listen(&Address::Unix(socket.to_owned()), false).await;
    listener.expect("the socket is free").incoming()
}

#[tonic::async_trait]
impl Workers for Fake {
    async fn register(
        &self,
        request: Request<pb::RegisterRequest>,
    ) -> Answer<pb::RegisterResponse> {
        self.note(|asked| asked.registered.push(request.into_inner()));
        Ok(Response::new(pb::RegisterResponse { node: "a".to_owned() }))
    }
    async fn register_pod(
        &self,
        _: Request<pb::RegisterPodRequest>,
    ) -> Answer<pb::RegisterPodResponse> {
        Err(Status::unimplemented("not here"))
    }
}

#[tonic::async_trait]
impl Node for Fake {
    type WatchReportsStream = Streamed<pb::WatchReportsResponse>;

    async fn get_report(&self, _: Request<pb::GetReportRequest>) -> Answer<pb::GetReportResponse> {
        let device =
            |id: &str, index| pb::Device { id: id.to_owned(), index, ..pb::Device::default() };
        let devices = vec![device("d0", 0), device("d1", 1)];
        let report = pb::NodeReport { node: "a".to_owned(), devices, ..pb::NodeReport::default() };
        Ok(Response::new(pb::GetReportResponse { report: Some(report), status: None }))
    }
    async fn watch_reports(
        &self,
        _: Request<pb::WatchReportsRequest>,
    ) -> Answer<Self::WatchReportsStream> {
        Err(Status::unimplemented("not here"))
    }
    async fn list_workers(
        &self,
        _: Request<pb::ListWorkersRequest>,
    ) -> Answer<pb::ListWorkersResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn list_volumes(
        &self,
        _: Request<pb::ListVolumesRequest>,
    ) -> Answer<pb::ListVolumesResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn list_drains(
        &self,
        _: Request<pb::ListDrainsRequest>,
    ) -> Answer<pb::ListDrainsResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn release_gpus(
        &self,
        _: Request<pb::ReleaseGpusRequest>,
    ) -> Answer<pb::ReleaseGpusResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn resume_gpus(
        &self,
        _: Request<pb::ResumeGpusRequest>,
    ) -> Answer<pb::ResumeGpusResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn inject_fault(
        &self,
        _: Request<pb::InjectFaultRequest>,
    ) -> Answer<pb::InjectFaultResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn clear_faults(
        &self,
        _: Request<pb::ClearFaultsRequest>,
    ) -> Answer<pb::ClearFaultsResponse> {
        Err(Status::unimplemented("not here"))
    }
}

#[tonic::async_trait]
impl Admin for Fake {
    type WatchWorkloadStream = Streamed<pb::WatchWorkloadResponse>;
    type WatchDecisionsStream = Streamed<pb::WatchDecisionsResponse>;

    async fn submit(&self, request: Request<pb::SubmitRequest>) -> Answer<pb::SubmitResponse> {
        self.note(|asked| asked.submitted.push(request.into_inner()));
        Ok(Response::new(pb::SubmitResponse { workload: None }))
    }
    async fn watch_workload(
        &self,
        _: Request<pb::WatchWorkloadRequest>,
    ) -> Answer<Self::WatchWorkloadStream> {
        let shown = WatchStream::new(self.shown.subscribe());
        let shown = shown.map(|w| Ok(pb::WatchWorkloadResponse { workload: Some(w) }));
        Ok(Response::new(Box::pin(shown)))
    }
    async fn report_exit(
        &self,
        request: Request<pb::ReportExitRequest>,
    ) -> Answer<pb::ReportExitResponse> {
        self.note(|asked| asked.exits.push(request.into_inner()));
        let verdict = (*self.verdict.lock().expect("no test panics with it")).into();
        Ok(Response::new(pb::ReportExitResponse { verdict, reason: None }))
    }
    async fn cancel_workload(
        &self,
        request: Request<pb::CancelWorkloadRequest>,
    ) -> Answer<pb::CancelWorkloadResponse> {
        self.note(|asked| asked.cancelled.push(request.into_inner().name));
        Ok(Response::new(pb::CancelWorkloadResponse { workload: None }))
    }
    async fn get_workload(
        &self,
        _: Request<pb::GetWorkloadRequest>,
    ) -> Answer<pb::GetWorkloadResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn list_workloads(
        &self,
        _: Request<pb::ListWorkloadsRequest>,
    ) -> Answer<pb::ListWorkloadsResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn list_nodes(&self, _: Request<pb::ListNodesRequest>) -> Answer<pb::ListNodesResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn list_queues(
        &self,
        _: Request<pb::ListQueuesRequest>,
    ) -> Answer<pb::ListQueuesResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn list_slices(
        &self,
        _: Request<pb::ListSlicesRequest>,
    ) -> Answer<pb::ListSlicesResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn plan_slice(&self, _: Request<pb::PlanSliceRequest>) -> Answer<pb::PlanSliceResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn list_drains(
        &self,
        _: Request<pb::ListAllDrainsRequest>,
    ) -> Answer<pb::ListAllDrainsResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn explain(&self, _: Request<pb::ExplainRequest>) -> Answer<pb::ExplainResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn freeze(&self, _: Request<pb::FreezeRequest>) -> Answer<pb::FreezeResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn rehearse(&self, _: Request<pb::RehearseRequest>) -> Answer<pb::RehearseResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn unfreeze(&self, _: Request<pb::UnfreezeRequest>) -> Answer<pb::UnfreezeResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn get_status(&self, _: Request<pb::GetStatusRequest>) -> Answer<pb::GetStatusResponse> {
        Err(Status::unimplemented("not here"))
    }
    async fn watch_decisions(
        &self,
        _: Request<pb::WatchDecisionsRequest>,
    ) -> Answer<Self::WatchDecisionsStream> {
        Err(Status::unimplemented("not here"))
    }
}
