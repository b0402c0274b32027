//! A cluster of real processes in a directory of its own: one arbiter, some agents, and the launchers of workloads.
//!
//! State, sockets and logs lie below one temporary directory; the arbiter listens on a unix socket there, so that it
//! can be killed and started again at the same address while other tests run. Whatever happens, dropping the cluster
//! ends every process that carries its mark.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use sluice::wire::pb;
use sluice::wire::pb::admin_client::AdminClient;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use crate::process::{Process, command, sweep, wait_for};

pub(crate) const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");
pub(crate) const AGENT: &str = env!("CARGO_BIN_EXE_sluice-agent");
pub(crate) const ARBITER: &str = env!("CARGO_BIN_EXE_sluice-arbiter");

/// Runs a worker that holds the files of its devices open and locked, as a driver would: a device that is given to a
/// second worker while any process of the first lives makes the second end with status 99.
const LOCKED: &str = r#"
n=4
echo "$SLUICE_WORKER $SLUICE_DEVICES" >> "$SLUICE_TEST_ROOT/starts"
for device in $(printf %s "$SLUICE_DEVICES" | tr , " "); do
    eval "exec $n<>\"\$SLUICE_STATE_DIR/agents/\$SLUICE_NODE/devices/\$device\""
    flock -n $n || { echo "$SLUICE_WORKER $device" >> "$SLUICE_TEST_ROOT/doubled"; exit 99; }
    n=$((n + 1))
done
exec "$@"
"#;

