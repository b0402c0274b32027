//! `sluice-agent`: watches one node, tells the arbiter, and carries out drains.

#![deny(unsafe_code)]

mod checkpoint;
mod client;
mod clock;
mod config;
mod executor;
mod health;
mod journal;
mod metrics;
mod node_api;
mod nvml;
mod pods;
mod report;
mod run;
mod sensor;
mod signals;
mod uplink;

use std::process::ExitCode;

use clap::Parser;
use tracing::error;

use crate::config::{Config, Flags};
use crate::run::StartError;

/// Exit status for bad flags or configuration (`EX_USAGE`).
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == nvml::CHILD_COMMAND) {
        return nvml::child_main(arguments);
    }
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(error) => {
            // Nothing can be done if the terminal is gone.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let config = match Config::from_flags(flags) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("sluice-agent: {error}");
            return ExitCode::from(USAGE);
        }
    };
    sluice::telemetry::init(&config.log);
    match run::run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            error!("{why}");
            match why {
                StartError::Usage(_) => ExitCode::from(USAGE),
                StartError::Failed(_) => ExitCode::FAILURE,
            }
        }
    }
}
