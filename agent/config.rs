//! What the agent is told at its start: flags, checked before anything is opened or bound.

#[cfg(test)]
mod tests;
mod volumes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Parser;
use sluice::net::{ARBITER_DEFAULT, Address};
use sluice::paths::{ARBITER_VARIABLE, Paths};
use sluice::telemetry::{LOG_DEFAULT, LOG_VARIABLE, LogFilter};
use sluice_core::id::NodeName;

use crate::pods::CGROUP_ROOT;
use crate::sensor::disk::VolumePolicy;
use crate::sensor::gpu::NvmlChoice;
use crate::sensor::simulated::Simulated;

/// Shortest time between two samples of anything. Below it the agent would cost more than what it tells is worth.
const INTERVAL_MS_MIN: u64 = 100;

/// Longest. Beyond it a report says nothing about now.
const INTERVAL_MS_MAX: u64 = 600_000;

/// Watches one node and carries out drains on it.
#[derive(Debug, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "switches, each on its own")]
#[command(name = "sluice-agent", version, about, max_term_width = 100)]
pub(crate) struct Flags {
    /// Name of this node; the host's name if not given
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Where the arbiter listens: host:port or unix:/path
    #[arg(long, value_name = "ADDR", env = ARBITER_VARIABLE, default_value = ARBITER_DEFAULT)]
    arbiter: String,
    /// Root of all state [default: $SLUICE_STATE_DIR, $XDG_STATE_HOME/sluice, ~/.local/state/sluice]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Socket on which people and launchers reach this agent [default: <state dir>/run/<node>.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Where Prometheus scrapes: host:port, or off
    #[arg(long, value_name = "ADDR|off", default_value = "off")]
    listen_metrics: String,
    /// A label of this node, by which the arbiter's flavors and topologies know it; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    node_label: Vec<String>,
    /// Where the host's / is seen
    #[arg(long, value_name = "DIR", default_value = "/")]
    host_root: PathBuf,
    /// Accelerators that are not there, such as nvidia-l4=2; may be repeated
    #[arg(long, value_name = "KIND=N")]
    simulate: Vec<String>,
    /// Time between two samples of the disks, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    disk_interval_ms: u64,
    /// Time between two samples of the accelerators, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5_000)]
    device_interval_ms: u64,
    /// NVIDIA's library by which GPUs are asked: off, auto (if there is a GPU or a library, and nothing is simulated),
    /// or its path
    #[arg(long, value_name = "off|auto|PATH", default_value = "auto")]
    nvml: String,
    /// How long NVIDIA's driver may not answer before it is Unresponsive and who asks it is ended, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 45_000)]
    nvml_unresponsive_ms: u64,
    /// Time between two passes over the process table, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5_000)]
    process_interval_ms: u64,
    /// The kernel's log, from which faults of GPUs are read; or a file or pipe with such records; or off
    #[arg(long, value_name = "PATH|off", default_value = "/dev/kmsg")]
    kmsg_path: PathBuf,
    /// Take records of the kernel's log that programs wrote, too: for tests, as anybody who may write there can then
    /// take devices out of service
    #[arg(long)]
    kmsg_any_facility: bool,
    /// Take faults that nobody saw from sluice inject-fault: for fire drills
    #[arg(long)]
    allow_fault_injection: bool,
    /// What is logged: a level, or levels by module
    #[arg(long, value_name = "FILTER", env = LOG_VARIABLE, default_value = LOG_DEFAULT)]
    log: String,
    /// Allow --listen-metrics on addresses that other machines can reach
    #[arg(long)]
    insecure_listen: bool,
    /// Rename a checkpoint that was being written when its worker ended to *.sluice-incomplete: trainers that resume
    /// from the highest number would crash on it
    #[arg(long)]
    quarantine_torn: bool,
    /// Append what is done to workers to this file, as lines of JSON; it is rotated: eight files of 16 MiB at most
    #[arg(long, value_name = "PATH")]
    audit_log: Option<PathBuf>,
    /// Where cgroups are mounted, as the host sees it
    #[arg(long, value_name = "DIR", default_value = CGROUP_ROOT)]
    cgroup_root: PathBuf,
    #[command(flatten)]
    volumes: volumes::VolumeFlags,
}

