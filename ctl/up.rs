//! `sluice up`: an arbiter and agents on this machine, in the foreground.
//!
//! The programs are the ones beside this one. They are started one after the other, each when the
//! one before is ready; when one of them ends the others are stopped; a signal stops them all.

mod children;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use clap::Args;
use nix::sys::signal::Signal;
use sluice::net::Address;
use sluice::paths::Paths;
use sluice_core::id::NodeName;

use children::{Children, Stopped};

use crate::args::Global;
use crate::failure::{EXIT_USAGE, Failure};
use crate::output;
use crate::run::signals::Signals;
use crate::text::{count, safe};

/// Most agents on one machine: a laptop that plays cluster.
const NODES_MAX: i64 = 64;

/// Runs an arbiter and agents on this machine, in the foreground.
#[derive(Debug, Args)]
#[command(after_help = "\
It prints one line on standard output when everything is ready, and runs until it is interrupted or
one of its programs ends. Workers that sluice run has started are not touched: they go on, and the
next sluice up finds them again. --arbiter-arg and --agent-arg take any flag that sluice-arbiter
--help and sluice-agent --help show.

Examples:
  sluice up                                      this machine's own accelerators
  sluice up --simulate nvidia-l4=2               two simulated GPUs
  sluice up --nodes 4 --simulate nvidia-h100=8   four nodes with eight each
  sluice up --queues queues.yaml                 queues in Kueue's own YAML
  sluice up --listen 127.0.0.1:0 --state-dir \"$(mktemp -d)\"
  sluice up --arbiter-arg=--productive-floor-ms=5000")]
pub(crate) struct UpArgs {
    /// Simulated accelerators of each node instead of real ones; may be repeated.
    #[arg(long, value_name = "KIND=N")]
    simulate: Vec<String>,
    /// How many agents to run.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=NODES_MAX))]
    nodes: u16,
    /// Name of the node; several get -0, -1, ... appended. Without it: the host's name.
    #[arg(long, value_name = "NAME")]
    node_name: Option<NodeName>,
    /// Queues in Kueue's own YAML. Without it: one queue "default" without limits.
    #[arg(long, value_name = "FILE")]
    queues: Option<PathBuf>,
    /// Where the arbiter listens; port 0 takes a free one. Without it: what --arbiter says.
    #[arg(long, value_name = "ADDR")]
    listen: Option<Address>,
    /// What the programs log, such as "warn" or "info,sluice_arbiter=debug".
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// A flag for the arbiter; may be repeated.
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    arbiter_arg: Vec<String>,
    /// A flag for every agent; may be repeated.
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    agent_arg: Vec<String>,
}

