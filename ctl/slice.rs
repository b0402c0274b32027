//! `sluice slice`: where slices of TPUs would go, on an inventory in a file. Nothing is changed by asking.

mod ask;
mod defrag;
mod fit;
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
}

/// Runs `sluice slice`; the exit status to leave with.
///
/// # Errors
/// The inventory or the request cannot be used, or standard output cannot be written.
pub(crate) fn slice(global: &Global, args: &SliceArgs) -> Result<u8, Failure> {
    match &args.command {
        SliceCommand::Fit(args) => fit::fit(global, args),
        SliceCommand::Defrag(args) => defrag::defrag(global, args),
    }
}
