//! The command line: what can be asked for, and the flags that every command knows.
//!
//! The flags of a command stand beside its code; their texts are the documentation people read.

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use sluice::net::{ARBITER_DEFAULT, Address};

use crate::compare::CompareArgs;
use crate::config::ConfigArgs;
use crate::control::{CancelArgs, FreezeArgs};
use crate::demo::DemoArgs;
use crate::describe::DescribeArgs;
use crate::doctor::DoctorArgs;
use crate::drill::{ClearFaultsArgs, InjectFaultArgs};
use crate::explain::ExplainArgs;
use crate::get::GetArgs;
use crate::gpus::ReleaseArgs;
use crate::paint::When;
use crate::rehearse::RehearseArgs;
use crate::run::RunArgs;
use crate::simulate::SimulateArgs;
use crate::slice::SliceArgs;
use crate::status::StatusArgs;
use crate::up::UpArgs;
use crate::volume::VolumeArgs;
use crate::{server, trainer};

const EXAMPLES: &str = "\
Examples:
  sluice up --simulate nvidia-l4=2               an arbiter and a node with two simulated GPUs
  sluice run --resource nvidia.com/gpu=1 -- python train.py
  sluice get workloads                           who runs, who waits and why
  sluice explain train-x7k2p                     why it waits or was drained, and what that cost
  sluice status                                  this node, also with the arbiter down
  sluice doctor                                  what is wrong with this installation

Exit status:
  0 done · 1 failure · 64 bad flags or configuration · 69 arbiter or agent not reachable
  sluice run: the worker's own exit status, 128+N if signal N ended it";

/// Keeps scarce accelerators busy without throwing training work away.
///
/// One arbiter decides who gets which accelerators. When more important work needs them, a running
/// training job is drained: it saves a checkpoint, Sluice checks from outside that it is complete,
/// and only then are the devices handed over. The job goes on later from where it was.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Flags of every command.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command knows.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Where the arbiter is: host:port or unix:/path.
    #[arg(long, global = true, env = "SLUICE_ARBITER", default_value = ARBITER_DEFAULT, value_name = "ADDR", hide_env_values = true)]
    pub(crate) arbiter: Address,
    /// Socket of an agent on this machine; may be repeated. Without it: those in $SLUICE_AGENT_SOCKET
    /// (separated by colons), else every *.sock in <state dir>/run and in /run/sluice.
    #[arg(long = "agent-socket", global = true, value_name = "PATH")]
    pub(crate) agent_sockets: Vec<PathBuf>,
    /// Where state and sockets lie. Without it: $SLUICE_STATE_DIR, $XDG_STATE_HOME/sluice or
    /// ~/.local/state/sluice.
    #[arg(long, global = true, value_name = "DIR", value_parser = absolute_dir)]
    pub(crate) state_dir: Option<PathBuf>,
    /// How long one question to the arbiter or an agent may take.
    #[arg(long, global = true, default_value = "10s", value_name = "SPAN", value_parser = parse_timeout)]
    pub(crate) timeout: Duration,
    /// When to colour the output. NO_COLOR is respected.
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    pub(crate) color: When,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs an arbiter and agents on this machine, in the foreground.
    Up(UpArgs),
    /// Runs a command when it is its turn, and again after each drain.
    Run(Box<RunArgs>),
    /// Lists nodes, devices, volumes, queues, workloads or drains.
    Get(GetArgs),
    /// Shows everything about one node, device, volume, queue, workload or drain.
    Describe(DescribeArgs),
    /// Says why a workload waits or was drained, and what that cost.
    Explain(ExplainArgs),
    /// Shows the nodes of this machine as their agents see them; works with the arbiter down.
    Status(StatusArgs),
    /// Checks the installation and says how to repair it.
    Doctor(DoctorArgs),
    /// Gives a workload up.
    Cancel(CancelArgs),
    /// Tries a save on a live worker: does it save, how long does that take, does it go on?
    Rehearse(RehearseArgs),
    /// Stops all new decisions: the kill switch.
    Freeze(FreezeArgs),
    /// Lets decisions go on.
    Unfreeze,
    /// Makes the agents of this machine let go of the GPUs' driver, for its upgrade or a reset.
    ReleaseGpus(ReleaseArgs),
    /// Makes them ask the driver again.
    ResumeGpus,
    /// Lets an agent of this machine see a fault that is none: a fire drill.
    InjectFault(InjectFaultArgs),
    /// Forgets what stands against a device that somebody has seen to.
    ClearFaults(ClearFaultsArgs),
    /// Shows what checkpoint-drain is worth, on this machine in about a minute.
    Demo(DemoArgs),
    /// Runs a cluster and a trace of workloads in virtual time, with and without draining.
    Simulate(SimulateArgs),
    /// Compares what a preemption costs: kill, grace period, next checkpoint, save signal, worker client.
    Compare(CompareArgs),
    /// Says where slices of TPUs would go, and what would have to make room.
    Slice(SliceArgs),
    /// Plans volumes, shows their limits, and measures one.
    Volume(Box<VolumeArgs>),
    /// Looks at files of queues: what is wrong with them, or what they define.
    Config(ConfigArgs),
    /// Prints a completion script for a shell.
    Completion(CompletionArgs),
    /// Prints the versions of this program and of the arbiter.
    Version,
    #[command(hide = true)]
    DemoTrain(trainer::DemoTrainArgs),
    #[command(hide = true)]
    DemoServe(server::DemoServeArgs),
}

/// Flags of `sluice completion`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  source <(sluice completion bash)
  sluice completion zsh > \"${fpath[1]}/_sluice\"
  sluice completion fish > ~/.config/fish/completions/sluice.fish")]
pub(crate) struct CompletionArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// A shell for which there is completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// A span such as `45s`, `2m`, `1h30m` or `500ms`, above 0 and at most a week.
///
/// # Errors
/// With what was expected, for clap to print.
pub(crate) fn parse_span(text: &str) -> Result<Duration, String> {
    const WEEK: Duration = Duration::from_secs(7 * 86_400);
    let expected = "expected a span such as 45s, 2m, 1h30m or 500ms";
    let span: jiff::SignedDuration = text.parse().map_err(|_| expected.to_owned())?;
    let span = Duration::try_from(span).map_err(|_| format!("{expected}, above 0"))?;
    if span < Duration::from_millis(1) || span > WEEK {
        return Err(format!("{expected}, from 1ms to 168h"));
    }
    Ok(span)
}

/// A directory, made absolute: it means the same to the programs that are started.
fn absolute_dir(text: &str) -> Result<PathBuf, String> {
    std::path::absolute(text).map_err(|e| e.to_string())
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    let span = parse_span(text)?;
    if span > Duration::from_secs(600) {
        return Err("expected at most 10m".to_owned());
    }
    Ok(span)
}