/// Runs `sluice up`; the exit status to leave with.
///
/// # Errors
/// A program is missing, does not start, or ends by itself.
pub(crate) async fn up(global: &Global, args: UpArgs) -> Result<u8, Failure> {
    let paths = Paths::find(global.state_dir.as_deref());
    let paths = paths.map_err(|e| Failure::usage(e.to_string()))?;
    let programs = Programs::find()?;
    let nodes = node_names(&args)?;
    let mut signals = Signals::install(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
    let mut children = Children::default();
    let outcome = tokio::select! {
        outcome = serve(global, &args, &paths, &programs, &nodes, &mut children) => outcome,
        signal = signals.next() => Ok(signal),
    };
    if let Ok(signal) = &outcome {
        eprintln!("sluice up: {signal}: stopping");
    }
    let stopped = tokio::select! {
        stopped = children.stop() => stopped,
        // Whoever asks twice does not want to wait.
        _ = signals.next() => children.kill().await,
    };
    match (outcome, stopped) {
        (Err(failure), _) => Err(failure),
        (Ok(_), Stopped::InTime) => Ok(0),
        (Ok(_), Stopped::Killed(names)) => {
            let names = names.join(", ");
            Err(Failure::runtime(format!("did not stop in time and had to be killed: {names}")))
        }
    }
}

/// Starts everything and waits until one of the programs ends, which is a failure.
async fn serve(
    global: &Global,
    args: &UpArgs,
    paths: &Paths,
    programs: &Programs,
    nodes: &[NodeName],
    children: &mut Children,
) -> Result<Signal, Failure> {
    let listen = args.listen.as_ref().unwrap_or(&global.arbiter).to_string();
    let mut flags = vec!["--listen".to_owned(), listen];
    flags.extend(shared_flags(args, paths));
    if let Some(queues) = &args.queues {
        flags.extend(["--queues".to_owned(), queues.display().to_string()]);
    }
    flags.extend(args.arbiter_arg.iter().cloned());
    let ready = children.start("sluice-arbiter", &programs.arbiter, &flags).await?;
    let address = grpc_address(&ready)?;
    for node in nodes {
        let name = format!("sluice-agent of {node}");
        let mut flags = vec!["--node".to_owned(), node.to_string()];
        flags.extend(["--arbiter".to_owned(), address.to_string()]);
        flags.extend(shared_flags(args, paths));
        for simulated in &args.simulate {
            flags.extend(["--simulate".to_owned(), simulated.clone()]);
        }
        flags.extend(args.agent_arg.iter().cloned());
        children.start(&name, &programs.agent, &flags).await?;
    }
    announce(global, &address, paths, nodes)?;
    Err(children.first_end().await)
}

fn shared_flags(args: &UpArgs, paths: &Paths) -> Vec<String> {
    let mut flags = vec!["--state-dir".to_owned(), paths.root().display().to_string()];
    if let Some(log) = &args.log {
        flags.extend(["--log".to_owned(), log.clone()]);
    }
    flags
}

/// The names of the nodes: of the host, or with a number each if there are several.
fn node_names(args: &UpArgs) -> Result<Vec<NodeName>, Failure> {
    let base = match &args.node_name {
        Some(name) => name.to_string(),
        None => {
            let host = nix::unistd::gethostname();
            let host = host.map_err(|e| Failure::runtime(format!("no host name: {e}")))?;
            host.to_string_lossy().into_owned()
        }
    };
    let names = match args.nodes {
        1 => vec![base],
        nodes => (0..nodes).map(|number| format!("{base}-{number}")).collect(),
    };
    let parse = |name: &String| name.parse::<NodeName>();
    let names: Result<Vec<_>, _> = names.iter().map(parse).collect();
    names.map_err(|e| Failure::usage(e.to_string()).hint("give another with --node-name"))
}

/// Where the arbiter really listens, from its ready line.
fn grpc_address(ready: &str) -> Result<Address, Failure> {
    let word = ready.split_whitespace().find_map(|w| w.strip_prefix("grpc="));
    let address = word.and_then(|w| w.parse().ok());
    address.ok_or_else(|| {
        let line = safe(ready);
        Failure::runtime(format!("sluice-arbiter said {line:?} instead of where it listens"))
            .hint("the programs beside this one may be of another version")
    })
}

/// Tells that all is ready, and how to go on.
fn announce(
    global: &Global,
    address: &Address,
    paths: &Paths,
    nodes: &[NodeName],
) -> Result<(), Failure> {
    let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
    let mut text = format!(
        "\nSluice is up: an arbiter at {address} and {}. In another terminal:\n\n",
        count(names.len(), "node")
    );
    if *address.to_string() != *sluice::net::ARBITER_DEFAULT {
        text.push_str(&format!("  export SLUICE_ARBITER={address}\n"));
    }
    if global.state_dir.is_some() {
        text.push_str(&format!("  export SLUICE_STATE_DIR={}\n", paths.root().display()));
    }
    text.push_str(
        "  sluice get devices              what there is
  sluice run -- sleep 60          a workload that holds one GPU
  sluice get workloads            who runs, who waits and why
  sluice status                   this machine

Ctrl-C stops it.\n",
    );
    eprintln!("{text}");
    let ready = format!("sluice up ready: arbiter={address} nodes={}\n", names.join(","));
    match output::write_stdout(ready.as_bytes()) {
        // Whoever waited for the line may have gone; serving goes on without it.
        Err(failure) if failure.exit == 0 => Ok(()),
        other => other,
    }
}

/// The programs that are started.
#[derive(Debug)]
struct Programs {
    arbiter: PathBuf,
    agent: PathBuf,
}

impl Programs {
    /// Finds them beside this program.
    fn find() -> Result<Self, Failure> {
        let own = std::env::current_exe();
        let own = own.map_err(|e| Failure::runtime(format!("where is this program? {e}")))?;
        let dir = own.parent().unwrap_or(Path::new("/"));
        Ok(Self { arbiter: sibling(dir, "sluice-arbiter")?, agent: sibling(dir, "sluice-agent")? })
    }
}

/// The program `name` in `dir`.
pub(crate) fn sibling(dir: &Path, name: &str) -> Result<PathBuf, Failure> {
    let path = dir.join(name);
    if path.is_file() {
        return Ok(path);
    }
    let (name, dir) = (safe(name), dir.display());
    Err(Failure { exit: EXIT_USAGE, ..Failure::runtime(format!("{name} is not in \"{dir}\"")) }
        .hint("install it beside sluice; from source: cargo build"))
}
