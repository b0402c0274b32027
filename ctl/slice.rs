//! `sluice slice`: where slices of TPUs are, and would go: on an inventory in a file, or as the arbiter sees it.
//! Nothing is changed by asking.

mod ask;
mod defrag;
mod fit;
mod map;
mod plan;
mod svg;
#[cfg(test)]
mod tests;
mod view;

use clap::{Args, Subcommand};

use crate::args::Global;
use crate::failure::Failure;

/// Says where slices of TPUs would go, and what would have to make room.
#[derive(Debug, Args)]
pub(crate) struct SliceArgs {
    /// What to ask.
    #[command(subcommand)]
    command: SliceCommand,
}

#[derive(Debug, Subcommand)]
enum SliceCommand {
    /// Finds a place for slices: free, or made free by draining less important work.
    Fit(fit::FitArgs),
    /// Finds the cheapest moves that make room for slices which fit by capacity and not by shape.
    Defrag(defrag::DefragArgs),
    /// Draws the cubes that the arbiter knows: who is where, and what is wrong.
    Map(map::MapArgs),
    /// Asks the arbiter where slices would go now, and who would give way. Nothing is changed.
    Plan(plan::PlanArgs),
}

/// Runs `sluice slice`; the exit status to leave with.
///
/// # Errors
/// The inventory or the request cannot be used, or standard output cannot be written.
pub(crate) async fn slice(global: &Global, args: &SliceArgs) -> Result<u8, Failure> {
    match &args.command {
        SliceCommand::Fit(args) => fit::fit(global, args),
        SliceCommand::Defrag(args) => defrag::defrag(global, args),
        SliceCommand::Map(args) => map::map(global, args).await,
        SliceCommand::Plan(args) => plan::plan(global, args).await,
    }
}
