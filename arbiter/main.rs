//! The arbiter: decides who gets which devices and who is drained for whom.

#![forbid(unsafe_code)]

mod admin;
mod agents;
mod audit;
mod config;
#[cfg(test)]
mod in_process;
#[cfg(feature = "kubernetes")]
mod k8s;
mod metrics;
mod record;
mod run;
mod server;
mod store;
mod view;

use std::process::ExitCode;

use clap::Parser;
use sluice::net::ListenError;
use sluice::telemetry;

use config::{Config, Flags, Task};

/// Bad flags or configuration (`EX_USAGE`).
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(error) => {
            // Nothing is left to do if the terminal is gone.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(EXIT_USAGE) } else { ExitCode::SUCCESS };
        }
    };
    match flags.task {
        Some(Task::Replay { ref files }) => record::replay::main(files),
        None => serve(flags),
    }
}

fn serve(flags: Flags) -> ExitCode {
    // Nothing is opened or bound yet.
    let config = match Config::from_flags(flags) {
        Ok(config) => config,
        Err(error) => {
            complain(&error);
            return ExitCode::from(EXIT_USAGE);
        }
    };
    telemetry::init(&config.log);
    match server::run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            if is_usage(&error) { ExitCode::from(EXIT_USAGE) } else { ExitCode::FAILURE }
        }
    }
}

/// An address that other machines reach is a mistake in the flags, though only looking it up shows it.
fn is_usage(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<ListenError>(), Some(ListenError::NotLoopback { .. }))
}

/// Logging is not up yet, and may never be.
fn complain(error: &anyhow::Error) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "sluice-arbiter: {error:#}");
}
