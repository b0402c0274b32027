//! `sluice.v1.Admin`: what people and `sluice run` ask for.
//!
//! Each call is one input or one look at the state, made by the task that owns it. Lists are cut
//! where they would outgrow a message; `next` says where to go on.

mod explain;
mod lists;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::Arc;
use std::time::Instant;

use sluice::wire::admin::{self as wire, changes};
use sluice::wire::error::refusal;
use sluice::wire::pb::admin_server;
use sluice::wire::{PROTOCOL, WireError, field, pb};
use sluice_core::arbiter::{Arbiter, Input, REHEARSAL_MS_MAX, Reply};
use sluice_core::id::WorkloadName;
use sluice_core::reason::Reason;
use sluice_core::slice::Budget;
use sluice_core::workload::{Exit, Phase, RANKS_MAX, SliceSpec, WorkloadSpec};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::agents::Agents;
use crate::run::{Handle, View, Watchers};
use crate::store::Store;
use crate::view;
use watch::Presence;

/// Most nodes that one launcher may name.
const LAUNCHER_NODES_MAX: usize = 1_024;
/// Longest command kept with a workload. Unit: bytes, all words together. It is for people to see.
const COMMAND_BYTES_MAX: usize = 16_384;
/// Longest checkpoint directory. Linux's own limit.
const PATH_BYTES_MAX: usize = 4_096;
/// Longest reason for a freeze. Unit: bytes.
const WHY_BYTES_MAX: usize = 1_024;
/// Most decisions told by one Explain.
const EXPLAIN_DECISIONS_MAX: usize = 64;

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct AdminService {
    handle: Handle,
    agents: Arc<Agents>,
    store: Arc<Store>,
    watchers: Arc<Watchers>,
    presence: Arc<Presence>,
    last_decision: tokio::sync::watch::Receiver<u64>,
    stopped: tokio::sync::watch::Receiver<bool>,
    started: Instant,
}

impl AdminService {
    /// The service for the arbiter behind `handle`; streams end once `stopped` is true.
    pub(crate) fn new(
        handle: Handle,
        agents: Arc<Agents>,
        store: Arc<Store>,
        watchers: Arc<Watchers>,
        last_decision: tokio::sync::watch::Receiver<u64>,
        stopped: tokio::sync::watch::Receiver<bool>,
    ) -> Self {
        let presence = Arc::default();
        let started = Instant::now();
        Self { handle, agents, store, watchers, presence, last_decision, stopped, started }
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl admin_server::Admin for AdminService {
    async fn submit(&self, request: Request<pb::SubmitRequest>) -> Answer<pb::SubmitResponse> {
        let (name, input) = submission(&request.into_inner())?;
        let workload = self
            .handle
            .step_then(input, move |view, reply| match reply {
                Some(Reply::Submitted(Ok(()))) => found(view, &name),
                Some(Reply::Submitted(Err(reason))) => Err(refusal(&reason)),
                other => Err(unexpected(other.as_ref())),
            })
            .await??;
        Ok(Response::new(pb::SubmitResponse { workload: Some(workload) }))
    }

    type WatchWorkloadStream = ReceiverStream<Result<pb::WatchWorkloadResponse, Status>>;

    async fn watch_workload(
        &self,
        request: Request<pb::WatchWorkloadRequest>,
    ) -> Answer<Self::WatchWorkloadStream> {
        watch::workload(self, request.into_inner()).await.map(Response::new)
    }

    async fn report_exit(
        &self,
        request: Request<pb::ReportExitRequest>,
    ) -> Answer<pb::ReportExitResponse> {
        let request = request.into_inner();
        let exit = field::required("exit", request.exit.as_ref())?;
        let worker = field::worker_id(&request.workload, request.attempt, request.rank)?;
        let input = Input::ReportExit {
            worker,
            launcher: field::name("launcher", &request.launcher)?,
            exit: Exit::try_from(exit)?,
        };
        let answer = |_: &View<'_>, reply: Option<Reply>| match reply {
            Some(Reply::Exit { wait, reason }) => Ok(exit_answer(wait, &reason)),
            other => Err(unexpected(other.as_ref())),
        };
        Ok(Response::new(self.handle.step_then(input, answer).await??))
    }

    async fn get_workload(
        &self,
        request: Request<pb::GetWorkloadRequest>,
    ) -> Answer<pb::GetWorkloadResponse> {
        let name = field::name("name", &request.into_inner().name)?;
        let workload = self.handle.ask(move |view| found(view, &name)).await??;
        Ok(Response::new(pb::GetWorkloadResponse { workload: Some(workload) }))
    }

    async fn list_workloads(
        &self,
        request: Request<pb::ListWorkloadsRequest>,
    ) -> Answer<pb::ListWorkloadsResponse> {
        let request = request.into_inner();
        Ok(Response::new(self.handle.ask(move |view| lists::workloads(view, &request)).await??))
    }

    async fn cancel_workload(
        &self,
        request: Request<pb::CancelWorkloadRequest>,
    ) -> Answer<pb::CancelWorkloadResponse> {
        let name: WorkloadName = field::name("name", &request.into_inner().name)?;
        let input = Input::Cancel { workload: name.clone() };
        let workload = self
            .handle
            .step_then(input, move |view, reply| match reply {
                Some(Reply::Cancelled(Ok(()))) => found(view, &name),
                Some(Reply::Cancelled(Err(reason))) => Err(refusal(&reason)),
                other => Err(unexpected(other.as_ref())),
            })
            .await??;
        Ok(Response::new(pb::CancelWorkloadResponse { workload: Some(workload) }))
    }

    async fn list_nodes(
        &self,
        request: Request<pb::ListNodesRequest>,
    ) -> Answer<pb::ListNodesResponse> {
        let request = request.into_inner();
        let agents = self.agents.clone();
        let list = move |view: &View<'_>| lists::nodes(view, &agents, &request);
        Ok(Response::new(self.handle.ask(list).await?))
    }

    async fn list_queues(
        &self,
        _: Request<pb::ListQueuesRequest>,
    ) -> Answer<pb::ListQueuesResponse> {
        let queues = self.handle.ask(|view| view::queues(view.arbiter)).await?;
        Ok(Response::new(pb::ListQueuesResponse { queues }))
    }

    async fn list_slices(
        &self,
        _: Request<pb::ListSlicesRequest>,
    ) -> Answer<pb::ListSlicesResponse> {
        let list = |view: &View<'_>| pb::ListSlicesResponse {
            slices: view.arbiter.slices().iter().map(wire::slice).collect(),
            cubes: view.arbiter.cubes().iter().map(wire::cube).collect(),
        };
        Ok(Response::new(self.handle.ask(list).await?))
    }

