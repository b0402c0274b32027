//! `sluice volume`: plans for volumes, the limits behind them, and what a file's volume gives at this moment.

mod bench;
mod limits;
mod manifest;
mod plan;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use sluice::queues::{Quantity, QuantityError};
use sluice_core::volume::limits::Limits;

use crate::args::Global;
use crate::failure::Failure;

/// Plans volumes, shows their limits, and measures one.
#[derive(Debug, Args)]
pub(crate) struct VolumeArgs {
    #[command(subcommand)]
    command: VolumeCommand,
}

#[derive(Debug, Subcommand)]
enum VolumeCommand {
    /// Says whether a volume can be so, how long loads from it take, and what to set.
    Plan(plan::PlanArgs),
    /// Shows the limits that plans go by, with source and date.
    Limits(limits::LimitsArgs),
    /// Reads a file past the page cache and says what its volume gives.
    Bench(bench::BenchArgs),
}

/// Runs `sluice volume`.
///
/// # Errors
/// What was asked for cannot be, or cannot be measured.
pub(crate) fn volume(global: &Global, args: &VolumeArgs) -> Result<(), Failure> {
    match &args.command {
        VolumeCommand::Plan(args) => plan::run(global, args),
        VolumeCommand::Limits(args) => limits::run(global, args),
        VolumeCommand::Bench(args) => bench::run(global, args),
    }
}

/// The limits: the built-in ones, under those of `file`.
fn table(file: Option<&PathBuf>) -> Result<Limits, Failure> {
    match file {
        None => Ok(sluice::volumes::built_in()),
        Some(file) => {
            let path: &Path = file;
            let hint = "see sluice volume limits, and docs/volumes.md for the form of the file";
            sluice::volumes::with_overrides(path).map_err(|why| Failure::usage(why).hint(hint))
        }
    }
}

/// A quantity of bytes, such as `140Gi`, above 0.
///
/// # Errors
/// With what was expected, for clap to print.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let amount = Quantity::parse(text).and_then(|quantity| quantity.count(1));
    let amount = amount.map_err(|error: QuantityError| error.to_string())?;
    match u64::try_from(amount.value) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        Ok(_) | Err(_) => Err("must be above 0, such as 140Gi".to_owned()),
    }
}
