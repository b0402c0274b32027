//! One real process: started with its output in files, signalled and ended by its pid, always reaped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longest wait for anything in these tests: what takes milliseconds here may take seconds on a loaded machine. On one
/// that is slower still, `SLUICE_TEST_PATIENCE_S` is the number of seconds.
pub(crate) fn patience() -> Duration {
    let given = std::env::var("SLUICE_TEST_PATIENCE_S").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(30))
}

/// Pause between two looks at a condition.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// How much of a log is shown when a test fails. Unit: lines.
const TAIL_LINES: usize = 25;

/// The variable that marks every process of a test, set to the test's directory.
pub(crate) const ROOT_VARIABLE: &str = "SLUICE_TEST_ROOT";

/// Variables that would lead a test's programs to an installation that is really in use.
const FOREIGN_VARIABLES: [&str; 10] = [
    "SLUICE_ARBITER",
    "SLUICE_AGENT_SOCKET",
    "SLUICE_STATE_DIR",
    "SLUICE_LOG",
    "SLUICE_RENDEZVOUS",
    "SLUICE_CHECKPOINT_DIR",
    "SLUICE_WORKER",
    "SLUICE_DEVICES",
    "RANK",
    "WORLD_SIZE",
];

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    status: Option<ExitStatus>,
    out: PathBuf,
    err: PathBuf,
}

/// A command for `program` in an environment without traces of other installations.
pub(crate) fn command(program: &str, root: &Path) -> Command {
    let mut command = Command::new(program);
    for variable in FOREIGN_VARIABLES {
        command.env_remove(variable);
    }
    command.env(ROOT_VARIABLE, root).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

impl Process {
    /// Starts `command`; its output goes to files named after `name` in `logs`.
    pub(crate) fn start(name: &str, command: &mut Command, logs: &Path) -> Self {
        let file = |kind: &str| {
            let path = (0..).map(|n| logs.join(format!("{name}.{n}.{kind}")));
            let path = path.take(1_000).find(|p| !p.exists()).unwrap();
            (File::create(&path).unwrap(), path)
        };
        let ((out_file, out), (err_file, err)) = (file("out"), file("err"));
        let child = command.stdout(out_file).stderr(err_file).spawn();
        let child = child.unwrap_or_else(|e| panic!("could not start {name}: {e}: {command:?}"));
        Self { name: name.to_owned(), child, status: None, out, err }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// Sends a signal; a process that has ended gets none.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.exited().is_none() {
            kill(self.pid(), signal).unwrap();
        }
    }

    /// SIGKILL, and waits for the end.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.wait();
    }

    /// The exit status, if it has ended.
    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap();
        }
        self.status
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        wait_for(&what, || self.exited())
    }

    /// Waits for the end and returns the exit code; `None` if a signal ended it.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.wait().code()
    }

    /// The first line of standard output; `None` until it is complete.
    pub(crate) fn first_line(&self) -> Option<String> {
        let text = self.stdout();
        text.split_once('\n').map(|(line, _)| line.to_owned())
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.out).unwrap_or_default()).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.err).unwrap_or_default()).into_owned()
    }

    /// The ends of its outputs, for a person who looks at a failed test.
    pub(crate) fn tail(&mut self) -> String {
        let status = self.exited().map_or("runs".to_owned(), |status| status.to_string());
        let tail = |text: String| {
            let lines: Vec<&str> = text.lines().collect();
            let from = lines.len().saturating_sub(TAIL_LINES);
            lines[from..].iter().map(|line| format!("    {line}\n")).collect::<String>()
        };
        format!("{} ({status})\n{}{}", self.name, tail(self.stdout()), tail(self.stderr()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Killed even if stopped; then reaped, so that nothing is left.
        let _already_gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Waits until `look` has something, and fails the test after [`patience`].
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let patience = patience();
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {patience:?} in vain for {what}");
        sleep(PAUSE);
    }
}

/// Live processes that carry `variable=value` in their environment: pid and whole environment.
pub(crate) fn processes_with(variable: &str, value: &str) -> Vec<(Pid, Vec<String>)> {
    let wanted = format!("{variable}={value}");
    let mut found = Vec::new();
    for process in procfs::process::all_processes().unwrap().flatten() {
        let Ok(bytes) = std::fs::read(format!("/proc/{}/environ", process.pid)) else { continue };
        let environ: Vec<String> =
            bytes.split(|b| *b == 0).map(|v| String::from_utf8_lossy(v).into_owned()).collect();
        if environ.contains(&wanted) && process.stat().is_ok_and(|s| s.state != 'Z') {
            found.push((Pid::from_raw(process.pid), environ));
        }
    }
    found
}

/// Ends every process of the test in `root`, by pid; they are all its own.
pub(crate) fn sweep(root: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let left = processes_with(ROOT_VARIABLE, &root.display().to_string());
        if left.is_empty() || Instant::now() >= deadline {
            return;
        }
        for (pid, _) in left {
            let _already_gone = kill(pid, Signal::SIGKILL);
        }
        sleep(PAUSE);
    }
}
