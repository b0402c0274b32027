//! The command-line client of Sluice.

use std::process::ExitCode;

use clap::Parser;

mod server;
mod trainer;

#[derive(Parser)]
#[command(name = "sluice", version)]
struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    #[command(hide = true)]
    DemoTrain(trainer::DemoTrainArgs),
    #[command(hide = true)]
    DemoServe(server::DemoServeArgs),
}

fn main() -> ExitCode {
    match Flags::try_parse() {
        Ok(Flags { command: Command::DemoTrain(args) }) => trainer::run(&args),
        Ok(Flags { command: Command::DemoServe(args) }) => server::run(&args),
        Err(error) => {
            // Nothing is left to do if the terminal is gone.
            let _ = error.print();
            if error.use_stderr() { ExitCode::from(64) } else { ExitCode::SUCCESS }
        }
    }
}
