//! The flags of `sluice run`, checked before anything is submitted.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use nix::sys::signal::Signal;

use sluice::queues::Quantity;
use sluice::wire::{checkpoint as wire, pb};
use sluice_core::id::{NodeName, QueueName, ResourceName, WorkloadName};
use sluice_core::kueue::workload::TopologyMode;
use sluice_core::workload::{RANKS_MAX, RESOURCES_MAX};

use super::command;
use crate::args::parse_span;
use crate::failure::Failure;

const HELP: &str = "\
The worker is started in its own process group with this environment:
  SLUICE_WORKLOAD, SLUICE_WORKER (<workload>/<attempt>/<rank>), SLUICE_NODE, SLUICE_NODE_UID,
  SLUICE_DEVICES, SLUICE_CHECKPOINT_DIR, SLUICE_DRAIN_DIR (for the worker client),
  CUDA_VISIBLE_DEVICES, RANK, WORLD_SIZE; LOCAL_RANK in a gang
Standard input, output and error are its own. INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to
it. Its terminal stays with sluice run: a worker that reads from a terminal is stopped by it.

When the worker is drained it ends, and starts again when it is admitted again: it should resume
from the newest checkpoint in $SLUICE_CHECKPOINT_DIR. The arbiter may be restarted meanwhile.

Exit status:
  the worker's own; 128+N if signal N ended it
  1    the workload was cancelled, or another rank of it failed (the worker was ended)
  64   bad flags · 69 no arbiter or no agent reachable
  126  the command cannot be executed · 127 the command does not exist
  130  interrupted while it waited: the workload is cancelled

Examples:
  sluice run --resource nvidia.com/gpu=2 --checkpoint-dir /data/ckpt -- python train.py
  sluice run --queue prod --priority 100 -- ./serve --port 8000
  sluice run --save-signal USR1 --checkpoint-dir out -- ./train.sh
  sluice run --name slice --slice 2x2x2 --nnodes 2 --node-rank 0 -- python train.py    (likewise)
  sluice run --name big --nnodes 2 --node-rank 0 -- torchrun train.py    (and rank 1 likewise)";

