//! The launcher's life, from submission to the exit status. See the parent module for the picture.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use sluice::wire::pb;
use sluice_core::workload::Exit;
use tokio::time::{Instant, sleep};
use tonic::Status;

use super::args::Plan;
use super::decide::{self, Waiting};
use super::link::{Link, Seen, Watch};
use super::progress::Progress;
use super::signals::{self, FORWARDED, Signals};
use super::worker::{self, Start};
use crate::args::Global;
use crate::connect::{self, Arbiter};
use crate::failure::{EXIT_FAILURE, EXIT_UNREACHABLE, Failure, is_transient};
use crate::text::{count, safe};
use nix::sys::signal::Signal;

/// How long the first submission is tried: an arbiter that is just starting is waited for, one that
/// is not there is told of soon.
const SUBMIT_PATIENCE: Duration = Duration::from_secs(3);
/// How long an interrupted launcher tries to cancel its workload before it leaves.
const CANCEL_PATIENCE: Duration = Duration::from_secs(5);
/// How often the line that shows the time waited is drawn anew.
const LINE_INTERVAL: Duration = Duration::from_secs(1);
/// Pause between tries to reach an agent or the arbiter.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// A launcher.
#[derive(Debug)]
pub(super) struct Launcher {
    pub(super) global: Global,
    pub(super) plan: Plan,
    /// Unique for this process.
    pub(super) id: String,
    /// Sockets of the agents on whose nodes the worker can be started, by node.
    pub(super) agents: BTreeMap<String, PathBuf>,
    pub(super) progress: Progress,
    pub(super) signals: Signals,
    /// The last attempt whose worker this launcher has started; 0 before the first.
    pub(super) last_attempt: u32,
    /// How that worker ended.
    pub(super) last_exit: Option<Exit>,
}

/// What comes after a step.
#[derive(Debug)]
pub(super) enum Next<T> {
    /// Go on with this.
    Go(T),
    /// Leave with this exit status.
    Leave(u8),
}

/// Runs the whole life; the exit status to leave with.
pub(super) async fn launch(global: &Global, plan: Plan) -> Result<u8, Failure> {
    let signals = Signals::install(&FORWARDED)?;
    let agents = find_agents(global, &plan).await?;
    let progress = Progress::new(plan.quiet, global.color);
    let mut launcher = Launcher {
        global: global.clone(),
        id: launcher_id(),
        plan,
        agents,
        progress,
        signals,
        last_attempt: 0,
        last_exit: None,
    };
    if let Next::Leave(status) = launcher.submit_first().await? {
        return Ok(status);
    }
    let mut watch = Watch::start(global.arbiter.clone(), launcher.watch_request());
    loop {
        let start = match launcher.admission(&mut watch).await? {
            Next::Go(start) => start,
            Next::Leave(status) => return Ok(status),
        };
        if let Next::Leave(status) = launcher.work(start, &mut watch).await? {
            return Ok(status);
        }
    }
}

/// The agents that answer and whose nodes the flags allow.
async fn find_agents(global: &Global, plan: &Plan) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let (found, errors) = connect::reports(global).await;
    let allowed =
        |node: &str| plan.nodes.is_empty() || plan.nodes.iter().any(|n| n.as_str() == node);
    let known: Vec<String> = found.iter().map(|a| safe(a.node())).collect();
    let agents: BTreeMap<String, PathBuf> = found
        .into_iter()
        .filter(|a| !a.node().is_empty() && allowed(a.node()))
        .map(|a| (a.node().to_owned(), a.socket))
        .collect();
    if !agents.is_empty() {
        return Ok(agents);
    }
    if !known.is_empty() {
        let wanted: Vec<&str> = plan.nodes.iter().map(sluice_core::id::NodeName::as_str).collect();
        let message = format!("no agent of node {} is reachable here", wanted.join(", "));
        return Err(Failure::unreachable(message).hint(format!("there are: {}", known.join(", "))));
    }
    let why = match errors.as_slice() {
        [] => "no agent's socket was found".to_owned(),
        errors => errors.join("; "),
    };
    Err(Failure::unreachable(format!("no agent is reachable on this machine: {why}"))
        .hint("start one with sluice up or sluice-agent, or name its socket with --agent-socket"))
}

fn launcher_id() -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let host: String = host.to_string_lossy().chars().filter(allowed).take(64).collect();
    format!("{host}-{}-{:08x}", std::process::id(), fastrand::u32(..))
}

impl Launcher {
    pub(super) fn name(&self) -> String {
        safe(&self.plan.spec.name)
    }

    fn watch_request(&self) -> pb::WatchWorkloadRequest {
        pb::WatchWorkloadRequest {
            name: self.plan.spec.name.clone(),
            launcher: self.id.clone(),
            rank: self.plan.rank,
        }
    }