/// What is to be started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Setup {
    /// Nodes and how many accelerators each has.
    pub(crate) nodes: Vec<(&'static str, u32)>,
    /// Flags of the arbiter that differ from those below.
    pub(crate) arbiter_flags: Vec<String>,
    /// Flags of each agent.
    pub(crate) agent_flags: Vec<String>,
    /// Queues, in YAML.
    pub(crate) queues: Option<String>,
    /// A library that agents are started with.
    pub(crate) agent_environment: Vec<(&'static str, String)>,
}

impl Setup {
    /// Nodes named in `nodes`, with so many accelerators each.
    pub(crate) fn nodes(nodes: &[(&'static str, u32)]) -> Self {
        Self { nodes: nodes.to_vec(), ..Self::default() }
    }

    /// Adds flags of the arbiter, separated by spaces.
    pub(crate) fn arbiter(mut self, flags: &str) -> Self {
        self.arbiter_flags.extend(flags.split_whitespace().map(str::to_owned));
        self
    }

    /// Starts everything and waits until the arbiter knows all nodes.
    pub(crate) fn start(self) -> Cluster {
        let mut cluster = Cluster::unstarted(self);
        cluster.start_arbiter();
        for (node, _) in cluster.setup.nodes.clone() {
            cluster.start_agent(node);
        }
        cluster.wait_connected();
        cluster
    }
}

/// The cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) setup: Setup,
    pub(crate) runtime: Runtime,
    arbiter: Option<Process>,
    agents: Vec<(String, Process)>,
    launchers: Vec<Process>,
    /// Where the arbiter listens, if not on a socket below the directory.
    pub(crate) listen: Option<String>,
    /// A command that agents are started with, and its arguments.
    pub(crate) agent_prefix: Vec<String>,
    /// The connection to the present arbiter.
    pub(crate) admin: RefCell<Option<AdminClient<Channel>>>,
    root: TempDir,
}

impl Cluster {
    /// A cluster of which nothing runs yet.
    pub(crate) fn unstarted(setup: Setup) -> Self {
        let flock = Command::new("flock").arg("--version").output();
        assert!(flock.is_ok(), "the program flock is missing; install util-linux");
        let root = tempfile::Builder::new().prefix("sluice-it-").tempdir().unwrap();
        for dir in ["state", "logs"] {
            std::fs::create_dir(root.path().join(dir)).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self {
            setup,
            runtime,
            arbiter: None,
            agents: Vec::new(),
            launchers: Vec::new(),
            listen: None,
            agent_prefix: Vec::new(),
            admin: RefCell::new(None),
            root,
        }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.path("state")
    }

    /// Where the arbiter listens.
    pub(crate) fn arbiter_address(&self) -> String {
        let socket = || format!("unix:{}", self.path("arbiter.sock").display());
        self.listen.clone().unwrap_or_else(socket)
    }

    pub(crate) fn agent_socket(&self, node: &str) -> PathBuf {
        self.state_dir().join("run").join(format!("{node}.sock"))
    }

    /// A command with this cluster's marks.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = command(program, self.root());
        command
            .env("SLUICE_STATE_DIR", self.state_dir())
            .env("SLUICE_ARBITER", self.arbiter_address())
            .current_dir(self.root());
        command
    }

    /// Starts a process of this cluster.
    pub(crate) fn spawn(&self, name: &str, command: &mut Command) -> Process {
        Process::start(name, command, &self.path("logs"))
    }

    /// The arbiter's command line.
    pub(crate) fn arbiter_command(&self) -> Command {
        let mut command = self.command(ARBITER);
        command.args(["--listen", &self.arbiter_address(), "--log", "info"]);
        for (flag, ms) in [
            ("--arm-timeout-ms", 25_000),
            ("--release-grace-ms", 10_000),
            ("--productive-floor-ms", 0),
            ("--heartbeat-ms", 500),
        ] {
            if !self.setup.arbiter_flags.iter().any(|given| given == flag) {
                command.args([flag, &ms.to_string()]);
            }
        }
        if let Some(queues) = &self.setup.queues {
            let file = self.path("queues.yaml");
            std::fs::write(&file, queues).unwrap();
            command.arg("--queues").arg(file);
        }
        command.args(&self.setup.arbiter_flags);
        command
    }

    /// Starts the arbiter, or starts it again, and waits until it serves.
    pub(crate) fn start_arbiter(&mut self) {
        self.admin.replace(None);
        let mut arbiter = self.spawn("arbiter", &mut self.arbiter_command());
        await_ready(&mut arbiter, "sluice-arbiter ready: ");
        self.arbiter = Some(arbiter);
    }

    /// From now on `arbiter`, which serves at the same address, is the arbiter.
    pub(crate) fn adopt_arbiter(&mut self, arbiter: Process) {
        self.admin.replace(None);
        self.arbiter = Some(arbiter);
    }

    /// The arbiter's process; the cluster has none any more.
    pub(crate) fn take_arbiter(&mut self) -> Process {
        self.admin.replace(None);
        self.arbiter.take().expect("the arbiter was started")
    }

    /// SIGKILL to the arbiter.
    pub(crate) fn kill_arbiter(&mut self) {
        self.arbiter().kill();
        self.admin.replace(None);
    }

    pub(crate) fn arbiter(&mut self) -> &mut Process {
        self.arbiter.as_mut().expect("the arbiter was started")
    }

    /// The command line of the agent of `node`.
    pub(crate) fn agent_command(&self, node: &str) -> Command {
        let mut words = self.agent_prefix.iter().map(String::as_str).chain([AGENT]);
        let mut command = self.command(words.next().unwrap_or(AGENT));
        command.args(words);
        command.args(["--node", node, "--log", "info", "--process-interval-ms", "1000"]);
        // A training that is told to end while it saves leaves what would keep the demo trainer from resuming.
        command.arg("--quarantine-torn");
        let devices = self.setup.nodes.iter().find(|(name, _)| *name == node);
        if let Some((_, devices @ 1..)) = devices {
            command.args(["--simulate", &format!("nvidia-l4={devices}")]);
        }
        command.args(&self.setup.agent_flags).envs(self.setup.agent_environment.clone());
        command
    }

    /// Starts the agent of `node`, or starts it again, and waits until it serves.
    pub(crate) fn start_agent(&mut self, node: &str) {
        let mut agent = self.spawn(&format!("agent-{node}"), &mut self.agent_command(node));
        await_ready(&mut agent, "sluice-agent ready: ");
        self.agents.retain(|(name, _)| name != node);
        self.agents.push((node.to_owned(), agent));
    }

    pub(crate) fn agent(&mut self, node: &str) -> &mut Process {
        let agent = self.agents.iter_mut().find(|(name, _)| name == node);
        &mut agent.unwrap_or_else(|| panic!("no agent of node {node} was started")).1
    }

    pub(crate) fn kill_agent(&mut self, node: &str) {
        self.agent(node).kill();
    }

    /// Stops the agent of `node` as a hung machine would: it is there and does nothing.
    pub(crate) fn stop_agent(&mut self, node: &str) {
        self.agent(node).signal(Signal::SIGSTOP);
    }

    pub(crate) fn continue_agent(&mut self, node: &str) {
        self.agent(node).signal(Signal::SIGCONT);
    }

    /// Starts `sluice run` with `flags` for `worker`, which keeps its devices locked while it lives.
    pub(crate) fn run(&mut self, name: &str, flags: &str, worker: &[&str]) {
        let mut command = self.command(SLUICE);
        command.args(["run", "--name", name]).args(flags.split_whitespace());
        command.args(["--", "sh", "-c", LOCKED, "worker"]).args(worker);
        let launcher = self.spawn(&format!("run-{name}"), &mut command);
        self.launchers.push(launcher);
    }

    /// Adds a launcher that was started otherwise.
    pub(crate) fn adopt(&mut self, launcher: Process) {
        self.launchers.push(launcher);
    }

    /// The launcher of rank `rank` of workload `name`, by the order of starts.
    pub(crate) fn launcher(&mut self, name: &str, rank: usize) -> &mut Process {
        let process = format!("run-{name}");
        let mut launchers = self.launchers.iter_mut().filter(|l| l.name() == process);
        launchers.nth(rank).unwrap_or_else(|| panic!("no launcher {rank} of {name} was started"))
    }

    /// Starts a workload that just holds `devices` for as long as it is let, with priority 100.
    pub(crate) fn serve(&mut self, name: &str, devices: u32, flags: &str) {
        let flags = format!("--priority 100 --resource nvidia.com/gpu={devices} {flags}");
        self.run(name, &flags, &["sleep", "600"]);
    }

    /// Runs a command of `sluice` to its end.
    pub(crate) fn sluice(&self, arguments: &[&str]) -> Process {
        let mut command = self.command(SLUICE);
        let mut process = self.spawn("sluice", command.args(arguments));
        process.wait();
        process
    }

    /// Worker starts so far, in order: name (`workload/attempt/rank`) and devices.
    pub(crate) fn starts(&self) -> Vec<(String, Vec<String>)> {
        let text = std::fs::read_to_string(self.path("starts")).unwrap_or_default();
        let start = |line: &str| {
            let (worker, devices) = line.split_once(' ').unwrap_or((line, ""));
            (worker.to_owned(), devices.split(',').map(str::to_owned).collect())
        };
        text.lines().map(start).collect()
    }

    /// Fails if a device was ever given to a worker while another one had it.
    pub(crate) fn assert_no_device_given_twice(&self) {
        let doubled = std::fs::read_to_string(self.path("doubled")).unwrap_or_default();
        assert_eq!(doubled, "", "devices given to a second worker; starts: {:?}", self.starts());
    }

    fn wait_connected(&self) {
        let names: Vec<&str> = self.setup.nodes.iter().map(|(name, _)| *name).collect();
        self.wait("all agents to connect and report", |cluster| {
            let nodes = cluster.nodes()?;
            let is_up = |name: &&str| {
                nodes.iter().any(|n| n.name == **name && n.connected && has_devices(n, cluster))
            };
            names.iter().all(is_up).then_some(())
        });
    }
}

fn has_devices(node: &pb::NodeSummary, cluster: &Cluster) -> bool {
    let expected = cluster.setup.nodes.iter().find(|(name, _)| *name == node.name);
    let expected = expected.map_or(0, |(_, devices)| *devices as usize);
    node.report.as_ref().map_or(0, |report| report.devices.len()) == expected
}

fn await_ready(process: &mut Process, expected: &str) {
    let line = wait_for(&format!("{} to be ready", process.name()), || {
        process.first_line().or_else(|| {
            let ended = process.exited();
            assert!(ended.is_none(), "ended instead of getting ready: {}", process.tail());
            None
        })
    });
    assert!(line.starts_with(expected), "{line:?}");
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        if failed {
            eprintln!("{}", self.picture());
            for process in self.arbiter.iter_mut().chain(self.agents.iter_mut().map(|(_, p)| p)) {
                eprintln!("{}", process.tail());
            }
            for process in &mut self.launchers {
                eprintln!("{}", process.tail());
            }
        }
        self.launchers.clear();
        self.agents.clear();
        self.arbiter = None;
        sweep(self.root());
        if failed && std::env::var_os("SLUICE_TEST_KEEP").is_some() {
            self.root.disable_cleanup(true);
            eprintln!("kept: {}", self.root().display());
        } else if !failed {
            self.assert_no_device_given_twice();
        }
    }
}