    async fn plan_slice(
        &self,
        request: Request<pb::PlanSliceRequest>,
    ) -> Answer<pb::PlanSliceResponse> {
        let request = request.into_inner();
        let slice = SliceSpec::try_from(field::required("slice", request.slice.as_ref())?)?;
        let budget =
            Budget { moves_max: request.moves_max, cost_device_ms_max: request.cost_device_ms_max };
        let plan = move |view: &View<'_>| {
            let answer = view.arbiter.plan_slice(&slice, request.priority, budget);
            answer.map(|answer| wire::answer(&answer)).map_err(|reason| refusal(&reason))
        };
        Ok(Response::new(self.handle.ask(plan).await??))
    }

    async fn list_drains(
        &self,
        request: Request<pb::ListAllDrainsRequest>,
    ) -> Answer<pb::ListAllDrainsResponse> {
        let request = request.into_inner();
        Ok(Response::new(self.handle.ask(move |view| lists::drains(view, &request)).await?))
    }

    async fn explain(&self, request: Request<pb::ExplainRequest>) -> Answer<pb::ExplainResponse> {
        let request = request.into_inner();
        let name: WorkloadName = field::name("name", &request.name)?;
        let changes = changes(&request).map_err(|reason| refusal(&reason))?;
        let about = name.clone();
        let mut answer =
            self.handle.ask(move |view| explain::answer(view, &about, &changes)).await??;
        let store = self.store.clone();
        let read = move || store.decisions_about(name.as_str(), EXPLAIN_DECISIONS_MAX);
        answer.decisions = on_disk(read).await?;
        Ok(Response::new(answer))
    }

    async fn freeze(&self, request: Request<pb::FreezeRequest>) -> Answer<pb::FreezeResponse> {
        let why = request.into_inner().why;
        check_length("why", why.len(), WHY_BYTES_MAX)?;
        let answer = |_: &View<'_>, reply: Option<Reply>| match reply {
            Some(Reply::Frozen { aborted_drains }) => Ok(pb::FreezeResponse { aborted_drains }),
            other => Err(unexpected(other.as_ref())),
        };
        Ok(Response::new(self.handle.step_then(Input::Freeze { why }, answer).await??))
    }

    async fn unfreeze(&self, _: Request<pb::UnfreezeRequest>) -> Answer<pb::UnfreezeResponse> {
        self.handle.step(Input::Unfreeze).await?;
        Ok(Response::new(pb::UnfreezeResponse {}))
    }

    async fn rehearse(
        &self,
        request: Request<pb::RehearseRequest>,
    ) -> Answer<pb::RehearseResponse> {
        let request = request.into_inner();
        let workload = field::name("name", &request.name)?;
        let deadline_ms = request.deadline_ms;
        if deadline_ms > REHEARSAL_MS_MAX {
            let expected = format!("at most {REHEARSAL_MS_MAX}");
            return Err(WireError::new("deadline_ms", deadline_ms, expected).into());
        }
        let input = Input::Rehearse { workload, deadline_ms };
        let answer = |_: &View<'_>, reply: Option<Reply>| match reply {
            Some(Reply::Rehearsing(Ok(id))) => {
                Ok(pb::RehearseResponse { drain_id: id.to_string() })
            }
            Some(Reply::Rehearsing(Err(reason))) => Err(refusal(&reason)),
            other => Err(unexpected(other.as_ref())),
        };
        Ok(Response::new(self.handle.step_then(input, answer).await??))
    }

    async fn get_status(&self, _: Request<pb::GetStatusRequest>) -> Answer<pb::GetStatusResponse> {
        let status = self.handle.ask(|view| status(view.arbiter)).await?;
        let uptime_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Response::new(pb::GetStatusResponse {
            uptime_ms,
            agents_connected: u32::try_from(self.agents.connected()).unwrap_or(u32::MAX),
            state_path: self.store.path().display().to_string(),
            ..status
        }))
    }

    type WatchDecisionsStream = ReceiverStream<Result<pb::WatchDecisionsResponse, Status>>;

    async fn watch_decisions(
        &self,
        request: Request<pb::WatchDecisionsRequest>,
    ) -> Answer<Self::WatchDecisionsStream> {
        let after = request.into_inner().after_sequence;
        Ok(Response::new(watch::decisions(self, after)))
    }
}