    /// Submits once.
    async fn submit(&self) -> Result<(), SubmitError> {
        let arbiter = Arbiter::connect(&self.global).await.map_err(SubmitError::Later)?;
        let request = pb::SubmitRequest {
            spec: Some(self.plan.spec.clone()),
            rank: self.plan.rank,
            launcher: self.id.clone(),
            nodes: self.agents.keys().cloned().collect(),
        };
        let timeout = self.global.timeout;
        let mut client = arbiter.admin();
        let call = client.submit(connect::request(request, timeout));
        let what = format!("workload {} was not accepted", self.name());
        connect::within(timeout, call).await.map(drop).map_err(|status| {
            let failure = Failure::of_status(&what, "the arbiter", &status);
            if is_transient(&status) {
                SubmitError::Later(failure)
            } else {
                SubmitError::Refused(failure)
            }
        })
    }

    /// Submits for the first time: for a short while an absent arbiter is waited for.
    async fn submit_first(&mut self) -> Result<Next<()>, Failure> {
        let deadline = Instant::now() + SUBMIT_PATIENCE;
        loop {
            let mut signals = std::mem::take(&mut self.signals);
            let outcome = tokio::select! {
                outcome = self.submit() => Ok(outcome),
                signal = ending(&mut signals) => Err(signal),
            };
            self.signals = signals;
            match outcome {
                Ok(Ok(())) => break,
                Err(signal) => return Ok(Next::Leave(self.give_up(signal).await)),
                Ok(Err(SubmitError::Refused(failure))) => return Err(failure),
                Ok(Err(SubmitError::Later(failure))) if Instant::now() >= deadline => {
                    return Err(Failure { exit: EXIT_UNREACHABLE, ..failure });
                }
                Ok(Err(SubmitError::Later(_))) => sleep(RETRY_PAUSE).await,
            }
        }
        let spec = &self.plan.spec;
        let asked: Vec<String> =
            spec.resources.iter().map(|(name, n)| format!("{n} {}", safe(name))).collect();
        let rank = match spec.nnodes {
            1 => String::new(),
            nnodes => format!(", rank {} of {nnodes}", self.plan.rank),
        };
        let (name, queue) = (self.name(), safe(&spec.queue));
        self.progress.say(&format!(
            "workload {name}{rank} submitted to queue {queue} with priority {}: {}",
            spec.priority,
            asked.join(", ")
        ));
        Ok(Next::Go(()))
    }

    /// Waits until the worker is to be started.
    async fn admission(&mut self, watch: &mut Watch) -> Result<Next<Start>, Failure> {
        loop {
            let seen = watch.seen.borrow_and_update().clone();
            match self.look(&seen).await? {
                Some(Waiting::Start { attempt, assignment }) => {
                    match self.prepare(attempt, &assignment, watch).await {
                        Some(Next::Go(start)) => {
                            self.progress.done_waiting();
                            return Ok(Next::Go(start));
                        }
                        Some(Next::Leave(status)) => return Ok(Next::Leave(status)),
                        None => continue,
                    }
                }
                Some(Waiting::Over { why, has_succeeded }) => {
                    self.progress.done_waiting();
                    return Ok(Next::Leave(self.leave_over(&why, has_succeeded)));
                }
                Some(Waiting::Wait { why, hint }) => self.say_waiting(&why, &hint),
                None => {}
            }
            self.progress.waiting();
            tokio::select! {
                changed = watch.seen.changed() => changed.expect("the watch runs until it is dropped"),
                signal = self.signals.next() => {
                    if signals::asks_to_end(signal) {
                        return Ok(Next::Leave(self.give_up(signal).await));
                    }
                    self.progress.say(&format!("{signal} is ignored: no worker runs"));
                }
                () = sleep(LINE_INTERVAL) => {}
            }
        }
    }

    /// The exit status for a workload that is over. A worker that ended well in the middle of a drain was told to wait:
    /// whether it was done only shows once no checkpoint came of it.
    fn leave_over(&mut self, why: &str, has_succeeded: bool) -> u8 {
        match self.last_exit {
            Some(exit @ Exit::Code(0)) if has_succeeded => {
                self.progress.say(why);
                worker::exit_status(exit)
            }
            Some(_) | None => {
                self.progress.error(why);
                EXIT_FAILURE
            }
        }
    }

    fn say_waiting(&mut self, why: &str, hint: &str) {
        let name = self.name();
        let hint = if hint.is_empty() { String::new() } else { format!(" ({hint})") };
        self.progress.say(&format!("{name} waits: {why}{hint}"));
    }

