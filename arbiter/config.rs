//! Flags, and what they mean once checked. Nothing is opened or bound here except the queues file.

#[cfg(feature = "kubernetes")]
mod cluster;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use sluice::net::Address;
use sluice::paths::Paths;
use sluice::queues::{FILE_BYTES_MAX, priorities, served};
use sluice::telemetry::LogFilter;
use sluice::volumes::persistent;
use sluice_core::arbiter;
use sluice_core::queue::Queues;
use sluice_core::scheduler::{Rule, Rules};
use sluice_core::volume::read_ahead::Asked;

/// Decides who gets which accelerators, and drains workloads with their work saved.
#[derive(Debug, Parser)]
#[command(name = "sluice-arbiter", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Flags {
    /// Instead of serving.
    #[command(subcommand)]
    pub task: Option<Task>,
    #[command(flatten)]
    serve: ServeFlags,
    #[command(flatten)]
    times: TimeFlags,
    #[cfg(feature = "kubernetes")]
    #[command(flatten)]
    cluster: cluster::ClusterFlags,
}

/// What to do instead of serving.
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Run recorded inputs again and report the first output that differs (exit status 1 if one does).
    Replay {
        /// Files of the flight recorder, in order; several must follow each other.
        #[arg(required = true, num_args = 1..)]
        files: Vec<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct ServeFlags {
    /// Where agents and the command line connect: host:port or unix:/path.
    #[arg(long, value_name = "ADDR", default_value = sluice::net::ARBITER_DEFAULT)]
    listen: Address,
    /// Allow --listen and --listen-metrics on addresses that other machines reach. Nothing protects them.
    #[arg(long)]
    insecure_listen: bool,
    /// Where Prometheus reads metrics: host:port, or "off".
    #[arg(long, value_name = "ADDR|off", default_value = "off")]
    listen_metrics: OffOr<Address>,
    /// Directory for state; by default $SLUICE_STATE_DIR, $XDG_STATE_HOME/sluice or ~/.local/state/sluice.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Queues in Kueue's own YAML; without it one queue "default" without limits whose workloads
    /// preempt those of lower priority.
    #[arg(long, value_name = "FILE")]
    queues: Option<PathBuf>,
    /// PersistentVolumes as "kubectl get pv -o yaml" prints them: agents are told what read-ahead their mount options
    /// ask for.
    #[arg(long, value_name = "FILE")]
    persistent_volumes: Option<PathBuf>,
    /// Whose rules decide: "sluice" adds its own to Kueue's, "compat" is Kueue alone.
    #[arg(long, value_name = "sluice|compat", default_value = "sluice")]
    policy: PolicyName,
    /// Switch one of Sluice's own rules off; may be repeated. docs/deciding.md lists them.
    #[arg(long, value_name = "RULE")]
    rule_off: Vec<Rule>,
    /// Share unused quota as Kueue's fair sharing does.
    #[arg(long)]
    fair_sharing: bool,
    /// End victims at once instead of waiting for a checkpoint: what a scheduler without drains does.
    #[arg(long)]
    no_checkpoint_drain: bool,
    /// Keep the inputs of the last hours so that any decision can be replayed.
    #[arg(long, value_name = "on|off", default_value = "on")]
    record: Switch,
    /// Append every decision to this file, as a line of JSON. It is rotated: eight files of 16 MiB at most.
    #[arg(long, value_name = "PATH")]
    audit_log: Option<PathBuf>,
    /// How long preemptors of a priority class wait for a victim's checkpoint, such as serving=45s; may be repeated.
    /// The class is a WorkloadPriorityClass or PriorityClass of the queues file, or a number.
    #[arg(long = "deadline", value_name = "PRIORITYCLASS=SPAN", value_parser = parse_deadline)]
    deadlines: Vec<(String, u64)>,
    /// What to log, such as "info" or "info,sluice_arbiter=debug".
    #[arg(long, value_name = "FILTER", env = sluice::telemetry::LOG_VARIABLE, default_value_t)]
    log: LogFilter,
}

/// Durations. All in ms.
#[derive(Debug, Args)]
struct TimeFlags {
    /// How long a preemptor waits for a victim's checkpoint unless its own submission says otherwise.
    #[arg(long, value_name = "MS", default_value_t = 60_000, value_parser = value_parser!(u64).range(0..=86_400_000))]
    drain_deadline_ms: u64,
    /// Time between SIGTERM and SIGKILL when a worker is told to end.
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = value_parser!(u64).range(0..=3_600_000))]
    release_grace_ms: u64,
    /// How long agents may take to accept an order before it is taken back.
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = value_parser!(u64).range(10..=600_000))]
    arm_timeout_ms: u64,
    /// How long a drained workload keeps its devices after its next start, at least.
    #[arg(long, value_name = "MS", default_value_t = 30_000, value_parser = value_parser!(u64).range(0..=86_400_000))]
    productive_floor_ms: u64,
    /// How long what a workload needs must have been free, at most, before one that is drained again and again gets it back.
    #[arg(long, value_name = "MS", default_value_t = 300_000, value_parser = value_parser!(u64).range(0..=86_400_000))]
    hold_off_ms_max: u64,
    /// How long a rank may take from admission to start.
    #[arg(long, value_name = "MS", default_value_t = 60_000, value_parser = value_parser!(u64).range(100..=86_400_000))]
    start_timeout_ms: u64,
    /// How long a launcher may be gone while its workload waits.
    #[arg(long, value_name = "MS", default_value_t = 30_000, value_parser = value_parser!(u64).range(100..=86_400_000))]
    launcher_gone_ms: u64,
    /// How long a restarted arbiter waits for agents with running workers before it decides.
    #[arg(long, value_name = "MS", default_value_t = 15_000, value_parser = value_parser!(u64).range(0..=3_600_000))]
    recovery_ms: u64,
    /// Silence after which an agent counts as lost; raised to three heartbeats where those are longer.
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = value_parser!(u64).range(100..=3_600_000))]
    agent_lost_ms: u64,
    /// Time between an agent's heartbeats. 0: by the size of the fleet, 2 s up to 500 agents.
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = value_parser!(u64).range(0..=3_600_000))]
    heartbeat_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PolicyName {
    Sluice,
    Compat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// A value, or the word "off".
#[derive(Debug, Clone, PartialEq, Eq)]
struct OffOr<T>(Option<T>);

impl<T: std::str::FromStr> std::str::FromStr for OffOr<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == "off" { Ok(Self(None)) } else { text.parse().map(|value| Self(Some(value))) }
    }
}

