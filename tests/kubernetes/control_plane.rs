//! etcd and an API server on loopback, in a directory of their own, ended by pid.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::control_plane_files as files;
use crate::process::{PAUSE, Process, command, patience, sweep, wait_for};

/// One control plane at a time: each takes half a GB of memory and most of a core while it starts.
static ALONE: Mutex<()> = Mutex::new(());
/// Most starts before a port that somebody else took in between fails the test.
const STARTS_MAX: u32 = 3;

/// The programs, or why there are none.
fn programs() -> Result<PathBuf, String> {
    let setup = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kubernetes/setup");
    let output = Command::new(setup).arg("--where").output();
    let output = output.map_err(|e| format!("{setup} does not run: {e}"))?;
    let root = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if root.join("built.txt").exists() {
        Ok(root)
    } else {
        Err(format!("{} is not built; run tests/kubernetes/setup", root.display()))
    }
}

/// A running control plane.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    pub(crate) programs: PathBuf,
    port: u16,
    etcd_port: u16,
    processes: Vec<Process>,
    root: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl ControlPlane {
    /// Starts one; `None`, told aloud, where the programs are absent.
    pub(crate) fn start(test: &str) -> Option<Self> {
        let programs = match programs() {
            Ok(programs) => programs,
            Err(why) => {
                let required = std::env::var("SLUICE_TEST_KUBERNETES");
                assert!(required.is_err(), "{test} needs Kubernetes: {why}");
                let told = format!("skipped: {test} needs Kubernetes: {why}\n");
                std::io::stderr().write_all(told.as_bytes()).unwrap();
                return None;
            }
        };
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let root = tempfile::Builder::new().prefix("sluice-kube-").tempdir().unwrap();
        std::fs::create_dir(root.path().join("logs")).unwrap();
        let (port, etcd_port) = (0, 0);
        let processes = Vec::new();
        let mut plane = Self { programs, port, etcd_port, processes, root, _alone: alone };
        assert!(
            plane.run("certificates", &[&plane.path("").display().to_string()]).status.success()
        );
        files::write(plane.root());
        for start in 1..=STARTS_MAX {
            if plane.try_start() {
                return Some(plane);
            }
            assert!(start < STARTS_MAX, "the control plane does not start: {}", plane.tails());
            plane.processes.clear();
        }
        None
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// A kubeconfig with the token of `user`, one of [`files::USERS`].
    pub(crate) fn kubeconfig(&self, user: &str) -> PathBuf {
        let path = self.path(&format!("{user}.kubeconfig"));
        std::fs::write(&path, files::kubeconfig(self.root(), self.port, user)).unwrap();
        path
    }

    /// Starts a process that ends with the control plane.
    pub(crate) fn spawn(&self, name: &str, command: &mut Command) -> Process {
        Process::start(name, command, &self.path("logs"))
    }

    /// A command with the mark of this control plane.
    pub(crate) fn command(&self, program: &Path) -> Command {
        command(&program.display().to_string(), self.root())
    }

    fn part(&self, part: &str) -> Command {
        let mut command = self.command(&self.programs.join("control-plane"));
        command.arg(part);
        command
    }

    fn run(&self, part: &str, arguments: &[&str]) -> Output {
        self.part(part).args(arguments).output().unwrap()
    }

    /// True once the API server is ready; false if a part ended, as it does where its port is taken.
    fn try_start(&mut self) -> bool {
        let [port, etcd_port, peer_port] = free_ports();
        (self.port, self.etcd_port) = (port, etcd_port);
        let data = self.path(&format!("etcd-{etcd_port}"));
        let mut etcd = self.part("etcd");
        etcd.args(files::etcd_arguments(&data, etcd_port, peer_port));
        self.processes.push(self.spawn("etcd", &mut etcd));
        self.start_api_server();
        let deadline = Instant::now() + 3 * patience();
        while Instant::now() < deadline {
            if self.processes.iter_mut().any(|process| process.exited().is_some()) {
                return false;
            }
            if self.kubectl_output(&["get", "--raw", "/readyz"]).status.success() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        false
    }

    /// Starts the API server, or starts it again on the same port.
    pub(crate) fn start_api_server(&mut self) {
        self.processes.retain(|process| process.name() != "api-server");
        let mut api_server = self.part("kube-apiserver");
        api_server.args(files::api_server_arguments(self.root(), self.port, self.etcd_port));
        self.processes.push(self.spawn("api-server", &mut api_server));
    }

    /// SIGKILL to the API server.
    pub(crate) fn kill_api_server(&mut self) {
        let server = self.processes.iter_mut().find(|process| process.name() == "api-server");
        server.expect("the API server was started").kill();
    }

    /// Starts the controller that makes pods for Jobs.
    pub(crate) fn start_jobs(&mut self) {
        let mut jobs = self.part("jobs");
        jobs.arg(self.kubeconfig("admin"));
        self.processes.push(self.spawn("jobs", &mut jobs));
    }

    /// Keeps `process` until the end.
    pub(crate) fn keep(&mut self, process: Process) {
        self.processes.push(process);
    }

    fn kubectl_output(&self, arguments: &[&str]) -> Output {
        let mut command = self.part("kubectl");
        command.arg("--kubeconfig").arg(self.kubeconfig("admin"));
        command.env("HOME", self.root()).args(arguments).output().unwrap()
    }

    /// What `kubectl` prints; fails the test if it fails.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.kubectl_output(arguments);
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?}: {why}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Applies objects, as an administrator does.
    pub(crate) fn apply(&self, text: &str) {
        let file = tempfile::NamedTempFile::new_in(self.root()).unwrap();
        std::fs::write(file.path(), text).unwrap();
        let path = file.path().display().to_string();
        // Kueue's webhooks take a moment to be reached by an API server that has just learnt of them.
        wait_for("objects to be applied", || {
            let flags = ["apply", "--server-side", "--force-conflicts", "-f", &path];
            let output = self.kubectl_output(&flags);
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            let is_late = why.contains("failed calling webhook") || why.contains("no matches for");
            assert!(output.status.success() || is_late, "{why}\n{text}");
            output.status.success().then_some(())
        });
    }

    /// An object, or a list of objects, as the API server has it; `None` while there is none.
    pub(crate) fn get(&self, arguments: &[&str]) -> Option<Value> {
        let all: Vec<&str> = ["get", "-o", "json"].iter().chain(arguments).copied().collect();
        let output = self.kubectl_output(&all);
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Waits until `look` finds something in what `kubectl get` with `arguments` shows.
    pub(crate) fn wait<T>(
        &self,
        what: &str,
        arguments: &[&str],
        look: impl Fn(&Value) -> Option<T>,
    ) -> T {
        let mut last = Value::Null;
        // Several programs in turn have to notice.
        let deadline = Instant::now() + 3 * patience();
        loop {
            if let Some(object) = self.get(arguments) {
                if let Some(found) = look(&object) {
                    return found;
                }
                last = object;
            }
            assert!(Instant::now() < deadline, "waited in vain for {what}: {last:#}");
            std::thread::sleep(PAUSE);
        }
    }

    fn tails(&mut self) -> String {
        self.processes.iter_mut().map(Process::tail).collect()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.tails());
        }
        // Last started, first ended: nobody waits for somebody who has gone.
        while let Some(process) = self.processes.pop() {
            drop(process);
        }
        sweep(self.root.path());
        if std::thread::panicking() && std::env::var_os("SLUICE_TEST_KEEP").is_some() {
            self.root.disable_cleanup(true);
            eprintln!("kept: {}", self.root().display());
        }
    }
}

/// Ports that nobody listens on. Somebody may before they are used; then the start is tried again with others.
pub(super) fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind(("127.0.0.1", 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
