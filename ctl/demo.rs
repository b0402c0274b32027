//! `sluice demo`: what checkpoint-drain is worth, shown on this machine in about a minute.
//!
//! Fine-tuning and serving share six accelerators; serving needs two more. The same story is played
//! twice with the real programs: once the fine-tuning gang is drained, once it is ended at once, as
//! schedulers do it. Then both are compared with each other and with a run that nobody disturbed.
//! Everything that is shown was observed: in the trainer's log, in the arbiter's record and in
//! `/proc`; every promise that is printed was checked, and a broken one is the exit status.
//!
//! The parts: `stage` starts and ends programs, `cast` finds their processes, `observe` looks at
//! what happens, `setting` and `act` are the story, `narrator` tells it, `training` reads the trainer's log,
//! `verdict` judges.

mod act;
mod cast;
mod narrator;
mod observe;
mod setting;
mod stage;
mod training;
mod verdict;

use std::time::Duration;

use clap::Args;
use nix::sys::signal::Signal;

use crate::args::Global;
use crate::failure::{EXIT_FAILURE, Failure};
use crate::output::{self, Document};
use crate::run::signals::{self, Signals};

use narrator::{Narrator, Who};
use setting::{Policy, Undisturbed};
use stage::Stage;
use verdict::Evidence;

/// Longest time for the whole play. Ending the programs takes 7 s more at most, so that it is over
/// within 90 s. On an idle machine it takes about 50 s.
const PLAY_PATIENCE: Duration = Duration::from_secs(82);

/// Flags of `sluice demo`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
It needs no accelerator, no network and no configuration, and leaves nothing behind: an arbiter,
three agents with two simulated NVIDIA L4 each, two servers and a trainer run in a temporary
directory, as real processes.

Exit status:
  0 every promise was kept · 1 one was broken, or something failed · 64 bad flags
  128+N ended by signal N

Examples:
  sluice demo
  sluice demo --keep                    leaves logs, checkpoints and records to look at
  sluice demo -o json | jq .promises")]
pub(crate) struct DemoArgs {
    /// Keep the directory with logs, checkpoints and records, and name it at the end.
    #[arg(long)]
    keep: bool,
    /// How the result is printed. With json only the result goes to standard output.
    #[arg(long, short, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Format,
}

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// The story as it happens, then a table.
    Text,
    /// One JSON document at the end.
    Json,
}

/// Runs `sluice demo`; the exit status to leave with.
///
/// # Errors
/// A program is missing, fails or does not do its part in time.
pub(crate) async fn demo(global: &Global, args: DemoArgs) -> Result<u8, Failure> {
    let mut signals = Signals::install(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
    let mut stage = Stage::open()?;
    let mut narrator = match args.output {
        Format::Text => Narrator::on_stdout(global.color),
        Format::Json => Narrator::on_terminal_only(global.color),
    };
    let played = tokio::select! {
        played = tokio::time::timeout(PLAY_PATIENCE, play(&mut stage, &mut narrator)) => {
            played.unwrap_or_else(|_| Err(took_too_long(&stage)))
        }
        signal = signals.next() => Err(interrupted(signal)),
    };
    narrator.clear_live();
    stage.end().await;
    if let Some(dir) = stage.close(args.keep)? {
        narrator.say(Who::Stage, &format!("everything is kept in {}", dir.display()));
    }
    let evidence = played?;
    let promises = verdict::promises(&evidence);
    let is_kept = promises.iter().all(|p| p.kept);
    match args.output {
        Format::Text => narrator.verdict(&verdict::text(&evidence, &promises)),
        Format::Json => print_json(&verdict::Result::new(&evidence, promises))?,
    }
    Ok(if is_kept { 0 } else { EXIT_FAILURE })
}

async fn play(stage: &mut Stage, narrator: &mut Narrator) -> Result<Evidence, Failure> {
    setting::prologue(narrator);
    let undisturbed = Undisturbed::start(stage)?;
    let mut drained = act::perform(stage, narrator, Policy::CheckpointDrain).await?;
    let undisturbed = undisturbed.finish(stage, narrator).await?;
    drained.left_running = stage.end().await;
    let mut killed = act::perform(stage, narrator, Policy::Kill).await?;
    killed.left_running = stage.end().await;
    let elapsed_ms = narrator.elapsed_ms();
    Ok(Evidence { undisturbed, drained, killed, elapsed_ms })
}

fn took_too_long(stage: &Stage) -> Failure {
    let seconds = PLAY_PATIENCE.as_secs();
    Failure::runtime(format!("the demo was not over after {seconds} s{}", stage.tails()))
        .hint("is this machine very busy? it takes about a minute on two idle cores")
}

fn interrupted(signal: Signal) -> Failure {
    let exit = signals::exit_status(signal);
    Failure { exit, ..Failure::runtime(format!("{signal}: everything was ended")) }
}

fn print_json(result: &verdict::Result) -> Result<(), Failure> {
    let document = Document::new("Demo", result);
    let encoded = output::encode(output::Format::Json, &document)?;
    output::write_stdout(encoded.unwrap_or_default().as_bytes())
}
