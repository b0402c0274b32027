//! The worker process: its environment, its start and its end.

#[cfg(test)]
mod tests;

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use sluice::paths::create_private_dir;
use sluice_core::workload::Exit;
use tokio::process::{Child, Command};

use super::args::Plan;

/// Time between SIGTERM and SIGKILL for a worker whose workload is over: what the arbiter allows at
/// a release. More would hold devices that others may be waiting for.
const END_GRACE: Duration = Duration::from_secs(10);

/// A device assigned to the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AssignedDevice {
    /// Its id on the node.
    pub(crate) id: String,
    /// Its number there, as CUDA counts.
    pub(crate) index: u32,
}

/// One admission: what is to be started where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    /// Number of the start, from 1.
    pub(crate) attempt: u32,
    /// The node.
    pub(crate) node: String,
    /// The identity of its agent, which tells this worker from one of another installation with the same name.
    pub(crate) node_uid: String,
    /// The devices there.
    pub(crate) devices: Vec<AssignedDevice>,
    /// Where the worker can be asked through files; empty if there is no such place.
    pub(crate) drain_dir: String,
}

/// The variables that the worker gets on top of the launcher's environment.
pub(crate) fn environment(plan: &Plan, start: &Start) -> Vec<(&'static str, String)> {
    let ids: Vec<&str> = start.devices.iter().map(|d| d.id.as_str()).collect();
    let indexes: Vec<String> = start.devices.iter().map(|d| d.index.to_string()).collect();
    let spec = &plan.spec;
    let mut environment = vec![
        ("SLUICE_WORKLOAD", spec.name.clone()),
        ("SLUICE_WORKER", format!("{}/{}/{}", spec.name, start.attempt, plan.rank)),
        ("SLUICE_NODE", start.node.clone()),
        ("SLUICE_NODE_UID", start.node_uid.clone()),
        ("SLUICE_DEVICES", ids.join(",")),
        ("SLUICE_CHECKPOINT_DIR", spec.checkpoint_dir.clone()),
        ("SLUICE_DRAIN_DIR", start.drain_dir.clone()),
        // Empty hides every GPU: right for a worker that was given none.
        ("CUDA_VISIBLE_DEVICES", indexes.join(",")),
        ("RANK", plan.rank.to_string()),
        ("WORLD_SIZE", spec.nnodes.to_string()),
    ];
    // One worker per rank sees only its own devices, so it counts them from 0. A worker that is alone gets none: the
    // Hugging Face Trainer takes it for a gang's by this and waits for an address to meet the others at.
    if spec.nnodes > 1 {
        environment.push(("LOCAL_RANK", "0".to_owned()));
    }
    environment
}

/// Who tells a worker to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// This launcher.
    Asked,
    /// Its agent has, for a drain: a second SIGTERM would cut off what it does on the first.
    Awaited,
}

/// A running worker.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    group: Pid,
}

impl Worker {
    /// Starts the worker in a process group of its own. It outlives this process if that is killed.
    ///
    /// # Errors
    /// As the system says it: the program has gone, the limit of processes is reached, ...
    pub(crate) fn spawn(plan: &Plan, start: &Start) -> io::Result<Self> {
        let mut command = Command::new(&plan.program);
        command.as_std_mut().arg0(&plan.command[0]);
        let child = command
            .args(&plan.command[1..])
            .envs(environment(plan, start))
            .process_group(0)
            .kill_on_drop(false)
            .spawn()?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok());
        let group = Pid::from_raw(pid.expect("a child that was not waited for has a pid"));
        Ok(Self { child, group })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.group.as_raw().unsigned_abs()
    }

    /// Sends a signal to its process group; a group that has gone is none of the sender's business.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = killpg(self.group, signal);
    }

    /// Waits until it has ended. May be dropped and called again.
    pub(crate) async fn wait(&mut self) -> Exit {
        self.child.wait().await.map_or(Exit::Unknown, exit_of)
    }

    /// Ends it: SIGTERM to its group unless it has had one, SIGKILL after the grace.
    pub(crate) async fn end(&mut self, how: Ending) -> Exit {
        if how == Ending::Asked {
            self.signal(Signal::SIGTERM);
        }
        if let Ok(exit) = tokio::time::timeout(END_GRACE, self.wait()).await {
            return exit;
        }
        self.signal(Signal::SIGKILL);
        self.wait().await
    }
}

/// An empty directory of this user alone for the files of one worker. What an earlier launcher that was killed left
/// there is removed.
///
/// # Errors
/// There is no place for it; the worker can do without.
pub(crate) fn create_drain_dir(dir: &Path) -> io::Result<String> {
    match std::fs::remove_dir_all(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    create_private_dir(dir)?;
    dir.to_str().map(str::to_owned).ok_or_else(|| io::Error::other("its name is not UTF-8"))
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}

/// The exit status with which the launcher says how its worker ended.
pub(crate) fn exit_status(exit: Exit) -> u8 {
    match exit {
        // The system keeps eight bits of an exit status.
        Exit::Code(code) => u8::try_from(code & 0xff).unwrap_or(1),
        Exit::Signal(signal) => u8::try_from(signal.saturating_add(128)).unwrap_or(255),
        Exit::Unknown => 1,
    }
}