/// Runs a command when it is its turn, and again after each drain.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
#[expect(clippy::struct_excessive_bools, reason = "switches, each on its own")]
pub(crate) struct RunArgs {
    /// Queue that the workload is charged to.
    #[arg(long, default_value = "default")]
    queue: QueueName,
    /// Higher goes first and may preempt lower.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_name = "NUMBER")]
    priority: i32,
    /// What each rank needs; may be repeated. Whole units: devices, CPUs, bytes, also as in memory=16Gi. Without it:
    /// nvidia.com/gpu=1.
    #[arg(long = "resource", value_name = "NAME=COUNT", value_parser = parse_resource)]
    resources: Vec<(ResourceName, u64)>,
    /// Name of the workload. Without it: the command's name and five random characters.
    #[arg(long)]
    name: Option<WorkloadName>,
    /// Ranks of the gang: all start or none. Each needs its own sluice run with the same --name.
    #[arg(long, default_value_t = 1, value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..=i64::from(RANKS_MAX)))]
    nnodes: u32,
    /// Which rank this is, from 0.
    #[arg(long, default_value_t = 0, value_name = "RANK")]
    node_rank: u32,
    /// How the ranks must lie to each other: required=LEVEL, preferred=LEVEL or unconstrained. A level is a label of
    /// the nodes, such as topology.example.com/rack.
    #[arg(long, value_name = "MODE[=LEVEL]", value_parser = parse_topology)]
    topology: Option<TopologyMode>,
    /// Slices of TPUs that the ranks run on, such as 2x2x2 or 4x4x8: the chips of each are wired together. Each rank
    /// gets google.com/tpu=4, a whole host, unless --resource says otherwise.
    #[arg(long, value_name = "SHAPE", conflicts_with = "topology")]
    slice: Option<String>,
    /// How many such slices: all start or none. Ranks are spread evenly over them, the first on the first.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "slice", value_parser = clap::value_parser!(u32).range(1..=i64::from(RANKS_MAX)))]
    slices: u32,
    /// Generation of the TPUs, or the value of the node label. Without it: that of the nodes.
    #[arg(long, value_name = "NAME", requires = "slice")]
    slice_generation: Option<String>,
    /// Refuses degraded partitions.
    #[arg(long, requires = "slice")]
    slice_healthy_only: bool,
    /// Workloads of one group, such as prefill and decode of a server, go to one block if there is a choice.
    #[arg(long, value_name = "NAME", requires = "slice")]
    slice_group: Option<String>,
    /// Where the worker keeps its checkpoints; created if it does not exist.
    #[arg(long, value_name = "DIR")]
    checkpoint_dir: Option<PathBuf>,
    /// How they look; auto finds it out.
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        value_name = "FORMAT",
        requires = "checkpoint_dir"
    )]
    checkpoint_format: CheckpointFormat,
    /// Which names are checkpoints, with the format generic: * is any text, ? any character.
    #[arg(long, value_name = "GLOB", requires = "checkpoint_dir")]
    checkpoint_glob: Option<String>,
    /// The file that is written last, with the format generic: of this name in a checkpoint that is a directory;
    /// beside one that is a file, its name with this appended. Without it: no change for a while.
    #[arg(long, value_name = "NAME", requires = "checkpoint_glob")]
    checkpoint_marker: Option<String>,
    /// Where the checkpoint directory is seen a second time, such as another mount of the bucket: a checkpoint counts
    /// once it is complete there too.
    #[arg(long, value_name = "DIR", requires = "checkpoint_dir")]
    checkpoint_remote: Option<PathBuf>,
    /// Signal that makes the worker save: USR1, SIGUSR1 or 10.
    #[arg(long, value_name = "SIGNAL", value_parser = parse_signal)]
    save_signal: Option<i32>,
    /// The worker ends by itself after it has saved on that signal.
    #[arg(long, requires = "save_signal")]
    exits_after_save: bool,
    /// The signal is known to make the worker save: it is used without having been tried with sluice rehearse.
    #[arg(long, requires = "save_signal")]
    save_signal_proven: bool,
    /// Time after which something kills the worker once it was told to end. torchrun's 30 seconds are found without it.
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    grace: Option<Duration>,
    /// How long this workload waits for the checkpoint of one it preempts. Without it: the
    /// arbiter's default.
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    drain_deadline: Option<Duration>,
    /// Run only on this node of those whose agents are reachable here; may be repeated.
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<NodeName>,
    /// Say nothing but errors.
    #[arg(long, short)]
    quiet: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// How checkpoints look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CheckpointFormat {
    /// Found out from what lies in the directory.
    Auto,
    /// checkpoint-N/ directories of the Hugging Face Trainer.
    HuggingFace,
    /// A directory per step by torch.distributed.checkpoint.
    TorchDistributed,
    /// iter_NNNNNNN/ directories of Megatron-LM.
    Megatron,
    /// global_stepN/ directories of DeepSpeed.
    DeepSpeed,
    /// Step directories of Orbax.
    Orbax,
    /// .ckpt files and directories of Lightning and NeMo.
    Lightning,
    /// Written under a temporary name and renamed.
    Rename,
    /// What --checkpoint-glob matches.
    Generic,
}

impl CheckpointFormat {
    fn wire(self) -> pb::CheckpointFormat {
        match self {
            Self::Auto => pb::CheckpointFormat::Unspecified,
            Self::HuggingFace => pb::CheckpointFormat::HuggingFace,
            Self::Rename => pb::CheckpointFormat::Rename,
            Self::TorchDistributed => pb::CheckpointFormat::TorchDistributed,
            Self::Megatron => pb::CheckpointFormat::Megatron,
            Self::DeepSpeed => pb::CheckpointFormat::DeepSpeed,
            Self::Orbax => pb::CheckpointFormat::Orbax,
            Self::Lightning => pb::CheckpointFormat::Lightning,
            Self::Generic => pb::CheckpointFormat::Generic,
        }
    }
}

/// What is to be run: the flags after all checks.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// What is submitted.
    pub(crate) spec: pb::WorkloadSpec,
    /// The rank of this process.
    pub(crate) rank: u32,
    /// The program's file.
    pub(crate) program: PathBuf,
    /// The command as given, at least one word.
    pub(crate) command: Vec<OsString>,
    /// If not empty: only these nodes.
    pub(crate) nodes: Vec<NodeName>,
    /// Say nothing but errors.
    pub(crate) quiet: bool,
}

