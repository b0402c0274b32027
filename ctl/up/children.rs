//! The programs that `sluice up` runs: started until ready, watched, stopped by their pids.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::failure::{EXIT_FAILURE, EXIT_USAGE, Failure};
use crate::text::safe;

/// How long a program may take to say that it is ready: opening its state and its socket.
const READY_PATIENCE: Duration = Duration::from_secs(30);
/// How long the programs may take to end. `sluice up` promises to be gone within this.
const STOP_PATIENCE: Duration = Duration::from_secs(9);
/// Longest line that a program may say when it is ready. Unit: bytes.
const READY_BYTES_MAX: u64 = 4_096;

/// A program that runs.
#[derive(Debug)]
struct Child {
    name: String,
    pid: Pid,
    ended: Option<ExitStatus>,
}

/// The programs in the order of their start.
#[derive(Debug, Default)]
pub(super) struct Children {
    children: Vec<Child>,
    waits: JoinSet<(usize, std::io::Result<ExitStatus>)>,
}

/// How stopping went.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// All ended on SIGTERM.
    InTime,
    /// These had to be killed.
    Killed(Vec<String>),
}

impl Children {
    /// Starts a program in a process group of its own (a Ctrl-C reaches only `sluice up`, which
    /// stops them in order) and waits for its ready line.
    ///
    /// # Errors
    /// It does not start, ends first, or is not ready in time.
    pub(super) async fn start(
        &mut self,
        name: &str,
        program: &Path,
        flags: &[String],
    ) -> Result<String, Failure> {
        let failed = |e: std::io::Error| {
            Failure::runtime(format!("could not start \"{}\": {e}", program.display()))
        };
        let mut command = Command::new(program);
        command.args(flags).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok());
        let pid = Pid::from_raw(pid.expect("a child that was not waited for has a pid"));
        let stdout = child.stdout.take().expect("it was asked for just now");
        let number = self.children.len();
        self.children.push(Child { name: name.to_owned(), pid, ended: None });
        self.waits.spawn(async move { (number, child.wait().await) });
        self.ready(number, stdout).await
    }

    async fn ready(&mut self, number: usize, stdout: ChildStdout) -> Result<String, Failure> {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        let mut limited = (&mut reader).take(READY_BYTES_MAX);
        let read = timeout(READY_PATIENCE, limited.read_until(b'\n', &mut line)).await;
        if line.ends_with(b"\n") {
            // Whatever else it prints is read, so that it never waits for us.
            tokio::spawn(async move {
                let _ = tokio::io::copy(&mut reader, &mut tokio::io::sink()).await;
            });
            return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
        let name = safe(&self.children[number].name);
        if read.is_err() {
            let patience = READY_PATIENCE.as_secs();
            return Err(Failure::runtime(format!("{name} was not ready within {patience} s")));
        }
        // It closed its output: it is ending, and says why on standard error.
        match timeout(STOP_PATIENCE, self.first_ended()).await {
            Ok((number, status)) => Err(self.end_of(number, status, "before it was ready")),
            Err(_) => Err(Failure::runtime(format!("{name} closed its output and did not end"))),
        }
    }

    /// Waits until one of the programs ends; that, as a failure.
    pub(super) async fn first_end(&mut self) -> Failure {
        let (number, status) = self.first_ended().await;
        self.end_of(number, status, "by itself")
    }

    async fn first_ended(&mut self) -> (usize, Option<ExitStatus>) {
        match self.waits.join_next().await {
            Some(Ok((number, status))) => {
                let status = status.ok();
                self.children[number].ended = Some(status.unwrap_or_default());
                (number, status)
            }
            // A wait never panics and is never aborted while it is awaited here.
            Some(Err(_)) | None => std::future::pending().await,
        }
    }

    fn end_of(&self, number: usize, status: Option<ExitStatus>, when: &str) -> Failure {
        let how = status.map_or("in an unknown way".to_owned(), |s| format!("with {s}"));
        let name = safe(&self.children[number].name);
        let code = status.and_then(|s| s.code());
        let is_usage = code == Some(i32::from(EXIT_USAGE));
        Failure {
            exit: if is_usage { EXIT_USAGE } else { EXIT_FAILURE },
            message: format!("{name} ended {when}, {how}; what it said is above"),
            hint: String::new(),
        }
    }

    /// Stops all that run: SIGTERM, and SIGKILL for those that take too long.
    pub(super) async fn stop(&mut self) -> Stopped {
        self.signal(Signal::SIGTERM);
        let ending = async { while self.reap_next().await {} };
        if timeout(STOP_PATIENCE, ending).await.is_ok() {
            return Stopped::InTime;
        }
        self.kill().await
    }

    /// Kills all that run.
    pub(super) async fn kill(&mut self) -> Stopped {
        let running = self.children.iter().filter(|c| c.ended.is_none());
        let names = running.map(|c| safe(&c.name)).collect();
        self.signal(Signal::SIGKILL);
        while self.reap_next().await {}
        Stopped::Killed(names)
    }

    /// Waits for one more to end; false if none is left.
    async fn reap_next(&mut self) -> bool {
        if self.children.iter().all(|c| c.ended.is_some()) {
            return false;
        }
        self.first_ended().await;
        true
    }

    fn signal(&mut self, signal: Signal) {
        // A pid is used only while its child has not been waited for: it cannot be another's.
        while let Some(Ok((number, status))) = self.waits.try_join_next() {
            self.children[number].ended = Some(status.unwrap_or_default());
        }
        for child in self.children.iter().filter(|c| c.ended.is_none()) {
            let _ = kill(child.pid, signal);
        }
    }
}
