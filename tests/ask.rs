//! Questions to the arbiter and the agents, and waiting until the answer is as expected.

use std::time::{Duration, Instant};

use nix::unistd::Pid;
use sluice::net::{self, Address};
use sluice::wire::pb;
use sluice::wire::pb::admin_client::AdminClient;
use sluice::wire::pb::node_client::NodeClient;
use sluice::wire::pb::{DrainState, Phase};
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::cluster::Cluster;
use crate::process::{PAUSE, patience, processes_with};

/// Longest time for one answer: an arbiter may be stopped on purpose.
const ANSWER: Duration = Duration::from_secs(3);

pub(crate) fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(ANSWER);
    request
}

impl Cluster {
    /// A client of the arbiter; `None` if nobody answers.
    pub(crate) fn try_admin(&self) -> Option<AdminClient<Channel>> {
        if let Some(admin) = self.admin.borrow().clone() {
            return Some(admin);
        }
        let address: Address = self.arbiter_address().parse().unwrap();
        let connecting = async { tokio::time::timeout(ANSWER, net::connect(&address)).await };
        let channel = self.runtime.block_on(connecting).ok()?.ok()?;
        let admin = AdminClient::new(channel).max_decoding_message_size(64 << 20);
        self.admin.replace(Some(admin.clone()));
        Some(admin)
    }

    pub(crate) fn admin(&self) -> AdminClient<Channel> {
        self.try_admin().expect("the arbiter answers")
    }

    /// Runs a call to its end.
    pub(crate) fn block_on<F: Future>(&self, call: F) -> F::Output {
        self.runtime.block_on(call)
    }

    pub(crate) fn ask<T, F>(&self, call: impl FnOnce(AdminClient<Channel>) -> F) -> Option<T>
    where
        F: Future<Output = Result<tonic::Response<T>, Status>>,
    {
        let call = call(self.try_admin()?);
        let bounded = async { tokio::time::timeout(ANSWER, call).await };
        match self.runtime.block_on(bounded) {
            Ok(Ok(answer)) => Some(answer.into_inner()),
            Ok(Err(status)) if status.code() == tonic::Code::NotFound => None,
            Ok(Err(_)) | Err(_) => {
                self.admin.replace(None);
                None
            }
        }
    }

    /// All nodes; `None` if the arbiter does not answer.
    pub(crate) fn nodes(&self) -> Option<Vec<pb::NodeSummary>> {
        let message = request(pb::ListNodesRequest::default());
        Some(self.ask(|mut admin| async move { admin.list_nodes(message).await })?.nodes)
    }

    pub(crate) fn node(&self, name: &str) -> Option<pb::NodeSummary> {
        self.nodes()?.into_iter().find(|node| node.name == name)
    }

    pub(crate) fn workloads(&self) -> Option<Vec<pb::Workload>> {
        let message = pb::ListWorkloadsRequest { include_finished: true, ..Default::default() };
        let message = request(message);
        Some(self.ask(|mut admin| async move { admin.list_workloads(message).await })?.workloads)
    }

    /// A workload; `None` if there is none or the arbiter does not answer.
    pub(crate) fn workload(&self, name: &str) -> Option<pb::Workload> {
        let message = request(pb::GetWorkloadRequest { name: name.to_owned() });
        self.ask(|mut admin| async move { admin.get_workload(message).await })?.workload
    }

    pub(crate) fn drains(&self) -> Option<Vec<pb::Drain>> {
        let message =
            request(pb::ListAllDrainsRequest { include_closed: true, after: String::new() });
        Some(self.ask(|mut admin| async move { admin.list_drains(message).await })?.drains)
    }

    /// The newest drain of `victim`.
    pub(crate) fn drain_of(&self, victim: &str) -> Option<pb::Drain> {
        let drains = self.drains()?;
        let number = |d: &pb::Drain| d.id.rsplit('-').next().and_then(|n| n.parse::<u64>().ok());
        drains.into_iter().filter(|d| d.victim == victim).max_by_key(number)
    }

