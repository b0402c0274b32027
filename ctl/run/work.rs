//! One worker of a launcher: from its start to the arbiter's word on how it ended.

use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use sluice::paths::Paths;
use sluice::wire::pb;
use sluice::wire::pb::workers_client::WorkersClient;
use sluice_core::workload::Exit;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tonic::Status;

use super::decide::{self, Running};
use super::launcher::{Launcher, Next, RETRY_PAUSE, said};
use super::link::{Link, Watch};
use super::signals;
use super::worker::{Ending, Start, Worker, create_drain_dir, exit_status};
use crate::connect::{self, Arbiter};
use crate::failure::{EXIT_FAILURE, EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Failure, is_transient};
use crate::text::{count, safe};

/// Longest pause between tries to tell the agent or the arbiter something.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long one try may take.
const TRY_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the worker runs no more.
enum Ended {
    /// By itself.
    Exited(Exit),
    /// It was ended: another attempt counts.
    Superseded(Exit),
    /// It was ended: the workload is over.
    Over(Exit),
}

impl Launcher {
    /// Starts the worker and waits for its end and for what the arbiter says to that.
    pub(super) async fn work(
        &mut self,
        start: Start,
        watch: &mut Watch,
    ) -> Result<Next<()>, Failure> {
        let attempt = start.attempt;
        self.last_attempt = attempt;
        self.last_exit = None;
        let devices = count(start.devices.len(), "device");
        self.progress.say(&format!(
            "{} starts on node {} with {devices} (start number {attempt})",
            self.name(),
            safe(&start.node)
        ));
        let mut worker = match Worker::spawn(&self.plan, &start) {
            Ok(worker) => worker,
            Err(error) => {
                let file = self.plan.program.display();
                self.progress.error(&format!("could not start \"{file}\": {error}"));
                let missing = error.kind() == std::io::ErrorKind::NotFound;
                let status = if missing { EXIT_NOT_FOUND } else { EXIT_NOT_EXECUTABLE };
                return self.settle(attempt, Exit::Code(status.into()), watch).await;
            }
        };
        let ended = self.watch_over(&mut worker, &start, watch).await;
        if !start.drain_dir.is_empty() {
            // What is left behind is emptied by the next start of that name.
            let _ = std::fs::remove_dir_all(&start.drain_dir);
        }
        match ended {
            Ended::Exited(exit) => self.settle(attempt, exit, watch).await,
            Ended::Superseded(exit) => {
                // What this worker did no longer counts; that it has gone is worth telling once.
                let _ = self.report_exit(attempt, exit).await;
                Ok(Next::Go(()))
            }
            Ended::Over(exit) => {
                let _ = self.report_exit(attempt, exit).await;
                Ok(Next::Leave(EXIT_FAILURE))
            }
        }
    }

    /// Waits for the worker's end: registers it, passes signals on, follows the workload.
    async fn watch_over(&mut self, worker: &mut Worker, start: &Start, watch: &mut Watch) -> Ended {
        let (notes, mut noted) = mpsc::channel(16);
        let registration = tokio::spawn(register(self.registration(worker, start), notes));
        let mut link_was_up = true;
        let ended = loop {
            tokio::select! {
                exit = worker.wait() => break Ended::Exited(exit),
                signal = self.signals.next() => worker.signal(signal),
                Some(note) = noted.recv() => self.progress.say(&note),
                changed = watch.seen.changed() => {
                    changed.expect("the watch runs until it is dropped");
                    let seen = watch.seen.borrow_and_update().clone();
                    self.say_link(&seen.link, &mut link_was_up);
                    let workload = seen.workload.filter(|_| seen.link == Link::Up);
                    let is_told = workload.as_ref().is_some_and(|w| w.told_to_end);
                    match workload.map(|w| decide::while_running(&w, start.attempt)) {
                        None | Some(Running::Keep) => {}
                        Some(Running::Superseded(why)) => {
                            self.progress.say(&format!("ending the worker: {why}"));
                            break Ended::Superseded(worker.end(Ending::Asked).await);
                        }
                        Some(Running::Over(why)) => {
                            self.progress.error(&format!("{why}; ending the worker"));
                            let end = if is_told { Ending::Awaited } else { Ending::Asked };
                            break Ended::Over(worker.end(end).await);
                        }
                    }
                }
            }
        };
        registration.abort();
        ended
    }

    /// The directory for the worker's files; empty where there is no place for it, which the worker can do without.
    pub(super) fn drain_dir(&mut self, attempt: u32) -> String {
        let worker = format!("{}/{attempt}/{}", self.plan.spec.name, self.plan.rank);
        let created = Paths::find(self.global.state_dir.as_deref())
            .map_err(|e| e.to_string())
            .and_then(|p| create_drain_dir(&p.drain_dir(&worker)).map_err(|e| e.to_string()));
        created.unwrap_or_else(|why| {
            let text = format!("the worker client will not be heard: no directory for it: {why}");
            self.progress.say(&text);
            String::new()
        })
    }

    fn say_link(&mut self, link: &Link, was_up: &mut bool) {
        match link {
            Link::Opening => {}
            Link::Up if *was_up => {}
            Link::Up => {
                *was_up = true;
                self.progress.say("the arbiter is back");
            }
            Link::Down(why) | Link::Unknown(why) => {
                *was_up = false;
                self.progress.say(&format!("the arbiter is away, the worker goes on: {why}"));
            }
        }
    }