impl RunArgs {
    /// Checks the flags against this machine; creates the checkpoint directory.
    ///
    /// # Errors
    /// 126 or 127 for the command, 64 for everything else.
    pub(crate) fn plan(self) -> Result<Plan, Failure> {
        if self.node_rank >= self.nnodes {
            let (rank, nnodes) = (self.node_rank, self.nnodes);
            let message = format!("--node-rank is {rank} but must be below --nnodes {nnodes}");
            return Err(Failure::usage(message).hint("ranks count from 0"));
        }
        if self.nnodes > 1 && self.name.is_none() {
            let message = "--nnodes is above 1 but --name is missing";
            return Err(Failure::usage(message).hint("give all ranks of the gang the same --name"));
        }
        let program = command::find(&self.command[0])?;
        let checkpoint_dir = self.checkpoint_dir.as_deref().map(checkpoint_dir).transpose()?;
        let name = match self.name {
            Some(name) => name.to_string(),
            None => command::workload_name(&program, &mut fastrand::Rng::new()),
        };
        let remote_dir = self.checkpoint_remote.as_deref().map(remote_dir).transpose()?;
        check_remote(checkpoint_dir.as_deref(), remote_dir.as_deref())?;
        let (format, checkpoint_rules) = rules(
            self.checkpoint_format,
            self.checkpoint_glob,
            self.checkpoint_marker,
            remote_dir.unwrap_or_default(),
        )?;
        let is_slice = self.slice.is_some();
        let slice = self.slice.map(|shape| pb::SliceSpec {
            generation: self.slice_generation.unwrap_or_default(),
            shape,
            count: self.slices,
            healthy_only: self.slice_healthy_only,
            group: self.slice_group,
        });
        let spec = pb::WorkloadSpec {
            slice,
            name,
            queue: self.queue.to_string(),
            priority: self.priority,
            nnodes: self.nnodes,
            resources: resources(self.resources, is_slice)?,
            checkpoint_dir: checkpoint_dir.unwrap_or_default(),
            checkpoint_format: format.wire().into(),
            save_signal: self.save_signal.unwrap_or(0),
            exits_after_save: self.exits_after_save,
            save_signal_proven: self.save_signal_proven,
            grace_ms: self.grace.map(whole_ms),
            drain_deadline_ms: self.drain_deadline.map_or(0, whole_ms),
            command: self.command.iter().map(|c| c.to_string_lossy().into_owned()).collect(),
            topology: self.topology.as_ref().map(Into::into),
            checkpoint_rules,
        };
        let (rank, command, nodes, quiet) = (self.node_rank, self.command, self.nodes, self.quiet);
        Ok(Plan { spec, rank, program, command, nodes, quiet })
    }
}

fn whole_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).expect("the parser allows a week at most")
}

fn parse_topology(text: &str) -> Result<TopologyMode, String> {
    let (mode, level) = text.split_once(['=', ':']).unwrap_or((text, ""));
    match (mode, level) {
        ("required", level) if !level.is_empty() => Ok(TopologyMode::Required(level.to_owned())),
        ("preferred", level) if !level.is_empty() => Ok(TopologyMode::Preferred(level.to_owned())),
        ("unconstrained", "") => Ok(TopologyMode::Unconstrained),
        _ => {
            Err("use required=LEVEL, preferred=LEVEL or unconstrained; a level is a node label key"
                .to_owned())
        }
    }
}

fn resources(
    given: Vec<(ResourceName, u64)>,
    is_slice: bool,
) -> Result<BTreeMap<String, u64>, Failure> {
    if given.is_empty() && is_slice {
        return Ok(BTreeMap::from([("google.com/tpu".to_owned(), 4)]));
    }
    if given.is_empty() {
        return Ok(BTreeMap::from([("nvidia.com/gpu".to_owned(), 1)]));
    }
    if given.len() > RESOURCES_MAX {
        let message = format!("--resource is given {} times", given.len());
        return Err(Failure::usage(message).hint(format!("at most {RESOURCES_MAX} are allowed")));
    }
    let mut resources = BTreeMap::new();
    for (name, count) in given {
        if resources.insert(name.to_string(), count).is_some() {
            return Err(Failure::usage(format!("--resource {name} is given twice")));
        }
    }
    Ok(resources)
}

