//! `sluice simulate`: what a cluster would do with a trace of workloads, in virtual time.

mod plot;
mod render;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use sluice::simulate::{
    Error, Mode, Outcome, Overrides, PlainNodes, PolicyName, Scenario, Summary, load,
};

use crate::args::Global;
use crate::failure::Failure;
use crate::output::{self, Document, Format};
use crate::text::safe;

/// Most nodes of a bare trace.
const NODES_MAX: i64 = 1_000_000;
/// Most GPUs of a node.
const GPUS_PER_NODE_MAX: i64 = 1_024;

/// Runs a cluster and a trace of workloads in virtual time, with and without draining.
#[derive(Debug, Args)]
#[command(after_help = "\
FILE is a YAML file that describes queues, nodes and workloads, or a bare trace (.csv, .json).
docs/simulate.md has every field and column, and says exactly what is simulated.

The same input gives the same bytes on standard output. How fast the engine decided is on standard error.

Examples:
  sluice simulate manifests/simulate/training-and-serving.yaml
  sluice simulate jobs.csv --nodes 8 --gpus-per-node 8     a trace of your own, without any queues
  sluice simulate jobs.csv --queues queues.yaml --by queue  the same in Kueue's own queues
  sluice simulate cluster.yaml --policy compat              victims chosen as Kueue chooses them
  sluice simulate cluster.yaml --mode drain -o json | jq .runs[0].total
  sluice simulate cluster.yaml --plot result.svg")]
pub(crate) struct SimulateArgs {
    /// What is simulated.
    file: PathBuf,
    /// How victims leave: killed at once, drained, or one run of each.
    #[arg(long, value_enum, default_value = "both", value_name = "MODE")]
    mode: ModeArg,
    /// Who chooses victims. Without it: what FILE says, else sluice.
    #[arg(long, value_enum, value_name = "POLICY")]
    policy: Option<PolicyArg>,
    /// Also show the figures of each class of workloads or of each queue.
    #[arg(long, value_enum, value_name = "WHAT")]
    by: Option<By>,
    /// How to print it.
    #[arg(long, short, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Format,
    /// Also draw utilisation, waiting times and losses into this file.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Seed of generated workloads. Without it: what FILE says, else 0.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// For a bare trace: queues in Kueue's YAML; may be repeated. Without it: one queue with all GPUs.
    #[arg(long, value_name = "FILE")]
    queues: Vec<PathBuf>,
    /// For a bare trace: number of nodes.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    nodes: Option<u32>,
    /// For a bare trace: GPUs of each node, as nvidia.com/gpu.
    #[arg(long, value_name = "NUMBER", default_value = "8", value_parser = clap::value_parser!(u32).range(1..=GPUS_PER_NODE_MAX))]
    gpus_per_node: u32,
}

/// Which runs are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ModeArg {
    /// Victims are killed.
    Kill,
    /// Victims save first, if they can.
    Drain,
    /// One run of each.
    Both,
}

impl ModeArg {
    fn modes(self) -> &'static [Mode] {
        match self {
            Self::Kill => &[Mode::Kill],
            Self::Drain => &[Mode::Drain],
            Self::Both => &[Mode::Kill, Mode::Drain],
        }
    }
}

/// Who chooses victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PolicyArg {
    /// Sluice: least work lost, capacity held, no thrash.
    Sluice,
    /// As Kueue does.
    Compat,
}

/// By what figures are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// Class of workloads.
    Class,
    /// Queue.
    Queue,
}

/// One run, with what the plot needs of it.
#[derive(Debug)]
struct Run {
    outcome: Outcome,
    summary: Summary,
    cpu: Duration,
}

/// What is printed as JSON and YAML.
#[derive(Debug, Serialize)]
struct View<'a> {
    file: String,
    runs: Vec<&'a Summary>,
}

/// Runs `sluice simulate`.
///
/// # Errors
/// The input cannot be used, the simulation does not end, or the plot cannot be written.
pub(crate) fn simulate(global: &Global, args: &SimulateArgs) -> Result<(), Failure> {
    args.plot.as_deref().map_or(Ok(()), check_plot)?;
    let scenario = load(&args.file, &overrides(args)).map_err(|error| failure(&error))?;
    for warning in &scenario.warnings {
        eprintln!("warning: {}", safe(warning));
    }
    let mut runs = Vec::new();
    for mode in args.mode.modes() {
        let run = run(&scenario, *mode).map_err(|error| failure(&error))?;
        eprintln!("{}", render::speed(&run));
        runs.push(run);
    }
    if let Some(path) = &args.plot {
        write_plot(path, &plot::draw(&scenario, &runs)?)?;
    }
    let file = args.file.display().to_string();
    let view = View { file, runs: runs.iter().map(|run| &run.summary).collect() };
    if let Some(text) = output::encode(args.output, &Document::new("Simulation", &view))? {
        return output::write_stdout(text.as_bytes());
    }
    let is_wide = args.output == Format::Wide;
    output::print(global.color, &render::table(&scenario, &runs, args.by, is_wide))
}

fn overrides(args: &SimulateArgs) -> Overrides {
    Overrides {
        policy: args.policy.map(|policy| match policy {
            PolicyArg::Sluice => PolicyName::Sluice,
            PolicyArg::Compat => PolicyName::Compat,
        }),
        seed: args.seed,
        queues: args.queues.clone(),
        nodes: args.nodes.map(|count| PlainNodes { count, gpus_per_node: args.gpus_per_node }),
    }
}

fn failure(error: &Error) -> Failure {
    let text = safe(&error.to_string());
    match error {
        Error::Read { .. } | Error::Input { .. } | Error::Queues { .. } => {
            Failure::usage(text).hint("docs/simulate.md has every field and column")
        }
        Error::Endless { .. } => Failure::runtime(text),
    }
}

fn run(scenario: &Scenario, mode: Mode) -> Result<Run, Error> {
    let before = cpu_time();
    let outcome = sluice::simulate::simulate(scenario, mode)?;
    let cpu = cpu_time().saturating_sub(before);
    let summary = Summary::new(scenario, mode, &outcome);
    Ok(Run { outcome, summary, cpu })
}

/// CPU time that this process has used; 0 where the system does not say.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Only an SVG file is written over, never by mistake what is simulated.
fn check_plot(path: &Path) -> Result<(), Failure> {
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svg")) {
        return Ok(());
    }
    let message = format!("--plot is \"{}\" but must end in .svg", path.display());
    Err(Failure::usage(message).hint("the plot is an SVG picture, and replaces what is there"))
}

fn write_plot(path: &Path, svg: &str) -> Result<(), Failure> {
    std::fs::write(path, svg).map_err(|error| {
        Failure::runtime(format!("could not write the plot to \"{}\": {error}", path.display()))
    })
}
