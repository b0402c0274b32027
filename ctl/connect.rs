//! Reaching the arbiter and the agents of this machine, with a limit on every wait.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use sluice::net::{self, Address};
use sluice::paths::{Paths, find_agent_sockets};
use sluice::wire::pb;
use sluice::wire::pb::admin_client::AdminClient;
use sluice::wire::pb::node_client::NodeClient;

use crate::args::Global;
use crate::failure::Failure;
use crate::text::safe;

/// Largest answer that is read: a few thousand nodes with all their devices. Unit: bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A connection to the arbiter.
#[derive(Debug, Clone)]
pub(crate) struct Arbiter {
    client: AdminClient<Channel>,
    timeout: Duration,
    name: String,
}

impl Arbiter {
    /// Connects to the arbiter that the flags name.
    ///
    /// # Errors
    /// Nobody answers there: exit status 69.
    pub(crate) async fn connect(global: &Global) -> Result<Self, Failure> {
        let channel = net::connect(&global.arbiter).await.map_err(|e| {
            Failure::unreachable(format!("the arbiter is not reachable: {e}")).hint(
                "start one with sluice up (or sluice-arbiter), or name it with --arbiter or \
                 $SLUICE_ARBITER; sluice status works without it",
            )
        })?;
        Ok(Self {
            client: admin_client(channel),
            timeout: global.timeout,
            name: format!("the arbiter at {}", global.arbiter),
        })
    }

    /// The generated client: a cheap handle on the one connection.
    pub(crate) fn admin(&self) -> AdminClient<Channel> {
        self.client.clone()
    }

    /// How long one question may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Waits for an answer, at most as long as the flags allow; `what` is being done, for errors.
    ///
    /// # Errors
    /// What the arbiter answered, or that it did not.
    pub(crate) async fn ask<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Failure> {
        within(self.timeout, call).await.map_err(|s| Failure::of_status(what, &self.name, &s))
    }
}

/// A client with limits set.
pub(crate) fn admin_client(channel: Channel) -> AdminClient<Channel> {
    AdminClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX)
}

/// The answer of `call`, or that it took longer than `timeout`.
///
/// # Errors
/// What the server answered; deadline exceeded if it did not in time.
pub(crate) async fn within<T>(
    timeout: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Status> {
    match tokio::time::timeout(timeout, call).await {
        Ok(answer) => answer.map(Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded(format!("no answer within {timeout:?}"))),
    }
}

/// A request that the server may drop after `timeout`.
pub(crate) fn request<T>(message: T, timeout: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(timeout);
    request
}

/// An agent of this machine that answered.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    /// Its socket.
    pub(crate) socket: PathBuf,
    /// What it reports, and how it is doing.
    pub(crate) answer: pb::GetReportResponse,
}

impl Agent {
    /// Its node's name.
    pub(crate) fn node(&self) -> &str {
        self.answer.report.as_ref().map_or("", |r| &r.node)
    }
}

/// The sockets at which agents of this machine may be found.
pub(crate) fn sockets(global: &Global) -> Vec<PathBuf> {
    // Without a state root there are still the flags, the environment and the system's directory.
    let paths = Paths::find(global.state_dir.as_deref()).ok();
    find_agent_sockets(&global.agent_sockets, paths.as_ref())
}

/// Connects to the agent at `socket`.
///
/// # Errors
/// Why it cannot be reached, in words.
pub(crate) async fn agent_channel(socket: &Path) -> Result<Channel, String> {
    net::connect(&Address::Unix(socket.to_owned())).await.map_err(|e| e.to_string())
}

/// Asks the agent at `socket` for its report, within `timeout`.
///
/// # Errors
/// Why it does not answer, in words.
pub(crate) async fn report(socket: &Path, timeout: Duration) -> Result<Agent, String> {
    let asking = async {
        let channel = agent_channel(socket).await?;
        let mut client = NodeClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        let answer = client.get_report(request(pb::GetReportRequest {}, timeout)).await;
        answer.map(Response::into_inner).map_err(|s| {
            format!("agent at \"{}\" answered: {}", socket.display(), safe(s.message()))
        })
    };
    let answer = tokio::time::timeout(timeout, asking).await.unwrap_or_else(|_| {
        Err(format!("agent at \"{}\" did not answer within {timeout:?}", socket.display()))
    })?;
    Ok(Agent { socket: socket.to_owned(), answer })
}

/// Asks every agent of this machine; those that answered, and why the others did not.
pub(crate) async fn reports(global: &Global) -> (Vec<Agent>, Vec<String>) {
    let (mut agents, mut errors) = (Vec::new(), Vec::new());
    // One after the other: sockets answer or refuse at once; only a hung agent costs its timeout.
    for socket in sockets(global) {
        match report(&socket, global.timeout.min(Duration::from_secs(3))).await {
            Ok(agent) => agents.push(agent),
            Err(error) => errors.push(error),
        }
    }
    (agents, errors)
}
