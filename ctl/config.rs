//! `sluice config`: looks at files of queues without anybody who runs.

mod show;
#[cfg(test)]
mod tests;
mod view;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use sluice::queues::{self, Problems};

use crate::args::Global;
use crate::failure::{EXIT_USAGE, Failure};
use crate::output::{self, Document, Format};
use crate::text::{count, safe};

/// Looks at files of queues.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// What to do with them.
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Says everything that is wrong with files of queues, or what they define.
    Check(CheckArgs),
}

/// Flags of `sluice config check`.
#[derive(Debug, Args)]
#[command(after_help = "\
The files together are one configuration, in Kueue's own YAML. Nothing has to run.

Notes say what else should be known, also what sluice-arbiter would refuse although a cluster takes it.

Exit status: 64 if something is wrong, 0 otherwise: notes do not count.

Examples:
  sluice config check queues.yaml
  sluice config check flavors.yaml cluster-queues.yaml local-queues.yaml
  kubectl get clusterqueues,localqueues,resourceflavors,cohorts,topologies,admissionchecks -A -o yaml | sluice config check -
  sluice config check -o json queues.yaml | jq '.problems[] | {code, file, path}'")]
struct CheckArgs {
    /// The files; - is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How to print it.
    #[arg(long, short, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Format,
}

/// Runs `sluice config`; the exit status to leave with.
///
/// # Errors
/// Something is wrong with the files, or standard output cannot be written.
pub(crate) fn config(global: &Global, args: &ConfigArgs) -> Result<u8, Failure> {
    match &args.command {
        ConfigCommand::Check(args) => check(global, args),
    }
}

fn check(global: &Global, args: &CheckArgs) -> Result<u8, Failure> {
    let mut found = queues::load(&args.files);
    if let Ok(queues) = &mut found {
        let unserved = queues::unserved(queues);
        queues.notes.extend(unserved);
    }
    let view = match &found {
        Ok(queues) => view::CheckView::of(queues),
        Err(problems) => view::CheckView::of_problems(problems),
    };
    if let Some(text) = output::encode(args.output, &Document::new("ConfigCheck", &view))? {
        output::write_stdout(text.as_bytes())?;
        return Ok(if found.is_ok() { 0 } else { EXIT_USAGE });
    }
    match &found {
        Ok(queues) => output::print(global.color, &show::text(queues)).map(|()| 0),
        Err(problems) => Err(failure(problems)),
    }
}

/// All problems, one a line.
fn failure(problems: &Problems) -> Failure {
    let mut message =
        format!("the configuration cannot be used: {}", count(problems.count(), "problem"));
    for problem in &problems.problems {
        let (code, text) = (problem.kind.code(), safe(&problem.to_string()));
        message.push_str(&format!("\n  {text} [{code}]"));
    }
    if problems.left_out > 0 {
        message.push_str(&format!("\n  and {} more", problems.left_out));
    }
    Failure::usage(message)
}