    pub(crate) fn explain(&self, name: &str) -> Option<pb::ExplainResponse> {
        let message = request(pb::ExplainRequest { name: name.to_owned(), what_if: Vec::new() });
        self.ask(|mut admin| async move { admin.explain(message).await })
    }

    pub(crate) fn status(&self) -> Option<pb::GetStatusResponse> {
        let message = request(pb::GetStatusRequest {});
        self.ask(|mut admin| async move { admin.get_status(message).await })
    }

    /// Cancels a workload.
    pub(crate) fn cancel(&self, name: &str) {
        let message = request(pb::CancelWorkloadRequest { name: name.to_owned() });
        let mut admin = self.admin();
        self.block_on(async move { admin.cancel_workload(message).await.unwrap() });
    }

    /// Stops all decisions.
    pub(crate) fn freeze(&self) {
        let mut admin = self.admin();
        let message = request(pb::FreezeRequest { why: "a test sets the scene".to_owned() });
        self.block_on(async move { admin.freeze(message).await.unwrap() });
    }

    /// Lets decisions go on.
    pub(crate) fn unfreeze(&self) {
        let mut admin = self.admin();
        let message = request(pb::UnfreezeRequest {});
        self.block_on(async move { admin.unfreeze(message).await.unwrap() });
    }

    /// Freezes decisions and submits a demand for one device that waits for their going on: then the test can set the
    /// scene for the drain that follows.
    pub(crate) fn serve_once_unfrozen(&mut self, name: &str, flags: &str) {
        self.freeze();
        self.serve(name, 1, flags);
        self.wait(&format!("{name} to wait for the end of the freeze"), |cluster| {
            let workload = cluster.workload(name)?;
            let attached = workload.members.iter().all(|m| m.attached);
            (attached && code(&workload) == "frozen").then_some(())
        });
    }

    /// A client of the agent of `node`.
    pub(crate) fn node_client(&self, node: &str) -> NodeClient<Channel> {
        let address = Address::Unix(self.agent_socket(node));
        NodeClient::new(self.block_on(net::connect(&address)).unwrap())
    }

    /// What the agent of `node` itself reports.
    pub(crate) fn report_of(&self, node: &str) -> pb::GetReportResponse {
        let mut client = self.node_client(node);
        let call = client.get_report(request(pb::GetReportRequest {}));
        self.block_on(call).unwrap().into_inner()
    }

    /// The agent's side of drains of `victim`.
    pub(crate) fn node_drains(&self, node: &str, victim: &str) -> Vec<pb::NodeDrain> {
        let mut client = self.node_client(node);
        let call = client.list_drains(request(pb::ListDrainsRequest {}));
        let drains = self.block_on(call).unwrap().into_inner().drains;
        drains.into_iter().filter(|d| d.workload == victim).collect()
    }

    /// Live processes of `worker` (`workload/attempt/rank`), the main one among them.
    pub(crate) fn worker_pids(&self, worker: &str) -> Vec<Pid> {
        let root = format!("{}={}", crate::process::ROOT_VARIABLE, self.root().display());
        let carrying = processes_with("SLUICE_WORKER", worker).into_iter();
        carrying.filter(|(_, environ)| environ.contains(&root)).map(|(pid, _)| pid).collect()
    }

    /// Waits until `look` has something, and fails the test with a picture of the cluster after [`patience`].
    pub(crate) fn wait<T>(&self, what: &str, look: impl FnMut(&Self) -> Option<T>) -> T {
        self.wait_unless(what, |_| None, look)
    }