/// The flags after all checks.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "switches, each on its own")]
pub(crate) struct Config {
    /// Name of this node.
    pub(crate) node: NodeName,
    /// Labels of this node.
    pub(crate) labels: BTreeMap<String, String>,
    /// Where the arbiter listens.
    pub(crate) arbiter: Address,
    /// Root of all state.
    pub(crate) paths: Paths,
    /// The agent's own socket.
    pub(crate) socket: PathBuf,
    /// Where Prometheus scrapes; `None`: nowhere.
    pub(crate) metrics: Option<Address>,
    /// Other machines may reach the metrics.
    pub(crate) is_insecure_allowed: bool,
    /// Put aside what a worker that has ended left half-written.
    pub(crate) quarantine_torn: bool,
    /// Where it is written down what is done to workers; `None`: nowhere.
    pub(crate) audit_log: Option<PathBuf>,
    /// Where the host's `/` is seen.
    pub(crate) host_root: PathBuf,
    /// Accelerators that are not there.
    pub(crate) simulated: Vec<Simulated>,
    /// Time between two samples of the disks.
    pub(crate) disk_interval: Duration,
    /// Time between two samples of the accelerators.
    pub(crate) device_interval: Duration,
    /// Whether and how NVIDIA GPUs are asked.
    pub(crate) nvml: NvmlChoice,
    /// How long their driver may not answer.
    pub(crate) nvml_unresponsive: Duration,
    /// Time between two passes over the process table.
    pub(crate) process_interval: Duration,
    /// The kernel's log; `None`: it is not read.
    pub(crate) kmsg: Option<PathBuf>,
    /// Take records of it that programs wrote.
    pub(crate) is_any_facility_taken: bool,
    /// Take faults that nobody saw.
    pub(crate) is_injection_allowed: bool,
    /// What is logged.
    pub(crate) log: LogFilter,
    /// Where the host's cgroups are mounted.
    pub(crate) cgroup_root: PathBuf,
    /// What volumes are meant to be.
    pub(crate) volumes: VolumePolicy,
}

impl Config {
    /// Checks the flags.
    ///
    /// # Errors
    /// The first flag that cannot be used: which, its value, why, and what would do.
    pub(crate) fn from_flags(flags: Flags) -> Result<Self, String> {
        let node = match flags.node {
            Some(name) => parse("--node", &name)?,
            None => host_name()?,
        };
        let paths = Paths::find(flags.state_dir.as_deref()).map_err(|e| e.to_string())?;
        let socket = flags.socket.unwrap_or_else(|| paths.agent_socket(&node));
        if !socket.is_absolute() {
            return Err(format!("--socket is {socket:?} but must be an absolute path"));
        }
        if !flags.host_root.is_dir() {
            let root = &flags.host_root;
            return Err(format!(
                "--host-root is {root:?}, which is no directory; give the place where the host's / is mounted"
            ));
        }
        if !flags.cgroup_root.is_absolute() {
            let root = &flags.cgroup_root;
            return Err(format!("--cgroup-root is {root:?} but must be an absolute path"));
        }
        let metrics = match flags.listen_metrics.as_str() {
            "off" => None,
            address => Some(parse("--listen-metrics", address)?),
        };
        let simulated: Result<Vec<_>, String> = flags.simulate.iter().map(|s| s.parse()).collect();
        Ok(Self {
            labels: labels(&flags.node_label)?,
            arbiter: parse("--arbiter", &flags.arbiter)?,
            socket,
            metrics,
            is_insecure_allowed: flags.insecure_listen,
            quarantine_torn: flags.quarantine_torn,
            audit_log: flags.audit_log,
            host_root: flags.host_root,
            simulated: simulated?,
            disk_interval: interval("--disk-interval-ms", flags.disk_interval_ms)?,
            device_interval: interval("--device-interval-ms", flags.device_interval_ms)?,
            process_interval: interval("--process-interval-ms", flags.process_interval_ms)?,
            kmsg: Some(flags.kmsg_path).filter(|path| path.as_os_str() != "off"),
            is_any_facility_taken: flags.kmsg_any_facility,
            is_injection_allowed: flags.allow_fault_injection,
            nvml: nvml(&flags.nvml, !flags.simulate.is_empty())?,
            nvml_unresponsive: unresponsive(flags.nvml_unresponsive_ms)?,
            log: parse("--log", &flags.log)?,
            cgroup_root: flags.cgroup_root,
            volumes: flags.volumes.policy()?,
            node,
            paths,
        })
    }
}