/// Everything the arbiter needs to know to start.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Where to serve gRPC.
    pub listen: Address,
    /// Whether addresses that other machines reach are allowed.
    pub insecure_listen: bool,
    /// Where to serve metrics.
    pub listen_metrics: Option<Address>,
    /// Where state lies.
    pub paths: Paths,
    /// What to log.
    pub log: LogFilter,
    /// Whether inputs are recorded.
    pub record: bool,
    /// Where decisions are written as lines.
    pub audit_log: Option<PathBuf>,
    /// Times of the agents' streams.
    pub agents: AgentTimes,
    /// What PersistentVolumes ask for.
    pub asked: Asked,
    /// What core is told; its epoch is set once the store is open.
    pub core: arbiter::Config,
    /// The cluster in which state lies; `None`: a file.
    #[cfg(feature = "kubernetes")]
    pub cluster: Option<crate::k8s::Settings>,
}

/// Times of the agents' streams. Unit: ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AgentTimes {
    /// Least silence after which an agent is lost.
    pub lost_ms: u64,
    /// Time between heartbeats; 0: by the size of the fleet.
    pub heartbeat_ms: u64,
}

impl Config {
    /// Checks the flags and reads the queues file.
    ///
    /// # Errors
    /// A path that cannot be determined, or queues that cannot be read or used.
    pub(crate) fn from_flags(flags: Flags) -> anyhow::Result<Self> {
        #[cfg(feature = "kubernetes")]
        let cluster = flags.cluster.settings()?;
        let Flags { serve, times, .. } = flags;
        let (queues, classes) = match &serve.queues {
            Some(path) => load_queues(path)?,
            None => (Queues::without_file(), BTreeMap::new()),
        };
        let drain_deadlines_ms = deadlines(&serve.deadlines, &classes)?;
        let rules = serve.rules()?;
        let paths = Paths::find(serve.state_dir.as_deref()).context("bad --state-dir")?;
        Ok(Self {
            core: arbiter::Config {
                queues,
                rules,
                fair_sharing: serve.fair_sharing,
                checkpoint_drain: !serve.no_checkpoint_drain,
                drain_deadlines_ms,
                ..times.core()
            },
            #[cfg(feature = "kubernetes")]
            cluster,
            agents: AgentTimes { lost_ms: times.agent_lost_ms, heartbeat_ms: times.heartbeat_ms },
            asked: match &serve.persistent_volumes {
                Some(file) => persistent::asked(file)
                    .map_err(|why| anyhow!("bad --persistent-volumes: {why}"))?,
                None => Asked::new(),
            },
            listen: serve.listen,
            insecure_listen: serve.insecure_listen,
            listen_metrics: serve.listen_metrics.0,
            paths,
            log: serve.log,
            record: serve.record == Switch::On,
            audit_log: serve.audit_log,
        })
    }
}