    /// What is seen, as something to do; `None` while nothing is.
    async fn look(&mut self, seen: &Seen) -> Result<Option<Waiting>, Failure> {
        match &seen.link {
            Link::Opening => Ok(None),
            Link::Up => Ok(seen
                .workload
                .as_ref()
                .map(|w| decide::while_waiting(w, self.plan.rank, self.last_attempt))),
            Link::Down(why) => {
                self.progress.say(&format!("the arbiter does not answer, waiting for it: {why}"));
                Ok(None)
            }
            Link::Unknown(why) => {
                self.progress.say(&format!("{why}: submitting it again"));
                match self.submit().await {
                    // Attempts are counted from the start again.
                    Ok(()) => self.last_attempt = 0,
                    Err(SubmitError::Later(_)) => {}
                    Err(SubmitError::Refused(failure)) => return Err(failure),
                }
                Ok(None)
            }
        }
    }

    /// Looks the assigned devices up at the agent of the node; `None` if the admission has changed
    /// meanwhile.
    async fn prepare(
        &mut self,
        attempt: u32,
        assignment: &pb::Assignment,
        watch: &mut Watch,
    ) -> Option<Next<Start>> {
        let node = assignment.node.as_str();
        let Some(socket) = self.agents.get(node).cloned() else {
            // The arbiter was told our nodes: it chose another one by mistake, and will time out.
            let text = format!("admitted on node {}, which is not reachable here", safe(node));
            self.progress.error(&text);
            watch.seen.changed().await.expect("the watch runs until it is dropped");
            return None;
        };
        loop {
            let why = match connect::report(&socket, Duration::from_secs(3)).await {
                Ok(agent) => match devices(&agent, assignment) {
                    Ok(devices) => {
                        let node = node.to_owned();
                        let node_uid = agent.answer.report.map(|r| r.node_uid).unwrap_or_default();
                        let drain_dir = self.drain_dir(attempt);
                        return Some(Next::Go(Start {
                            attempt,
                            node,
                            node_uid,
                            devices,
                            drain_dir,
                        }));
                    }
                    Err(why) => why,
                },
                Err(why) => why,
            };
            self.progress
                .say(&format!("admitted on node {}, waiting for its agent: {why}", safe(node)));
            tokio::select! {
                changed = watch.seen.changed() => {
                    changed.expect("the watch runs until it is dropped");
                    return None;
                }
                signal = ending(&mut self.signals) => {
                    return Some(Next::Leave(self.give_up(signal).await));
                }
                () = sleep(RETRY_PAUSE) => {}
            }
        }
    }

    /// Cancels the workload because of a signal; the exit status.
    async fn give_up(&mut self, signal: Signal) -> u8 {
        self.progress.done_waiting();
        let name = self.name();
        let cancelling = async {
            let arbiter = Arbiter::connect(&self.global).await?;
            let request = pb::CancelWorkloadRequest { name: self.plan.spec.name.clone() };
            let mut client = arbiter.admin();
            let call = client.cancel_workload(connect::request(request, CANCEL_PATIENCE));
            arbiter.ask("could not cancel it", call).await
        };
        match tokio::time::timeout(CANCEL_PATIENCE, cancelling).await {
            Ok(Ok(_)) => self.progress.say(&format!("{signal}: {name} is cancelled")),
            Ok(Err(failure)) => self.progress.error(&format!("{signal}: {failure}")),
            Err(_) => self.progress.error(&format!(
                "{signal}: the arbiter did not answer; it gives {name} up once it misses this process"
            )),
        }
        signals::exit_status(signal)
    }
}

/// Why a submission did not succeed.
enum SubmitError {
    /// The arbiter may accept it later.
    Later(Failure),
    /// It will not.
    Refused(Failure),
}

/// Waits for a signal that asks to end; others are dropped.
pub(super) async fn ending(signals: &mut Signals) -> Signal {
    loop {
        let signal = signals.next().await;
        if signals::asks_to_end(signal) {
            return signal;
        }
    }
}

/// The assigned devices with their numbers on the node.
fn devices(
    agent: &connect::Agent,
    assignment: &pb::Assignment,
) -> Result<Vec<worker::AssignedDevice>, String> {
    let known = agent.answer.report.as_ref().map(|r| r.devices.as_slice()).unwrap_or_default();
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for id in &assignment.devices {
        match known.iter().find(|d| d.id == *id) {
            Some(d) => found.push(worker::AssignedDevice { id: id.clone(), index: d.index }),
            None => missing.push(safe(id)),
        }
    }
    if missing.is_empty() {
        found.sort_by_key(|d| d.index);
        return Ok(found);
    }
    Err(format!("it does not report {}: {}", count(missing.len(), "device"), missing.join(", ")))
}

/// Why an answer did not come, for people.
pub(super) fn said(status: &Status) -> String {
    safe(status.message())
}