    fn registration(&self, worker: &Worker, start: &Start) -> Registration {
        let spec = &self.plan.spec;
        let request = pb::RegisterRequest {
            workload: spec.name.clone(),
            attempt: start.attempt,
            rank: self.plan.rank,
            world_size: spec.nnodes,
            pid: worker.pid(),
            checkpoint_dir: spec.checkpoint_dir.clone(),
            checkpoint_format: spec.checkpoint_format,
            checkpoint_rules: spec.checkpoint_rules.clone(),
            devices: start.devices.iter().map(|d| d.id.clone()).collect(),
            drain_dir: start.drain_dir.clone(),
        };
        let socket = self.agents.get(&start.node).cloned();
        Registration { socket: socket.unwrap_or_default(), node: start.node.clone(), request }
    }

    /// Reports the exit until the arbiter answers, and does what it says.
    async fn settle(
        &mut self,
        attempt: u32,
        exit: Exit,
        watch: &mut Watch,
    ) -> Result<Next<()>, Failure> {
        self.last_exit = Some(exit);
        let mut pause = RETRY_PAUSE;
        loop {
            let (status, is_final) = match self.report_exit(attempt, exit).await {
                Ok(response) => return Ok(self.obey(&response, exit)),
                Err(status) => (said(&status), !is_transient(&status)),
            };
            if is_final {
                let text = format!("the arbiter did not take the report of {exit}: {status}");
                self.progress.error(&text);
                return Ok(Next::Leave(exit_status(exit)));
            }
            self.progress.say(&format!(
                "the worker ended with {exit}; waiting for the arbiter, which does not answer: {status}"
            ));
            tokio::select! {
                () = sleep(pause) => pause = (pause * 2).min(PAUSE_MAX),
                // The watch is often back before the pause is over.
                changed = watch.seen.changed() => changed.expect("the watch runs until it is dropped"),
                signal = super::launcher::ending(&mut self.signals) => {
                    return Ok(self.leave_unreported(signal, exit));
                }
            }
        }
    }

    fn leave_unreported(&mut self, signal: Signal, exit: Exit) -> Next<()> {
        let text = format!("{signal}: leaving without having told the arbiter of {exit}");
        self.progress.error(&text);
        Next::Leave(match exit {
            Exit::Code(0) => signals::exit_status(signal),
            Exit::Code(_) | Exit::Signal(_) | Exit::Unknown => exit_status(exit),
        })
    }

    fn obey(&mut self, response: &pb::ReportExitResponse, exit: Exit) -> Next<()> {
        let name = self.name();
        match response.verdict() {
            pb::ExitVerdict::Wait => {
                self.progress.say(&format!(
                    "{name} was drained: its worker ended with {exit} and starts again when it is \
                     admitted"
                ));
                Next::Go(())
            }
            pb::ExitVerdict::Finished | pb::ExitVerdict::Unspecified => {
                if exit != Exit::Code(0) {
                    self.progress.say(&format!("{name} ended with {exit}"));
                }
                Next::Leave(exit_status(exit))
            }
        }
    }

    /// Tells the arbiter once how the worker of `attempt` ended.
    async fn report_exit(
        &self,
        attempt: u32,
        exit: Exit,
    ) -> Result<pb::ReportExitResponse, Status> {
        let (code, signal) = match exit {
            Exit::Code(code) => (Some(code), None),
            Exit::Signal(signal) => (None, Some(signal)),
            Exit::Unknown => (None, None),
        };
        let request = pb::ReportExitRequest {
            workload: self.plan.spec.name.clone(),
            attempt,
            rank: self.plan.rank,
            launcher: self.id.clone(),
            exit: Some(pb::WorkerExit { code, signal }),
        };
        let arbiter = Arbiter::connect(&self.global).await;
        let arbiter = arbiter.map_err(|failure| Status::unavailable(failure.message))?;
        let mut client = arbiter.admin();
        let call = client.report_exit(connect::request(request, TRY_TIMEOUT));
        connect::within(TRY_TIMEOUT, call).await
    }
}

/// What the agent is to be told of a worker.
struct Registration {
    socket: PathBuf,
    node: String,
    request: pb::RegisterRequest,
}

/// Makes the worker known to its agent: tried until it is, or until the agent refuses.
async fn register(registration: Registration, notes: mpsc::Sender<String>) {
    let node = safe(&registration.node);
    let mut pause = Duration::from_millis(50);
    let mut waited = false;
    loop {
        match try_register(&registration).await {
            Ok(()) => {
                if waited {
                    let _ =
                        notes.send(format!("the agent of node {node} knows the worker now")).await;
                }
                return;
            }
            Err(status) if is_transient(&status) => {
                // Said once the agent is away for longer than a moment.
                if pause > RETRY_PAUSE {
                    waited = true;
                    let text = format!(
                        "the agent of node {node} does not answer; the worker runs, and cannot be \
                         drained until it is known there: {}",
                        said(&status)
                    );
                    let _ = notes.send(text).await;
                }
            }
            Err(status) => {
                let text =
                    format!("the agent of node {node} refused the worker: {}", said(&status));
                let _ = notes.send(text).await;
                return;
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn try_register(registration: &Registration) -> Result<(), Status> {
    let channel =
        connect::agent_channel(&registration.socket).await.map_err(Status::unavailable)?;
    let mut client = WorkersClient::new(channel);
    let call = client.register(connect::request(registration.request.clone(), TRY_TIMEOUT));
    connect::within(TRY_TIMEOUT, call).await.map(drop)
}
