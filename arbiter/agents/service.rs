//! The gRPC service that agents dial.

use std::sync::Arc;

use sluice::wire::pb::agents_server;
use sluice::wire::pb::{AgentMessage, ArbiterMessage};
use tokio::sync::{Mutex, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{Agents, OUTBOX_MAX, session};
use crate::run::Handle;

/// `sluice.v1.Agents`.
#[derive(Debug, Clone)]
pub(crate) struct AgentsService {
    pub(super) agents: Arc<Agents>,
    pub(super) handle: Handle,
    pub(super) epoch: u64,
    /// Held while a stream joins or leaves and core's input for it is put in line, so that core sees
    /// both in the order in which they happened.
    pub(super) turnstile: Arc<Mutex<()>>,
}

impl AgentsService {
    /// The service for `agents`.
    pub(crate) fn new(agents: Arc<Agents>, handle: Handle, epoch: u64) -> Self {
        Self { agents, handle, epoch, turnstile: Arc::default() }
    }
}

#[tonic::async_trait]
impl agents_server::Agents for AgentsService {
    type ConnectStream = ReceiverStream<Result<ArbiterMessage, Status>>;

    async fn connect(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let (outbox, messages) = mpsc::channel(OUTBOX_MAX);
        // The answer begins before the agent has said anything: it may wait for that.
        tokio::spawn(session::run(self.clone(), request.into_inner(), outbox));
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}