impl ServeFlags {
    fn rules(&self) -> anyhow::Result<Rules> {
        match self.policy {
            PolicyName::Sluice => {
                Ok(self.rule_off.iter().fold(Rules::all(), |on, off| on.without(*off)))
            }
            PolicyName::Compat if self.rule_off.is_empty() => Ok(Rules::none()),
            PolicyName::Compat => bail!(
                "--rule-off cannot be used with --policy compat: there all of Sluice's own rules are off"
            ),
        }
    }
}

/// Deadlines by priority, from deadlines by the names of classes.
fn deadlines(
    given: &[(String, u64)],
    classes: &BTreeMap<String, i32>,
) -> anyhow::Result<BTreeMap<i32, u64>> {
    let mut deadlines = BTreeMap::new();
    for (class, deadline_ms) in given {
        let Some(priority) = classes.get(class).copied().or_else(|| class.parse().ok()) else {
            let known: Vec<&str> = classes.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "no classes".to_owned() } else { known.join(", ") };
            bail!(
                "--deadline names priority class {class:?}, which is not in the queues file (it has {known}) and is no number"
            );
        };
        if deadlines.insert(priority, *deadline_ms).is_some() {
            bail!(
                "--deadline is given twice for priority {priority} (the second time as {class:?})"
            );
        }
    }
    Ok(deadlines)
}

/// `CLASS=SPAN`.
fn parse_deadline(text: &str) -> Result<(String, u64), String> {
    const DAY_MS: u64 = 86_400_000;
    let expected = "expected PRIORITYCLASS=SPAN such as serving=45s, with a span of up to 24h";
    let (class, span) = text.split_once('=').ok_or(expected)?;
    let span: jiff::SignedDuration = span.parse().map_err(|_| expected)?;
    let ms = u64::try_from(span.as_millis()).map_err(|_| expected)?;
    if class.is_empty() || ms == 0 || ms > DAY_MS {
        Err(expected.to_owned())
    } else {
        Ok((class.to_owned(), ms))
    }
}

fn load_queues(path: &Path) -> anyhow::Result<(Queues, BTreeMap<String, i32>)> {
    let shown = path.display();
    let size = std::fs::metadata(path)
        .with_context(|| format!("could not read queues file \"{shown}\""))?
        .len();
    if size > FILE_BYTES_MAX {
        bail!("queues file \"{shown}\" has {size} bytes; the limit is {FILE_BYTES_MAX}");
    }
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("could not read queues file \"{shown}\""))?;
    let name = shown.to_string();
    let bad = || format!("bad queues file \"{shown}\"");
    let classes = priorities(&name, text.clone()).with_context(bad)?;
    Ok((served(&name, text).with_context(bad)?, classes))
}

impl TimeFlags {
    fn core(&self) -> arbiter::Config {
        arbiter::Config {
            drain_deadline_ms: self.drain_deadline_ms,
            release_grace_ms: self.release_grace_ms,
            arm_timeout_ms: self.arm_timeout_ms,
            productive_floor_ms: self.productive_floor_ms,
            hold_off_ms_max: self.hold_off_ms_max,
            start_timeout_ms: self.start_timeout_ms,
            launcher_gone_ms: self.launcher_gone_ms,
            recovery_ms: self.recovery_ms,
            generations: sluice::slices::table(),
            ..arbiter::Config::default()
        }
    }
}