/// The format, which a glob decides, and the rules declared.
fn rules(
    format: CheckpointFormat,
    glob: Option<String>,
    marker: Option<String>,
    remote_dir: String,
) -> Result<(CheckpointFormat, Option<pb::CheckpointRules>), Failure> {
    let format = match (format, &glob) {
        (CheckpointFormat::Auto, Some(_)) => CheckpointFormat::Generic,
        (CheckpointFormat::Generic, _) | (_, None) => format,
        (other, Some(glob)) => {
            let value = clap::ValueEnum::to_possible_value(&other);
            let named = value.as_ref().map_or("?", |v| v.get_name());
            let message = format!(
                "--checkpoint-glob {glob:?} goes only with --checkpoint-format generic, not {named}"
            );
            return Err(Failure::usage(message)
                .hint("leave one of the two out: a framework's format knows its own names"));
        }
    };
    let (glob, marker) = (glob.unwrap_or_default(), marker.unwrap_or_default());
    let rules = pb::CheckpointRules { glob, marker, remote_dir };
    let core = wire::format(format.wire().into());
    let checked = core.and_then(|core| wire::rules(Some(&rules), core));
    checked.map_err(|wrong| Failure::usage(format!("checkpoints cannot be told: {wrong}")))?;
    Ok((format, (rules != pb::CheckpointRules::default()).then_some(rules)))
}

/// A second look at the same place would confirm every checkpoint at once.
fn check_remote(dir: Option<&str>, remote: Option<&str>) -> Result<(), Failure> {
    let real = |path: &str| std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
    match dir.zip(remote) {
        Some((dir, remote)) if real(dir) == real(remote) => {
            let message = format!("--checkpoint-remote {remote:?} is --checkpoint-dir itself");
            Err(Failure::usage(message).hint(
                "give the place where the checkpoints are seen once they are stored, such as another mount of the bucket",
            ))
        }
        Some(_) | None => Ok(()),
    }
}

/// The second look as an absolute path. It need not exist yet: a mount may come later.
fn remote_dir(dir: &Path) -> Result<String, Failure> {
    let shown = dir.display();
    let usage = |why: String| Failure::usage(format!("--checkpoint-remote \"{shown}\" {why}"));
    let absolute = std::path::absolute(dir).map_err(|e| usage(format!("is no path: {e}")))?;
    let text = absolute.into_os_string().into_string();
    text.map_err(|_| usage("has a name that is not UTF-8".to_owned()))
}

/// The directory as an absolute path, created if it does not exist.
fn checkpoint_dir(dir: &Path) -> Result<String, Failure> {
    let shown = dir.display();
    let usage = |why: String| Failure::usage(format!("--checkpoint-dir \"{shown}\" {why}"));
    let absolute = std::path::absolute(dir).map_err(|e| usage(format!("is no path: {e}")))?;
    if absolute.exists() && !absolute.is_dir() {
        return Err(usage("is not a directory".to_owned()).hint("give the directory it lies in"));
    }
    std::fs::create_dir_all(&absolute)
        .map_err(|e| usage(format!("does not exist and could not be created: {e}")))?;
    let text = absolute.into_os_string().into_string();
    text.map_err(|_| usage("has a name that is not UTF-8".to_owned()))
}

fn parse_resource(text: &str) -> Result<(ResourceName, u64), String> {
    let expected = "expected NAME=COUNT such as nvidia.com/gpu=2 or memory=16Gi";
    let (name, count) = text.split_once('=').ok_or(expected)?;
    let name = name.parse().map_err(|e: sluice_core::id::NameError| e.to_string())?;
    let quantity = Quantity::parse(count).and_then(|quantity| quantity.count(1));
    let amount = quantity.map_err(|error| format!("{count:?} {error}; {expected}"))?;
    match u64::try_from(amount.value) {
        Ok(whole) if whole > 0 && amount.is_exact => Ok((name, whole)),
        Ok(0) => Err(format!("the count is 0; {expected}")),
        // A part of a CPU or of a device cannot be asked for here.
        Ok(_) | Err(_) => Err(format!("{count:?} is not a whole number; {expected}")),
    }
}

/// A signal by name (with or without SIG) or number.
fn parse_signal(text: &str) -> Result<i32, String> {
    let expected = "expected a signal such as USR1, SIGUSR1 or 10";
    let number = match text.parse::<i32>() {
        Ok(number) => number,
        Err(_) => {
            let upper = text.to_ascii_uppercase();
            let full = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
            full.parse::<Signal>().map_err(|_| expected.to_owned())? as i32
        }
    };
    if !(1..=64).contains(&number) {
        return Err(format!("{number} is no signal number (1 to 64); {expected}"));
    }
    if [Signal::SIGKILL as i32, Signal::SIGSTOP as i32].contains(&number) {
        return Err("no process can save on KILL or STOP: they cannot be caught".to_owned());
    }
    Ok(number)
}