/// Runs `read` where blocking is allowed.
async fn on_disk<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, crate::store::StoreError> + Send + 'static,
) -> Result<T, Status> {
    let result = tokio::task::spawn_blocking(read).await;
    let result = result.map_err(|_| Status::unavailable("the arbiter is stopping"))?;
    result.map_err(|error| Status::internal(error.to_string()))
}

fn found(view: &View<'_>, name: &WorkloadName) -> Result<pb::Workload, Status> {
    view::workload_named(view, name).ok_or_else(|| no_such(name))
}

fn no_such(name: &WorkloadName) -> Status {
    refusal(&Reason::NoSuchWorkload { workload: name.clone() })
}

/// Core answers each input in its own way; another answer is a bug of ours, told instead of hidden.
fn unexpected(reply: Option<&Reply>) -> Status {
    Status::internal(format!(
        "the arbiter gave no fitting answer but {reply:?}; please report this"
    ))
}

fn exit_answer(wait: bool, reason: &Reason) -> pb::ReportExitResponse {
    let verdict = if wait { pb::ExitVerdict::Wait } else { pb::ExitVerdict::Finished };
    pb::ReportExitResponse { verdict: verdict.into(), reason: Some(reason.into()) }
}

fn submission(request: &pb::SubmitRequest) -> Result<(WorkloadName, Input), Status> {
    let spec = field::required("spec", request.spec.as_ref())?;
    let command_bytes: usize = spec.command.iter().map(|word| word.len() + 1).sum();
    check_length("spec.command", command_bytes, COMMAND_BYTES_MAX)?;
    check_length("spec.checkpoint_dir", spec.checkpoint_dir.len(), PATH_BYTES_MAX)?;
    let spec = WorkloadSpec::try_from(spec).map_err(|error| error.within("spec"))?;
    if request.rank >= RANKS_MAX {
        let expected = format!("below {RANKS_MAX}");
        return Err(WireError::new("rank", request.rank, expected).into());
    }
    if request.nodes.is_empty() || request.nodes.len() > LAUNCHER_NODES_MAX {
        let expected = format!("1 to {LAUNCHER_NODES_MAX} nodes on which the worker can start");
        return Err(WireError::new("nodes", request.nodes.len(), expected).into());
    }
    let input = Input::Submit {
        rank: request.rank,
        launcher: field::name("launcher", &request.launcher)?,
        nodes: field::names("nodes", &request.nodes)?,
        spec: spec.clone(),
    };
    Ok((spec.name, input))
}

fn check_length(name: &str, bytes: usize, limit: usize) -> Result<(), WireError> {
    if bytes <= limit {
        return Ok(());
    }
    Err(WireError::new(name, format!("{bytes} bytes long"), format!("at most {limit} bytes")))
}

fn status(arbiter: &Arbiter) -> pb::GetStatusResponse {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let phases = |phase: Phase| arbiter.workloads().values().filter(|w| w.phase == phase).count();
    pb::GetStatusResponse {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        epoch: arbiter.epoch(),
        frozen: arbiter.frozen().as_ref().map(Into::into),
        agents_known: count(arbiter.nodes().len()),
        workloads_pending: count(phases(Phase::Pending)),
        workloads_running: count(phases(Phase::Running)),
        drains_open: count(arbiter.drains().values().filter(|d| d.state.is_open()).count()),
        protocol: PROTOCOL,
        ..pb::GetStatusResponse::default()
    }
}