fn parse<T: FromStr<Err: std::fmt::Display>>(flag: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|error| format!("{flag}: {error}"))
}

fn interval(flag: &str, value_ms: u64) -> Result<Duration, String> {
    if (INTERVAL_MS_MIN..=INTERVAL_MS_MAX).contains(&value_ms) {
        return Ok(Duration::from_millis(value_ms));
    }
    Err(format!(
        "{flag} is {value_ms} but must be between {INTERVAL_MS_MIN} and {INTERVAL_MS_MAX}; shorter costs too much, \
         longer tells nothing about now"
    ))
}

fn nvml(value: &str, is_simulated: bool) -> Result<NvmlChoice, String> {
    match value {
        "off" => Ok(NvmlChoice::Off),
        // Whoever simulates accelerators does not want to see those of the machine besides.
        "auto" if is_simulated => Ok(NvmlChoice::Off),
        "auto" => Ok(NvmlChoice::Auto),
        path if path.starts_with('/') => Ok(NvmlChoice::Library(path.into())),
        other => Err(format!(
            "--nvml is \"{other}\" but must be off, auto, or the absolute path of libnvidia-ml.so.1"
        )),
    }
}

/// Shortest time after which a driver that does not answer is Unresponsive. A driver takes seconds to start.
const UNRESPONSIVE_MS_MIN: u64 = 500;

fn unresponsive(value_ms: u64) -> Result<Duration, String> {
    if (UNRESPONSIVE_MS_MIN..=INTERVAL_MS_MAX).contains(&value_ms) {
        return Ok(Duration::from_millis(value_ms));
    }
    Err(format!(
        "--nvml-unresponsive-ms is {value_ms} but must be between {UNRESPONSIVE_MS_MIN} and {INTERVAL_MS_MAX}; a driver \
         takes seconds to start, and what hangs for minutes should be told"
    ))
}

/// Most labels of one node. A GKE node has about 60.
const LABELS_MAX: usize = 256;
/// Longest key of a label: a prefix of 253 bytes, a slash, a name of 63.
const LABEL_KEY_BYTES_MAX: usize = 317;
/// Longest value of a label.
const LABEL_VALUE_BYTES_MAX: usize = 63;

fn labels(flags: &[String]) -> Result<BTreeMap<String, String>, String> {
    if flags.len() > LABELS_MAX {
        return Err(format!(
            "--node-label is given {} times; the limit is {LABELS_MAX}",
            flags.len()
        ));
    }
    let mut labels = BTreeMap::new();
    for flag in flags {
        let parts = flag.split_once('=').filter(|(key, value)| is_label(key, value));
        let Some((key, value)) = parts else {
            return Err(format!(
                "--node-label is {flag:?} but must be KEY=VALUE, such as topology.example.com/rack=r7: a key of 1 to \
                 {LABEL_KEY_BYTES_MAX} and a value of up to {LABEL_VALUE_BYTES_MAX} letters, digits, '-', '_', '.' \
                 (and '/' in the key)"
            ));
        };
        if labels.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(format!(
                "--node-label {key:?} is given twice; a node has one value for each key"
            ));
        }
    }
    Ok(labels)
}

fn is_label(key: &str, value: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=LABEL_KEY_BYTES_MAX).contains(&key.len())
        && value.len() <= LABEL_VALUE_BYTES_MAX
        && key.bytes().all(|b| is_plain(b) || b == b'/')
        && value.bytes().all(is_plain)
}

fn host_name() -> Result<NodeName, String> {
    let give = "give this node a name with --node";
    let name = nix::unistd::gethostname().map_err(|e| format!("no host name: {e}; {give}"))?;
    let name = name.to_string_lossy().into_owned();
    name.parse().map_err(|e| format!("the host's name cannot be used: {e}; {give}"))
}