    /// As [`Cluster::wait`]; gives up at once when `hopeless` says why.
    pub(crate) fn wait_unless<T>(
        &self,
        what: &str,
        hopeless: impl Fn(&Self) -> Option<String>,
        mut look: impl FnMut(&Self) -> Option<T>,
    ) -> T {
        let patience = patience();
        let deadline = Instant::now() + patience;
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            if let Some(why) = hopeless(self) {
                panic!("{what} will not come: {why}");
            }
            assert!(Instant::now() < deadline, "waited {patience:?} in vain for {what}");
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until `name` is in `phase`.
    pub(crate) fn wait_phase(&self, name: &str, phase: Phase) -> pb::Workload {
        let other_end = |cluster: &Self| {
            let workload = cluster.workload(name)?;
            let over = [Phase::Succeeded, Phase::Failed, Phase::Cancelled];
            let is_over = over.contains(&workload.phase()) && workload.phase() != phase;
            is_over.then(|| format!("{name} is {:?}: {}", workload.phase(), message(&workload)))
        };
        self.wait_unless(&format!("{name} to be {phase:?}"), other_end, |cluster| {
            cluster.workload(name).filter(|w| w.phase() == phase)
        })
    }

    /// Waits until the newest drain of `victim` is or was in `state`.
    pub(crate) fn wait_drain(&self, victim: &str, state: DrainState) -> pb::Drain {
        let closed = |cluster: &Self| {
            let drain = cluster.drain_of(victim)?;
            let closed = matches!(
                drain.state(),
                DrainState::Resumed
                    | DrainState::Aborted
                    | DrainState::Refused
                    | DrainState::Lost
                    | DrainState::CompletedMeanwhile
            );
            (closed && !has_been(&drain, state)).then(|| story(&drain))
        };
        self.wait_unless(&format!("the drain of {victim} to be {state:?}"), closed, |cluster| {
            cluster.drain_of(victim).filter(|drain| has_been(drain, state))
        })
    }

    /// Waits until enough checkpoints of `name` were seen to know its steps and its interval.
    pub(crate) fn wait_measured(&self, name: &str) -> pb::Workload {
        self.wait(&format!("{name} to be measured"), |cluster| {
            let workload = cluster.workload(name)?;
            let profile = workload.profile.as_ref()?;
            (profile.step_ms.is_some() && profile.save_interval_ms.is_some()).then_some(workload)
        })
    }

    /// Everything the arbiter says, for a person who looks at a failed test.
    pub(crate) fn picture(&self) -> String {
        let mut picture = String::from("--- workloads, drains and nodes\n");
        for w in self.workloads().unwrap_or_default() {
            let name = w.spec.as_ref().map_or("?", |spec| &spec.name);
            let (phase, attempt) = (w.phase(), w.attempt);
            picture.push_str(&format!("{name}: {phase:?}, start {attempt}: {}\n", message(&w)));
        }
        for drain in self.drains().unwrap_or_default() {
            picture.push_str(&format!("{}\n", story(&drain)));
        }
        for node in self.nodes().unwrap_or_default() {
            picture.push_str(&format!("node {}: connected {}\n", node.name, node.connected));
        }
        picture.push_str(&format!("starts: {:?}\n", self.starts()));
        picture
    }
}

/// Whether the drain is or was in `state`.
pub(crate) fn has_been(drain: &pb::Drain, state: DrainState) -> bool {
    drain.state() == state || drain.history.iter().any(|t| t.state() == state)
}

/// How often the drain entered `state`.
pub(crate) fn times_in(drain: &pb::Drain, state: DrainState) -> usize {
    drain.history.iter().filter(|t| t.state() == state).count()
}

/// Stable code of why a workload is as it is.
pub(crate) fn code(workload: &pb::Workload) -> &str {
    workload.reason.as_ref().map_or("", |reason| &reason.code)
}

fn message(workload: &pb::Workload) -> &str {
    workload.reason.as_ref().map_or("", |reason| &reason.message)
}

/// A drain in one line per transition.
pub(crate) fn story(drain: &pb::Drain) -> String {
    let mut story =
        format!("{} of {}, {:?}, epoch {}:", drain.id, drain.victim, drain.mode(), drain.epoch);
    for transition in &drain.history {
        let reason = transition.reason.as_ref().map_or("", |reason| &reason.message);
        story.push_str(&format!("\n    {:?}: {reason}", transition.state()));
    }
    for m in &drain.members {
        story.push_str(&format!("\n    rank {} on {}: armed {}, signalled {}, durable {:?}, exited {}, freed {}, killed {}",
            m.rank, m.node, m.armed, m.signalled, m.durable_step, m.exited, m.freed, m.killed));
    }
    story
}
